//! Opening connections: files and their modes, damage that can be seen at once, settings. It writes no row.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::faults::Place;
use super::{portable, schema};
use crate::{Error, Result};

/// Pages of the write-ahead log after which a commit copies them into the database: 32 MiB.
const CHECKPOINT_PAGES: u32 = 8_192;

/// How long an opening process waits between two tries while another one creates the database.
const OPEN_RETRY: Duration = Duration::from_millis(5);

/// Statements kept prepared per connection; more than the queries there are.
const STATEMENTS_MAX: usize = 128;

/// Opens the database for writing, creating and migrating it as needed.
pub(crate) fn writer(place: &Place, lock_wait: Duration) -> Result<Connection> {
    let path = &place.0;
    prepare_folder(path)?;
    let is_missing = !inspect_file(path)?;
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    if is_missing {
        // By path, not through a file of our own: closing one would drop the locks SQLite holds in this process.
        // The side files take over this mode.
        restrict(path, 0o600)?;
    }
    connection.busy_timeout(lock_wait)?;
    let deadline = Instant::now() + lock_wait;
    // The engine does not wait for its own switch to a write-ahead log when two processes create the database.
    loop {
        match set_up(&connection, place).map_err(|error| place.explain(error)) {
            Err(Error::Locked { .. }) if Instant::now() < deadline => std::thread::sleep(OPEN_RETRY),
            outcome => return outcome.map(|()| connection),
        }
    }
}

/// Opens a connection that cannot write.
pub(crate) fn reader(place: &Place, lock_wait: Duration) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&place.0, flags)?;
    connection.busy_timeout(lock_wait)?;
    connection.execute_batch("PRAGMA temp_store = MEMORY; PRAGMA cache_size = -8192;")?;
    prepare_session(&connection)?;
    Ok(connection)
}

/// Opens a database that lives as long as its one connection.
pub(crate) fn memory(place: &Place) -> Result<Connection> {
    let connection = Connection::open_in_memory()?;
    connection.execute_batch("PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;")?;
    prepare_session(&connection)?;
    schema::migrate(&connection, place)?;
    Ok(connection)
}

fn set_up(connection: &Connection, place: &Place) -> Result<()> {
    // Before anything is written: this may be another program's database, or one of a later version.
    schema::version(connection, place)?;
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        let source = std::io::Error::other("the file system does not support a write-ahead log");
        return Err(Error::Io { path: place.0.clone(), source });
    }
    connection.execute_batch(&format!(
        "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;
         PRAGMA cell_size_check = ON; PRAGMA cache_size = -16384; PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES};"
    ))?;
    prepare_session(connection)?;
    schema::migrate(connection, place)
}

/// Adds the functions that statements may use, and keeps every statement prepared. Without the planner's stability the engine
/// would prepare some of them again for each value bound, which costs more than performing them.
fn prepare_session(connection: &Connection) -> Result<()> {
    portable::register_functions(connection)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

fn prepare_folder(path: &Path) -> Result<()> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    if folder.is_dir() {
        return Ok(());
    }
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|source| file_fault(folder, source))
}

/// Returns whether the file exists, after refusing what must not be opened.
fn inspect_file(path: &Path) -> Result<bool> {
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(file_fault(path, error)),
    };
    if metadata.is_dir() {
        return Err(file_fault(path, std::io::ErrorKind::IsADirectory.into()));
    }
    // The engine would take the file for a new database and delete the log, which holds the data.
    if metadata.len() == 0 && log_length(path) > 0 {
        let reason = "the file is empty, but its write-ahead log (-wal) is not".to_owned();
        return Err(Error::Corrupt { path: path.to_owned(), reason });
    }
    Ok(true)
}

fn log_length(path: &Path) -> u64 {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).map_or(0, |metadata| metadata.len())
}

#[cfg(unix)]
fn restrict(path: &Path, mode: u32) -> Result<()> {
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(path, permissions).map_err(|source| file_fault(path, source))
}

#[cfg(not(unix))]
fn restrict(_path: &Path, _mode: u32) -> Result<()> {
    Ok(())
}

fn file_fault(path: &Path, source: std::io::Error) -> Error {
    let path = path.to_owned();
    match source.kind() {
        std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
            Error::Denied { path }
        }
        std::io::ErrorKind::StorageFull => Error::DiskFull { path },
        _ => Error::Io { path, source },
    }
}
