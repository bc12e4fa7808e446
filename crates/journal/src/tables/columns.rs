//! The representation of values in columns: ids and times as text or, where space matters, as bytes and nanoseconds;
//! structures as JSON. No table is known here.

use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;

use jiff::Timestamp;
use protocol::{
    AssistantId, CheckpointId, CheckpointSource, FactId, HandoffId, HandoffStatus, InterruptId,
    InterruptStatus, MessageRole, ParentKind, Rating, RunId, RunStatus, SummaryId, ThreadId, ThreadStatus,
    UserId,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::engines::sql::{FromSqlValue, SqlDialect, SqlRow, SqlValue, ToSqlValue};
use crate::{Error, FactKind, FactState, Result, RevisionCause};

/// A value read from a column, in any of the forms in which it may be stored.
pub(crate) struct StoredColumn<T>(pub(crate) T);

/// A value deserialized from a JSON column.
pub(crate) struct JsonColumn<T>(pub(crate) T);

/// Returns the error for a stored value that cannot be read.
fn malformed_error(error: impl Display) -> Error {
    Error::Malformed(error.to_string())
}

/// Returns the text of a value.
fn as_text(value: SqlValue<'_>) -> Result<Cow<'_, str>> {
    match value {
        SqlValue::Text(text) => Ok(text),
        other => String::from_value(other).map(Cow::Owned),
    }
}

macro_rules! impl_from_sql_value_by_parsing {
    ($($type:ty),*) => { $(
        impl FromSqlValue for StoredColumn<$type> {
            fn from_value(value: SqlValue<'_>) -> Result<Self> {
                <$type>::from_str(&as_text(value)?).map(Self).map_err(malformed_error)
            }
        }
    )* };
}

macro_rules! impl_from_sql_value_by_name {
    ($($type:ty),*) => { $(
        impl FromSqlValue for StoredColumn<$type> {
            fn from_value(value: SqlValue<'_>) -> Result<Self> {
                let name = as_text(value)?;
                <$type>::from_name(&name).map(Self).ok_or_else(|| unknown_name_error(&name))
            }
        }
    )* };
}

macro_rules! impl_from_sql_value_for_uuids {
    ($($type:ty),*) => { $(
        impl FromSqlValue for StoredColumn<$type> {
            fn from_value(value: SqlValue<'_>) -> Result<Self> {
                match value {
                    SqlValue::Blob(bytes) => {
                        let uuid = Uuid::from_slice(&bytes).map_err(malformed_error)?;
                        Ok(Self(<$type>::from_uuid(uuid)))
                    }
                    other => <$type>::from_str(&as_text(other)?).map(Self).map_err(malformed_error),
                }
            }
        }
    )* };
}

impl_from_sql_value_by_parsing!(InterruptId, AssistantId, UserId);
impl_from_sql_value_for_uuids!(ThreadId, RunId, HandoffId, CheckpointId, SummaryId, FactId);
impl_from_sql_value_by_name!(
    RunStatus,
    ThreadStatus,
    ParentKind,
    HandoffStatus,
    CheckpointSource,
    FactKind,
    FactState,
    RevisionCause
);

/// Returns the error for a name that no version of Segue up to this one writes.
fn unknown_name_error(name: &str) -> Error {
    malformed_error(format!("unknown name `{name}`"))
}

impl FromSqlValue for StoredColumn<InterruptStatus> {
    fn from_value(value: SqlValue<'_>) -> Result<Self> {
        match &*as_text(value)? {
            "pending" => Ok(Self(InterruptStatus::Pending)),
            "resolved" => Ok(Self(InterruptStatus::Resolved)),
            "withdrawn" => Ok(Self(InterruptStatus::Withdrawn)),
            name => Err(unknown_name_error(name)),
        }
    }
}

impl FromSqlValue for StoredColumn<MessageRole> {
    fn from_value(value: SqlValue<'_>) -> Result<Self> {
        match &*as_text(value)? {
            "user" => Ok(Self(MessageRole::User)),
            "assistant" => Ok(Self(MessageRole::Assistant)),
            name => Err(unknown_name_error(name)),
        }
    }
}

impl FromSqlValue for StoredColumn<Rating> {
    fn from_value(value: SqlValue<'_>) -> Result<Self> {
        let number = i8::from_value(value)?;
        Rating::try_from(number).map(Self).map_err(|_| unknown_name_error(&number.to_string()))
    }
}

impl FromSqlValue for StoredColumn<Timestamp> {
    fn from_value(value: SqlValue<'_>) -> Result<Self> {
        match value {
            SqlValue::Integer(nanos) => Timestamp::from_nanosecond(nanos.into()),
            other => Timestamp::from_str(&as_text(other)?),
        }
        .map(Self)
        .map_err(malformed_error)
    }
}

impl<T: DeserializeOwned> FromSqlValue for JsonColumn<T> {
    fn from_value(value: SqlValue<'_>) -> Result<Self> {
        serde_json::from_str(&as_text(value)?).map(Self).map_err(malformed_error)
    }
}

/// Formats a time for storage: RFC 3339 with nine decimal places. The fixed width makes the text order equal to the
/// chronological order.
pub(crate) fn encode_time(time: Timestamp) -> String {
    format!("{time:.9}")
}

/// A time in the columns of the tables that grow with every turn. SQLite stores nanoseconds since 1970 where they fit
/// into 64 bits (years 1678 to 2262), and text otherwise. PostgreSQL stores text, because its columns have a single
/// type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompactTimestamp(Timestamp);

/// Wraps a time for a column of a table that grows with every turn.
pub(crate) const fn compact_timestamp(time: Timestamp) -> CompactTimestamp {
    CompactTimestamp(time)
}

impl ToSqlValue for CompactTimestamp {
    fn to_value(&self, dialect: SqlDialect) -> SqlValue<'_> {
        match (dialect, i64::try_from(self.0.as_nanosecond())) {
            (SqlDialect::Sqlite, Ok(nanos)) => SqlValue::Integer(nanos),
            (SqlDialect::Sqlite, Err(_)) | (SqlDialect::Postgres, _) => {
                SqlValue::Text(Cow::Owned(encode_time(self.0)))
            }
        }
    }
}

/// Serializes a value for a JSON column.
pub(crate) fn encode_json(value: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string(value)?)
}

/// Converts a counter for storage. A value above 2^63 − 1, which counters never reach, is stored as 2^63 − 1.
pub(crate) fn encode_counter(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Reads a counter.
///
/// # Errors
/// [`Error::Malformed`] if the value is negative.
pub(crate) fn read_counter(row: &SqlRow<'_>, column: &str) -> Result<u64> {
    let stored: i64 = row.get(column)?;
    u64::try_from(stored).map_err(|_| malformed_error(format!("{column} is {stored}")))
}

/// Reads a column.
pub(crate) fn read_column<T>(row: &SqlRow<'_>, column: &str) -> Result<T>
where
    StoredColumn<T>: FromSqlValue,
{
    row.get::<_, StoredColumn<T>>(column).map(|StoredColumn(value)| value)
}

/// Reads a column that may be NULL.
pub(crate) fn read_optional_column<T>(row: &SqlRow<'_>, column: &str) -> Result<Option<T>>
where
    StoredColumn<T>: FromSqlValue,
{
    row.get::<_, Option<StoredColumn<T>>>(column).map(|value| value.map(|StoredColumn(value)| value))
}

/// Reads and deserializes a JSON column.
pub(crate) fn read_json_column<T: DeserializeOwned>(row: &SqlRow<'_>, column: &str) -> Result<T> {
    row.get::<_, JsonColumn<T>>(column).map(|JsonColumn(value)| value)
}
