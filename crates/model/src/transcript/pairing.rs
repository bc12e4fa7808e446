//! Finds the result of each tool call. Nothing is moved or invented here.

use std::collections::HashMap;

use protocol::{Message, ToolMessage};

/// Returns, for every tool call in order, the index of the message that holds its result.
///
/// A result belongs to the newest call before it with its id; where a batch repeats an id, to the first of them
/// that has none yet. A result without an id belongs to the newest batch's first open call, of its name if it has
/// one. The first result of a call wins.
pub(super) fn pair(messages: &[Message]) -> Vec<Option<usize>> {
    let mut calls = Calls::default();
    for (index, message) in messages.iter().enumerate() {
        match message {
            Message::Human(_) => {}
            Message::Ai(_) => calls.begin_batch(message),
            Message::Tool(result) => {
                if let Some(call) = calls.answered_by(result) {
                    calls.results[call] = Some(index);
                }
            }
        }
    }
    calls.results
}

#[derive(Default)]
struct Calls<'a> {
    results: Vec<Option<usize>>,
    names: Vec<&'a str>,
    /// For each id, the calls of the newest batch that has it.
    by_id: HashMap<&'a str, Vec<usize>>,
    batch_start: usize,
}

impl<'a> Calls<'a> {
    fn begin_batch(&mut self, message: &'a Message) {
        let start = self.results.len();
        for (id, name, _) in message.tool_calls() {
            let call = self.results.len();
            self.results.push(None);
            self.names.push(name);
            if !id.is_empty() {
                let same = self.by_id.entry(id).or_default();
                same.retain(|earlier| *earlier >= start);
                same.push(call);
            }
        }
        if self.results.len() > start {
            self.batch_start = start;
        }
    }

    fn answered_by(&self, result: &ToolMessage) -> Option<usize> {
        let is_open = |call: &usize| self.results[*call].is_none();
        if !result.call_id.is_empty() {
            return self.by_id.get(result.call_id.as_str())?.iter().copied().find(is_open);
        }
        let named = |call: &usize| result.name.as_deref().is_none_or(|name| self.names[*call] == name);
        (self.batch_start..self.results.len()).filter(is_open).find(named)
    }
}
