//! A request for a handoff: what was asked for, and the rows and the state its admission writes.

pub(crate) mod propose;
pub(crate) mod tool;

use std::path::PathBuf;

use jiff::Timestamp;
use journal::{EventQuery, HandoffPatch, Store, Write};
use protocol::event::body::HandoffRequested;
use protocol::{
    AssistantId, Category, EventType, Handoff, HandoffId, HandoffStatus, NewEvent, Thread, ThreadId,
};
use runtime::{Channel, Channels, Failure, Start, Update};
use serde::{Deserialize, Serialize};

use crate::lifecycle::{self, Step};
use crate::state::{HandoffInProgress, HandoffState, ProposalRef};

/// Channel: the tool call that asked for the handoff and has no result yet. It outlasts the decision, and ends when a person
/// goes on without one.
pub(crate) const ASKER_CHANNEL: Channel<Asker> = Channel::new("_handoff_asker");

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
    /// The tool call by which the agent asked; `None` when a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The folder in which the files that a summary names are looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<PathBuf>,
}

impl Options {
    /// Returns who asked, by the name that events and payloads give them.
    pub(crate) const fn initiated_by(&self) -> &'static str {
        if self.tool_call_id.is_some() { "agent" } else { "user" }
    }
}

/// What was wrong with the newest draft, until the next decision.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Problem {
    /// One line: `summarization failed: …`.
    pub(crate) problem: String,
    /// The feedback that was not worked in, when a refinement failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unused_feedback: Option<String>,
}

/// The tool call that waits for the outcome of a handoff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asker {
    pub(crate) handoff_id: HandoffId,
    pub(crate) call_id: String,
}

/// Which handoff is under way in a thread, and how it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) handoff_id: HandoffId,
    pub(crate) assistant_id: AssistantId,
    pub(crate) parent_thread_id: ThreadId,
    pub(crate) created_at: Timestamp,
    #[serde(flatten)]
    pub(crate) options: Options,
}

impl Asker {
    /// Returns the call that waits, for a thread that goes on without the decision. One that cannot be read gets no result:
    /// going on must stay possible, and whatever the thread begins next removes it.
    pub(crate) fn left_behind(channels: &Channels) -> Option<Self> {
        ASKER_CHANNEL.get(channels).unwrap_or_default()
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

/// Returns whether nothing was ever said in the thread, here or in a session it was imported from: there is nothing to
/// hand off. A child that waits for its first turn has its summary still before it.
pub async fn is_blank(store: &dyn Store, thread: &Thread) -> journal::Result<bool> {
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
    Ok(store.events(thread.thread_id, imported).await?.is_empty())
}

/// Returns what the run that carries `request` begins with.
pub fn start(request: &Request) -> Result<Start, Failure> {
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
    let requested = HandoffRequested {
        handoff_id: request.handoff_id,
        goal: request.options.goal.clone(),
        initiated_by: request.options.initiated_by().to_owned(),
    };
    let event = NewEvent::of(&requested, request.now)?.keyed(requested_key(request.handoff_id));
    let state = HandoffState::Requested { handoff: Box::new(HandoffInProgress::new(metadata)) };
    let mut channels = state.channels();
    // A call that asked for an earlier handoff is not answered by this one.
    ASKER_CHANNEL.clear(&mut channels);
    // Nothing lies between being asked for and being drafted, so both become durable together.
    let drafting = lifecycle::moved(&handoff, Step::Draft, HandoffPatch::default(), request.now)?;
    let writes = vec![Write::CreateHandoff(handoff), drafting];
    Ok(Start {
        update: Update { events: vec![event], writes, ..Update::default() },
        channels,
        ..Start::default()
    })
}

/// Returns what a run begins with that takes up a pending handoff whose run ended before it asked, in a thread with these
/// channels. The handoff's row is the truth: a state that is missing, cannot be read or is of something else is made anew
/// from it, and one that agrees with it stays, with the feedback that was not worked in yet.
///
/// # Errors
/// When the stored options cannot be read.
pub fn restart(handoff: &Handoff, channels: &Channels) -> Result<Start, serde_json::Error> {
    let state = HandoffState::read(channels).unwrap_or_default();
    if state.as_ref().is_some_and(|state| agrees(state, handoff)) {
        return Ok(Start::default());
    }
    let metadata = Metadata {
        handoff_id: handoff.handoff_id,
        assistant_id: handoff.assistant_id.clone(),
        parent_thread_id: handoff.parent_thread_id,
        created_at: handoff.created_at,
        options: serde_json::from_value(handoff.options.clone())?,
    };
    let known = state.as_ref().and_then(HandoffState::in_progress);
    let known = known.filter(|known| known.metadata.handoff_id == handoff.handoff_id).cloned();
    let known = Box::new(known.unwrap_or_else(|| HandoffInProgress::new(metadata)));
    let state = if handoff.status == HandoffStatus::AwaitingDecision {
        let Handoff { handoff_id, iteration, .. } = *handoff;
        let proposal = ProposalRef { handoff_id, iteration, summary_sha256: None };
        HandoffState::AwaitingDecision { handoff: known, proposal, problem: None }
    } else {
        HandoffState::Requested { handoff: known }
    };
    Ok(Start { channels: state.channels(), ..Start::default() })
}

/// Returns whether the state of a thread says the same as the row of its pending handoff.
fn agrees(state: &HandoffState, handoff: &Handoff) -> bool {
    let is_same = |known: &HandoffInProgress| known.metadata.handoff_id == handoff.handoff_id;
    match state {
        HandoffState::Requested { handoff: known } | HandoffState::Redrafting { handoff: known, .. } => {
            is_same(known) && handoff.status == HandoffStatus::Drafting
        }
        HandoffState::AwaitingDecision { handoff: known, proposal, .. } => {
            is_same(known)
                && handoff.status == HandoffStatus::AwaitingDecision
                && proposal.iteration == handoff.iteration
        }
        HandoffState::Accepted { .. } | HandoffState::Declined | HandoffState::Previewed => false,
    }
}
