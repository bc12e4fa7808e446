//! Handoffs as clients see them that know only messages: a question they draw where the last message calls a tool of its
//! name. Each question of a handoff becomes a message with such a call, and what came of it the call's result. It is a
//! view for people; no model is ever sent any of it.

use std::collections::HashSet;

use journal::view::message_id;
use protocol::{
    AiMessage, AssistantId, Block, Event, EventType, Handoff, HandoffId, InterruptPayload, Message, Proposal,
    Seq, ToolMessage, ToolStatus,
};
use serde::Deserialize;
use serde_json::Value;

use crate::request::Options;
use crate::review::payload::{ACTION_NAME, MIDDLEWARE_SOURCE, Situation, payload};
use crate::tool;

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

/// A proposal that was stored, by handoff and iteration.
type Place = (HandoffId, u32);

struct Telling<'a> {
    handoffs: &'a [(Handoff, Vec<Proposal>)],
    /// What the next question is about.
    newest: Option<Place>,
    /// The call that waits for its result.
    open: Option<(Place, String)>,
    asked: HashSet<String>,
    told: Vec<(Seq, Message)>,
}

impl Telling<'_> {
    fn take(&mut self, event: &Event) {
        let Some(kind) = event.kind().filter(|kind| TOLD_TYPES.contains(kind)) else { return };
        let content = event.content_value();
        let text = |key: &str| content[key].as_str();
        match kind {
            EventType::HandoffProposed => self.newest = place(&content),
            EventType::HandoffReverted => {
                self.newest = place(&content);
                let text = format!("Went back to draft {}.", content["reverted_to"]);
                self.close(event, &content, (ToolStatus::Success, text));
            }
            EventType::RunInterrupted if asks(&content) => self.ask(event),
            EventType::HandoffRefined => {
                let text = match (text("feedback"), text("model")) {
                    (Some(feedback), _) => format!("Refined: {feedback}"),
                    (None, Some(model)) => format!("Another draft was asked for, by {model}."),
                    (None, None) => "Another draft was asked for.".to_owned(),
                };
                self.close(event, &content, (ToolStatus::Success, text));
            }
            EventType::HandoffAccepted => {
                let text = tool::accepted(text("child_thread_id").unwrap_or_default());
                self.close(event, &content, (ToolStatus::Success, text));
            }
            EventType::HandoffDeclined => {
                self.close(event, &content, (ToolStatus::Error, tool::declined(text("message"))));
            }
            EventType::HandoffPreviewed => {
                self.close(event, &content, (ToolStatus::Success, tool::PREVIEWED.to_owned()));
            }
            EventType::HandoffExpired => {
                self.close(event, &content, (ToolStatus::Error, tool::GIVEN_UP.to_owned()));
            }
            EventType::HandoffFailed => {
                let why = text("reason").unwrap_or("no reason is known");
                self.close(event, &content, (ToolStatus::Error, format!("The handoff failed: {why}.")));
            }
            _ => {}
        }
    }

    /// Tells of a question. One that is raised again while it waits is the same one to whoever reads.
    fn ask(&mut self, event: &Event) {
        let Some(place) = self.newest.filter(|place| self.open.as_ref().is_none_or(|open| open.0 != *place))
        else {
            return;
        };
        let Some(args) = self.args(place) else { return };
        let mut call_id = format!("handoff-{}-{}", place.0, place.1);
        // A refinement that gave nothing usable: the proposal before it is asked about once more.
        if !self.asked.insert(call_id.clone()) {
            call_id = format!("{call_id}-{}", event.seq);
        }
        let content = vec![Block::ToolCall { id: call_id.clone(), name: ACTION_NAME.to_owned(), args }];
        let id = Some(message_id(event.thread_id, event.seq));
        self.told.push((event.seq, Message::Ai(AiMessage { id, content, ..AiMessage::default() })));
        self.open = Some((place, call_id));
    }

    fn close(&mut self, event: &Event, content: &Value, (status, text): (ToolStatus, String)) {
        let is_of = |open: &(Place, String)| Some(open.0.0) == handoff_id(content);
        let Some((_, call_id)) = self.open.take_if(|open| is_of(open)) else { return };
        let result = ToolMessage {
            id: Some(message_id(event.thread_id, event.seq)),
            call_id,
            name: Some(ACTION_NAME.to_owned()),
            content: vec![Block::text(text)],
            status,
        };
        self.told.push((event.seq, Message::Tool(result)));
    }

    /// Returns the arguments of the question about a proposal, but for what changes while it waits.
    fn args(&self, (handoff_id, iteration): Place) -> Option<Value> {
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

fn place(content: &Value) -> Option<Place> {
    Some((handoff_id(content)?, u32::try_from(content["iteration"].as_u64()?).ok()?))
}

fn handoff_id(content: &Value) -> Option<HandoffId> {
    content["handoff_id"].as_str()?.parse().ok()
}

/// Returns whether a run stopped to ask about a handoff.
fn asks(content: &Value) -> bool {
    content["actions"].as_array().is_some_and(|actions| actions.iter().any(|action| action == ACTION_NAME))
}

#[cfg(test)]
mod tests;
