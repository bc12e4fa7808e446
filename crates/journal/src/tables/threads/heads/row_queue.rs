//! The queue of rows whose preconditions are checked when they are stored. A row that depends on pending rows of the same
//! run or thread is queued after those are stored.

use super::pending_rows::{IdBytes, PendingCheckpoint, PendingRequest, PendingRun, PendingRunChange};
use super::{NewestCheckpoint, PreconditionChecks, ThreadHead, ThreadHeadCache};
use crate::Result;
use crate::engines::sql::SqlConnection;

/// Queues rows of a transaction that defers the checks of preconditions.
#[derive(Clone, Copy)]
pub(crate) struct RowQueue<'a> {
    /// The connection.
    db: &'a postgres::Connection,
    /// The pending rows, and the heads with the changes that they make.
    cache: &'a ThreadHeadCache,
}

impl<'a> RowQueue<'a> {
    /// Returns the queue of a transaction, or `None` if it checks preconditions immediately.
    pub(crate) fn of(db: &SqlConnection<'a>) -> Option<Self> {
        match db {
            SqlConnection::Sqlite(_) => None,
            SqlConnection::Postgres(db, cache) => {
                (cache.checks == PreconditionChecks::Deferred).then_some(Self { db, cache })
            }
        }
    }

    /// Queues a run that starts at once.
    pub(crate) fn insert_run(self, run: PendingRun) -> Result<()> {
        let has_conflict = self.cache.pending.borrow().has_run(&run.run_id);
        if has_conflict {
            self.cache.flush(self.db)?;
        }
        self.cache.pending.borrow_mut().add_run(run);
        Ok(())
    }

    /// Queues a change of a running run.
    pub(crate) fn change_run(self, run_id: IdBytes, change: &PendingRunChange) -> Result<()> {
        let has_conflict = self.cache.pending.borrow().has_final_run(&run_id);
        if has_conflict {
            self.cache.flush(self.db)?;
        }
        self.cache.pending.borrow_mut().change_run(run_id, change);
        Ok(())
    }

    /// Queues the check that an owner holds the lease of a run.
    pub(crate) fn expect_owner(self, run_id: IdBytes, owner: &str) -> Result<()> {
        let has_other =
            self.cache.pending.borrow().has_run(&run_id) || self.cache.pending.borrow().has_fence(&run_id);
        if has_other {
            self.cache.flush(self.db)?;
        }
        self.cache.pending.borrow_mut().add_fence(run_id, owner);
        Ok(())
    }

    /// Queues the last seq of a run's events in a thread.
    pub(crate) fn record_event(self, run_id: IdBytes, thread_key: i64, seq: i64) -> Result<()> {
        let has_conflict = self.cache.pending.borrow().has_events_elsewhere(&run_id, thread_key);
        if has_conflict {
            self.cache.flush(self.db)?;
        }
        self.cache.pending.borrow_mut().record_event(run_id, thread_key, seq);
        Ok(())
    }

    /// Queues a checkpoint and updates the head of its thread.
    pub(crate) fn put_checkpoint(
        self,
        head: ThreadHead,
        row: PendingCheckpoint,
        id: protocol::CheckpointId,
    ) -> Result<()> {
        let saves_pending =
            row.saves_previous_at.is_some() && self.cache.pending.borrow().has_checkpoint(row.thread_key);
        if saves_pending {
            self.cache.flush(self.db)?;
        }
        let newest_checkpoint = NewestCheckpoint::Present { checkpoint_id: id, number: row.number };
        self.cache.insert_head(ThreadHead { newest_checkpoint, ..head });
        self.cache.pending.borrow_mut().add_checkpoint(row);
        Ok(())
    }

    /// Queues the request of a run. Returns `false` if this transaction did not queue the run in the thread.
    pub(crate) fn put_request(self, run_id: IdBytes, thread_key: i64, request: PendingRequest) -> bool {
        let mut pending = self.cache.pending.borrow_mut();
        let is_of_thread = pending.is_run_of(&run_id, thread_key);
        if is_of_thread {
            pending.add_request(run_id, request);
        }
        is_of_thread
    }

    /// Queues the first prompt of a thread.
    pub(crate) fn set_first_prompt(self, thread_key: i64, prompt: &str) {
        self.cache.pending.borrow_mut().set_first_prompt(thread_key, prompt);
    }

    /// Queues the changed head of a thread, with a status.
    pub(crate) fn set_status(self, head: ThreadHead, status: Option<&'static str>) {
        self.cache.update_head(head, status);
    }
}
