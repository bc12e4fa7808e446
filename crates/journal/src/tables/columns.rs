//! How values stand in columns: ids and times as text or, where it is compact, as bytes and nanoseconds; structures as
//! JSON. It knows no table.

use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;

use jiff::Timestamp;
use protocol::{
    AssistantId, CheckpointId, CheckpointSource, HandoffId, HandoffStatus, InterruptId, InterruptStatus,
    ParentKind, Rating, RunId, RunStatus, SummaryId, ThreadId, ThreadStatus, UserId,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::engines::sql::{Dialect, FromValue, Row, ToValue, Value};
use crate::{Error, Result};

/// A value read from a column, in whichever of its forms it is stored.
pub(crate) struct Stored<T>(pub(crate) T);

/// A value read from a JSON column.
pub(crate) struct Json<T>(pub(crate) T);

/// Returns the failure of reading a value.
fn malformed(error: impl Display) -> Error {
    Error::Malformed(error.to_string())
}

fn text(value: Value<'_>) -> Result<Cow<'_, str>> {
    match value {
        Value::Text(text) => Ok(text),
        other => String::from_value(other).map(Cow::Owned),
    }
}

macro_rules! parsed {
    ($($type:ty),*) => { $(
        impl FromValue for Stored<$type> {
            fn from_value(value: Value<'_>) -> Result<Self> {
                <$type>::from_str(&text(value)?).map(Self).map_err(malformed)
            }
        }
    )* };
}

macro_rules! named {
    ($($type:ty),*) => { $(
        impl FromValue for Stored<$type> {
            fn from_value(value: Value<'_>) -> Result<Self> {
                let name = text(value)?;
                <$type>::from_name(&name).map(Self).ok_or_else(|| unknown(&name))
            }
        }
    )* };
}

macro_rules! uuids {
    ($($type:ty),*) => { $(
        impl FromValue for Stored<$type> {
            fn from_value(value: Value<'_>) -> Result<Self> {
                match value {
                    Value::Blob(bytes) => {
                        let uuid = Uuid::from_slice(&bytes).map_err(malformed)?;
                        Ok(Self(<$type>::from_uuid(uuid)))
                    }
                    other => <$type>::from_str(&text(other)?).map(Self).map_err(malformed),
                }
            }
        }
    )* };
}

parsed!(InterruptId, AssistantId, UserId);
uuids!(ThreadId, RunId, HandoffId, CheckpointId, SummaryId);
named!(RunStatus, ThreadStatus, ParentKind, HandoffStatus, CheckpointSource);

/// Returns that no version of Segue up to this one wrote a name.
fn unknown(name: &str) -> Error {
    malformed(format!("unknown name `{name}`"))
}

impl FromValue for Stored<InterruptStatus> {
    fn from_value(value: Value<'_>) -> Result<Self> {
        match &*text(value)? {
            "pending" => Ok(Self(InterruptStatus::Pending)),
            "resolved" => Ok(Self(InterruptStatus::Resolved)),
            "withdrawn" => Ok(Self(InterruptStatus::Withdrawn)),
            name => Err(unknown(name)),
        }
    }
}

impl FromValue for Stored<Rating> {
    fn from_value(value: Value<'_>) -> Result<Self> {
        let number = i8::from_value(value)?;
        Rating::try_from(number).map(Self).map_err(|_| unknown(&number.to_string()))
    }
}

impl FromValue for Stored<Timestamp> {
    fn from_value(value: Value<'_>) -> Result<Self> {
        match value {
            Value::Integer(nanos) => Timestamp::from_nanosecond(nanos.into()),
            other => Timestamp::from_str(&text(other)?),
        }
        .map(Self)
        .map_err(malformed)
    }
}

impl<T: DeserializeOwned> FromValue for Json<T> {
    fn from_value(value: Value<'_>) -> Result<Self> {
        serde_json::from_str(&text(value)?).map(Self).map_err(malformed)
    }
}

/// Returns `time` as it is stored: of one width, so that the order of the texts is the order of the times.
pub(crate) fn time(time: Timestamp) -> String {
    format!("{time:.9}")
}

/// A moment as the tables store it that grow with every turn. In SQLite that is nanoseconds since 1970 where they fit, as
/// between the years 1678 and 2262, and otherwise text; a column of PostgreSQL has one type, and holds text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instant(Timestamp);

/// Returns `moment` as the tables store it that grow with every turn.
pub(crate) const fn instant(moment: Timestamp) -> Instant {
    Instant(moment)
}

impl ToValue for Instant {
    fn to_value(&self, dialect: Dialect) -> Value<'_> {
        match (dialect, i64::try_from(self.0.as_nanosecond())) {
            (Dialect::Sqlite, Ok(nanos)) => Value::Integer(nanos),
            (Dialect::Sqlite, Err(_)) | (Dialect::Postgres, _) => Value::Text(Cow::Owned(time(self.0))),
        }
    }
}

/// Returns `value` as it is stored in a JSON column.
pub(crate) fn json(value: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string(value)?)
}

/// Returns a counter as it is stored.
///
/// Counters never come near the limit of 2^63; one that does is stored as the limit.
pub(crate) fn integer(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Returns a stored counter.
pub(crate) fn count(row: &Row<'_>, column: &str) -> Result<u64> {
    let stored: i64 = row.get(column)?;
    u64::try_from(stored).map_err(|_| malformed(format!("{column} is {stored}")))
}

/// Returns the value of a column.
pub(crate) fn stored<T>(row: &Row<'_>, column: &str) -> Result<T>
where
    Stored<T>: FromValue,
{
    row.get::<_, Stored<T>>(column).map(|Stored(value)| value)
}

/// Returns the value of a column that may be null.
pub(crate) fn stored_option<T>(row: &Row<'_>, column: &str) -> Result<Option<T>>
where
    Stored<T>: FromValue,
{
    row.get::<_, Option<Stored<T>>>(column).map(|value| value.map(|Stored(value)| value))
}

/// Returns the value of a JSON column.
pub(crate) fn json_column<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> Result<T> {
    row.get::<_, Json<T>>(column).map(|Json(value)| value)
}
