//! A cache of thread scans between drafts, so that another draft reads only the new events and not the whole thread.
//!
//! The journal stays the source of truth: a cached scan is used only if the journal still has the event at which it
//! ended.

mod budget_cache;
mod quotes;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use protocol::{CarriedFacts, ConversationTopic, Coverage, HandoffSummary, Rule, Seq, ThreadId};
use runtime::StepFailure;

use super::inherited::{InheritedItems, join_facts, join_packages, merge_facts, note_inherited_items};
use super::last_answer::note_last_answer;
use super::{ConversationEnd, EventVisitor, HandoffWindow, ThreadSource, visit_new_events};
use crate::draft::parts::DraftMaterial;
use crate::summary::ground::{GroundingCheck, NamePattern};
use crate::summary::message_use::{DraftSources, classify_messages};
use crate::summary::offline_summary::{
    OfflineSummary, build_offline_summary, has_own_objective, names_in_use,
};
use crate::summary::outline::ConversationOutline;
use crate::summary::redaction::redact_notes;
use crate::summary::rules::without_repeated_rules;
use crate::summary::select::parts::{ConversationDivider, DividedConversation};
use crate::summary::select::{TranscriptSelection, TranscriptSelector};
use budget_cache::BudgetCache;
use facts::GoalMatcher;
use facts::TranscriptItem;
use facts::{ConversationFacts, FactCollector};
use quotes::{parse_event_line, quoted_messages};

/// The maximum number of cached threads.
const CACHED_SCANS_MAX: usize = 8;
/// The maximum size of all cached scans together, in bytes. The newest scan is kept whatever its size.
const CACHED_SCAN_BYTES_MAX: usize = 32 * 1024 * 1024;
/// The assumed size of the facts of one thread in bytes: an upper bound of the usual size.
const FACTS_BYTES: usize = 1024 * 1024;
/// The minimum number of tokens of events that a scan retains, so that a redraft by a model with a larger window can
/// use the same scan.
const SCAN_TOKENS_MIN: u64 = 48_000;

/// A cache of the scans of the threads that were drafted last. All drafts of a process share one.
#[derive(Debug, Default)]
pub struct ThreadScanCache {
    /// The scans, least recently used first.
    entries: Mutex<Vec<Arc<ThreadScan>>>,
}

/// The parameters of a scan.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ScanRequest<'a> {
    /// The number of newest messages to cover; `None` covers the whole thread.
    pub(crate) messages: Option<u64>,
    /// The purpose of the child thread, redacted.
    pub(crate) goal: Option<&'a str>,
    /// The maximum budget of a later selection, in tokens.
    pub(crate) tokens_max: u64,
}

/// The result of reading a thread up to `end`.
#[derive(Debug, Clone)]
struct ThreadScan {
    /// The thread.
    thread_id: ThreadId,
    /// The largest selection budget that this scan can serve, in tokens.
    tokens_max: u64,
    /// The collector of the facts.
    ledger: FactCollector,
    /// The collector of the events to select from.
    selector: TranscriptSelector,
    /// The topics of the conversation.
    outline: ConversationOutline,
    /// The facts; computed once after the last event.
    facts: OnceLock<ConversationFacts>,
    /// The selections, by their budget in tokens.
    selections: BudgetCache<u64, TranscriptSelection>,
    /// The offline summaries, by their budget in tokens.
    offline_summaries: BudgetCache<u64, OfflineSummary>,
    /// The dividers of the conversation, by their limits. The first use of a limit reads the whole thread; then new events
    /// are added.
    dividers: BudgetCache<PartBudget, ConversationDivider>,
    /// The end of the conversation; `None` when the thread has none.
    end: Option<ConversationEnd>,
    /// The summaries that the thread began with, if it is itself the child of a handoff.
    inherited: Arc<Vec<HandoffSummary>>,
    /// The names in drafts that the thread does not contain. Copies of a scan share them, which is correct because the
    /// value itself says up to which event the thread was searched.
    missing_names: Arc<Mutex<Option<MissingNames>>>,
}

/// The limits of the parts into which a conversation is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartBudget {
    /// The size of a part in tokens.
    pub(crate) tokens_max: u64,
    /// The number of newest parts.
    pub(crate) parts_max: usize,
}

/// Names that a search of the whole thread up to `end` has not found.
#[derive(Debug, Clone)]
struct MissingNames {
    /// The names.
    names: Vec<NamePattern>,
    /// The last event that was searched.
    end: ConversationEnd,
}

/// The scan of the part of a thread that a handoff covers.
pub(crate) struct WindowScan {
    /// The scan.
    scan: Arc<ThreadScan>,
    /// The number of newest messages that are covered; `None` for the whole thread.
    messages: Option<u64>,
}

impl ThreadScanCache {
    /// Returns the scan of the thread and reads only events that no cached scan covers.
    ///
    /// A scan of the newest messages is not cached, because its beginning moves with every message. The future may be
    /// dropped at any time; the cached scan it had taken is lost then, which only costs time.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read.
    pub(crate) async fn scan_thread(
        &self,
        thread: ThreadSource<'_>,
        request: ScanRequest<'_>,
    ) -> Result<WindowScan, StepFailure> {
        let messages = request.messages;
        if messages.is_some() {
            let scan = Arc::new(ThreadScan::scan_window(thread, request).await?);
            return Ok(WindowScan { scan, messages });
        }
        let cached = match self.take_cached(thread.thread_id, request) {
            Some(cached) => ThreadScan::scan_new_events(cached, thread).await?,
            None => None,
        };
        let scan = match cached {
            Some(scan) => scan,
            None => Arc::new(self.scan_whole(thread, request).await?),
        };
        if scan.end.is_some() {
            self.insert_cached(Arc::clone(&scan));
        }
        Ok(WindowScan { scan, messages })
    }

    /// Reads the whole thread for a request that no cached scan can serve, such as one with a new goal. Adopts what a scan with
    /// another goal knows, for which the draft would read the thread again otherwise.
    async fn scan_whole(
        &self,
        thread: ThreadSource<'_>,
        request: ScanRequest<'_>,
    ) -> Result<ThreadScan, StepFailure> {
        let mut scan = ThreadScan::scan_window(thread, request).await?;
        let Some(other) = self.take_newest(thread.thread_id) else { return Ok(scan) };
        if let Some(other) = ThreadScan::scan_new_events(other, thread).await? {
            scan.adopt_shared_values(&other);
            // The new scan replaces one with the same goal and a smaller budget.
            if other.goal_text() != request.goal {
                self.insert_cached(other);
            }
        }
        Ok(scan)
    }

    /// Removes and returns the scan of the thread that was used last.
    fn take_newest(&self, thread_id: ThreadId) -> Option<Arc<ThreadScan>> {
        let mut entries = self.entries.lock();
        let index = entries.iter().rposition(|scan| scan.thread_id == thread_id)?;
        Some(entries.remove(index))
    }

    /// Removes and returns the cached scan that can serve the request.
    fn take_cached(&self, thread_id: ThreadId, request: ScanRequest<'_>) -> Option<Arc<ThreadScan>> {
        let mut entries = self.entries.lock();
        let can_serve = |scan: &Arc<ThreadScan>| {
            let serves_goal = scan.goal_text() == request.goal && scan.tokens_max >= request.tokens_max;
            scan.thread_id == thread_id && serves_goal
        };
        let index = entries.iter().position(can_serve)?;
        Some(entries.remove(index))
    }

    /// Adds a scan as the most recently used one and evicts the oldest ones above the limits.
    fn insert_cached(&self, newest: Arc<ThreadScan>) {
        let mut entries = self.entries.lock();
        entries.push(newest);
        let bytes =
            |entries: &[Arc<ThreadScan>]| entries.iter().map(|scan| scan.size_in_bytes()).sum::<usize>();
        while entries.len() > CACHED_SCANS_MAX || entries.len() > 1 && bytes(&entries) > CACHED_SCAN_BYTES_MAX
        {
            entries.remove(0);
        }
    }
}

impl ThreadScan {
    /// Returns a scan that has read nothing.
    fn new(thread_id: ThreadId, request: ScanRequest<'_>) -> Self {
        let goal = request.goal.map(|goal| Arc::new(GoalMatcher::new(goal)));
        let tokens_max = request.tokens_max.max(SCAN_TOKENS_MIN);
        Self {
            thread_id,
            tokens_max,
            ledger: FactCollector::with_goal(goal.clone()),
            selector: TranscriptSelector::new(tokens_max, goal),
            outline: ConversationOutline::default(),
            facts: OnceLock::new(),
            selections: BudgetCache::default(),
            offline_summaries: BudgetCache::default(),
            dividers: BudgetCache::default(),
            end: None,
            inherited: Arc::default(),
            missing_names: Arc::default(),
        }
    }

    /// Reads the requested window from its beginning.
    async fn scan_window(thread: ThreadSource<'_>, request: ScanRequest<'_>) -> Result<Self, StepFailure> {
        let window = HandoffWindow::open(thread, request.messages).await?;
        let mut scan = Self::new(thread.thread_id, request);
        scan.inherited = Arc::new(window.inherited_summaries().cloned().collect());
        scan.end = window.visit_events(thread, "read the thread", &mut scan).await?;
        Ok(scan)
    }

    /// Reads the events after the end of `cached`; `None` when the thread was rewound to a point before that end, or when
    /// another handoff has added a summary to it or updated its own since.
    async fn scan_new_events(
        mut cached: Arc<Self>,
        thread: ThreadSource<'_>,
    ) -> Result<Option<Arc<Self>>, StepFailure> {
        let Some(end) = cached.end else { return Ok(None) };
        let window = HandoffWindow::open(thread, None).await?;
        if !window.inherited_summaries().eq(cached.inherited.iter()) {
            return Ok(None);
        }
        let Some(newest) = visit_new_events(thread, end, &mut CopyOnWriteScan(&mut cached)).await? else {
            return Ok(None);
        };
        if newest.conversation != end.conversation {
            Arc::make_mut(&mut cached).end = Some(newest);
        } else if let Some(cached) = Arc::get_mut(&mut cached) {
            // The next draft begins after the records of this one. Not worth a copy while another draft uses the scan.
            cached.end = Some(newest);
        }
        Ok(Some(cached))
    }

    /// Adopts the values of a scan with another goal that do not depend on it: the divided conversation, and the names that the
    /// thread does not contain. Both scans must have read the same events.
    fn adopt_shared_values(&mut self, other: &Self) {
        if self.end == other.end && self.inherited == other.inherited {
            self.dividers = other.dividers.clone();
            self.missing_names = Arc::clone(&other.missing_names);
        }
    }

    /// Returns the goal.
    fn goal_text(&self) -> Option<&str> {
        self.selector.goal().map(GoalMatcher::text)
    }

    /// Returns the facts of all events read.
    fn facts(&self) -> &ConversationFacts {
        self.facts.get_or_init(|| self.ledger.finish())
    }

    /// Returns the approximate size of the scan in bytes.
    fn size_in_bytes(&self) -> usize {
        let dividers = self.dividers.values();
        let parts: usize = dividers.iter().map(|divider| divider.size_in_bytes()).sum();
        FACTS_BYTES + self.selector.size_in_bytes() + parts
    }
}

impl EventVisitor for ThreadScan {
    fn visit(&mut self, item: &TranscriptItem) {
        // A new event makes the values computed from the earlier ones stale.
        self.facts.take();
        self.selections.clear();
        self.offline_summaries.clear();
        self.dividers.update(|divider| divider.visit(item));
        self.ledger.push(item);
        self.selector.visit(item);
        self.outline.visit(item);
    }

    fn skip_to(&mut self, last: Seq, messages: u64) {
        self.selector.skip_to(last, messages);
    }

    fn is_done(&self) -> bool {
        false
    }
}

/// A scan that is copied before its first change if another draft still uses it.
struct CopyOnWriteScan<'a>(&'a mut Arc<ThreadScan>);

impl EventVisitor for CopyOnWriteScan<'_> {
    fn visit(&mut self, item: &TranscriptItem) {
        Arc::make_mut(self.0).visit(item);
    }

    fn skip_to(&mut self, last: Seq, messages: u64) {
        Arc::make_mut(self.0).skip_to(last, messages);
    }

    fn is_done(&self) -> bool {
        false
    }
}

impl EventVisitor for ConversationDivider {
    fn visit(&mut self, item: &TranscriptItem) {
        self.visit(item);
    }

    fn skip_to(&mut self, _: Seq, _: u64) {}

    fn is_done(&self) -> bool {
        false
    }
}

impl EventVisitor for GroundingCheck {
    fn visit(&mut self, item: &TranscriptItem) {
        self.visit(item);
    }

    fn skip_to(&mut self, _: Seq, _: u64) {}

    fn is_done(&self) -> bool {
        self.is_done()
    }
}

impl WindowScan {
    /// Returns the facts of the thread's own events.
    pub(crate) fn facts(&self) -> &ConversationFacts {
        self.scan.facts()
    }

    /// Returns the facts that are carried over with every summary, whatever its text says: the thread's own and those
    /// that it inherited.
    pub(crate) fn carried_facts(&self) -> CarriedFacts {
        let facts = self.scan.facts();
        let mut own = facts.carried_facts();
        let Some(inherited) = join_facts(self.scan.inherited.iter().map(|summary| &summary.carried)) else {
            return own;
        };
        // A sentence that changes an inherited rule is carried beside it, as one about a rule of the thread is.
        let concerns_rule =
            |change: &&Rule| inherited.rules.iter().any(|rule| facts::changes_rule(&change.text, &rule.text));
        let changes = facts.rule_changes.iter().filter(concerns_rule).cloned().collect();
        own.rules = facts::merge_rules(own.rules, changes);
        merge_facts(own, &inherited)
    }

    /// Returns the package that the thread began with, if the thread has no message yet; `None` otherwise.
    pub(crate) fn unused_package(&self) -> Option<HandoffSummary> {
        if self.scan.facts().messages > 0 {
            return None;
        }
        join_packages(&self.scan.inherited)
    }

    /// Returns the unfound names of an inherited title, if the summary has that title.
    pub(crate) fn inherited_title_unfound(&self, title: &str) -> Vec<String> {
        let same = self.scan.inherited.iter().rev().find(|inherited| inherited.title == title);
        same.map(|inherited| inherited.notes.title_unfound.clone()).unwrap_or_default()
    }

    /// Returns the coverage of a text that quotes no message of the thread.
    pub(crate) fn coverage_without_quotes(&self) -> Coverage {
        self.scan.selector.coverage().finish(Vec::new())
    }

    /// Returns the transcript selected for a model, within `tokens_max` tokens.
    pub(crate) fn selection(&self, tokens_max: u64) -> TranscriptSelection {
        let select = || self.scan.selector.select(self.scan.facts(), tokens_max);
        (*self.scan.selections.get_or_compute(tokens_max, select)).clone()
    }

    /// Divides the covered part of the thread. The first call with these limits reads the whole thread, also if the scan is
    /// extended by new events later.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read.
    pub(crate) async fn divide_conversation(
        &self,
        thread: ThreadSource<'_>,
        budget: PartBudget,
    ) -> Result<DividedConversation, StepFailure> {
        if let Some(divider) = self.scan.dividers.get(&budget) {
            return Ok((*divider).clone().finish());
        }
        let mut divider = ConversationDivider::new(budget.tokens_max, budget.parts_max);
        let window = HandoffWindow::open(thread, self.messages).await?;
        let end = window.visit_events(thread, "divide the conversation", &mut divider).await?;
        // Events that were appended after the scan are not in it, and would be added to the divider again.
        let position = |end: Option<ConversationEnd>| end.map(|end| end.conversation);
        if position(end) == position(self.scan.end) {
            self.scan.dividers.insert(budget, divider.clone());
        }
        Ok(divider.finish())
    }

    /// Returns the offline summary of about `tokens_max` tokens, and its coverage: messages that it quotes count as
    /// verbatim or truncated, all others as summarized, because their facts were collected.
    pub(crate) fn offline_summary(&self, tokens_max: u64) -> (OfflineSummary, Coverage) {
        let facts = self.scan.facts();
        let build = || self.build_offline_summary(facts, tokens_max);
        let mut summary = (*self.scan.offline_summaries.get_or_compute(tokens_max, build)).clone();
        summary.body = without_repeated_rules(&summary.title, summary.body, &self.carried_facts().rules);
        let coverage = self.scan.selector.coverage().finish(quoted_messages(facts, &summary));
        (summary, coverage)
    }

    /// Returns the names that the next turns will probably use and that `shown`, a summary of about `tokens_max` tokens, does
    /// not contain.
    pub(crate) fn names_in_use(&self, shown: &str, tokens_max: u64) -> Vec<String> {
        names_in_use(self.scan.facts(), self.scan.selector.goal(), shown, tokens_max)
    }

    /// Builds the offline summary. If the thread inherited others, they share the tokens.
    fn build_offline_summary(&self, facts: &ConversationFacts, tokens_max: u64) -> OfflineSummary {
        let goal = self.scan.selector.goal();
        if self.scan.inherited.is_empty() {
            return build_offline_summary(facts, goal, tokens_max);
        }
        let mut own = build_offline_summary(facts, goal, tokens_max / 2);
        if goal.is_none() && !has_own_objective(facts) {
            // "Go on" is no topic. The work is still that of the summary with which the thread began.
            let mut titles = self.scan.inherited.iter().rev().map(|inherited| &inherited.title);
            own.title = titles.find(|title| !title.is_empty()).cloned().unwrap_or(own.title);
        }
        // Nothing was asked or done here, so what the package tells about its parent is still the state of the work.
        let is_idle = facts.requests.is_empty() && facts.commands.is_empty() && facts.files.is_empty();
        let items = InheritedItems { title: &own.title, tldr: &own.tldr, is_idle, tokens_max };
        let inherited = self.scan.inherited.iter().rev();
        let body = inherited.fold(own.body, |body, inherited| items.add_to(body, inherited));
        OfflineSummary { body, ..own }
    }

    /// Returns the summary with its sources described: what became of each covered message, the largest topics that the text
    /// does not mention, and the last answer if the text contains little of it. `material` is what the drafting model received; `None` for the offline summary.
    pub(crate) fn describe_sources(
        &self,
        mut summary: HandoffSummary,
        material: Option<&DraftMaterial>,
    ) -> HandoffSummary {
        let facts = self.scan.facts();
        let selection = material.map(|material| &material.selection);
        let mut sources = DraftSources {
            last_request: facts.requests.last().map(|quote| quote.seq),
            read: material.map(|material| material.read.clone()).unwrap_or_default(),
            ..DraftSources::default()
        };
        let quotes = facts.first_request.iter().chain(&facts.requests).chain(&facts.statements);
        for quote in quotes.chain(&facts.requests_about_goal).chain(&facts.statements_about_goal) {
            sources.texts.entry(quote.seq).or_default().push(quote.text.clone());
        }
        let lines = selection
            .into_iter()
            .flat_map(|selection| selection.requests.lines().chain(selection.events.lines()));
        for (seq, text) in lines.filter_map(parse_event_line) {
            sources.read.push(seq);
            sources.texts.entry(seq).or_default().push(text.to_owned());
        }
        classify_messages(&mut summary, &sources);
        summary.notes.topics = self.unrepresented_topics(&summary.coverage);
        note_last_answer(&mut summary, facts);
        for inherited in self.scan.inherited.iter() {
            note_inherited_items(&mut summary, inherited);
        }
        summary.notes = redact_notes(summary.notes, &facts.known_secrets);
        summary
    }

    /// Returns the largest topics of the covered conversation that a text with this coverage does not mention.
    pub(crate) fn unrepresented_topics(&self, coverage: &Coverage) -> Vec<ConversationTopic> {
        self.scan.outline.unrepresented_topics(coverage)
    }

    /// Marks the items of `summary` as unverified that contain a name found neither in the covered events nor in
    /// `user_texts`, which are the person's texts about the summary (goal and feedback).
    ///
    /// The selection and the facts in memory are searched first; the thread is read only when a name is still
    /// missing. A path inside `workspace` may be written absolute or relative to it.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read. The marks of `summary` are unchanged then.
    pub(crate) async fn ground_summary(
        &self,
        thread: ThreadSource<'_>,
        summary: &mut HandoffSummary,
        workspace: Option<&Path>,
        user_texts: &[&str],
    ) -> Result<(), StepFailure> {
        let mut grounding = GroundingCheck::new(summary, workspace);
        self.find_names(thread, &mut grounding, user_texts).await?;
        grounding.mark_summary(summary);
        Ok(())
    }

    /// Looks for the names of `grounding` as [`WindowScan::ground_summary`] does.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read.
    pub(crate) async fn find_names(
        &self,
        thread: ThreadSource<'_>,
        grounding: &mut GroundingCheck,
        user_texts: &[&str],
    ) -> Result<(), StepFailure> {
        let goal = self.scan.goal_text();
        user_texts.iter().copied().chain(goal).for_each(|text| grounding.search_user_text(text));
        for selection in self.scan.selections.values() {
            grounding.search_selection(&selection.requests);
            grounding.search_selection(&selection.events);
        }
        grounding.search_facts(self.scan.facts());
        if !grounding.is_done() {
            self.search_thread(thread, grounding).await?;
        }
        Ok(())
    }

    /// Searches the thread for the missing names. If an earlier search has looked for all of them, only the events
    /// after that search are read.
    async fn search_thread(
        &self,
        thread: ThreadSource<'_>,
        grounding: &mut GroundingCheck,
    ) -> Result<(), StepFailure> {
        if self.messages.is_some() {
            let window = HandoffWindow::open(thread, self.messages).await?;
            return window.visit_events(thread, "check the draft", grounding).await.map(drop);
        }
        let missing_names = || self.scan.missing_names.lock();
        let known = missing_names().clone().filter(|missing| grounding.is_missing_only(&missing.names));
        let end = match &known {
            Some(known) => visit_new_events(thread, known.end, grounding).await?,
            None => None,
        };
        let end = match end {
            // The thread has no new events, so the stored list of missing names is still correct.
            Some(end) if known.is_some_and(|known| known.end.conversation == end.conversation) => {
                return Ok(());
            }
            Some(end) => Some(end),
            None => {
                HandoffWindow::open(thread, None)
                    .await?
                    .visit_events(thread, "check the draft", grounding)
                    .await?
            }
        };
        if let Some(end) = end.filter(|_| !grounding.is_done()) {
            *missing_names() = Some(MissingNames { names: grounding.missing_patterns(), end });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
