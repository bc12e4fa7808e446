//! Pairing of tool calls and results. Nothing is moved or added here.

use std::collections::HashMap;
use std::ops::Range;

use protocol::{Message, ToolMessage};

/// Returns the index of the message with the result, for every tool call in order.
///
/// A result belongs to the newest call before it with the same id. If several calls of a batch share an id, it
/// belongs to the first of them without a result. A result without an id belongs to the first call without a
/// result in the newest batch, restricted to calls of the same name if it has one. Only the first result of a
/// call counts.
pub fn pair_results<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<Option<usize>> {
    let mut calls = CallIndex::default();
    for (index, message) in messages.into_iter().enumerate() {
        match message {
            Message::Human(_) => {}
            Message::Ai(_) => calls.begin_batch(message),
            Message::Tool(result) => {
                if let Some(call) = calls.find_call(result) {
                    calls.results[call] = Some(index);
                }
            }
        }
    }
    calls.results
}

/// The calls of a conversation so far, with their results.
#[derive(Default)]
struct CallIndex<'a> {
    /// The index of the message with the result, for each call.
    results: Vec<Option<usize>>,
    /// The id and the name of each call.
    calls: Vec<(&'a str, &'a str)>,
    /// The range of calls of each message that has calls.
    batches: Vec<Range<usize>>,
    /// The newest batch with each id, for the batches that were indexed. Nearly every result belongs to the
    /// newest batch, so this stays empty in an ordinary conversation.
    by_id: HashMap<&'a str, usize>,
    /// The number of batches that were indexed.
    indexed_batches: usize,
}

impl<'a> CallIndex<'a> {
    /// Adds the calls of a message as a new batch.
    fn begin_batch(&mut self, message: &'a Message) {
        let start = self.calls.len();
        self.calls.extend(message.tool_calls().map(|(id, name, _)| (id, name)));
        self.results.resize(self.calls.len(), None);
        if self.calls.len() > start {
            self.batches.push(start..self.calls.len());
        }
    }

    /// Returns the index of the call that the result belongs to, if there is one.
    fn find_call(&mut self, result: &ToolMessage) -> Option<usize> {
        let newest = self.batches.last()?.clone();
        let id = result.call_id.as_str();
        if id.is_empty() {
            let name = result.name.as_deref();
            return self.find_open_call(newest, |call| name.is_none_or(|name| self.calls[call].1 == name));
        }
        if self.calls[newest.clone()].iter().any(|(other, _)| *other == id) {
            return self.find_open_call(newest, |call| self.calls[call].0 == id);
        }
        let batch = self.newest_batch_with(id)?;
        self.find_open_call(batch, |call| self.calls[call].0 == id)
    }

    /// Returns the first call of the batch that has no result and satisfies `is_match`.
    fn find_open_call(&self, mut batch: Range<usize>, is_match: impl Fn(usize) -> bool) -> Option<usize> {
        batch.find(|call| self.results[*call].is_none() && is_match(*call))
    }

    /// Returns the newest batch with a call of this id. Indexes the batches that were not indexed yet.
    fn newest_batch_with(&mut self, id: &str) -> Option<Range<usize>> {
        for (number, batch) in self.batches.iter().enumerate().skip(self.indexed_batches) {
            self.by_id.extend(self.calls[batch.clone()].iter().map(|(id, _)| (*id, number)));
        }
        self.indexed_batches = self.batches.len();
        self.by_id.get(id).map(|number| self.batches[*number].clone())
    }
}
