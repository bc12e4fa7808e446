//! Comparing two databases, table by table over every row, and mending what differs: rows that an earlier call copied and that
//! are another, or gone, in the source since.

use std::collections::HashMap;

use super::ends::Opened;
use super::rows::{Sum, Values};
use super::tables::{TABLES, Table};
use super::{Counts, Ends, Progress, Step, TableSum, Watch, finish};
use crate::engines::sql::Connection;
use crate::{Error, Result};

/// What comparing found.
pub(super) struct Checked {
    pub(super) tables: Vec<TableSum>,
    pub(super) changed_rows: u64,
}

/// Compares all tables, and makes those of the target as the source's are; `None` when it was stopped. Parents come before their
/// children, so that what goes with a row that is taken out is found missing, and comes back.
pub(super) fn all(
    ends: Ends<'_>,
    source: &Connection,
    counts: &Counts,
    watch: &mut Watch,
) -> Result<Option<Checked>> {
    let total = counts.iter().map(|rows| 2 * rows).sum();
    let mut progress = Progress { step: Step::Compare, done: 0, total };
    let mut checked = Checked { tables: Vec::with_capacity(TABLES.len()), changed_rows: 0 };
    for table in TABLES {
        let mut look = Look { ends, source, table, progress: &mut progress, watch };
        let Some((mut ours, mut theirs)) = look.both()? else { return Ok(None) };
        if ours != theirs {
            // What is in the index may be of rows that are about to change.
            finish::forget_index(ends.target)?;
            let Some(changed) = look.mend()? else { return Ok(None) };
            checked.changed_rows += changed;
            let Some(again) = look.both()? else { return Ok(None) };
            (ours, theirs) = again;
        }
        if ours != theirs {
            return Err(Error::Differs { what: "the copy of table", id: table.name.to_owned() });
        }
        checked.tables.push(TableSum { name: table.name, rows: ours.rows, sha256: ours.hex() });
    }
    Ok(Some(checked))
}

/// One table in both databases.
struct Look<'a> {
    ends: Ends<'a>,
    /// All of the source at one moment.
    source: &'a Connection<'a>,
    table: &'static Table,
    progress: &'a mut Progress,
    watch: &'a mut Watch,
}

/// Which of the two databases.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Source,
    Target,
}

impl Side {
    const fn other(self) -> Self {
        match self {
            Self::Source => Self::Target,
            Self::Target => Self::Source,
        }
    }
}

impl<'a> Look<'a> {
    /// Returns the sums of the rows in the source and in the target.
    fn both(&mut self) -> Result<Option<(Sum, Sum)>> {
        let Some(ours) = self.sum(Side::Source)? else { return Ok(None) };
        Ok(self.sum(Side::Target)?.map(|theirs| (ours, theirs)))
    }

    fn sum(&mut self, side: Side) -> Result<Option<Sum>> {
        let (connection, end) = self.side(side);
        self.table.sum(&connection, |rows| self.goes_on(rows)).map_err(|error| end.told(error))
    }

    /// Makes the target's rows those of the source, and returns how many were not: what is of another moment goes first, so that
    /// it is in the way of nothing.
    fn mend(&mut self) -> Result<Option<u64>> {
        let mut changed = 0;
        for side in [Side::Target, Side::Source] {
            let mut behind = None;
            loop {
                let page = self.page(side, behind.as_deref())?;
                let Some(last) = page.last() else { break };
                let next = self.table.key_of(last).to_vec();
                let count = page.len();
                let differing = self.differing(side, page, behind.as_deref())?;
                behind = Some(next);
                if side == Side::Source {
                    changed += differing.len() as u64;
                }
                self.set_right(side, differing)?;
                if !self.goes_on(count) {
                    return Ok(None);
                }
            }
        }
        Ok(Some(changed))
    }

    /// Returns those rows of a page of one side that the other side does not have.
    fn differing(
        &self,
        side: Side,
        page: Vec<Values>,
        behind: Option<&[crate::engines::sql::Value<'static>]>,
    ) -> Result<Vec<Values>> {
        // Nearly all are found in the page that begins at the same place; the others one by one.
        let mut there = HashMap::new();
        for row in self.page(side.other(), behind)? {
            there.insert(self.table.digest(self.table.key_of(&row))?, self.table.digest(&row)?);
        }
        let mut differing = Vec::new();
        for row in page {
            let key = self.table.key_of(&row);
            let found = match there.get(&self.table.digest(key)?) {
                Some(found) => Some(*found),
                None => self.find(side.other(), key)?.map(|row| self.table.digest(&row)).transpose()?,
            };
            if found != Some(self.table.digest(&row)?) {
                differing.push(row);
            }
        }
        Ok(differing)
    }

    fn set_right(&self, side: Side, differing: Vec<Values>) -> Result<()> {
        if differing.is_empty() {
            return Ok(());
        }
        self.ends.target.write(|connection| match side {
            Side::Target if self.table.is_kept => Ok(()),
            Side::Target => {
                differing.iter().try_for_each(|row| self.table.take_out(connection, self.table.key_of(row)))
            }
            Side::Source if self.table.is_kept => {
                differing.into_iter().try_for_each(|row| self.table.put(connection, row))
            }
            Side::Source => self.table.store(connection, differing),
        })
    }

    fn page(
        &self,
        side: Side,
        behind: Option<&[crate::engines::sql::Value<'static>]>,
    ) -> Result<Vec<Values>> {
        let (connection, end) = self.side(side);
        self.table.page(&connection, behind).map(|page| page.rows).map_err(|error| end.told(error))
    }

    fn find(&self, side: Side, key: &[crate::engines::sql::Value<'static>]) -> Result<Option<Values>> {
        let (connection, end) = self.side(side);
        self.table.find(&connection, key).map_err(|error| end.told(error))
    }

    const fn side(&self, side: Side) -> (Connection<'a>, &'a Opened) {
        match side {
            Side::Source => (*self.source, self.ends.source),
            Side::Target => (self.ends.target.tables(), self.ends.target),
        }
    }

    fn goes_on(&mut self, rows: usize) -> bool {
        self.progress.done = self.progress.total.min(self.progress.done + rows as u64);
        (self.watch)(self.progress).is_continue()
    }
}
