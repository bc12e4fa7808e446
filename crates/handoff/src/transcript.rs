//! Handoffs as clients see them that know only messages: a question they draw where the last message calls a tool of its
//! name. Each question of a handoff becomes a message with such a call, and what came of it the call's result. It is a
//! view for people; no model is ever sent any of it.

use std::collections::HashSet;

use journal::view::message_id;
use protocol::event::body::{
    DraftRequest, HandoffAccepted, HandoffDeclined, HandoffFailed, HandoffProposed, HandoffRefined,
    HandoffReverted, RunInterrupted,
};
use protocol::{
    AiMessage, AssistantId, Block, Event, EventType, Handoff, HandoffId, InterruptPayload, Message, Proposal,
    Seq, ToolMessage, ToolStatus, UnreadableBody,
};
use serde::Deserialize;
use serde_json::Value;

use crate::request::Options;
use crate::request::tool;
use crate::review::payload::{ACTION_NAME, MIDDLEWARE_SOURCE, Situation, payload};

/// The events that tell of questions about handoffs and of what came of them.
pub const TOLD_TYPES: [EventType; 9] = [
    EventType::HandoffProposed,
    EventType::HandoffReverted,
    EventType::HandoffRefined,
    EventType::HandoffAccepted,
    EventType::HandoffDeclined,
    EventType::HandoffPreviewed,
    EventType::HandoffFailed,
    EventType::HandoffExpired,
    EventType::RunInterrupted,
];

/// Returns the messages that stand for the questions about `handoffs`, which come with their proposals in order of
/// iteration, each with the seq of the event it stands for; of two with the same seq the first comes first.
///
/// `events` are the thread's, ascending; those of other types than [`TOLD_TYPES`] say nothing here. More events at the
/// end add messages at the end and change none. Questions about a handoff that is not given are left out.
pub fn as_messages(events: &[Event], handoffs: &[(Handoff, Vec<Proposal>)]) -> Vec<(Seq, Message)> {
    let mut telling = Telling { handoffs, newest: None, open: None, asked: HashSet::new(), told: Vec::new() };
    for event in events {
        telling.take(event);
    }
    telling.told
}

/// Returns the arguments of a question as a form shows them: with a feedback to fill in, and the assistant by its name.
pub fn editable(args: &Value) -> Value {
    let mut args = args.clone();
    args["feedback"] = "".into();
    name_in(&mut args);
    args
}

/// Puts the name of the assistant in the place of the id it is stored under, where a handoff asks; other questions stay as
/// they are, whatever their arguments are called.
pub fn name_assistant(question: &mut InterruptPayload) {
    if question.middleware_source == MIDDLEWARE_SOURCE {
        question.action_requests.iter_mut().for_each(|request| name_in(&mut request.args));
    }
}

fn name_in(args: &mut Value) {
    let Ok(assistant_id) = AssistantId::deserialize(&args["assistant_id"]) else { return };
    args["assistant_id"] = assistant_id.name().into();
    if args["summary_json"].is_object() {
        args["summary_json"]["assistant_id"] = assistant_id.name().into();
    }
}

/// A stored proposal.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ProposalKey {
    handoff_id: HandoffId,
    iteration: u32,
}

/// What came of a question.
struct QuestionResult {
    status: ToolStatus,
    text: String,
}

struct Telling<'a> {
    handoffs: &'a [(Handoff, Vec<Proposal>)],
    /// What the next question is about.
    newest: Option<ProposalKey>,
    /// The call that waits for its result.
    open: Option<(ProposalKey, String)>,
    asked: HashSet<String>,
    told: Vec<(Seq, Message)>,
}

impl Telling<'_> {
    fn take(&mut self, event: &Event) {
        let Some(kind) = event.kind().filter(|kind| TOLD_TYPES.contains(kind)) else { return };
        // What cannot be read is not told.
        if let Ok(Some(result)) = self.result(kind, event) {
            self.close(event, result);
        }
    }

    /// Takes note of the event; returns what came of the question that waits, where the event decides it.
    fn result(&mut self, kind: EventType, event: &Event) -> Result<Option<QuestionResult>, UnreadableBody> {
        let success = |text| Some(QuestionResult { status: ToolStatus::Success, text });
        let error = |text| Some(QuestionResult { status: ToolStatus::Error, text });
        Ok(match kind {
            EventType::HandoffProposed => {
                let HandoffProposed { handoff_id, iteration, .. } = event.body()?;
                self.newest = Some(ProposalKey { handoff_id, iteration });
                None
            }
            EventType::HandoffReverted => {
                let HandoffReverted { handoff_id, iteration, reverted_to } = event.body()?;
                self.newest = Some(ProposalKey { handoff_id, iteration });
                success(format!("Went back to draft {reverted_to}."))
            }
            EventType::RunInterrupted => {
                let RunInterrupted { actions, .. } = event.body()?;
                if actions.iter().any(|action| action == ACTION_NAME) {
                    self.ask(event);
                }
                None
            }
            EventType::HandoffRefined => {
                let HandoffRefined { request, .. } = event.body()?;
                success(match request {
                    DraftRequest::Feedback { feedback } => format!("Refined: {feedback}"),
                    DraftRequest::Model { model: Some(model) } => {
                        format!("Another draft was asked for, by {model}.")
                    }
                    DraftRequest::Model { model: None } => "Another draft was asked for.".to_owned(),
                })
            }
            EventType::HandoffAccepted => {
                let HandoffAccepted { child_thread_id, .. } = event.body()?;
                success(tool::accepted(&child_thread_id.to_string()))
            }
            EventType::HandoffDeclined => {
                let HandoffDeclined { message, .. } = event.body()?;
                error(tool::declined(message.as_deref()))
            }
            EventType::HandoffPreviewed => success(tool::PREVIEWED.to_owned()),
            EventType::HandoffExpired => error(tool::GIVEN_UP.to_owned()),
            EventType::HandoffFailed => {
                let HandoffFailed { reason, .. } = event.body()?;
                error(format!("The handoff failed: {reason}."))
            }
            _ => None,
        })
    }

    /// Tells of a question. One that is raised again while it waits is the same one to whoever reads.
    fn ask(&mut self, event: &Event) {
        let is_open = |proposal: &ProposalKey| self.open.as_ref().is_some_and(|(open, _)| open == proposal);
        let Some(proposal) = self.newest.filter(|proposal| !is_open(proposal)) else { return };
        let Some(args) = self.args(proposal) else { return };
        let mut call_id = format!("handoff-{}-{}", proposal.handoff_id, proposal.iteration);
        // A refinement that gave nothing usable: the proposal before it is asked about once more.
        if !self.asked.insert(call_id.clone()) {
            call_id = format!("{call_id}-{}", event.seq);
        }
        let content = vec![Block::ToolCall { id: call_id.clone(), name: ACTION_NAME.to_owned(), args }];
        let id = Some(message_id(event.thread_id, event.seq));
        self.told.push((event.seq, Message::Ai(AiMessage { id, content, ..AiMessage::default() })));
        self.open = Some((proposal, call_id));
    }

    fn close(&mut self, event: &Event, result: QuestionResult) {
        let is_of_event = |open: &mut (ProposalKey, String)| Some(open.0.handoff_id) == event.handoff_id();
        let Some((_, call_id)) = self.open.take_if(is_of_event) else { return };
        let result = ToolMessage {
            id: Some(message_id(event.thread_id, event.seq)),
            call_id,
            name: Some(ACTION_NAME.to_owned()),
            content: vec![Block::text(result.text)],
            status: result.status,
        };
        self.told.push((event.seq, Message::Tool(result)));
    }

    /// Returns the arguments of the question about a proposal, but for what changes while it waits.
    fn args(&self, proposal: ProposalKey) -> Option<Value> {
        let ProposalKey { handoff_id, iteration } = proposal;
        let (handoff, proposals) =
            self.handoffs.iter().find(|(handoff, _)| handoff.handoff_id == handoff_id)?;
        let proposal = proposals.iter().find(|proposal| proposal.iteration == iteration)?;
        let before = proposals.iter().take_while(|other| other.iteration <= iteration);
        let situation = Situation {
            options: serde_json::from_value::<Options>(handoff.options.clone()).unwrap_or_default(),
            feedback_history: before.filter_map(|proposal| proposal.feedback.clone()).collect(),
            ..Situation::default()
        };
        let request = payload(proposal, &situation).ok()?.action_requests.pop()?;
        let mut args = editable(&request.args);
        if let Some(fields) = args.as_object_mut() {
            fields.remove("uncovered_messages");
            fields.remove("remaining_refinements");
        }
        Some(args)
    }
}

#[cfg(test)]
mod tests;
