//! Checksums of events. Each event has one over everything that a reader uses of it, so that a changed byte is noticed
//! before it is served. It detects accidental damage, such as a defective disk, and is no protection against tampering.
//!
//! The checksum is a CRC-32, which differs for any change within 32 consecutive bits, and with a probability of
//! 1 − 2⁻³² for any other change. It is computed from the values of the columns and not from their stored form, so both
//! engines store the same number. The event key and the turn index are not covered: readers do not use them, and the
//! check of the whole database compares them with other tables.
//!
//! The events of a thread are not chained. A chain would show that an event is missing, which the consecutive seqs and
//! the counters of the thread show too. In return, emptying an event would change all later ones, and a fork could not
//! copy rows.

use std::borrow::Cow;

use jiff::Timestamp;
use protocol::{Event, EventId, NewEvent, RawJson, RunId, Seq, ThreadId};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::engines::sql::{SqlRow, SqlValue};
use crate::tables::columns::StoredColumn;
use crate::{Error, Result};

/// The columns that [`EventColumns::read`] reads, in this order.
pub(crate) const COLUMNS: &str =
    "seq, event_id, run_id, category, event_type, created_at, metadata, content, checksum";

/// The values of an event that its checksum covers. Texts are borrowed from the row where possible.
#[derive(Debug)]
pub(crate) struct EventColumns<'a> {
    /// The seq.
    pub(crate) seq: Seq,
    /// The id of the event.
    pub(crate) event_id: EventId,
    /// The run.
    pub(crate) run_id: Option<RunId>,
    /// The name of the category.
    pub(crate) category: Cow<'a, str>,
    /// The name of the type.
    pub(crate) event_type: Cow<'a, str>,
    /// The time of the event.
    pub(crate) created_at: Timestamp,
    /// The metadata as JSON.
    pub(crate) metadata: Option<Cow<'a, str>>,
    /// The content as JSON.
    pub(crate) content: Cow<'a, str>,
}

impl<'a> EventColumns<'a> {
    /// Returns the values of an event that is to be stored.
    pub(crate) fn of_event(event: &'a NewEvent, seq: Seq) -> Self {
        Self {
            seq,
            event_id: event.event_id,
            run_id: event.run_id,
            category: Cow::Borrowed(event.event_type.category().as_str()),
            event_type: Cow::Borrowed(event.event_type.as_str()),
            created_at: event.created_at,
            metadata: event.metadata.as_ref().map(|json| Cow::Borrowed(json.get())),
            content: Cow::Borrowed(event.content.get()),
        }
    }

    /// Reads a row that begins with [`COLUMNS`], and compares it with its checksum.
    ///
    /// # Errors
    /// [`Error::DamagedEvent`] if the checksum differs or a value cannot be read.
    pub(crate) fn read(row: &'a SqlRow<'_>, thread_id: ThreadId) -> Result<Self> {
        let (columns, stored) = Self::read_unverified(row, thread_id)?;
        match stored.is_none_or(|stored| stored == columns.checksum(thread_id)) {
            true => Ok(columns),
            false => Err(Error::DamagedEvent { thread_id, seq: columns.seq }),
        }
    }

    /// Reads a row that begins with [`COLUMNS`] without comparing it with its checksum, which is returned too. Events of
    /// earlier versions have none.
    ///
    /// # Errors
    /// [`Error::DamagedEvent`] if a value cannot be read.
    pub(crate) fn read_unverified(row: &'a SqlRow<'_>, thread_id: ThreadId) -> Result<(Self, Option<i64>)> {
        // Columns are read by index, because looking up a name costs as much as reading a value.
        let seq = row.get::<_, u32>(0)?.into();
        let damaged = |error| match error {
            Error::Malformed(_) => Error::DamagedEvent { thread_id, seq },
            other => other,
        };
        let columns = Self::read_values(row, seq).map_err(damaged)?;
        Ok((columns, row.get(8).map_err(damaged)?))
    }

    /// Reads the values of a row without its checksum.
    fn read_values(row: &'a SqlRow<'_>, seq: Seq) -> Result<Self> {
        let run_id: Option<[u8; 16]> = row.get(2)?;
        let has_metadata = row.get_value(6)? != SqlValue::Null;
        Ok(Self {
            seq,
            event_id: EventId::from_uuid(Uuid::from_bytes(row.get(1)?)),
            run_id: run_id.map(|bytes| RunId::from_uuid(Uuid::from_bytes(bytes))),
            category: row.get_text(3)?,
            event_type: row.get_text(4)?,
            created_at: row.get::<_, StoredColumn<Timestamp>>(5)?.0,
            metadata: has_metadata.then(|| row.get_text(6)).transpose()?,
            content: row.get_text(7)?,
        })
    }

    /// Returns the checksum of the event in a thread, in the form in which it is stored.
    ///
    /// The part of the thread is combined by XOR, so that [`thread_change`] converts the checksum of an event to that of
    /// its copy in another thread.
    pub(crate) fn checksum(&self, thread_id: ThreadId) -> i64 {
        let length = |text: &str| (text.len() as u64).to_be_bytes();
        let mut hasher = crc32fast::Hasher::new();
        let mut fixed = Vec::with_capacity(128);
        fixed.extend(self.seq.to_be_bytes());
        fixed.extend(self.event_id.uuid().as_bytes());
        fixed.extend(self.run_id.map_or([0; 16], |run_id| run_id.uuid().into_bytes()));
        fixed.push(self.run_id.is_some().into());
        fixed.extend(self.created_at.as_nanosecond().to_be_bytes());
        fixed.push(self.metadata.is_some().into());
        // The lengths are included, so that no byte can move from one text to the next.
        let metadata = self.metadata.as_deref().unwrap_or_default();
        for text in [&self.category, &self.event_type, metadata, &self.content] {
            fixed.extend(length(text));
        }
        fixed.extend(self.category.as_bytes());
        fixed.extend(self.event_type.as_bytes());
        hasher.update(&fixed);
        hasher.update(metadata.as_bytes());
        hasher.update(self.content.as_bytes());
        // With its sign, every checksum fits into four bytes of a SQLite row.
        i64::from((hasher.finalize() ^ thread_part(thread_id)).cast_signed())
    }

    /// Returns the event.
    ///
    /// # Errors
    /// [`Error::DamagedEvent`] if the content or the metadata is not JSON, which is noticed here for events without a
    /// checksum.
    pub(crate) fn into_event(self, thread_id: ThreadId) -> Result<Event> {
        let seq = self.seq;
        let parse_json = |text: Cow<'_, str>| -> Result<RawJson> {
            RawValue::from_string(text.into_owned()).map_err(|_| Error::DamagedEvent { thread_id, seq })
        };
        Ok(Event {
            thread_id,
            seq,
            event_id: self.event_id,
            run_id: self.run_id,
            category: self.category.into_owned(),
            event_type: self.event_type.into_owned(),
            created_at: self.created_at,
            metadata: self.metadata.map(parse_json).transpose()?,
            content: parse_json(self.content)?,
        })
    }
}

/// Returns the part of a checksum that depends on the thread, so that an event of another thread is not taken for one of
/// this thread.
fn thread_part(thread_id: ThreadId) -> u32 {
    crc32fast::hash(thread_id.uuid().as_bytes())
}

/// Returns the number that, combined by XOR ([`xor_sql`]) with the checksum of an event in one thread, gives the checksum
/// of the same event in another thread. A checksum that does not match its event does not match the copy either.
pub(crate) fn thread_change(from: ThreadId, into: ThreadId) -> i64 {
    i64::from((thread_part(from) ^ thread_part(into)).cast_signed())
}

/// Returns the SQL expression for the XOR of two integers. SQLite has no operator for it, and NULL gives NULL.
pub(crate) fn xor_sql(left: &str, right: &str) -> String {
    format!("(({left} | {right}) - ({left} & {right}))")
}

#[cfg(test)]
mod tests {
    use protocol::{EventType, NewEvent};
    use serde_json::json;

    use super::*;

    fn event() -> NewEvent {
        let content = json!({"type": "human", "content": [{"type": "text", "text": "kettle ☕"}]});
        let mut event = NewEvent::new(EventType::HumanMessage, &content, Timestamp::UNIX_EPOCH).unwrap();
        event.event_id = EventId::from_uuid(Uuid::from_u128(7));
        event
    }

    #[test]
    fn a4_the_checksum_of_an_event_stays_the_same_in_later_versions() {
        let checksum = EventColumns::of_event(&event(), 3).checksum(ThreadId::from_uuid(Uuid::from_u128(9)));
        assert_eq!(checksum, -1_501_734_160);
    }

    #[test]
    fn a4_every_covered_value_changes_the_checksum() {
        let thread_id = ThreadId::from_uuid(Uuid::from_u128(9));
        let (event, other) =
            (event(), NewEvent::new(EventType::AiMessage, &json!({}), Timestamp::MAX).unwrap());
        let columns = || EventColumns::of_event(&event, 3);
        let expected = columns().checksum(thread_id);
        let nil = RunId::from_uuid(Uuid::nil());
        for changed in [
            EventColumns { seq: 4, ..columns() },
            EventColumns { event_id: other.event_id, ..columns() },
            EventColumns { run_id: Some(nil), ..columns() },
            EventColumns { category: "messagf".into(), ..columns() },
            EventColumns { event_type: "ai_message".into(), ..columns() },
            EventColumns { created_at: other.created_at, ..columns() },
            EventColumns { metadata: Some("".into()), ..columns() },
            EventColumns { content: "{}".into(), ..columns() },
        ] {
            assert_ne!(changed.checksum(thread_id), expected, "{changed:?}");
        }
        assert_ne!(columns().checksum(ThreadId::from_uuid(Uuid::from_u128(10))), expected);
        let moved = |category: &'static str, event_type: &'static str| {
            EventColumns { category: category.into(), event_type: event_type.into(), ..columns() }
                .checksum(thread_id)
        };
        assert_ne!(moved("ab", "c"), moved("a", "bc"), "a byte moved from one text to the next");
    }

    #[test]
    fn the_checksum_of_a_copy_follows_from_that_of_the_original() {
        let event = event();
        let columns = EventColumns::of_event(&event, 3);
        let db = rusqlite::Connection::open_in_memory().unwrap();
        for number in 0..64_u128 {
            let (from, into) = (
                ThreadId::from_uuid(Uuid::from_u128(number)),
                ThreadId::from_uuid(Uuid::from_u128(number * 3)),
            );
            let sql = format!("SELECT {}", xor_sql("?1", "?2"));
            let copied: i64 = db
                .query_row(&sql, (columns.checksum(from), thread_change(from, into)), |row| row.get(0))
                .unwrap();
            assert_eq!(copied, columns.checksum(into), "{number}");
        }
    }
}
