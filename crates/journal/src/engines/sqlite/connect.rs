//! Opening of SQLite connections: file modes, early detection of damage, and session settings. It writes no rows.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::errors::{DatabasePath, is_out_of_descriptors};
use super::reader_pool::READERS_MAX;
use super::{schema, sql_functions, wal};
use crate::{Error, Result};

/// Number of pages in the write-ahead log at which a commit copies them into the database file: 32 MiB.
const CHECKPOINT_PAGES: u32 = 8_192;

/// Delay between two attempts to open a database while another process creates it.
const OPEN_RETRY_DELAY: Duration = Duration::from_millis(5);

/// Maximum size of the page cache of the writing connection, in KiB.
const WRITER_CACHE_KIB: usize = 8_192;
/// Maximum size of the page cache of a reading connection, in KiB. Pages that it does not hold are in the cache of the
/// operating system, so that a miss costs one call.
const READER_CACHE_KIB: usize = 2_048;
/// Maximum size of all page caches of a process, in KiB.
const CACHES_KIB_MAX: usize = 16_384;
const _: () = assert!(WRITER_CACHE_KIB + READERS_MAX * READER_CACHE_KIB <= CACHES_KIB_MAX);

/// Number of prepared statements that a connection caches. It exceeds the number of distinct queries.
const STATEMENTS_MAX: usize = 128;

/// Opens the database for writing, and creates or migrates it if needed.
pub(crate) fn open_writer(database: &DatabasePath, lock_wait: Duration) -> Result<Connection> {
    let path = &database.0;
    prepare_folder(path)?;
    let is_new = !has_content(path)?;
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    // A refused database is not changed: closing it must not copy its log into it.
    wal::keep(&connection)?;
    if is_new {
        // Set the mode by path and not through a file handle, because closing a handle would release the locks that
        // SQLite holds in this process. The side files inherit the mode.
        restrict(path, 0o600)?;
    }
    connection.busy_timeout(lock_wait)?;
    let deadline = Instant::now() + lock_wait;
    // SQLite does not apply the busy timeout to the switch to a write-ahead log, which can fail while two processes
    // create the database.
    loop {
        match configure(&connection, database).map_err(|error| database.classify_error(error)) {
            Err(Error::Locked { .. }) if Instant::now() < deadline => std::thread::sleep(OPEN_RETRY_DELAY),
            Ok(()) => {
                wal::checkpoint_on_close(&connection)?;
                return Ok(connection);
            }
            Err(error) => {
                if wal::length(path) == 0 {
                    // Looking at the database created an empty log, which closing removes.
                    wal::checkpoint_on_close(&connection)?;
                }
                return Err(error);
            }
        }
    }
}

/// Opens a read-only connection.
pub(crate) fn open_reader(database: &DatabasePath, lock_wait: Duration) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&database.0, flags)?;
    connection.busy_timeout(lock_wait)?;
    connection
        .execute_batch(&format!("PRAGMA temp_store = MEMORY; PRAGMA cache_size = -{READER_CACHE_KIB};"))?;
    prepare_session(&connection)?;
    Ok(connection)
}

/// Opens a database in memory, which exists as long as its one connection.
pub(crate) fn open_in_memory(database: &DatabasePath) -> Result<Connection> {
    let connection = Connection::open_in_memory()?;
    connection.execute_batch("PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;")?;
    prepare_session(&connection)?;
    schema::migrate(&connection, database)?;
    Ok(connection)
}

/// Applies the settings of a writing connection and migrates the schema.
fn configure(connection: &Connection, database: &DatabasePath) -> Result<()> {
    // Check before anything is written: the file may belong to another program or to a later version.
    schema::read_version(connection, database)
        .and_then(|_| wal::mark::check_frames(connection, database))
        .and_then(|()| wal::check_match(connection, database))
        .map_err(|error| wal::explain_mismatch(database.classify_error(error), database))?;
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        let source = std::io::Error::other("the file system does not support a write-ahead log");
        return Err(Error::Io { path: database.0.clone(), source });
    }
    connection.execute_batch(&format!(
        "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;
         PRAGMA cell_size_check = ON; PRAGMA cache_size = -{WRITER_CACHE_KIB}; PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES};"
    ))?;
    prepare_session(connection)?;
    schema::migrate(connection, database)
}

/// Registers the SQL functions and enables the cache of prepared statements. Query planner stability (QPSG) is
/// enabled because SQLite would otherwise prepare some statements again for each bound value, which costs more than
/// executing them.
fn prepare_session(connection: &Connection) -> Result<()> {
    sql_functions::register_functions(connection)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Creates the folder of the database with mode 0700 if it does not exist.
fn prepare_folder(path: &Path) -> Result<()> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    if folder.is_dir() {
        return Ok(());
    }
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|source| file_error(folder, source))
}

/// Returns whether the file exists and has content. A process that fails while it creates the database, before it can restrict
/// the mode, leaves an empty file.
///
/// # Errors
/// Fails if the path is a folder, or if the file is missing or empty but has a write-ahead log.
fn has_content(path: &Path) -> Result<bool> {
    let length = file_length(path)?.unwrap_or(0);
    // SQLite would treat the file as a new database and delete the log, which contains the data.
    if length == 0 && wal::length(path) > 0 {
        // Another process may have created the file and its log just now, in this order.
        let what = match file_length(path)? {
            Some(1..) => return Ok(true),
            Some(0) => "is empty",
            None => "is missing",
        };
        let reason = format!("the file {what}, but its write-ahead log (-wal) is not");
        return Err(Error::Corrupt { path: path.to_owned(), reason });
    }
    Ok(length > 0)
}

/// Returns the length of the file in bytes, or `None` if it does not exist.
///
/// # Errors
/// Fails if the path is a folder or cannot be accessed.
fn file_length(path: &Path) -> Result<Option<u64>> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Err(file_error(path, std::io::ErrorKind::IsADirectory.into())),
        Ok(metadata) => Ok(Some(metadata.len())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file_error(path, error)),
    }
}

/// Sets the mode of a file.
#[cfg(unix)]
fn restrict(path: &Path, mode: u32) -> Result<()> {
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(path, permissions).map_err(|source| file_error(path, source))
}

/// Does nothing, because modes exist only on Unix.
#[cfg(not(unix))]
fn restrict(_path: &Path, _mode: u32) -> Result<()> {
    Ok(())
}

/// Converts an error of the file system.
fn file_error(path: &Path, source: std::io::Error) -> Error {
    let path = path.to_owned();
    match source.kind() {
        std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
            Error::PermissionDenied { path }
        }
        std::io::ErrorKind::StorageFull => Error::DiskFull { path },
        _ if is_out_of_descriptors(&source) => Error::TooManyOpenFiles { path },
        _ => Error::Io { path, source },
    }
}
