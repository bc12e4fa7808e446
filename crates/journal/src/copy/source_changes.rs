//! Detection of changes in the source of a copy. The engine reports cheaply whether anything was committed. Because
//! that may have been something else, the checksums of all tables are then computed again.

use super::databases::DatabaseHandle;
use super::tables::TABLES;
use super::{CopyOutcome, CopyPhase, CopyProgress, ProgressCallback, TableChecksum};
use crate::Result;
use crate::engines::sql::{SqlConnection, SqlDialect};

/// The version of a snapshot: a text that differs after any commit to the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SnapshotVersion(String);

impl SnapshotVersion {
    /// Returns the version of a snapshot from which something has been read already.
    pub(super) fn from_snapshot(snapshot: &SqlConnection) -> Result<Self> {
        match snapshot.dialect() {
            SqlDialect::Sqlite => snapshot
                .prepare("PRAGMA data_version")?
                .query_row((), |row| Ok(Self(row.get::<_, i64>(0)?.to_string()))),
            SqlDialect::Postgres => snapshot
                .prepare("SELECT CAST(pg_current_snapshot() AS text)")?
                .query_row((), |row| Ok(Self(row.get(0)?))),
        }
    }

    /// Checks whether the tables of the source have changed since this version. Returns the outcome with which the
    /// copy ends if they have or the check was stopped, and `None` if they are unchanged.
    pub(super) fn check_source(
        &mut self,
        source: &DatabaseHandle,
        tables: &[TableChecksum],
        watch: &mut ProgressCallback,
    ) -> Result<Option<CopyOutcome>> {
        let mut progress = CopyProgress {
            step: CopyPhase::Compare,
            done: 0,
            total: tables.iter().map(|table| table.rows).sum(),
        };
        source.read_snapshot(|rows| {
            let outcome = self.compare_checksums(rows, tables, &mut |rows| {
                progress.done += rows as u64;
                watch(&progress).is_continue()
            });
            outcome.map_err(|error| source.classify_error(error))
        })
    }

    /// Compares the checksums of the tables if anything was committed. If they are equal, this becomes the newer
    /// version.
    fn compare_checksums(
        &mut self,
        rows: &SqlConnection,
        tables: &[TableChecksum],
        on_rows: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Option<CopyOutcome>> {
        // A snapshot is taken by its first read.
        rows.prepare("SELECT 1 FROM agents LIMIT 1")?.exists(())?;
        let current = Self::from_snapshot(rows)?;
        if current == *self {
            return Ok(None);
        }
        for (table, expected) in TABLES.iter().zip(tables) {
            let Some(checksum) = table.checksum(rows, &mut *on_rows)? else {
                return Ok(Some(CopyOutcome::Stopped));
            };
            if (checksum.rows, checksum.to_hex()) != (expected.rows, expected.sha256.clone()) {
                return Ok(Some(CopyOutcome::SourceChanged));
            }
        }
        *self = current;
        Ok(None)
    }
}
