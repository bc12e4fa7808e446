//! How values stand in columns: ids and times as text, structures as JSON. It knows no table.

use std::str::FromStr;

use jiff::Timestamp;
use protocol::{
    AssistantId, CheckpointId, HandoffId, HandoffStatus, InterruptId, InterruptStatus, ParentKind, RunId,
    RunStatus, ThreadId, ThreadStatus,
};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A value read from a text column.
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

parsed!(Timestamp, ThreadId, RunId, HandoffId, CheckpointId, InterruptId, AssistantId);
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

impl<T: DeserializeOwned> FromSql for Json<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        serde_json::from_str(value.as_str()?).map(Self).map_err(FromSqlError::other)
    }
}

/// Returns `time` as it is stored: of one width, so that the order of the texts is the order of the times.
pub(crate) fn time(time: Timestamp) -> String {
    format!("{time:.9}")
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

/// Returns the value of a text column.
pub(crate) fn stored<T>(row: &rusqlite::Row<'_>, column: &str) -> rusqlite::Result<T>
where
    Stored<T>: FromSql,
{
    row.get::<_, Stored<T>>(column).map(|Stored(value)| value)
}

/// Returns the value of a text column that may be null.
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
