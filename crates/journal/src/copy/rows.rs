//! Rows during a copy: reading pages, writing rows in the form of the other engine, and computing checksums. `tables`
//! lists the tables.

use std::ops::ControlFlow;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::tables::{ColumnKind, CopyTable};
use crate::engines::sql::{FromSqlValue, SqlConnection, SqlDialect, SqlRow, SqlValue, ToSqlValue};
use crate::tables::columns::{StoredColumn, compact_timestamp, encode_counter};
use crate::{Error, Result};

/// Number of rows that one statement inserts. Inserting each row with its own round trip would cost more than writing
/// it.
const INSERT_BATCH_ROWS: usize = 32;

/// The values of a row, or of its key only.
pub(super) type RowValues = Vec<SqlValue<'static>>;

/// A page of rows of a table, in the order of the primary key.
pub(super) struct RowPage {
    /// The rows.
    pub(super) rows: Vec<RowValues>,
    /// Approximate size of the rows in bytes.
    pub(super) bytes: usize,
}

impl CopyTable {
    /// Returns the rows after a key, or the first rows. Empty if there are no more.
    pub(super) fn read_page(
        &self,
        connection: &SqlConnection,
        last_key: Option<&[SqlValue<'static>]>,
    ) -> Result<RowPage> {
        let dialect = connection.dialect();
        let mut page = RowPage { rows: Vec::new(), bytes: 0 };
        let mut add_row = |row: &SqlRow<'_>| {
            let row = self.read_row(row)?;
            page.bytes += row.iter().map(value_bytes).sum::<usize>();
            page.rows.push(row);
            Ok(ControlFlow::Continue(()))
        };
        let limit = SqlValue::Integer(encode_counter(self.rows_max as u64));
        match last_key {
            None => connection.prepare(&self.first_page_sql(dialect))?.for_each_row([limit], &mut add_row)?,
            Some(key) => {
                let params: Vec<_> = key.iter().cloned().chain([limit]).collect();
                connection.prepare(&self.next_page_sql(dialect))?.for_each_row(&params[..], &mut add_row)?;
            }
        }
        Ok(page)
    }

    /// Returns the checksum of the table, or `None` if `on_rows`, which is called with the number of rows of each
    /// page, returns `false`.
    pub(super) fn checksum(
        &self,
        connection: &SqlConnection,
        mut on_rows: impl FnMut(usize) -> bool,
    ) -> Result<Option<RowChecksum>> {
        let mut checksum = RowChecksum::default();
        let mut last_key = None;
        loop {
            let RowPage { rows, .. } = self.read_page(connection, last_key.as_deref())?;
            let Some(last_row) = rows.last() else { return Ok(Some(checksum)) };
            last_key = Some(self.row_key(last_row).to_vec());
            for row in &rows {
                checksum.add_row(self.row_digest(row)?);
            }
            if !on_rows(rows.len()) {
                return Ok(None);
            }
        }
    }

    /// Returns the row with a key, or `None`.
    pub(super) fn find_row(
        &self,
        connection: &SqlConnection,
        key: &[SqlValue<'static>],
    ) -> Result<Option<RowValues>> {
        connection
            .prepare(&self.find_row_sql(connection.dialect()))?
            .query_optional(key, |row| self.read_row(row))
    }

    /// Returns the row before a key, or the last row. `None` if there is none.
    pub(super) fn read_previous_row(
        &self,
        connection: &SqlConnection,
        key: Option<&[SqlValue<'static>]>,
    ) -> Result<Option<RowValues>> {
        let sql = match key {
            Some(_) => self.previous_row_sql(connection.dialect()),
            None => self.last_row_sql(connection.dialect()),
        };
        connection.prepare(&sql)?.query_optional(key.unwrap_or_default(), |row| self.read_row(row))
    }

    /// Returns the key of the last row, or `None` if the table is empty.
    pub(super) fn last_key(&self, connection: &SqlConnection) -> Result<Option<RowValues>> {
        connection.prepare(&self.last_key_sql())?.query_optional((), |row| {
            (0..self.key_count).map(|index| row.get_value(index).map(SqlValue::into_owned)).collect()
        })
    }

    /// Returns the key of a row.
    pub(super) fn row_key<'a>(&self, row: &'a [SqlValue<'static>]) -> &'a [SqlValue<'static>] {
        &row[..self.key_count]
    }

    /// Reads all columns of a row.
    fn read_row(&self, row: &SqlRow<'_>) -> Result<RowValues> {
        (0..self.columns.len()).map(|index| row.get_value(index).map(SqlValue::into_owned)).collect()
    }

    /// Inserts rows. Their values may have the form of either engine.
    pub(super) fn insert_rows(&self, connection: &SqlConnection, rows: Vec<RowValues>) -> Result<()> {
        let dialect = connection.dialect();
        let mut flat = Vec::with_capacity(INSERT_BATCH_ROWS.min(rows.len()) * self.columns.len());
        let (mut pending, mut remaining) = (0, rows.len());
        for row in rows {
            flat.extend(self.encode_row(row, dialect)?);
            (pending, remaining) = (pending + 1, remaining - 1);
            // Use as few different statement lengths as possible, because each statement is prepared once.
            if pending == INSERT_BATCH_ROWS || remaining + pending < INSERT_BATCH_ROWS {
                connection.prepare(&self.insert_sql(pending))?.execute_deferred(&flat[..])?;
                flat.clear();
                pending = 0;
            }
        }
        Ok(())
    }

    /// Inserts a row, or replaces the row with the same key.
    pub(super) fn upsert_row(&self, connection: &SqlConnection, row: RowValues) -> Result<()> {
        let row = self.encode_row(row, connection.dialect())?;
        connection.prepare(&self.upsert_sql())?.execute_deferred(&row[..])
    }

    /// Converts the values of a row to the form of an engine.
    fn encode_row(&self, row: RowValues, dialect: SqlDialect) -> Result<RowValues> {
        let values = row.into_iter().zip(self.columns).map(|(value, column)| match column.kind {
            ColumnKind::Timestamp => encode_timestamp(value, dialect),
            ColumnKind::Plain | ColumnKind::TurnFloor => Ok(value),
        });
        values.collect()
    }

    /// Deletes the row with a key.
    pub(super) fn delete_row(&self, connection: &SqlConnection, key: &[SqlValue<'static>]) -> Result<()> {
        connection.prepare(&self.delete_sql())?.execute_deferred(key)
    }

    /// Returns the SHA-256 of a row, which does not depend on the engine.
    pub(super) fn row_digest(&self, row: &[SqlValue<'static>]) -> Result<[u8; 32]> {
        let mut hash = Sha256::new();
        for (value, column) in row.iter().zip(self.columns) {
            match (value, column.kind) {
                (_, ColumnKind::TurnFloor) => {}
                (SqlValue::Null, _) => hash.update([0]),
                (value, ColumnKind::Timestamp) => {
                    let StoredColumn(time) = StoredColumn::<Timestamp>::from_value(value.clone())?;
                    hash.update([1]);
                    hash.update(time.as_nanosecond().to_be_bytes());
                }
                (SqlValue::Integer(number), _) => {
                    hash.update([2]);
                    hash.update(number.to_be_bytes());
                }
                (SqlValue::Text(text), _) => {
                    hash.update([3]);
                    hash.update((text.len() as u64).to_be_bytes());
                    hash.update(text.as_bytes());
                }
                (SqlValue::Blob(bytes), _) => {
                    hash.update([4]);
                    hash.update((bytes.len() as u64).to_be_bytes());
                    hash.update(bytes);
                }
                (SqlValue::Real(_) | SqlValue::Integers(_) | SqlValue::Texts(_) | SqlValue::Blobs(_), _) => {
                    return Err(Error::Malformed(format!(
                        "a column of {} has a value of an unexpected type",
                        self.name
                    )));
                }
            }
        }
        Ok(hash.finalize().into())
    }
}

/// Converts a time to the form of an engine.
fn encode_timestamp(value: SqlValue<'static>, dialect: SqlDialect) -> Result<SqlValue<'static>> {
    match value {
        SqlValue::Null => Ok(SqlValue::Null),
        value => {
            let StoredColumn(time) = StoredColumn::<Timestamp>::from_value(value)?;
            Ok(compact_timestamp(time).to_value(dialect).into_owned())
        }
    }
}

/// Returns the approximate size of a value in bytes.
fn value_bytes(value: &SqlValue<'_>) -> usize {
    match value {
        SqlValue::Text(text) => text.len(),
        SqlValue::Blob(bytes) => bytes.len(),
        SqlValue::Null
        | SqlValue::Integer(_)
        | SqlValue::Real(_)
        | SqlValue::Integers(_)
        | SqlValue::Texts(_)
        | SqlValue::Blobs(_) => size_of::<i64>(),
    }
}

/// The checksum of a table: the number of rows, and the sum of their hashes modulo 2^256. The order of rows does not
/// matter, because the engines sort texts with NUL characters differently. Unlike an XOR, a sum does not cancel equal
/// rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RowChecksum {
    /// Number of rows.
    pub(super) rows: u64,
    /// The sum, as little-endian words.
    digest: [u64; 4],
}

impl RowChecksum {
    /// Adds a row.
    pub(super) fn add_row(&mut self, digest: [u8; 32]) {
        self.rows += 1;
        let (words, _) = digest.as_chunks::<8>();
        let mut carry = false;
        for (sum, word) in self.digest.iter_mut().zip(words) {
            let (added, overflow) = sum.overflowing_add(u64::from_le_bytes(*word));
            let (added, carry_overflow) = added.overflowing_add(carry.into());
            (*sum, carry) = (added, overflow || carry_overflow);
        }
    }

    /// Returns the sum in hexadecimal digits.
    pub(super) fn to_hex(self) -> String {
        self.digest.iter().rev().map(|word| format!("{word:016x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_depends_on_the_rows_but_not_on_their_order() {
        let sum = |rows: &[&[u8]]| {
            let mut sum = RowChecksum::default();
            rows.iter().for_each(|row| sum.add_row(Sha256::digest(row).into()));
            sum
        };
        assert_eq!(sum(&[b"a", b"b", b"c"]), sum(&[b"c", b"a", b"b"]));
        assert_ne!(sum(&[b"a", b"b"]), sum(&[b"a", b"c"]));
        assert_ne!(sum(&[b"a", b"a"]), sum(&[b"a"]));
        assert_ne!(sum(&[b"a", b"a"]), sum(&[b"b", b"b"]), "equal rows do not cancel each other");
        let mut maximal = RowChecksum { rows: 0, digest: [u64::MAX; 4] };
        let mut digest = [0; 32];
        digest[0] = 1;
        maximal.add_row(digest);
        assert_eq!(maximal, RowChecksum { rows: 1, digest: [0; 4] });
        assert_eq!(sum(&[]).to_hex(), "0".repeat(64));
    }
}
