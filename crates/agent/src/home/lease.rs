//! Liveness of the processes that share a journal. Each process has a name, holds its runs by leases, and
//! sends a heartbeat as long as it drives runs.
//!
//! A process also holds a lock on a file of its own. A process on the same machine that finds this lock free
//! knows that its holder has exited, and may take over its runs at once, without waiting for their leases to
//! expire. The layout of the lock folder is the matter of `process_locks`.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use journal::{Replica, Store, StoreScope, Transaction, Write};
use protocol::Run;
use runtime::LeaseHolder;
use tokio::sync::OnceCell;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::machine;
use super::process_locks::{self, ProcessLiveness, ProcessLock};
use crate::{Error, Result};

/// How long a heartbeat is valid, in leases. A process's queued runs are not taken from it before that time
/// has passed.
const HEARTBEAT_TTL_LEASES: u32 = 1;

/// The leases of the processes that share a journal, seen from this process.
pub(crate) struct ProcessLeases {
    /// The folder with the lock files of the processes.
    lock_folder: PathBuf,
    /// The whole journal, not restricted to one owner.
    store: Arc<dyn Store>,
    /// The length of a lease.
    lease_duration: Duration,
    /// The name and lock of this process. They are created at their first use.
    identity: OnceCell<ProcessIdentity>,
    /// Stops the heartbeat task when it is dropped.
    heartbeat_guard: OnceCell<DropGuard>,
}

impl ProcessLeases {
    /// Creates the leases for processes that keep their lock files in `lock_folder`. Writes nothing until
    /// this process needs a name.
    pub(crate) fn new(lock_folder: PathBuf, store: Arc<dyn Store>, lease_duration: Duration) -> Self {
        let (identity, heartbeat_guard) = (OnceCell::new(), OnceCell::new());
        Self { lock_folder, store, lease_duration, identity, heartbeat_guard }
    }

    /// Returns the lease holder of this process. The first call takes a name and synchronises the clock with
    /// the journal's, so that the first lease is as long as later ones. It also removes stale lock files.
    ///
    /// # Errors
    /// Fails if the lock folder cannot be written, or if the journal fails.
    pub(crate) async fn lease(&self) -> Result<&LeaseHolder> {
        let identity = self
            .identity
            .get_or_try_init(async || {
                let lock = ProcessLock::acquire(&self.lock_folder)?;
                let lease = LeaseHolder::new(lock.name().to_owned(), self.lease_duration);
                lease.synchronize_clock(self.store.current_time().await?);
                if let Err(error) = self.remove_stale_locks().await {
                    tracing::debug!(%error, "failed to remove the lock files of exited processes");
                }
                Ok::<_, Error>(ProcessIdentity { lease, _lock: lock })
            })
            .await?;
        Ok(&identity.lease)
    }

    /// Returns the name of this process. The first call takes one.
    ///
    /// # Errors
    /// Fails as [`Self::lease`] does.
    pub(crate) async fn process_name(&self) -> Result<&str> {
        Ok(self.lease().await?.owner())
    }

    /// Returns whether `owner` is the name of this process.
    pub(crate) fn is_this_process(&self, owner: &str) -> bool {
        self.identity.get().is_some_and(|identity| identity.lease.owner() == owner)
    }

    /// Returns the current time by the clock of the journal, once this process has a name; by the local clock
    /// before that.
    pub(crate) fn now(&self) -> Timestamp {
        self.identity.get().map_or_else(Timestamp::now, |identity| identity.lease.now())
    }

    /// Starts sending heartbeats, which show other processes that this one drives runs and starts its queued
    /// ones. They continue until [`Self::stop_heartbeat`] is called or the agent is dropped. A second call
    /// changes nothing.
    ///
    /// # Errors
    /// Fails if the first heartbeat cannot be stored.
    pub(crate) async fn start_heartbeat(self: &Arc<Self>) -> Result<()> {
        self.heartbeat_guard
            .get_or_try_init(async || {
                let lease = self.lease().await?.clone();
                self.send_heartbeat(&lease).await?;
                let stop = CancellationToken::new();
                tokio::spawn(send_heartbeats_until(Arc::downgrade(self), lease, stop.clone()));
                Ok::<_, Error>(stop.drop_guard())
            })
            .await?;
        Ok(())
    }

    /// Releases the queued runs of this process, so that any other process can claim them at once.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub(crate) async fn release_queued_runs(&self) -> Result<()> {
        let Some(identity) = self.identity.get() else { return Ok(()) };
        let writes = vec![Write::ReleaseRuns { owner: identity.lease.owner().to_owned() }];
        self.store.commit(Transaction { fence: None, writes }).await?;
        Ok(())
    }

    /// Stops the heartbeats and records that this process no longer lives.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub(crate) async fn stop_heartbeat(&self) -> Result<()> {
        let (Some(identity), Some(stop)) = (self.identity.get(), self.heartbeat_guard.get()) else {
            return Ok(());
        };
        // The task stops first, because a later heartbeat would mark this process as alive again.
        stop.token().cancel();
        self.write_replica(&identity.lease, Timestamp::UNIX_EPOCH).await
    }

    /// Stores one heartbeat, after synchronising the clock with the journal's.
    async fn send_heartbeat(&self, lease: &LeaseHolder) -> Result<()> {
        lease.synchronize_clock(self.store.current_time().await?);
        let alive = self.lease_duration * HEARTBEAT_TTL_LEASES;
        self.write_replica(lease, lease.now().saturating_add(alive).unwrap_or(Timestamp::MAX)).await
    }

    /// Stores the entry of this process in the table of processes.
    async fn write_replica(&self, lease: &LeaseHolder, alive_until: Timestamp) -> Result<()> {
        let replica = Replica {
            owner: lease.owner().to_owned(),
            machine: machine::machine_id().to_owned(),
            alive_until,
        };
        let writes = vec![Write::RecordHeartbeat { replica, now: lease.now() }];
        self.store.commit(Transaction { fence: None, writes }).await?;
        Ok(())
    }

    /// Returns whether the owner of the run's lease is known to have exited. A run without an owner counts as
    /// such.
    pub(crate) fn has_owner_exited(&self, run: &Run) -> bool {
        run.lease_owner.as_deref().is_none_or(|owner| self.has_exited(owner))
    }

    /// Returns whether the process of that name is known to have exited: its lock file on this machine is
    /// free. A process without a lock file here may live on another machine.
    pub(crate) fn has_exited(&self, owner: &str) -> bool {
        process_locks::process_liveness(&self.lock_folder, owner) == ProcessLiveness::Exited
    }

    /// Returns the names of processes of this machine that are known to have exited, newest first and limited
    /// in number. Processes of other machines leave no lock files here.
    pub(crate) fn exited_processes(&self) -> Vec<String> {
        process_locks::exited_processes(&self.lock_folder)
    }

    /// Removes the lock files of exited processes that no run and no process entry names, so that later calls
    /// need not inspect them again.
    async fn remove_stale_locks(&self) -> Result<()> {
        // The locks are listed before the journal is read. An exited process is never named by a new row, so
        // a name that the journal no longer contains cannot appear again.
        let removable = process_locks::removable_locks(&self.lock_folder);
        if removable.is_empty() {
            return Ok(());
        }
        let mut runs = self.store.active_runs(None).await?;
        runs.extend(self.store.queued_runs(None).await?);
        let replicas = self.store.replicas().await?.into_iter().map(|replica| replica.owner);
        let named: HashSet<String> =
            runs.into_iter().filter_map(|run| run.lease_owner).chain(replicas).collect();
        process_locks::remove_locks(
            &self.lock_folder,
            removable.into_iter().filter(|name| !named.contains(name)),
        );
        Ok(())
    }

    /// Returns the names of the processes whose heartbeats are still valid.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub(crate) async fn live_processes(&self) -> Result<HashSet<String>> {
        let now = self.now();
        let replicas = self.store.replicas().await?.into_iter();
        Ok(replicas.filter(|replica| replica.alive_until >= now).map(|replica| replica.owner).collect())
    }

    /// Returns whether the process of that name has exited or can no longer act. Where its lock file proves
    /// neither, it counts as dead if it is not among `live_processes`.
    pub(crate) fn is_presumed_dead(&self, owner: &str, live_processes: &HashSet<String>) -> bool {
        match process_locks::process_liveness(&self.lock_folder, owner) {
            ProcessLiveness::Exited => true,
            ProcessLiveness::LockHeld if self.store.store_scope() == StoreScope::ThisHost => false,
            ProcessLiveness::LockHeld | ProcessLiveness::Unknown => !live_processes.contains(owner),
        }
    }

    /// Returns whether every other process that sent heartbeats has exited or let its heartbeat expire.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub(crate) async fn is_only_process(&self) -> Result<bool> {
        let (own_name, now) = (self.identity.get().map(|identity| identity.lease.owner()), self.now());
        let is_alive = |replica: &Replica| {
            Some(replica.owner.as_str()) != own_name
                && replica.alive_until >= now
                && !self.has_exited(&replica.owner)
        };
        Ok(!self.store.replicas().await?.iter().any(is_alive))
    }

    /// Returns a time at which the run's lease has expired: the current time, or just after the lease's end
    /// if its owner is known to have exited.
    ///
    /// # Errors
    /// [`journal::Error::Busy`] if the owner may be alive; otherwise fails as [`Self::lease`] does.
    pub(crate) async fn lease_end_time(&self, run: &Run) -> Result<Timestamp> {
        let now = self.lease().await?.now();
        let Some(until) = run.lease_until.filter(|until| *until >= now) else { return Ok(now) };
        let owner = run.lease_owner.as_deref().unwrap_or_default();
        if self.is_this_process(owner) || !self.has_exited(owner) {
            return Err(journal::Error::Busy { thread_id: run.thread_id, run_id: run.run_id }.into());
        }
        Ok(until + jiff::SignedDuration::from_millis(1))
    }
}

impl std::fmt::Debug for ProcessLeases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessLeases").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// Sends heartbeats at the renewal interval until `stop` is cancelled or the leases are dropped.
///
/// A failed heartbeat is logged and not fatal: the next one may succeed before other processes act on the
/// gap.
async fn send_heartbeats_until(leases: Weak<ProcessLeases>, lease: LeaseHolder, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(lease.renewal_interval()) => {}
        }
        let Some(leases) = leases.upgrade() else { return };
        let sent = tokio::select! {
            () = stop.cancelled() => return,
            sent = leases.send_heartbeat(&lease) => sent,
        };
        if let Err(error) = sent {
            tracing::warn!(%error, "failed to send a heartbeat");
        }
    }
}

/// The name under which this process holds leases, with the lock that proves its life.
#[derive(Debug)]
struct ProcessIdentity {
    /// The holder of this process's leases, with its clock.
    lease: LeaseHolder,
    /// The locked file. The operating system releases the lock when the process exits.
    _lock: ProcessLock,
}
