//! The little of an engine that tables need: statements with parameters, rows, values. A table writes its SQL once, in words
//! that both engines read (`$1` is the first parameter; SQLite has the functions `strpos` and `encode` from `portable`). Where
//! the engines have no words in common, the statement is chosen by [`Dialect`]. No table is known here, and nothing is opened
//! or committed.

mod values;

use std::borrow::Cow;
use std::ops::ControlFlow;

pub(crate) use postgres::Value;
pub(crate) use values::{FromValue, Params, ToValue};

use crate::engines::sqlite::of_preparing;
use crate::tables::threads::Heads;
use crate::{Error, Result};

/// What stores the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

impl Dialect {
    /// Returns the query for the elements of a JSON list of texts.
    pub(crate) fn texts_in_list(self, list: &str) -> String {
        match self {
            Self::Sqlite => format!("SELECT value FROM json_each({list})"),
            Self::Postgres => format!("SELECT json_array_elements_text(CAST({list} AS json))"),
        }
    }

    /// Returns the expression for a field of a JSON object, a text or NULL.
    pub(crate) fn json_field(self, object: &str, name: &str) -> String {
        match self {
            Self::Sqlite => format!("json_extract({object}, '$.{name}')"),
            Self::Postgres => format!("(CAST({object} AS json) ->> '{name}')"),
        }
    }

    /// Returns the expression for a column that keeps SQLite, which has no statistics, from using an index on it. PostgreSQL
    /// decides by what it knows of the rows.
    pub(crate) fn unindexed(self, column: &str) -> String {
        match self {
            Self::Sqlite => format!("+{column}"),
            Self::Postgres => column.to_owned(),
        }
    }
}

/// A connection on which a transaction goes on, or a question is answered.
#[derive(Clone, Copy)]
pub(crate) enum Connection<'a> {
    Sqlite(&'a rusqlite::Connection),
    Postgres(&'a postgres::Connection, &'a Heads),
}

impl<'a> Connection<'a> {
    /// Returns what stores the rows, for the few statements that differ.
    pub(crate) const fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) => Dialect::Sqlite,
            Self::Postgres(..) => Dialect::Postgres,
        }
    }

    /// Returns the statement, prepared the first time.
    pub(crate) fn prepare(&self, sql: &str) -> Result<Statement<'a>> {
        Ok(match self {
            Self::Sqlite(connection) => {
                Statement::Sqlite(connection.prepare_cached(sql).map_err(of_preparing)?)
            }
            Self::Postgres(connection, heads) => Statement::Postgres(connection, heads, sql.to_owned()),
        })
    }

    /// Returns what is known of threads within this transaction, where asking the engine again would take a journey.
    pub(crate) const fn heads(&self) -> Option<&'a Heads> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(_, heads) => Some(heads),
        }
    }

    /// Performs a statement, and returns how many rows it changed.
    pub(crate) fn execute(&self, sql: &str, params: impl Params) -> Result<usize> {
        self.prepare(sql)?.execute(params)
    }
}

/// A prepared statement.
pub(crate) enum Statement<'a> {
    Sqlite(rusqlite::CachedStatement<'a>),
    Postgres(&'a postgres::Connection, &'a Heads, String),
}

impl Statement<'_> {
    /// Performs it, and returns how many rows it changed.
    pub(crate) fn execute(&mut self, params: impl Params) -> Result<usize> {
        match self {
            Self::Sqlite(statement) => {
                bind(statement, &params)?;
                Ok(statement.raw_execute()?)
            }
            Self::Postgres(connection, heads, sql) => {
                heads.store(connection)?;
                let changed = connection.execute(sql, &params.values(Dialect::Postgres))?;
                Ok(usize::try_from(changed).unwrap_or(usize::MAX))
            }
        }
    }

    /// Performs it; how many rows it changed is nobody's matter. Where that spares a journey it has happened only when the
    /// next answer is there.
    pub(crate) fn send(&mut self, params: impl Params) -> Result<()> {
        match self {
            Self::Sqlite(_) => self.execute(params).map(|_| ()),
            Self::Postgres(connection, heads, sql) => {
                heads.store(connection)?;
                let values = params.values(Dialect::Postgres).into_iter().map(Value::into_owned);
                Ok(connection.send(sql, values.collect())?)
            }
        }
    }

    /// Shows each row to `look`, until that has seen enough.
    pub(crate) fn each(
        &mut self,
        params: impl Params,
        mut look: impl FnMut(&Row<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        match self {
            Self::Sqlite(statement) => {
                bind(statement, &params)?;
                let mut rows = statement.raw_query();
                while let Some(row) = rows.next()? {
                    if look(&Row::Sqlite(row))?.is_break() {
                        break;
                    }
                }
                Ok(())
            }
            Self::Postgres(connection, heads, sql) => {
                heads.store(connection)?;
                for row in connection.query(sql, &params.values(Dialect::Postgres))? {
                    if look(&Row::Postgres(&row))?.is_break() {
                        break;
                    }
                }
                Ok(())
            }
        }
    }

    /// Shows each row to `look`, as [`Self::each`] does, without holding them all: for statements of which much may be passed
    /// by before enough is seen.
    pub(crate) fn stream(
        &mut self,
        params: impl Params,
        mut look: impl FnMut(&Row<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        match self {
            Self::Sqlite(_) => self.each(params, look),
            Self::Postgres(connection, heads, sql) => {
                heads.store(connection)?;
                let values = params.values(Dialect::Postgres);
                connection.stream(sql, &values, |row| look(&Row::Postgres(row)))
            }
        }
    }

    /// Returns what `read` makes of each row.
    pub(crate) fn query_map<T>(
        &mut self,
        params: impl Params,
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut all = Vec::new();
        self.each(params, |row| {
            all.push(read(row)?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(all)
    }

    /// Returns what `read` makes of the first row, or `None`.
    pub(crate) fn find<T>(
        &mut self,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut read = Some(read);
        let mut found = None;
        self.each(params, |row| {
            found = read.take().map(|read| read(row)).transpose()?;
            Ok(ControlFlow::Break(()))
        })?;
        Ok(found)
    }

    /// Returns what `read` makes of the first row of a statement that always gives one.
    pub(crate) fn query_row<T>(
        &mut self,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        self.find(params, read)?.ok_or_else(|| Error::Malformed("a row is missing".to_owned()))
    }

    /// Returns whether it gives any row.
    pub(crate) fn exists(&mut self, params: impl Params) -> Result<bool> {
        Ok(self.find(params, |_| Ok(()))?.is_some())
    }
}

/// Binds the value with the number N to `$N`. SQLite takes `$N` for a name, and counts names in the order in which they first
/// appear. As PostgreSQL does, it fails unless the statement uses every value.
fn bind(statement: &mut rusqlite::CachedStatement<'_>, params: &impl Params) -> Result<()> {
    let values = params.values(Dialect::Sqlite);
    let count = statement.parameter_count();
    if count != values.len() {
        return Err(rusqlite::Error::InvalidParameterCount(values.len(), count).into());
    }
    let mut values: Vec<Option<Value<'_>>> = values.into_iter().map(Some).collect();
    for at in 1..=count {
        let name = statement.parameter_name(at).unwrap_or_default();
        let number = name.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok());
        let value = number.and_then(|number| values.get_mut(number.checked_sub(1)?)?.take());
        let value = value.ok_or_else(|| rusqlite::Error::InvalidParameterName(name.to_owned()))?;
        statement.raw_bind_parameter(at, values::Bound(value))?;
    }
    Ok(())
}

/// A row of an answer.
#[derive(Clone, Copy)]
pub(crate) enum Row<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    Postgres(&'a postgres::Row),
}

/// A column, by its place or by its name.
pub(crate) trait Column: Copy {
    fn of_sqlite<'a>(self, row: &'a rusqlite::Row<'_>) -> rusqlite::Result<rusqlite::types::ValueRef<'a>>;
    fn of_postgres(self, row: &postgres::Row) -> postgres::Result<Value<'_>>;
}

impl Column for usize {
    fn of_sqlite<'a>(self, row: &'a rusqlite::Row<'_>) -> rusqlite::Result<rusqlite::types::ValueRef<'a>> {
        row.get_ref(self)
    }

    fn of_postgres(self, row: &postgres::Row) -> postgres::Result<Value<'_>> {
        row.at(self)
    }
}

impl Column for &str {
    fn of_sqlite<'a>(self, row: &'a rusqlite::Row<'_>) -> rusqlite::Result<rusqlite::types::ValueRef<'a>> {
        row.get_ref(self)
    }

    fn of_postgres(self, row: &postgres::Row) -> postgres::Result<Value<'_>> {
        row.named(self)
    }
}

impl Row<'_> {
    /// Returns the value of a column, as it is stored.
    pub(crate) fn value(&self, column: impl Column) -> Result<Value<'_>> {
        match self {
            Self::Sqlite(row) => values::of_sqlite(column.of_sqlite(row)?),
            Self::Postgres(row) => Ok(column.of_postgres(row)?),
        }
    }

    /// Returns the value of a column.
    pub(crate) fn get<C: Column, T: FromValue>(&self, column: C) -> Result<T> {
        T::from_value(self.value(column)?)
    }

    /// Returns the text of a column, without a copy of it where there need be none.
    pub(crate) fn text(&self, column: impl Column) -> Result<Cow<'_, str>> {
        match self.value(column)? {
            Value::Text(text) => Ok(text),
            other => Err(values::unexpected("a text", &other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_goes_where_its_number_is_wherever_that_appears_first() {
        let sqlite = rusqlite::Connection::open_in_memory().unwrap();
        let connection = Connection::Sqlite(&sqlite);
        for (one, two, three) in [("a", "b", "c"), ("d", "e", "f")] {
            let found: String = connection
                .prepare("SELECT $3 || $1 || $2 || $1 WHERE $2 <> $3")
                .and_then(|mut statement| statement.query_row((one, two, three), |row| row.get(0)))
                .unwrap();
            assert_eq!(found, format!("{three}{one}{two}{one}"));
        }
    }

    #[test]
    fn a_statement_that_does_not_use_every_value_is_refused() {
        let sqlite = rusqlite::Connection::open_in_memory().unwrap();
        let connection = Connection::Sqlite(&sqlite);
        for sql in ["SELECT $1", "SELECT $1, $3", "SELECT $1, $2, $3", "SELECT ?1, ?2", "SELECT $1, $name"] {
            let found = connection.prepare(sql).unwrap().exists(("a", "b"));
            assert!(found.is_err(), "{sql}");
        }
    }
}
