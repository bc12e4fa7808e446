//! What a transaction takes hold of before it looks at anything: every id its writes name. The tables check and then write, as
//! if nobody else wrote; so nobody else does, as far as these ids go. Another thread that a write
//! comes upon on the way, because it is told of something, it takes hold of there (`tables::threads::hold`).

use protocol::{ApiKey, Checkpoint, CheckpointSource, Item, ThreadId};
use uuid::Uuid;

use crate::engines::sql::Connection;
use crate::{OutboxItem, Result, Transaction, Transfer, Write};

/// Held by whoever changes the search index in more than one place.
pub(super) const INDEX: i64 = 0x5365_6775_0002;
/// Held by whoever gives a thread an artifact, or takes its last one away: this and the numbers behind it, one for those
/// whose hashes begin alike. There are few of them: a server has room for some thousands of locks.
const ARTIFACTS: i64 = 0x5365_6775_1000;
const ARTIFACT_LOCKS: u8 = 64;

/// Takes [`INDEX`] until the transaction ends, unless somebody has it; returns whether it did.
pub(super) fn try_index(connection: &Connection) -> Result<bool> {
    connection
        .prepare("SELECT CAST(pg_try_advisory_xact_lock($1) AS INT)")?
        .query_row([INDEX], |row| Ok(row.get::<_, i64>(0)? != 0))
}

/// Returns the locks of a transaction, in the one order in which all take theirs.
pub(super) fn of(transaction: &Transaction) -> Vec<i64> {
    let mut locks = Locks(Vec::with_capacity(transaction.writes.len() + 1));
    if let Some(fence) = &transaction.fence {
        locks.id(fence.run_id.uuid());
    }
    for write in &transaction.writes {
        locks.write(write);
    }
    let Locks(mut locks) = locks;
    locks.sort_unstable();
    locks.dedup();
    locks
}

/// Returns the lock of the artifacts whose hashes begin with a byte.
pub(crate) fn of_artifacts(first: u8) -> i64 {
    ARTIFACTS + i64::from(first % ARTIFACT_LOCKS)
}

/// Returns the lock of a thread.
pub(crate) const fn of_thread(thread_id: ThreadId) -> i64 {
    of_id(thread_id.uuid())
}

/// The random half of an id is as good as a hash of it; that two share one costs a wait.
const fn of_id(id: Uuid) -> i64 {
    id.as_u64_pair().1.cast_signed()
}

struct Locks(Vec<i64>);

impl Locks {
    fn id(&mut self, id: Uuid) {
        self.0.push(of_id(id));
    }

    fn thread(&mut self, thread_id: ThreadId) {
        self.id(thread_id.uuid());
    }

    /// FNV-1a of what the key is of and the key.
    fn key(&mut self, of: &str, key: &str) {
        let bytes = of.bytes().chain([0]).chain(key.bytes());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        self.0.push(hash.cast_signed());
    }

    fn checkpoint(&mut self, point: &Checkpoint) {
        self.thread(point.thread_id);
        if point.source == CheckpointSource::Loop {
            self.id(point.run_id.uuid());
        }
    }

    fn artifact(&mut self, sha256: &str) {
        // What is no hash is refused later.
        let first = sha256.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        self.0.push(of_artifacts(first.unwrap_or_default()));
    }

    fn transfer(&mut self, transfer: &Transfer) {
        transfer.threads.iter().for_each(|planned| self.thread(planned.thread_id));
        transfer.thread_id.into_iter().for_each(|thread_id| self.thread(thread_id));
        self.key("agent", transfer.summary.agent_id.as_str());
    }

    fn write(&mut self, write: &Write) {
        match write {
            Write::CreateThread(thread) => self.thread(thread.thread_id),
            Write::UpdateThread { thread_id, .. }
            | Write::SettleThread { thread_id }
            | Write::Append { thread_id, .. }
            | Write::Rewind { thread_id, .. }
            | Write::ExpectCheckpoint { thread_id, .. }
            | Write::RemoveFeedback { thread_id, .. } => self.thread(*thread_id),
            Write::DeleteThread { thread_id } => {
                self.thread(*thread_id);
                self.0.push(INDEX);
            }
            Write::CopyEvents { from, into, .. } => {
                self.thread(*from);
                self.thread(*into);
            }
            Write::PutArtifact(artifact) => {
                self.thread(artifact.thread_id);
                self.artifact(&artifact.sha256);
            }
            Write::ExpectContext(planned) => self.thread(planned.thread_id),
            Write::QueueRun(run) | Write::AdmitRun(run) | Write::BeginRun(run) => {
                self.thread(run.thread_id);
                self.id(run.run_id.uuid());
            }
            Write::PutRunRequest { run_id, thread_id, .. }
            | Write::RestoreCheckpoint { thread_id, run_id } => {
                self.thread(*thread_id);
                self.id(run_id.uuid());
            }
            Write::ForgetRun { run_id }
            | Write::UpdateRun { run_id, .. }
            | Write::ReclaimRun { run_id, .. } => self.id(run_id.uuid()),
            Write::PutCheckpoint(point) => self.checkpoint(point),
            Write::RaiseInterrupt(interrupt) => {
                self.thread(interrupt.thread_id);
                self.key("interrupt", &interrupt.interrupt_id.to_string());
            }
            Write::ResolveInterrupt { interrupt_id, .. } | Write::ExpectPending { interrupt_id } => {
                self.key("interrupt", &interrupt_id.to_string());
            }
            Write::CreateHandoff(handoff) => {
                self.thread(handoff.parent_thread_id);
                self.id(handoff.handoff_id.uuid());
            }
            Write::MoveHandoff { handoff_id, .. } | Write::ForgetHandoff { handoff_id } => {
                self.id(handoff_id.uuid());
            }
            Write::PutProposal(proposal) => self.id(proposal.handoff_id.uuid()),
            Write::PutFeedback(feedback) => self.thread(feedback.thread_id),
            Write::TransferTurns(transfer) => self.transfer(transfer),
            Write::RestoreTurns { summary_ids, .. } => {
                summary_ids.iter().for_each(|id| self.id(id.uuid()));
            }
            Write::PutItem(Item { key, .. }) | Write::DeleteItem { key, .. } => self.key("item", key),
            Write::PutKey(ApiKey { key_id, .. }) | Write::RevokeKey { key_id, .. } => self.key("key", key_id),
            Write::Enqueue(OutboxItem { kind, key, .. })
            | Write::ChangeQueued { was: OutboxItem { kind, key, .. }, .. }
            | Write::Dequeue { kind, key, .. } => self.key(kind, key),
            // What somebody else holds is passed over, not waited for.
            Write::Announce { .. } | Write::ReleaseRuns { .. } | Write::ClaimRuns(_) => {}
            Write::PutImport { source, .. } => {
                self.thread(source.thread_id);
                self.key("import", &source.source_key);
            }
        }
    }
}
