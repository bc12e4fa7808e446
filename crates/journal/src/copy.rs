//! Copies of whole journals: every row from one database into another, between any two engines, backups, and the salvage of
//! damaged files. This
//! module knows how rows are stored, but not what they mean. The search index of the target is built from its rows.
//!
//! A copy reads one snapshot of its source, while other processes may keep writing to it. Later changes are detected,
//! and repeating the same call copies them too. Until a copy is complete, its target cannot be opened as a journal
//! (`check_copy_complete`). An interrupted copy is resumed by the next call.

mod backup;
mod compare;
mod copy_marker;
mod copy_rows;
mod databases;
mod finish;
mod rows;
mod salvage;
mod shrink;
mod source_changes;
mod tables;

#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

use serde::Serialize;

use self::compare::ComparisonReport;
use self::databases::DatabaseHandle;
use self::source_changes::SnapshotVersion;
use self::tables::TABLES;
use crate::engines::sql::SqlConnection;
use crate::{Error, Result};

pub use self::backup::{BackupReport, backup};
pub(crate) use self::copy_marker::check_copy_complete;
pub use self::databases::JournalLocation;
pub use self::salvage::{LostEvents, LostRows, SalvageReport, salvage};
pub use self::shrink::shrink;

/// A callback that receives the progress of a copy and decides whether it continues.
pub type ProgressCallback = Box<dyn FnMut(&CopyProgress) -> ControlFlow<()> + Send>;

/// The progress of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CopyProgress {
    /// The current phase.
    pub step: CopyPhase,
    /// The amount that is done: rows, or bytes of a file.
    pub done: u64,
    /// The total amount, in the same unit.
    pub total: u64,
}

/// The phases of a copy, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyPhase {
    /// Rows are copied.
    Copy,
    /// The rows of both databases are compared.
    Compare,
    /// The search index is built.
    Index,
}

/// The outcome of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyOutcome {
    /// The copy is complete, and the target can be used.
    Whole,
    /// The source has changed since its snapshot was read. The target has the rows of the snapshot. Repeating the
    /// call copies the changes.
    SourceChanged,
    /// The copy was stopped by its callback. Repeating the call resumes it.
    Stopped,
}

/// The result of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CopyReport {
    /// The outcome.
    pub outcome: CopyOutcome,
    /// The path or address of the source, without a password.
    pub from: String,
    /// The path or address of the target, without a password.
    pub to: String,
    /// `true` if this call resumed an earlier copy.
    pub is_resumed: bool,
    /// Number of rows that this call copied.
    pub rows: u64,
    /// Number of rows that an earlier call had copied and that have changed since.
    pub changed_rows: u64,
    /// The checksum of each table, equal in both databases. Empty unless all tables were compared.
    pub tables: Vec<TableChecksum>,
}

/// The number and checksum of the rows of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TableChecksum {
    /// The name of the table.
    pub name: &'static str,
    /// Number of rows.
    pub rows: u64,
    /// The sum of the SHA-256 hashes of all rows, in hexadecimal digits. It does not depend on the engine.
    pub sha256: String,
}

/// The schema versions of a database before and after a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SchemaMigration {
    /// The version before; 0 if there was no schema.
    pub from: u32,
    /// The version after, which is the newest that this program knows.
    pub to: u32,
}

/// Migrates the schema of a database, or creates it. Opening a store does the same. Returns the location of the
/// database for display, and the versions.
///
/// # Errors
/// Fails if the database cannot be opened or written, or with [`Error::NewerSchema`] if a later version of the
/// program created the schema.
pub async fn migrate(location: JournalLocation) -> Result<(String, SchemaMigration)> {
    run_blocking(move || {
        let from = databases::schema_version(&location)?;
        let database = DatabaseHandle::open(&location)?;
        Ok((database.location(), SchemaMigration { from, to: databases::schema_version(&location)? }))
    })
    .await
}

/// Copies the journal at `from` into the database at `to`, which must be empty or contain an unfinished copy of the
/// same journal. Runs on a blocking thread. Cancelling the future does not stop the copy; use the callback.
///
/// # Errors
/// Fails if a database cannot be opened, read or written. [`Error::UnsuitableTarget`] if `to` contains anything else,
/// and [`Error::UnfinishedCopy`] if `to` contains an unfinished copy of another journal or `from` contains an
/// unfinished copy. Rows that were copied before the error are kept for the next call.
pub async fn copy(from: JournalLocation, to: JournalLocation, watch: ProgressCallback) -> Result<CopyReport> {
    run_blocking(move || copy_blocking(&from, &to, CopyPurpose::Migration, watch)).await
}

/// The purpose of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopyPurpose {
    /// The target replaces the source: no row may be missing, and the search index must be complete.
    Migration,
    /// A backup: any snapshot suffices, and the search index is completed by the first search.
    Backup,
}

/// Copies a journal on the current thread, see [`copy`].
fn copy_blocking(
    from: &JournalLocation,
    to: &JournalLocation,
    purpose: CopyPurpose,
    mut watch: ProgressCallback,
) -> Result<CopyReport> {
    let source = DatabaseHandle::open_source(from)?;
    if from.is_same_file(to) {
        return Err(copy_marker::same_database_error(source.location()));
    }
    check_copy_complete(&source.connection(), &source.location())
        .map_err(|error| source.classify_error(error))?;
    let target = DatabaseHandle::open_target(to)?;
    let is_resumed = copy_marker::begin_copy(&source, &target)?;
    let mut report = CopyReport {
        outcome: CopyOutcome::Stopped,
        from: source.location(),
        to: target.location(),
        is_resumed,
        rows: 0,
        changed_rows: 0,
        tables: Vec::new(),
    };
    let databases = CopyDatabases { source: &source, target: &target };
    let mut version = source.read_snapshot(|rows| {
        let counts = count_rows(rows).map_err(|error| source.classify_error(error))?;
        let version = SnapshotVersion::from_snapshot(rows).map_err(|error| source.classify_error(error))?;
        if !copy_rows::copy_all(databases, rows, &counts, &mut report.rows, &mut watch)? {
            return Ok(None);
        }
        let comparison = compare::compare_all(databases, rows, &counts, &mut watch)?;
        Ok(comparison.map(|ComparisonReport { tables, changed_rows }| {
            (report.tables, report.changed_rows) = (tables, changed_rows);
            version
        }))
    })?;
    let Some(version) = &mut version else { return Ok(report) };
    report.outcome = finish_copy(databases, version, &report.tables, purpose, &mut watch)?;
    Ok(report)
}

/// Completes the target, which has all rows of the snapshot, unless the source has changed by then. The source is
/// checked before the index is built, which takes long, and again afterwards.
fn finish_copy(
    databases: CopyDatabases<'_>,
    version: &mut SnapshotVersion,
    tables: &[TableChecksum],
    purpose: CopyPurpose,
    watch: &mut ProgressCallback,
) -> Result<CopyOutcome> {
    let mut check_source = |watch: &mut ProgressCallback| match purpose {
        CopyPurpose::Migration => version.check_source(databases.source, tables, watch),
        CopyPurpose::Backup => Ok(None),
    };
    if let Some(outcome) = check_source(watch)? {
        return Ok(outcome);
    }
    if !finish::prepare_target(databases, purpose, watch)? {
        return Ok(CopyOutcome::Stopped);
    }
    if let Some(outcome) = check_source(watch)? {
        return Ok(outcome);
    }
    finish::mark_complete(databases.target)?;
    Ok(CopyOutcome::Whole)
}

/// The two databases of a copy.
#[derive(Clone, Copy)]
struct CopyDatabases<'a> {
    /// The database that is read.
    source: &'a DatabaseHandle,
    /// The database that is written.
    target: &'a DatabaseHandle,
}

/// The number of rows of each table, in the order of [`TABLES`].
type TableRowCounts = Vec<u64>;

/// Returns the number of rows of each table.
fn count_rows(connection: &SqlConnection) -> Result<TableRowCounts> {
    let count_table = |table: &tables::CopyTable| {
        let count = connection.prepare(&table.count_sql())?.query_row((), |row| row.get::<_, i64>(0))?;
        Ok(count.unsigned_abs())
    };
    TABLES.iter().map(count_table).collect()
}

/// Runs blocking work on a blocking thread.
async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(Error::Closed))
}
