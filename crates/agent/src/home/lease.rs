//! Which processes live. Each has a name in leases, and says of itself, as long as it looks after runs, that it lives. On one
//! machine it also holds a lock on a file of its own; whoever can take that lock knows that the process is gone and may take
//! over its runs at once, without waiting for their leases to end.

use std::collections::HashSet;
use std::fs::{DirEntry, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use journal::{Reach, Replica, Store, Transaction, Write};
use protocol::Run;
use runtime::Lease;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use super::machine;
use crate::home::create_private;
use crate::{Error, Result};

/// How long a process may live on without having said so, in leases: what it let wait is not taken from it sooner.
const ALIVE_LEASES: u32 = 1;

/// Processes of this home that are known to be gone by the locks they left, at most: of those before, the leases have ended.
const LEFT_MAX: usize = 256;

/// How long the lock of a process that is gone is kept: as long as a lease can be.
const LEFT_FOR: Duration = Duration::from_secs(3_600);

/// The leases of the processes that share a journal, this one among them.
pub(crate) struct Leases {
    folder: PathBuf,
    store: Arc<dyn Store>,
    length: Duration,
    owner: OnceLock<Owner>,
    announced: tokio::sync::OnceCell<DropGuard>,
}

impl Leases {
    /// Returns the leases of processes that keep their locks in `folder`, each of that length. Nothing is written before this
    /// process needs a name.
    pub(crate) fn new(folder: PathBuf, store: Arc<dyn Store>, length: Duration) -> Self {
        let (owner, announced) = (OnceLock::new(), tokio::sync::OnceCell::new());
        Self { folder, store, length, owner, announced }
    }

    /// Returns how this process holds runs.
    pub(crate) fn lease(&self) -> Result<&Lease> {
        if let Some(owner) = self.owner.get() {
            return Ok(&owner.lease);
        }
        let claimed = Owner::claim(&self.folder, (self.length, self.store.reach()))?;
        Ok(&self.owner.get_or_init(|| claimed).lease)
    }

    /// Returns the name of this process, taking one the first time.
    pub(crate) fn name(&self) -> Result<&str> {
        Ok(self.lease()?.owner())
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
                let lease = self.lease()?.clone();
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
        if let Some(owner) = self.owner.get() {
            owner.touch();
        }
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

    /// Returns whether the process of that name is certainly gone, as far as this machine knows.
    pub(crate) fn is_gone(&self, owner: &str) -> bool {
        match trace(&self.folder, owner) {
            Trace::Left => true,
            // Where all have this folder, it is one that was cleaned up; elsewhere it may never have been here.
            Trace::None => self.store.reach() == Reach::Machine,
            Trace::Held => false,
        }
    }

    /// Returns the processes of this home that are certainly gone, the youngest of them where there are many: they left their
    /// locks here, as those of another machine did not.
    pub(crate) fn left(&self) -> Vec<String> {
        left(&self.folder)
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

    /// Returns whether the process of that name is gone, or can do nothing any more: on one machine its lock tells, on several
    /// that it is none of the `living`.
    pub(crate) fn has_gone(&self, owner: &str, living: &HashSet<String>) -> bool {
        self.is_gone(owner) || self.store.reach() == Reach::Network && !living.contains(owner)
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
    /// [`journal::Error::Busy`] when its process may live.
    pub(crate) fn ended(&self, run: &Run) -> Result<Timestamp> {
        let now = self.now();
        let Some(until) = run.lease_until.filter(|until| *until >= now) else { return Ok(now) };
        let owner = run.lease_owner.as_deref().unwrap_or_default();
        if owner == self.name()? || !self.is_gone(owner) {
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

/// The name of this process in leases, valid as long as this value lives.
#[derive(Debug)]
struct Owner {
    lease: Lease,
    path: PathBuf,
    reach: Reach,
    // Held for its lock, which the system drops with the process.
    lock: File,
}

impl Owner {
    /// Takes a name in `folder`. It is like no other on any machine.
    fn claim(folder: &Path, (length, reach): (Duration, Reach)) -> Result<Self> {
        create_private(folder)?;
        clear(folder);
        let name = Uuid::now_v7().simple().to_string();
        let path = folder.join(&name);
        let failed = |error: std::io::Error| Error::Home { path: path.clone(), reason: error.to_string() };
        let lock = OpenOptions::new().create_new(true).write(true).open(&path).map_err(failed)?;
        lock.lock().map_err(failed)?;
        Ok(Self { lease: Lease::new(name, length), path, reach, lock })
    }

    /// Shows by the time of its lock that it lives.
    fn touch(&self) {
        // Without it the lock is taken for older than it is, and what it tells is known by the end of leases.
        let _ = self.lock.set_modified(SystemTime::now());
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        match self.reach {
            // A file that stays behind is harmless: its lock is free, so its owner counts as gone.
            Reach::Machine => drop(std::fs::remove_file(&self.path)),
            // Without the file nobody could tell that it is gone and not on another machine, and what it was in the middle of
            // would wait for the end of its lease.
            Reach::Network => self.touch(),
        }
    }
}

/// What there is of a process in this home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trace {
    /// It holds its lock, or nobody can tell.
    Held,
    /// Its lock, which nobody holds any more.
    Left,
    /// Nothing.
    None,
}

/// Returns what there is of the process of that name.
fn trace(folder: &Path, owner: &str) -> Trace {
    if owner.is_empty() || !owner.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Trace::Held;
    }
    match OpenOptions::new().write(true).open(folder.join(owner)) {
        Ok(file) if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) => Trace::Held,
        Ok(_) => Trace::Left,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Trace::None,
        Err(_) => Trace::Held,
    }
}

/// Removes locks that were left so long ago that no lease of their processes can last.
fn clear(folder: &Path) {
    let is_old = |file: &DirEntry| {
        let modified = file.metadata().and_then(|facts| facts.modified());
        modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > LEFT_FOR))
    };
    for file in std::fs::read_dir(folder).into_iter().flatten().flatten().filter(is_old) {
        if file.file_name().to_str().is_some_and(|name| trace(folder, name) == Trace::Left) {
            // Whoever else clears may have been faster.
            let _ = std::fs::remove_file(file.path());
        }
    }
}

/// Returns the names of the processes that left their locks in that folder. A folder that cannot be read tells of nobody.
fn left(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = files.filter_map(|file| file.file_name().into_string().ok()).collect();
    // Names begin with the time at which they were taken.
    names.sort_unstable_by(|one, other| other.cmp(one));
    names.into_iter().filter(|name| trace(folder, name) == Trace::Left).take(LEFT_MAX).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn claimed(folder: &Path, reach: Reach) -> Owner {
        Owner::claim(folder, (Duration::from_secs(30), reach)).unwrap()
    }

    #[test]
    fn j2_a_process_that_ended_is_known_to_be_gone() {
        let folder = tempfile::tempdir().unwrap();
        let owner = claimed(folder.path(), Reach::Machine);
        let name = owner.lease.owner().to_owned();
        assert_eq!(trace(folder.path(), &name), Trace::Held);
        drop(owner);
        assert_ne!(trace(folder.path(), &name), Trace::Held);
        assert_eq!(trace(folder.path(), "../segue.db"), Trace::Held, "a name that is no name proves nothing");
    }

    #[test]
    fn j2_of_a_home_those_are_gone_that_left_their_locks_there() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(left(&folder.path().join("nothing")), Vec::<String>::new());
        let living = claimed(folder.path(), Reach::Network);
        let killed = Uuid::now_v7().simple().to_string();
        for name in [killed.as_str(), "notes.txt"] {
            File::create_new(folder.path().join(name)).unwrap();
        }
        assert_eq!(left(folder.path()), [killed.as_str()]);
        let ended = living.lease.owner().to_owned();
        drop(living);
        assert_eq!(left(folder.path()).iter().collect::<BTreeSet<_>>(), BTreeSet::from([&killed, &ended]));
    }

    #[test]
    fn a_lock_that_was_left_is_kept_as_long_as_a_lease_can_be() {
        let folder = tempfile::tempdir().unwrap();
        let (living, just_now) =
            (claimed(folder.path(), Reach::Network), claimed(folder.path(), Reach::Network));
        let (lives, just_ended) = (living.lease.owner().to_owned(), just_now.lease.owner().to_owned());
        let long_ago = Uuid::now_v7().simple().to_string();
        let file = File::create_new(folder.path().join(&long_ago)).unwrap();
        for lock in [&file, &living.lock, &just_now.lock] {
            lock.set_modified(SystemTime::now() - LEFT_FOR * 2).unwrap();
        }
        drop((file, just_now));
        let next = claimed(folder.path(), Reach::Network);
        assert_eq!(
            [lives, just_ended, long_ago].map(|name| trace(folder.path(), &name)),
            [Trace::Held, Trace::Left, Trace::None]
        );
        drop((living, next));
    }
}
