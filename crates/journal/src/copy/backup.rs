//! Backups: a journal as a single file that can be opened like any other. The file appears under its name only when
//! it is complete.

use std::fs::{self, File, OpenOptions};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use serde::Serialize;

use super::databases::DatabaseHandle;
use super::shrink::purge_index;
use super::{
    CopyOutcome, CopyPhase, CopyProgress, CopyPurpose, CopyReport, JournalLocation, ProgressCallback,
    copy_blocking, run_blocking,
};
use crate::engines::sql::SqlConnection;
use crate::engines::sqlite;
use crate::tables::search::PurgeState;
use crate::tables::threads::purges;
use crate::{Error, Result};

/// Interval at which the progress of SQLite is measured.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// A finished backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BackupReport {
    /// The path or address of the database, without a password.
    pub from: String,
    /// The path of the backup.
    pub path: PathBuf,
    /// Size of the backup in bytes.
    pub bytes: u64,
}

/// Writes one snapshot of the journal at `from` into a new file. Returns `None` if the callback stopped it. Other
/// processes may keep writing to the journal. Runs on a blocking thread; cancelling the future does not stop it.
///
/// # Errors
/// Fails if the journal cannot be read or the file cannot be written. [`Error::UnsuitableTarget`] if a file with this
/// name exists.
pub async fn backup(
    from: JournalLocation,
    path: PathBuf,
    watch: ProgressCallback,
) -> Result<Option<BackupReport>> {
    run_blocking(move || backup_blocking(&from, &path, watch)).await
}

/// Writes a backup on the current thread, see [`backup`].
fn backup_blocking(
    from: &JournalLocation,
    path: &Path,
    watch: ProgressCallback,
) -> Result<Option<BackupReport>> {
    let exists = || Error::UnsuitableTarget {
        location: path.display().to_string(),
        reason: "a file with this name exists".to_owned(),
    };
    if path.symlink_metadata().is_ok() {
        return Err(exists());
    }
    let partial = PartialFile::create_next_to(path)?;
    let location = match from {
        JournalLocation::File(file) => vacuum_into(file, &partial.path, watch)?,
        JournalLocation::Server(_) => {
            let to = JournalLocation::File(partial.path.clone());
            let CopyReport { outcome, from, .. } = copy_blocking(from, &to, CopyPurpose::Backup, watch)?;
            (outcome == CopyOutcome::Whole).then_some(from)
        }
    };
    let Some(location) = location else { return Ok(None) };
    let bytes = partial.persist_as(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => exists(),
        _ => io_error(path, error),
    })?;
    Ok(Some(BackupReport { from: location, path: path.to_owned(), bytes }))
}

/// Lets SQLite write a compact copy of the file into `part`. Returns the location of the source, or `None` if it was
/// stopped.
fn vacuum_into(file: &Path, part: &Path, mut watch: ProgressCallback) -> Result<Option<String>> {
    let source = DatabaseHandle::open_source(&JournalLocation::File(file.to_owned()))?;
    let location = source.location();
    super::check_copy_complete(&source.connection(), &location)
        .map_err(|error| source.classify_error(error))?;
    let DatabaseHandle::Sqlite(sqlite::SqliteCopyConnection { connection, .. }) = &source else {
        return Err(Error::Closed);
    };
    let total = connection.query_row(
        "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size",
        [],
        |row| row.get::<_, i64>(0),
    )?;
    let total = total.unsigned_abs();
    let stop = connection.get_interrupt_handle();
    let (end_sender, end_receiver) = mpsc::channel::<()>();
    let watched_path = part.to_owned();
    let is_stopped = Arc::new(AtomicBool::new(false));
    let was_stopped = Arc::clone(&is_stopped);
    let progress_thread = std::thread::spawn(move || {
        while end_receiver.recv_timeout(PROGRESS_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            let done = fs::metadata(&watched_path).map_or(0, |metadata| metadata.len().min(total));
            if watch(&CopyProgress { step: CopyPhase::Copy, done, total }) == ControlFlow::Break(()) {
                was_stopped.store(true, Ordering::Relaxed);
                stop.interrupt();
                return;
            }
        }
    });
    let result = connection.execute("VACUUM INTO ?1", [part.to_string_lossy()]);
    if result.is_ok() {
        purge_copy(part, &is_stopped);
    }
    drop(end_sender);
    let _ = progress_thread.join();
    match (result, is_stopped.load(Ordering::Relaxed)) {
        (_, true) => Ok(None),
        (Ok(_), false) => Ok(Some(location)),
        (Err(error), false) => Err(source.classify_error(error.into())),
    }
}

/// Removes from a backup the rows that deletions have left, and the terms of deleted rows from its search index. The source is
/// not written for that. A backup that cannot be purged, such as that of a damaged database, is kept as it is.
fn purge_copy(part: &Path, is_stopped: &AtomicBool) {
    let purged = rusqlite::Connection::open(part).map_err(Error::from).and_then(|connection| {
        // Freed pages are overwritten. The journal is no file of its own, because nobody reads an incomplete backup.
        connection.execute_batch("PRAGMA secure_delete = ON; PRAGMA journal_mode = MEMORY;")?;
        let connection = SqlConnection::Sqlite(&connection);
        while !is_stopped.load(Ordering::Relaxed)
            && purges::purge_next_part(&connection)? == PurgeState::Incomplete
        {}
        purge_index(&connection, is_stopped)
    });
    if let Err(error) = purged {
        tracing::warn!(%error, "failed to purge deleted texts from the backup");
    }
}

/// A file that is being written. Dropping it deletes the file, unless it was persisted under its final name.
struct PartialFile {
    /// The temporary path.
    path: PathBuf,
}

impl PartialFile {
    /// Creates an empty file in the folder of `path` that only its owner can read.
    fn create_next_to(path: &Path) -> Result<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let partial = Self { path: folder.join(format!(".{name}.{}.partial", std::process::id())) };
        partial.remove();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&partial.path).map_err(|error| io_error(path, error))?;
        Ok(partial)
    }

    /// Syncs the file to disk and gives it its final name. Returns its size in bytes. Fails if the file has a
    /// write-ahead log, which would not be part of the backup.
    fn persist_as(&self, path: &Path) -> std::io::Result<u64> {
        if fs::metadata(self.sibling_path("-wal")).is_ok_and(|log| log.len() > 0) {
            return Err(std::io::Error::other("its write-ahead log could not be checkpointed"));
        }
        let file = File::open(&self.path)?;
        file.sync_all()?;
        // A hard link, unlike a rename, does not replace a file that has been created meanwhile.
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

    /// Deletes the file and the side files that SQLite may have created.
    fn remove(&self) {
        for suffix in ["", "-wal", "-shm", "-journal"] {
            // Most of these files do not exist.
            let _ = fs::remove_file(self.sibling_path(suffix));
        }
    }

    /// Returns the path of a side file.
    fn sibling_path(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(suffix);
        name.into()
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Converts an error of the file system.
fn io_error(path: &Path, source: std::io::Error) -> Error {
    match source.kind() {
        std::io::ErrorKind::StorageFull => Error::DiskFull { path: path.to_owned() },
        std::io::ErrorKind::PermissionDenied => Error::PermissionDenied { path: path.to_owned() },
        _ => Error::Io { path: path.to_owned(), source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_a_remaining_write_ahead_log_is_not_persisted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup.db");
        let partial = PartialFile::create_next_to(&path).unwrap();
        fs::write(partial.sibling_path("-wal"), "rows").unwrap();
        assert!(partial.persist_as(&path).is_err() && !path.exists());
        fs::write(partial.sibling_path("-wal"), "").unwrap();
        assert!(partial.persist_as(&path).is_ok() && path.exists());
    }
}
