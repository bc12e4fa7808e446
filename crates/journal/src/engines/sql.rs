//! The SQL interface that tables use, for both engines: statements with parameters, rows and values.
//!
//! A table writes each statement once, in SQL that both engines accept (`$1` is the first parameter; `sql_functions`
//! gives SQLite the functions `strpos` and `encode`). Where the engines have no common syntax, the statement is
//! chosen by [`SqlDialect`]. This module knows no table, and neither opens connections nor commits.

mod values;

use std::borrow::Cow;
use std::ops::ControlFlow;

pub(crate) use postgres::SqlValue;
pub(crate) use values::{FromSqlValue, SqlParams, ToSqlValue};

use crate::engines::sqlite::prepare_error;
use crate::tables::threads::ThreadHeadCache;
use crate::{Error, Result};

/// The SQL dialect of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SqlDialect {
    /// SQLite.
    Sqlite,
    /// PostgreSQL.
    Postgres,
}

impl SqlDialect {
    /// Returns the query for the elements of a JSON array of texts. `list` is an SQL expression.
    pub(crate) fn json_texts_query(self, list: &str) -> String {
        match self {
            Self::Sqlite => format!("SELECT value FROM json_each({list})"),
            Self::Postgres => format!("SELECT json_array_elements_text({})", postgres_json(list)),
        }
    }

    /// Returns the expression for a field of a JSON object, as a text or NULL. `object` is an SQL expression.
    pub(crate) fn json_field(self, object: &str, name: &str) -> String {
        match self {
            Self::Sqlite => format!("json_extract({object}, '$.{name}')"),
            Self::Postgres => format!("({} ->> '{name}')", postgres_json(object)),
        }
    }

    /// Returns the name of the function that returns the lesser of two values.
    pub(crate) const fn lesser_function(self) -> &'static str {
        match self {
            Self::Sqlite => "min",
            Self::Postgres => "least",
        }
    }

    /// Returns the name of the function that returns the greater of two values.
    pub(crate) const fn greater_function(self) -> &'static str {
        match self {
            Self::Sqlite => "max",
            Self::Postgres => "greatest",
        }
    }

    /// Returns the expression for a column that prevents SQLite from using an index on it, because SQLite has no
    /// statistics here and would choose badly. PostgreSQL decides by its own statistics.
    pub(crate) fn without_index(self, column: &str) -> String {
        match self {
            Self::Sqlite => format!("+{column}"),
            Self::Postgres => column.to_owned(),
        }
    }
}

/// Returns the expression for a text as a JSON value of PostgreSQL. Stored JSON may contain the escape of a NUL character, at
/// which PostgreSQL refuses the whole object; it is read as U+FFFD.
fn postgres_json(text: &str) -> String {
    format!(r"CAST(replace({text}, '\u0000', '\ufffd') AS json)")
}

/// A connection of either engine, inside a transaction or a snapshot.
#[derive(Clone, Copy)]
pub(crate) enum SqlConnection<'a> {
    /// A SQLite connection.
    Sqlite(&'a rusqlite::Connection),
    /// A PostgreSQL connection, and the cached heads of the threads that the transaction writes to.
    Postgres(&'a postgres::Connection, &'a ThreadHeadCache),
}

impl<'a> SqlConnection<'a> {
    /// Returns the SQL dialect, for the few statements that differ.
    pub(crate) const fn dialect(&self) -> SqlDialect {
        match self {
            Self::Sqlite(_) => SqlDialect::Sqlite,
            Self::Postgres(..) => SqlDialect::Postgres,
        }
    }

    /// Prepares a statement. A connection caches its prepared statements.
    ///
    /// # Errors
    /// [`Error::Malformed`] if a table or column does not exist.
    pub(crate) fn prepare(&self, sql: &str) -> Result<SqlStatement<'a>> {
        Ok(match self {
            Self::Sqlite(connection) => {
                SqlStatement::Sqlite(connection.prepare_cached(sql).map_err(prepare_error)?)
            }
            Self::Postgres(connection, heads) => SqlStatement::Postgres(connection, heads, sql.to_owned()),
        })
    }

    /// Returns the cache of thread heads, which saves round trips within a transaction. SQLite has none, because a
    /// query costs no round trip there.
    pub(crate) const fn heads(&self) -> Option<&'a ThreadHeadCache> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(_, heads) => Some(heads),
        }
    }

    /// Executes a statement and returns the number of affected rows.
    pub(crate) fn execute(&self, sql: &str, params: impl SqlParams) -> Result<usize> {
        self.prepare(sql)?.execute(params)
    }
}

/// A prepared statement.
pub(crate) enum SqlStatement<'a> {
    /// A statement in the connection's cache.
    Sqlite(rusqlite::CachedStatement<'a>),
    /// The text of a statement. The connection prepares it when it is executed first.
    Postgres(&'a postgres::Connection, &'a ThreadHeadCache, String),
}

impl SqlStatement<'_> {
    /// Executes the statement and returns the number of affected rows.
    pub(crate) fn execute(&mut self, params: impl SqlParams) -> Result<usize> {
        match self {
            Self::Sqlite(statement) => {
                bind(statement, &params)?;
                Ok(statement.raw_execute()?)
            }
            Self::Postgres(connection, heads, sql) => {
                heads.flush(connection)?;
                let changed = connection.execute(sql, &params.values(SqlDialect::Postgres))?;
                Ok(usize::try_from(changed).unwrap_or(usize::MAX))
            }
        }
    }

    /// Executes the statement without returning the number of affected rows. On PostgreSQL the statement is
    /// pipelined: it does not wait for the response, and a failure is returned by the next statement that waits.
    pub(crate) fn execute_deferred(&mut self, params: impl SqlParams) -> Result<()> {
        match self {
            Self::Sqlite(_) => self.execute(params).map(|_| ()),
            Self::Postgres(connection, heads, sql) => {
                heads.flush(connection)?;
                let values = params.values(SqlDialect::Postgres).into_iter().map(SqlValue::into_owned);
                Ok(connection.send(sql, values.collect())?)
            }
        }
    }

    /// Executes the statement and passes its rows to `visit`, until the visitor breaks. All rows are held in memory
    /// on PostgreSQL, see [`Self::stream_rows`].
    pub(crate) fn for_each_row(
        &mut self,
        params: impl SqlParams,
        mut visit: impl FnMut(&SqlRow<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        match self {
            Self::Sqlite(statement) => {
                bind(statement, &params)?;
                let mut rows = statement.raw_query();
                while let Some(row) = rows.next()? {
                    if visit(&SqlRow::Sqlite(row))?.is_break() {
                        break;
                    }
                }
                Ok(())
            }
            Self::Postgres(connection, heads, sql) => {
                heads.flush(connection)?;
                for row in connection.query(sql, &params.values(SqlDialect::Postgres))? {
                    if visit(&SqlRow::Postgres(&row))?.is_break() {
                        break;
                    }
                }
                Ok(())
            }
        }
    }

    /// Executes the statement and passes its rows to `visit`, like [`Self::for_each_row`], but without holding all
    /// rows in memory. For statements of which many rows may be skipped before enough are found.
    pub(crate) fn stream_rows(
        &mut self,
        params: impl SqlParams,
        mut visit: impl FnMut(&SqlRow<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        match self {
            Self::Sqlite(_) => self.for_each_row(params, visit),
            Self::Postgres(connection, heads, sql) => {
                heads.flush(connection)?;
                let values = params.values(SqlDialect::Postgres);
                connection.stream(sql, &values, |row| visit(&SqlRow::Postgres(row)))
            }
        }
    }

    /// Executes the statement and returns all rows, each converted by `read`.
    pub(crate) fn query_map<T>(
        &mut self,
        params: impl SqlParams,
        mut read: impl FnMut(&SqlRow<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut values = Vec::new();
        self.for_each_row(params, |row| {
            values.push(read(row)?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(values)
    }

    /// Executes the statement and returns its first row, converted by `read`, or `None` if there is no row.
    pub(crate) fn query_optional<T>(
        &mut self,
        params: impl SqlParams,
        read: impl FnOnce(&SqlRow<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut read = Some(read);
        let mut value = None;
        self.for_each_row(params, |row| {
            value = read.take().map(|read| read(row)).transpose()?;
            Ok(ControlFlow::Break(()))
        })?;
        Ok(value)
    }

    /// Executes a statement that always returns a row, and returns that row, converted by `read`.
    ///
    /// # Errors
    /// [`Error::Malformed`] if there is no row.
    pub(crate) fn query_row<T>(
        &mut self,
        params: impl SqlParams,
        read: impl FnOnce(&SqlRow<'_>) -> Result<T>,
    ) -> Result<T> {
        self.query_optional(params, read)?.ok_or_else(|| Error::Malformed("a row is missing".to_owned()))
    }

    /// Executes the statement and returns whether it has any row.
    pub(crate) fn exists(&mut self, params: impl SqlParams) -> Result<bool> {
        Ok(self.query_optional(params, |_| Ok(()))?.is_some())
    }
}

/// Binds the N-th value to the parameter `$N`. SQLite treats `$N` as a name and numbers names in the order of their
/// first appearance. Like PostgreSQL, it fails unless the statement uses every value.
fn bind(statement: &mut rusqlite::CachedStatement<'_>, params: &impl SqlParams) -> Result<()> {
    let values = params.values(SqlDialect::Sqlite);
    let count = statement.parameter_count();
    if count != values.len() {
        return Err(rusqlite::Error::InvalidParameterCount(values.len(), count).into());
    }
    let mut values: Vec<Option<SqlValue<'_>>> = values.into_iter().map(Some).collect();
    for index in 1..=count {
        let name = statement.parameter_name(index).unwrap_or_default();
        let number = name.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok());
        let value = number.and_then(|number| values.get_mut(number.checked_sub(1)?)?.take());
        let value = value.ok_or_else(|| rusqlite::Error::InvalidParameterName(name.to_owned()))?;
        statement.raw_bind_parameter(index, values::SqliteParameter(value))?;
    }
    Ok(())
}

/// A row of a result.
#[derive(Clone, Copy)]
pub(crate) enum SqlRow<'a> {
    /// A row of SQLite.
    Sqlite(&'a rusqlite::Row<'a>),
    /// A row of PostgreSQL.
    Postgres(&'a postgres::Row),
}

/// A way to name a column: its zero-based index, or its name.
pub(crate) trait ColumnIndex: Copy {
    /// Returns the value of this column in a row of SQLite.
    fn sqlite_value<'a>(self, row: &'a rusqlite::Row<'_>) -> rusqlite::Result<rusqlite::types::ValueRef<'a>>;
    /// Returns the value of this column in a row of PostgreSQL.
    fn postgres_value(self, row: &postgres::Row) -> postgres::Result<SqlValue<'_>>;
}

impl ColumnIndex for usize {
    fn sqlite_value<'a>(self, row: &'a rusqlite::Row<'_>) -> rusqlite::Result<rusqlite::types::ValueRef<'a>> {
        row.get_ref(self)
    }

    fn postgres_value(self, row: &postgres::Row) -> postgres::Result<SqlValue<'_>> {
        row.get(self)
    }
}

impl ColumnIndex for &str {
    fn sqlite_value<'a>(self, row: &'a rusqlite::Row<'_>) -> rusqlite::Result<rusqlite::types::ValueRef<'a>> {
        row.get_ref(self)
    }

    fn postgres_value(self, row: &postgres::Row) -> postgres::Result<SqlValue<'_>> {
        row.get_by_name(self)
    }
}

impl SqlRow<'_> {
    /// Returns the value of a column without a conversion.
    pub(crate) fn get_value(&self, column: impl ColumnIndex) -> Result<SqlValue<'_>> {
        match self {
            Self::Sqlite(row) => values::from_sqlite(column.sqlite_value(row)?),
            Self::Postgres(row) => Ok(column.postgres_value(row)?),
        }
    }

    /// Returns the value of a column, converted to the expected type.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the value has another type.
    pub(crate) fn get<C: ColumnIndex, T: FromSqlValue>(&self, column: C) -> Result<T> {
        T::from_value(self.get_value(column)?)
    }

    /// Returns the text of a column. It is borrowed from the row where possible.
    pub(crate) fn get_text(&self, column: impl ColumnIndex) -> Result<Cow<'_, str>> {
        match self.get_value(column)? {
            SqlValue::Text(text) => Ok(text),
            other => Err(values::unexpected_value_error("a text", &other)),
        }
    }

    /// Returns the binary data of a column. It is borrowed from the row where possible.
    pub(crate) fn get_blob(&self, column: impl ColumnIndex) -> Result<Cow<'_, [u8]>> {
        match self.get_value(column)? {
            SqlValue::Blob(bytes) => Ok(bytes),
            other => Err(values::unexpected_value_error("binary data", &other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_bound_to_its_number_regardless_of_the_order_in_the_statement() {
        let sqlite = rusqlite::Connection::open_in_memory().unwrap();
        let connection = SqlConnection::Sqlite(&sqlite);
        for (first, second, third) in [("a", "b", "c"), ("d", "e", "f")] {
            let text: String = connection
                .prepare("SELECT $3 || $1 || $2 || $1 WHERE $2 <> $3")
                .and_then(|mut statement| statement.query_row((first, second, third), |row| row.get(0)))
                .unwrap();
            assert_eq!(text, format!("{third}{first}{second}{first}"));
        }
    }

    #[test]
    fn a_statement_that_does_not_use_every_value_is_refused() {
        let sqlite = rusqlite::Connection::open_in_memory().unwrap();
        let connection = SqlConnection::Sqlite(&sqlite);
        for sql in ["SELECT $1", "SELECT $1, $3", "SELECT $1, $2, $3", "SELECT ?1, ?2", "SELECT $1, $name"] {
            let result = connection.prepare(sql).unwrap().exists(("a", "b"));
            assert!(result.is_err(), "{sql}");
        }
    }
}
