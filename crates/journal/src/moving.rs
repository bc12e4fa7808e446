//! Moving whole journals: a copy of every row from one database into another, of whichever engine, and backups. It knows how
//! rows are stored and nothing of what they mean; the search index is made anew.
//!
//! A copy is of one moment of its source, which others may go on writing to: what they wrote since is found out, and the
//! same call made again brings it over. Until it is whole, nobody can use the database that is copied into (`check_whole`),
//! and a call that was stopped anywhere is gone on with by the next.

mod backup;
mod changes;
mod compare;
mod ends;
mod fill;
mod finish;
mod mark;
mod rows;
mod shrink;
mod tables;

#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

use serde::Serialize;

use self::changes::Moment;
use self::compare::Checked;
use self::ends::Opened;
use self::tables::TABLES;
use crate::engines::sql::Connection;
use crate::{Error, Result};

pub use self::backup::{BackedUp, backup};
pub use self::ends::End;
pub(crate) use self::mark::check_whole;
pub use self::shrink::shrink;

/// What is told of how far a move is, and answered with whether it goes on.
pub type Watch = Box<dyn FnMut(&Progress) -> ControlFlow<()> + Send>;

/// How far a move is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// What is done at present.
    pub step: Step,
    /// How much of it is done: rows, or bytes of a file.
    pub done: u64,
    /// How much there is to do.
    pub total: u64,
}

/// What is done in a move, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Rows are copied.
    Copy,
    /// What is in both databases is compared.
    Compare,
    /// What can be searched is put into the index.
    Index,
}

/// How a copy ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Everything is there, and the database can be used.
    Whole,
    /// The source is another one than when the copy began: what is there is of that moment. The same call brings the rest.
    SourceChanged,
    /// It was stopped; the same call goes on.
    Stopped,
}

/// What a copy did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Copied {
    /// How it ended.
    pub outcome: Outcome,
    /// Where from, without a password.
    pub from: String,
    /// Where to, without a password.
    pub to: String,
    /// Whether it went on with what an earlier call began.
    pub is_resumed: bool,
    /// Rows that this call copied.
    pub rows: u64,
    /// Rows that an earlier call had copied and that were another since.
    pub changed_rows: u64,
    /// Each table as it is in both databases; empty unless all were compared.
    pub tables: Vec<TableSum>,
}

/// The rows of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TableSum {
    /// Its name.
    pub name: &'static str,
    /// How many there are.
    pub rows: u64,
    /// The sum of their hashes (SHA-256 of each row), the same in both databases.
    pub sha256: String,
}

/// The versions of a schema before and after it was brought up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Migrated {
    /// 0 where there was no schema.
    pub from: u32,
    /// The newest one this program knows.
    pub to: u32,
}

/// Brings the schema of a database up to date, making it where there is none; opening a store does the same.
///
/// # Errors
/// When the database cannot be opened or written, or its schema is of a later version.
pub async fn migrate(end: End) -> Result<(String, Migrated)> {
    blocking(move || {
        let from = ends::version(&end)?;
        let opened = Opened::open(&end)?;
        Ok((opened.location(), Migrated { from, to: ends::version(&end)? }))
    })
    .await
}

/// Copies the journal at `from` into the database at `to`, which must be empty, or what an earlier call left unfinished.
///
/// # Errors
/// When a database cannot be opened, read or written; [`Error::Unfit`] when `to` holds anything else, and
/// [`Error::Unfinished`] when another copy into it, or a copy into `from`, is not finished. What is copied by then stays, for
/// the next call.
pub async fn copy(from: End, to: End, watch: Watch) -> Result<Copied> {
    blocking(move || copy_now(&from, &to, Purpose::Move, watch)).await
}

/// What a copy is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// The journal is to be used there from then on: nothing may be missing, and searches find everything at once.
    Move,
    /// Any moment of the journal will do, and its search index is made by the first search.
    Backup,
}

fn copy_now(from: &End, to: &End, purpose: Purpose, mut watch: Watch) -> Result<Copied> {
    let source = Opened::source(from)?;
    if from.is_file_of(to) {
        return Err(mark::same(source.location()));
    }
    check_whole(&source.tables(), &source.location()).map_err(|error| source.told(error))?;
    let target = Opened::target(to)?;
    let is_resumed = mark::begin(&source, &target)?;
    let mut copied = Copied {
        outcome: Outcome::Stopped,
        from: source.location(),
        to: target.location(),
        is_resumed,
        rows: 0,
        changed_rows: 0,
        tables: Vec::new(),
    };
    let ends = Ends { source: &source, target: &target };
    let mut moment = source.snapshot(|rows| {
        let counts = counts(rows).map_err(|error| source.told(error))?;
        let moment = Moment::of(rows).map_err(|error| source.told(error))?;
        if !fill::all(ends, rows, &counts, &mut copied.rows, &mut watch)? {
            return Ok(None);
        }
        let checked = compare::all(ends, rows, &counts, &mut watch)?;
        Ok(checked.map(|Checked { tables, changed_rows }| {
            (copied.tables, copied.changed_rows) = (tables, changed_rows);
            moment
        }))
    })?;
    let Some(moment) = &mut moment else { return Ok(copied) };
    copied.outcome = finished(ends, moment, &copied.tables, purpose, &mut watch)?;
    Ok(copied)
}

/// Makes the target whole, which has every row, unless the source is another one by then. That is looked for before the index
/// is made, which takes long, and again behind it.
fn finished(
    ends: Ends<'_>,
    moment: &mut Moment,
    tables: &[TableSum],
    purpose: Purpose,
    watch: &mut Watch,
) -> Result<Outcome> {
    let mut missed = |watch: &mut Watch| match purpose {
        Purpose::Move => moment.missed(ends.source, tables, watch),
        Purpose::Backup => Ok(None),
    };
    if let Some(outcome) = missed(watch)? {
        return Ok(outcome);
    }
    if !finish::prepare(ends, purpose, watch)? {
        return Ok(Outcome::Stopped);
    }
    if let Some(outcome) = missed(watch)? {
        return Ok(outcome);
    }
    finish::end(ends.target)?;
    Ok(Outcome::Whole)
}

/// The two databases of a copy.
#[derive(Clone, Copy)]
struct Ends<'a> {
    source: &'a Opened,
    target: &'a Opened,
}

/// How many rows each table has.
type Counts = Vec<u64>;

fn counts(connection: &Connection) -> Result<Counts> {
    let one = |table: &tables::Table| {
        let count = connection.prepare(&table.count())?.query_row((), |row| row.get::<_, i64>(0))?;
        Ok(count.unsigned_abs())
    };
    TABLES.iter().map(one).collect()
}

/// Does what blocks on a thread that may.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(Error::Closed))
}
