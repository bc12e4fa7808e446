//! The locks by which processes tell that they live: a file for each in one folder, with its name, that says on which machine
//! it is. The system drops the lock with the process, and the file stays, as the proof that the process is gone, until nothing
//! names it any more. What follows from that is not decided here.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use super::{create_private, machine};
use crate::{HomeError, Result};

/// Processes that are known to be gone by the locks they left, at most: of those before, the leases have ended.
const LEFT_MAX: usize = 256;

/// Bytes of a machine's name.
const MACHINE_BYTES_MAX: u64 = 256;

/// How long a lock stays that nobody holds and that is of another machine, or of this one before it was started anew.
const FOREIGN_KEPT: Duration = Duration::from_hours(24);

/// The lock of this process, as long as this value lives.
#[derive(Debug)]
pub(super) struct Held {
    name: String,
    // Held for its lock, which the system drops with the process.
    _lock: File,
}

impl Held {
    /// Takes a name in `folder`. It is like no other on any machine.
    pub(super) fn claim(folder: &Path) -> Result<Self> {
        create_private(folder)?;
        let name = Uuid::now_v7().simple().to_string();
        let path = folder.join(&name);
        let failed = |error: std::io::Error| HomeError::unusable(&path, error);
        let mut lock = OpenOptions::new().create_new(true).write(true).open(&path).map_err(failed)?;
        lock.lock().map_err(failed)?;
        // Behind the lock: whoever finds it free and a machine in the file knows that it was held.
        lock.write_all(machine::id().as_bytes()).map_err(failed)?;
        Ok(Self { name, _lock: lock })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// What there is of a process in a folder of locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trace {
    /// It holds its lock.
    Held,
    /// Its lock, which it held on this machine and holds no more.
    Left,
    /// Nothing, or what proves nothing: it is about to take its lock, or on a machine whose locks are not seen here.
    Unknown,
}

/// Returns what there is of the process of that name.
pub(super) fn trace(folder: &Path, owner: &str) -> Trace {
    match look(folder, owner) {
        Some(Look::Held) => Trace::Held,
        Some(Look::Free { machine, .. }) if machine == machine::id() => Trace::Left,
        Some(Look::Free { .. }) | None => Trace::Unknown,
    }
}

/// Returns the names of the processes that left their locks, the youngest first. A folder that cannot be read tells of nobody.
pub(super) fn left(folder: &Path) -> Vec<String> {
    names(folder).filter(|name| trace(folder, name) == Trace::Left).take(LEFT_MAX).collect()
}

/// Returns the names of the processes whose locks prove nothing that is not known without them, once nothing names these.
pub(super) fn spent(folder: &Path) -> Vec<String> {
    let is_old = |changed: Option<SystemTime>| {
        let past = changed.and_then(|changed| SystemTime::now().duration_since(changed).ok());
        past.is_some_and(|past| past >= FOREIGN_KEPT)
    };
    let is_spent = |name: &String| match look(folder, name) {
        Some(Look::Free { machine, changed }) => machine == machine::id() || is_old(changed),
        Some(Look::Held) | None => false,
    };
    names(folder).filter(is_spent).take(LEFT_MAX).collect()
}

/// Removes the locks of those names. What cannot be removed stays, which does no harm.
pub(super) fn remove(folder: &Path, names: impl Iterator<Item = String>) {
    for name in names {
        let _ = std::fs::remove_file(folder.join(name));
    }
}

/// What is seen of a lock.
enum Look {
    Held,
    Free { machine: String, changed: Option<SystemTime> },
}

fn look(folder: &Path, owner: &str) -> Option<Look> {
    if !is_name(owner) {
        return None;
    }
    let file = File::open(folder.join(owner)).ok()?;
    // Of several that look at the same time each finds it free.
    match file.try_lock_shared() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Some(Look::Held),
        Err(TryLockError::Error(_)) => return None,
    }
    let changed = file.metadata().and_then(|metadata| metadata.modified()).ok();
    let mut machine = String::new();
    file.take(MACHINE_BYTES_MAX).read_to_string(&mut machine).ok()?;
    Some(Look::Free { machine, changed })
}

/// Returns the names there are, the youngest first: they begin with the time at which they were taken.
fn names(folder: &Path) -> impl Iterator<Item = String> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = files.filter_map(|file| file.file_name().into_string().ok()).collect();
    names.retain(|name| is_name(name));
    names.sort_unstable_by(|one, other| other.cmp(one));
    names.into_iter()
}

fn is_name(owner: &str) -> bool {
    !owner.is_empty() && owner.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts a lock into the folder that nobody holds; returns its name.
    fn free(folder: &Path, machine: &str) -> String {
        let name = Uuid::now_v7().simple().to_string();
        std::fs::write(folder.join(&name), machine).unwrap();
        name
    }

    #[test]
    fn j2_a_process_that_ended_is_known_to_be_gone() {
        let folder = tempfile::tempdir().unwrap();
        let held = Held::claim(folder.path()).unwrap();
        let name = held.name().to_owned();
        assert_eq!(trace(folder.path(), &name), Trace::Held);
        drop(held);
        assert_eq!(trace(folder.path(), &name), Trace::Left);
        assert_eq!(
            trace(folder.path(), "../segue.db"),
            Trace::Unknown,
            "a name that is no name proves nothing"
        );
    }

    #[test]
    fn j2_those_are_gone_that_left_their_locks_on_this_machine() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(left(&folder.path().join("nothing")), Vec::<String>::new());
        let living = Held::claim(folder.path()).unwrap();
        let killed = free(folder.path(), machine::id());
        std::fs::write(folder.path().join("notes.txt"), machine::id()).unwrap();
        // Of another machine, whose locks may not reach this one; and one that does not hold its lock yet.
        let (elsewhere, beginning) = (free(folder.path(), "another"), free(folder.path(), ""));
        assert_eq!(left(folder.path()), [killed]);
        for unknown in [elsewhere, beginning, Uuid::now_v7().simple().to_string()] {
            assert_eq!(trace(folder.path(), &unknown), Trace::Unknown);
        }
        drop(living);
    }

    #[test]
    fn locks_are_spent_that_are_free_and_of_another_machine_a_day_later() {
        let folder = tempfile::tempdir().unwrap();
        let _living = Held::claim(folder.path()).unwrap();
        let (_recent, old) = (free(folder.path(), "another"), free(folder.path(), "another"));
        let long_ago = SystemTime::now() - FOREIGN_KEPT;
        File::options().write(true).open(folder.path().join(&old)).unwrap().set_modified(long_ago).unwrap();
        let killed = free(folder.path(), machine::id());
        assert_eq!(spent(folder.path()), [killed, old]);
        remove(folder.path(), spent(folder.path()).into_iter());
        assert_eq!(names(folder.path()).count(), 2);
    }
}
