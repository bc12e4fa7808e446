//! Values on their way into statements and out of rows.

use std::borrow::Cow;

use rusqlite::types::{ToSqlOutput, ValueRef};

use super::{Dialect, Value};
use crate::{Error, Result};

/// What can be a parameter.
pub(crate) trait ToValue {
    /// Returns the value as the engine stores it.
    fn to_value(&self, dialect: Dialect) -> Value<'_>;
}

/// What a column can be read as.
pub(crate) trait FromValue: Sized {
    /// Returns what the value is.
    ///
    /// # Errors
    /// [`Error::Malformed`] when it is something else.
    fn from_value(value: Value<'_>) -> Result<Self>;
}

/// The parameters of a statement, in order.
pub(crate) trait Params {
    /// Returns their values as the engine stores them.
    fn values(&self, dialect: Dialect) -> Vec<Value<'_>>;
}

pub(super) fn unexpected(expected: &str, found: &Value<'_>) -> Error {
    let found = match found {
        Value::Null => "nothing",
        Value::Integer(_) => "a whole number",
        Value::Real(_) => "a number",
        Value::Text(_) => "a text",
        Value::Blob(_) => "bytes",
        Value::Integers(_) | Value::Texts(_) | Value::Blobs(_) => "a list",
    };
    Error::Malformed(format!("{expected} is expected, not {found}"))
}

pub(super) fn of_sqlite(value: ValueRef<'_>) -> Result<Value<'_>> {
    Ok(match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(bytes) => {
            let text = std::str::from_utf8(bytes).map_err(|error| Error::Malformed(error.to_string()))?;
            Value::Text(Cow::Borrowed(text))
        }
        ValueRef::Blob(bytes) => Value::Blob(Cow::Borrowed(bytes)),
    })
}

/// A value as SQLite takes it.
pub(super) struct Bound<'a>(pub(super) Value<'a>);

impl rusqlite::ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match &self.0 {
            Value::Null => ValueRef::Null,
            Value::Integer(number) => ValueRef::Integer(*number),
            Value::Real(number) => ValueRef::Real(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
            Value::Integers(_) | Value::Texts(_) | Value::Blobs(_) => {
                let reason = "SQLite has no lists".into();
                return Err(rusqlite::Error::ToSqlConversionFailure(reason));
            }
        }))
    }
}

macro_rules! integers {
    ($($type:ty),*) => { $(
        impl ToValue for $type {
            fn to_value(&self, _: Dialect) -> Value<'_> {
                Value::Integer(i64::from(*self))
            }
        }
    )* };
}

integers!(bool, i8, i32, u32, i64);

macro_rules! whole_numbers {
    ($($type:ty),*) => { $(
        impl FromValue for $type {
            fn from_value(value: Value<'_>) -> Result<Self> {
                let number = i64::from_value(value)?;
                Self::try_from(number).map_err(|_| Error::Malformed(format!("{number} is out of range")))
            }
        }
    )* };
}

whole_numbers!(i8, u32);

impl FromValue for i64 {
    fn from_value(value: Value<'_>) -> Result<Self> {
        match value {
            Value::Integer(number) => Ok(number),
            other => Err(unexpected("a whole number", &other)),
        }
    }
}

impl FromValue for bool {
    fn from_value(value: Value<'_>) -> Result<Self> {
        Ok(i64::from_value(value)? != 0)
    }
}

impl FromValue for f64 {
    fn from_value(value: Value<'_>) -> Result<Self> {
        match value {
            Value::Real(number) => Ok(number),
            other => Err(unexpected("a number", &other)),
        }
    }
}

impl FromValue for String {
    fn from_value(value: Value<'_>) -> Result<Self> {
        match value {
            Value::Text(text) => Ok(text.into_owned()),
            other => Err(unexpected("a text", &other)),
        }
    }
}

impl FromValue for Vec<u8> {
    fn from_value(value: Value<'_>) -> Result<Self> {
        match value {
            Value::Blob(bytes) => Ok(bytes.into_owned()),
            other => Err(unexpected("bytes", &other)),
        }
    }
}

impl<const N: usize> FromValue for [u8; N] {
    fn from_value(value: Value<'_>) -> Result<Self> {
        match &value {
            Value::Blob(bytes) => Self::try_from(&**bytes)
                .map_err(|_| Error::Malformed(format!("{N} bytes are expected, not {}", bytes.len()))),
            other => Err(unexpected("bytes", other)),
        }
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: Value<'_>) -> Result<Self> {
        match value {
            Value::Null => Ok(None),
            value => T::from_value(value).map(Some),
        }
    }
}

impl ToValue for str {
    fn to_value(&self, _: Dialect) -> Value<'_> {
        Value::Text(Cow::Borrowed(self))
    }
}

impl ToValue for String {
    fn to_value(&self, _: Dialect) -> Value<'_> {
        Value::Text(Cow::Borrowed(self))
    }
}

impl ToValue for [u8] {
    fn to_value(&self, _: Dialect) -> Value<'_> {
        Value::Blob(Cow::Borrowed(self))
    }
}

impl ToValue for Vec<u8> {
    fn to_value(&self, _: Dialect) -> Value<'_> {
        Value::Blob(Cow::Borrowed(self))
    }
}

impl<const N: usize> ToValue for [u8; N] {
    fn to_value(&self, _: Dialect) -> Value<'_> {
        Value::Blob(Cow::Borrowed(self))
    }
}

impl<T: ToValue> ToValue for Option<T> {
    fn to_value(&self, dialect: Dialect) -> Value<'_> {
        self.as_ref().map_or(Value::Null, |value| value.to_value(dialect))
    }
}

impl<T: ToValue + ?Sized> ToValue for &T {
    fn to_value(&self, dialect: Dialect) -> Value<'_> {
        (**self).to_value(dialect)
    }
}

impl ToValue for Value<'_> {
    fn to_value(&self, _: Dialect) -> Value<'_> {
        match self {
            Value::Null => Value::Null,
            Value::Integer(number) => Value::Integer(*number),
            Value::Real(number) => Value::Real(*number),
            Value::Text(text) => Value::Text(Cow::Borrowed(text)),
            Value::Blob(bytes) => Value::Blob(Cow::Borrowed(bytes)),
            Value::Integers(numbers) => Value::Integers(Cow::Borrowed(numbers)),
            Value::Texts(texts) => {
                Value::Texts(texts.iter().map(|text| text.as_deref().map(Cow::Borrowed)).collect())
            }
            Value::Blobs(blobs) => {
                Value::Blobs(blobs.iter().map(|bytes| bytes.as_deref().map(Cow::Borrowed)).collect())
            }
        }
    }
}

/// Without parameters.
impl Params for () {
    fn values(&self, _: Dialect) -> Vec<Value<'_>> {
        Vec::new()
    }
}

impl<T: ToValue, const N: usize> Params for [T; N] {
    fn values(&self, dialect: Dialect) -> Vec<Value<'_>> {
        self.iter().map(|value| value.to_value(dialect)).collect()
    }
}

impl<T: ToValue> Params for &[T] {
    fn values(&self, dialect: Dialect) -> Vec<Value<'_>> {
        self.iter().map(|value| value.to_value(dialect)).collect()
    }
}

macro_rules! tuples {
    ($($($name:ident $place:tt),+;)*) => { $(
        impl<$($name: ToValue),+> Params for ($($name,)+) {
            fn values(&self, dialect: Dialect) -> Vec<Value<'_>> {
                vec![$(self.$place.to_value(dialect)),+]
            }
        }
    )* };
}

tuples! {
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
