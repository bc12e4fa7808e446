//! A request for a handoff: what was asked for, the state keys that carry it through the graph, and the rows its
//! admission writes.

pub(crate) mod propose;

use std::path::PathBuf;

use jiff::Timestamp;
use journal::{EventQuery, HandoffPatch, Store, Write};
use protocol::{
    AssistantId, Category, Event, EventType, Handoff, HandoffId, HandoffStatus, NewEvent, Thread, ThreadId,
};
use runtime::{Channels, Failure, Start, Update};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::lifecycle::{self, Step};

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
    /// Another draft is asked for without feedback: `{model}`.
    pub(crate) const REDRAFT: &str = "_handoff_redraft";
    /// The model a person chose for the drafts of this handoff.
    pub(crate) const MODEL: &str = "_handoff_model";
    /// What was wrong with the last draft: a [`super::Problem`].
    pub(crate) const PROBLEM: &str = "_handoff_problem";
    /// The tool call that asked for the handoff and has no result yet: a [`super::Asker`].
    pub(crate) const ASKER: &str = "_handoff_asker";
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

impl Asker {
    pub(crate) fn read(channels: &Channels) -> Option<Self> {
        channels.get(keys::ASKER).and_then(|value| serde_json::from_value(value.clone()).ok())
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
///
/// # Errors
/// When the journal fails.
pub async fn is_blank(store: &dyn Store, thread: &Thread) -> journal::Result<bool> {
    if thread.message_count > 0 {
        return Ok(false);
    }
    let query =
        EventQuery { categories: vec![Category::Message, Category::Context], ..EventQuery::after(0, 1) };
    if !store.events(thread.thread_id, query).await?.is_empty() {
        return Ok(false);
    }
    let mut after = 0;
    loop {
        let query = EventQuery {
            categories: vec![Category::Middleware],
            ..EventQuery::after(after, journal::PAGE_ROWS_MAX)
        };
        let page = store.events(thread.thread_id, query).await?;
        let Some(last) = page.last() else { return Ok(true) };
        after = last.seq;
        let is_imported = |event: &Event| {
            matches!(event.kind(), Some(EventType::ImportedSummary | EventType::ImportedBoundary))
        };
        if page.iter().any(is_imported) {
            return Ok(false);
        }
    }
}

/// Returns what the run that carries `request` begins with.
///
/// # Errors
/// When it cannot be written as JSON.
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
    let content = json!({
        "handoff_id": request.handoff_id, "goal": request.options.goal,
        "initiated_by": request.options.initiated_by(),
    });
    let event = NewEvent::new(EventType::HandoffRequested, &content, request.now)?;
    let event = event.keyed(requested_key(request.handoff_id));
    let mut channels = cleared();
    // A call that asked for an earlier handoff is not answered by this one.
    channels.insert(keys::ASKER.to_owned(), Value::Null);
    channels.insert(keys::REQUESTED.to_owned(), true.into());
    channels.insert(keys::METADATA.to_owned(), serde_json::to_value(metadata)?);
    // Nothing lies between being asked for and being drafted, so both become durable together.
    let drafting = lifecycle::moved(&handoff, Step::Draft, HandoffPatch::default(), request.now)?;
    let writes = vec![Write::CreateHandoff(handoff), drafting];
    Ok(Start {
        update: Update { events: vec![event], writes, ..Update::default() },
        channels,
        ..Start::default()
    })
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
    Ok(Start { channels, ..Start::default() })
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
        keys::REDRAFT,
        keys::MODEL,
        keys::PROBLEM,
    ]
    .into_iter()
    .map(|key| (key.to_owned(), Value::Null))
    .collect()
}
