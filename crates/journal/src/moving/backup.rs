//! Backups: a journal as a file that opens like any other. Under its name there is never half of one.

use std::fs::{self, File, OpenOptions};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use serde::Serialize;

use super::ends::Opened;
use super::{Copied, End, Outcome, Progress, Purpose, Step, Watch, blocking, copy_now};
use crate::engines::sqlite;
use crate::{Error, Result};

/// Between two looks at how far the engine is.
const LOOK: Duration = Duration::from_millis(100);

/// A backup that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BackedUp {
    /// Of which database, without a password.
    pub from: String,
    /// The file.
    pub path: PathBuf,
    /// How large it is.
    pub bytes: u64,
}

/// Writes the journal at `from`, as it is at one moment, into a file that must not be there; `None` when it was stopped. Others
/// may go on writing to the journal.
///
/// # Errors
/// When the journal cannot be read or the file cannot be written, and [`Error::Unfit`] when there is one of that name.
pub async fn backup(from: End, path: PathBuf, watch: Watch) -> Result<Option<BackedUp>> {
    blocking(move || backup_now(&from, &path, watch)).await
}

fn backup_now(from: &End, path: &Path, watch: Watch) -> Result<Option<BackedUp>> {
    let exists = || Error::Unfit {
        location: path.display().to_string(),
        reason: "there is a file of that name".to_owned(),
    };
    if path.symlink_metadata().is_ok() {
        return Err(exists());
    }
    let part = Part::beside(path)?;
    let location = match from {
        End::File(file) => vacuum(file, &part.path, watch)?,
        End::Server(_) => {
            let to = End::File(part.path.clone());
            let Copied { outcome, from, .. } = copy_now(from, &to, Purpose::Backup, watch)?;
            (outcome == Outcome::Whole).then_some(from)
        }
    };
    let Some(location) = location else { return Ok(None) };
    let bytes = part.becomes(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => exists(),
        _ => failed(path, error),
    })?;
    Ok(Some(BackedUp { from: location, path: path.to_owned(), bytes }))
}

/// Has the engine write the file without what is free in it; returns where from, or `None` when it was stopped.
fn vacuum(file: &Path, part: &Path, mut watch: Watch) -> Result<Option<String>> {
    let source = Opened::source(&End::File(file.to_owned()))?;
    let location = source.location();
    super::check_whole(&source.tables(), &location).map_err(|error| source.told(error))?;
    let Opened::Sqlite(sqlite::Plain { connection, .. }) = &source else { return Err(Error::Closed) };
    let total = connection.query_row(
        "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size",
        [],
        |row| row.get::<_, i64>(0),
    )?;
    let total = total.unsigned_abs();
    let stop = connection.get_interrupt_handle();
    let (ended, end) = mpsc::channel::<()>();
    let looked = part.to_owned();
    let looker = std::thread::spawn(move || {
        while end.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            let done = fs::metadata(&looked).map_or(0, |metadata| metadata.len().min(total));
            if watch(&Progress { step: Step::Copy, done, total }) == ControlFlow::Break(()) {
                stop.interrupt();
                return true;
            }
        }
        false
    });
    let written = connection.execute("VACUUM INTO ?1", [part.to_string_lossy()]);
    drop(ended);
    let is_stopped = looker.join().unwrap_or(false);
    match (written, is_stopped) {
        (Ok(_), _) => Ok(Some(location)),
        (Err(_), true) => Ok(None),
        (Err(error), false) => Err(source.told(error.into())),
    }
}

/// A file that is being written, and that is gone with this unless it got its name.
struct Part {
    path: PathBuf,
}

impl Part {
    /// Makes an empty one that only its owner can read, in the folder of `path`.
    fn beside(path: &Path) -> Result<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let part = Self { path: folder.join(format!(".{name}.{}.part", std::process::id())) };
        part.remove();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&part.path).map_err(|error| failed(path, error))?;
        Ok(part)
    }

    /// Gives it its name, once all of it is on the disk; returns how large it is. A log beside it would not go along.
    fn becomes(&self, path: &Path) -> std::io::Result<u64> {
        if fs::metadata(self.beside_it("-wal")).is_ok_and(|log| log.len() > 0) {
            return Err(std::io::Error::other("its write-ahead log could not be written back into it"));
        }
        let file = File::open(&self.path)?;
        file.sync_all()?;
        // Unlike a renaming, a second name replaces nothing that came to be there meanwhile.
        match fs::hard_link(&self.path, path) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Err(error),
            Err(_) => fs::rename(&self.path, path)?,
        }
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            File::open(folder)?.sync_all()?;
        }
        Ok(file.metadata()?.len())
    }

    /// Removes it, with what the engine may have beside it.
    fn remove(&self) {
        for suffix in ["", "-wal", "-shm", "-journal"] {
            // Most are not there.
            let _ = fs::remove_file(self.beside_it(suffix));
        }
    }

    fn beside_it(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(suffix);
        name.into()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.remove();
    }
}

fn failed(path: &Path, source: std::io::Error) -> Error {
    match source.kind() {
        std::io::ErrorKind::StorageFull => Error::DiskFull { path: path.to_owned() },
        std::io::ErrorKind::PermissionDenied => Error::Denied { path: path.to_owned() },
        _ => Error::Io { path: path.to_owned(), source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_whose_log_was_not_written_back_gets_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup.db");
        let part = Part::beside(&path).unwrap();
        fs::write(part.beside_it("-wal"), "rows").unwrap();
        assert!(part.becomes(&path).is_err() && !path.exists());
        fs::write(part.beside_it("-wal"), "").unwrap();
        assert!(part.becomes(&path).is_ok() && path.exists());
    }
}
