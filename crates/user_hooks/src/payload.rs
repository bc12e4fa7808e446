//! The payload of a hook: one JSON object, which the book's page on hooks documents. It is made from an event of the
//! journal and the rows that the event refers to, with secrets redacted.
//!
//! A change of the shape that could break a reader must increment [`SCHEMA_VERSION`].

use jiff::Timestamp;
use journal::{EventQuery, Store, SupersededVisibility};
use protocol::event::body::{HandoffAccepted, HandoffProposed, RunEnded, RunFailed, RunInterrupted};
use protocol::{
    AssistantId, Compaction, CompactionTrigger, Event, EventType, Handoff, HandoffId, Proposal, Run,
    RunFailure, RunId, RunStatus, Seq, Thread, ThreadId, Usage,
};
use schemars::JsonSchema;
use serde::Serialize;

/// The version of the payload's shape, sent as `schema_version`.
const SCHEMA_VERSION: u32 = 1;

/// Maximum characters of an answer in a payload. A hook that needs the whole answer reads the thread.
const ANSWER_CHARS_MAX: usize = 4_000;

protocol::named_enum! {
    /// The events that hooks can subscribe to.
    #[derive(JsonSchema)]
    pub enum HookEvent {
        /// A handoff summary was drafted and awaits a decision.
        HandoffProposed = "handoff.proposed",
        /// A handoff summary was accepted, and the child thread exists.
        HandoffAccepted = "handoff.accepted",
        /// A compaction is about to be stored; the hook can veto it.
        CompactionBefore = "compaction.before",
        /// A compaction was stored.
        CompactionAfter = "compaction.after",
        /// A run ended: with success, a failure, a cancellation, or a pending question.
        RunEnded = "run.ended",
    }
}

impl HookEvent {
    /// Returns the hook event that an event of the journal causes, or `None` if it causes no call. `compaction.before` has
    /// no event in the journal, because nothing is stored at that time.
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
            | EventType::PinsChanged
            | EventType::HandoffRequested
            | EventType::HandoffRefined
            | EventType::HandoffEdited
            | EventType::HandoffReverted
            | EventType::HandoffTruncated
            | EventType::HandoffMerged
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

/// The payload of a hook. The field names are the JSON keys.
#[derive(Debug, Clone, Serialize)]
pub struct HookPayload {
    /// Version of the payload's shape.
    pub schema_version: u32,
    /// The event that the hook is called for.
    pub hook: HookEvent,
    /// Time of the event.
    pub at: Timestamp,
    /// The thread of the event. For a handoff, this is the parent thread.
    pub thread_id: ThreadId,
    /// The name of the thread, redacted.
    pub thread_name: Option<String>,
    /// The assistant that owns the thread.
    pub assistant_id: AssistantId,
    /// The run of the event.
    pub run_id: Option<RunId>,
    /// `seq` of the event in the journal. Together with `thread_id` it identifies the event, so that a receiver can
    /// recognise a repetition. `None` for `compaction.before`, which has no event yet.
    pub seq: Option<Seq>,
    /// Details of the event, as an object under the key `handoff`, `compaction` or `run`.
    #[serde(flatten)]
    pub about: PayloadDetails,
}

/// Details of the event, by its subject.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PayloadDetails {
    /// Details of a proposed or accepted handoff.
    Handoff(HandoffHookPayload),
    /// Details of a compaction.
    Compaction(CompactionHookPayload),
    /// Details of a run that ended.
    Run(RunHookPayload),
}

/// The payload of `handoff.proposed` and `handoff.accepted`. All texts are redacted.
#[derive(Debug, Clone, Serialize)]
pub struct HandoffHookPayload {
    /// The handoff. `segue handoff --decide` takes this id.
    pub handoff_id: HandoffId,
    /// The number of the draft, from 0.
    pub iteration: u32,
    /// The goal of the handoff, if one was given.
    pub goal: Option<String>,
    /// The title of the summary.
    pub title: String,
    /// The summary in one or two sentences.
    pub tldr: String,
    /// The whole package as Markdown.
    pub package_md: String,
    /// The text of `package_md`, under its name of version 1.
    pub summary_md: String,
    /// Lowercase hex SHA-256 of the package as it is stored, shown for review and injected. The redacted `package_md` can
    /// differ from that text.
    pub summary_sha256: String,
    /// The child thread. It exists once the handoff is accepted.
    pub child_thread_id: ThreadId,
}

/// The payload of `compaction.before` and `compaction.after`.
#[derive(Debug, Clone, Serialize)]
pub struct CompactionHookPayload {
    /// The reason for the compaction.
    pub trigger: CompactionTrigger,
    /// Number of messages that the summary replaces.
    pub replaced_count: u64,
    /// Number of messages that are still sent verbatim.
    pub kept_count: u64,
    /// Estimated tokens of the next request without the compaction.
    pub tokens_before: u64,
    /// Estimated tokens of the next request with the compaction.
    pub tokens_after: u64,
    /// The author of the summary: `provider/name` of a model, or `extractive` for the offline summary.
    pub model: String,
    /// The summary, redacted.
    pub summary: String,
}

/// The payload of `run.ended`.
#[derive(Debug, Clone, Serialize)]
pub struct RunHookPayload {
    /// The status of the run. `interrupted` means that the run waits for a decision of the user.
    pub status: RunStatus,
    /// The error message of a failed run, redacted.
    pub error: Option<String>,
    /// The actions that await a decision: names of tools, or `handoff_summary`.
    pub waits_for: Vec<String>,
    /// The last answer of the model in the run: redacted, and cut to 4,000 characters. `None` if it has no text.
    pub answer: Option<String>,
    /// Milliseconds from the admission of the run to its end.
    pub duration_ms: u64,
    /// Tokens of all model calls of the run.
    pub usage: Usage,
}

/// A compaction that is computed but not yet stored.
#[derive(Debug, Clone, Copy)]
pub struct AnnouncedCompaction<'a> {
    /// The run that compacts the thread.
    pub run_id: RunId,
    /// The compaction as it will be stored.
    pub compaction: &'a Compaction,
    /// The current time.
    pub now: Timestamp,
}

/// The fields of a payload that identify an occurrence of a hook event.
struct HookOccurrence {
    hook: HookEvent,
    at: Timestamp,
    seq: Option<Seq>,
    run_id: Option<RunId>,
}

impl HookPayload {
    /// Returns the payload of `compaction.before` for a compaction that is not yet stored.
    pub fn before_compaction(thread: &Thread, announced: AnnouncedCompaction<'_>) -> Self {
        let occurrence = HookOccurrence {
            hook: HookEvent::CompactionBefore,
            at: announced.now,
            seq: None,
            run_id: Some(announced.run_id),
        };
        Self::build(thread, occurrence, PayloadDetails::Compaction(compaction_payload(announced.compaction)))
    }

    /// Returns the payload for an event of the journal. Returns `None` if the event causes no call, its body cannot be
    /// parsed, or a row that it refers to has been deleted.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) async fn from_event(
        store: &dyn Store,
        thread: &Thread,
        event: &Event,
    ) -> journal::Result<Option<Self>> {
        let Some(hook) = event.kind().and_then(HookEvent::from_event_type) else {
            return Ok(None);
        };
        let about = match hook {
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
            HookEvent::CompactionBefore | HookEvent::CompactionAfter => event
                .body()
                .ok()
                .map(|compaction| PayloadDetails::Compaction(compaction_payload(&compaction))),
            HookEvent::RunEnded => run_details(store, event).await?,
        };
        let occurrence =
            HookOccurrence { hook, at: event.created_at, seq: Some(event.seq), run_id: event.run_id };
        Ok(about.map(|about| Self::build(thread, occurrence, about)))
    }

    fn build(thread: &Thread, occurrence: HookOccurrence, about: PayloadDetails) -> Self {
        let HookOccurrence { hook, at, seq, run_id } = occurrence;
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

/// Reads the proposal with this hash. Returns `None` if the handoff or the proposal does not exist.
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

/// Returns the details of a proposal, redacted.
fn handoff_payload(handoff: &Handoff, proposal: &Proposal) -> HandoffHookPayload {
    let package_md = redact_text(&proposal.package_md);
    HandoffHookPayload {
        handoff_id: handoff.handoff_id,
        iteration: proposal.iteration,
        goal: handoff.goal.as_deref().map(redact_text),
        title: redact_text(&proposal.summary_json.title),
        tldr: redact_text(&proposal.summary_json.tldr),
        summary_md: package_md.clone(),
        package_md,
        summary_sha256: proposal.summary_sha256.clone(),
        child_thread_id: handoff.child_thread_id,
    }
}

/// Returns the details of a compaction, redacted.
fn compaction_payload(compaction: &Compaction) -> CompactionHookPayload {
    CompactionHookPayload {
        trigger: compaction.trigger,
        replaced_count: compaction.replaced_count,
        kept_count: compaction.kept_count,
        tokens_before: compaction.tokens_before,
        tokens_after: compaction.tokens_after,
        model: compaction.model.clone(),
        summary: redact_text(&compaction.summary),
    }
}

/// The end of a run, as its last event records it.
struct RunEndState {
    status: RunStatus,
    failure: Option<RunFailure>,
    waits_for: Vec<String>,
}

impl RunEndState {
    /// Returns the state that the event records; `run` supplies the fields that the event does not have. The event
    /// takes precedence over the row, which may have changed since.
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

/// Reads the run of the event and its last answer. Returns `None` if the event has no run or the run does not exist.
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
    let duration = event.created_at.duration_since(run.created_at).as_millis();
    Ok(Some(PayloadDetails::Run(RunHookPayload {
        status,
        error: failure.map(|failure| redact_text(&failure.message)),
        waits_for,
        answer: answer
            .map(|answer| truncate_answer(&redact_text(&answer.text())))
            .filter(|answer| !answer.is_empty()),
        duration_ms: u64::try_from(duration).unwrap_or(0),
        usage: run.usage,
    })))
}

/// Returns the text with secrets redacted (M16).
fn redact_text(text: &str) -> String {
    secrets::redact(text).into_owned()
}

/// Returns at most [`ANSWER_CHARS_MAX`] characters of an answer, with an ellipsis if it was longer.
fn truncate_answer(text: &str) -> String {
    match text.char_indices().nth(ANSWER_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
