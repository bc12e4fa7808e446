//! Copying of rows, in the order of their keys, in transactions of limited size. `compare` verifies the result.

use super::rows::RowValues;
use super::tables::{CopyTable, TABLES};
use super::{CopyDatabases, CopyPhase, CopyProgress, ProgressCallback, TableRowCounts};
use crate::Result;
use crate::engines::sql::SqlConnection;

/// Maximum number of rows in a transaction.
const ROWS_MAX: usize = 4_096;
/// Number of bytes at which a transaction is full.
const BYTES_MAX: usize = 4 << 20;

/// Copies the rows that are not in the target yet. Returns `false` if the copy was stopped. `copied` is increased by
/// the number of copied rows.
pub(super) fn copy_all(
    databases: CopyDatabases<'_>,
    source: &SqlConnection,
    counts: &TableRowCounts,
    copied: &mut u64,
    watch: &mut ProgressCallback,
) -> Result<bool> {
    let mut progress = CopyProgress { step: CopyPhase::Copy, done: 0, total: counts.iter().sum() };
    let mut finished_rows = 0;
    for (table, rows) in TABLES.iter().zip(counts) {
        let mut table_fill = TableFill { databases, table, copied, progress: &mut progress };
        if !table_fill.fill_table(source, watch)? {
            return Ok(false);
        }
        // Rows that an earlier call copied count as done.
        finished_rows += rows;
        progress.done = finished_rows;
    }
    Ok(watch(&progress).is_continue())
}

/// The copying of one table.
struct TableFill<'a> {
    /// The databases.
    databases: CopyDatabases<'a>,
    /// The table.
    table: &'static CopyTable,
    /// Number of copied rows of all tables.
    copied: &'a mut u64,
    /// The progress of the whole copy.
    progress: &'a mut CopyProgress,
}

impl TableFill<'_> {
    /// Copies the rows after the last row of the target. If that is not the last row that was copied, because the
    /// engines sort keys differently, the missing rows are found by the comparison.
    fn fill_table(&mut self, source: &SqlConnection, watch: &mut ProgressCallback) -> Result<bool> {
        let CopyDatabases { source: source_database, target } = self.databases;
        let mut last_key =
            self.table.last_key(&target.connection()).map_err(|error| target.classify_error(error))?;
        let (mut rows, mut bytes): (Vec<RowValues>, usize) = (Vec::new(), 0);
        loop {
            let page = self
                .table
                .read_page(source, last_key.as_deref())
                .map_err(|error| source_database.classify_error(error))?;
            let is_last = page.rows.is_empty();
            last_key = page.rows.last().map(|row| self.table.row_key(row).to_vec()).or(last_key);
            rows.extend(page.rows);
            bytes += page.bytes;
            if is_last || rows.len() >= ROWS_MAX || bytes >= BYTES_MAX {
                let count = rows.len() as u64;
                let batch = std::mem::take(&mut rows);
                bytes = 0;
                target.write_transaction(|connection| self.table.insert_rows(connection, batch))?;
                *self.copied += count;
                self.progress.done += count;
                if watch(self.progress).is_break() {
                    return Ok(false);
                }
            }
            if is_last {
                return Ok(true);
            }
        }
    }
}
