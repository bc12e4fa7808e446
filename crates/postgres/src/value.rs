//! SQL values in the forms in which they are sent to the server and received from it. The caller knows the type of each
//! column.

use std::borrow::Cow;
use std::error::Error as StdError;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::{Error, Result};

/// The escape character. It precedes the replacement of a NUL, which the server cannot store in a text, and of the
/// escape character itself. It is a Unicode noncharacter, so real texts do not contain it.
const ESCAPE: char = '\u{10FFFE}';
/// The character after [`ESCAPE`] that replaces a NUL.
const ESCAPED_NUL: char = '0';
/// The character after [`ESCAPE`] that replaces an escape character.
const ESCAPED_ESCAPE: char = '1';

/// A parameter of a statement, or a value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum SqlValue<'a> {
    /// SQL NULL.
    Null,
    /// An integer. Booleans are 0 or 1.
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    /// A text. NUL characters are escaped, because the server cannot store them.
    Text(Cow<'a, str>),
    /// Binary data.
    Blob(Cow<'a, [u8]>),
    /// Integers, as a parameter of type `bigint[]`.
    Integers(Cow<'a, [i64]>),
    /// Texts, as a parameter of type `text[]`.
    Texts(Vec<Option<Cow<'a, str>>>),
    /// Binary data, as a parameter of type `bytea[]`.
    Blobs(Vec<Option<Cow<'a, [u8]>>>),
}

impl SqlValue<'_> {
    /// Returns the value with all borrowed data copied.
    pub fn into_owned(self) -> SqlValue<'static> {
        match self {
            Self::Null => SqlValue::Null,
            Self::Integer(number) => SqlValue::Integer(number),
            Self::Real(number) => SqlValue::Real(number),
            Self::Text(text) => SqlValue::Text(Cow::Owned(text.into_owned())),
            Self::Blob(bytes) => SqlValue::Blob(Cow::Owned(bytes.into_owned())),
            Self::Integers(numbers) => SqlValue::Integers(Cow::Owned(numbers.into_owned())),
            Self::Texts(texts) => SqlValue::Texts(texts.into_iter().map(into_owned_cow).collect()),
            Self::Blobs(blobs) => SqlValue::Blobs(blobs.into_iter().map(into_owned_cow).collect()),
        }
    }
}

impl<'a> From<&'a str> for SqlValue<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for SqlValue<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<i64> for SqlValue<'_> {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl<'a, T: Into<SqlValue<'a>>> From<Option<T>> for SqlValue<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl ToSql for SqlValue<'_> {
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
            #[expect(clippy::cast_precision_loss, reason = "a column of this type has the same precision")]
            Self::Integer(number) if *ty == Type::FLOAT8 => out.put_f64(*number as f64),
            Self::Integer(number) => out.put_i64(*number),
            Self::Real(number) => out.put_f64(*number),
            Self::Text(text) => out.put_slice(escape(text).as_bytes()),
            Self::Blob(bytes) => out.put_slice(bytes),
            Self::Integers(numbers) => return numbers.as_ref().to_sql(ty, out),
            Self::Texts(texts) => {
                let texts: Vec<Option<Cow<'_, str>>> =
                    texts.iter().map(|text| text.as_deref().map(escape)).collect();
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

impl<'a> FromSql<'a> for SqlValue<'a> {
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
                Self::Text(unescape(std::str::from_utf8(raw)?))
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

/// Returns the value with its borrowed data copied, if there is a value.
fn into_owned_cow<T: ToOwned + ?Sized + 'static>(value: Option<Cow<'_, T>>) -> Option<Cow<'static, T>> {
    value.map(|value| Cow::Owned(value.into_owned()))
}

/// Escapes NULs and escape characters. A text without them is returned unchanged.
fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for char in text.chars() {
        match char {
            '\0' => escaped.extend([ESCAPE, ESCAPED_NUL]),
            ESCAPE => escaped.extend([ESCAPE, ESCAPED_ESCAPE]),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

/// Reverts [`escape`].
fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains(ESCAPE) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match (char, char == ESCAPE) {
            (_, true) if chars.clone().next() == Some(ESCAPED_NUL) => {
                chars.next();
                plain.push('\0');
            }
            (_, true) if chars.clone().next() == Some(ESCAPED_ESCAPE) => {
                chars.next();
                plain.push(ESCAPE);
            }
            (other, _) => plain.push(other),
        }
    }
    Cow::Owned(plain)
}

/// A row of a result.
#[derive(Debug, Clone)]
pub struct Row(pub(crate) tokio_postgres::Row);

impl Row {
    /// Returns the value of the column at a zero-based index.
    ///
    /// # Errors
    /// [`Error::Malformed`] if there is no such column, or if its type is not supported.
    pub fn get(&self, index: usize) -> Result<SqlValue<'_>> {
        self.0.try_get(index).map_err(|error| malformed_error(&error))
    }

    /// Returns the value of the column with this name.
    ///
    /// # Errors
    /// Fails like [`Self::get`].
    pub fn get_by_name(&self, name: &str) -> Result<SqlValue<'_>> {
        self.0.try_get(name).map_err(|error| malformed_error(&error))
    }

    /// Returns the text of the column at a zero-based index, or `None` for NULL.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the value is not a text.
    pub fn text(&self, index: usize) -> Result<Option<String>> {
        match self.get(index)? {
            SqlValue::Null => Ok(None),
            SqlValue::Text(text) => Ok(Some(text.into_owned())),
            other => Err(Error::Malformed(format!("a text is expected, not {other:?}"))),
        }
    }

    /// Returns the integer of the column at a zero-based index, or `None` for NULL.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the value is not an integer.
    pub fn integer(&self, index: usize) -> Result<Option<i64>> {
        match self.get(index)? {
            SqlValue::Null => Ok(None),
            SqlValue::Integer(number) => Ok(Some(number)),
            other => Err(Error::Malformed(format!("an integer is expected, not {other:?}"))),
        }
    }
}

/// Converts an error of reading a column.
fn malformed_error(error: &tokio_postgres::Error) -> Error {
    Error::Malformed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_survives_escaping_and_unescaping() {
        for text in ["", "plain", "a\0b", "\0", "\u{10FFFE}", "\u{10FFFE}0", "\u{10FFFE}\0\u{10FFFE}1 ü"] {
            let stored = escape(text);
            assert!(!stored.contains('\0'), "{text:?}");
            assert_eq!(unescape(&stored), text);
        }
    }
}
