//! Several processes on one journal: heartbeats, claiming the runs of exited processes, and the check that
//! sharing the journal is safe. The scheduler decides how a claimed run continues.

use futures::future::BoxFuture;
use std::time::Duration;

use journal::{Replica, RunClaim, StoreScope, Transaction, UnclaimedRunsQuery, Write};
use protocol::{Run, RunId, RunStatus};

use crate::RunService;
use crate::home::machine;
use crate::{HomeError, Result};

impl<'a> RunService<'a> {
    /// Starts the heartbeat, which shows other processes that this one drives runs. It continues until
    /// [`Self::stop_heartbeat`] is called or the agent is dropped.
    ///
    /// # Errors
    /// Fails if the first heartbeat cannot be stored.
    pub fn start_heartbeat(self) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.agent.leases.start_heartbeat())
    }

    /// Releases the queued runs of this process, so that any other process can claim and start them.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn release_queued_runs(self) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.agent.leases.release_queued_runs())
    }

    /// Stops the heartbeat and records that this process no longer drives runs.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn stop_heartbeat(self) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.agent.leases.stop_heartbeat())
    }

    /// Returns the interval of the heartbeat, a third of a lease. Other processes notice a missing heartbeat
    /// after at most a few intervals.
    pub fn heartbeat_interval(self) -> Duration {
        self.agent.config.serve.lease_duration() / 3
    }

    /// Returns runs that no live process drives or will start: at most `limit` active ones and at most
    /// `limit` queued ones.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn unclaimed_runs(self, limit: usize) -> BoxFuture<'a, Result<Vec<Run>>> {
        journal::box_future(async move {
            let query = UnclaimedRunsQuery {
                now: self.agent.leases.lease().await?.now(),
                dead_owners: self.agent.leases.exited_processes(),
                limit,
            };
            Ok(self.agent.journal.unclaimed_runs(query).await?)
        })
    }

    /// Claims those of the given runs that no live process owns, and returns them as they were before. If
    /// several processes claim the same run, exactly one gets it.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn claim_runs(self, run_ids: Vec<RunId>) -> BoxFuture<'a, Result<Vec<Run>>> {
        journal::box_future(async move {
            if run_ids.is_empty() {
                return Ok(Vec::new());
            }
            let (lease, dead_owners) =
                (self.agent.leases.lease().await?, self.agent.leases.exited_processes());
            let (owner, now, lease_until) = (lease.owner().to_owned(), lease.now(), lease.lease_end());
            let claim = Write::ClaimRuns(RunClaim { run_ids, owner, now, lease_until, dead_owners });
            let committed =
                self.agent.journal.commit(Transaction { fence: None, writes: vec![claim] }).await?;
            Ok(committed.claimed_runs)
        })
    }

    /// Returns whether no process drives the run any more: its owner has exited, or its lease has expired. A
    /// queued run has no lease; it is orphaned if the process that queued it has exited.
    pub fn is_orphaned(self, run: &Run) -> bool {
        let has_lease = run.status == RunStatus::Pending
            || run.lease_until.is_some_and(|end| end >= self.agent.leases.now());
        !has_lease || self.agent.leases.has_owner_exited(run)
    }

    /// Returns whether this process drives the run or has it queued.
    pub fn is_own_run(self, run: &Run) -> bool {
        run.lease_owner.as_deref().is_some_and(|owner| self.agent.leases.is_this_process(owner))
    }

    /// Returns whether no other process drives runs of this journal.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn is_only_process(self) -> BoxFuture<'a, Result<bool>> {
        Box::pin(self.agent.leases.is_only_process())
    }

    /// Checks that no process of another machine has the journal open. A journal on a server passes, because
    /// it may be shared.
    ///
    /// # Errors
    /// [`HomeError::SharedBetweenMachines`] if a server on another machine sends heartbeats.
    pub(crate) async fn check_not_shared(self) -> Result<()> {
        if self.agent.journal.store_scope() == StoreScope::AnyHost {
            return Ok(());
        }
        let path = self.agent.database_file();
        let (this_machine, now) = (machine::machine_id(), self.agent.leases.now());
        let is_foreign = |replica: &Replica| replica.alive_until >= now && replica.machine != this_machine;
        if self.agent.journal.replicas().await?.iter().any(is_foreign) {
            let reason = "a server on another machine has it open".to_owned();
            return Err(HomeError::SharedBetweenMachines { path, reason }.into());
        }
        Ok(())
    }
}
