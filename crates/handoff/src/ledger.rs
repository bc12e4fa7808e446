//! The ledger: facts about a thread, folded from its events in one pass with bounded memory and without a model.
//! It says what is known, not how to tell it.

use std::collections::{HashMap, VecDeque};

use model::extractive::sentences;
use protocol::{AiMessage, Block, Message, Seq, ToolMessage};

use crate::ledger::identifier::Kind;
use crate::ledger::source::{Item, What};
use crate::ledger::tool_use::{ToolUse, head, tail};
use crate::limits::{
    FIRST_REQUESTS_MAX, LAST_REQUESTS_MAX, NAME_BYTES_MAX, NAMES_KEPT_MAX, NAMES_MAX, REQUEST_BYTES_MAX,
    RULE_CHARS_MAX, RULES_MAX, SCAN_BYTES_MAX, STATEMENT_BYTES_MAX, STATEMENTS_MAX,
};
use memory::redact;
use outcomes::Outcomes;
use tally::Tally;
use tasks::Tasks;

mod cues;
mod facts;
pub(crate) mod identifier;
mod outcomes;
pub(crate) mod shell;
pub(crate) mod source;
mod tally;
mod tasks;
#[cfg(test)]
mod tests;
pub(crate) mod tool_use;

pub use facts::{CheckRun, Facts, FileUse, Name, Quote, Rule};

/// Bytes kept beyond a limit so that a secret at the cut is seen whole and replaced.
const REDACTION_SLACK_BYTES: usize = 256;

/// The fold; see [`Ledger::push`].
#[derive(Debug, Default)]
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
    is_answered: bool,
    tasks: Tasks,
    files: HashMap<String, (Seq, Seq)>,
    commands: Tally,
    outcomes: Outcomes,
    rules: VecDeque<Rule>,
    decisions: VecDeque<Quote>,
    references: Tally,
    identifiers: Tally,
    values: Tally,
    previous_summary: Option<Quote>,
}

impl Ledger {
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
            What::ImportedSummary(text) => {
                self.previous_summary = Some(kept(item.seq, text, SCAN_BYTES_MAX));
            }
            What::Note | What::Other => {}
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
    }

    fn request(&mut self, seq: Seq, text: &str) {
        let quote = kept(seq, text, REQUEST_BYTES_MAX);
        self.is_answered = false;
        self.outcomes.abandon_calls();
        self.origin.get_or_insert_with(|| quote.clone());
        self.speak(seq, text);
        let part = head(text, SCAN_BYTES_MAX);
        if cues::rule(part).is_some() {
            for sentence in sentences(part) {
                let Some(is_strict) = rule(sentence) else { continue };
                let quote = Quote { seq, text: sentence.to_owned() };
                push_bounded(&mut self.rules, Rule { quote, is_strict }, RULES_MAX);
            }
        }
        self.decide(seq, part);
        if self.first_requests.len() < FIRST_REQUESTS_MAX {
            self.first_requests.push(quote);
        } else {
            push_bounded(&mut self.last_requests, quote, LAST_REQUESTS_MAX);
        }
    }

    fn answer(&mut self, seq: Seq, message: &AiMessage) {
        for block in &message.content {
            match block {
                Block::Text { text } if !text.trim().is_empty() => {
                    self.speak(seq, text);
                    self.decide(seq, head(text, STATEMENT_BYTES_MAX));
                    push_bounded(
                        &mut self.statements,
                        kept(seq, text.trim(), STATEMENT_BYTES_MAX),
                        STATEMENTS_MAX,
                    );
                    self.last_statement_at = seq;
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

    fn call(&mut self, seq: Seq, id: &str, name: &str, args: &serde_json::Value) {
        let usage = ToolUse::of(name, args);
        self.outcomes.call(id, name, &usage);
        for path in &usage.reads {
            self.file(path, |(read, _)| *read = seq);
        }
        for path in &usage.writes {
            self.file(path, |(_, written)| *written = seq);
        }
        for command in usage.command.iter().flat_map(|command| shell::heads(command)) {
            self.commands.add(&command, seq);
        }
        for value in &usage.values {
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
            _ => None,
        });
        let text = text.unwrap_or_default();
        self.tasks.result(&message.call_id, head(text, SCAN_BYTES_MAX), seq);
        for edited in head(text, SCAN_BYTES_MAX).split("Applied edit to ").skip(1) {
            let path =
                crate::ledger::tool_use::clean_path(edited.split_whitespace().next().unwrap_or_default());
            self.file(&path, |(_, written)| *written = seq);
        }
        self.outcomes.result(seq, &message.call_id, text, message.status);
    }

    fn file(&mut self, path: &str, change: impl FnOnce(&mut (Seq, Seq))) {
        if path.is_empty() || path.len() > NAME_BYTES_MAX || path.contains(['`', '\n', '"']) {
            return;
        }
        if self.files.len() >= NAMES_MAX && !self.files.contains_key(path) {
            let mut last: Vec<Seq> = self.files.values().map(|(read, written)| *read.max(written)).collect();
            let (_, middle, _) = last.select_nth_unstable(NAMES_MAX / 2);
            let middle = *middle;
            self.files.retain(|_, (read, written)| *read.max(written) > middle);
        }
        change(self.files.entry(path.to_owned()).or_default());
    }

    /// Counts the names in what somebody said.
    fn speak(&mut self, seq: Seq, text: &str) {
        let (first, last) = match text.len() > 2 * SCAN_BYTES_MAX {
            true => (head(text, SCAN_BYTES_MAX), tail(text, SCAN_BYTES_MAX)),
            false => (text, ""),
        };
        for part in [first, last] {
            identifier::scan(&redact(part), |kind, name| match kind {
                Kind::Identifier => self.identifiers.add(name, seq),
                Kind::Reference | Kind::Url => self.references.add(name, seq),
                Kind::Error | Kind::Path | Kind::Number => {}
            });
        }
    }

    fn decide(&mut self, seq: Seq, text: &str) {
        if !cues::is_choice(text) {
            return;
        }
        for sentence in sentences(text) {
            if sentence.len() <= RULE_CHARS_MAX && is_prose(sentence) && cues::is_choice(sentence) {
                push_bounded(&mut self.decisions, Quote { seq, text: sentence.to_owned() }, RULES_MAX);
            }
        }
    }

    /// Returns what is known; every text is without secrets and within its limit.
    pub fn finish(self) -> Facts {
        let is_answered = self.is_answered && !self.outcomes.has_open_calls();
        let mut requests = self.first_requests;
        requests.extend(self.last_requests);
        requests.sort_by_key(|quote| quote.seq);
        let requests: Vec<Quote> =
            requests.into_iter().map(|quote| clean(quote, REQUEST_BYTES_MAX)).collect();
        let statement = |quote| clean(quote, STATEMENT_BYTES_MAX);
        let statements: Vec<Quote> = self.statements.into_iter().map(statement).collect();
        let sentence = |quote| clean(quote, 4 * RULE_CHARS_MAX);
        let unanswered =
            requests.iter().filter(|quote| quote.seq > self.last_statement_at).cloned().collect();
        let error_types = self.outcomes.types.latest();
        let (checks, errors) = self.outcomes.into_parts();
        let todos_seq = self.tasks.seq;
        let mut todos = self.tasks.into_items();
        for todo in &mut todos {
            todo.text = redact(&todo.text).into_owned();
        }
        Facts {
            first_seq: self.first_seq,
            last_seq: self.last_seq,
            messages: self.messages,
            recent_from: self.recent_from,
            origin: self.origin.map(|quote| clean(quote, REQUEST_BYTES_MAX)),
            awaited: statements.last().filter(|_| is_answered).and_then(question),
            requests,
            is_answered,
            unanswered,
            todos,
            todos_seq,
            files: latest_files(self.files),
            commands: self.commands.most_used(),
            checks: checks.into_iter().map(clean_run).collect(),
            errors: errors.into_iter().map(sentence).collect(),
            error_types,
            rules: self.rules.into_iter().map(|rule| Rule { quote: sentence(rule.quote), ..rule }).collect(),
            decisions: self.decisions.into_iter().map(sentence).collect(),
            references: self.references.most_used(),
            identifiers: self.identifiers.most_used(),
            values: self.values.latest(),
            statements,
            previous_summary: self.previous_summary.map(|quote| clean(quote, SCAN_BYTES_MAX)),
        }
    }
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
fn question(statement: &Quote) -> Option<Quote> {
    let last = sentences(&statement.text).last()?;
    last.trim_end_matches(['*', '_', ')', ' '])
        .ends_with(['?', '？'])
        .then(|| Quote { seq: statement.seq, text: last.to_owned() })
}

fn latest_files(files: HashMap<String, (Seq, Seq)>) -> Vec<FileUse> {
    let mut files: Vec<FileUse> = files
        .into_iter()
        .map(|(path, (read_at, written_at))| FileUse { path, read_at, written_at })
        .collect();
    files.sort_unstable_by(|a, b| {
        let last = |file: &FileUse| file.read_at.max(file.written_at);
        last(b).cmp(&last(a)).then_with(|| a.path.cmp(&b.path))
    });
    let mut reads = 0;
    files.retain(|file| {
        reads += usize::from(file.written_at == 0);
        file.written_at > 0 || reads <= NAMES_KEPT_MAX
    });
    files
}

fn push_bounded<T>(queue: &mut VecDeque<T>, value: T, max: usize) {
    if queue.len() >= max {
        queue.pop_front();
    }
    queue.push_back(value);
}

/// Returns the beginning of `text` with room for [`clean`] to see a secret at the cut.
fn kept(seq: Seq, text: &str, bytes_max: usize) -> Quote {
    Quote { seq, text: head(text, bytes_max + REDACTION_SLACK_BYTES).to_owned() }
}

fn clean(quote: Quote, bytes_max: usize) -> Quote {
    Quote { seq: quote.seq, text: head(&redact(&quote.text), bytes_max).to_owned() }
}

fn clean_run(run: CheckRun) -> CheckRun {
    CheckRun { detail: run.detail.map(|detail| redact(&detail).into_owned()), ..run }
}
