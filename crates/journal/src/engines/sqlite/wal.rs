//! The file of the write-ahead log (`-wal`): when closing keeps it, and the detection that it or the database file was
//! replaced, while the database is open or closed, or truncated while it is open. SQLite itself recovers and
//! checkpoints the log.

pub(super) mod mark;
mod truncation;

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use self::truncation::FileExtent;
use super::errors::DatabasePath;
use crate::{Error, Result};

/// The longest log that is kept when the database is closed, in bytes. Reading it again takes less than a millisecond.
const KEPT_BYTES_MAX: u64 = 1 << 20;

/// The files of an open database. SQLite writes to a file that was opened also if its path names another file by then, and
/// whatever it writes there is lost. It does not notice either that another program truncates the file of the database.
#[derive(Debug)]
pub(super) struct OpenFiles {
    /// The path of the database.
    path: PathBuf,
    /// The file of the database.
    database: FileId,
    /// The length of the file of the database at the last check, in bytes.
    length: AtomicU64,
    /// The log; unset until it exists. SQLite keeps it while the database is open.
    log: OnceLock<FileId>,
}

/// The device and the inode of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId(u64, u64);

impl FileId {
    /// Returns the id in a file's metadata.
    #[cfg(unix)]
    fn from_metadata(file: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self(file.dev(), file.ino())
    }

    /// Returns the same id for all files: other systems do not let a file be deleted while it is open.
    #[cfg(not(unix))]
    const fn from_metadata(_: &Metadata) -> Self {
        Self(0, 0)
    }
}

impl OpenFiles {
    /// Returns the files of a database that was just opened.
    ///
    /// # Errors
    /// [`Error::FileReplaced`] if the file has been deleted since, and [`Error::Io`] if it cannot be inspected.
    pub(super) fn identify(database: &DatabasePath) -> Result<Self> {
        let path = database.0.clone();
        let Some(file) = read_metadata(&path)? else { return Err(Error::FileReplaced { path }) };
        let log = find_log(&path)?.map_or_else(OnceLock::new, OnceLock::from);
        Ok(Self { path, database: FileId::from_metadata(&file), length: AtomicU64::new(file.len()), log })
    }

    /// Checks that the paths still name these files, and that the file of the database was not truncated. The caller has an
    /// open connection.
    ///
    /// # Errors
    /// [`Error::FileReplaced`], [`Error::FileTruncated`], and [`Error::Io`] if a file cannot be inspected.
    pub(super) fn check(&self) -> Result<()> {
        let replaced = || Error::FileReplaced { path: self.path.clone() };
        match read_metadata(&self.path)? {
            Some(file) if FileId::from_metadata(&file) == self.database => self.check_length(file.len())?,
            Some(_) | None => return Err(replaced()),
        }
        match (find_log(&self.path)?, self.log.get()) {
            (None, None) => Ok(()),
            (Some(log), known) if *known.unwrap_or(&log) == log => {
                self.log.get_or_init(|| log);
                Ok(())
            }
            (Some(_) | None, _) => Err(replaced()),
        }
    }

    /// Checks that the file of the database was not truncated.
    fn check_length(&self, length: u64) -> Result<()> {
        if length < self.length.load(Ordering::Relaxed) {
            match truncation::inspect_extent(&self.path) {
                FileExtent::Whole => {}
                FileExtent::Truncated => {
                    return Err(Error::FileTruncated { path: self.path.clone(), length });
                }
                // The next check decides.
                FileExtent::Unknown => return Ok(()),
            }
        }
        self.length.store(length, Ordering::Relaxed);
        Ok(())
    }
}

/// Returns the metadata of the file at a path; `None` if there is none.
///
/// # Errors
/// [`Error::Io`] if the file cannot be inspected.
fn read_metadata(path: &Path) -> Result<Option<Metadata>> {
    match std::fs::metadata(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Io { path: path.to_owned(), source }),
    }
}

/// Returns the id of the log of a database; `None` if there is none.
///
/// # Errors
/// [`Error::Io`] if the file cannot be inspected.
fn find_log(database: &Path) -> Result<Option<FileId>> {
    Ok(read_metadata(&log_path(database))?.as_ref().map(FileId::from_metadata))
}

/// The outcome of a checkpoint that does not wait for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogCheckpoint {
    /// The log is empty.
    Emptied,
    /// A reader or another process uses the log, so it keeps a part of its content.
    InUse,
}

/// Makes closing the connection keep the log, whatever its length.
pub(super) fn keep(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map(|_| ())
}

/// Makes closing the connection checkpoint and delete the log, if no other connection is open.
pub(super) fn checkpoint_on_close(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map(|_| ())
}

/// Makes closing the connection keep the log if it is short. A checkpoint and a new log cost four syncs to disk, which
/// is more than the commits of a short command.
pub(super) fn keep_if_short(connection: &Connection, database: &DatabasePath) -> rusqlite::Result<()> {
    if length(&database.0) <= KEPT_BYTES_MAX { keep(connection) } else { checkpoint_on_close(connection) }
}

/// Copies the log into the database file and empties it, as far as no other process uses the log. It waits for other
/// processes no longer than any write does.
///
/// # Errors
/// Fails if the file cannot be written.
pub(super) fn checkpoint(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

/// Copies the log into the database file and empties it, if no reader or other process uses it. Afterwards the connection waits for
/// other processes for `lock_wait` again.
///
/// # Errors
/// Fails if the file cannot be written.
pub(super) fn checkpoint_without_waiting(
    connection: &Connection,
    lock_wait: Duration,
) -> rusqlite::Result<LogCheckpoint> {
    connection.busy_timeout(Duration::ZERO)?;
    let is_in_use = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
    connection.busy_timeout(lock_wait)?;
    Ok(if is_in_use? { LogCheckpoint::InUse } else { LogCheckpoint::Emptied })
}

/// Returns the size of the log in bytes, or 0 if there is none.
pub(super) fn length(database: &Path) -> u64 {
    std::fs::metadata(log_path(database)).map_or(0, |metadata| metadata.len())
}

/// Checks that the log belongs to the database file. Between two processes, a person can replace the file and leave
/// the old log next to it, for example to restore a backup. SQLite does not notice: it applies the log to any file.
///
/// The check costs two system calls, unless the file was changed after the log. Then the whole database is checked, because
/// pages of two databases contradict each other.
///
/// # Errors
/// Fails if the database is damaged. [`explain_mismatch`] names the log as the cause.
pub(super) fn check_match(connection: &Connection, database: &DatabasePath) -> Result<()> {
    if !is_file_newer(database) || is_checkpointed(connection)? {
        return Ok(());
    }
    let found: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if found != "ok" {
        return Err(Error::Malformed(found));
    }
    // With an empty log, the next process need not check again.
    Ok(checkpoint(connection)?)
}

/// Returns the error with the log as its cause, if the database is damaged and the file was changed after the log.
pub(super) fn explain_mismatch(error: Error, database: &DatabasePath) -> Error {
    match error {
        Error::Corrupt { path, .. } if is_file_newer(database) => {
            let reason = "its write-ahead log (-wal) is older than the file and does not match it; \
                          if the file is a restored backup, delete the old -wal and -shm files";
            Error::Corrupt { path, reason: reason.to_owned() }
        }
        other => other,
    }
}

/// Returns whether the database file has the content of the whole log. After a checkpoint of a process that is still
/// running, the file is newer than the log, although nobody replaced it.
fn is_checkpointed(connection: &Connection) -> Result<bool> {
    let counts = connection.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| {
        Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
    })?;
    Ok(counts.0 == counts.1)
}

/// Returns whether the database file was changed after its log, which is not empty.
///
/// The content of the log counts, not its inode: for root, SQLite sets the owner of the log each time it opens it.
fn is_file_newer(database: &DatabasePath) -> bool {
    match (std::fs::metadata(&database.0), std::fs::metadata(log_path(&database.0))) {
        (Ok(file), Ok(log)) => log.len() > 0 && change_time(&file) > write_time(&log),
        (Err(_), _) | (_, Err(_)) => false,
    }
}

/// Returns the time of the last change of a file's content, owner, mode or name, in seconds and nanoseconds. A program
/// that restores a backup can set the time of the last change of the content, but not this time.
#[cfg(unix)]
fn change_time(metadata: &Metadata) -> (i64, i64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.ctime(), metadata.ctime_nsec())
}

/// Returns the time of the last change of a file's content, in seconds and nanoseconds.
#[cfg(unix)]
fn write_time(metadata: &Metadata) -> (i64, i64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.mtime(), metadata.mtime_nsec())
}

/// Returns the time of the last change of a file's content, if the file system stores it.
#[cfg(not(unix))]
fn change_time(metadata: &Metadata) -> Option<std::time::SystemTime> {
    metadata.modified().ok()
}

/// Returns the time of the last change of a file's content, if the file system stores it.
#[cfg(not(unix))]
fn write_time(metadata: &Metadata) -> Option<std::time::SystemTime> {
    metadata.modified().ok()
}

/// Returns the path of the log.
fn log_path(database: &Path) -> PathBuf {
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    PathBuf::from(log)
}
