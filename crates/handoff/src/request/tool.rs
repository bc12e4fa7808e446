//! The agent's own way to ask for a handoff: the tool `request_handoff`, and the node that gives its call a result once
//! the person has decided. The handoff in between is the same as one a person asks for.

use async_trait::async_trait;
use jiff::Timestamp;
use journal::{HandoffFilter, Store};
use model::ToolSpec;
use protocol::{
    AssistantId, Block, Handoff, HandoffId, HandoffStatus, Message, NewEvent, ThreadId, ToolMessage,
    ToolStatus,
};
use runtime::{
    AFTER_AGENT_NODE, Channels, Failure, MODEL_NODE, Node, Repeat, StepContext, Tool, ToolContext,
    ToolOutput, Update,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::draft::summarization::SUMMARIZATION_NODE;
use crate::request::{ASKER_CHANNEL, Asker, Options, Request, start};
use crate::state::HandoffState;

/// The tool's name.
pub const REQUEST_HANDOFF: &str = "request_handoff";
/// The name of the node that gives the call its result.
pub const RESULT_NODE: &str = "handoff_result";

const GOAL_CHARS_MAX: usize = 2_000;

/// The tool.
pub struct HandoffTool {
    /// The assistant whose work moves on.
    pub assistant_id: AssistantId,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    #[serde(default)]
    goal: Option<String>,
    #[serde(default)]
    preview_only: bool,
}

#[async_trait]
impl Tool for HandoffTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: REQUEST_HANDOFF.to_owned(),
            description: include_str!("../prompts/request_handoff.md").trim().to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "goal": {
                        "type": "string",
                        "maxLength": GOAL_CHARS_MAX,
                        "description": "What the new thread is for, if it is for one thing; the summary then keeps what that needs."
                    },
                    "preview_only": {
                        "type": "boolean",
                        "description": "Only show the person what would be carried over."
                    }
                },
                "additionalProperties": false
            }),
        }
    }

    fn repeat(&self) -> Repeat {
        // Nothing is done before the step is durable.
        Repeat::Safe
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        match self.asked(args, context).await {
            Ok(update) => ToolOutput::later(update),
            Err(reason) => ToolOutput::error(reason),
        }
    }
}

impl HandoffTool {
    /// Returns what begins the handoff; the error is what the model is told.
    async fn asked(&self, args: &Value, context: &ToolContext) -> Result<Update, String> {
        let args = Args::deserialize(args).map_err(|error| format!("bad arguments: {error}"))?;
        let goal = args.goal.map(|goal| goal.trim().to_owned()).filter(|goal| !goal.is_empty());
        if goal.as_ref().is_some_and(|goal| goal.chars().count() > GOAL_CHARS_MAX) {
            return Err(format!("bad arguments: the goal has more than {GOAL_CHARS_MAX} characters"));
        }
        let pending = pending(&*context.store, context.thread_id).await;
        if pending.map_err(|error| format!("failed to {error}"))?.is_some() {
            return Err("A handoff of this thread waits for the person's decision already.".to_owned());
        }
        let request = Request {
            handoff_id: HandoffId::generate(),
            child_thread_id: ThreadId::generate(),
            parent_thread_id: context.thread_id,
            assistant_id: self.assistant_id.clone(),
            now: Timestamp::now(),
            options: Options {
                goal,
                preview_only: args.preview_only,
                tool_call_id: Some(context.call_id.clone()),
                workspace: Some(context.workspace.clone()),
                ..Options::default()
            },
        };
        let asker = Asker { handoff_id: request.handoff_id, call_id: context.call_id.clone() };
        let started = start(&request).map_err(|failure| format!("failed to {failure}"))?;
        let mut update = started.update;
        update.channels.extend(started.channels);
        ASKER_CHANNEL.set(&mut update.channels, &asker);
        update.jump = Some(SUMMARIZATION_NODE);
        Ok(update)
    }
}

/// Returns the handoff of the thread that is being drafted or waits for a decision.
pub async fn pending(store: &dyn Store, thread_id: ThreadId) -> journal::Result<Option<Handoff>> {
    let filter = HandoffFilter {
        parent_thread_id: Some(thread_id),
        statuses: HandoffStatus::ALL.into_iter().filter(|status| status.is_pending()).collect(),
        limit: Some(1),
        ..HandoffFilter::default()
    };
    Ok(store.handoffs(filter).await?.into_iter().next())
}

/// Gives the tool call that asked for a handoff its result.
pub struct HandoffResult;

#[async_trait]
impl Node for HandoffResult {
    fn name(&self) -> &'static str {
        RESULT_NODE
    }

    async fn run(&self, step: StepContext<'_>) -> Result<Update, Failure> {
        let Some(asker) = ASKER_CHANNEL.get(step.channels)? else { return Ok(Update::default()) };
        let handoff = step.store.handoff(asker.handoff_id).await?;
        let (status, text) = told(handoff.as_ref());
        Ok(answered(&asker, status, text, Timestamp::now())?)
    }
}

/// The edge after the result: an accepted handoff ends the turn, for the work goes on elsewhere; after anything else the
/// agent goes on with what it was told.
pub fn after_result(channels: &Channels) -> runtime::NextNode {
    let is_accepted = matches!(HandoffState::read(channels)?, Some(HandoffState::Accepted { .. }));
    Ok(Some(if is_accepted { AFTER_AGENT_NODE } else { MODEL_NODE }))
}

/// Returns whether a tool call waits for the outcome of a handoff, so that its turn goes on afterwards.
pub fn asked_by_agent(channels: &Channels) -> bool {
    ASKER_CHANNEL.is_set(channels)
}

/// Returns the result of the call that still waits, for a thread that goes on with something else.
pub async fn left_waiting(
    store: &dyn Store,
    channels: &Channels,
    at: Timestamp,
) -> journal::Result<Option<NewEvent>> {
    let Some(asker) = Asker::left_behind(channels) else { return Ok(None) };
    let handoff = store.handoff(asker.handoff_id).await?;
    let (status, text) = match handoff.as_ref().filter(|handoff| handoff.status.is_pending()) {
        Some(_) => (ToolStatus::Error, LEFT_WAITING.to_owned()),
        None => told(handoff.as_ref()),
    };
    Ok(Some(result(&asker, status, &text, at)?))
}

/// Returns the result of the call that waits for a handoff which nobody decided.
pub(crate) fn unanswered(channels: &Channels, at: Timestamp) -> Result<Option<NewEvent>, serde_json::Error> {
    let Some(asker) = Asker::left_behind(channels) else { return Ok(None) };
    result(&asker, ToolStatus::Error, GIVEN_UP, at).map(Some)
}

/// Returns the update that gives the call its result.
pub(crate) fn answered(
    asker: &Asker,
    status: ToolStatus,
    text: String,
    at: Timestamp,
) -> Result<Update, serde_json::Error> {
    let mut update = Update { events: vec![result(asker, status, &text, at)?], ..Update::default() };
    ASKER_CHANNEL.clear(&mut update.channels);
    Ok(update)
}

/// What a model is told of a handoff as it stands; one that is gone was stopped before there was a draft.
fn told(handoff: Option<&Handoff>) -> (ToolStatus, String) {
    let Some(handoff) = handoff else { return (ToolStatus::Error, STOPPED.to_owned()) };
    let note = handoff.note.as_deref().map(str::trim).filter(|note| !note.is_empty());
    match handoff.status {
        HandoffStatus::Accepted | HandoffStatus::Seeded | HandoffStatus::Cleaned => {
            (ToolStatus::Success, accepted(&handoff.child_thread_id.to_string()))
        }
        HandoffStatus::Declined => (ToolStatus::Error, format!("{} Go on in this thread.", declined(note))),
        HandoffStatus::Previewed => (ToolStatus::Success, PREVIEWED.to_owned()),
        HandoffStatus::Expired => (ToolStatus::Error, GIVEN_UP.to_owned()),
        HandoffStatus::Failed => {
            (ToolStatus::Error, format!("The handoff failed: {}.", note.unwrap_or("no reason is known")))
        }
        HandoffStatus::Requested | HandoffStatus::Drafting | HandoffStatus::AwaitingDecision => {
            (ToolStatus::Error, "The handoff was not decided.".to_owned())
        }
    }
}

/// What is said of a handoff that was accepted.
pub(crate) fn accepted(child_thread_id: &str) -> String {
    format!("Accepted: the work goes on in thread {child_thread_id}, which begins with the summary.")
}

/// What is said of a handoff that was declined.
pub(crate) fn declined(why: Option<&str>) -> String {
    let why = why.map_or_else(|| "no reason was given".to_owned(), |why| format!("\u{201c}{why}\u{201d}"));
    format!("Declined by the person: {why}.")
}

/// What is said of a handoff that was only shown.
pub(crate) const PREVIEWED: &str =
    "Previewed: the person has seen what would be carried over, and nothing was changed.";

/// What a model is told when the person goes on without deciding.
const LEFT_WAITING: &str = "The person went on without deciding about the handoff. It can still be decided; do not ask for it again.";

/// What a model is told of a handoff that nobody decided.
pub(crate) const GIVEN_UP: &str = "Given up: nobody decided about the handoff.";

/// What a model is told of a draft that a person stopped.
pub(crate) const STOPPED: &str =
    "The person stopped the draft; there is no handoff. Ask before you try again.";

/// The key makes it one, however the thread goes on.
fn result(
    asker: &Asker,
    status: ToolStatus,
    text: &str,
    at: Timestamp,
) -> Result<NewEvent, serde_json::Error> {
    let message = Message::Tool(ToolMessage {
        id: None,
        call_id: asker.call_id.clone(),
        name: Some(REQUEST_HANDOFF.to_owned()),
        content: vec![Block::text(text)],
        status,
    });
    Ok(NewEvent::message(&message, at)?.keyed(format!("handoff_result:{}", asker.handoff_id)))
}
