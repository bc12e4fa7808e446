//! Which processes live. Each holds a lock on a file of its own; whoever can take that lock knows that the process
//! is gone and may take over its runs at once, without waiting for their leases to end.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::home::create_private;
use crate::{Error, Result};

/// The name of this process in leases, valid as long as this value lives.
#[derive(Debug)]
pub(crate) struct Owner {
    name: String,
    path: PathBuf,
    // Held for its lock, which the system drops with the process.
    _lock: File,
}

impl Owner {
    /// Takes a name in `folder`.
    pub(crate) fn claim(folder: &Path) -> Result<Self> {
        create_private(folder)?;
        let name = Uuid::now_v7().simple().to_string();
        let path = folder.join(&name);
        let failed = |error: std::io::Error| Error::Home { path: path.clone(), reason: error.to_string() };
        let lock = OpenOptions::new().create_new(true).write(true).open(&path).map_err(failed)?;
        lock.lock().map_err(failed)?;
        Ok(Self { name, path, _lock: lock })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // A file that stays behind is harmless: its lock is free, so its owner counts as gone.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Returns whether the process of that name is certainly gone.
pub(crate) fn is_gone(folder: &Path, owner: &str) -> bool {
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
        let name = owner.name().to_owned();
        assert!(!is_gone(folder.path(), &name));
        drop(owner);
        assert!(is_gone(folder.path(), &name));
        assert!(!is_gone(folder.path(), "../segue.db"), "a name that is no name proves nothing");
    }
}
