//! Facts about a conversation, collected from a thread's events in one pass, with bounded memory and without a model:
//! requests, rules, decisions, files, commands, tasks, checks, errors and names. The crate also redacts secrets in texts.
//!
//! [`FactCollector`] folds [`TranscriptItem`]s and returns [`ConversationFacts`]. `compaction`, `handoff` and `memory` use
//! the facts to write or to check a summary. Every text in the result is redacted and has a limit (see [`limits`]).
//!
//! The crate does not write summaries and does not read or write storage.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use model::sentence_ranking::split_sentences;
use protocol::{AiMessage, ContentBlock, Message, Seq, ToolMessage};

use crate::identifier::NameKind;
use crate::limits::{
    ANSWER_BYTES_MAX, FIRST_REQUESTS_MAX, GOAL_QUOTES_MAX, LAST_REQUEST_BYTES_MAX, LAST_REQUESTS_MAX,
    REQUEST_BYTES_MAX, RESULT_SECRETS_BYTES_MAX, RULE_CHARS_MAX, RULE_TEXT_BYTES_MAX, RULES_MAX,
    SCAN_BYTES_MAX, STATEMENT_BYTES_MAX, STATEMENTS_MAX,
};
use crate::tool_use::{ToolUse, head_words, tail_words};
use calls::arguments::ArgumentTracker;
use calls::commits::CommitTracker;
use calls::delegations::DelegationTracker;
use calls::files::FileTracker;
use calls::outcomes::{self, CallEffect, ToolOutcomeTracker};
use calls::request_state::trailing_question;
use calls::tasks::TaskList;
use name_counter::NameCounter;
use rules::StandingRules;
use secrets::redact;
use text::cues::Author;
use text::wrappers::task_template::without_instructions;
use text::{cues, open_work, rule_cues};

mod calls;
mod carried_facts;
mod facts;
mod goal;
pub mod limits;
mod name_counter;
#[cfg(any(test, feature = "notation"))]
pub mod notation;
mod rules;
#[cfg(test)]
mod tests;
mod text;
mod transcript_item;

pub use calls::files::same_file::is_common_file_name;
pub use calls::{shell, tool_use};
pub use carried_facts::render_carried_facts;
pub use facts::{CheckRun, ConversationFacts, FileUse, NameUsage, Quote, UserRule};
pub use goal::{GoalMatcher, TermFrequencies, TermSet};
pub use rules::{changes_rule, merge_rules};
pub use text::cues::{is_pasted, states_choice};
pub use text::known_secrets::KnownSecrets;
pub use text::open_work::{announces_work, is_conversational, is_farewell, is_greeting, reports_result};
pub use text::request_kind::begins_with_order;
pub use text::rule_cues::is_rule_participle;
pub use text::rule_cues::order::asks_once;
pub use text::stated_values::ValueChange;
pub use text::wrappers::strip_answer_wrappers;
pub use text::{formatting, identifier};
pub use transcript_item::{TranscriptItem, TranscriptItemKind};

/// The collector of facts. It folds the events of a thread one at a time, in the order of their `seq`.
///
/// Memory is bounded by the constants in [`limits`], however long the thread is. One event costs time linear in the
/// scanned part of its text, which is at most [`SCAN_BYTES_MAX`] bytes at each end.
#[derive(Debug, Clone, Default)]
pub struct FactCollector {
    /// `seq` of the first event; 0 before there is one.
    first_seq: Seq,
    /// `seq` of the last event.
    last_seq: Seq,
    /// Number of messages of the main conversation, by any role.
    messages: u64,
    /// `seq` of the first event after the last compaction boundary.
    recent_from: Seq,
    /// The user's first message in the whole thread.
    first_request: Option<Quote>,
    /// The user's first [`FIRST_REQUESTS_MAX`] messages since `recent_from`.
    first_requests: Vec<Quote>,
    /// The user's last [`LAST_REQUESTS_MAX`] messages that are not in `first_requests`.
    last_requests: VecDeque<Quote>,
    /// The assistant's last [`STATEMENTS_MAX`] messages.
    statements: VecDeque<Quote>,
    /// `seq` of the assistant's last message; 0 before there is one.
    last_statement_seq: Seq,
    /// The question at the end of the assistant's last message.
    open_question: Option<Quote>,
    /// `seq` of the last request; 0 before there is one.
    last_request_seq: Seq,
    /// The secrets in messages and results.
    known_secrets: KnownSecrets,
    /// The beginning of the last request, at most [`LAST_REQUEST_BYTES_MAX`] bytes, not redacted yet.
    last_request_head: Quote,
    /// True when a result of a tool call was recorded. Some formats record none.
    has_tool_results: bool,
    /// The end of the assistant's text since its last tool call and the last request, with the `seq` of its last block.
    answer: Quote,
    /// The last message of that text, redacted, at most its last [`ANSWER_BYTES_MAX`] bytes.
    last_answer: Quote,
    /// True when that text is a complete message.
    is_answer_complete: bool,
    /// The id of the last tool call if it hands in the work.
    submission_call: Option<String>,
    /// `seq` of the result of that call; 0 without one.
    submission_seq: Seq,
    /// `seq` of the last request that was answered before another agent began something else; 0 if there is none.
    settled_request_seq: Seq,
    commits: CommitTracker,
    delegations: DelegationTracker,
    tasks: TaskList,
    files: FileTracker,
    tool_outcomes: ToolOutcomeTracker,
    /// The last [`RULES_MAX`] rules that the user stated.
    rules: VecDeque<UserRule>,
    standing_rules: StandingRules,
    /// The last [`RULES_MAX`] decisions that the user or the assistant stated.
    decisions: VecDeque<Quote>,
    /// Issue numbers, URLs, versions, hashes and codes in messages since the last boundary.
    references: NameCounter,
    /// Identifiers in messages since the last boundary.
    identifiers: NameCounter,
    /// Paths in messages since the last boundary.
    mentioned_paths: NameCounter,
    arguments: ArgumentTracker,
    /// The summary that the events after it continue from.
    previous_summary: Option<Quote>,
    /// The grounded part of `previous_summary`: it names nothing that is absent from its source.
    grounded_summary: Option<Quote>,
    /// The goal to rank older messages by, if any.
    goal: Option<Arc<GoalMatcher>>,
    /// Document frequency of each term of the goal.
    term_frequencies: TermFrequencies,
    /// User messages dropped from `last_requests` that mention the goal, each with the terms it contains.
    requests_about_goal: Vec<(TermSet, Quote)>,
    /// Assistant messages dropped from `statements` that mention the goal, each with the terms it contains.
    statements_about_goal: Vec<(TermSet, Quote)>,
}

impl FactCollector {
    /// Returns an empty collector. With a goal, it also keeps older messages that mention the goal and would otherwise be
    /// dropped, up to [`GOAL_QUOTES_MAX`] for each role.
    pub fn with_goal(goal: Option<Arc<GoalMatcher>>) -> Self {
        Self { goal, ..Self::default() }
    }

    /// Folds the next event. Events of sub-agents, notes and injected texts contribute no facts; they only advance
    /// `last_seq`.
    pub fn push(&mut self, item: &TranscriptItem) {
        if self.first_seq == 0 {
            self.first_seq = item.seq;
            self.recent_from = item.seq;
        }
        self.last_seq = item.seq;
        if item.is_subagent {
            if let TranscriptItemKind::Message(Message::Human(_)) = &item.kind {
                self.settle_request();
            }
            return;
        }
        match &item.kind {
            TranscriptItemKind::Message(Message::Human(_)) => {
                if let Some(text) = item.user_text() {
                    self.messages += 1;
                    self.end_pending_calls();
                    if !open_work::is_farewell(&text) && !open_work::is_greeting(&text) {
                        let task = Some(&text).filter(|_| item.is_imported);
                        let task = task.and_then(|text| without_instructions(text));
                        self.record_request(item.seq, &text, task.as_ref().unwrap_or(&text));
                    }
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
            TranscriptItemKind::InheritedSummary { text, grounded } => {
                self.resume_from_summary(item.seq, text, grounded)
            }
            TranscriptItemKind::Note | TranscriptItemKind::Unreadable | TranscriptItemKind::Other => {}
        }
    }

    /// Records a compaction boundary. Names counted before it are cleared, because the work may have moved on; requests
    /// before it become older requests. Files, tasks, rules, decisions and errors stay.
    fn record_boundary(&mut self, seq: Seq) {
        self.recent_from = seq + 1;
        self.last_requests.extend(self.first_requests.drain(..));
        self.last_requests.make_contiguous().sort_by_key(|quote| quote.seq);
        let excess = self.last_requests.len().saturating_sub(LAST_REQUESTS_MAX);
        self.last_requests.drain(..excess);
        self.identifiers.clear();
        self.references.clear();
        self.mentioned_paths.clear();
        self.arguments.clear_names();
        self.previous_summary = None;
        self.grounded_summary = None;
    }

    /// Records the summary that the following events continue from, and the part of it that is grounded. A blank
    /// `grounded` counts as none.
    fn resume_from_summary(&mut self, seq: Seq, text: &str, grounded: &str) {
        let quote = |text: &str| Some(quote_head(seq, &redacted_head(text), SCAN_BYTES_MAX));
        self.previous_summary = quote(text);
        self.grounded_summary = quote(grounded).filter(|quote| !quote.text.trim().is_empty());
    }

    /// Abandons the tool calls that still wait for a result, because a message of the user means that no result will come.
    /// They were performed if the thread has no results at all, because then its format records none.
    fn end_pending_calls(&mut self) {
        self.tool_outcomes.abandon_pending_calls();
        self.commits.abandon_pending();
        if !self.has_tool_results {
            self.tool_outcomes.confirm_pending();
            self.files.confirm_pending();
            self.tasks.confirm_pending();
            self.arguments.confirm_pending();
        }
    }

    /// Records a message of the user: the request itself, and the rules, decisions and names in its `task`, which is the text
    /// without the instructions of a program that posed it.
    fn record_request(&mut self, seq: Seq, text: &str, task: &str) {
        let head = redacted_head(text);
        if matches!(head, Cow::Owned(_)) {
            self.known_secrets.add(head_words(text, SCAN_BYTES_MAX));
        }
        let mut quote = quote_head(seq, &head, REQUEST_BYTES_MAX);
        quote.is_cut |= head.len() < text.len() && text.len() > SCAN_BYTES_MAX;
        let head = redacted_head(task);
        self.last_request_seq = seq;
        self.last_request_head = quote_head(seq, text, LAST_REQUEST_BYTES_MAX);
        self.answer = Quote::default();
        self.last_answer = Quote::default();
        self.first_request.get_or_insert_with(|| quote.clone());
        self.count_names_at_ends(seq, &head, task);
        if rule_cues::rule_strictness(&head).is_some() {
            for sentence in split_sentences(&head) {
                let Some(is_strict) = rule_strictness(sentence) else { continue };
                let quote = Quote { seq, text: sentence.to_owned(), is_cut: false };
                push_bounded(&mut self.rules, UserRule { quote, is_strict }, RULES_MAX);
            }
        }
        self.standing_rules.record_message(seq, &head);
        self.record_decisions(seq, &head, Author::User);
        self.count_goal_terms(&quote.text);
        if self.first_requests.len() < FIRST_REQUESTS_MAX {
            self.first_requests.push(quote);
        } else if let Some(older) = push_bounded(&mut self.last_requests, quote, LAST_REQUESTS_MAX) {
            self.keep_if_about_goal(older, |collector| &mut collector.requests_about_goal);
        }
    }

    /// Counts which terms of the goal occur in the text of one message.
    fn count_goal_terms(&mut self, text: &str) {
        if let Some(goal) = &self.goal {
            self.term_frequencies.add_text(goal.matching_terms(text));
        }
    }

    /// Adds a quote that left the recent messages to `list` if it contains a term of the goal. The list is pruned to the
    /// [`GOAL_QUOTES_MAX`] most relevant quotes when it has twice as many, so that the cost of sorting is amortized.
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

    /// Records the text blocks and tool calls of a message of the assistant. Text after the last tool call is the answer to
    /// the last request.
    fn record_ai_message(&mut self, seq: Seq, message: &AiMessage) {
        for block in &message.content {
            match block {
                ContentBlock::Text { text } if !text.trim().is_empty() => {
                    let text = strip_answer_wrappers(text);
                    self.record_statement(seq, &text);
                    self.record_answer(seq, &text);
                    self.is_answer_complete = !message.incomplete;
                }
                ContentBlock::ToolCall { id, name, args } => {
                    self.answer = Quote::default();
                    self.last_answer = Quote::default();
                    self.record_tool_call(seq, id, name, args);
                }
                ContentBlock::Text { .. }
                | ContentBlock::Thinking { .. }
                | ContentBlock::Media { .. }
                | ContentBlock::Opaque { .. } => {}
            }
        }
    }

    /// Records a text block of the assistant: the statement itself, and the decisions, names and trailing question in it.
    fn record_statement(&mut self, seq: Seq, text: &str) {
        let head = redacted_head(text);
        if matches!(head, Cow::Owned(_)) {
            self.known_secrets.add(head_words(text, SCAN_BYTES_MAX));
        }
        self.count_names_at_ends(seq, &head, text);
        self.record_decisions(seq, head_words(&head, STATEMENT_BYTES_MAX), Author::Assistant);
        self.open_question = trailing_question(seq, text);
        let statement = trim_to_whole_sentences(quote_head(seq, head.trim(), STATEMENT_BYTES_MAX));
        self.count_goal_terms(&statement.text);
        if let Some(older) = push_bounded(&mut self.statements, statement, STATEMENTS_MAX) {
            self.keep_if_about_goal(older, |collector| &mut collector.statements_about_goal);
        }
        self.last_statement_seq = seq;
    }

    /// Appends a text block to the answer to the last request, of which the last [`ANSWER_BYTES_MAX`] bytes are kept.
    fn record_answer(&mut self, seq: Seq, text: &str) {
        let is_cut = text.len() > ANSWER_BYTES_MAX;
        if self.last_answer.seq != seq {
            self.last_answer = Quote { seq, ..Quote::default() };
        }
        self.answer.seq = seq;
        let text = redact(tail_words(text, ANSWER_BYTES_MAX));
        for answer in [&mut self.answer, &mut self.last_answer] {
            if !answer.text.is_empty() {
                answer.text.push_str("\n\n");
            }
            answer.text.push_str(&text);
            if answer.text.len() > ANSWER_BYTES_MAX {
                answer.is_cut = true;
                answer.text = tail_words(&answer.text, ANSWER_BYTES_MAX).to_owned();
            }
        }
        self.last_answer.is_cut |= is_cut;
    }

    /// Records a tool call: the files, programs and argument values it names, and its change to the task list.
    fn record_tool_call(&mut self, seq: Seq, id: &str, name: &str, args: &serde_json::Value) {
        let usage = ToolUse::from_call(name, args);
        self.submission_seq = 0;
        self.submission_call = usage.submits_work(name).then(|| id.to_owned());
        self.tool_outcomes.record_call(seq, id, name, &usage);
        self.files.record_call(seq, id, &usage);
        let command = usage.command.as_deref().unwrap_or_default();
        self.known_secrets.add(head_words(command, RESULT_SECRETS_BYTES_MAX));
        self.commits.record_call(id, command);
        self.delegations.record_call(id, name, args);
        self.arguments.record_call(seq, id, args, &usage);
        if let Some(change) = usage.task {
            self.tasks.record_change(change, id, seq);
        }
    }

    /// Records the result of a tool call: the outcome, the id of a created task, and files that the text reports as edited.
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
        let head = head_words(text, SCAN_BYTES_MAX);
        self.known_secrets.add(head_words(text, RESULT_SECRETS_BYTES_MAX));
        let effect = outcomes::call_effect(text, message.status);
        self.has_tool_results = true;
        self.tasks.record_result(&message.call_id, head, seq, effect);
        // Imported aider sessions report an edit only by this sentence.
        for edited in head.split("Applied edit to ").skip(1) {
            let path = crate::tool_use::normalize_path(edited.split_whitespace().next().unwrap_or_default());
            self.files.record_write(seq, &path);
        }
        if effect == CallEffect::Performed && self.submission_call.as_deref() == Some(&message.call_id) {
            self.submission_seq = seq;
            // SWE-agent edits files with commands of its own, and shows the difference when the work is handed in.
            for changed in head.lines().filter_map(|line| line.strip_prefix("diff --git a/")) {
                let path = changed.split(" b/").next().unwrap_or_default();
                self.files.record_write(seq, &crate::tool_use::normalize_path(path));
            }
        }
        self.files.record_result(seq, &message.call_id, effect, head);
        self.commits.record_result(seq, &message.call_id, effect);
        self.delegations.record_result(&message.call_id, head, effect);
        self.arguments.record_result(&message.call_id, effect);
        if let Some(correction) = outcomes::correction(text).filter(|_| effect == CallEffect::Declined) {
            self.standing_rules.record_correction(seq, &redact(head_words(correction, RULE_TEXT_BYTES_MAX)));
        }
        self.tool_outcomes.record_result(seq, &message.call_id, text, message.status);
    }

    /// Counts the names at both ends of a message: in `head`, its redacted beginning, and in at most the last
    /// [`SCAN_BYTES_MAX`] bytes of the part that `head` does not cover.
    fn count_names_at_ends(&mut self, seq: Seq, head: &str, text: &str) {
        self.count_names(seq, head);
        if text.len() > SCAN_BYTES_MAX {
            let remaining = text.len() - SCAN_BYTES_MAX;
            self.count_names(seq, &redact(tail_words(text, remaining.min(SCAN_BYTES_MAX))));
        }
    }

    /// Counts the identifiers, references and paths in a redacted text. Error types are recorded from the results of calls.
    fn count_names(&mut self, seq: Seq, text: &str) {
        identifier::scan_names(text, |kind, name| match kind {
            NameKind::Identifier => self.identifiers.count_use(name, seq),
            NameKind::Reference | NameKind::Url => self.references.count_use(name, seq),
            NameKind::Path => self.mentioned_paths.count_use(name, seq),
            NameKind::Error | NameKind::Number => {}
        });
    }

    /// Records each sentence of a redacted text that states a decision. The cues are searched in the whole text first,
    /// because most texts have none and splitting into sentences costs more.
    fn record_decisions(&mut self, seq: Seq, text: &str, author: Author) {
        if !cues::is_decision(text) {
            return;
        }
        for sentence in split_sentences(text) {
            let is_statement = is_prose(sentence)
                && !cues::is_question(sentence)
                && !cues::is_pasted(sentence)
                && !cues::is_fragment(sentence)
                && !rules::asks_without_mark(sentence);
            if sentence.len() <= RULE_CHARS_MAX && is_statement && cues::states_decision(sentence, author) {
                let quote = Quote { seq, text: sentence.to_owned(), is_cut: false };
                push_bounded(&mut self.decisions, quote, RULES_MAX);
            }
        }
    }

    /// Returns the facts collected so far. Every text is redacted and within its limit.
    ///
    /// The collector stays usable: a caller may push more events and call this again. The cost is one copy of what was
    /// collected, plus sorting of the counted names.
    pub fn finish(&self) -> ConversationFacts {
        let review = self.review_answer();
        // The answer may have several messages.
        let source =
            |text: &str| self.statements.iter().rev().find(|statement| statement.text.contains(text));
        let left_open = |text: &String| Quote {
            seq: source(text).map_or(self.answer.seq, |statement| statement.seq),
            text: text.clone(),
            is_cut: false,
        };
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
            open_question: self.open_question().cloned(),
            last_request_text: self.last_request_text(),
            known_secrets: self.known_secrets.clone(),
            requests,
            request_answered: self.request_answered(&review),
            last_answer: Some(self.last_answer.clone()).filter(|answer| !answer.text.trim().is_empty()),
            left_open: review.left_open.iter().map(left_open).collect(),
            unanswered_requests: unanswered,
            todos: self.tasks.items(),
            todos_seq: self.tasks.seq(),
            files: self.files.latest(),
            commands: self.tool_outcomes.commands(),
            checks: self.tool_outcomes.checks().to_vec(),
            delegations: self.delegations.delegations(),
            skills: self.delegations.skills(),
            last_commit: self.commits.last_subject().cloned(),
            errors: self.tool_outcomes.errors().cloned().collect(),
            resolved_errors: self.tool_outcomes.resolved_errors().to_vec(),
            error_types: self.tool_outcomes.error_types.latest_names(),
            rules: self.rules.iter().cloned().collect(),
            standing_rules: self.standing_rules.to_vec(),
            rule_changes: self.standing_rules.other_changes(),
            decisions: self.decisions.iter().cloned().collect(),
            references: self.references.most_used_names(),
            identifiers: self.identifiers.most_used_names(),
            mentioned_paths: self.mentioned_paths.most_used_names(),
            argument_names: self.arguments.names.most_used_names(),
            argument_paths: self.arguments.paths.most_used_names(),
            argument_values: self.arguments.values.latest_names(),
            statements: self.statements.iter().cloned().collect(),
            previous_summary: self.previous_summary.clone(),
            grounded_summary: self.grounded_summary.clone(),
            requests_about_goal: self.most_relevant_to_goal(&self.requests_about_goal),
            statements_about_goal: self.most_relevant_to_goal(&self.statements_about_goal),
            term_frequencies: self.term_frequencies.clone(),
        }
    }

    /// Returns the last request, redacted, with an ellipsis where it is cut; `None` before there is one.
    fn last_request_text(&self) -> Option<String> {
        let head = Some(&self.last_request_head).filter(|head| head.seq > 0)?;
        let text = redact(&head.text);
        Some(if head.is_cut { format!("{text}…") } else { text.into_owned() })
    }

    /// Returns the [`GOAL_QUOTES_MAX`] quotes with the highest score for the goal, the highest first.
    fn most_relevant_to_goal(&self, quotes: &[(TermSet, Quote)]) -> Vec<Quote> {
        let Some(goal) = &self.goal else { return Vec::new() };
        let mut ranked = quotes.to_vec();
        sort_by_goal(&mut ranked, goal, &self.term_frequencies);
        ranked.into_iter().take(GOAL_QUOTES_MAX).map(|(_, quote)| quote).collect()
    }
}

/// Sorts quotes by their score for the goal, the highest first. Quotes with equal scores are sorted newest first.
fn sort_by_goal(quotes: &mut [(TermSet, Quote)], goal: &GoalMatcher, frequencies: &TermFrequencies) {
    quotes.sort_by(|(left_terms, left), (right_terms, right)| {
        let score = |terms| goal.score(terms, frequencies);
        score(*right_terms).total_cmp(&score(*left_terms)).then(right.seq.cmp(&left.seq))
    });
}

/// Returns `Some(true)` for an order, `Some(false)` for a wish, and `None` when the sentence is not a rule. Paragraphs
/// above [`RULE_CHARS_MAX`] characters and text that is not prose are never rules.
fn rule_strictness(sentence: &str) -> Option<bool> {
    let is_long = sentence.len() > 4 * RULE_CHARS_MAX || sentence.chars().count() > RULE_CHARS_MAX;
    let is_not_order = cues::is_question(sentence)
        || cues::is_pasted(sentence)
        || cues::is_fragment(sentence)
        || rules::asks_without_mark(sentence);
    if is_long || !is_prose(sentence) || is_not_order {
        return None;
    }
    rule_cues::rule_strictness(sentence)
}

/// Returns whether a sentence is prose: not code, not a table row, and longer than 8 bytes.
fn is_prose(sentence: &str) -> bool {
    sentence.len() > 8 && !sentence.starts_with(['|', '`', '{', '}', '$']) && !sentence.starts_with("//")
}

/// Appends a value to the queue. Returns the oldest value if it was dropped because the queue had `max` values.
fn push_bounded<T>(queue: &mut VecDeque<T>, value: T, max: usize) -> Option<T> {
    let oldest = if queue.len() >= max { queue.pop_front() } else { None };
    queue.push_back(value);
    oldest
}

/// Returns the redacted beginning of a text: at most [`SCAN_BYTES_MAX`] bytes before redaction, in whole words.
fn redacted_head(text: &str) -> Cow<'_, str> {
    redact(head_words(text, SCAN_BYTES_MAX))
}

/// Returns a quote of the beginning of `text`, in whole words. The caller has redacted `text`.
fn quote_head(seq: Seq, text: &str, bytes_max: usize) -> Quote {
    let head = head_words(text, bytes_max);
    Quote { seq, text: head.to_owned(), is_cut: head.len() < text.len() }
}

/// Returns the statement without an incomplete last sentence, unless that sentence is its only one.
fn trim_to_whole_sentences(mut statement: Quote) -> Quote {
    let last = statement.is_cut.then(|| split_sentences(&statement.text).last()).flatten();
    if let Some(length) = last.and_then(|last| statement.text.rfind(last)).filter(|length| *length > 0) {
        statement.text.truncate(length);
    }
    statement
}
