//! Withdrawals of an admission. A run that starts elsewhere withdraws the turn's unanswered questions and gives
//! each tool call that will not be made a result.

use std::collections::HashSet;

use jiff::Timestamp;
use journal::{Store, ThreadPatch, Write};
use protocol::{
    ActionRequest, AiMessage, ContentBlock, Interrupt, InterruptStatus, Message, NewEvent, ThreadId,
    ThreadStatus, ToolMessage, ToolStatus,
};
use serde_json::Value;

use super::RunAdmissionPlanner;
use crate::Result;
use crate::driver::OtherQuestions;
use crate::graph::QuestionLifetime;
use crate::node::hooks::{AFTER_MODEL_NODE, resume_hook_channel};
use crate::node::model::DEFERRED_QUESTIONS_CHANNEL;
use crate::node::read_latest_answer_before;
use crate::node::tools::{CALL_INTERRUPTED_TEXT, TOOLS_NODE};
use crate::step::{Channels, GraphUpdate, StepEntry, StepFailure};
use crate::turn::{ANSWERS_CHANNEL, RECOVERED_CHANNEL, pending_questions_channel};

/// The result of a call that was waiting for a decision when the person continued without deciding.
const CALL_WITHDRAWN_TEXT: &str = "Not done: the person continued without answering the question about this call or about \
                                   another call of the same answer.";

/// The result of a call that had started and then asked a question itself.
const CALL_UNFINISHED_TEXT: &str = "Not finished: the person continued without answering the question about this call or about \
                                    another call of the same answer. The effects of the call until then remain.";

/// The result of a call that the run did not make.
const CALL_SKIPPED_TEXT: &str =
    "Not done: the run was stopped before this call was made, and the person continued without it.";

/// The writes and events that withdraw questions and unmade calls.
pub(super) struct QuestionWithdrawal {
    /// The writes that close the withdrawn interrupts.
    pub(super) writes: Vec<Write>,
    /// The results of the calls that will not be made.
    pub(super) events: Vec<NewEvent>,
    /// The knowledge about questions of the thread that stay pending.
    pub(super) other_questions: OtherQuestions,
}

/// Removes the pending questions of `node` and their answers from a thread's state, because the thread continues
/// without an answer.
pub fn forget_question(channels: &mut Channels, node: &str) {
    pending_questions_channel(node).remove(channels);
    resume_hook_channel(node).remove(channels);
    ANSWERS_CHANNEL.remove(channels);
    DEFERRED_QUESTIONS_CHANNEL.remove(channels);
}

/// A tool call without a result.
#[derive(Debug, Clone, Copy)]
pub struct OpenCall<'a> {
    /// The provider's id of the call.
    pub id: &'a str,
    /// The tool's name.
    pub name: &'a str,
    /// The arguments.
    pub args: &'a Value,
}

/// Returns the update that ends a thread's `questions` about tool calls without an answer: they are withdrawn, with those
/// of sub-agents that they relay, and each open call of the newest answer gets an error result with the text that
/// `result_text` returns for it. A call for which it returns `None` stays open.
///
/// # Errors
/// Fails when the journal cannot be read or a result cannot be serialized.
pub async fn withdraw_calls(
    store: &dyn Store,
    thread_id: ThreadId,
    questions: &[Interrupt],
    result_text: &(dyn for<'a> Fn(OpenCall<'a>) -> Option<String> + Sync),
    at: Timestamp,
) -> std::result::Result<GraphUpdate, StepFailure> {
    let mut update = GraphUpdate::default();
    for question in questions {
        let interrupt_id = question.interrupt_id;
        update.writes.push(Write::ResolveInterrupt { interrupt_id, decisions: None, at });
        update.writes.extend(relayed_withdrawals(store, question, at).await?);
        pending_questions_channel(&question.node).clear(&mut update.channels);
        resume_hook_channel(&question.node).clear(&mut update.channels);
        DEFERRED_QUESTIONS_CHANNEL.clear(&mut update.channels);
    }
    let newest = read_latest_answer_before(store, thread_id, None, None).await?;
    for call in newest.answer.iter().flat_map(answer_calls) {
        let text = if newest.answered_calls.contains(call.id) { None } else { result_text(call) };
        if let Some(text) = text {
            update.events.push(unmade_call_result(call, &text, at)?);
        }
    }
    Ok(update)
}

/// Returns the writes that withdraw the questions of sub-agents that a question of their parent relays. They are needed
/// when the parent's question is withdrawn, because nobody can answer the sub-agents' questions after that.
///
/// # Errors
/// Fails when the journal cannot be read.
pub async fn relayed_withdrawals(
    store: &dyn Store,
    question: &Interrupt,
    at: Timestamp,
) -> journal::Result<Vec<Write>> {
    let mut writes = Vec::new();
    for relayed in question.payload.action_requests.iter().filter_map(ActionRequest::subagent) {
        let interrupt_id = relayed.interrupt_id;
        match store.interrupt(interrupt_id).await? {
            Some(inner) if inner.status == InterruptStatus::Pending => {
                writes.push(Write::ResolveInterrupt { interrupt_id, decisions: None, at });
                let patch = ThreadPatch { status: Some(ThreadStatus::Idle), ..ThreadPatch::default() };
                writes.push(Write::UpdateThread { thread_id: inner.thread_id, patch });
            }
            Some(_) | None => {}
        }
    }
    Ok(writes)
}

/// Returns the calls of an answer.
fn answer_calls(answer: &AiMessage) -> impl Iterator<Item = OpenCall<'_>> {
    answer.content.iter().filter_map(|block| match block {
        ContentBlock::ToolCall { id, name, args } => Some(OpenCall { id, name, args }),
        ContentBlock::Text { .. }
        | ContentBlock::Thinking { .. }
        | ContentBlock::Media { .. }
        | ContentBlock::Opaque { .. } => None,
    })
}

/// Returns the error result of a call that was not made.
fn unmade_call_result(call: OpenCall<'_>, text: &str, at: Timestamp) -> serde_json::Result<NewEvent> {
    let message = Message::Tool(ToolMessage {
        id: None,
        call_id: call.id.to_owned(),
        name: Some(call.name.to_owned()),
        content: vec![ContentBlock::text(text)],
        status: ToolStatus::Error,
    });
    NewEvent::from_message(&message, at)
}

impl RunAdmissionPlanner<'_> {
    /// Plans the withdrawal of the turn's unanswered questions and of the calls that the run does not continue
    /// with. Removes the questions from `channels`.
    pub(super) async fn withdraw_questions(&self, channels: &mut Channels) -> Result<QuestionWithdrawal> {
        let node = self.start.node.as_deref();
        let (pending, other_questions) = self.read_pending_questions().await?;
        let mut withdrawal = QuestionWithdrawal { writes: Vec::new(), events: Vec::new(), other_questions };
        let (mut result_text, mut withdrawn) = (None, Vec::new());
        for interrupt in pending {
            // If the record cannot be read, the node may have been started before.
            let entry = match pending_questions_channel(&interrupt.node).get(channels) {
                Ok(questions) => questions.map(|questions| questions.entry),
                Err(_) => Some(StepEntry::Recovered),
            };
            let (interrupt_id, at) = (interrupt.interrupt_id, self.admission.now);
            withdrawal.writes.push(Write::ResolveInterrupt { interrupt_id, decisions: None, at });
            let is_asked_again = node == Some(interrupt.node.as_str());
            if is_asked_again {
                if entry == Some(StepEntry::Recovered) {
                    RECOVERED_CHANNEL.set(channels, &true);
                }
            } else if node != Some(AFTER_MODEL_NODE) && self.start.rewind.is_none() {
                // The questions are about the calls at the thread's end. A past point has other calls.
                result_text = Some(match result_text {
                    // A process that is gone may have made the calls before the question was asked.
                    _ if entry == Some(StepEntry::Recovered) => CALL_INTERRUPTED_TEXT,
                    Some(result_text) => result_text,
                    None if interrupt.node == TOOLS_NODE => CALL_UNFINISHED_TEXT,
                    None => CALL_WITHDRAWN_TEXT,
                });
            }
            withdrawn.push((interrupt.node, is_asked_again));
        }
        for (node, is_asked_again) in withdrawn {
            match is_asked_again {
                true => {
                    pending_questions_channel(&node).remove(channels);
                    ANSWERS_CHANNEL.remove(channels);
                }
                false => forget_question(channels, &node),
            }
        }
        if let Some(result_text) = result_text.or_else(|| self.open_calls_text()) {
            withdrawal.events = self.unmade_call_results(result_text).await?;
        }
        Ok(withdrawal)
    }

    /// Returns the pending questions of the turn, and whether the thread has other pending questions.
    async fn read_pending_questions(&self) -> Result<(Vec<Interrupt>, OtherQuestions)> {
        if self.head.is_none() || self.start.knows_no_questions() {
            return Ok((Vec::new(), OtherQuestions::None));
        }
        let pending = self.store.pending_interrupts(self.admission.thread_id).await?;
        // A graph without the node does not run the thread's turns, so the turn that asked still waits.
        let belongs_to_turn = |interrupt: &Interrupt| {
            self.graph.get(&interrupt.node).map(|node| node.question_lifetime())
                == Some(QuestionLifetime::Turn)
        };
        let (turn_questions, other_questions): (Vec<_>, Vec<_>) =
            pending.into_iter().partition(belongs_to_turn);
        Ok((
            turn_questions,
            if other_questions.is_empty() { OtherQuestions::None } else { OtherQuestions::Unknown },
        ))
    }

    /// Returns the result text for calls that are open without a question, or `None` if such calls do not have to
    /// be closed. Calls are open without a question when the run that was to make them was stopped, or when the
    /// thread goes back to a point before they were made.
    fn open_calls_text(&self) -> Option<&'static str> {
        let makes_calls = |node: &str| matches!(node, AFTER_MODEL_NODE | TOOLS_NODE);
        if self.start.node.as_deref().is_some_and(makes_calls) || self.graph.get(TOOLS_NODE).is_none() {
            return None;
        }
        let head = self.head?;
        if self.start.rewind.is_some() {
            return Some(CALL_SKIPPED_TEXT);
        }
        let is_recovered = RECOVERED_CHANNEL.is_set(&head.channels);
        let stopped_at_calls = head.next.as_deref().is_some_and(makes_calls);
        stopped_at_calls.then_some(if is_recovered { CALL_INTERRUPTED_TEXT } else { CALL_SKIPPED_TEXT })
    }

    /// Returns results with this text for the calls of the newest answer that have no result.
    async fn unmade_call_results(&self, text: &str) -> Result<Vec<NewEvent>> {
        let until = self.start.rewind.as_ref().map(|point| point.keep_seq + 1);
        let newest = read_latest_answer_before(self.store, self.admission.thread_id, None, until).await?;
        let mut answered = newest.answered_calls;
        answered.extend(self.answered_call_ids());
        let calls = newest.answer.iter().flat_map(answer_calls);
        calls
            .filter(|call| !answered.contains(call.id))
            .map(|call| Ok(unmade_call_result(call, text, self.admission.now)?))
            .collect()
    }

    /// Returns the ids of the calls for which the start itself has a result.
    fn answered_call_ids(&self) -> HashSet<String> {
        let results = self.start.update.events.iter().filter_map(NewEvent::body::<ToolMessage>);
        results.map(|result| result.call_id).collect()
    }
}
