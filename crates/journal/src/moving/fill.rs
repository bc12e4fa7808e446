//! Copying rows, in the order of their keys, each transaction some. Whether both databases hold the same then is found out by
//! `compare`.

use super::rows::Values;
use super::tables::{TABLES, Table};
use super::{Counts, Ends, Progress, Step, Watch};
use crate::Result;
use crate::engines::sql::Connection;

/// Rows of one transaction.
const ROWS_MAX: usize = 4_096;
/// Bytes after which a transaction has enough rows.
const BYTES_MAX: usize = 4 << 20;

/// Copies what is not there yet, and returns whether that is everything: it was not stopped. `copied` counts the rows.
pub(super) fn all(
    ends: Ends<'_>,
    source: &Connection,
    counts: &Counts,
    copied: &mut u64,
    watch: &mut Watch,
) -> Result<bool> {
    let mut progress = Progress { step: Step::Copy, done: 0, total: counts.iter().sum() };
    let mut before = 0;
    for (table, rows) in TABLES.iter().zip(counts) {
        let mut one = Filling { ends, table, copied, progress: &mut progress };
        if !one.fill(source, watch)? {
            return Ok(false);
        }
        // What an earlier call copied counts as done.
        before += rows;
        progress.done = before;
    }
    Ok(watch(&progress).is_continue())
}

struct Filling<'a> {
    ends: Ends<'a>,
    table: &'static Table,
    copied: &'a mut u64,
    progress: &'a mut Progress,
}

impl Filling<'_> {
    /// Goes on behind the last row that is there. Should that not be the last one that was copied, because the engines sort it
    /// differently, what is missing before it is found by comparing.
    fn fill(&mut self, source: &Connection, watch: &mut Watch) -> Result<bool> {
        let Ends { source: end, target } = self.ends;
        let mut behind = self.table.last_key(&target.tables()).map_err(|error| target.told(error))?;
        let (mut rows, mut bytes): (Vec<Values>, usize) = (Vec::new(), 0);
        loop {
            let page = self.table.page(source, behind.as_deref()).map_err(|error| end.told(error))?;
            let is_last = page.rows.is_empty();
            behind = page.rows.last().map(|row| self.table.key_of(row).to_vec()).or(behind);
            rows.extend(page.rows);
            bytes += page.bytes;
            if is_last || rows.len() >= ROWS_MAX || bytes >= BYTES_MAX {
                let count = rows.len() as u64;
                let full = std::mem::take(&mut rows);
                bytes = 0;
                target.write(|connection| self.table.store(connection, full))?;
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
