//! Comparison of the two databases of a copy, table by table over every row, and repair of differences: rows that an
//! earlier call copied and that have been changed or deleted in the source since.

use std::collections::HashMap;

use super::databases::DatabaseHandle;
use super::rows::{RowChecksum, RowValues};
use super::tables::{CopyTable, TABLES};
use super::{
    CopyDatabases, CopyPhase, CopyProgress, ProgressCallback, TableChecksum, TableRowCounts, finish,
};
use crate::engines::sql::SqlConnection;
use crate::{Error, Result};

/// The result of a comparison.
pub(super) struct ComparisonReport {
    /// The checksum of each table, equal in both databases.
    pub(super) tables: Vec<TableChecksum>,
    /// Number of repaired rows.
    pub(super) changed_rows: u64,
}

/// Compares all tables, and repairs those of the target that differ. Returns `None` if it was stopped. Parent tables
/// are compared before their children: if deleting a parent row cascades to child rows, these are found missing later
/// and are copied again.
pub(super) fn compare_all(
    databases: CopyDatabases<'_>,
    source: &SqlConnection,
    counts: &TableRowCounts,
    watch: &mut ProgressCallback,
) -> Result<Option<ComparisonReport>> {
    let total = counts.iter().map(|rows| 2 * rows).sum();
    let mut progress = CopyProgress { step: CopyPhase::Compare, done: 0, total };
    let mut report = ComparisonReport { tables: Vec::with_capacity(TABLES.len()), changed_rows: 0 };
    for table in TABLES {
        let mut comparison =
            TableComparison { databases, source, table, progress: &mut progress, on_progress: watch };
        let Some((mut source_sum, mut target_sum)) = comparison.both_checksums()? else { return Ok(None) };
        if source_sum != target_sum {
            // The index may contain rows that are about to change.
            finish::clear_index(databases.target)?;
            let Some(changed) = comparison.repair()? else { return Ok(None) };
            report.changed_rows += changed;
            let Some(sums) = comparison.both_checksums()? else { return Ok(None) };
            (source_sum, target_sum) = sums;
        }
        if source_sum != target_sum {
            return Err(Error::Conflict { what: "the copy of table", id: table.name.to_owned() });
        }
        report.tables.push(TableChecksum {
            name: table.name,
            rows: source_sum.rows,
            sha256: source_sum.to_hex(),
        });
    }
    Ok(Some(report))
}

/// The comparison of one table.
struct TableComparison<'a> {
    /// The databases.
    databases: CopyDatabases<'a>,
    /// The snapshot of the source.
    source: &'a SqlConnection<'a>,
    /// The table.
    table: &'static CopyTable,
    /// The progress of the whole comparison.
    progress: &'a mut CopyProgress,
    /// The callback for the progress.
    on_progress: &'a mut ProgressCallback,
}

/// One of the two databases.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CopySide {
    /// The source.
    Source,
    /// The target.
    Target,
}

impl CopySide {
    /// Returns the opposite database.
    const fn other(self) -> Self {
        match self {
            Self::Source => Self::Target,
            Self::Target => Self::Source,
        }
    }
}

impl<'a> TableComparison<'a> {
    /// Returns the checksums of the table in the source and in the target, or `None` if it was stopped.
    fn both_checksums(&mut self) -> Result<Option<(RowChecksum, RowChecksum)>> {
        let Some(source_sum) = self.checksum(CopySide::Source)? else { return Ok(None) };
        Ok(self.checksum(CopySide::Target)?.map(|target_sum| (source_sum, target_sum)))
    }

    /// Returns the checksum of the table in one database, or `None` if it was stopped.
    fn checksum(&mut self, side: CopySide) -> Result<Option<RowChecksum>> {
        let (connection, database) = self.database(side);
        self.table
            .checksum(&connection, |rows| self.report_progress(rows))
            .map_err(|error| database.classify_error(error))
    }

    /// Makes the rows of the target equal to those of the source, and returns the number of rows that differed.
    /// Outdated rows of the target are deleted first, so that they do not conflict with rows to be inserted.
    fn repair(&mut self) -> Result<Option<u64>> {
        let mut changed = 0;
        for side in [CopySide::Target, CopySide::Source] {
            let mut last_key = None;
            loop {
                let page = self.read_page(side, last_key.as_deref())?;
                let Some(last) = page.last() else { break };
                let next = self.table.row_key(last).to_vec();
                let count = page.len();
                let differing = self.differing_rows(side, page, last_key.as_deref())?;
                last_key = Some(next);
                if side == CopySide::Source {
                    changed += differing.len() as u64;
                }
                self.repair_rows(side, differing)?;
                if !self.report_progress(count) {
                    return Ok(None);
                }
            }
        }
        Ok(Some(changed))
    }

    /// Returns the rows of a page of one database that the other database does not have.
    fn differing_rows(
        &self,
        side: CopySide,
        page: Vec<RowValues>,
        last_key: Option<&[crate::engines::sql::SqlValue<'static>]>,
    ) -> Result<Vec<RowValues>> {
        // Most rows are found in the page of the other database that starts at the same position; the others are
        // looked up one by one.
        let mut digests = HashMap::new();
        for row in self.read_page(side.other(), last_key)? {
            digests.insert(self.table.row_digest(self.table.row_key(&row))?, self.table.row_digest(&row)?);
        }
        let mut differing = Vec::new();
        for row in page {
            let key = self.table.row_key(&row);
            let digest = match digests.get(&self.table.row_digest(key)?) {
                Some(digest) => Some(*digest),
                None => {
                    self.find_row(side.other(), key)?.map(|row| self.table.row_digest(&row)).transpose()?
                }
            };
            if digest != Some(self.table.row_digest(&row)?) {
                differing.push(row);
            }
        }
        Ok(differing)
    }

    /// Repairs rows of the target: deletes rows that only the target has, or stores rows that only the source has.
    fn repair_rows(&self, side: CopySide, differing: Vec<RowValues>) -> Result<()> {
        if differing.is_empty() {
            return Ok(());
        }
        self.databases.target.write_transaction(|connection| match side {
            CopySide::Target if self.table.is_never_deleted => Ok(()),
            CopySide::Target => differing
                .iter()
                .try_for_each(|row| self.table.delete_row(connection, self.table.row_key(row))),
            CopySide::Source if self.table.is_never_deleted => {
                differing.into_iter().try_for_each(|row| self.table.upsert_row(connection, row))
            }
            CopySide::Source => self.table.insert_rows(connection, differing),
        })
    }

    /// Reads a page of the table in one database.
    fn read_page(
        &self,
        side: CopySide,
        last_key: Option<&[crate::engines::sql::SqlValue<'static>]>,
    ) -> Result<Vec<RowValues>> {
        let (connection, database) = self.database(side);
        self.table
            .read_page(&connection, last_key)
            .map(|page| page.rows)
            .map_err(|error| database.classify_error(error))
    }

    /// Reads a row of the table in one database.
    fn find_row(
        &self,
        side: CopySide,
        key: &[crate::engines::sql::SqlValue<'static>],
    ) -> Result<Option<RowValues>> {
        let (connection, database) = self.database(side);
        self.table.find_row(&connection, key).map_err(|error| database.classify_error(error))
    }

    /// Returns the connection and the handle of one database.
    const fn database(&self, side: CopySide) -> (SqlConnection<'a>, &'a DatabaseHandle) {
        match side {
            CopySide::Source => (*self.source, self.databases.source),
            CopySide::Target => (self.databases.target.connection(), self.databases.target),
        }
    }

    /// Reports the progress. Returns `false` if the comparison is to be stopped.
    fn report_progress(&mut self, rows: usize) -> bool {
        self.progress.done = self.progress.total.min(self.progress.done + rows as u64);
        (self.on_progress)(self.progress).is_continue()
    }
}
