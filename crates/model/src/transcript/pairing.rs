//! Finds the result of each tool call. Nothing is moved or invented here.

use std::collections::HashMap;
use std::ops::Range;

use protocol::{Message, ToolMessage};

/// Returns, for every tool call in order, the index of the message that holds its result.
///
/// A result belongs to the newest call before it with its id; where a batch repeats an id, to the first of them
/// that has none yet. A result without an id belongs to the newest batch's first open call, of its name if it has
/// one. The first result of a call wins.
pub fn pair<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<Option<usize>> {
    let mut calls = Calls::default();
    for (index, message) in messages.into_iter().enumerate() {
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
    /// Id and name of each call.
    calls: Vec<(&'a str, &'a str)>,
    batches: Vec<Range<usize>>,
    /// For each id, the newest batch with it, of the batches that have been looked through. Nearly every result
    /// answers the newest batch, so that this stays empty in an ordinary conversation.
    by_id: HashMap<&'a str, usize>,
    looked_through: usize,
}

impl<'a> Calls<'a> {
    fn begin_batch(&mut self, message: &'a Message) {
        let start = self.calls.len();
        self.calls.extend(message.tool_calls().map(|(id, name, _)| (id, name)));
        self.results.resize(self.calls.len(), None);
        if self.calls.len() > start {
            self.batches.push(start..self.calls.len());
        }
    }

    fn answered_by(&mut self, result: &ToolMessage) -> Option<usize> {
        let newest = self.batches.last()?.clone();
        let id = result.call_id.as_str();
        if id.is_empty() {
            let name = result.name.as_deref();
            return self.open(newest, |call| name.is_none_or(|name| self.calls[call].1 == name));
        }
        if self.calls[newest.clone()].iter().any(|(other, _)| *other == id) {
            return self.open(newest, |call| self.calls[call].0 == id);
        }
        let batch = self.newest_with(id)?;
        self.open(batch, |call| self.calls[call].0 == id)
    }

    fn open(&self, mut batch: Range<usize>, is_meant: impl Fn(usize) -> bool) -> Option<usize> {
        batch.find(|call| self.results[*call].is_none() && is_meant(*call))
    }

    fn newest_with(&mut self, id: &str) -> Option<Range<usize>> {
        for (number, batch) in self.batches.iter().enumerate().skip(self.looked_through) {
            self.by_id.extend(self.calls[batch.clone()].iter().map(|(id, _)| (*id, number)));
        }
        self.looked_through = self.batches.len();
        self.by_id.get(id).map(|number| self.batches[*number].clone())
    }
}
