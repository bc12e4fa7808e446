//! The ledger: facts about a thread, folded from its events in one pass with bounded memory and without a model; and
//! what of a text may be kept. It says what is known; summaries are written elsewhere.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use model::extractive::sentences;
use protocol::{AiMessage, Block, Message, Seq, ToolMessage};

use crate::identifier::Kind;
use crate::limits::{
    ABOUT_GOAL_MAX, FIRST_REQUESTS_MAX, LAST_REQUESTS_MAX, NAME_BYTES_MAX, NAMES_KEPT_MAX, NAMES_MAX,
    REQUEST_BYTES_MAX, RULE_CHARS_MAX, RULES_MAX, SCAN_BYTES_MAX, STATEMENT_BYTES_MAX, STATEMENTS_MAX,
};
use crate::tool_use::{ToolUse, head_words, tail_words};
use calls::outcomes::Outcomes;
use calls::tasks::Tasks;
use tally::Tally;
use text::cues;

mod calls;
mod facts;
mod goal;
pub mod limits;
#[cfg(any(test, feature = "notation"))]
pub mod notation;
mod source;
mod tally;
#[cfg(test)]
mod tests;
mod text;
mod told;

pub use calls::{shell, tool_use};
pub use facts::{CheckRun, Facts, FileUse, Name, Quote, Rule};
pub use goal::{Frequencies, Goal, Terms};
pub use source::{Item, What};
pub use text::secrets::{REDACTED, redact, withhold};
pub use text::{identifier, phrase};
pub use told::told;

/// The fold; see [`Ledger::push`].
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    first_seq: Seq,
    last_seq: Seq,
    messages: u64,
    recent_from: Seq,
    origin: Option<Quote>,
    first_requests: Vec<Quote>,
    last_requests: VecDeque<Quote>,
    statements: VecDeque<Quote>,
    last_statement_at: Seq,
    /// The question the last statement ends on.
    question: Option<Quote>,
    is_answered: bool,
    tasks: Tasks,
    files: HashMap<String, FileUse>,
    commands: Tally,
    outcomes: Outcomes,
    rules: VecDeque<Rule>,
    decisions: VecDeque<Quote>,
    references: Tally,
    identifiers: Tally,
    values: Tally,
    previous_summary: Option<Quote>,
    proven_summary: Option<Quote>,
    goal: Option<Arc<Goal>>,
    frequencies: Frequencies,
    requests_about_goal: Vec<(Terms, Quote)>,
    statements_about_goal: Vec<(Terms, Quote)>,
}

impl Ledger {
    /// Returns a ledger that also keeps what the goal is about when it is older than what is kept anyway.
    pub fn for_goal(goal: Option<Arc<Goal>>) -> Self {
        Self { goal, ..Self::default() }
    }

    /// Takes the next event. Events of sub-agents, notes and injected texts only move the position.
    pub fn push(&mut self, item: &Item) {
        if self.first_seq == 0 {
            self.first_seq = item.seq;
            self.recent_from = item.seq;
        }
        self.last_seq = item.seq;
        if item.side {
            return;
        }
        match &item.what {
            What::Message(Message::Human(_)) => {
                if let Some(text) = item.user_text() {
                    self.messages += 1;
                    self.request(item.seq, &text);
                }
            }
            What::Message(Message::Ai(message)) => {
                self.messages += 1;
                self.answer(item.seq, message);
            }
            What::Message(Message::Tool(message)) => {
                self.messages += 1;
                self.result(item.seq, message);
            }
            What::Boundary => self.boundary(item.seq),
            What::ImportedSummary(text) => self.begin_after(item.seq, text, text),
            What::InheritedSummary { text, proven } => self.begin_after(item.seq, text, proven),
            What::Note | What::Unread | What::Other => {}
        }
    }

    /// The context was condensed here: what was spoken of before is no longer what the work is about.
    fn boundary(&mut self, seq: Seq) {
        self.recent_from = seq + 1;
        self.last_requests.extend(self.first_requests.drain(..));
        self.last_requests.make_contiguous().sort_by_key(|quote| quote.seq);
        let beyond = self.last_requests.len().saturating_sub(LAST_REQUESTS_MAX);
        self.last_requests.drain(..beyond);
        self.identifiers.clear();
        self.references.clear();
        self.previous_summary = None;
        self.proven_summary = None;
    }

    /// What follows goes on from a summary.
    fn begin_after(&mut self, seq: Seq, text: &str, proven: &str) {
        let quoted = |text: &str| Some(quote(seq, &said(text), SCAN_BYTES_MAX));
        self.previous_summary = quoted(text);
        self.proven_summary = quoted(proven).filter(|quote| !quote.text.trim().is_empty());
    }

    fn request(&mut self, seq: Seq, text: &str) {
        let said = said(text);
        let mut quote = quote(seq, &said, REQUEST_BYTES_MAX);
        quote.is_cut |= said.len() < text.len() && text.len() > SCAN_BYTES_MAX;
        self.is_answered = false;
        self.outcomes.abandon_calls();
        self.origin.get_or_insert_with(|| quote.clone());
        self.speak(seq, &said, text);
        if cues::rule(&said).is_some() {
            for sentence in sentences(&said) {
                let Some(is_strict) = rule(sentence) else { continue };
                let quote = Quote { seq, text: sentence.to_owned(), is_cut: false };
                push_bounded(&mut self.rules, Rule { quote, is_strict }, RULES_MAX);
            }
        }
        self.decide(seq, &said);
        self.count_terms(&quote.text);
        if self.first_requests.len() < FIRST_REQUESTS_MAX {
            self.first_requests.push(quote);
        } else if let Some(older) = push_bounded(&mut self.last_requests, quote, LAST_REQUESTS_MAX) {
            self.keep_about_goal(older, |ledger| &mut ledger.requests_about_goal);
        }
    }

    /// Counts the terms of the goal in something that was said.
    fn count_terms(&mut self, text: &str) {
        if let Some(goal) = &self.goal {
            self.frequencies.count(goal.terms_in(text));
        }
    }

    /// Keeps what is given up elsewhere when the goal is about it, within a limit.
    fn keep_about_goal(&mut self, quote: Quote, list: fn(&mut Self) -> &mut Vec<(Terms, Quote)>) {
        let Some(goal) = self.goal.clone() else { return };
        let terms = goal.terms_in(&quote.text);
        if terms == 0 {
            return;
        }
        list(self).push((terms, quote));
        if list(self).len() > 2 * ABOUT_GOAL_MAX {
            let mut kept = std::mem::take(list(self));
            sort_by_goal(&mut kept, &goal, &self.frequencies);
            kept.truncate(ABOUT_GOAL_MAX);
            *list(self) = kept;
        }
    }

    fn answer(&mut self, seq: Seq, message: &AiMessage) {
        for block in &message.content {
            match block {
                Block::Text { text } if !text.trim().is_empty() => {
                    self.state(seq, text);
                    self.is_answered = !message.incomplete && !self.outcomes.has_open_calls();
                }
                Block::ToolCall { id, name, args } => {
                    self.is_answered = false;
                    self.call(seq, id, name, args);
                }
                Block::Text { .. } | Block::Thinking { .. } | Block::Media { .. } | Block::Opaque { .. } => {}
            }
        }
    }

    fn state(&mut self, seq: Seq, text: &str) {
        let said = said(text);
        self.speak(seq, &said, text);
        self.decide(seq, head_words(&said, STATEMENT_BYTES_MAX));
        self.question = question(seq, text);
        let statement = whole_sentences(quote(seq, said.trim(), STATEMENT_BYTES_MAX));
        self.count_terms(&statement.text);
        if let Some(older) = push_bounded(&mut self.statements, statement, STATEMENTS_MAX) {
            self.keep_about_goal(older, |ledger| &mut ledger.statements_about_goal);
        }
        self.last_statement_at = seq;
    }

    fn call(&mut self, seq: Seq, id: &str, name: &str, args: &serde_json::Value) {
        let usage = ToolUse::of(name, args);
        self.outcomes.call(id, name, &usage);
        for path in &usage.reads {
            self.file(path, |file| file.read_at = seq);
        }
        for path in &usage.writes {
            self.file(path, |file| file.written_at = seq);
        }
        for command in usage.command.iter().flat_map(|command| shell::heads(command)) {
            self.commands.add(&command, seq);
        }
        for value in usage.values.iter().filter(|value| matches!(redact(value), Cow::Borrowed(_))) {
            self.values.add(value, seq);
        }
        if let Some(change) = usage.task {
            self.tasks.apply(change, id, seq);
        }
    }

    fn result(&mut self, seq: Seq, message: &ToolMessage) {
        // Only the last text block is read: several are rare, and joining them would copy large results.
        let text = message.content.iter().rev().find_map(|block| match block {
            Block::Text { text } => Some(text.as_str()),
            Block::Thinking { .. } | Block::ToolCall { .. } | Block::Media { .. } | Block::Opaque { .. } => {
                None
            }
        });
        let text = text.unwrap_or_default();
        let beginning = head_words(text, SCAN_BYTES_MAX);
        self.tasks.result(&message.call_id, beginning, seq);
        for edited in beginning.split("Applied edit to ").skip(1) {
            let path = crate::tool_use::clean_path(edited.split_whitespace().next().unwrap_or_default());
            self.file(&path, |file| file.written_at = seq);
        }
        self.outcomes.result(seq, &message.call_id, text, message.status);
    }

    fn file(&mut self, path: &str, change: impl FnOnce(&mut FileUse)) {
        if path.is_empty() || path.len() > NAME_BYTES_MAX || path.contains(['`', '\n', '"']) {
            return;
        }
        if self.files.len() >= NAMES_MAX && !self.files.contains_key(path) {
            let mut last: Vec<Seq> = self.files.values().map(FileUse::used_at).collect();
            let (_, middle, _) = last.select_nth_unstable(NAMES_MAX / 2);
            let middle = *middle;
            self.files.retain(|_, file| file.used_at() > middle);
        }
        let unused = || FileUse { path: path.to_owned(), read_at: 0, written_at: 0 };
        change(self.files.entry(path.to_owned()).or_insert_with(unused));
    }

    /// Counts the names in what somebody said: `said`, and the end of `text` when that is longer.
    fn speak(&mut self, seq: Seq, said: &str, text: &str) {
        self.count_names(seq, said);
        if text.len() > SCAN_BYTES_MAX {
            let rest = text.len() - SCAN_BYTES_MAX;
            self.count_names(seq, &redact(tail_words(text, rest.min(SCAN_BYTES_MAX))));
        }
    }

    fn count_names(&mut self, seq: Seq, text: &str) {
        identifier::scan(text, |kind, name| match kind {
            Kind::Identifier => self.identifiers.add(name, seq),
            Kind::Reference | Kind::Url => self.references.add(name, seq),
            Kind::Error | Kind::Path | Kind::Number => {}
        });
    }

    fn decide(&mut self, seq: Seq, text: &str) {
        if !cues::is_choice(text) {
            return;
        }
        for sentence in sentences(text) {
            if sentence.len() <= RULE_CHARS_MAX && is_prose(sentence) && cues::is_choice(sentence) {
                let quote = Quote { seq, text: sentence.to_owned(), is_cut: false };
                push_bounded(&mut self.decisions, quote, RULES_MAX);
            }
        }
    }

    /// Returns what is known; every text is without secrets and within its limit.
    pub fn finish(&self) -> Facts {
        let is_answered = self.is_answered && !self.outcomes.has_open_calls();
        let mut requests = self.first_requests.clone();
        requests.extend(self.last_requests.iter().cloned());
        requests.sort_by_key(|quote| quote.seq);
        let unanswered =
            requests.iter().filter(|quote| quote.seq > self.last_statement_at).cloned().collect();
        Facts {
            first_seq: self.first_seq,
            last_seq: self.last_seq,
            messages: self.messages,
            recent_from: self.recent_from,
            origin: self.origin.clone(),
            awaited: self.question.clone().filter(|_| is_answered),
            requests,
            is_answered,
            unanswered,
            todos: self.tasks.items(),
            todos_seq: self.tasks.seq,
            files: latest_files(&self.files),
            commands: self.commands.most_used(),
            checks: self.outcomes.checks().to_vec(),
            errors: self.outcomes.errors().cloned().collect(),
            error_types: self.outcomes.types.latest(),
            rules: self.rules.iter().cloned().collect(),
            decisions: self.decisions.iter().cloned().collect(),
            references: self.references.most_used(),
            identifiers: self.identifiers.most_used(),
            values: self.values.latest(),
            statements: self.statements.iter().cloned().collect(),
            previous_summary: self.previous_summary.clone(),
            proven_summary: self.proven_summary.clone(),
            requests_about_goal: self.told_about_goal(&self.requests_about_goal),
            statements_about_goal: self.told_about_goal(&self.statements_about_goal),
            frequencies: self.frequencies.clone(),
        }
    }

    fn told_about_goal(&self, quotes: &[(Terms, Quote)]) -> Vec<Quote> {
        let Some(goal) = &self.goal else { return Vec::new() };
        let mut told = quotes.to_vec();
        sort_by_goal(&mut told, goal, &self.frequencies);
        told.into_iter().take(ABOUT_GOAL_MAX).map(|(_, quote)| quote).collect()
    }
}

/// Sorts by how much is said of what the goal is about, the most first; the newer first where it is the same.
fn sort_by_goal(quotes: &mut [(Terms, Quote)], goal: &Goal, frequencies: &Frequencies) {
    quotes.sort_by(|(a, first), (b, second)| {
        let score = |terms| goal.score(terms, frequencies);
        score(*b).total_cmp(&score(*a)).then(second.seq.cmp(&first.seq))
    });
}

/// Returns whether the sentence is a rule, and if so whether it is an order.
fn rule(sentence: &str) -> Option<bool> {
    if sentence.len() > 4 * RULE_CHARS_MAX || sentence.chars().count() > RULE_CHARS_MAX || !is_prose(sentence)
    {
        return None;
    }
    cues::rule(sentence)
}

/// Returns whether a sentence is neither code nor a table nor too short to say anything.
fn is_prose(sentence: &str) -> bool {
    sentence.len() > 8 && !sentence.starts_with(['|', '`', '{', '}', '$']) && !sentence.starts_with("//")
}

/// Returns the question a statement ends on.
fn question(seq: Seq, text: &str) -> Option<Quote> {
    let text = text.trim_end();
    if !text.trim_end_matches(['*', '_', ')', ' ']).ends_with(['?', '？']) {
        return None;
    }
    let end = redact(tail_words(text, STATEMENT_BYTES_MAX));
    let last = sentences(&end).last()?;
    Some(Quote { seq, text: last.to_owned(), is_cut: false })
}

fn latest_files(files: &HashMap<String, FileUse>) -> Vec<FileUse> {
    let mut files: Vec<FileUse> = files.values().cloned().collect();
    files.sort_unstable_by(|a, b| b.used_at().cmp(&a.used_at()).then_with(|| a.path.cmp(&b.path)));
    let mut reads = 0;
    files.retain(|file| {
        reads += usize::from(file.written_at == 0);
        file.written_at > 0 || reads <= NAMES_KEPT_MAX
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
fn said(text: &str) -> Cow<'_, str> {
    redact(head_words(text, SCAN_BYTES_MAX))
}

/// Returns the beginning of a text that is already without secrets.
fn quote(seq: Seq, text: &str, bytes_max: usize) -> Quote {
    let kept = head_words(text, bytes_max);
    Quote { seq, text: kept.to_owned(), is_cut: kept.len() < text.len() }
}

/// Returns the statement without a sentence that was cut with it, unless it is the only one.
fn whole_sentences(mut statement: Quote) -> Quote {
    let last = statement.is_cut.then(|| sentences(&statement.text).last()).flatten();
    if let Some(length) = last.and_then(|last| statement.text.rfind(last)).filter(|length| *length > 0) {
        statement.text.truncate(length);
    }
    statement
}
