//! Whether the source of a copy was changed since the moment that was copied. The engine tells cheaply whether anything at all was
//! written; as that may be nothing of ours, every row is added up again then.

use super::ends::Opened;
use super::tables::TABLES;
use super::{Outcome, Progress, Step, TableSum, Watch};
use crate::Result;
use crate::engines::sql::{Connection, Dialect};

/// A moment of a database: a text that is another one when anything was committed since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Moment(String);

impl Moment {
    /// Returns the moment that a snapshot is of, in which something was read before.
    pub(super) fn of(snapshot: &Connection) -> Result<Self> {
        match snapshot.dialect() {
            Dialect::Sqlite => snapshot
                .prepare("PRAGMA data_version")?
                .query_row((), |row| Ok(Self(row.get::<_, i64>(0)?.to_string()))),
            Dialect::Postgres => snapshot
                .prepare("SELECT CAST(pg_current_snapshot() AS text)")?
                .query_row((), |row| Ok(Self(row.get(0)?))),
        }
    }

    /// Returns how a copy of this moment ends: with what it missed, because the tables are no longer these, or stopped; `None` when
    /// they still are.
    pub(super) fn missed(
        &mut self,
        source: &Opened,
        tables: &[TableSum],
        watch: &mut Watch,
    ) -> Result<Option<Outcome>> {
        let mut progress =
            Progress { step: Step::Compare, done: 0, total: tables.iter().map(|table| table.rows).sum() };
        source.snapshot(|rows| {
            let missed = self.missed_in(rows, tables, &mut |rows| {
                progress.done += rows as u64;
                watch(&progress).is_continue()
            });
            missed.map_err(|error| source.told(error))
        })
    }

    fn missed_in(
        &mut self,
        rows: &Connection,
        tables: &[TableSum],
        goes_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Option<Outcome>> {
        // Until something is read, the snapshot is of no moment yet.
        rows.prepare("SELECT 1 FROM agents LIMIT 1")?.exists(())?;
        let now = Self::of(rows)?;
        if now == *self {
            return Ok(None);
        }
        for (table, known) in TABLES.iter().zip(tables) {
            let Some(sum) = table.sum(rows, &mut *goes_on)? else { return Ok(Some(Outcome::Stopped)) };
            if (sum.rows, sum.hex()) != (known.rows, known.sha256.clone()) {
                return Ok(Some(Outcome::SourceChanged));
            }
        }
        *self = now;
        Ok(None)
    }
}
