//! A view of handoffs for clients that know only messages. Such a client shows a question where the last message
//! calls a tool with the action's name.
//!
//! Each question about a proposal becomes an AI message with a tool call, and its outcome becomes the tool result.
//! The view is for people; it is never part of a model's context.

use std::collections::HashSet;

use journal::view::message_id;
use protocol::event::body::{
    DraftRequest, HandoffAccepted, HandoffDeclined, HandoffEdited, HandoffFailed, HandoffProposed,
    HandoffRefined, HandoffReverted, RunInterrupted,
};
use protocol::{
    AiMessage, AssistantId, ContentBlock, Event, EventBodyError, EventType, Handoff, HandoffId,
    InterruptPayload, Message, Proposal, Seq, ToolMessage, ToolStatus,
};
use serde::Deserialize;
use serde_json::Value;

use crate::request::HandoffOptions;
use crate::request::tool;
use crate::review::payload::{ACTION_NAME, MIDDLEWARE_SOURCE, ReviewContext, review_payload};

/// The event types from which the view is built: questions about handoffs and their outcomes.
pub const QUESTION_EVENT_TYPES: [EventType; 10] = [
    EventType::HandoffProposed,
    EventType::HandoffEdited,
    EventType::HandoffReverted,
    EventType::HandoffRefined,
    EventType::HandoffAccepted,
    EventType::HandoffDeclined,
    EventType::HandoffPreviewed,
    EventType::HandoffFailed,
    EventType::HandoffExpired,
    EventType::RunInterrupted,
];

/// Returns the messages that represent the questions about `handoffs` and their outcomes, each with the seq of the
/// event it represents. If two have the same seq, their order in the result is the order to show.
///
/// `events` are those of the thread in ascending order; types other than [`QUESTION_EVENT_TYPES`] are ignored.
/// `handoffs` come with their proposals in order of iteration; questions about other handoffs are left out. Further
/// events at the end only append messages.
pub fn handoff_messages(events: &[Event], handoffs: &[(Handoff, Vec<Proposal>)]) -> Vec<(Seq, Message)> {
    let mut builder = HandoffMessageBuilder {
        handoffs,
        newest_proposal: None,
        open_call: None,
        call_ids: HashSet::new(),
        messages: Vec::new(),
    };
    for event in events {
        builder.add_event(event);
    }
    builder.messages
}

/// Returns the arguments of a question in the form that a generic client shows: with an empty feedback field, and the
/// name of the assistant in place of its id.
pub fn editable_args(args: &Value) -> Value {
    let mut args = args.clone();
    args["feedback"] = "".into();
    replace_assistant_id(&mut args);
    args
}

/// Replaces the stored id of the assistant by its name in a question about a handoff. Other questions are not
/// changed, even if they have an argument of that name.
pub fn show_assistant_name(question: &mut InterruptPayload) {
    if question.middleware_source == MIDDLEWARE_SOURCE {
        question.action_requests.iter_mut().for_each(|request| replace_assistant_id(&mut request.args));
    }
}

/// Replaces the assistant's id by its name in the arguments of a question.
fn replace_assistant_id(args: &mut Value) {
    let Ok(assistant_id) = AssistantId::deserialize(&args["assistant_id"]) else { return };
    args["assistant_id"] = assistant_id.name().into();
    if args["summary_json"].is_object() {
        args["summary_json"]["assistant_id"] = assistant_id.name().into();
    }
}

/// The key of a stored proposal.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ProposalKey {
    handoff_id: HandoffId,
    iteration: u32,
}

/// The outcome of a question, as a tool result.
struct QuestionResult {
    status: ToolStatus,
    text: String,
}

/// A fold over events that builds the messages.
struct HandoffMessageBuilder<'a> {
    /// The handoffs with their proposals.
    handoffs: &'a [(Handoff, Vec<Proposal>)],
    /// The proposal that the next question is about.
    newest_proposal: Option<ProposalKey>,
    /// The question without an outcome: its proposal and the id of its call.
    open_call: Option<(ProposalKey, String)>,
    /// The ids of all calls so far.
    call_ids: HashSet<String>,
    /// The messages so far.
    messages: Vec<(Seq, Message)>,
}

impl HandoffMessageBuilder<'_> {
    /// Processes the next event.
    fn add_event(&mut self, event: &Event) {
        let Some(kind) = event.kind().filter(|kind| QUESTION_EVENT_TYPES.contains(kind)) else { return };
        // An event that cannot be parsed is skipped.
        if let Ok(Some(result)) = self.question_result(kind, event) {
            self.close_question(event, result);
        }
    }

    /// Processes the content of an event. Returns the outcome of the open question if the event decides it.
    ///
    /// # Errors
    ///
    /// When the event cannot be parsed.
    fn question_result(
        &mut self,
        kind: EventType,
        event: &Event,
    ) -> Result<Option<QuestionResult>, EventBodyError> {
        let success = |text| Some(QuestionResult { status: ToolStatus::Success, text });
        let error = |text| Some(QuestionResult { status: ToolStatus::Error, text });
        Ok(match kind {
            EventType::HandoffProposed => {
                let HandoffProposed { handoff_id, iteration, .. } = event.body()?;
                self.newest_proposal = Some(ProposalKey { handoff_id, iteration });
                None
            }
            EventType::HandoffEdited => {
                let HandoffEdited { handoff_id, iteration } = event.body()?;
                self.newest_proposal = Some(ProposalKey { handoff_id, iteration });
                success(format!("The edited text was stored as draft {iteration}."))
            }
            EventType::HandoffReverted => {
                let HandoffReverted { handoff_id, iteration, reverted_to } = event.body()?;
                self.newest_proposal = Some(ProposalKey { handoff_id, iteration });
                success(format!("Reverted to draft {reverted_to}."))
            }
            EventType::RunInterrupted => {
                let RunInterrupted { actions, .. } = event.body()?;
                if actions.iter().any(|action| action == ACTION_NAME) {
                    self.add_question(event);
                }
                None
            }
            EventType::HandoffRefined => {
                let HandoffRefined { request, .. } = event.body()?;
                success(match request {
                    DraftRequest::Feedback { feedback } => format!("Refined: {feedback}"),
                    DraftRequest::NewerMessages { newer_messages } => {
                        let plural = if newer_messages == 1 { "" } else { "s" };
                        format!("Another draft with {newer_messages} newer message{plural} was requested.")
                    }
                    DraftRequest::Model { model: Some(model) } => {
                        format!("Another draft by {model} was requested.")
                    }
                    DraftRequest::Model { model: None } => "Another draft was requested.".to_owned(),
                })
            }
            EventType::HandoffAccepted => {
                let HandoffAccepted { child_thread_id, .. } = event.body()?;
                success(tool::accepted_text(&child_thread_id.to_string()))
            }
            EventType::HandoffDeclined => {
                let HandoffDeclined { message, .. } = event.body()?;
                error(tool::declined_text(message.as_deref()))
            }
            EventType::HandoffPreviewed => success(tool::PREVIEWED_TEXT.to_owned()),
            EventType::HandoffExpired => error(tool::EXPIRED_TEXT.to_owned()),
            EventType::HandoffFailed => {
                let HandoffFailed { reason, .. } = event.body()?;
                error(format!("The handoff failed: {reason}."))
            }
            _ => None,
        })
    }

    /// Adds the message of a question. A question that is raised again while it is open adds nothing.
    fn add_question(&mut self, event: &Event) {
        let is_open =
            |proposal: &ProposalKey| self.open_call.as_ref().is_some_and(|(open, _)| open == proposal);
        let Some(proposal) = self.newest_proposal.filter(|proposal| !is_open(proposal)) else { return };
        let Some(args) = self.question_args(proposal) else { return };
        let mut call_id = format!("handoff-{}-{}", proposal.handoff_id, proposal.iteration);
        // After a failed refinement the same proposal is asked about again, so its call needs another id.
        if !self.call_ids.insert(call_id.clone()) {
            call_id = format!("{call_id}-{}", event.seq);
        }
        let content =
            vec![ContentBlock::ToolCall { id: call_id.clone(), name: ACTION_NAME.to_owned(), args }];
        let id = Some(message_id(event.thread_id, event.seq));
        self.messages.push((event.seq, Message::Ai(AiMessage { id, content, ..AiMessage::default() })));
        self.open_call = Some((proposal, call_id));
    }

    /// Adds the tool result of the open question, if the event is about the same handoff.
    fn close_question(&mut self, event: &Event, result: QuestionResult) {
        let is_of_event = |open: &mut (ProposalKey, String)| Some(open.0.handoff_id) == event.handoff_id();
        let Some((_, call_id)) = self.open_call.take_if(is_of_event) else { return };
        let result = ToolMessage {
            id: Some(message_id(event.thread_id, event.seq)),
            call_id,
            name: Some(ACTION_NAME.to_owned()),
            content: vec![ContentBlock::text(result.text)],
            status: result.status,
        };
        self.messages.push((event.seq, Message::Tool(result)));
    }

    /// Returns the arguments of the question about a proposal, without those that change while the question is open,
    /// so that the message never changes.
    fn question_args(&self, proposal: ProposalKey) -> Option<Value> {
        let ProposalKey { handoff_id, iteration } = proposal;
        let (handoff, proposals) =
            self.handoffs.iter().find(|(handoff, _)| handoff.handoff_id == handoff_id)?;
        let proposal = proposals.iter().find(|proposal| proposal.iteration == iteration)?;
        let up_to_here = proposals.iter().take_while(|other| other.iteration <= iteration);
        let context = ReviewContext {
            options: serde_json::from_value::<HandoffOptions>(handoff.options.clone()).unwrap_or_default(),
            feedback_history: up_to_here.filter_map(|proposal| proposal.feedback.clone()).collect(),
            ..ReviewContext::default()
        };
        let request = review_payload(proposal, &context).ok()?.action_requests.pop()?;
        let mut args = editable_args(&request.args);
        if let Some(fields) = args.as_object_mut() {
            fields.remove("uncovered_messages");
            fields.remove("remaining_refinements");
        }
        Some(args)
    }
}

#[cfg(test)]
mod tests;
