//! The tool `request_handoff`, by which the agent requests a handoff, and the node that gives the tool call its result
//! once the person has decided.
//!
//! Between the two, the handoff takes the same path as one requested by a person.

use async_trait::async_trait;
use futures::future::BoxFuture;
use jiff::Timestamp;
use journal::{HandoffFilter, Store};
use model::ToolSpec;
use protocol::{
    AssistantId, ContentBlock, Handoff, HandoffId, HandoffStatus, Message, NewEvent, ThreadId, ToolMessage,
    ToolStatus,
};
use runtime::{
    AFTER_AGENT_NODE, Channels, GraphUpdate, MODEL_NODE, Node, RepeatSafety, StepContext, StepFailure, Tool,
    ToolContext, ToolOutput,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::draft::summarization::SUMMARIZATION_NODE;
use crate::limits::GOAL_CHARS_MAX;
use crate::request::{
    HandoffOptions, PreparedHandoffRequest, WAITING_CALL_CHANNEL, WaitingToolCall, handoff_run_start,
    normalize_goal,
};
use crate::state::HandoffState;

/// The name of the tool.
pub const REQUEST_HANDOFF: &str = "request_handoff";
/// The name of the node that gives the tool call its result.
pub const RESULT_NODE: &str = "handoff_result";

/// The tool `request_handoff`.
///
/// A call is refused while another handoff of the thread is pending. Otherwise the graph jumps to the drafting node,
/// and the result of the call is deferred until the person has decided.
pub struct HandoffTool {
    /// The assistant whose thread is handed off.
    pub assistant_id: AssistantId,
}

/// The arguments of a call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestHandoffArgs {
    /// The purpose of the child thread.
    #[serde(default)]
    goal: Option<String>,
    /// Show the summary to the person only.
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

    fn repeat_safety(&self) -> RepeatSafety {
        // The call has no effect before its step is committed.
        RepeatSafety::Safe
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        match self.request_handoff(args, context).await {
            Ok(update) => ToolOutput::with_deferred_result(update),
            Err(reason) => ToolOutput::error(reason),
        }
    }
}

impl HandoffTool {
    /// Returns the update that starts the handoff: its row and events, its channels, and the jump to the drafting node.
    ///
    /// # Errors
    ///
    /// The text of the error result that the model gets: bad arguments, a pending handoff, or a failure of the journal.
    async fn request_handoff(&self, args: &Value, context: &ToolContext) -> Result<GraphUpdate, String> {
        let args =
            RequestHandoffArgs::deserialize(args).map_err(|error| format!("bad arguments: {error}"))?;
        let goal = normalize_goal(args.goal).map_err(|error| format!("bad arguments: {error}"))?;
        let pending = find_pending_handoff(&*context.store, context.thread_id).await;
        if pending.map_err(|error| format!("failed to {error}"))?.is_some() {
            return Err("A handoff of this thread is already waiting for the person's decision.".to_owned());
        }
        let request = PreparedHandoffRequest {
            handoff_id: HandoffId::generate(),
            child_thread_id: ThreadId::generate(),
            parent_thread_id: context.thread_id,
            assistant_id: self.assistant_id.clone(),
            now: Timestamp::now(),
            options: HandoffOptions {
                goal,
                preview_only: args.preview_only,
                tool_call_id: Some(context.call_id.clone()),
                workspace: Some(context.workspace.clone()),
                ..HandoffOptions::default()
            },
        };
        let waiting_call =
            WaitingToolCall { handoff_id: request.handoff_id, call_id: context.call_id.clone() };
        let started = handoff_run_start(&request).map_err(|failure| format!("failed to {failure}"))?;
        let mut update = started.update;
        update.channels.extend(started.channels);
        WAITING_CALL_CHANNEL.set(&mut update.channels, &waiting_call);
        update.jump = Some(SUMMARIZATION_NODE);
        Ok(update)
    }
}

/// Returns the pending handoff of the thread: the one that is being drafted or awaits a decision. A thread has at most
/// one.
///
/// # Errors
///
/// When the journal cannot be read.
pub fn find_pending_handoff<'a>(
    store: &'a dyn Store,
    thread_id: ThreadId,
) -> BoxFuture<'a, journal::Result<Option<Handoff>>> {
    journal::box_future(async move {
        let filter = HandoffFilter {
            parent_thread_id: Some(thread_id),
            statuses: HandoffStatus::ALL.into_iter().filter(|status| status.is_pending()).collect(),
            limit: Some(1),
            ..HandoffFilter::default()
        };
        Ok(store.handoffs(filter).await?.into_iter().next())
    })
}

/// The node that gives the tool call which requested the handoff its result. It does nothing when no call waits.
pub struct HandoffResult;

#[async_trait]
impl Node for HandoffResult {
    fn name(&self) -> &'static str {
        RESULT_NODE
    }

    async fn run(&self, step: StepContext<'_>) -> Result<GraphUpdate, StepFailure> {
        let Some(waiting_call) = WAITING_CALL_CHANNEL.get(step.channels)? else {
            return Ok(GraphUpdate::default());
        };
        let handoff = step.store.handoff(waiting_call.handoff_id).await?;
        let (status, text) = outcome_result(handoff.as_ref());
        Ok(call_result_update(&waiting_call, status, text, Timestamp::now())?)
    }
}

/// Routes the graph after the result node. An accepted handoff ends the turn, because the work continues in the child
/// thread. After any other outcome the agent continues with the result it got.
///
/// # Errors
///
/// When the handoff state in `channels` cannot be read.
pub fn route_after_result(channels: &Channels) -> runtime::NextNode {
    let is_accepted = matches!(HandoffState::read(channels)?, Some(HandoffState::Accepted { .. }));
    Ok(Some(if is_accepted { AFTER_AGENT_NODE } else { MODEL_NODE }))
}

/// Returns whether a tool call waits for the outcome of a handoff. If so, its turn continues after the decision.
pub fn is_requested_by_agent(channels: &Channels) -> bool {
    WAITING_CALL_CHANNEL.is_set(channels)
}

/// Returns the result of the waiting call for a thread that continues with something other than a decision; `None` when
/// no call waits.
///
/// # Errors
///
/// When the journal cannot be read or the result cannot be serialized.
pub fn unresolved_call_result<'a>(
    store: &'a dyn Store,
    channels: &'a Channels,
    at: Timestamp,
) -> BoxFuture<'a, journal::Result<Option<NewEvent>>> {
    journal::box_future(async move {
        let Some(waiting_call) = WaitingToolCall::read_lenient(channels) else { return Ok(None) };
        let handoff = store.handoff(waiting_call.handoff_id).await?;
        let (status, text) = match handoff.as_ref().filter(|handoff| handoff.status.is_pending()) {
            Some(_) => (ToolStatus::Error, UNDECIDED_TEXT.to_owned()),
            None => outcome_result(handoff.as_ref()),
        };
        Ok(Some(call_result_event(&waiting_call, status, &text, at)?))
    })
}

/// Returns the result of the call whose handoff has expired without a decision; `None` when no call waits.
pub(crate) fn expired_call_result(
    channels: &Channels,
    at: Timestamp,
) -> Result<Option<NewEvent>, serde_json::Error> {
    let Some(waiting_call) = WaitingToolCall::read_lenient(channels) else { return Ok(None) };
    call_result_event(&waiting_call, ToolStatus::Error, EXPIRED_TEXT, at).map(Some)
}

/// Returns the update that gives the call its result and clears the channel of the waiting call.
pub(crate) fn call_result_update(
    waiting_call: &WaitingToolCall,
    status: ToolStatus,
    text: String,
    at: Timestamp,
) -> Result<GraphUpdate, serde_json::Error> {
    let mut update = GraphUpdate {
        events: vec![call_result_event(waiting_call, status, &text, at)?],
        ..GraphUpdate::default()
    };
    WAITING_CALL_CHANNEL.clear(&mut update.channels);
    Ok(update)
}

/// Returns the status and text of the tool result for a handoff in its present status. `None` is a handoff whose row
/// was deleted because the person stopped its first draft.
fn outcome_result(handoff: Option<&Handoff>) -> (ToolStatus, String) {
    let Some(handoff) = handoff else { return (ToolStatus::Error, STOPPED_TEXT.to_owned()) };
    let note = handoff.note.as_deref().map(str::trim).filter(|note| !note.is_empty());
    match handoff.status {
        HandoffStatus::Accepted | HandoffStatus::Seeded | HandoffStatus::Cleaned => {
            (ToolStatus::Success, accepted_text(&handoff.child_thread_id.to_string()))
        }
        HandoffStatus::Declined => {
            (ToolStatus::Error, format!("{} Continue in this thread.", declined_text(note)))
        }
        HandoffStatus::Previewed => (ToolStatus::Success, PREVIEWED_TEXT.to_owned()),
        HandoffStatus::Expired => (ToolStatus::Error, EXPIRED_TEXT.to_owned()),
        HandoffStatus::Failed => {
            (ToolStatus::Error, format!("The handoff failed: {}.", note.unwrap_or("no reason is known")))
        }
        HandoffStatus::Requested | HandoffStatus::Drafting | HandoffStatus::AwaitingDecision => {
            (ToolStatus::Error, "The handoff has not been decided yet.".to_owned())
        }
    }
}

/// Returns the text that describes an accepted handoff, for tool results and transcripts.
pub(crate) fn accepted_text(child_thread_id: &str) -> String {
    format!("Accepted: the work continues in thread {child_thread_id}, which starts with the summary.")
}

/// Returns the text that describes a declined handoff, with the person's reason if there is one.
pub(crate) fn declined_text(reason: Option<&str>) -> String {
    let reason =
        reason.map_or_else(|| "no reason was given".to_owned(), |reason| format!("\u{201c}{reason}\u{201d}"));
    format!("Declined by the person: {reason}.")
}

/// The text that describes a handoff whose summary was only previewed.
pub(crate) const PREVIEWED_TEXT: &str =
    "Previewed: the person has seen what would be carried over, and nothing was changed.";

/// The tool result when the person sends a message instead of deciding.
const UNDECIDED_TEXT: &str = "The person continued the thread without deciding about the handoff. \
     It can still be decided; do not request it again.";

/// The text that describes a handoff that expired without a decision.
pub(crate) const EXPIRED_TEXT: &str = "Expired: nobody decided about the handoff.";

/// The tool result when the person stopped the first draft.
pub(crate) const STOPPED_TEXT: &str =
    "The person stopped the draft; there is no handoff. Ask before you try again.";

/// Returns the event that carries the result of the call. Its key is derived from the handoff, so a call never gets two
/// results, whichever way its thread continues.
fn call_result_event(
    waiting_call: &WaitingToolCall,
    status: ToolStatus,
    text: &str,
    at: Timestamp,
) -> Result<NewEvent, serde_json::Error> {
    let message = Message::Tool(ToolMessage {
        id: None,
        call_id: waiting_call.call_id.clone(),
        name: Some(REQUEST_HANDOFF.to_owned()),
        content: vec![ContentBlock::text(text)],
        status,
    });
    Ok(NewEvent::from_message(&message, at)?.with_key(format!("handoff_result:{}", waiting_call.handoff_id)))
}
