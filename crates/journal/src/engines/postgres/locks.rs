//! Advisory locks of a transaction: one for every id that its writes name. The tables check and then write without
//! expecting concurrent writes, and these locks exclude concurrent writes to the same ids. Threads that a write finds
//! out about only later are locked at that point (`tables::threads::locks`).

use protocol::{ApiKey, Checkpoint, CheckpointSource, RunId, StoredItem, ThreadId};
use uuid::Uuid;

use crate::engines::sql::SqlConnection;
use crate::{Artifact, FactProposal, OutboxItem, Result, Transaction, TurnSummarization, Write};

/// Key of the lock of the process that updates the search index. No other write needs it: an update finds out itself which
/// of its threads were deleted meanwhile.
pub(super) const INDEX_LOCK: i64 = 0x5365_6775_0002;
/// Key of the lock for deleting the last threads of projects.
pub(crate) const PROJECT_LOCK: i64 = 0x5365_6775_0003;
/// First key of the locks for artifacts. A transaction that adds an artifact to a thread, or removes the last
/// reference to one, holds the lock of its hash: this key plus the first byte of the hash modulo [`ARTIFACT_LOCKS`].
const ARTIFACT_LOCK_BASE: i64 = 0x5365_6775_1000;
/// Number of artifact locks. They are few because a server's lock table holds some thousands of locks.
const ARTIFACT_LOCKS: u8 = 64;

/// Acquires [`INDEX_LOCK`] until the end of the transaction, and returns `false` if another process holds it.
pub(super) fn try_index_lock(connection: &SqlConnection) -> Result<bool> {
    connection
        .prepare("SELECT CAST(pg_try_advisory_xact_lock($1) AS INT)")?
        .query_row([INDEX_LOCK], |row| Ok(row.get::<_, i64>(0)? != 0))
}

/// Returns the lock keys of a transaction in ascending order, the order in which all transactions acquire them.
pub(super) fn transaction_locks(transaction: &Transaction) -> Vec<i64> {
    let mut set = AdvisoryLockSet(Vec::with_capacity(transaction.writes.len() + 1));
    if let Some(fence) = &transaction.fence {
        set.add_id(fence.run_id.uuid());
    }
    for write in &transaction.writes {
        set.add_write(write);
    }
    let AdvisoryLockSet(mut keys) = set;
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Returns the lock key for artifacts whose hash begins with the byte `first`.
pub(crate) fn artifact_lock(first: u8) -> i64 {
    ARTIFACT_LOCK_BASE + i64::from(first % ARTIFACT_LOCKS)
}

/// Returns the lock key of a thread.
pub(crate) const fn thread_lock(thread_id: ThreadId) -> i64 {
    id_lock(thread_id.uuid())
}

/// Returns the lock key of an id: its random half, which is as good as a hash. Two ids with the same key only wait
/// for each other.
const fn id_lock(id: Uuid) -> i64 {
    id.as_u64_pair().1.cast_signed()
}

/// The keys that a transaction locks.
struct AdvisoryLockSet(Vec<i64>);

impl AdvisoryLockSet {
    /// Adds the lock of an id.
    fn add_id(&mut self, id: Uuid) {
        self.0.push(id_lock(id));
    }

    /// Adds the lock of a thread.
    fn add_thread(&mut self, thread_id: ThreadId) {
        self.add_id(thread_id.uuid());
    }

    /// Adds the lock of a text key: the FNV-1a hash of the kind of the key, a zero byte and the key.
    fn add_key(&mut self, kind: &str, key: &str) {
        let bytes = kind.bytes().chain([0]).chain(key.bytes());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        self.0.push(hash.cast_signed());
    }

    /// Adds the locks of a checkpoint: its thread and, inside the loop, its run.
    fn add_checkpoint(&mut self, checkpoint: &Checkpoint) {
        self.add_thread(checkpoint.thread_id);
        if checkpoint.source == CheckpointSource::Loop {
            self.add_id(checkpoint.run_id.uuid());
        }
    }

    /// Adds the locks of an artifact: its thread and its bytes.
    fn add_artifact(&mut self, artifact: &Artifact) {
        self.add_thread(artifact.thread_id);
        // A text that is not a hash is refused when the write is applied.
        let first = artifact.sha256.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        self.0.push(artifact_lock(first.unwrap_or_default()));
    }

    /// Adds the locks of a summarization: the threads of its messages, its own thread and its agent.
    fn add_summarization(&mut self, summarization: &TurnSummarization) {
        summarization.thread_versions.iter().for_each(|version| self.add_thread(version.thread_id));
        summarization.thread_id.into_iter().for_each(|thread_id| self.add_thread(thread_id));
        self.add_key("agent", summarization.summary.agent_id.as_str());
    }

    /// Adds the locks of a run and of its thread.
    fn add_run(&mut self, thread_id: ThreadId, run_id: RunId) {
        self.add_thread(thread_id);
        self.add_id(run_id.uuid());
    }

    /// Adds the locks of a proposed fact: its agent, because texts of the agent are not repeated, and its source thread.
    fn add_fact(&mut self, fact: &FactProposal) {
        self.add_key("agent", fact.agent_id.as_str());
        self.add_thread(fact.source.thread_id);
    }

    /// Adds the locks of all ids that a write names.
    fn add_write(&mut self, write: &Write) {
        match write {
            Write::CreateThread(thread) => self.add_thread(thread.thread_id),
            Write::UpdateThread { thread_id, .. }
            | Write::SettleThread { thread_id }
            | Write::DeleteThread { thread_id }
            | Write::Append { thread_id, .. }
            | Write::Rewind { thread_id, .. }
            | Write::ExpectCheckpoint { thread_id, .. }
            | Write::ExpectNoMessage { thread_id }
            | Write::ExpectPins { thread_id, .. }
            | Write::RemoveFeedback { thread_id, .. } => self.add_thread(*thread_id),
            Write::CopyEvents { from, into, .. } => [from, into].iter().for_each(|id| self.add_thread(**id)),
            Write::PutArtifact(artifact) => self.add_artifact(artifact),
            Write::ExpectUnchangedContext(version) => self.add_thread(version.thread_id),
            Write::QueueRun(run) | Write::AdmitRun(run) | Write::BeginRun(run) => {
                self.add_run(run.thread_id, run.run_id);
            }
            Write::PutRunRequest { run_id, thread_id, .. }
            | Write::RestoreCheckpoint { thread_id, run_id } => self.add_run(*thread_id, *run_id),
            Write::DeleteRun { run_id }
            | Write::UpdateRun { run_id, .. }
            | Write::ReclaimRun { run_id, .. } => self.add_id(run_id.uuid()),
            Write::PutCheckpoint(checkpoint) => self.add_checkpoint(checkpoint),
            Write::RaiseInterrupt(interrupt) => {
                self.add_thread(interrupt.thread_id);
                self.add_key("interrupt", &interrupt.interrupt_id.to_string());
            }
            Write::ResolveInterrupt { interrupt_id, .. } | Write::ExpectPendingInterrupt { interrupt_id } => {
                self.add_key("interrupt", &interrupt_id.to_string());
            }
            Write::CreateHandoff(handoff) => {
                self.add_thread(handoff.parent_thread_id);
                self.add_id(handoff.handoff_id.uuid());
            }
            Write::TransitionHandoff { handoff_id, .. } | Write::DeleteHandoff { handoff_id } => {
                self.add_id(handoff_id.uuid());
            }
            Write::PutProposal(proposal) => self.add_id(proposal.handoff_id.uuid()),
            Write::PutEmbeddings(embeddings) => self.add_thread(embeddings.thread_id),
            Write::PutFeedback(feedback) => self.add_thread(feedback.thread_id),
            Write::SummarizeTurns(summarization) => self.add_summarization(summarization),
            Write::RestoreTurns { summary_ids: ids, .. } => ids.iter().for_each(|id| self.add_id(id.uuid())),
            Write::ProposeFact(fact) => self.add_fact(fact),
            Write::DecideFact(decision) => self.add_id(decision.fact_id.uuid()),
            Write::RecordNotesRevision(revision) => self.add_key("notes", revision.agent_id.as_str()),
            Write::PutItem(StoredItem { key, .. }) | Write::DeleteItem { key, .. } => {
                self.add_key("item", key)
            }
            Write::PutApiKey(ApiKey { key_id, .. }) | Write::RevokeApiKey { key_id, .. } => {
                self.add_key("key", key_id)
            }
            Write::PutOutboxItem(OutboxItem { kind, key, .. })
            | Write::UpdateOutboxItem { expected: OutboxItem { kind, key, .. }, .. }
            | Write::RemoveOutboxItem { kind, key, .. } => self.add_key(kind, key),
            // These writes skip rows that another process has locked, or wait for them and change nothing then.
            Write::RecordHeartbeat { .. }
            | Write::ResolveFolder { .. }
            | Write::ReleaseRuns { .. }
            | Write::ClaimRuns(_) => {}
            Write::PutImport { source, .. } => {
                self.add_thread(source.thread_id);
                self.add_key("import", &source.source_key);
            }
        }
    }
}
