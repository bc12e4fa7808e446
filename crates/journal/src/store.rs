//! The storage trait: what can be written together, and what can be asked. It names no database.

use async_trait::async_trait;
use jiff::Timestamp;
use protocol::{
    AssistantId, Checkpoint, CheckpointId, Decisions, Event, Handoff, HandoffId, HandoffStatus, Interrupt,
    InterruptId, Item, LoggedTurn, MediumTermSummary, NewEvent, Proposal, Run, RunFeedback, RunId, RunStatus,
    Seq, StepPoint, SummaryId, Thread, ThreadId, ThreadStatus, Usage,
};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::{
    CheckpointRef, EventQuery, FoundItem, HandoffFilter, Health, HealthDepth, Hit, ItemQuery, MemoryCounts,
    NamespaceQuery, RankQuery, Ranked, Result, SearchQuery, StoredSummary, SummaryQuery, ThreadFilter,
    TurnQuery,
};

/// Writes that take effect together or not at all.
#[derive(Debug, Clone, Default)]
pub struct Transaction {
    /// When set, nothing is written unless this run is active and its lease belongs to this owner.
    pub fence: Option<Fence>,
    /// The writes, performed in order.
    pub writes: Vec<Write>,
}

/// The proof that a process may still write for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The run.
    pub run_id: RunId,
    /// The name under which the run was admitted or reclaimed.
    pub owner: String,
}

/// One write.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "writes are short-lived and moved once")]
pub enum Write {
    /// Creates a thread; an existing one with this id stays as it is. `first_prompt`, `message_count` and `last_seq`
    /// follow from its events and are not taken from here.
    CreateThread(Thread),
    /// Changes a thread's name, status or metadata.
    UpdateThread {
        /// The thread.
        thread_id: ThreadId,
        /// The changes.
        patch: ThreadPatch,
    },
    /// Removes a thread with everything that belongs to it; its seqs are never handed out again. Fails with
    /// [`crate::Error::Busy`] while a run is active. The handoff that seeded it stays with the parent, for audit.
    /// Summaries that stand for any of its turns are removed as by [`Self::RestoreTurns`]. Of those that stood for turns of
    /// other threads too, removed now or before, the events that told these of them are emptied, and copies of such
    /// events: they hold words about this one. What had left a context by an emptied copy is in it again, which a
    /// `turns_restored` event says.
    DeleteThread {
        /// The thread.
        thread_id: ThreadId,
    },
    /// Appends events to one thread, and moves the time of its last change forward to theirs, but for what happens in the
    /// background: `turns_archived`, `turns_restored` and `model_called`. One whose key was stored
    /// before is a repetition, even of an event that is superseded. JSON that escapes half
    /// of a surrogate pair is refused as [`crate::Error::Invalid`].
    Append {
        /// The thread; it must exist.
        thread_id: ThreadId,
        /// The events, in order.
        events: Vec<NewEvent>,
    },
    /// Takes the thread back: every event after `keep_seq`, up to the thread's last seq at this moment, is superseded.
    /// It stays in the log as it is, and reads leave it out unless they ask for it ([`crate::Superseded::Shown`]); what is
    /// appended afterwards is not superseded. Its turns in `turn_log` are archived; summaries that stand for any of them,
    /// or of which the thread is told there, are removed as by [`Self::RestoreTurns`]. Pending interrupts that were raised
    /// after `keep_seq` are withdrawn, and a thread that waited or had failed is idle. A `keep_seq` at or after the
    /// last seq changes nothing; one inside a part that is superseded already keeps what is visible before it. The
    /// checkpoint stays: the caller stores the one the thread goes on from. Fails with [`crate::Error::Busy`]
    /// while a run is active.
    Rewind {
        /// The thread.
        thread_id: ThreadId,
        /// The last seq that stays; 0 keeps nothing.
        keep_seq: Seq,
        /// When.
        at: Timestamp,
    },
    /// Copies a thread's transcript into a blank thread: its visible events of the categories message, context and
    /// middleware, at the seqs they have, so that every reference to a seq stays true. The next seq of `into` follows
    /// the source's last one, or `until`. What happened to the runs of the source is not copied, nor are event keys.
    ///
    /// A search finds what was copied once, here or there. The copies are not turns of `turn_log` again: memory has them
    /// from the source. Artifacts of the source can be read in the copy, and stay when the source is deleted. Fails with
    /// [`crate::Error::Invalid`] unless `into` never had an event.
    CopyEvents {
        /// The source.
        from: ThreadId,
        /// The last seq to copy; `None` copies all.
        until: Option<Seq>,
        /// The thread that takes them; it must exist.
        into: ThreadId,
    },
    /// Keeps bytes in a thread under their hash. The same hash in the same thread again changes nothing; fails with
    /// [`crate::Error::Differs`] when other bytes are stored under it, and with [`crate::Error::Invalid`] for more
    /// than [`crate::ARTIFACT_BYTES_MAX`] or a name that is no SHA-256. It goes with its thread.
    PutArtifact(Artifact),
    /// Fails with [`crate::Error::Differs`] unless the thread's newest checkpoint is this one: what follows was worked
    /// out from it.
    ExpectCheckpoint {
        /// The thread.
        thread_id: ThreadId,
        /// The checkpoint that was read; `None` when there was none.
        checkpoint_id: Option<CheckpointId>,
    },
    /// Fails with [`crate::Error::Differs`] when the thread's context changed since then, by more than what was said. It
    /// comes before the writes that change it.
    ExpectContext(Planned),
    /// Admits a run; fails with [`crate::Error::Busy`] when another run of the thread is active, even one whose lease
    /// has ended. The same run admitted by the same owner again changes nothing.
    AdmitRun(Run),
    /// Changes a run. The first terminal status stays: another status or a renewed lease after it fails with
    /// [`crate::Error::Fenced`].
    UpdateRun {
        /// The run.
        run_id: RunId,
        /// The changes.
        patch: RunPatch,
    },
    /// Takes over an active run whose lease has ended; fails with [`crate::Error::Fenced`] when it has not.
    ReclaimRun {
        /// The run.
        run_id: RunId,
        /// The new owner.
        owner: String,
        /// The present; the lease must have ended before it.
        now: Timestamp,
        /// When the new lease ends.
        lease_until: Timestamp,
    },
    /// Stores a checkpoint. Its `head_seq` is set to the thread's last seq, appends of this transaction included.
    PutCheckpoint(Checkpoint),
    /// Stores a pending interrupt; one with the same id stays as it is. It belongs to the thread's last seq, appends of
    /// this transaction included: a rewind to before it withdraws it.
    RaiseInterrupt(Interrupt),
    /// Answers an interrupt; fails with [`crate::Error::AlreadyDecided`] unless it is pending. Withdrawing one that no
    /// longer waits changes nothing.
    ResolveInterrupt {
        /// The interrupt.
        interrupt_id: InterruptId,
        /// The answer; `None` withdraws the question.
        decisions: Option<Decisions>,
        /// When.
        at: Timestamp,
    },
    /// Stores a handoff; the same one again changes nothing. Fails with [`crate::Error::HandoffPending`] when its parent has a pending one.
    CreateHandoff(Handoff),
    /// Moves a handoff; fails with [`crate::Error::HandoffMoved`] unless it stands at `from`.
    MoveHandoff {
        /// The handoff.
        handoff_id: HandoffId,
        /// Where it must stand.
        from: HandoffStatus,
        /// Where it goes.
        to: HandoffStatus,
        /// What else changes.
        patch: HandoffPatch,
        /// When.
        at: Timestamp,
    },
    /// Stores a proposal; fails with [`crate::Error::Differs`] when another text has the same iteration.
    PutProposal(Proposal),
    /// Removes a handoff that never had a proposal: a person stopped its first draft. Nothing when it is not there;
    /// fails with [`crate::Error::Differs`] when it has a proposal.
    ForgetHandoff {
        /// The handoff.
        handoff_id: HandoffId,
    },
    /// Stores what a person thinks of a run, in place of what they thought before; when they first said so stays. Fails
    /// with [`crate::Error::UnknownRun`] unless the run was admitted on that thread. It goes with its thread, and is not
    /// copied with a transcript.
    PutFeedback(RunFeedback),
    /// Removes what a person thinks of a run; nothing when there is nothing.
    RemoveFeedback {
        /// The thread.
        thread_id: ThreadId,
        /// The run.
        run_id: RunId,
        /// The person.
        user_id: String,
    },
    /// Stores a summary of medium-term memory and archives the turns it stands for, in one statement. Fails with
    /// [`crate::Error::Differs`] when not exactly as many turns are left to archive as it was made from, when they are of
    /// other threads than it says, when the context of one of these changed since ([`Planned`]), and when a summary has its
    /// id; with [`crate::Error::Busy`] while one of their threads has an active run; and with [`crate::Error::Invalid`] for
    /// no turns. It comes before the appends that tell the threads of it.
    TransferTurns(Transfer),
    /// Removes summaries of medium-term memory: all their turns are active again, and the `turns_archived` events that
    /// tell of them in the threads of those turns are superseded, so that the turns are in the contexts again that they
    /// left. What left one of these contexts later, with a `context_from`, follows: it says that nothing before it is in
    /// the context. Each thread whose context is another one by this has a `turns_restored` event appended; fails with
    /// [`crate::Error::Busy`] while such a thread has an active run. A summary that is not there is as good as removed.
    /// Turns that a rewind took back stay archived.
    RestoreTurns {
        /// The summaries.
        summary_ids: Vec<SummaryId>,
    },
    /// Keeps a value under a name; what was kept there is replaced, and when the name was first used stays. Fails with
    /// [`crate::Error::Invalid`] when the namespace is empty, or a label of it is or has a control character.
    PutItem(Item),
    /// Removes what is kept under a name; nothing when there is nothing.
    DeleteItem {
        /// Where.
        namespace: Vec<String>,
        /// The name.
        key: String,
    },
    /// Adds an item to the outbox; one with the same `(kind, key)` is replaced.
    Enqueue(OutboxItem),
    /// Removes an item from the outbox; nothing when it is not there.
    Dequeue {
        /// The kind.
        kind: String,
        /// The key.
        key: String,
        /// Which one: the item that was added at this time, so that one that has taken its place meanwhile stays. `None`
        /// means whatever is there.
        created_at: Option<Timestamp>,
    },
    /// Remembers which thread a session was imported into, and how far. Fails with [`crate::Error::Differs`] unless
    /// what is stored is as expected: of two processes that import the same session one wins, and nothing is added
    /// behind what happened in the thread meanwhile. It comes before the append whose place it tells.
    PutImport {
        /// What to remember.
        source: ImportSource,
        /// How far the same thread was before; `None` when nothing was stored under the key.
        expected: Option<ImportedSoFar>,
    },
}

/// Changes to a thread; fields that are `None` stay.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ThreadPatch {
    /// The new name.
    pub name: Option<String>,
    /// The new status.
    pub status: Option<ThreadStatus>,
    /// Metadata keys to set; a `null` removes the key.
    pub metadata: Map<String, Value>,
    /// The new time of the last change; `None` keeps it (a rename is not an activity).
    pub updated_at: Option<Timestamp>,
}

/// Changes to a run; fields that are `None` stay.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunPatch {
    /// The new status. A terminal status also ends the lease.
    pub status: Option<RunStatus>,
    /// Why it ended.
    pub error: Option<String>,
    /// When the renewed lease ends.
    pub lease_until: Option<Timestamp>,
    /// Tokens to add.
    pub add_usage: Option<Usage>,
    /// The time of the change.
    pub at: Option<Timestamp>,
}

/// Changes to a handoff; fields that are `None` stay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HandoffPatch {
    /// The new iteration.
    pub iteration: Option<u32>,
    /// The run that carries it.
    pub run_id: Option<RunId>,
    /// The hash of what was accepted.
    pub accepted_sha256: Option<String>,
    /// Why.
    pub note: Option<String>,
}

/// Bytes that belong to a thread and are too large or too foreign for an event: an image, the output of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// The thread.
    pub thread_id: ThreadId,
    /// SHA-256 of the bytes in 64 lowercase hex digits: its name.
    pub sha256: String,
    /// The media type, such as `image/png`.
    pub media_type: String,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// When it was first stored in the thread.
    pub created_at: Timestamp,
}

impl Artifact {
    /// Returns the artifact of these bytes, named by their hash.
    pub fn new(
        thread_id: ThreadId,
        media_type: impl Into<String>,
        bytes: Vec<u8>,
        created_at: Timestamp,
    ) -> Self {
        let sha256 = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        Self { thread_id, sha256, media_type: media_type.into(), bytes, created_at }
    }
}

/// Turns that become a summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// The summary; the turns are those of its agent from its `turn_range_start` to its `turn_range_end` that are not
    /// archived.
    pub summary: MediumTermSummary,
    /// Only the turns of this thread; `None` means of all.
    pub thread_id: Option<ThreadId>,
    /// How many there are.
    pub turns: u64,
    /// The threads they are of, all of them: none may have an active run.
    pub threads: Vec<Planned>,
}

/// A thread as it was when the transfer of its turns was planned. What was said since changes nothing; a rewind, a
/// compaction, one that was taken back, and turns that left or came back do: what left the context was decided by what
/// it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// The thread.
    pub thread_id: ThreadId,
    /// Its last seq, read before anything else of the thread was. After a commit that followed from the same plan, the
    /// last one of that commit.
    pub last_seq: Seq,
}

/// Something to be sent to the outside, at least once.
#[derive(Debug, Clone, PartialEq)]
pub struct OutboxItem {
    /// The kind, such as `mirror_summary`.
    pub kind: String,
    /// The key within the kind, such as a handoff id.
    pub key: String,
    /// What is to be sent.
    pub payload: Value,
    /// Attempts so far.
    pub attempts: u32,
    /// When it was added.
    pub created_at: Timestamp,
}

/// A session that was imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportSource {
    /// Names the session across files: format and session id, or a digest of its beginning.
    pub source_key: String,
    /// The thread it went into.
    pub thread_id: ThreadId,
    /// Entries imported so far.
    pub entries: u64,
    /// Digest of those entries, as a chain.
    pub chain: String,
    /// When it was last imported.
    pub updated_at: Timestamp,
}

/// How far a session was imported, and how far its thread had come then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportedSoFar {
    /// Entries imported.
    pub entries: u64,
    /// The thread's last seq, events of its own included.
    pub last_seq: Seq,
}

/// What a transaction did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Committed {
    /// The seqs of each [`Write::Append`], in order; a repeated `event_key` gives the first row's seq.
    pub seqs: Vec<Vec<Seq>>,
    /// How many of the appended events were stored (the others were repetitions).
    pub stored: u64,
}

/// A journal's storage. One conformance suite holds for every implementation.
#[async_trait]
pub trait Store: Send + Sync {
    /// Performs the writes of `transaction` together and returns once they would survive a power cut.
    async fn commit(&self, transaction: Transaction) -> Result<Committed>;

    /// Returns the thread, or `None`.
    async fn thread(&self, thread_id: ThreadId) -> Result<Option<Thread>>;

    /// Returns a page of threads, without reading any message.
    async fn threads(&self, filter: ThreadFilter) -> Result<Vec<Thread>>;

    /// Returns up to ten ids of threads that begin with `prefix` (hyphens and case are ignored), sub-agents included.
    async fn threads_by_prefix(&self, prefix: &str) -> Result<Vec<ThreadId>>;

    /// Returns a page of events in ascending order: with `after` the first ones after it, otherwise the newest
    /// ones before `before` (or of all). Both bounds together are honoured. An unknown thread has no events.
    async fn events(&self, thread_id: ThreadId, query: EventQuery) -> Result<Vec<Event>>;

    /// Returns how many messages a rewind that keeps `seq` would take out of sight.
    async fn messages_after(&self, thread_id: ThreadId, seq: Seq) -> Result<u64>;

    /// Returns the seq of the event with that key in the thread, of whatever run and whether or not it is superseded:
    /// a key is never stored twice.
    async fn seq_of_key(&self, thread_id: ThreadId, event_key: &str) -> Result<Option<Seq>>;

    /// Returns what holds the query's words, best first; no superseded message. What forks copied is found once, and so are
    /// results of tools in the same words.
    async fn search(&self, query: SearchQuery) -> Result<Vec<Hit>>;

    /// Returns the messages that hold any of the query's words, best first and of equally good ones the later of a
    /// thread first; none that are superseded. Words are compared as [`Self::search`] does.
    async fn rank(&self, query: RankQuery) -> Result<Vec<Ranked>>;

    /// Returns the run, or `None`.
    async fn run(&self, run_id: RunId) -> Result<Option<Run>>;

    /// Returns up to ten ids of runs that begin with `prefix`; hyphens and case are ignored.
    async fn runs_by_prefix(&self, prefix: &str) -> Result<Vec<RunId>>;

    /// Returns the run that was admitted last on the thread, or `None`.
    async fn newest_run(&self, thread_id: ThreadId) -> Result<Option<RunId>>;

    /// Returns the runs that are active, of one thread or of all.
    async fn active_runs(&self, thread_id: Option<ThreadId>) -> Result<Vec<Run>>;

    /// Returns a page of the events of a run that was admitted on the thread, in ascending order from the first one
    /// after `after`: superseded ones too, and those that a compaction condensed. A run of another thread has none here.
    /// The rest of the thread is not read.
    async fn run_events(
        &self,
        thread_id: ThreadId,
        run_id: RunId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Event>>;

    /// Returns what a person thinks of those of the runs that they said something of.
    async fn feedback(
        &self,
        thread_id: ThreadId,
        run_ids: &[RunId],
        user_id: &str,
    ) -> Result<Vec<RunFeedback>>;

    /// Returns the thread's newest checkpoint, or `None`.
    async fn checkpoint(&self, thread_id: ThreadId) -> Result<Option<Checkpoint>>;

    /// Returns points of the thread's past, newest first: those before `before`, or the newest of all. Superseded ones
    /// are left out.
    async fn checkpoints(
        &self,
        thread_id: ThreadId,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> Result<Vec<StepPoint>>;

    /// Returns a point of the thread's past with the public channels of that time (keys that do not begin with `_`).
    /// `None` when there is no such point, or it is superseded.
    async fn checkpoint_at(
        &self,
        thread_id: ThreadId,
        point: CheckpointRef,
    ) -> Result<Option<(StepPoint, Map<String, Value>)>>;

    /// Returns the artifact of the thread whose name begins with `sha256`, at least 8 hex digits, or `None`. Fails with
    /// [`crate::Error::Invalid`] when several do.
    async fn artifact(&self, thread_id: ThreadId, sha256: &str) -> Result<Option<Artifact>>;

    /// Returns the newest checkpoints that have activities to perform, one a thread.
    async fn unfinished_checkpoints(&self) -> Result<Vec<Checkpoint>>;

    /// Returns the interrupt, or `None`.
    async fn interrupt(&self, interrupt_id: InterruptId) -> Result<Option<Interrupt>>;

    /// Returns the thread's pending interrupts, oldest first.
    async fn pending_interrupts(&self, thread_id: ThreadId) -> Result<Vec<Interrupt>>;

    /// Returns the handoff, or `None`.
    async fn handoff(&self, handoff_id: HandoffId) -> Result<Option<Handoff>>;

    /// Returns the handoffs that match, newest first.
    async fn handoffs(&self, filter: HandoffFilter) -> Result<Vec<Handoff>>;

    /// Returns the handoff's proposals in order of iteration.
    async fn proposals(&self, handoff_id: HandoffId) -> Result<Vec<Proposal>>;

    /// Returns the items of the outbox, oldest first.
    async fn outbox(&self, kind: &str) -> Result<Vec<OutboxItem>>;

    /// Returns a page of turns in ascending order of their indexes, archived ones too unless the query says otherwise.
    async fn turns(&self, query: TurnQuery) -> Result<Vec<LoggedTurn>>;

    /// Returns the summaries of an agent's old turns, newest first; of those stored at the same time the one with the
    /// higher id first. A limit of 0 gives none.
    async fn summaries(&self, query: SummaryQuery) -> Result<Vec<StoredSummary>>;

    /// Returns how much there is in each tier of an agent's memory.
    async fn memory_counts(&self, agent_id: &AssistantId) -> Result<MemoryCounts>;

    /// Returns what is kept under a name, or `None`.
    async fn item(&self, namespace: &[String], key: &str) -> Result<Option<Item>>;

    /// Returns a page of what is kept: with words the best matches first, otherwise what was put last.
    async fn items(&self, query: ItemQuery) -> Result<Vec<FoundItem>>;

    /// Returns namespaces in use, in order.
    async fn namespaces(&self, query: NamespaceQuery) -> Result<Vec<Vec<String>>>;

    /// Brings the search index up to date. A search does so itself; done in time, none has to wait for it.
    async fn index(&self) -> Result<()>;

    /// Returns where a session was imported, or `None`.
    async fn import_source(&self, source_key: &str) -> Result<Option<ImportSource>>;

    /// Returns counts and, at [`HealthDepth::Integrity`], what a check of every page found.
    async fn health(&self, depth: HealthDepth) -> Result<Health>;
}
