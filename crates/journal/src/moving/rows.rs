//! Rows on their way: read a page at a time, written as the other engine stores them, and as numbers that tell whether two
//! tables hold the same. Which tables there are is said in `tables`.

use std::ops::ControlFlow;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::tables::{Kind, Table};
use crate::engines::sql::{Connection, Dialect, FromValue, Row, ToValue, Value};
use crate::tables::columns::{Stored, instant, integer};
use crate::{Error, Result};

/// Rows that one statement stores: to have each travel alone costs more than to write it.
const ROWS_TOGETHER: usize = 32;

/// A row, or the beginning of one: its key.
pub(super) type Values = Vec<Value<'static>>;

/// Some rows of a table, in the order of its key.
pub(super) struct Page {
    pub(super) rows: Vec<Values>,
    /// How many bytes they have, about.
    pub(super) bytes: usize,
}

impl Table {
    /// Returns the rows behind a key, or the first ones: none when there are no more.
    pub(super) fn page(&self, connection: &Connection, behind: Option<&[Value<'static>]>) -> Result<Page> {
        let dialect = connection.dialect();
        let mut page = Page { rows: Vec::new(), bytes: 0 };
        let mut take = |row: &Row<'_>| {
            let row = self.read(row)?;
            page.bytes += row.iter().map(bytes_of).sum::<usize>();
            page.rows.push(row);
            Ok(ControlFlow::Continue(()))
        };
        let limit = Value::Integer(integer(self.rows_max as u64));
        match behind {
            None => connection.prepare(&self.first(dialect))?.each([limit], &mut take)?,
            Some(key) => {
                let params: Vec<_> = key.iter().cloned().chain([limit]).collect();
                connection.prepare(&self.behind(dialect))?.each(&params[..], &mut take)?;
            }
        }
        Ok(page)
    }

    /// Returns the sum of all rows; `None` when `goes_on`, which is told of some more of them each time, says so.
    pub(super) fn sum(
        &self,
        connection: &Connection,
        mut goes_on: impl FnMut(usize) -> bool,
    ) -> Result<Option<Sum>> {
        let mut sum = Sum::default();
        let mut behind = None;
        loop {
            let Page { rows, .. } = self.page(connection, behind.as_deref())?;
            let Some(last) = rows.last() else { return Ok(Some(sum)) };
            behind = Some(self.key_of(last).to_vec());
            for row in &rows {
                sum.add(self.digest(row)?);
            }
            if !goes_on(rows.len()) {
                return Ok(None);
            }
        }
    }

    /// Returns the row with a key, or `None`.
    pub(super) fn find(&self, connection: &Connection, key: &[Value<'static>]) -> Result<Option<Values>> {
        connection.prepare(&self.one(connection.dialect()))?.find(key, |row| self.read(row))
    }

    /// Returns the key of the last row, or `None`.
    pub(super) fn last_key(&self, connection: &Connection) -> Result<Option<Values>> {
        connection
            .prepare(&self.last())?
            .find((), |row| (0..self.keys).map(|at| row.value(at).map(Value::into_owned)).collect())
    }

    pub(super) fn key_of<'a>(&self, row: &'a [Value<'static>]) -> &'a [Value<'static>] {
        &row[..self.keys]
    }

    fn read(&self, row: &Row<'_>) -> Result<Values> {
        (0..self.columns.len()).map(|at| row.value(at).map(Value::into_owned)).collect()
    }

    /// Stores rows, which are as any engine stores them.
    pub(super) fn store(&self, connection: &Connection, rows: Vec<Values>) -> Result<()> {
        let dialect = connection.dialect();
        let mut flat = Vec::with_capacity(ROWS_TOGETHER.min(rows.len()) * self.columns.len());
        let (mut waiting, mut left) = (0, rows.len());
        for row in rows {
            flat.extend(self.written(row, dialect)?);
            (waiting, left) = (waiting + 1, left - 1);
            // Few lengths of statements, so that each is prepared once.
            if waiting == ROWS_TOGETHER || left + waiting < ROWS_TOGETHER {
                connection.prepare(&self.insert(waiting))?.send(&flat[..])?;
                flat.clear();
                waiting = 0;
            }
        }
        Ok(())
    }

    /// Stores a row in place of the one with its key, if there is one.
    pub(super) fn put(&self, connection: &Connection, row: Values) -> Result<()> {
        let row = self.written(row, connection.dialect())?;
        connection.prepare(&self.put_one())?.send(&row[..])
    }

    /// Returns a row as an engine stores it.
    fn written(&self, row: Values, dialect: Dialect) -> Result<Values> {
        let written = row.into_iter().zip(self.columns).map(|(value, column)| match column.kind {
            Kind::Instant => moment(value, dialect),
            Kind::Plain | Kind::TurnFloor => Ok(value),
        });
        written.collect()
    }

    /// Removes the row with a key.
    pub(super) fn take_out(&self, connection: &Connection, key: &[Value<'static>]) -> Result<()> {
        connection.prepare(&self.remove())?.send(key)
    }

    /// Returns what is the same number for the same row, whichever engine stores it.
    pub(super) fn digest(&self, row: &[Value<'static>]) -> Result<[u8; 32]> {
        let mut hash = Sha256::new();
        for (value, column) in row.iter().zip(self.columns) {
            match (value, column.kind) {
                (_, Kind::TurnFloor) => {}
                (Value::Null, _) => hash.update([0]),
                (value, Kind::Instant) => {
                    let Stored(moment) = Stored::<Timestamp>::from_value(value.clone())?;
                    hash.update([1]);
                    hash.update(moment.as_nanosecond().to_be_bytes());
                }
                (Value::Integer(number), _) => {
                    hash.update([2]);
                    hash.update(number.to_be_bytes());
                }
                (Value::Text(text), _) => {
                    hash.update([3]);
                    hash.update((text.len() as u64).to_be_bytes());
                    hash.update(text.as_bytes());
                }
                (Value::Blob(bytes), _) => {
                    hash.update([4]);
                    hash.update((bytes.len() as u64).to_be_bytes());
                    hash.update(bytes);
                }
                (Value::Real(_) | Value::Integers(_) | Value::Texts(_) | Value::Blobs(_), _) => {
                    return Err(Error::Malformed(format!("no column of {} holds such a value", self.name)));
                }
            }
        }
        Ok(hash.finalize().into())
    }
}

/// Returns a moment as an engine stores it.
fn moment(value: Value<'static>, dialect: Dialect) -> Result<Value<'static>> {
    match value {
        Value::Null => Ok(Value::Null),
        value => {
            let Stored(moment) = Stored::<Timestamp>::from_value(value)?;
            Ok(instant(moment).to_value(dialect).into_owned())
        }
    }
}

fn bytes_of(value: &Value<'_>) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Blob(bytes) => bytes.len(),
        Value::Null
        | Value::Integer(_)
        | Value::Real(_)
        | Value::Integers(_)
        | Value::Texts(_)
        | Value::Blobs(_) => size_of::<i64>(),
    }
}

/// The rows of a table, added up: how many there are, and a number that any other row, or any other number of them, makes
/// another one. The order does not count, because the engines sort texts with a NUL in them differently.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) rows: u64,
    digest: [u64; 4],
}

impl Sum {
    /// Adds a row.
    pub(super) fn add(&mut self, digest: [u8; 32]) {
        self.rows += 1;
        let (words, _) = digest.as_chunks::<8>();
        let mut carry = false;
        for (sum, word) in self.digest.iter_mut().zip(words) {
            let (added, over) = sum.overflowing_add(u64::from_le_bytes(*word));
            let (added, again) = added.overflowing_add(carry.into());
            (*sum, carry) = (added, over || again);
        }
    }

    /// Returns the number in hexadecimal digits.
    pub(super) fn hex(&self) -> String {
        self.digest.iter().rev().map(|word| format!("{word:016x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_another_one_for_other_rows_and_the_same_in_any_order() {
        let sum = |rows: &[&[u8]]| {
            let mut sum = Sum::default();
            rows.iter().for_each(|row| sum.add(Sha256::digest(row).into()));
            sum
        };
        assert_eq!(sum(&[b"a", b"b", b"c"]), sum(&[b"c", b"a", b"b"]));
        assert_ne!(sum(&[b"a", b"b"]), sum(&[b"a", b"c"]));
        assert_ne!(sum(&[b"a", b"a"]), sum(&[b"a"]));
        assert_ne!(sum(&[b"a", b"a"]), sum(&[b"b", b"b"]), "two of a kind do not cancel each other");
        let mut over = Sum { rows: 0, digest: [u64::MAX; 4] };
        let mut one = [0; 32];
        one[0] = 1;
        over.add(one);
        assert_eq!(over, Sum { rows: 1, digest: [0; 4] });
        assert_eq!(sum(&[]).hex(), "0".repeat(64));
    }
}
