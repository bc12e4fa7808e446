//! Checks that every name in a summary's items occurs in the messages it covers, and marks the items where one does
//! not. It compares names, not meaning: a false sentence without names passes.

use aho_corasick::AhoCorasick;
use protocol::{Block, HandoffSummary, Message, SummaryItem};
use serde_json::Value;

use crate::ledger::identifier;
use crate::ledger::source::{Item, What};
use crate::summary::render::without_hidden;
use memory::REDACTED;

#[cfg(test)]
mod tests;

/// Characters below which a word of a code span says too little to be looked for.
const WORD_CHARS_MIN: usize = 3;
/// What stands around a word without being part of it.
const PUNCTUATION: [char; 7] = [',', ';', ':', '.', '"', '\'', '…'];
/// Names that are looked for.
const NAMES_MAX: usize = 2_000;

/// Looks for the names of a summary in the events it covers; stops looking when all are found.
#[derive(Debug)]
pub struct Grounding {
    /// For each name, the item it is in.
    owners: Vec<usize>,
    found: Vec<bool>,
    missing: usize,
    matcher: Option<AhoCorasick>,
}

impl Grounding {
    /// Begins to look for the names in the items of `summary`.
    pub fn new(summary: &HandoffSummary) -> Self {
        Self::of(&summary.body)
    }

    /// Begins to look for the names in `body`.
    pub(crate) fn of(body: &[SummaryItem]) -> Self {
        let mut names = Vec::new();
        let mut owners = Vec::new();
        for (owner, item) in body.iter().enumerate() {
            names_of(&item.text, |name| {
                if names.len() < NAMES_MAX {
                    names.push(name.to_owned());
                    owners.push(owner);
                }
            });
        }
        let matcher = AhoCorasick::builder().ascii_case_insensitive(true).build(&names).ok();
        Self { found: vec![false; names.len()], missing: names.len(), owners, matcher }
    }

    /// Returns whether every name was found, so that no more events need to be shown.
    pub fn is_done(&self) -> bool {
        self.missing == 0
    }

    /// Takes the next covered event.
    pub fn see(&mut self, item: &Item) {
        if self.is_done() {
            return;
        }
        match &item.what {
            What::Message(message) => self.message(message),
            What::ImportedSummary(text) => self.text(text),
            What::Note | What::Boundary | What::Other => {}
        }
    }

    fn message(&mut self, message: &Message) {
        for block in message.content() {
            match block {
                Block::Text { text } => self.text(text),
                Block::ToolCall { name, args, .. } => {
                    self.text(name);
                    self.value(args);
                }
                Block::Thinking { .. } | Block::Media { .. } | Block::Opaque { .. } => {}
            }
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) => items.iter().for_each(|item| self.value(item)),
            Value::Object(fields) => fields.iter().for_each(|(key, item)| {
                self.text(key);
                self.value(item);
            }),
            Value::Number(number) => self.text(&number.to_string()),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Looks in a text, and again in the form summaries are shown in where that differs.
    fn text(&mut self, text: &str) {
        self.look(text);
        if !self.is_done() && text.contains('\\') {
            self.look(&text.replace('\\', "/"));
        }
        if !self.is_done() && !text.is_ascii() {
            self.look(&without_hidden(text));
        }
    }

    fn look(&mut self, text: &str) {
        let Some(matcher) = &self.matcher else { return };
        // Overlapping, because one name is often a part of another.
        for hit in matcher.find_overlapping_iter(text) {
            let found = &mut self.found[hit.pattern().as_usize()];
            if !*found {
                *found = true;
                self.missing -= 1;
                if self.missing == 0 {
                    return;
                }
            }
        }
    }

    /// Marks the items that name what was not found; returns how many there are.
    pub fn finish(self, summary: &mut HandoffSummary) -> usize {
        self.mark(&mut summary.body)
    }

    /// Marks the items of `body`, which this was made of.
    pub(crate) fn mark(self, body: &mut [SummaryItem]) -> usize {
        for item in body.iter_mut() {
            item.verified = true;
        }
        for (owner, found) in self.owners.into_iter().zip(self.found) {
            if !found && let Some(item) = body.get_mut(owner) {
                item.verified = false;
            }
        }
        body.iter().filter(|item| !item.verified).count()
    }
}

/// Calls `found` with every name and every word of a code span in `text`.
fn names_of<'a>(text: &'a str, mut found: impl FnMut(&'a str)) {
    let mut take = |name: &'a str| {
        let is_short = name.chars().count() < WORD_CHARS_MIN;
        if !is_short && !name.contains(REDACTED.trim_end_matches(']')) {
            found(name);
        }
    };
    identifier::scan(text, |_, name| take(name));
    for line in text.lines() {
        let spans = line.matches('`').count() / 2;
        for code in line.split('`').skip(1).step_by(2).take(spans) {
            code.split_whitespace().map(|word| word.trim_matches(PUNCTUATION)).for_each(&mut take);
        }
    }
}
