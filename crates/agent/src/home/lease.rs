//! Which processes live. Each has a name in leases, and says of itself, as long as it looks after runs, that it lives. It also
//! holds a lock on a file of its own; whoever finds that lock free on the same machine knows that the process is gone and may
//! take over its runs at once, without waiting for their leases to end. How the locks lie in their folder is not known here.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use journal::{Reach, Replica, Store, Transaction, Write};
use protocol::Run;
use runtime::Lease;
use tokio::sync::OnceCell;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::locks::{self, Held, Trace};
use super::machine;
use crate::{Error, Result};

/// How long a process may live on without having said so, in leases: what it let wait is not taken from it sooner.
const ALIVE_LEASES: u32 = 1;

/// The leases of the processes that share a journal, this one among them.
pub(crate) struct Leases {
    folder: PathBuf,
    store: Arc<dyn Store>,
    length: Duration,
    owner: OnceCell<Owner>,
    announced: OnceCell<DropGuard>,
}

impl Leases {
    /// Returns the leases of processes that keep their locks in `folder`, each of that length. Nothing is written before this
    /// process needs a name.
    pub(crate) fn new(folder: PathBuf, store: Arc<dyn Store>, length: Duration) -> Self {
        let (owner, announced) = (OnceCell::new(), OnceCell::new());
        Self { folder, store, length, owner, announced }
    }

    /// Returns how this process holds runs. The first time it takes a name and looks at the clock that all go by: the first
    /// lease is as long as the others are.
    ///
    /// # Errors
    /// When the folder cannot be written, or the journal fails.
    pub(crate) async fn lease(&self) -> Result<&Lease> {
        let owner = self
            .owner
            .get_or_try_init(async || {
                let held = Held::claim(&self.folder)?;
                let lease = Lease::new(held.name().to_owned(), self.length);
                lease.set_clock(self.store.clock().await?);
                if let Err(error) = self.tidy().await {
                    tracing::debug!(%error, "failed to remove the locks of processes that are gone");
                }
                Ok::<_, Error>(Owner { lease, _held: held })
            })
            .await?;
        Ok(&owner.lease)
    }

    /// Returns the name of this process, taking one the first time.
    ///
    /// # Errors
    /// As for [`Self::lease`].
    pub(crate) async fn name(&self) -> Result<&str> {
        Ok(self.lease().await?.owner())
    }

    /// Returns whether that is the name of this process.
    pub(crate) fn is_own(&self, owner: &str) -> bool {
        self.owner.get().is_some_and(|own| own.lease.owner() == owner)
    }

    /// Returns the present by the clock that all go by.
    pub(crate) fn now(&self) -> Timestamp {
        self.owner.get().map_or_else(Timestamp::now, |owner| owner.lease.now())
    }

    /// Says that this process lives, and goes on to say so until [`Self::farewell`]: it looks after runs that wait.
    ///
    /// # Errors
    /// When the journal fails the first time.
    pub(crate) async fn announce(self: &Arc<Self>) -> Result<()> {
        self.announced
            .get_or_try_init(async || {
                let lease = self.lease().await?.clone();
                self.say(&lease).await?;
                let over = CancellationToken::new();
                tokio::spawn(say_again(Arc::downgrade(self), lease, over.clone()));
                Ok::<_, Error>(over.drop_guard())
            })
            .await?;
        Ok(())
    }

    /// Gives up what waits for this process, so that any other takes it at once.
    ///
    /// # Errors
    /// When the journal fails.
    pub(crate) async fn release(&self) -> Result<()> {
        let Some(owner) = self.owner.get() else { return Ok(()) };
        let writes = vec![Write::ReleaseRuns { owner: owner.lease.owner().to_owned() }];
        self.store.commit(Transaction { fence: None, writes }).await?;
        Ok(())
    }

    /// Says that this process lives no longer.
    ///
    /// # Errors
    /// When the journal fails.
    pub(crate) async fn farewell(&self) -> Result<()> {
        let (Some(owner), Some(over)) = (self.owner.get(), self.announced.get()) else { return Ok(()) };
        // Whatever goes on to say that it lives is stopped first.
        over.token().cancel();
        self.put(&owner.lease, Timestamp::UNIX_EPOCH).await
    }

    async fn say(&self, lease: &Lease) -> Result<()> {
        lease.set_clock(self.store.clock().await?);
        let alive = self.length * ALIVE_LEASES;
        self.put(lease, lease.now().saturating_add(alive).unwrap_or(Timestamp::MAX)).await
    }

    async fn put(&self, lease: &Lease, alive_until: Timestamp) -> Result<()> {
        let replica =
            Replica { owner: lease.owner().to_owned(), machine: machine::id().to_owned(), alive_until };
        let writes = vec![Write::Announce { replica, now: lease.now() }];
        self.store.commit(Transaction { fence: None, writes }).await?;
        Ok(())
    }

    /// Returns whether the process that has the run's lease is certainly gone.
    pub(crate) fn is_cut_off(&self, run: &Run) -> bool {
        run.lease_owner.as_deref().is_none_or(|owner| self.is_gone(owner))
    }

    /// Returns whether the process of that name is certainly gone, as far as this machine knows: it left its lock. One that has
    /// none here may live in a place from which it cannot be seen.
    pub(crate) fn is_gone(&self, owner: &str) -> bool {
        locks::trace(&self.folder, owner) == Trace::Left
    }

    /// Returns the processes of this machine that are certainly gone, the youngest of them where there are many: they left
    /// their locks here, as those of another machine did not.
    pub(crate) fn left(&self) -> Vec<String> {
        locks::left(&self.folder)
    }

    /// Removes the locks of processes that are gone and that nothing names any more, so that they need not be looked at again.
    async fn tidy(&self) -> Result<()> {
        // What is gone names nothing anew: the journal is read after it was seen to be gone.
        let spent = locks::spent(&self.folder);
        if spent.is_empty() {
            return Ok(());
        }
        let mut runs = self.store.active_runs(None).await?;
        runs.extend(self.store.queued_runs(None).await?);
        let replicas = self.store.replicas().await?.into_iter().map(|replica| replica.owner);
        let named: HashSet<String> =
            runs.into_iter().filter_map(|run| run.lease_owner).chain(replicas).collect();
        locks::remove(&self.folder, spent.into_iter().filter(|name| !named.contains(name)));
        Ok(())
    }

    /// Returns the processes that certainly live, as far as they say so.
    ///
    /// # Errors
    /// When the journal fails.
    pub(crate) async fn living(&self) -> Result<HashSet<String>> {
        let now = self.now();
        let replicas = self.store.replicas().await?.into_iter();
        Ok(replicas.filter(|replica| replica.alive_until >= now).map(|replica| replica.owner).collect())
    }

    /// Returns whether the process of that name is gone, or can do nothing any more: where its lock tells nothing, because it is
    /// none of the `living`.
    pub(crate) fn has_gone(&self, owner: &str, living: &HashSet<String>) -> bool {
        match locks::trace(&self.folder, owner) {
            Trace::Left => true,
            Trace::Held if self.store.reach() == Reach::Machine => false,
            Trace::Held | Trace::Unknown => !living.contains(owner),
        }
    }

    /// Returns whether every other process that looks after runs is certainly gone.
    ///
    /// # Errors
    /// When the journal fails.
    pub(crate) async fn is_alone(&self) -> Result<bool> {
        let (own, now) = (self.owner.get().map(|owner| owner.lease.owner()), self.now());
        let lives = |replica: &Replica| {
            Some(replica.owner.as_str()) != own && replica.alive_until >= now && !self.is_gone(&replica.owner)
        };
        Ok(!self.store.replicas().await?.iter().any(lives))
    }

    /// Returns a time at which the run's lease has ended: the present, or just after the lease when its process is
    /// known to be gone.
    ///
    /// # Errors
    /// [`journal::Error::Busy`] when its process may live; those of [`Self::lease`].
    pub(crate) async fn ended(&self, run: &Run) -> Result<Timestamp> {
        let now = self.lease().await?.now();
        let Some(until) = run.lease_until.filter(|until| *until >= now) else { return Ok(now) };
        let owner = run.lease_owner.as_deref().unwrap_or_default();
        if self.is_own(owner) || !self.is_gone(owner) {
            return Err(journal::Error::Busy { thread_id: run.thread_id, run_id: run.run_id }.into());
        }
        Ok(until + jiff::SignedDuration::from_millis(1))
    }
}

impl std::fmt::Debug for Leases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leases").field("owner", &self.owner).finish_non_exhaustive()
    }
}

/// Says again and again that a process lives, until that is over or nobody is left whose process it is.
async fn say_again(leases: Weak<Leases>, lease: Lease, over: CancellationToken) {
    loop {
        tokio::select! {
            () = over.cancelled() => return,
            () = tokio::time::sleep(lease.renewal()) => {}
        }
        let Some(leases) = leases.upgrade() else { return };
        let said = tokio::select! {
            () = over.cancelled() => return,
            said = leases.say(&lease) => said,
        };
        if let Err(error) = said {
            tracing::warn!(%error, "failed to tell other processes that this one lives");
        }
    }
}

/// How this process holds runs, and what tells others that it lives.
#[derive(Debug)]
struct Owner {
    lease: Lease,
    _held: Held,
}
