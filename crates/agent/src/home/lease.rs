//! Which processes live. Each holds a lock on a file of its own; whoever can take that lock knows that the process
//! is gone and may take over its runs at once, without waiting for their leases to end.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use jiff::Timestamp;
use protocol::Run;
use uuid::Uuid;

use crate::home::create_private;
use crate::{Error, Result};

/// The leases of the processes that share a home folder, this one among them.
#[derive(Debug)]
pub(crate) struct Leases {
    folder: PathBuf,
    owner: OnceLock<Owner>,
}

impl Leases {
    /// Returns the leases kept in `folder`. Nothing is written before this process needs a name.
    pub(crate) const fn at(folder: PathBuf) -> Self {
        Self { folder, owner: OnceLock::new() }
    }

    /// Returns the name of this process, taking one the first time.
    pub(crate) fn name(&self) -> Result<&str> {
        if let Some(owner) = self.owner.get() {
            return Ok(&owner.name);
        }
        let claimed = Owner::claim(&self.folder)?;
        Ok(&self.owner.get_or_init(|| claimed).name)
    }

    /// Returns whether the process that has the run's lease is certainly gone.
    pub(crate) fn is_cut_off(&self, run: &Run) -> bool {
        run.lease_owner.as_deref().is_none_or(|owner| is_gone(&self.folder, owner))
    }

    /// Returns a time at which the run's lease has ended: the present, or just after the lease when its process is
    /// known to be gone.
    ///
    /// # Errors
    /// [`journal::Error::Busy`] when its process may live.
    pub(crate) fn ended(&self, run: &Run) -> Result<Timestamp> {
        let now = Timestamp::now();
        let Some(until) = run.lease_until.filter(|until| *until >= now) else { return Ok(now) };
        let owner = run.lease_owner.as_deref().unwrap_or_default();
        if owner == self.name()? || !is_gone(&self.folder, owner) {
            return Err(journal::Error::Busy { thread_id: run.thread_id, run_id: run.run_id }.into());
        }
        Ok(until + jiff::SignedDuration::from_millis(1))
    }
}

/// The name of this process in leases, valid as long as this value lives.
#[derive(Debug)]
struct Owner {
    name: String,
    path: PathBuf,
    // Held for its lock, which the system drops with the process.
    _lock: File,
}

impl Owner {
    /// Takes a name in `folder`.
    fn claim(folder: &Path) -> Result<Self> {
        create_private(folder)?;
        let name = Uuid::now_v7().simple().to_string();
        let path = folder.join(&name);
        let failed = |error: std::io::Error| Error::Home { path: path.clone(), reason: error.to_string() };
        let lock = OpenOptions::new().create_new(true).write(true).open(&path).map_err(failed)?;
        lock.lock().map_err(failed)?;
        Ok(Self { name, path, _lock: lock })
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // A file that stays behind is harmless: its lock is free, so its owner counts as gone.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Returns whether the process of that name is certainly gone.
fn is_gone(folder: &Path, owner: &str) -> bool {
    if owner.is_empty() || !owner.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return false;
    }
    match OpenOptions::new().write(true).open(folder.join(owner)) {
        Ok(file) => !matches!(file.try_lock(), Err(TryLockError::WouldBlock)),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn j2_a_process_that_ended_is_known_to_be_gone() {
        let folder = tempfile::tempdir().unwrap();
        let owner = Owner::claim(folder.path()).unwrap();
        let name = owner.name.clone();
        assert!(!is_gone(folder.path(), &name));
        drop(owner);
        assert!(is_gone(folder.path(), &name));
        assert!(!is_gone(folder.path(), "../segue.db"), "a name that is no name proves nothing");
    }
}
