//! Handoff requests: their options, and the rows and graph state that the admission of the run writes.
//!
//! The same path serves a request of a person and one of the agent (`tool`). Drafting is in [`crate::draft`].

pub(crate) mod propose;
pub(crate) mod tool;

use futures::future::BoxFuture;
use std::path::PathBuf;

use jiff::Timestamp;
use journal::{EventQuery, HandoffFilter, HandoffPatch, Store, Write};
use protocol::event::body::HandoffRequested;
use protocol::{
    AssistantId, Category, EventType, Handoff, HandoffId, HandoffStatus, NewEvent, Thread, ThreadId,
};
use runtime::{Channel, Channels, GraphUpdate, RunStart, StepContext, StepFailure};
use serde::{Deserialize, Serialize};

use crate::lifecycle::{self, HandoffAction};
use crate::limits::GOAL_CHARS_MAX;
use crate::state::{HandoffInProgress, HandoffState, ProposalRef};

/// The channel that holds the tool call which requested the handoff and has no result yet.
///
/// The channel stays set across the decision. It is cleared when the call gets its result, or when the person sends a
/// message instead of deciding.
pub(crate) const WAITING_CALL_CHANNEL: Channel<WaitingToolCall> = Channel::new("_handoff_asker");

/// The options of a handoff request. They are stored in the handoff's row as JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffOptions {
    /// The purpose of the child thread, if the person or the agent named one. It guides selection and drafting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// Show the summary only; nothing else is meant to change.
    #[serde(default)]
    pub preview_only: bool,
    /// The number of newest messages to cover; `None` covers the whole thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// The budget of the rendered summary in tokens; `None` uses the configured one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_summary_tokens: Option<u64>,
    /// The id of the tool call by which the agent requested the handoff; `None` when a person requested it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The folder in which files named by the summary are inspected; `None` inspects none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<PathBuf>,
    /// The thread of another accepted handoff, without a message yet, that gets this package too. `None` creates a thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<ThreadId>,
}

impl HandoffOptions {
    /// Returns the `initiated_by` value of events and payloads: `agent` or `user`.
    pub(crate) const fn initiated_by(&self) -> &'static str {
        if self.tool_call_id.is_some() { "agent" } else { "user" }
    }
}

/// A goal has more than [`GOAL_CHARS_MAX`] characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the goal has {chars} characters, at most {GOAL_CHARS_MAX} are allowed")]
pub struct GoalTooLong {
    /// The number of characters of the goal.
    pub chars: usize,
}

/// Returns the goal of a request without blanks at its ends and with its secrets redacted (invariant M16). A blank goal is
/// none.
///
/// # Errors
/// [`GoalTooLong`] if the goal is too long.
pub fn normalize_goal(goal: Option<String>) -> Result<Option<String>, GoalTooLong> {
    let Some(goal) = goal.as_deref().map(str::trim).filter(|goal| !goal.is_empty()) else { return Ok(None) };
    match goal.chars().count() {
        chars if chars > GOAL_CHARS_MAX => Err(GoalTooLong { chars }),
        _ => Ok(Some(secrets::redact(goal).into_owned())),
    }
}

/// A problem with the newest draft. It is shown with the proposal until the next decision.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DraftProblem {
    /// The problem in one line: `summarization failed: …`.
    pub(crate) problem: String,
    /// The feedback that the shown proposal does not contain, because its refinement failed or was stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unused_feedback: Option<String>,
}

impl DraftProblem {
    /// Returns the problem of a draft that failed, so that another proposal is shown in its place.
    pub(crate) const fn failed(problem: String) -> Self {
        Self { problem, unused_feedback: None }
    }
}

/// A tool call that waits for the outcome of the handoff it requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WaitingToolCall {
    /// The requested handoff.
    pub(crate) handoff_id: HandoffId,
    /// The id of the call in the model's message; the result must carry the same id.
    pub(crate) call_id: String,
}

/// The identity of the handoff in progress in a thread, and its options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HandoffMetadata {
    /// The handoff's id; it stays the same through all iterations.
    pub(crate) handoff_id: HandoffId,
    /// The assistant of both threads.
    pub(crate) assistant_id: AssistantId,
    /// The thread that is handed off.
    pub(crate) parent_thread_id: ThreadId,
    /// The time of the request; it stays the same through all iterations.
    pub(crate) created_at: Timestamp,
    /// The options of the request.
    #[serde(flatten)]
    pub(crate) options: HandoffOptions,
}

impl WaitingToolCall {
    /// Returns the waiting call of a thread that continues without the decision.
    ///
    /// A stored call that cannot be parsed counts as absent and gets no result: continuing the thread must stay
    /// possible, and the start of the next turn clears the channel anyway.
    pub(crate) fn read_lenient(channels: &Channels) -> Option<Self> {
        WAITING_CALL_CHANNEL.get(channels).unwrap_or_default()
    }
}

/// A handoff request together with the ids and the time it will be stored under.
#[derive(Debug, Clone)]
pub struct PreparedHandoffRequest {
    /// The handoff's id.
    pub handoff_id: HandoffId,
    /// The id that the child thread gets if the handoff is accepted.
    pub child_thread_id: ThreadId,
    /// The thread to hand off.
    pub parent_thread_id: ThreadId,
    /// The assistant of both threads.
    pub assistant_id: AssistantId,
    /// The time of the request.
    pub now: Timestamp,
    /// The options of the request.
    pub options: HandoffOptions,
}

/// Returns the idempotency key of the `handoff_requested` event, which marks where in its parent the handoff was
/// requested.
pub fn requested_key(handoff_id: HandoffId) -> String {
    format!("handoff_requested:{handoff_id}")
}

/// Returns whether the thread has no content that could be handed off: no message, no context event, nothing imported from
/// another agent's session, and no package of an accepted handoff.
///
/// # Errors
///
/// When the journal cannot be read.
pub fn is_blank<'a>(store: &'a dyn Store, thread: &'a Thread) -> BoxFuture<'a, journal::Result<bool>> {
    journal::box_future(async move {
        if thread.message_count > 0 {
            return Ok(false);
        }
        let query =
            EventQuery { categories: vec![Category::Message, Category::Context], ..EventQuery::after(0, 1) };
        if !store.events(thread.thread_id, query).await?.is_empty() {
            return Ok(false);
        }
        let types = vec![EventType::ImportedSummary, EventType::ImportedBoundary];
        let imported = EventQuery { types, ..EventQuery::after(0, 1) };
        if !store.events(thread.thread_id, imported).await?.is_empty() {
            return Ok(false);
        }
        let into = HandoffFilter { child_thread_id: Some(thread.thread_id), ..HandoffFilter::default() };
        Ok(store.handoffs(into).await?.iter().all(|handoff| handoff.accepted_sha256.is_none()))
    })
}

/// Returns the start of the run that carries out `request`: the handoff's row, its `handoff_requested` event, and the
/// channels from which the graph drafts the first proposal.
///
/// # Errors
///
/// When the options or the event cannot be serialized.
pub fn handoff_run_start(request: &PreparedHandoffRequest) -> Result<RunStart, StepFailure> {
    let metadata = HandoffMetadata {
        handoff_id: request.handoff_id,
        assistant_id: request.assistant_id.clone(),
        parent_thread_id: request.parent_thread_id,
        created_at: request.now,
        options: request.options.clone(),
    };
    let handoff = requested_handoff(request)?;
    let requested = HandoffRequested {
        handoff_id: request.handoff_id,
        goal: request.options.goal.clone(),
        initiated_by: request.options.initiated_by().to_owned(),
    };
    let event = NewEvent::from_body(&requested, request.now)?.with_key(requested_key(request.handoff_id));
    let state = HandoffState::Requested { handoff: Box::new(HandoffInProgress::new(metadata)) };
    let mut channels = state.channels();
    // This handoff's outcome is not the result of a call that requested an earlier handoff.
    WAITING_CALL_CHANNEL.clear(&mut channels);
    // Nothing happens between the statuses `requested` and `drafting`, so both become durable in one transaction.
    let drafting =
        lifecycle::transition_write(&handoff, HandoffAction::Draft, HandoffPatch::default(), request.now)?;
    let writes = vec![Write::CreateHandoff(handoff), drafting];
    Ok(RunStart {
        update: GraphUpdate { events: vec![event], writes, ..GraphUpdate::default() },
        channels,
        ..RunStart::default()
    })
}

/// Returns the row of a handoff that was just requested.
///
/// # Errors
///
/// When the options cannot be serialized.
pub(crate) fn requested_handoff(request: &PreparedHandoffRequest) -> Result<Handoff, serde_json::Error> {
    Ok(Handoff {
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
    })
}

/// Returns the row of a handoff: the one among the deferred writes of the step, which is not in the store yet, or else the
/// stored one.
///
/// # Errors
///
/// When the journal cannot be read.
pub(crate) async fn current_handoff(
    step: &StepContext<'_>,
    handoff_id: HandoffId,
) -> journal::Result<Option<Handoff>> {
    let deferred = step.deferred_writes.iter().find_map(|write| {
        let Write::CreateHandoff(handoff) = write else { return None };
        (handoff.handoff_id == handoff_id).then(|| handoff.clone())
    });
    match deferred {
        Some(handoff) => Ok(Some(handoff)),
        None => step.store.handoff(handoff_id).await,
    }
}

/// Returns the start of a run that resumes a pending handoff whose earlier run ended before it asked for a decision.
///
/// The handoff's row is the source of truth. A graph state in `channels` that agrees with the row is kept, including
/// feedback that no draft contains yet. A state that is missing, unreadable or of another handoff is rebuilt from the
/// row.
///
/// # Errors
///
/// When the stored options cannot be parsed.
pub fn handoff_run_restart(handoff: &Handoff, channels: &Channels) -> Result<RunStart, serde_json::Error> {
    let state = HandoffState::read(channels).unwrap_or_default();
    if state.as_ref().is_some_and(|state| is_consistent(state, handoff)) {
        return Ok(RunStart::default());
    }
    let metadata = HandoffMetadata {
        handoff_id: handoff.handoff_id,
        assistant_id: handoff.assistant_id.clone(),
        parent_thread_id: handoff.parent_thread_id,
        created_at: handoff.created_at,
        options: serde_json::from_value(handoff.options.clone())?,
    };
    let in_progress = state.as_ref().and_then(HandoffState::in_progress);
    let in_progress =
        in_progress.filter(|in_progress| in_progress.metadata.handoff_id == handoff.handoff_id).cloned();
    let in_progress = Box::new(in_progress.unwrap_or_else(|| HandoffInProgress::new(metadata)));
    let state = if handoff.status == HandoffStatus::AwaitingDecision {
        let Handoff { handoff_id, iteration, .. } = *handoff;
        let proposal = ProposalRef { handoff_id, iteration, summary_sha256: None };
        HandoffState::AwaitingDecision { handoff: in_progress, proposal, problem: None }
    } else {
        HandoffState::Requested { handoff: in_progress }
    };
    Ok(RunStart { channels: state.channels(), ..RunStart::default() })
}

/// Returns whether the graph state of a thread agrees with the row of its pending handoff: same handoff, matching
/// status and, while a decision is awaited, the same iteration.
fn is_consistent(state: &HandoffState, handoff: &Handoff) -> bool {
    let is_same = |in_progress: &HandoffInProgress| in_progress.metadata.handoff_id == handoff.handoff_id;
    match state {
        HandoffState::Requested { handoff: in_progress }
        | HandoffState::Redrafting { handoff: in_progress, .. } => {
            is_same(in_progress) && handoff.status == HandoffStatus::Drafting
        }
        HandoffState::AwaitingDecision { handoff: in_progress, proposal, .. } => {
            is_same(in_progress)
                && handoff.status == HandoffStatus::AwaitingDecision
                && proposal.iteration == handoff.iteration
        }
        HandoffState::Accepted { .. } | HandoffState::Declined | HandoffState::Previewed => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m16_a_goal_is_trimmed_limited_and_redacted() {
        let normalize = |goal: &str| normalize_goal(Some(goal.to_owned()));
        assert_eq!(normalize("  ship it\n"), Ok(Some("ship it".to_owned())));
        assert_eq!(normalize(" \t"), Ok(None));
        assert_eq!(normalize("use password=hunter2hunter2"), Ok(Some("use password=[redacted]".to_owned())));
        assert_eq!(normalize(&"g".repeat(2_000)).map(|goal| goal.unwrap().len()), Ok(2_000));
        assert_eq!(normalize(&"g".repeat(2_001)), Err(GoalTooLong { chars: 2_001 }));
    }
}
