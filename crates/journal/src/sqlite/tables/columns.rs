//! How values stand in columns: ids and times as text or, where it is compact, as blobs and nanoseconds; structures as
//! JSON. It knows no table.

use std::str::FromStr;

use jiff::Timestamp;
use protocol::{
    AssistantId, CheckpointId, HandoffId, HandoffStatus, InterruptId, InterruptStatus, ParentKind, Rating,
    RunId, RunStatus, SummaryId, ThreadId, ThreadStatus,
};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, Value, ValueRef};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

/// A value read from a column, in whichever of its forms it is stored.
pub(crate) struct Stored<T>(pub(crate) T);

/// A value read from a JSON column.
pub(crate) struct Json<T>(pub(crate) T);

macro_rules! parsed {
    ($($type:ty),*) => { $(
        impl FromSql for Stored<$type> {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                <$type>::from_str(value.as_str()?).map(Self).map_err(FromSqlError::other)
            }
        }
    )* };
}

macro_rules! named {
    ($($type:ty),*) => { $(
        impl FromSql for Stored<$type> {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                let name = value.as_str()?;
                <$type>::from_name(name).map(Self).ok_or_else(|| FromSqlError::other(UnknownName(name.to_owned())))
            }
        }
    )* };
}

macro_rules! uuids {
    ($($type:ty),*) => { $(
        impl FromSql for Stored<$type> {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                match value {
                    ValueRef::Blob(bytes) => {
                        let uuid = Uuid::from_slice(bytes).map_err(FromSqlError::other)?;
                        Ok(Self(<$type>::from_uuid(uuid)))
                    }
                    text => <$type>::from_str(text.as_str()?).map(Self).map_err(FromSqlError::other),
                }
            }
        }
    )* };
}

parsed!(InterruptId, AssistantId);
uuids!(ThreadId, RunId, HandoffId, CheckpointId, SummaryId);
named!(RunStatus, ThreadStatus, ParentKind, HandoffStatus);

/// A stored name that no version of Segue up to this one wrote.
#[derive(Debug, thiserror::Error)]
#[error("unknown name `{0}`")]
struct UnknownName(String);

impl FromSql for Stored<InterruptStatus> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_str()? {
            "pending" => Ok(Self(InterruptStatus::Pending)),
            "resolved" => Ok(Self(InterruptStatus::Resolved)),
            "withdrawn" => Ok(Self(InterruptStatus::Withdrawn)),
            name => Err(FromSqlError::other(UnknownName(name.to_owned()))),
        }
    }
}

impl FromSql for Stored<Rating> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let number = i8::column_result(value)?;
        Rating::try_from(number).map(Self).map_err(|_| FromSqlError::other(UnknownName(number.to_string())))
    }
}

impl FromSql for Stored<Timestamp> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value {
            ValueRef::Integer(nanos) => Timestamp::from_nanosecond(nanos.into()),
            text => Timestamp::from_str(text.as_str()?),
        }
        .map(Self)
        .map_err(FromSqlError::other)
    }
}

impl<T: DeserializeOwned> FromSql for Json<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        serde_json::from_str(value.as_str()?).map(Self).map_err(FromSqlError::other)
    }
}

/// Returns `time` as it is stored: of one width, so that the order of the texts is the order of the times.
pub(crate) fn time(time: Timestamp) -> String {
    format!("{time:.9}")
}

/// Returns `time` as the tables store it that grow with every turn: nanoseconds since 1970 where they fit, as between
/// the years 1678 and 2262, and otherwise text.
pub(crate) fn instant(moment: Timestamp) -> Value {
    i64::try_from(moment.as_nanosecond()).map_or_else(|_| Value::Text(time(moment)), Value::Integer)
}

/// Returns `value` as it is stored in a JSON column.
pub(crate) fn json(value: &impl Serialize) -> crate::Result<String> {
    Ok(serde_json::to_string(value)?)
}

/// Returns a counter as SQLite stores it.
///
/// Counters never come near the limit of 2^63; one that does is stored as the limit.
pub(crate) fn integer(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Returns a stored counter.
pub(crate) fn count(row: &rusqlite::Row<'_>, column: &str) -> rusqlite::Result<u64> {
    let stored: i64 = row.get(column)?;
    u64::try_from(stored).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Integer, Box::new(error))
    })
}

/// Returns the value of a column.
pub(crate) fn stored<T>(row: &rusqlite::Row<'_>, column: &str) -> rusqlite::Result<T>
where
    Stored<T>: FromSql,
{
    row.get::<_, Stored<T>>(column).map(|Stored(value)| value)
}

/// Returns the value of a column that may be null.
pub(crate) fn stored_option<T>(row: &rusqlite::Row<'_>, column: &str) -> rusqlite::Result<Option<T>>
where
    Stored<T>: FromSql,
{
    row.get::<_, Option<Stored<T>>>(column).map(|value| value.map(|Stored(value)| value))
}

/// Returns the value of a JSON column.
pub(crate) fn json_column<T: DeserializeOwned>(row: &rusqlite::Row<'_>, column: &str) -> rusqlite::Result<T> {
    row.get::<_, Json<T>>(column).map(|Json(value)| value)
}
