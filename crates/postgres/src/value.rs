//! Values as they go to the server and come from it. Which column holds what is the caller's matter.

use std::borrow::Cow;
use std::error::Error as StdError;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::{Error, Result};

/// Stands before a character that the server cannot hold in a text, or that is this one itself. It is no character of any
/// script.
const ESCAPE: char = '\u{10FFFE}';
/// Behind [`ESCAPE`]: a NUL.
const NUL: char = '0';
/// Behind [`ESCAPE`]: itself.
const ITSELF: char = '1';

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// None.
    Null,
    /// A whole number, or a truth value as 0 or 1.
    Integer(i64),
    /// A number.
    Real(f64),
    /// A text; one with NULs in it is stored escaped.
    Text(Cow<'a, str>),
    /// Bytes.
    Blob(Cow<'a, [u8]>),
    /// Whole numbers, for a parameter of type `bigint[]`.
    Integers(Cow<'a, [i64]>),
    /// Texts, for a parameter of type `text[]`.
    Texts(Vec<Option<Cow<'a, str>>>),
    /// Bytes, for a parameter of type `bytea[]`.
    Blobs(Vec<Option<Cow<'a, [u8]>>>),
}

impl Value<'_> {
    /// Returns the value with what it borrows copied.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Null => Value::Null,
            Self::Integer(number) => Value::Integer(number),
            Self::Real(number) => Value::Real(number),
            Self::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Self::Blob(bytes) => Value::Blob(Cow::Owned(bytes.into_owned())),
            Self::Integers(numbers) => Value::Integers(Cow::Owned(numbers.into_owned())),
            Self::Texts(texts) => Value::Texts(texts.into_iter().map(owned).collect()),
            Self::Blobs(blobs) => Value::Blobs(blobs.into_iter().map(owned).collect()),
        }
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl ToSql for Value<'_> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match self {
            Self::Null => return Ok(IsNull::Yes),
            Self::Integer(number) if *ty == Type::BOOL => out.put_u8(u8::from(*number != 0)),
            Self::Integer(number) if *ty == Type::INT4 => out.put_i32(i32::try_from(*number)?),
            Self::Integer(number) if *ty == Type::INT2 => out.put_i16(i16::try_from(*number)?),
            #[expect(clippy::cast_precision_loss, reason = "a column of such numbers holds no more")]
            Self::Integer(number) if *ty == Type::FLOAT8 => out.put_f64(*number as f64),
            Self::Integer(number) => out.put_i64(*number),
            Self::Real(number) => out.put_f64(*number),
            Self::Text(text) => out.put_slice(escaped(text).as_bytes()),
            Self::Blob(bytes) => out.put_slice(bytes),
            Self::Integers(numbers) => return numbers.as_ref().to_sql(ty, out),
            Self::Texts(texts) => {
                let texts: Vec<Option<Cow<'_, str>>> =
                    texts.iter().map(|text| text.as_deref().map(escaped)).collect();
                return texts.to_sql(ty, out);
            }
            Self::Blobs(blobs) => {
                let blobs: Vec<Option<&[u8]>> = blobs.iter().map(Option::as_deref).collect();
                return blobs.to_sql(ty, out);
            }
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Value<'a> {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> std::result::Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(match *ty {
            Type::BOOL => Self::Integer(bool::from_sql(ty, raw)?.into()),
            Type::INT2 => Self::Integer(i16::from_sql(ty, raw)?.into()),
            Type::INT4 => Self::Integer(i32::from_sql(ty, raw)?.into()),
            Type::INT8 => Self::Integer(i64::from_sql(ty, raw)?),
            Type::FLOAT4 => Self::Real(f32::from_sql(ty, raw)?.into()),
            Type::FLOAT8 => Self::Real(f64::from_sql(ty, raw)?),
            Type::BYTEA => Self::Blob(Cow::Borrowed(raw)),
            Type::TEXT | Type::VARCHAR | Type::NAME | Type::UNKNOWN => {
                Self::Text(unescaped(std::str::from_utf8(raw)?))
            }
            ref other => return Err(format!("a value of type {other}").into()),
        })
    }

    fn from_sql_null(_: &Type) -> std::result::Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self::Null)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

fn owned<T: ToOwned + ?Sized + 'static>(value: Option<Cow<'_, T>>) -> Option<Cow<'static, T>> {
    value.map(|value| Cow::Owned(value.into_owned()))
}

fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for char in text.chars() {
        match char {
            '\0' => escaped.extend([ESCAPE, NUL]),
            ESCAPE => escaped.extend([ESCAPE, ITSELF]),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains(ESCAPE) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match (char, char == ESCAPE) {
            (_, true) if chars.clone().next() == Some(NUL) => {
                chars.next();
                plain.push('\0');
            }
            (_, true) if chars.clone().next() == Some(ITSELF) => {
                chars.next();
                plain.push(ESCAPE);
            }
            (other, _) => plain.push(other),
        }
    }
    Cow::Owned(plain)
}

/// A row of an answer.
#[derive(Debug, Clone)]
pub struct Row(pub(crate) tokio_postgres::Row);

impl Row {
    /// Returns the value of the column at a place, from 0 on.
    ///
    /// # Errors
    /// [`Error::Malformed`] when there is none, or its type is none that is known here.
    pub fn at(&self, place: usize) -> Result<Value<'_>> {
        self.0.try_get(place).map_err(|error| malformed(&error))
    }

    /// Returns the value of the column with that name.
    ///
    /// # Errors
    /// As [`Self::at`].
    pub fn named(&self, name: &str) -> Result<Value<'_>> {
        self.0.try_get(name).map_err(|error| malformed(&error))
    }

    /// Returns the text at a place; `None` when there is none.
    ///
    /// # Errors
    /// [`Error::Malformed`] when it is something else.
    pub fn text(&self, place: usize) -> Result<Option<String>> {
        match self.at(place)? {
            Value::Null => Ok(None),
            Value::Text(text) => Ok(Some(text.into_owned())),
            other => Err(Error::Malformed(format!("a text is expected, not {other:?}"))),
        }
    }

    /// Returns the whole number at a place; `None` when there is none.
    ///
    /// # Errors
    /// [`Error::Malformed`] when it is something else.
    pub fn integer(&self, place: usize) -> Result<Option<i64>> {
        match self.at(place)? {
            Value::Null => Ok(None),
            Value::Integer(number) => Ok(Some(number)),
            other => Err(Error::Malformed(format!("a whole number is expected, not {other:?}"))),
        }
    }
}

fn malformed(error: &tokio_postgres::Error) -> Error {
    Error::Malformed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_as_they_were_whatever_is_in_them() {
        for text in ["", "plain", "a\0b", "\0", "\u{10FFFE}", "\u{10FFFE}0", "\u{10FFFE}\0\u{10FFFE}1 ü"] {
            let stored = escaped(text);
            assert!(!stored.contains('\0'), "{text:?}");
            assert_eq!(unescaped(&stored), text);
        }
    }
}
