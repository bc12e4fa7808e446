//! What an admission takes back, because the thread goes on without it: questions of the turn that nobody answered, and
//! calls that were never made.

use std::collections::HashSet;

use journal::Write;
use protocol::{Block, Interrupt, Message, NewEvent, ToolMessage, ToolStatus};

use super::Planning;
use crate::Result;
use crate::driver::Others;
use crate::graph::Question;
use crate::node::hooks::{AFTER_MODEL_NODE, hook_channel};
use crate::node::model::DEFERRED_CHANNEL;
use crate::node::newest_answer_before;
use crate::node::tools::{CUT_OFF, TOOLS_NODE};
use crate::step::{Channels, Entry};
use crate::turn::{ANSWERS_CHANNEL, RECOVERED_CHANNEL, asked_channel};

/// What a model is told of a call that waited when the person went on without deciding.
const NOT_DONE: &str =
    "Not done: the person went on without answering what was asked about this call, or one beside it.";

/// What a model is told of a call that had begun and asked something itself.
const NOT_FINISHED: &str = "Not finished: the person went on without answering what was asked about this call, or one \
                            beside it. What was done until then stays.";

/// What a model is told of a call that the run never came to.
const NOT_MADE: &str =
    "Not done: the run was stopped before it came to this call, and the person went on without it.";

/// What takes back what the thread goes on without.
pub(super) struct Withdrawal {
    pub(super) writes: Vec<Write>,
    /// The results of the calls that are not made.
    pub(super) events: Vec<NewEvent>,
    /// Whether questions are left that wait all the same.
    pub(super) others: Others,
}

/// Takes what `node` asked out of a thread's state, for it goes on without an answer.
pub fn forget_question(channels: &mut Channels, node: &str) {
    asked_channel(node).remove(channels);
    hook_channel(node).remove(channels);
    ANSWERS_CHANNEL.remove(channels);
    DEFERRED_CHANNEL.remove(channels);
}

impl Planning<'_> {
    /// Takes back the questions of the turn that nobody answered, and the calls that the run does not go on to.
    pub(super) async fn withdraw(&self, channels: &mut Channels) -> Result<Withdrawal> {
        let node = self.start.node.as_deref();
        let (pending, others) = self.pending().await?;
        let mut withdrawal = Withdrawal { writes: Vec::new(), events: Vec::new(), others };
        let (mut told, mut left) = (None, Vec::new());
        for interrupt in pending {
            // A record that cannot be read does not say that nothing was begun, so nothing is taken to be fresh.
            let entry = match asked_channel(&interrupt.node).get(channels) {
                Ok(asked) => asked.map(|asked| asked.entry),
                Err(_) => Some(Entry::Recovered),
            };
            let (interrupt_id, at) = (interrupt.interrupt_id, self.admission.now);
            withdrawal.writes.push(Write::ResolveInterrupt { interrupt_id, decisions: None, at });
            let is_asked_again = node == Some(interrupt.node.as_str());
            if is_asked_again {
                if entry == Some(Entry::Recovered) {
                    RECOVERED_CHANNEL.set(channels, &true);
                }
            } else if node != Some(AFTER_MODEL_NODE) && self.start.back_to.is_none() {
                // What was asked is about the calls at the thread's end; a past point has calls of its own.
                told = Some(match told {
                    // The calls may have been made by a process that is gone, before anybody was asked.
                    _ if entry == Some(Entry::Recovered) => CUT_OFF,
                    Some(told) => told,
                    None if interrupt.node == TOOLS_NODE => NOT_FINISHED,
                    None => NOT_DONE,
                });
            }
            left.push((interrupt.node, is_asked_again));
        }
        for (node, is_asked_again) in left {
            match is_asked_again {
                true => {
                    asked_channel(&node).remove(channels);
                    ANSWERS_CHANNEL.remove(channels);
                }
                false => forget_question(channels, &node),
            }
        }
        if let Some(told) = told.or_else(|| self.left_open()) {
            withdrawal.events = self.not_done(told).await?;
        }
        Ok(withdrawal)
    }

    /// Returns the questions of the turn that wait, and whether there are others.
    async fn pending(&self) -> Result<(Vec<Interrupt>, Others)> {
        if self.before.is_none() {
            return Ok((Vec::new(), Others::None));
        }
        let pending = self.store.pending_interrupts(self.admission.thread_id).await?;
        // A graph that does not know the node does not run turns, so the turn that asked still waits.
        let is_of_turn = |interrupt: &Interrupt| {
            self.graph.get(&interrupt.node).map(|node| node.question()) == Some(Question::OfTurn)
        };
        let (of_turn, others): (Vec<_>, Vec<_>) = pending.into_iter().partition(is_of_turn);
        Ok((of_turn, if others.is_empty() { Others::None } else { Others::Perhaps }))
    }

    /// Returns what is told of calls that wait without a question: the run that was to make them was stopped, or the
    /// thread goes back to before they were made.
    fn left_open(&self) -> Option<&'static str> {
        let makes_calls = |node: &str| matches!(node, AFTER_MODEL_NODE | TOOLS_NODE);
        if self.start.node.as_deref().is_some_and(makes_calls) || self.graph.get(TOOLS_NODE).is_none() {
            return None;
        }
        let before = self.before?;
        if self.start.back_to.is_some() {
            return Some(NOT_MADE);
        }
        let is_recovered = RECOVERED_CHANNEL.is_set(&before.channels);
        let stood_at_calls = before.next.as_deref().is_some_and(makes_calls);
        stood_at_calls.then_some(if is_recovered { CUT_OFF } else { NOT_MADE })
    }

    /// Returns the results of the newest answer's calls that have none.
    async fn not_done(&self, told: &str) -> Result<Vec<NewEvent>> {
        let until = self.start.back_to.as_ref().map(|point| point.keep_seq + 1);
        let newest = newest_answer_before(self.store, self.admission.thread_id, None, until).await?;
        let mut answered = newest.answered;
        answered.extend(self.answered_by_start());
        let calls = newest.answer.map(|answer| answer.content).unwrap_or_default();
        let open = calls.into_iter().filter_map(|block| match block {
            Block::ToolCall { id, name, .. } if !answered.contains(&id) => Some((id, name)),
            Block::ToolCall { .. }
            | Block::Text { .. }
            | Block::Thinking { .. }
            | Block::Media { .. }
            | Block::Opaque { .. } => None,
        });
        open.map(|(call_id, name)| {
            let message = Message::Tool(ToolMessage {
                id: None,
                call_id,
                name: Some(name),
                content: vec![Block::text(told)],
                status: ToolStatus::Error,
            });
            Ok(NewEvent::message(&message, self.admission.now)?)
        })
        .collect()
    }

    /// Returns the calls that the start itself brings results of.
    fn answered_by_start(&self) -> HashSet<String> {
        let results = self.start.update.events.iter().filter_map(NewEvent::body::<ToolMessage>);
        results.map(|result| result.call_id).collect()
    }
}
