//! The private folder of the commands in the sandbox: only its owner can open it, and it is removed with its process. If
//! the process was killed, the next one removes it.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The beginning of the names of private folders.
const NAME_PREFIX: &str = "segue-sandbox-";
/// Name of the file that the process holds locked while it uses the folder.
const LOCK_FILE: &str = "lock";
/// Name of the lock file before it is locked, so that no other process finds it unlocked.
const NEW_LOCK_FILE: &str = "lock.new";
/// Maximum number of entries of the folder for temporary files that are searched for abandoned folders.
const ENTRIES_MAX: usize = 10_000;

/// A private folder. Dropping it removes it.
#[derive(Debug)]
pub(super) struct ScratchFolder {
    /// The path with links resolved.
    path: PathBuf,
    _folder: TempDir,
    _lock: File,
}

impl ScratchFolder {
    /// Creates a private folder in `parent`, and removes those that killed processes left there.
    ///
    /// # Errors
    /// Returns the I/O error if the folder cannot be created.
    pub fn create_in(parent: &Path) -> io::Result<Self> {
        remove_abandoned_folders(parent);
        let mut builder = tempfile::Builder::new();
        let folder =
            builder.prefix(NAME_PREFIX).permissions(Permissions::from_mode(0o700)).tempdir_in(parent)?;
        let path = folder.path().canonicalize()?;
        let lock = File::create_new(path.join(NEW_LOCK_FILE))?;
        lock.lock()?;
        fs::rename(path.join(NEW_LOCK_FILE), path.join(LOCK_FILE))?;
        Ok(Self { path, _folder: folder, _lock: lock })
    }

    /// Returns the path, with links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes the private folders of this user whose lock no process holds. A failure leaves a folder for the next process.
fn remove_abandoned_folders(parent: &Path) {
    let user = rustix::process::geteuid().as_raw();
    let is_own = |path: &Path| {
        fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == user)
    };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten().take(ENTRIES_MAX) {
        let path = entry.path();
        if !entry.file_name().to_string_lossy().starts_with(NAME_PREFIX) || !is_own(&path) {
            continue;
        }
        let lock = File::open(path.join(LOCK_FILE));
        if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k6_a_folder_is_private_and_is_removed_with_its_process_or_by_the_next_one() {
        let parent = tempfile::tempdir().unwrap();
        let abandoned = parent.path().join("segue-sandbox-killed");
        fs::create_dir(&abandoned).unwrap();
        fs::write(abandoned.join(LOCK_FILE), "").unwrap();
        let unlocked_yet = parent.path().join("segue-sandbox-starting");
        fs::create_dir(&unlocked_yet).unwrap();
        let first = ScratchFolder::create_in(parent.path()).unwrap();
        let second = ScratchFolder::create_in(parent.path()).unwrap();
        assert!(!abandoned.exists() && unlocked_yet.exists() && first.path().exists());
        assert_eq!(fs::metadata(second.path()).unwrap().permissions().mode() & 0o777, 0o700);
        let path = second.path().to_owned();
        drop(second);
        assert!(!path.exists() && first.path().exists());
    }
}
