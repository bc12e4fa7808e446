//! A request for a handoff: what was asked for, the state keys that carry it through the graph, and the rows its
//! admission writes.

use jiff::Timestamp;
use journal::Write;
use protocol::{AssistantId, EventType, Handoff, HandoffId, HandoffStatus, NewEvent, ThreadId};
use runtime::{Channels, Start, Update};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// State keys; those that begin with `_` never leave the process. The names are fixed by contract §3.
pub(crate) mod keys {
    pub(crate) const REQUESTED: &str = "handoff_requested";
    pub(crate) const PROPOSAL: &str = "handoff_proposal";
    pub(crate) const DECISION: &str = "handoff_decision";
    pub(crate) const APPROVED: &str = "handoff_approved";
    pub(crate) const CHILD: &str = "child_thread_id";
    pub(crate) const METADATA: &str = "_handoff_metadata";
    pub(crate) const ITERATION: &str = "_handoff_iteration";
    pub(crate) const FEEDBACK: &str = "_handoff_feedback";
    pub(crate) const PREVIOUS_SUMMARY: &str = "_handoff_previous_summary";
    pub(crate) const REFINEMENT_HISTORY: &str = "_handoff_refinement_history";
    pub(crate) const FIRST_TURN_DONE: &str = "_handoff_first_turn_done";
}

/// How a handoff was asked for; stored with it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// What the next thread is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// Show the summary and change nothing.
    #[serde(default)]
    pub preview_only: bool,
    /// Cover only the newest messages, this many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// The summary's budget in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_summary_tokens: Option<u64>,
}

/// What `_handoff_metadata` holds while a handoff is under way in its parent thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) handoff_id: HandoffId,
    pub(crate) assistant_id: AssistantId,
    pub(crate) parent_thread_id: ThreadId,
    pub(crate) created_at: Timestamp,
    #[serde(flatten)]
    pub(crate) options: Options,
}

impl Metadata {
    pub(crate) fn read(channels: &Channels) -> Option<Self> {
        channels.get(keys::METADATA).and_then(|value| serde_json::from_value(value.clone()).ok())
    }
}

/// A request, with the ids it will use.
#[derive(Debug, Clone)]
pub struct Request {
    /// The handoff's id.
    pub handoff_id: HandoffId,
    /// The id its child thread will have.
    pub child_thread_id: ThreadId,
    /// The thread to hand off.
    pub parent_thread_id: ThreadId,
    /// The assistant.
    pub assistant_id: AssistantId,
    /// The present.
    pub now: Timestamp,
    /// How it was asked for.
    pub options: Options,
}

/// Returns the key of the event that tells where in its parent a handoff was asked for.
pub fn requested_key(handoff_id: HandoffId) -> String {
    format!("handoff_requested:{handoff_id}")
}

/// Returns what the run that carries `request` begins with.
///
/// # Errors
/// When the options cannot be written as JSON.
pub fn start(request: &Request) -> Result<Start, serde_json::Error> {
    let metadata = Metadata {
        handoff_id: request.handoff_id,
        assistant_id: request.assistant_id.clone(),
        parent_thread_id: request.parent_thread_id,
        created_at: request.now,
        options: request.options.clone(),
    };
    let handoff = Handoff {
        handoff_id: request.handoff_id,
        assistant_id: request.assistant_id.clone(),
        parent_thread_id: request.parent_thread_id,
        child_thread_id: request.child_thread_id,
        status: HandoffStatus::Requested,
        iteration: 0,
        goal: request.options.goal.clone(),
        run_id: None,
        options: serde_json::to_value(&request.options)?,
        accepted_sha256: None,
        note: None,
        created_at: request.now,
        updated_at: request.now,
    };
    let content = json!({
        "handoff_id": request.handoff_id, "goal": request.options.goal, "initiated_by": "user",
    });
    let event = NewEvent::new(EventType::HandoffRequested, &content, request.now)?;
    let event = event.keyed(requested_key(request.handoff_id));
    let mut channels = cleared();
    channels.insert(keys::REQUESTED.to_owned(), true.into());
    channels.insert(keys::METADATA.to_owned(), serde_json::to_value(metadata)?);
    let update =
        Update { events: vec![event], writes: vec![Write::CreateHandoff(handoff)], ..Update::default() };
    Ok(Start { update, channels })
}

/// Returns what a run begins with that takes up a pending handoff whose run ended before it asked. The rows are the
/// truth; feedback that was not worked in yet is still in the thread's channels.
///
/// # Errors
/// When the stored options cannot be read.
pub fn restart(handoff: &Handoff) -> Result<Start, serde_json::Error> {
    let metadata = Metadata {
        handoff_id: handoff.handoff_id,
        assistant_id: handoff.assistant_id.clone(),
        parent_thread_id: handoff.parent_thread_id,
        created_at: handoff.created_at,
        options: serde_json::from_value(handoff.options.clone())?,
    };
    let proposal = match handoff.status {
        HandoffStatus::AwaitingDecision => {
            json!({"handoff_id": handoff.handoff_id, "iteration": handoff.iteration})
        }
        _ => Value::Null,
    };
    let channels = Channels::from_iter([
        (keys::REQUESTED.to_owned(), Value::Bool(true)),
        (keys::METADATA.to_owned(), serde_json::to_value(metadata)?),
        (keys::PROPOSAL.to_owned(), proposal),
    ]);
    Ok(Start { update: Update::default(), channels })
}

/// Returns the channels that end a handoff in its parent, whatever its outcome: every key of it is removed.
pub(crate) fn cleared() -> Channels {
    [
        keys::REQUESTED,
        keys::PROPOSAL,
        keys::DECISION,
        keys::APPROVED,
        keys::CHILD,
        keys::METADATA,
        keys::ITERATION,
        keys::FEEDBACK,
        keys::PREVIOUS_SUMMARY,
        keys::REFINEMENT_HISTORY,
    ]
    .into_iter()
    .map(|key| (key.to_owned(), Value::Null))
    .collect()
}
