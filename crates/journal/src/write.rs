//! What can be written: each kind of write, and what it carries. How a store performs it, and what can be asked, is not here.

use jiff::Timestamp;
use protocol::{
    ApiKey, Checkpoint, CheckpointId, Decisions, Handoff, HandoffId, HandoffStatus, Interrupt, InterruptId,
    Item, MediumTermSummary, NewEvent, Proposal, Run, RunFailure, RunFeedback, RunId, RunRequest, RunStatus,
    Scope, Seq, SummaryId, Thread, ThreadId, ThreadStatus, Usage,
};
use serde_json::{Map, Value};

/// One write.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "writes are short-lived and moved once")]
pub enum Write {
    /// Creates a thread; an existing one with this id stays as it is. Fails with [`crate::Error::Differs`] when the id is, or
    /// once was, that of a thread of another owner: whose a thread is never changes. `first_prompt`, `message_count` and `last_seq`
    /// follow from its events and are not taken from here.
    CreateThread(Thread),
    /// Changes a thread's name, status or metadata. A thread for which a run waits stays busy, whatever status it is given.
    UpdateThread {
        /// The thread.
        thread_id: ThreadId,
        /// The changes.
        patch: ThreadPatch,
    },
    /// Has a thread rest for which it was busy and nothing runs or waits any more: it is interrupted while a question waits,
    /// failed when the run of its newest checkpoint did, interrupted when that has a node to go on with, and otherwise idle.
    /// Any other thread stays as it is.
    SettleThread {
        /// The thread.
        thread_id: ThreadId,
    },
    /// Removes a thread with everything that belongs to it, runs that wait included; its seqs are never handed out again.
    /// Fails with [`crate::Error::Busy`] while a run is running. The handoff that seeded it stays with the parent, for audit.
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
    /// Stores a run that waits for its turn; a thread may have any number of them, and is busy until the last is gone. Nobody
    /// has its lease; its owner is the process that is to begin it. The same one again changes nothing; fails with [`crate::Error::Differs`] when another run has its id.
    QueueRun(Run),
    /// Admits a new run; fails with [`crate::Error::Busy`] when another run of the thread is running, even one whose lease
    /// has ended. The same run admitted by the same owner again changes nothing; fails with [`crate::Error::Fenced`] when
    /// another process has begun it, or it has ended, and with [`crate::Error::Differs`] when it waits
    /// ([`Self::BeginRun`]).
    AdmitRun(Run),
    /// Begins a run that waits, as [`Self::AdmitRun`] does a new one: when it was created stays. With the status of an end,
    /// it ends without ever having begun, whatever runs; there is no other way. Fails with [`crate::Error::NotFound`] when
    /// there is none: a run that was forgotten does not come back; and with [`crate::Error::Fenced`] when it waits for another
    /// process.
    BeginRun(Run),
    /// Keeps what a client asked a run for, in place of what was kept before. Fails with [`crate::Error::UnknownRun`] unless
    /// the run is on that thread, wherever in the transaction it is put there. It goes with the run.
    PutRunRequest {
        /// The run.
        run_id: RunId,
        /// Its thread.
        thread_id: ThreadId,
        /// What was asked.
        request: Box<RunRequest>,
    },
    /// Removes a run, with what was asked of it and what people think of it; its events stay. Fails with
    /// [`crate::Error::Busy`] while it is running, and with [`crate::Error::NotFound`] when there is none.
    ForgetRun {
        /// The run.
        run_id: RunId,
    },
    /// Changes a run. The first terminal status stays: another status or a renewed lease after it fails with
    /// [`crate::Error::Fenced`], and so does any change of a run that waits ([`Self::BeginRun`]).
    UpdateRun {
        /// The run.
        run_id: RunId,
        /// The changes.
        patch: RunPatch,
    },
    /// Takes over a running run whose lease has ended; fails with [`crate::Error::Fenced`] when it has not.
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
    /// Says that a process lives, and until when that is certain unless it says so again. One that is certain no longer at
    /// `now` is forgotten.
    Announce {
        /// The process.
        replica: Replica,
        /// The present.
        now: Timestamp,
    },
    /// Gives up the runs that wait for a process: any other may take them.
    ReleaseRuns {
        /// The process.
        owner: String,
    },
    /// Takes those of the runs that nobody works on ([`crate::Store::unclaimed`]); [`crate::Committed::claimed`] has them. Of
    /// several that want one, one gets it, and nobody waits for another.
    ClaimRuns(Claim),
    /// Stores a checkpoint. Its `head_seq` is set to the thread's last seq at this place in the transaction, the appends
    /// before it included, and it gets the next number along its branch ([`protocol::StepPoint`]). One of
    /// [`protocol::CheckpointSource::Rewind`] gets that of the point the thread goes on from: the one that a `thread_rewound`
    /// event before it in this transaction names (`checkpoint_id`), or else the newest visible one.
    PutCheckpoint(Checkpoint),
    /// Puts the thread back to where it stood when its newest run began, behind the rewind that takes what the run said out of
    /// sight: its points are gone, and what was asked where the thread stood waits again, whatever the run answered. A thread
    /// that stood nowhere has no checkpoint. Fails with [`crate::Error::Busy`] while a run is running.
    RestoreCheckpoint {
        /// The thread.
        thread_id: ThreadId,
        /// The run.
        run_id: RunId,
    },
    /// Stores a pending interrupt; one with the same id stays as it is. It belongs to the thread's last seq at this place in
    /// the transaction, the appends before it included: a rewind to before it withdraws it.
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
    /// Fails with [`crate::Error::AlreadyDecided`] unless the interrupt is pending: what follows was worked out from that.
    ExpectPending {
        /// The interrupt.
        interrupt_id: InterruptId,
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
        /// Only those of this scope; a [`crate::Scoped`] store sets its own. `None` means everybody's.
        scope: Option<Scope>,
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
    /// Stores a key; the same one again changes nothing. Fails with [`crate::Error::Differs`] when another one has its id.
    PutKey(ApiKey),
    /// Revokes a key; one that was revoked before stays as it is. Fails with [`crate::Error::NotFound`] when there is none.
    RevokeKey {
        /// The key.
        key_id: String,
        /// When.
        at: Timestamp,
    },
    /// Adds an item to the outbox; one with the same `(kind, key)` is replaced.
    Enqueue(OutboxItem),
    /// Changes an item of the outbox that is there; when it was added stays. Fails with [`crate::Error::Differs`] unless it is
    /// there as it was: of two that change it one does.
    ChangeQueued {
        /// The item as it was.
        was: OutboxItem,
        /// What is to be sent from now on.
        payload: Value,
        /// Attempts so far.
        attempts: u32,
    },
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

/// What the database code has to know of a write before or after it is performed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WriteEffects {
    /// The thread whose head is read for it.
    pub(crate) head_of: Option<ThreadId>,
    /// The thread about which other processes are notified.
    pub(crate) news_of: Option<ThreadId>,
    /// Whether it may change a thread otherwise than by moving its head, so that heads that were read are read again.
    pub(crate) changes_heads: bool,
    /// Whether a run ends, is given up or is taken over in a thread that the write does not name.
    pub(crate) releases_run: bool,
}

impl Write {
    /// Returns what the write does beside its own row. It is the one place to look at when a variant is added.
    pub(crate) fn effects(&self) -> WriteEffects {
        let none = WriteEffects::default();
        match self {
            Self::Append { thread_id, .. } => {
                WriteEffects { head_of: Some(*thread_id), news_of: Some(*thread_id), ..none }
            }
            Self::QueueRun(run) | Self::AdmitRun(run) | Self::BeginRun(run) => {
                WriteEffects { head_of: Some(run.thread_id), news_of: Some(run.thread_id), ..none }
            }
            Self::PutCheckpoint(point) => WriteEffects { head_of: Some(point.thread_id), ..none },
            Self::CreateThread(thread) => {
                WriteEffects { news_of: Some(thread.thread_id), changes_heads: true, ..none }
            }
            Self::UpdateThread { thread_id, patch } => {
                WriteEffects { news_of: Some(*thread_id), changes_heads: patch.updated_at.is_some(), ..none }
            }
            Self::DeleteThread { thread_id } | Self::Rewind { thread_id, .. } => {
                WriteEffects { news_of: Some(*thread_id), changes_heads: true, ..none }
            }
            Self::SettleThread { thread_id } | Self::RestoreCheckpoint { thread_id, .. } => {
                WriteEffects { news_of: Some(*thread_id), ..none }
            }
            Self::RaiseInterrupt(interrupt) => WriteEffects { news_of: Some(interrupt.thread_id), ..none },
            Self::CopyEvents { .. } | Self::TransferTurns(_) | Self::RestoreTurns { .. } => {
                WriteEffects { changes_heads: true, ..none }
            }
            // That a lease is renewed is no news.
            Self::UpdateRun { patch, .. } => {
                let is_over = |until: Timestamp| until <= Timestamp::now();
                WriteEffects {
                    releases_run: patch.status.is_some() || patch.lease_until.is_some_and(is_over),
                    ..none
                }
            }
            Self::ReleaseRuns { .. } | Self::ForgetRun { .. } | Self::ReclaimRun { .. } => {
                WriteEffects { releases_run: true, ..none }
            }
            Self::PutArtifact(_)
            | Self::ExpectCheckpoint { .. }
            | Self::ExpectContext(_)
            | Self::PutRunRequest { .. }
            | Self::Announce { .. }
            | Self::ClaimRuns(_)
            | Self::ResolveInterrupt { .. }
            | Self::ExpectPending { .. }
            | Self::CreateHandoff(_)
            | Self::MoveHandoff { .. }
            | Self::PutProposal(_)
            | Self::ForgetHandoff { .. }
            | Self::PutFeedback(_)
            | Self::RemoveFeedback { .. }
            | Self::PutItem(_)
            | Self::DeleteItem { .. }
            | Self::PutKey(_)
            | Self::RevokeKey { .. }
            | Self::Enqueue(_)
            | Self::ChangeQueued { .. }
            | Self::Dequeue { .. }
            | Self::PutImport { .. } => none,
        }
    }
}

/// Changes to a thread; fields that are `None` stay.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ThreadPatch {
    /// The new name.
    pub name: Option<String>,
    /// The new status.
    pub status: Option<ThreadStatus>,
    /// Metadata keys to set, to what is given here: a `null` is kept as one.
    pub metadata: Map<String, Value>,
    /// Metadata keys to remove; they go before the others are set.
    pub remove: Vec<String>,
    /// The new time of the last change; `None` keeps it (a rename is not an activity).
    pub updated_at: Option<Timestamp>,
}

/// Changes to a run; fields that are `None` stay.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunPatch {
    /// The new status. A terminal status also ends the lease.
    pub status: Option<RunStatus>,
    /// Why it did not succeed.
    pub failure: Option<RunFailure>,
    /// When the renewed lease ends.
    pub lease_until: Option<Timestamp>,
    /// Tokens to add.
    pub add_usage: Option<Usage>,
    /// The time of the change.
    pub at: Option<Timestamp>,
}

/// A process that works on the journal and looks after runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replica {
    /// Its name in leases.
    pub owner: String,
    /// The machine it runs on.
    pub machine: String,
    /// Until when it certainly lives.
    pub alive_until: Timestamp,
}

/// Runs that somebody wants to go on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The runs.
    pub run_ids: Vec<RunId>,
    /// Who wants them.
    pub owner: String,
    /// The present: leases must have ended before it.
    pub now: Timestamp,
    /// When the leases of those that work end.
    pub lease_until: Timestamp,
    /// Processes that are known to be gone whatever their leases say.
    pub gone: Vec<String>,
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
        let sha256 = protocol::sha256_hex(&bytes);
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
