//! Several processes on one journal: saying that this one lives, taking what those that are gone have left, and whether it is
//! safe to be one of them. What is done with a run that was taken is not decided here.

use std::time::Duration;

use journal::{Claim, Reach, Replica, Transaction, Unclaimed, Write};
use protocol::{Run, RunId, RunStatus};

use crate::agent::services::RunService;
use crate::home::machine;
use crate::{HomeError, Result};

impl RunService<'_> {
    /// Says to other processes that this one lives and looks after runs, now and for as long as the agent lives.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn announce(self) -> Result<()> {
        self.agent.leases.announce().await
    }

    /// Gives up the runs that wait for this process, so that any other begins them.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn release_queued(self) -> Result<()> {
        self.agent.leases.release().await
    }

    /// Says that this process looks after no runs any more.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn farewell(self) -> Result<()> {
        self.agent.leases.farewell().await
    }

    /// Returns how often this process says that it lives: others find out that it does not within a few times that.
    pub fn heartbeat(self) -> Duration {
        self.agent.config.serve.lease() / 3
    }

    /// Returns runs that nobody works on or is going to begin, at most so many that worked and so many that waited.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn unclaimed(self, limit: usize) -> Result<Vec<Run>> {
        let query =
            Unclaimed { now: self.agent.leases.lease().await?.now(), gone: self.agent.leases.left(), limit };
        Ok(self.agent.journal.unclaimed(query).await?)
    }

    /// Takes those of the runs that nobody works on still, and returns them as they were: of several processes that want one,
    /// one gets it.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn claim(self, run_ids: Vec<RunId>) -> Result<Vec<Run>> {
        if run_ids.is_empty() {
            return Ok(Vec::new());
        }
        let (lease, gone) = (self.agent.leases.lease().await?, self.agent.leases.left());
        let (owner, now, lease_until) = (lease.owner().to_owned(), lease.now(), lease.until());
        let claim = Write::ClaimRuns(Claim { run_ids, owner, now, lease_until, gone });
        let committed = self.agent.journal.commit(Transaction { fence: None, writes: vec![claim] }).await?;
        Ok(committed.claimed)
    }

    /// Returns whether nobody works on the run any more: its process is certainly gone, or its lease has ended. Of a run
    /// that waits, whether the process is certainly gone that is to begin it.
    pub fn is_cut_off(self, run: &Run) -> bool {
        let has_lease = run.status == RunStatus::Pending
            || run.lease_until.is_some_and(|end| end >= self.agent.leases.now());
        !has_lease || self.agent.leases.is_cut_off(run)
    }

    /// Returns whether this process works on the run, or is to begin it.
    pub fn is_ours(self, run: &Run) -> bool {
        run.lease_owner.as_deref().is_some_and(|owner| self.agent.leases.is_own(owner))
    }

    /// Returns whether no other process looks after runs of this journal.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn is_alone(self) -> Result<bool> {
        self.agent.leases.is_alone().await
    }

    /// Checks that no process of another machine has the journal open, where it is a file.
    ///
    /// # Errors
    /// [`HomeError::Shared`] when one does.
    pub(crate) async fn check_sharing(self) -> Result<()> {
        if self.agent.journal.reach() == Reach::Network {
            return Ok(());
        }
        let path = self.agent.database_file();
        let (here, now) = (machine::id(), self.agent.leases.now());
        let is_foreign = |replica: &Replica| replica.alive_until >= now && replica.machine != here;
        if self.agent.journal.replicas().await?.iter().any(is_foreign) {
            let reason = "a server on another machine has it open".to_owned();
            return Err(HomeError::Shared { path, reason }.into());
        }
        Ok(())
    }
}
