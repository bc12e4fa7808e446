//! Writes: every kind of write and its data. How a store applies them is decided in `engines` and `tables`.

mod effects;
pub(crate) mod memory;

use jiff::Timestamp;
use protocol::{
    ApiKey, Checkpoint, CheckpointId, Decisions, Handoff, HandoffId, HandoffStatus, Interrupt, InterruptId,
    MediumTermSummary, NewEvent, OwnerScope, Proposal, Run, RunFailure, RunFeedback, RunId, RunRequest,
    RunStatus, Seq, StoredItem, SummaryId, Thread, ThreadId, ThreadStatus, Usage,
};
use serde_json::{Map, Value};

use crate::MessageEmbeddings;
use memory::{FactDecision, FactProposal, NotesRevisionRecord};

/// A write of a transaction.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "writes are short-lived and moved once")]
pub enum Write {
    /// Creates a thread. An existing thread with the same id is left unchanged. Fails with [`crate::Error::Conflict`]
    /// if the id belongs, or once belonged, to a thread of another owner, because the owner of a thread never
    /// changes. The fields `first_prompt`, `message_count` and `last_seq` are ignored; they follow from the thread's
    /// events.
    CreateThread(Thread),
    /// Changes the name, status or metadata of a thread. A thread with queued runs stays busy, whatever status is
    /// given.
    UpdateThread {
        /// The thread.
        thread_id: ThreadId,
        /// The changes.
        patch: ThreadPatch,
    },
    /// Sets the status of a busy thread that has neither running nor queued runs: `interrupted` if an interrupt is
    /// pending, `error` if the run of its newest checkpoint failed, `interrupted` if that checkpoint has a next node,
    /// and `idle` otherwise. Other threads are left unchanged.
    SettleThread {
        /// The thread.
        thread_id: ThreadId,
    },
    /// Deletes a thread with everything that belongs to it, including queued runs. Its seqs are never assigned again.
    /// Fails with [`crate::Error::Busy`] if a run of the thread is running. The handoff that created the thread stays
    /// with the parent, for auditing.
    ///
    /// The transaction deletes everything by which anyone could find the thread. The events of a long thread are removed in
    /// further transactions, so that other writers do not wait for all of them. The commit returns when none is left. If it
    /// cannot finish, because the process ends or the disk is full, the rest is removed later in the background, and no read
    /// finds it meanwhile.
    ///
    /// Summaries of any of its messages are removed as by [`Self::RestoreTurns`]. If such a summary also covered
    /// messages of other threads, the `turns_archived` events that announce it there, and copies of these events, are
    /// emptied, because they contain text about the deleted thread. Messages that left a context by an emptied copy
    /// are in it again, which a `turns_restored` event records.
    DeleteThread {
        /// The thread.
        thread_id: ThreadId,
    },
    /// Appends events to a thread, and advances the time of its last activity to theirs. Events of background work,
    /// such as `turns_archived`, `turns_restored` and `model_called`, do not advance it. An event whose key is stored
    /// for the same run already is a repetition, even if the stored event is superseded. Fails with
    /// [`crate::Error::InvalidRequest`] if the JSON escapes half of a surrogate pair.
    Append {
        /// The thread. It must exist.
        thread_id: ThreadId,
        /// The events, in order.
        events: Vec<NewEvent>,
    },
    /// Rewinds a thread: all events after `keep_seq`, up to the current last seq, are superseded. They stay in the
    /// log unchanged, and reads leave them out unless they ask for [`crate::SupersededVisibility::Shown`]. Events
    /// that are appended later are not superseded.
    ///
    /// The superseded messages are archived in `turn_log`. Summaries that cover any of them, or that a superseded
    /// event announces, are removed as by [`Self::RestoreTurns`]. Pending interrupts that were raised after
    /// `keep_seq` are withdrawn, and a thread that was interrupted or had failed becomes idle. The checkpoint is not
    /// changed: the caller stores the one from which the thread continues.
    ///
    /// A `keep_seq` at or after the last seq changes nothing. A `keep_seq` inside a superseded range keeps what is
    /// visible before the range. Fails with [`crate::Error::Busy`] if a run of the thread is active.
    Rewind {
        /// The thread.
        thread_id: ThreadId,
        /// The last seq that stays visible; 0 keeps nothing.
        keep_seq: Seq,
        /// The time of the rewind.
        at: Timestamp,
    },
    /// Copies the transcript of a thread into a blank thread: its visible events of the categories message, context
    /// and middleware, with unchanged seqs, so that references to seqs stay valid. The next seq of `into` follows
    /// `until`, or the last seq of the source. Events about runs, and event keys, are not copied.
    ///
    /// A search returns a copied message once. The copies are not logged in `turn_log` again, because memory has them
    /// from the source. The artifacts of the source can be read in the copy, and are kept when the source is deleted.
    /// Fails with [`crate::Error::InvalidRequest`] if `into` has ever had an event.
    CopyEvents {
        /// The source thread.
        from: ThreadId,
        /// The last seq to copy; `None` copies all events.
        until: Option<Seq>,
        /// The target thread. It must exist.
        into: ThreadId,
    },
    /// Stores binary data in a thread under its hash. Storing it again changes nothing. Fails with
    /// [`crate::Error::Conflict`] if other data is stored under the hash, and with [`crate::Error::InvalidRequest`]
    /// if the data exceeds [`crate::ARTIFACT_BYTES_MAX`] or the hash is malformed. The artifact is deleted with its
    /// thread.
    PutArtifact(Artifact),
    /// Fails with [`crate::Error::Conflict`] unless this is the newest checkpoint of the thread. Guards a transaction
    /// that was computed from that checkpoint.
    ExpectCheckpoint {
        /// The thread.
        thread_id: ThreadId,
        /// The checkpoint that was read; `None` if the thread had none.
        checkpoint_id: Option<CheckpointId>,
    },
    /// Fails with [`crate::Error::Conflict`] if the thread has a message. Guards a transaction that adds something to a thread
    /// before its first message.
    ExpectNoMessage {
        /// The thread. It must exist.
        thread_id: ThreadId,
    },
    /// Fails with [`crate::Error::Conflict`] unless this is the newest visible `pins_changed` event of the thread. Guards a
    /// transaction that computes the next list of pins from the one of that event.
    ExpectPins {
        /// The thread. It must exist.
        thread_id: ThreadId,
        /// The seq of the event that was read; `None` if the thread had none.
        last_change: Option<Seq>,
    },
    /// Fails with [`crate::Error::Conflict`] if the context of the thread has changed since this version, other than
    /// by further messages. It must precede the writes that change the context.
    ExpectUnchangedContext(ThreadVersion),
    /// Inserts a queued run. A thread can have any number of queued runs, and is busy until the last of them has
    /// ended. A queued run has no lease; its owner is the process that will start it. Queueing the same run again
    /// changes nothing. Fails with [`crate::Error::Conflict`] if another run has the id.
    QueueRun(Run),
    /// Inserts a run that starts at once. Fails with [`crate::Error::Busy`] if another run of the thread is running,
    /// even if its lease has expired. Admitting the same run again with the same owner changes nothing. Fails with
    /// [`crate::Error::Fenced`] if another process has started it or it has ended, and with
    /// [`crate::Error::Conflict`] if it is queued (use [`Self::BeginRun`]).
    AdmitRun(Run),
    /// Starts a queued run, with the rules of [`Self::AdmitRun`]. Its time of creation is kept. With a terminal
    /// status, the run ends without having been started, even if another run is running; queued runs can end in no
    /// other way. Fails with [`crate::Error::NotFound`] if the run does not exist, because a deleted run must not
    /// reappear, and with [`crate::Error::Fenced`] if it is queued for another process.
    BeginRun(Run),
    /// Stores the client request of a run, or replaces it. Fails with [`crate::Error::UnknownRun`] unless the run
    /// belongs to the thread; the transaction may create the run before or after this write. The request is deleted
    /// with the run.
    PutRunRequest {
        /// The run.
        run_id: RunId,
        /// Its thread.
        thread_id: ThreadId,
        /// The request.
        request: Box<RunRequest>,
    },
    /// Deletes a run with its request and its feedback. Its events stay. Fails with [`crate::Error::Busy`] if the run
    /// is running, and with [`crate::Error::NotFound`] if it does not exist.
    DeleteRun {
        /// The run.
        run_id: RunId,
    },
    /// Updates a run. Its first terminal status is final: a later status or lease renewal fails with
    /// [`crate::Error::Fenced`]. Any update of a queued run fails too (use [`Self::BeginRun`]).
    UpdateRun {
        /// The run.
        run_id: RunId,
        /// The changes.
        patch: RunPatch,
    },
    /// Takes over a running run whose lease has expired. Fails with [`crate::Error::Fenced`] if it has not.
    ReclaimRun {
        /// The run.
        run_id: RunId,
        /// The new owner.
        owner: String,
        /// The current time. The lease must have ended before it.
        now: Timestamp,
        /// The end of the new lease.
        lease_until: Timestamp,
    },
    /// Replaces a folder of [`crate::Store::unresolved_folders`] by its project, in all threads and summaries. A
    /// repetition changes nothing.
    ResolveFolder {
        /// The recorded folder.
        folder: String,
        /// The path of its project.
        project: String,
    },
    /// Records a heartbeat: until when a process is considered alive. A process whose `alive_until` is before `now`
    /// is deleted at once.
    RecordHeartbeat {
        /// The process.
        replica: Replica,
        /// The current time.
        now: Timestamp,
    },
    /// Removes the owner of all runs that are queued for a process, so that any other process can claim them.
    ReleaseRuns {
        /// The process.
        owner: String,
    },
    /// Claims those of the runs that are unowned ([`crate::Store::unclaimed_runs`]). The claimed runs are in
    /// [`crate::CommitReceipt::claimed_runs`]. If several processes claim a run, exactly one of them gets it, and
    /// none waits for another.
    ClaimRuns(RunClaim),
    /// Stores a checkpoint. Its `head_seq` is set to the last seq of the thread at this position in the transaction,
    /// including the appends before it, and it gets the next number of its branch ([`protocol::CheckpointEntry`]). A
    /// checkpoint with source [`protocol::CheckpointSource::Rewind`] gets the number of the checkpoint from which the
    /// thread continues: the one that a preceding `thread_rewound` event of the transaction names (`checkpoint_id`),
    /// or else the newest visible one.
    PutCheckpoint(Checkpoint),
    /// Restores the checkpoint that the thread had when its newest run started, and deletes the checkpoints of the
    /// run. Follows the rewind that supersedes the run's events. Interrupts that were pending at the restored
    /// checkpoint become pending again, even if the run resolved them. If the thread had no checkpoint then, it has
    /// none afterwards. Fails with [`crate::Error::Busy`] if a run of the thread is running.
    RestoreCheckpoint {
        /// The thread.
        thread_id: ThreadId,
        /// The run.
        run_id: RunId,
    },
    /// Inserts a pending interrupt. An existing interrupt with the same id is left unchanged. It is raised at the
    /// last seq of the thread at this position in the transaction, including the appends before it; a rewind to an
    /// earlier seq withdraws it.
    RaiseInterrupt(Interrupt),
    /// Resolves or withdraws an interrupt. Resolving fails with [`crate::Error::AlreadyDecided`] if it is not
    /// pending. Withdrawing an interrupt that is not pending changes nothing.
    ResolveInterrupt {
        /// The interrupt.
        interrupt_id: InterruptId,
        /// The decisions; `None` withdraws the interrupt.
        decisions: Option<Decisions>,
        /// The time of the change.
        at: Timestamp,
    },
    /// Fails with [`crate::Error::AlreadyDecided`] unless the interrupt is pending. Guards a transaction that was
    /// computed from this fact.
    ExpectPendingInterrupt {
        /// The interrupt.
        interrupt_id: InterruptId,
    },
    /// Inserts a handoff. Inserting the same handoff again changes nothing. Fails with
    /// [`crate::Error::HandoffPending`] if the parent thread has another pending handoff.
    CreateHandoff(Handoff),
    /// Changes the status of a handoff. Fails with [`crate::Error::HandoffStatusChanged`] unless its status is
    /// `from`.
    TransitionHandoff {
        /// The handoff.
        handoff_id: HandoffId,
        /// The expected status.
        from: HandoffStatus,
        /// The new status.
        to: HandoffStatus,
        /// Further changes.
        patch: HandoffPatch,
        /// The time of the change.
        at: Timestamp,
    },
    /// Inserts a proposal. Fails with [`crate::Error::Conflict`] if the iteration has a proposal with another text.
    PutProposal(Proposal),
    /// Deletes a handoff without proposals, for example because a person stopped its first draft. A missing handoff
    /// is not an error. Fails with [`crate::Error::Conflict`] if it has a proposal.
    DeleteHandoff {
        /// The handoff.
        handoff_id: HandoffId,
    },
    /// Stores a person's feedback on a run, or replaces it; the time of the first feedback is kept. Fails with
    /// [`crate::Error::UnknownRun`] unless the run belongs to the thread. Feedback is deleted with its thread, and is
    /// not copied with a transcript.
    PutFeedback(RunFeedback),
    /// Deletes a person's feedback on a run. Missing feedback is not an error.
    RemoveFeedback {
        /// The thread.
        thread_id: ThreadId,
        /// The run.
        run_id: RunId,
        /// The person.
        user_id: String,
    },
    /// Stores a summary of medium-term memory and archives the messages that it covers, in one statement. It must
    /// precede the appends that announce the summary in the threads.
    ///
    /// Fails with [`crate::Error::Conflict`] if the number of active messages in the range differs from the planned
    /// number, if they belong to other threads than planned, if the context of one of these threads has changed
    /// ([`ThreadVersion`]), or if the id of the summary is in use. Fails with [`crate::Error::Busy`] if a run of one
    /// of the threads is active, and with [`crate::Error::InvalidRequest`] if the planned number is zero.
    SummarizeTurns(TurnSummarization),
    /// Removes summaries of medium-term memory. Their messages become active again, and the `turns_archived` events
    /// that announce them in the threads of these messages are superseded, so that the messages return to the
    /// contexts that they had left. Summaries whose messages left such a context later with a `context_from` are
    /// removed too, because that field states that no earlier message is in the context.
    ///
    /// A `turns_restored` event is appended to each thread whose context changes. Fails with [`crate::Error::Busy`]
    /// if such a thread has an active run. A missing summary is not an error. Messages that a rewind has superseded
    /// stay archived.
    RestoreTurns {
        /// The summaries.
        summary_ids: Vec<SummaryId>,
        /// Only summaries of this scope. A [`crate::ScopedStore`] sets its own. `None` means any.
        scope: Option<OwnerScope>,
    },
    /// Stores embeddings of messages of a thread, in place of earlier ones of the same messages.
    PutEmbeddings(MessageEmbeddings),
    /// Stores a fact that a model proposes for agent.md. A fact whose text an earlier fact of the same agent has, for the
    /// same project or for all projects, is left out, whatever was decided on it, unless a later fact has superseded it. Case and blanks do not matter. Fails with
    /// [`crate::Error::NotFound`] if the source thread does not exist, and with [`crate::Error::Conflict`] if it belongs
    /// to another agent.
    ///
    /// An undecided fact is deleted with its summary and with its source thread. A decided one loses its quote with the
    /// thread.
    ProposeFact(FactProposal),
    /// Changes the state of a fact. Fails with [`crate::Error::Conflict`] unless the fact has the expected state, so that
    /// the first decision wins, with [`crate::Error::NotFound`] if it does not exist, and with
    /// [`crate::Error::InvalidRequest`] if [`crate::FactState::can_become`] does not allow the change.
    DecideFact(FactDecision),
    /// Records a state of the notes in agent.md as the newest revision. Notes that equal those of the newest revision are
    /// not recorded again. The oldest revisions beyond [`crate::NOTES_REVISIONS_MAX`] are deleted.
    RecordNotesRevision(NotesRevisionRecord),
    /// Stores an item, or replaces it; its time of creation is kept. Fails with [`crate::Error::InvalidRequest`] if
    /// the namespace is empty, or has a label that is empty or contains a control character.
    PutItem(StoredItem),
    /// Deletes an item. A missing item is not an error.
    DeleteItem {
        /// The namespace.
        namespace: Vec<String>,
        /// The key within the namespace.
        key: String,
    },
    /// Inserts an API key. Inserting the same key again changes nothing. Fails with [`crate::Error::Conflict`] if
    /// another key has the id.
    PutApiKey(ApiKey),
    /// Revokes an API key. Revoking it again changes nothing. Fails with [`crate::Error::NotFound`] if it does not
    /// exist.
    RevokeApiKey {
        /// The id of the key.
        key_id: String,
        /// The time of the revocation.
        at: Timestamp,
    },
    /// Inserts an item into the outbox, or replaces the item with the same `(kind, key)`.
    PutOutboxItem(OutboxItem),
    /// Changes an outbox item; the time at which it was added is kept. Fails with [`crate::Error::Conflict`] unless
    /// the stored item equals `expected`, so that of two concurrent changes only one succeeds.
    UpdateOutboxItem {
        /// The item before the change.
        expected: OutboxItem,
        /// The new payload.
        payload: Value,
        /// The new number of attempts.
        attempts: u32,
    },
    /// Deletes an item from the outbox. A missing item is not an error.
    RemoveOutboxItem {
        /// The kind.
        kind: String,
        /// The key.
        key: String,
        /// Deletes the item only if it was added at this time, so that an item that has replaced it stays. `None`
        /// deletes any item with the key.
        created_at: Option<Timestamp>,
    },
    /// Stores the thread into which a session was imported, and the progress. Fails with [`crate::Error::Conflict`]
    /// unless the stored progress is the expected one, so that of two concurrent imports of the same session only one
    /// succeeds, and nothing is appended after events that the import does not know. It must precede the append of
    /// the imported events.
    PutImport {
        /// The import to store.
        source: ImportSource,
        /// The stored progress of the import into the same thread; `None` if nothing is stored under the key.
        expected: Option<ImportProgress>,
    },
}

/// Changes of a thread. Fields that are `None` or empty leave it unchanged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ThreadPatch {
    /// The new name.
    pub name: Option<String>,
    /// The new status.
    pub status: Option<ThreadStatus>,
    /// Metadata keys to set. A `null` value is stored as `null`.
    pub metadata: Map<String, Value>,
    /// Metadata keys to remove, before the others are set.
    pub remove_metadata: Vec<String>,
    /// The new time of the last activity. `None` keeps it, for example for a rename.
    pub updated_at: Option<Timestamp>,
    /// The new project.
    pub project: Option<String>,
}

/// Changes of a run. Fields that are `None` leave it unchanged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunPatch {
    /// The new status. A terminal status also ends the lease.
    pub status: Option<RunStatus>,
    /// The reason why the run failed.
    pub failure: Option<RunFailure>,
    /// The end of the renewed lease.
    pub lease_until: Option<Timestamp>,
    /// Token usage to add.
    pub add_usage: Option<Usage>,
    /// The time of the change.
    pub at: Option<Timestamp>,
}

/// A process that works on the journal and drives runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replica {
    /// The name of the process in leases.
    pub owner: String,
    /// The machine on which it runs.
    pub machine: String,
    /// The time until which it is considered alive.
    pub alive_until: Timestamp,
}

/// A claim of unowned runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunClaim {
    /// The runs.
    pub run_ids: Vec<RunId>,
    /// The process that claims them.
    pub owner: String,
    /// The current time. Leases that ended before it are expired.
    pub now: Timestamp,
    /// The end of the new leases of running runs.
    pub lease_until: Timestamp,
    /// Processes that are known to be dead, even if their leases have not expired.
    pub dead_owners: Vec<String>,
}

/// Changes of a handoff. Fields that are `None` leave it unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HandoffPatch {
    /// The new iteration.
    pub iteration: Option<u32>,
    /// The run that drives the handoff.
    pub run_id: Option<RunId>,
    /// The hash of the accepted package.
    pub accepted_sha256: Option<String>,
    /// The reason for the status.
    pub note: Option<String>,
}

/// Binary data of a thread that is too large for an event or not text, such as an image or the output of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// The thread.
    pub thread_id: ThreadId,
    /// The SHA-256 of the data as 64 lower-case hex digits. It identifies the artifact within the thread.
    pub sha256: String,
    /// The media type, such as `image/png`.
    pub media_type: String,
    /// The data, at most [`crate::ARTIFACT_BYTES_MAX`] bytes.
    pub bytes: Vec<u8>,
    /// The time at which it was first stored in the thread.
    pub created_at: Timestamp,
}

impl Artifact {
    /// Returns an artifact of this data, and computes its hash.
    pub fn new(
        thread_id: ThreadId,
        media_type: impl Into<String>,
        bytes: Vec<u8>,
        created_at: Timestamp,
    ) -> Self {
        let sha256 = protocol::sha256_hex(&bytes);
        Self { thread_id, sha256, media_type: media_type.into(), bytes, created_at }
    }
}

/// A summarization: a summary, and the messages that it covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnSummarization {
    /// The summary. It covers the agent's active messages with indexes from `turn_range_start` to `turn_range_end`.
    pub summary: MediumTermSummary,
    /// Restricts the range to messages of this thread; `None` means all threads.
    pub thread_id: Option<ThreadId>,
    /// The planned number of messages.
    pub turns: u64,
    /// All threads of these messages, in the versions that were read. None of them may have an active run.
    pub thread_versions: Vec<ThreadVersion>,
}

/// The version of a thread when a summarization was planned. Further messages do not invalidate it. A rewind, a
/// compaction, an undone compaction, and archived or restored messages do, because the plan depends on the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadVersion {
    /// The thread.
    pub thread_id: ThreadId,
    /// The last seq of the thread, read before anything else of the thread. After a commit based on the same plan,
    /// the last seq of that commit.
    pub last_seq: Seq,
}

/// A message to an external system, to be delivered at least once.
#[derive(Debug, Clone, PartialEq)]
pub struct OutboxItem {
    /// The kind, such as `mirror_summary`.
    pub kind: String,
    /// The key within the kind, such as the id of a handoff.
    pub key: String,
    /// The content to deliver.
    pub payload: Value,
    /// Number of attempts so far.
    pub attempts: u32,
    /// The time at which the item was added.
    pub created_at: Timestamp,
}

/// An imported session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportSource {
    /// Identifies the session across files: its format and session id, or a digest of its beginning.
    pub source_key: String,
    /// The thread that contains the imported messages.
    pub thread_id: ThreadId,
    /// Number of imported entries.
    pub entries: u64,
    /// A chained digest of these entries.
    pub chain: String,
    /// The time of the last import.
    pub updated_at: Timestamp,
}

/// The progress of an import, with the position of its thread at that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportProgress {
    /// Number of imported entries.
    pub entries: u64,
    /// The last seq of the thread, including events that were not imported.
    pub last_seq: Seq,
}
