//! The payload of a hook: one JSON object, described in the book's page on hooks. It is made from an event and the rows
//! it refers to, with secrets redacted. A change of its shape that could break a reader raises [`SCHEMA_VERSION`].

use jiff::Timestamp;
use journal::{EventQuery, Store, SupersededVisibility};
use protocol::event::body::{HandoffAccepted, HandoffProposed, RunEnded, RunFailed, RunInterrupted};
use protocol::{
    AssistantId, Compaction, CompactionTrigger, Event, EventType, Handoff, HandoffId, Proposal, Run,
    RunFailure, RunId, RunStatus, Seq, Thread, ThreadId, Usage,
};
use schemars::JsonSchema;
use serde::Serialize;

/// The version of the shape.
const SCHEMA_VERSION: u32 = 1;

/// Characters of an answer that go along; who wants more reads the thread.
const ANSWER_CHARS_MAX: usize = 4_000;

protocol::named_enum! {
    /// The events that hooks can subscribe to.
    #[derive(JsonSchema)]
    pub enum HookEvent {
        /// A summary is drafted and waits for a decision.
        HandoffProposed = "handoff.proposed",
        /// A summary was accepted, and the child thread is there.
        HandoffAccepted = "handoff.accepted",
        /// A conversation is about to be condensed; the hook may refuse it.
        CompactionBefore = "compaction.before",
        /// A conversation was condensed.
        CompactionAfter = "compaction.after",
        /// A run is over: done, failed, stopped, or waiting for a person.
        RunEnded = "run.ended",
    }
}

impl HookEvent {
    /// Returns what hooks are told of by an event; nobody is told of other events.
    pub(crate) const fn from_event_type(kind: EventType) -> Option<Self> {
        match kind {
            EventType::HandoffProposed => Some(Self::HandoffProposed),
            EventType::HandoffAccepted => Some(Self::HandoffAccepted),
            EventType::Compacted => Some(Self::CompactionAfter),
            EventType::RunEnded | EventType::RunFailed | EventType::RunInterrupted => Some(Self::RunEnded),
            EventType::HumanMessage
            | EventType::AiMessage
            | EventType::ToolMessage
            | EventType::ImportedNote
            | EventType::ImportedBoundary
            | EventType::ImportedSummary
            | EventType::ThreadCreated
            | EventType::ThreadRenamed
            | EventType::ThreadRehomed
            | EventType::ThreadRewound
            | EventType::RunStarted
            | EventType::RunStopRequested
            | EventType::ToolCallDecided
            | EventType::SubagentEnded
            | EventType::ModelCalled
            | EventType::MemoryRead
            | EventType::CompactionUndone
            | EventType::CompactionFailed
            | EventType::ResultClipped
            | EventType::TurnsArchived
            | EventType::TurnsRestored
            | EventType::HandoffRequested
            | EventType::HandoffRefined
            | EventType::HandoffReverted
            | EventType::HandoffTruncated
            | EventType::HandoffDeclined
            | EventType::HandoffPreviewed
            | EventType::HandoffFailed
            | EventType::HandoffExpired
            | EventType::HandoffSeeded
            | EventType::HandoffCleaned
            | EventType::HandoffMirrored => None,
        }
    }
}

/// The payload of a hook.
#[derive(Debug, Clone, Serialize)]
pub struct HookPayload {
    /// Version of this shape.
    pub schema_version: u32,
    /// The event.
    pub hook: HookEvent,
    /// When.
    pub at: Timestamp,
    /// The thread it happened in; of a handoff, the parent.
    pub thread_id: ThreadId,
    /// The name of the thread.
    pub thread_name: Option<String>,
    /// The assistant whose thread it is.
    pub assistant_id: AssistantId,
    /// The run it happened in.
    pub run_id: Option<RunId>,
    /// The event that says so; with the thread, it names what happened once and for all. None while it has not happened.
    pub seq: Option<Seq>,
    /// The rest, under the name of what it is about.
    #[serde(flatten)]
    pub about: PayloadDetails,
}

/// The subject of the event.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PayloadDetails {
    /// A handoff.
    Handoff(HandoffHookPayload),
    /// A compaction.
    Compaction(CompactionHookPayload),
    /// A run.
    Run(RunHookPayload),
}

/// A proposal, or the one that was accepted.
#[derive(Debug, Clone, Serialize)]
pub struct HandoffHookPayload {
    /// The handoff, by which `segue handoff --decide` answers it.
    pub handoff_id: HandoffId,
    /// Which draft it is: 0 is the first.
    pub iteration: u32,
    /// The goal of the handoff, if one was given.
    pub goal: Option<String>,
    /// The summary's title.
    pub title: String,
    /// The summary in a sentence or two.
    pub tldr: String,
    /// The summary.
    pub summary_md: String,
    /// Its SHA-256: what is shown, stored and injected is this text.
    pub summary_sha256: String,
    /// The thread that goes on. It exists once the handoff is accepted.
    pub child_thread_id: ThreadId,
}

/// A compaction.
#[derive(Debug, Clone, Serialize)]
pub struct CompactionHookPayload {
    /// Why it happens.
    pub trigger: CompactionTrigger,
    /// Messages that are condensed.
    pub replaced_count: u64,
    /// Messages that are still sent as they are.
    pub kept_count: u64,
    /// Tokens of the next request before, by estimate.
    pub tokens_before: u64,
    /// Tokens of the next request after.
    pub tokens_after: u64,
    /// The author of the summary: `provider/name` of a model, or `extractive` for the offline summary.
    pub model: String,
    /// The summary.
    pub summary: String,
}

/// A run that is over.
#[derive(Debug, Clone, Serialize)]
pub struct RunHookPayload {
    /// How it ended; `interrupted` waits for a person.
    pub status: RunStatus,
    /// Why it failed.
    pub error: Option<String>,
    /// The actions that wait for a person: the names of the tools, or `handoff_summary`.
    pub waits_for: Vec<String>,
    /// The last answer of the model in the run.
    pub answer: Option<String>,
    /// Milliseconds from its admission to its end.
    pub duration_ms: u64,
    /// Tokens of all its model calls.
    pub usage: Usage,
}

/// A compaction that is about to take effect.
#[derive(Debug, Clone, Copy)]
pub struct AnnouncedCompaction<'a> {
    /// The run that compacts the thread.
    pub run_id: RunId,
    /// The compaction that the boundary will record.
    pub compaction: &'a Compaction,
    /// When.
    pub now: Timestamp,
}

/// An occasion, when it came, and the event and run it belongs to.
struct HookOccurrence {
    hook: HookEvent,
    at: Timestamp,
    seq: Option<Seq>,
    run_id: Option<RunId>,
}

impl HookPayload {
    /// Returns what hooks are told of a compaction that is about to take effect.
    pub fn before_compaction(thread: &Thread, due: AnnouncedCompaction<'_>) -> Self {
        let happened = HookOccurrence {
            hook: HookEvent::CompactionBefore,
            at: due.now,
            seq: None,
            run_id: Some(due.run_id),
        };
        Self::build(thread, happened, PayloadDetails::Compaction(compaction_payload(due.compaction)))
    }

    /// Returns what hooks are told of an event; `None` when nobody is told of it, or what it was about is gone.
    pub(crate) async fn from_event(
        store: &dyn Store,
        thread: &Thread,
        event: &Event,
    ) -> journal::Result<Option<Self>> {
        let Some(occasion) = event.kind().and_then(HookEvent::from_event_type) else {
            return Ok(None);
        };
        let about = match occasion {
            HookEvent::HandoffProposed => match event.body() {
                Ok(HandoffProposed { handoff_id, summary_sha256, .. }) => {
                    handoff_details(store, handoff_id, &summary_sha256).await?
                }
                Err(_) => None,
            },
            HookEvent::HandoffAccepted => match event.body() {
                Ok(HandoffAccepted { handoff_id, summary_sha256, .. }) => {
                    handoff_details(store, handoff_id, &summary_sha256).await?
                }
                Err(_) => None,
            },
            HookEvent::CompactionBefore | HookEvent::CompactionAfter => {
                event.body().ok().map(|marker| PayloadDetails::Compaction(compaction_payload(&marker)))
            }
            HookEvent::RunEnded => run_details(store, event).await?,
        };
        let happened = HookOccurrence {
            hook: occasion,
            at: event.created_at,
            seq: Some(event.seq),
            run_id: event.run_id,
        };
        Ok(about.map(|about| Self::build(thread, happened, about)))
    }

    fn build(thread: &Thread, happened: HookOccurrence, about: PayloadDetails) -> Self {
        let HookOccurrence { hook, at, seq, run_id } = happened;
        Self {
            schema_version: SCHEMA_VERSION,
            hook,
            at,
            thread_id: thread.thread_id,
            thread_name: thread.name.as_deref().map(redact_text),
            assistant_id: thread.assistant_id.clone(),
            run_id,
            seq,
            about,
        }
    }
}

async fn handoff_details(
    store: &dyn Store,
    handoff_id: HandoffId,
    sha256: &str,
) -> journal::Result<Option<PayloadDetails>> {
    let Some(handoff) = store.handoff(handoff_id).await? else { return Ok(None) };
    let proposals = store.proposals(handoff_id).await?;
    let proposal = proposals.iter().rfind(|proposal| proposal.summary_sha256 == sha256);
    Ok(proposal.map(|proposal| PayloadDetails::Handoff(handoff_payload(&handoff, proposal))))
}

fn handoff_payload(handoff: &Handoff, proposal: &Proposal) -> HandoffHookPayload {
    HandoffHookPayload {
        handoff_id: handoff.handoff_id,
        iteration: proposal.iteration,
        goal: handoff.goal.as_deref().map(redact_text),
        title: redact_text(&proposal.summary_json.title),
        tldr: redact_text(&proposal.summary_json.tldr),
        summary_md: redact_text(&proposal.summary_md),
        summary_sha256: proposal.summary_sha256.clone(),
        child_thread_id: handoff.child_thread_id,
    }
}

fn compaction_payload(marker: &Compaction) -> CompactionHookPayload {
    CompactionHookPayload {
        trigger: marker.trigger,
        replaced_count: marker.replaced_count,
        kept_count: marker.kept_count,
        tokens_before: marker.tokens_before,
        tokens_after: marker.tokens_after,
        model: marker.model.clone(),
        summary: redact_text(&marker.summary),
    }
}

/// How a run ended, as its last event says.
struct RunEndState {
    status: RunStatus,
    failure: Option<RunFailure>,
    waits_for: Vec<String>,
}

impl RunEndState {
    /// Returns what the event says; `run` is the row, for what it does not say.
    fn from_event(event: &Event, run: &Run) -> Self {
        let (mut status, mut failure, mut waits_for) = (run.status, run.failure.clone(), Vec::new());
        if let Ok(ended) = event.body::<RunEnded>() {
            status = ended.status;
        } else if let Ok(failed) = event.body::<RunFailed>() {
            (status, failure) = (RunStatus::Error, Some(failed.failure));
        } else if let Ok(interrupted) = event.body::<RunInterrupted>() {
            (status, waits_for) = (RunStatus::Interrupted, interrupted.actions);
        }
        Self { status, failure, waits_for }
    }
}

async fn run_details(store: &dyn Store, event: &Event) -> journal::Result<Option<PayloadDetails>> {
    let Some(run) = (match event.run_id {
        Some(run_id) => store.run(run_id).await?,
        None => None,
    }) else {
        return Ok(None);
    };
    let RunEndState { status, failure, waits_for } = RunEndState::from_event(event, &run);
    let answers = EventQuery {
        after: None,
        before: Some(event.seq),
        types: vec![EventType::AiMessage],
        superseded: SupersededVisibility::Shown,
        ..EventQuery::after(0, 1)
    };
    let answer = store.events(event.thread_id, answers).await?.pop();
    let answer = answer.filter(|answer| answer.run_id == event.run_id).and_then(|answer| answer.message());
    let took = event.created_at.duration_since(run.created_at).as_millis();
    Ok(Some(PayloadDetails::Run(RunHookPayload {
        status,
        error: failure.map(|failure| redact_text(&failure.message)),
        waits_for,
        answer: answer
            .map(|answer| truncate_answer(&redact_text(&answer.text())))
            .filter(|answer| !answer.is_empty()),
        duration_ms: u64::try_from(took).unwrap_or(0),
        usage: run.usage,
    })))
}

/// Returns text without what looks like a key or a password (M16).
fn redact_text(text: &str) -> String {
    facts::redact(text).into_owned()
}

fn truncate_answer(text: &str) -> String {
    match text.char_indices().nth(ANSWER_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
