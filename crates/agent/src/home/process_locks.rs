//! The lock files that show which processes are alive. Each process has one file in a folder; the file is
//! named like the process and contains the id of its machine.
//!
//! The operating system releases the lock when the process exits. The file remains as the proof of the exit
//! until nothing names the process any more. Callers decide the consequences.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use super::{create_private_folder, machine};
use crate::{HomeError, Result};

/// The most exited processes that one scan returns. The leases of older ones have expired anyway.
const EXITED_PROCESSES_MAX: usize = 256;

/// The most bytes of a machine id that are read from a lock file.
const MACHINE_BYTES_MAX: u64 = 256;

/// How long a free lock file of another machine, or of an earlier boot of this one, is kept.
const FOREIGN_LOCK_RETENTION: Duration = Duration::from_hours(24);

/// The lock of this process. It is held as long as this value exists.
#[derive(Debug)]
pub(super) struct ProcessLock {
    /// The name of the process, which is also the name of the file.
    name: String,
    // The open file, never read: closing it would release the lock.
    _lock: File,
}

impl ProcessLock {
    /// Creates and locks a file in `folder` under a new name that is unique across machines.
    ///
    /// # Errors
    /// Fails if the folder or the file cannot be created, or if the file cannot be locked.
    pub(super) fn acquire(folder: &Path) -> Result<Self> {
        create_private_folder(folder)?;
        let name = Uuid::now_v7().simple().to_string();
        let path = folder.join(&name);
        let lock_error = |error: std::io::Error| HomeError::from_io(&path, &error);
        let mut lock = OpenOptions::new().create_new(true).write(true).open(&path).map_err(lock_error)?;
        lock.lock().map_err(lock_error)?;
        // The machine id is written after the lock is taken. A reader that finds a machine id in an unlocked
        // file therefore knows that the lock was once held.
        lock.write_all(machine::machine_id().as_bytes()).map_err(lock_error)?;
        Ok(Self { name, _lock: lock })
    }

    /// Returns the name of the process.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// The state of a process as its lock file shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcessLiveness {
    /// The process is alive: it holds its lock.
    LockHeld,
    /// The process held its lock on this machine and has exited.
    Exited,
    /// The state is unknown: there is no lock file, the process has not locked it yet, or it belongs to a
    /// machine whose locks are not visible here.
    Unknown,
}

/// Returns the state of the process of that name.
pub(super) fn process_liveness(folder: &Path, owner: &str) -> ProcessLiveness {
    match read_lock_status(folder, owner) {
        Some(LockStatus::Held) => ProcessLiveness::LockHeld,
        Some(LockStatus::Free { machine, .. }) if machine == machine::machine_id() => ProcessLiveness::Exited,
        Some(LockStatus::Free { .. }) | None => ProcessLiveness::Unknown,
    }
}

/// Returns the names of exited processes of this machine, newest first, at most [`EXITED_PROCESSES_MAX`]. An
/// unreadable folder yields none.
pub(super) fn exited_processes(folder: &Path) -> Vec<String> {
    lock_names(folder)
        .filter(|name| process_liveness(folder, name) == ProcessLiveness::Exited)
        .take(EXITED_PROCESSES_MAX)
        .collect()
}

/// Returns the names of processes whose lock files may be removed once no row of the journal names them:
/// those of exited processes of this machine, and free ones of other machines that are older than
/// [`FOREIGN_LOCK_RETENTION`].
pub(super) fn removable_locks(folder: &Path) -> Vec<String> {
    let is_old = |changed: Option<SystemTime>| {
        let age = changed.and_then(|changed| SystemTime::now().duration_since(changed).ok());
        age.is_some_and(|age| age >= FOREIGN_LOCK_RETENTION)
    };
    let is_removable = |name: &String| match read_lock_status(folder, name) {
        Some(LockStatus::Free { machine, changed }) => machine == machine::machine_id() || is_old(changed),
        Some(LockStatus::Held) | None => false,
    };
    lock_names(folder).filter(is_removable).take(EXITED_PROCESSES_MAX).collect()
}

/// Removes the lock files of those names. A file that cannot be removed remains, which does no harm.
pub(super) fn remove_locks(folder: &Path, names: impl Iterator<Item = String>) {
    for name in names {
        let _ = std::fs::remove_file(folder.join(name));
    }
}

/// The state of one lock file.
enum LockStatus {
    /// A process holds the lock.
    Held,
    /// No process holds the lock. `machine` is the id in the file, `changed` the time of its last write.
    Free { machine: String, changed: Option<SystemTime> },
}

/// Returns the state of a process's lock file. `None` if the file does not exist or cannot be read, and for
/// text that is not a process name, so that `owner` cannot lead to another folder.
fn read_lock_status(folder: &Path, owner: &str) -> Option<LockStatus> {
    if !is_lock_name(owner) {
        return None;
    }
    let file = File::open(folder.join(owner)).ok()?;
    // A shared lock, because concurrent readers must not mistake each other for the owner.
    match file.try_lock_shared() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Some(LockStatus::Held),
        Err(TryLockError::Error(_)) => return None,
    }
    let changed = file.metadata().and_then(|metadata| metadata.modified()).ok();
    let mut machine = String::new();
    file.take(MACHINE_BYTES_MAX).read_to_string(&mut machine).ok()?;
    Some(LockStatus::Free { machine, changed })
}

/// Returns the names of all lock files, newest first. A name is a UUIDv7, so that names sort by the time of
/// their creation.
fn lock_names(folder: &Path) -> impl Iterator<Item = String> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = files.filter_map(|file| file.file_name().into_string().ok()).collect();
    names.retain(|name| is_lock_name(name));
    names.sort_unstable_by(|left, right| right.cmp(left));
    names.into_iter()
}

/// Returns whether the text has the form of a process name, which is hexadecimal digits.
fn is_lock_name(owner: &str) -> bool {
    !owner.is_empty() && owner.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a lock file that no process holds, and returns its name.
    fn create_free_lock(folder: &Path, machine: &str) -> String {
        let name = Uuid::now_v7().simple().to_string();
        std::fs::write(folder.join(&name), machine).unwrap();
        name
    }

    #[test]
    fn j2_a_process_that_exited_is_recognised_by_its_free_lock() {
        let folder = tempfile::tempdir().unwrap();
        let lock = ProcessLock::acquire(folder.path()).unwrap();
        let name = lock.name().to_owned();
        assert_eq!(process_liveness(folder.path(), &name), ProcessLiveness::LockHeld);
        drop(lock);
        assert_eq!(process_liveness(folder.path(), &name), ProcessLiveness::Exited);
        assert_eq!(
            process_liveness(folder.path(), "../segue.db"),
            ProcessLiveness::Unknown,
            "text that is not a process name proves nothing"
        );
    }

    #[test]
    fn j2_processes_that_left_free_locks_on_this_machine_have_exited() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(exited_processes(&folder.path().join("nothing")), Vec::<String>::new());
        let living = ProcessLock::acquire(folder.path()).unwrap();
        let killed = create_free_lock(folder.path(), machine::machine_id());
        std::fs::write(folder.path().join("notes.txt"), machine::machine_id()).unwrap();
        // One lock of another machine, whose locks may not be visible here, and one of a process that has not
        // locked it yet.
        let (elsewhere, beginning) =
            (create_free_lock(folder.path(), "another"), create_free_lock(folder.path(), ""));
        assert_eq!(exited_processes(folder.path()), [killed]);
        for unknown in [elsewhere, beginning, Uuid::now_v7().simple().to_string()] {
            assert_eq!(process_liveness(folder.path(), &unknown), ProcessLiveness::Unknown);
        }
        drop(living);
    }

    #[test]
    fn free_locks_are_removable_and_those_of_other_machines_after_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let _living = ProcessLock::acquire(folder.path()).unwrap();
        let (_recent, old) =
            (create_free_lock(folder.path(), "another"), create_free_lock(folder.path(), "another"));
        let long_ago = SystemTime::now() - FOREIGN_LOCK_RETENTION;
        File::options().write(true).open(folder.path().join(&old)).unwrap().set_modified(long_ago).unwrap();
        let killed = create_free_lock(folder.path(), machine::machine_id());
        assert_eq!(removable_locks(folder.path()), [killed, old]);
        remove_locks(folder.path(), removable_locks(folder.path()).into_iter());
        assert_eq!(lock_names(folder.path()).count(), 2);
    }
}
