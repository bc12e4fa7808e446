//! Conversions between Rust types and SQL values, for parameters and columns.

use std::borrow::Cow;

use rusqlite::types::{ToSqlOutput, ValueRef};

use super::{SqlDialect, SqlValue};
use crate::{Error, Result};

/// A type that can be a parameter of a statement.
pub(crate) trait ToSqlValue {
    /// Returns the value in the form in which the engine stores it.
    fn to_value(&self, dialect: SqlDialect) -> SqlValue<'_>;
}

/// A type that a column can be read as.
pub(crate) trait FromSqlValue: Sized {
    /// Converts a value of a column.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the value has another type or is out of range.
    fn from_value(value: SqlValue<'_>) -> Result<Self>;
}

/// The parameters of a statement, in order: a tuple, an array or a slice of values.
pub(crate) trait SqlParams {
    /// Returns the values in the form in which the engine stores them.
    fn values(&self, dialect: SqlDialect) -> Vec<SqlValue<'_>>;
}

/// Returns the error for a value of an unexpected type.
pub(super) fn unexpected_value_error(expected: &str, actual: &SqlValue<'_>) -> Error {
    let actual = match actual {
        SqlValue::Null => "NULL",
        SqlValue::Integer(_) => "an integer",
        SqlValue::Real(_) => "a floating-point number",
        SqlValue::Text(_) => "a text",
        SqlValue::Blob(_) => "binary data",
        SqlValue::Integers(_) | SqlValue::Texts(_) | SqlValue::Blobs(_) => "a list",
    };
    Error::Malformed(format!("{expected} is expected, not {actual}"))
}

/// Converts a value that SQLite returned.
pub(super) fn from_sqlite(value: ValueRef<'_>) -> Result<SqlValue<'_>> {
    Ok(match value {
        ValueRef::Null => SqlValue::Null,
        ValueRef::Integer(number) => SqlValue::Integer(number),
        ValueRef::Real(number) => SqlValue::Real(number),
        ValueRef::Text(bytes) => {
            let text = std::str::from_utf8(bytes).map_err(|error| Error::Malformed(error.to_string()))?;
            SqlValue::Text(Cow::Borrowed(text))
        }
        ValueRef::Blob(bytes) => SqlValue::Blob(Cow::Borrowed(bytes)),
    })
}

/// A value as a parameter of SQLite.
pub(super) struct SqliteParameter<'a>(pub(super) SqlValue<'a>);

impl rusqlite::ToSql for SqliteParameter<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match &self.0 {
            SqlValue::Null => ValueRef::Null,
            SqlValue::Integer(number) => ValueRef::Integer(*number),
            SqlValue::Real(number) => ValueRef::Real(*number),
            SqlValue::Text(text) => ValueRef::Text(text.as_bytes()),
            SqlValue::Blob(bytes) => ValueRef::Blob(bytes),
            SqlValue::Integers(_) | SqlValue::Texts(_) | SqlValue::Blobs(_) => {
                let reason = "SQLite has no lists".into();
                return Err(rusqlite::Error::ToSqlConversionFailure(reason));
            }
        }))
    }
}

macro_rules! impl_to_sql_value_for_integers {
    ($($type:ty),*) => { $(
        impl ToSqlValue for $type {
            fn to_value(&self, _: SqlDialect) -> SqlValue<'_> {
                SqlValue::Integer(i64::from(*self))
            }
        }
    )* };
}

impl_to_sql_value_for_integers!(bool, i8, i32, u32, i64);

macro_rules! impl_from_sql_value_for_integers {
    ($($type:ty),*) => { $(
        impl FromSqlValue for $type {
            fn from_value(value: SqlValue<'_>) -> Result<Self> {
                let number = i64::from_value(value)?;
                Self::try_from(number).map_err(|_| Error::Malformed(format!("{number} is out of range")))
            }
        }
    )* };
}

impl_from_sql_value_for_integers!(i8, u32);

impl FromSqlValue for i64 {
    fn from_value(value: SqlValue<'_>) -> Result<Self> {
        match value {
            SqlValue::Integer(number) => Ok(number),
            value => Err(unexpected_value_error("an integer", &value)),
        }
    }
}

impl FromSqlValue for bool {
    fn from_value(value: SqlValue<'_>) -> Result<Self> {
        Ok(i64::from_value(value)? != 0)
    }
}

impl FromSqlValue for f64 {
    fn from_value(value: SqlValue<'_>) -> Result<Self> {
        match value {
            SqlValue::Real(number) => Ok(number),
            other => Err(unexpected_value_error("a floating-point number", &other)),
        }
    }
}

impl FromSqlValue for String {
    fn from_value(value: SqlValue<'_>) -> Result<Self> {
        match value {
            SqlValue::Text(text) => Ok(text.into_owned()),
            other => Err(unexpected_value_error("a text", &other)),
        }
    }
}

impl FromSqlValue for Vec<u8> {
    fn from_value(value: SqlValue<'_>) -> Result<Self> {
        match value {
            SqlValue::Blob(bytes) => Ok(bytes.into_owned()),
            other => Err(unexpected_value_error("binary data", &other)),
        }
    }
}

impl<const N: usize> FromSqlValue for [u8; N] {
    fn from_value(value: SqlValue<'_>) -> Result<Self> {
        match &value {
            SqlValue::Blob(bytes) => Self::try_from(&**bytes)
                .map_err(|_| Error::Malformed(format!("{N} bytes are expected, not {}", bytes.len()))),
            other => Err(unexpected_value_error("binary data", other)),
        }
    }
}

impl<T: FromSqlValue> FromSqlValue for Option<T> {
    fn from_value(value: SqlValue<'_>) -> Result<Self> {
        match value {
            SqlValue::Null => Ok(None),
            value => T::from_value(value).map(Some),
        }
    }
}

impl ToSqlValue for str {
    fn to_value(&self, _: SqlDialect) -> SqlValue<'_> {
        SqlValue::Text(Cow::Borrowed(self))
    }
}

impl ToSqlValue for String {
    fn to_value(&self, _: SqlDialect) -> SqlValue<'_> {
        SqlValue::Text(Cow::Borrowed(self))
    }
}

impl ToSqlValue for [u8] {
    fn to_value(&self, _: SqlDialect) -> SqlValue<'_> {
        SqlValue::Blob(Cow::Borrowed(self))
    }
}

impl ToSqlValue for Vec<u8> {
    fn to_value(&self, _: SqlDialect) -> SqlValue<'_> {
        SqlValue::Blob(Cow::Borrowed(self))
    }
}

impl<const N: usize> ToSqlValue for [u8; N] {
    fn to_value(&self, _: SqlDialect) -> SqlValue<'_> {
        SqlValue::Blob(Cow::Borrowed(self))
    }
}

impl<T: ToSqlValue> ToSqlValue for Option<T> {
    fn to_value(&self, dialect: SqlDialect) -> SqlValue<'_> {
        self.as_ref().map_or(SqlValue::Null, |value| value.to_value(dialect))
    }
}

impl<T: ToSqlValue + ?Sized> ToSqlValue for &T {
    fn to_value(&self, dialect: SqlDialect) -> SqlValue<'_> {
        (**self).to_value(dialect)
    }
}

impl ToSqlValue for SqlValue<'_> {
    fn to_value(&self, _: SqlDialect) -> SqlValue<'_> {
        match self {
            SqlValue::Null => SqlValue::Null,
            SqlValue::Integer(number) => SqlValue::Integer(*number),
            SqlValue::Real(number) => SqlValue::Real(*number),
            SqlValue::Text(text) => SqlValue::Text(Cow::Borrowed(text)),
            SqlValue::Blob(bytes) => SqlValue::Blob(Cow::Borrowed(bytes)),
            SqlValue::Integers(numbers) => SqlValue::Integers(Cow::Borrowed(numbers)),
            SqlValue::Texts(texts) => {
                SqlValue::Texts(texts.iter().map(|text| text.as_deref().map(Cow::Borrowed)).collect())
            }
            SqlValue::Blobs(blobs) => {
                SqlValue::Blobs(blobs.iter().map(|bytes| bytes.as_deref().map(Cow::Borrowed)).collect())
            }
        }
    }
}

/// The parameters of a statement without parameters.
impl SqlParams for () {
    fn values(&self, _: SqlDialect) -> Vec<SqlValue<'_>> {
        Vec::new()
    }
}

impl<T: ToSqlValue, const N: usize> SqlParams for [T; N] {
    fn values(&self, dialect: SqlDialect) -> Vec<SqlValue<'_>> {
        self.iter().map(|value| value.to_value(dialect)).collect()
    }
}

impl<T: ToSqlValue> SqlParams for &[T] {
    fn values(&self, dialect: SqlDialect) -> Vec<SqlValue<'_>> {
        self.iter().map(|value| value.to_value(dialect)).collect()
    }
}

macro_rules! impl_sql_params_for_tuples {
    ($($($name:ident $index:tt),+;)*) => { $(
        impl<$($name: ToSqlValue),+> SqlParams for ($($name,)+) {
            fn values(&self, dialect: SqlDialect) -> Vec<SqlValue<'_>> {
                vec![$(self.$index.to_value(dialect)),+]
            }
        }
    )* };
}

impl_sql_params_for_tuples! {
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14;
}
