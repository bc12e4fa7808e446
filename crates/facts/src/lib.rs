//! Facts about a thread, folded from its events in one pass with bounded memory and without a model; and the
//! redaction of secrets in texts. Summaries are written elsewhere.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use model::sentence_ranking::split_sentences;
use protocol::{AiMessage, ContentBlock, Message, Seq, ToolMessage};

use crate::identifier::NameKind;
use crate::limits::{
    FIRST_REQUESTS_MAX, GOAL_QUOTES_MAX, LAST_REQUESTS_MAX, NAME_BYTES_MAX, NAMES_COUNTED_MAX,
    NAMES_KEPT_MAX, REQUEST_BYTES_MAX, RULE_CHARS_MAX, RULES_MAX, SCAN_BYTES_MAX, STATEMENT_BYTES_MAX,
    STATEMENTS_MAX,
};
use crate::tool_use::{ToolUse, head_words, tail_words};
use calls::outcomes::ToolOutcomeTracker;
use calls::tasks::TaskList;
use name_counter::NameCounter;
use text::cues;

mod calls;
mod carry_over;
mod facts;
mod goal;
pub mod limits;
mod name_counter;
#[cfg(any(test, feature = "notation"))]
pub mod notation;
#[cfg(test)]
mod tests;
mod text;
mod transcript_item;

pub use calls::{shell, tool_use};
pub use carry_over::render_carry_over;
pub use facts::{CheckRun, ConversationFacts, FileUse, NameUsage, Quote, UserRule};
pub use goal::{GoalMatcher, TermFrequencies, TermSet};
pub use text::redaction::{REDACTED, redact, redact_and_count};
pub use text::{formatting, identifier};
pub use transcript_item::{TranscriptItem, TranscriptItemKind};

/// The collector of facts: folds events one at a time.
#[derive(Debug, Clone, Default)]
pub struct FactCollector {
    first_seq: Seq,
    last_seq: Seq,
    messages: u64,
    recent_from: Seq,
    first_request: Option<Quote>,
    first_requests: Vec<Quote>,
    last_requests: VecDeque<Quote>,
    statements: VecDeque<Quote>,
    last_statement_seq: Seq,
    /// The question the last statement ends on.
    open_question: Option<Quote>,
    is_answered: bool,
    tasks: TaskList,
    files: HashMap<String, FileUse>,
    commands: NameCounter,
    tool_outcomes: ToolOutcomeTracker,
    rules: VecDeque<UserRule>,
    decisions: VecDeque<Quote>,
    references: NameCounter,
    identifiers: NameCounter,
    argument_values: NameCounter,
    previous_summary: Option<Quote>,
    grounded_summary: Option<Quote>,
    goal: Option<Arc<GoalMatcher>>,
    term_frequencies: TermFrequencies,
    requests_about_goal: Vec<(TermSet, Quote)>,
    statements_about_goal: Vec<(TermSet, Quote)>,
}

impl FactCollector {
    /// Returns a ledger that also keeps what the goal is about when it is older than what is kept anyway.
    pub fn with_goal(goal: Option<Arc<GoalMatcher>>) -> Self {
        Self { goal, ..Self::default() }
    }

    /// Takes the next event. Events of sub-agents, notes and injected texts only move the position.
    pub fn push(&mut self, item: &TranscriptItem) {
        if self.first_seq == 0 {
            self.first_seq = item.seq;
            self.recent_from = item.seq;
        }
        self.last_seq = item.seq;
        if item.is_subagent {
            return;
        }
        match &item.kind {
            TranscriptItemKind::Message(Message::Human(_)) => {
                if let Some(text) = item.user_text() {
                    self.messages += 1;
                    self.record_request(item.seq, &text);
                }
            }
            TranscriptItemKind::Message(Message::Ai(message)) => {
                self.messages += 1;
                self.record_ai_message(item.seq, message);
            }
            TranscriptItemKind::Message(Message::Tool(message)) => {
                self.messages += 1;
                self.record_tool_result(item.seq, message);
            }
            TranscriptItemKind::Boundary => self.record_boundary(item.seq),
            TranscriptItemKind::ImportedSummary(text) => self.resume_from_summary(item.seq, text, text),
            TranscriptItemKind::InheritedSummary { text, grounded: proven } => {
                self.resume_from_summary(item.seq, text, proven)
            }
            TranscriptItemKind::Note | TranscriptItemKind::Unreadable | TranscriptItemKind::Other => {}
        }
    }

    /// The context was condensed here: what was spoken of before is no longer what the work is about.
    fn record_boundary(&mut self, seq: Seq) {
        self.recent_from = seq + 1;
        self.last_requests.extend(self.first_requests.drain(..));
        self.last_requests.make_contiguous().sort_by_key(|quote| quote.seq);
        let beyond = self.last_requests.len().saturating_sub(LAST_REQUESTS_MAX);
        self.last_requests.drain(..beyond);
        self.identifiers.clear();
        self.references.clear();
        self.previous_summary = None;
        self.grounded_summary = None;
    }

    /// The following events continue from a summary.
    fn resume_from_summary(&mut self, seq: Seq, text: &str, proven: &str) {
        let quoted = |text: &str| Some(quote_head(seq, &redacted_head(text), SCAN_BYTES_MAX));
        self.previous_summary = quoted(text);
        self.grounded_summary = quoted(proven).filter(|quote| !quote.text.trim().is_empty());
    }

    fn record_request(&mut self, seq: Seq, text: &str) {
        let said = redacted_head(text);
        let mut quote = quote_head(seq, &said, REQUEST_BYTES_MAX);
        quote.is_cut |= said.len() < text.len() && text.len() > SCAN_BYTES_MAX;
        self.is_answered = false;
        self.tool_outcomes.abandon_pending_calls();
        self.first_request.get_or_insert_with(|| quote.clone());
        self.count_names_at_ends(seq, &said, text);
        if cues::rule_strictness(&said).is_some() {
            for sentence in split_sentences(&said) {
                let Some(is_strict) = rule_strictness(sentence) else { continue };
                let quote = Quote { seq, text: sentence.to_owned(), is_cut: false };
                push_bounded(&mut self.rules, UserRule { quote, is_strict }, RULES_MAX);
            }
        }
        self.record_decisions(seq, &said);
        self.count_goal_terms(&quote.text);
        if self.first_requests.len() < FIRST_REQUESTS_MAX {
            self.first_requests.push(quote);
        } else if let Some(older) = push_bounded(&mut self.last_requests, quote, LAST_REQUESTS_MAX) {
            self.keep_if_about_goal(older, |ledger| &mut ledger.requests_about_goal);
        }
    }

    /// Counts the terms of the goal in something that was said.
    fn count_goal_terms(&mut self, text: &str) {
        if let Some(goal) = &self.goal {
            self.term_frequencies.add_text(goal.matching_terms(text));
        }
    }

    /// Keeps what is given up elsewhere when the goal is about it, within a limit.
    fn keep_if_about_goal(&mut self, quote: Quote, list: fn(&mut Self) -> &mut Vec<(TermSet, Quote)>) {
        let Some(goal) = self.goal.clone() else { return };
        let terms = goal.matching_terms(&quote.text);
        if terms == 0 {
            return;
        }
        list(self).push((terms, quote));
        if list(self).len() > 2 * GOAL_QUOTES_MAX {
            let mut kept = std::mem::take(list(self));
            sort_by_goal(&mut kept, &goal, &self.term_frequencies);
            kept.truncate(GOAL_QUOTES_MAX);
            *list(self) = kept;
        }
    }

    fn record_ai_message(&mut self, seq: Seq, message: &AiMessage) {
        for block in &message.content {
            match block {
                ContentBlock::Text { text } if !text.trim().is_empty() => {
                    self.record_statement(seq, text);
                    self.is_answered = !message.incomplete && !self.tool_outcomes.has_pending_calls();
                }
                ContentBlock::ToolCall { id, name, args } => {
                    self.is_answered = false;
                    self.record_tool_call(seq, id, name, args);
                }
                ContentBlock::Text { .. }
                | ContentBlock::Thinking { .. }
                | ContentBlock::Media { .. }
                | ContentBlock::Opaque { .. } => {}
            }
        }
    }

    fn record_statement(&mut self, seq: Seq, text: &str) {
        let said = redacted_head(text);
        self.count_names_at_ends(seq, &said, text);
        self.record_decisions(seq, head_words(&said, STATEMENT_BYTES_MAX));
        self.open_question = trailing_question(seq, text);
        let statement = trim_to_whole_sentences(quote_head(seq, said.trim(), STATEMENT_BYTES_MAX));
        self.count_goal_terms(&statement.text);
        if let Some(older) = push_bounded(&mut self.statements, statement, STATEMENTS_MAX) {
            self.keep_if_about_goal(older, |ledger| &mut ledger.statements_about_goal);
        }
        self.last_statement_seq = seq;
    }

    fn record_tool_call(&mut self, seq: Seq, id: &str, name: &str, args: &serde_json::Value) {
        let usage = ToolUse::from_call(name, args);
        self.tool_outcomes.record_call(id, name, &usage);
        for path in &usage.reads {
            self.record_file_use(path, |file| file.last_read_seq = seq);
        }
        for path in &usage.writes {
            self.record_file_use(path, |file| file.last_write_seq = seq);
        }
        for command in usage.command.iter().flat_map(|command| shell::invoked_programs(command)) {
            self.commands.count_use(&command, seq);
        }
        for value in usage.values.iter().filter(|value| matches!(redact(value), Cow::Borrowed(_))) {
            self.argument_values.count_use(value, seq);
        }
        if let Some(change) = usage.task {
            self.tasks.apply_change(change, id, seq);
        }
    }

    fn record_tool_result(&mut self, seq: Seq, message: &ToolMessage) {
        // Only the last text block is read: several are rare, and joining them would copy large results.
        let text = message.content.iter().rev().find_map(|block| match block {
            ContentBlock::Text { text } => Some(text.as_str()),
            ContentBlock::Thinking { .. }
            | ContentBlock::ToolCall { .. }
            | ContentBlock::Media { .. }
            | ContentBlock::Opaque { .. } => None,
        });
        let text = text.unwrap_or_default();
        let beginning = head_words(text, SCAN_BYTES_MAX);
        self.tasks.record_result(&message.call_id, beginning, seq);
        for edited in beginning.split("Applied edit to ").skip(1) {
            let path = crate::tool_use::normalize_path(edited.split_whitespace().next().unwrap_or_default());
            self.record_file_use(&path, |file| file.last_write_seq = seq);
        }
        self.tool_outcomes.record_result(seq, &message.call_id, text, message.status);
    }

    fn record_file_use(&mut self, path: &str, change: impl FnOnce(&mut FileUse)) {
        if path.is_empty() || path.len() > NAME_BYTES_MAX || path.contains(['`', '\n', '"']) {
            return;
        }
        if self.files.len() >= NAMES_COUNTED_MAX && !self.files.contains_key(path) {
            let mut last: Vec<Seq> = self.files.values().map(FileUse::last_use_seq).collect();
            let (_, middle, _) = last.select_nth_unstable(NAMES_COUNTED_MAX / 2);
            let middle = *middle;
            self.files.retain(|_, file| file.last_use_seq() > middle);
        }
        let unused = || FileUse { path: path.to_owned(), last_read_seq: 0, last_write_seq: 0 };
        change(self.files.entry(path.to_owned()).or_insert_with(unused));
    }

    /// Counts the names in what somebody said: `said`, and the end of `text` when that is longer.
    fn count_names_at_ends(&mut self, seq: Seq, said: &str, text: &str) {
        self.count_names(seq, said);
        if text.len() > SCAN_BYTES_MAX {
            let rest = text.len() - SCAN_BYTES_MAX;
            self.count_names(seq, &redact(tail_words(text, rest.min(SCAN_BYTES_MAX))));
        }
    }

    fn count_names(&mut self, seq: Seq, text: &str) {
        identifier::scan_names(text, |kind, name| match kind {
            NameKind::Identifier => self.identifiers.count_use(name, seq),
            NameKind::Reference | NameKind::Url => self.references.count_use(name, seq),
            NameKind::Error | NameKind::Path | NameKind::Number => {}
        });
    }

    fn record_decisions(&mut self, seq: Seq, text: &str) {
        if !cues::is_decision(text) {
            return;
        }
        for sentence in split_sentences(text) {
            if sentence.len() <= RULE_CHARS_MAX && is_prose(sentence) && cues::is_decision(sentence) {
                let quote = Quote { seq, text: sentence.to_owned(), is_cut: false };
                push_bounded(&mut self.decisions, quote, RULES_MAX);
            }
        }
    }

    /// Returns what is known; every text is without secrets and within its limit.
    pub fn finish(&self) -> ConversationFacts {
        let is_answered = self.is_answered && !self.tool_outcomes.has_pending_calls();
        let mut requests = self.first_requests.clone();
        requests.extend(self.last_requests.iter().cloned());
        requests.sort_by_key(|quote| quote.seq);
        let unanswered =
            requests.iter().filter(|quote| quote.seq > self.last_statement_seq).cloned().collect();
        ConversationFacts {
            first_seq: self.first_seq,
            last_seq: self.last_seq,
            messages: self.messages,
            recent_from: self.recent_from,
            first_request: self.first_request.clone(),
            open_question: self.open_question.clone().filter(|_| is_answered),
            requests,
            is_answered,
            unanswered_requests: unanswered,
            todos: self.tasks.items(),
            todos_seq: self.tasks.seq,
            files: latest_files(&self.files),
            commands: self.commands.most_used_names(),
            checks: self.tool_outcomes.checks().to_vec(),
            errors: self.tool_outcomes.errors().cloned().collect(),
            error_types: self.tool_outcomes.error_types.latest_names(),
            rules: self.rules.iter().cloned().collect(),
            decisions: self.decisions.iter().cloned().collect(),
            references: self.references.most_used_names(),
            identifiers: self.identifiers.most_used_names(),
            argument_values: self.argument_values.latest_names(),
            statements: self.statements.iter().cloned().collect(),
            previous_summary: self.previous_summary.clone(),
            grounded_summary: self.grounded_summary.clone(),
            requests_about_goal: self.most_relevant_to_goal(&self.requests_about_goal),
            statements_about_goal: self.most_relevant_to_goal(&self.statements_about_goal),
            term_frequencies: self.term_frequencies.clone(),
        }
    }

    fn most_relevant_to_goal(&self, quotes: &[(TermSet, Quote)]) -> Vec<Quote> {
        let Some(goal) = &self.goal else { return Vec::new() };
        let mut told = quotes.to_vec();
        sort_by_goal(&mut told, goal, &self.term_frequencies);
        told.into_iter().take(GOAL_QUOTES_MAX).map(|(_, quote)| quote).collect()
    }
}

/// Sorts by how much is said of what the goal is about, the most first; the newer first where it is the same.
fn sort_by_goal(quotes: &mut [(TermSet, Quote)], goal: &GoalMatcher, frequencies: &TermFrequencies) {
    quotes.sort_by(|(a, first), (b, second)| {
        let score = |terms| goal.score(terms, frequencies);
        score(*b).total_cmp(&score(*a)).then(second.seq.cmp(&first.seq))
    });
}

/// Returns whether the sentence is a rule, and if so whether it is an order.
fn rule_strictness(sentence: &str) -> Option<bool> {
    if sentence.len() > 4 * RULE_CHARS_MAX || sentence.chars().count() > RULE_CHARS_MAX || !is_prose(sentence)
    {
        return None;
    }
    cues::rule_strictness(sentence)
}

/// Returns whether a sentence is neither code nor a table nor too short to say anything.
fn is_prose(sentence: &str) -> bool {
    sentence.len() > 8 && !sentence.starts_with(['|', '`', '{', '}', '$']) && !sentence.starts_with("//")
}

/// Returns the question a statement ends on.
fn trailing_question(seq: Seq, text: &str) -> Option<Quote> {
    let text = text.trim_end();
    if !text.trim_end_matches(['*', '_', ')', ' ']).ends_with(['?', '？']) {
        return None;
    }
    let end = redact(tail_words(text, STATEMENT_BYTES_MAX));
    let last = split_sentences(&end).last()?;
    Some(Quote { seq, text: last.to_owned(), is_cut: false })
}

fn latest_files(files: &HashMap<String, FileUse>) -> Vec<FileUse> {
    let mut files: Vec<FileUse> = files.values().cloned().collect();
    files.sort_unstable_by(|a, b| b.last_use_seq().cmp(&a.last_use_seq()).then_with(|| a.path.cmp(&b.path)));
    let mut reads = 0;
    files.retain(|file| {
        reads += usize::from(file.last_write_seq == 0);
        file.last_write_seq > 0 || reads <= NAMES_KEPT_MAX
    });
    files
}

/// Adds a value at the end; returns the one that is given up for it.
fn push_bounded<T>(queue: &mut VecDeque<T>, value: T, max: usize) -> Option<T> {
    let oldest = if queue.len() >= max { queue.pop_front() } else { None };
    queue.push_back(value);
    oldest
}

/// Returns what is looked at of a text, without secrets: its beginning, in whole words.
fn redacted_head(text: &str) -> Cow<'_, str> {
    redact(head_words(text, SCAN_BYTES_MAX))
}

/// Returns the beginning of a text that is already without secrets.
fn quote_head(seq: Seq, text: &str, bytes_max: usize) -> Quote {
    let kept = head_words(text, bytes_max);
    Quote { seq, text: kept.to_owned(), is_cut: kept.len() < text.len() }
}

/// Returns the statement without a sentence that was cut with it, unless it is the only one.
fn trim_to_whole_sentences(mut statement: Quote) -> Quote {
    let last = statement.is_cut.then(|| split_sentences(&statement.text).last()).flatten();
    if let Some(length) = last.and_then(|last| statement.text.rfind(last)).filter(|length| *length > 0) {
        statement.text.truncate(length);
    }
    statement
}
