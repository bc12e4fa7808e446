//! The log: appending events and reading pages of them. An event that was stored is never changed.

pub(crate) mod copies;
pub(crate) mod rewinds;

use protocol::{Category, Event, EventId, NewEvent, RawJson, RunId, Seq, ThreadId};
use rusqlite::types::{FromSqlError, Type};
use rusqlite::{Connection, OptionalExtension, Row, ToSql};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::columns::{instant, integer, stored, time};
use super::threads::{self, Head};
use super::{page_limit, turns};
use crate::{Error, EventQuery, Result, Superseded};

/// The highest seq of a thread.
const SEQ_MAX: u64 = u32::MAX as u64;

/// What an append did.
pub(crate) struct Appended {
    /// One seq per event, in order.
    pub(crate) seqs: Vec<Seq>,
    /// How many were stored; the others were repetitions.
    pub(crate) stored: u64,
}

/// Appends `events` to the thread.
pub(crate) fn append(connection: &Connection, thread_id: ThreadId, events: &[NewEvent]) -> Result<Appended> {
    let mut head = threads::head(connection, thread_id)?;
    let mut appended = Appended { seqs: Vec::with_capacity(events.len()), stored: 0 };
    for event in events {
        let seq = head.last_seq + 1;
        check(event, seq)?;
        if let Some(first) = first_seq(connection, &head, event)? {
            appended.seqs.push(first);
            continue;
        }
        let created_at = time(event.created_at);
        let turn_index = turns::log(connection, &mut head, (seq, &created_at), event)?;
        insert(connection, (head.key, seq), event, turn_index)?;
        head.last_seq = seq;
        if event.event_type.category() == Category::Message {
            head.message_count += 1;
        }
        if created_at > head.updated_at {
            head.updated_at = created_at;
        }
        appended.seqs.push(seq);
        appended.stored += 1;
    }
    if appended.stored > 0 {
        threads::advance(connection, &head)?;
    }
    Ok(appended)
}

/// Refuses what no store could give back unchanged as text.
fn check(event: &NewEvent, seq: Seq) -> Result<()> {
    let invalid = |reason: String| Error::Invalid { what: "an event to append", reason };
    if seq > SEQ_MAX {
        return Err(invalid(format!("the thread holds {SEQ_MAX} events, the most there can be")));
    }
    for json in [Some(&event.content), event.metadata.as_ref()].into_iter().flatten() {
        if let Some(byte) = lone_surrogate(json.get()) {
            return Err(invalid(format!("half of a surrogate pair is escaped at byte {byte} of its JSON")));
        }
    }
    Ok(())
}

/// Returns where `json` escapes half of a surrogate pair, which is not text and has no UTF-8 form.
fn lone_surrogate(json: &str) -> Option<usize> {
    let bytes = json.as_bytes();
    let unit = |at: usize| {
        let digits = bytes.get(at..at + 6).filter(|escape| escape.starts_with(b"\\u"))?;
        u16::from_str_radix(std::str::from_utf8(&digits[2..]).ok()?, 16).ok()
    };
    let mut at = 0;
    while let Some(found) = bytes[at..].iter().position(|byte| *byte == b'\\') {
        at += found;
        match unit(at) {
            Some(0xD800..=0xDBFF) if matches!(unit(at + 6), Some(0xDC00..=0xDFFF)) => at += 12,
            Some(0xD800..=0xDFFF) => return Some(at),
            Some(_) => at += 6,
            None => at += 2,
        }
    }
    None
}

fn insert(
    connection: &Connection,
    (thread_key, seq): (i64, Seq),
    event: &NewEvent,
    turn_index: Option<i64>,
) -> Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO events (thread_key, seq, event_id, run_id, category, event_type, created_at, turn_index,
                                 event_key, metadata, content)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute((
            thread_key,
            integer(seq),
            event.event_id.uuid().as_bytes(),
            event.run_id.map(|run_id| run_id.uuid().into_bytes()),
            event.event_type.category().as_str(),
            event.event_type.as_str(),
            instant(event.created_at),
            turn_index,
            &event.event_key,
            event.metadata.as_ref().map(|json| json.get()),
            event.content.get(),
        ))?;
    Ok(())
}

/// Returns the seq under which an event of this run and key is stored already.
fn first_seq(connection: &Connection, head: &Head, event: &NewEvent) -> Result<Option<Seq>> {
    let Some(event_key) = &event.event_key else { return Ok(None) };
    let run_id = event.run_id.map(|run_id| run_id.uuid().into_bytes());
    let run_id = run_id.as_ref().map_or(&[][..], |bytes| bytes);
    let seq = connection
        .prepare_cached(
            "SELECT seq FROM events WHERE thread_key = ?1 AND event_key = ?2 AND ifnull(run_id, x'') = ?3
             AND event_key IS NOT NULL",
        )?
        .query_row((head.key, event_key, run_id), |row| row.get::<_, u32>(0))
        .optional()?;
    Ok(seq.map(Into::into))
}

/// Returns the seq of the event with that key, of whatever run.
pub(crate) fn seq_of_key(
    connection: &Connection,
    thread_id: ThreadId,
    event_key: &str,
) -> Result<Option<Seq>> {
    let Some(key) = threads::key(connection, thread_id)? else { return Ok(None) };
    let seq = connection
        .prepare_cached(
            "SELECT min(seq) FROM events WHERE thread_key = ?1 AND event_key = ?2 AND event_key IS NOT NULL",
        )?
        .query_row((key, event_key), |row| row.get::<_, Option<u32>>(0))?;
    Ok(seq.map(Into::into))
}

/// Returns a page of events in ascending order.
pub(crate) fn page(connection: &Connection, thread_id: ThreadId, query: &EventQuery) -> Result<Vec<Event>> {
    page_limit("events", query.limit)?;
    let Some(key) = threads::key(connection, thread_id)? else { return Ok(Vec::new()) };
    let bounds = (integer(query.after.unwrap_or(0)), integer(query.before.unwrap_or(u64::MAX)));
    let pages = Pages { connection, thread_id, key, query, bounds };
    match (query.superseded, query.after) {
        (Superseded::Shown, _) => pages.read(bounds, Vec::new()),
        (Superseded::Hidden, Some(_)) => pages.visible_forwards(),
        (Superseded::Hidden, None) => pages.visible_backwards(),
    }
    .map(|mut events| {
        if query.after.is_none() {
            events.reverse();
        }
        events
    })
}

/// One page being read, in the order in which the query goes through the thread.
struct Pages<'a> {
    connection: &'a Connection,
    thread_id: ThreadId,
    key: i64,
    query: &'a EventQuery,
    /// The seqs between which the page is; neither belongs to it.
    bounds: (i64, i64),
}

impl Pages<'_> {
    /// Steps from one visible range to the next, so that what is superseded between them costs nothing.
    fn visible_forwards(&self) -> Result<Vec<Event>> {
        let (mut at, end) = self.bounds;
        let mut events = Vec::new();
        loop {
            let (after, before) = rewinds::visible_after(self.connection, self.key, at)?;
            events = self.read((after, before.min(end)), events)?;
            if events.len() == self.query.limit || before >= end {
                return Ok(events);
            }
            at = before - 1;
        }
    }

    fn visible_backwards(&self) -> Result<Vec<Event>> {
        let (end, mut at) = self.bounds;
        let mut events = Vec::new();
        loop {
            let (after, before) = rewinds::visible_before(self.connection, self.key, at)?;
            events = self.read((after.max(end), before), events)?;
            if events.len() == self.query.limit || after <= end {
                return Ok(events);
            }
            at = after + 1;
        }
    }

    /// Adds the events between the bounds to `events`, up to the page's limit.
    fn read(&self, (after, before): (i64, i64), mut events: Vec<Event>) -> Result<Vec<Event>> {
        let limit = integer((self.query.limit - events.len()) as u64);
        let (names, categories) = category_condition(&self.query.categories);
        let mut parameters: Vec<&dyn ToSql> = vec![&self.key, &after, &before, &limit];
        parameters.extend(names.iter().map(|name| name as &dyn ToSql));
        let direction = if self.query.after.is_some() { "ASC" } else { "DESC" };
        let mut statement = self.connection.prepare_cached(&format!(
            "SELECT seq, event_id, run_id, category, event_type, created_at, metadata, content FROM events
             WHERE thread_key = ?1 AND seq > ?2 AND seq < ?3{categories} ORDER BY seq {direction} LIMIT ?4"
        ))?;
        for event in statement.query_map(parameters.as_slice(), |row| read(row, self.thread_id))? {
            events.push(event?);
        }
        Ok(events)
    }
}

/// Returns the names to bind from the fifth parameter on, and the condition that uses them.
fn category_condition(categories: &[Category]) -> (Vec<&'static str>, String) {
    if categories.is_empty() {
        return (Vec::new(), String::new());
    }
    let names: Vec<_> = Category::ALL
        .into_iter()
        .filter(|category| categories.contains(category))
        .map(|category| category.as_str())
        .collect();
    let placeholders: Vec<_> = (0..names.len()).map(|index| format!("?{}", index + 5)).collect();
    (names, format!(" AND category IN ({})", placeholders.join(", ")))
}

fn read(row: &Row<'_>, thread_id: ThreadId) -> rusqlite::Result<Event> {
    let run_id: Option<[u8; 16]> = row.get("run_id")?;
    Ok(Event {
        thread_id,
        seq: row.get::<_, u32>("seq")?.into(),
        event_id: EventId::from_uuid(Uuid::from_bytes(row.get("event_id")?)),
        run_id: run_id.map(|bytes| RunId::from_uuid(Uuid::from_bytes(bytes))),
        event_type: row.get("event_type")?,
        category: row.get("category")?,
        content: raw_json(row.get("content")?)?,
        metadata: row.get::<_, Option<String>>("metadata")?.map(raw_json).transpose()?,
        created_at: stored(row, "created_at")?,
    })
}

fn raw_json(text: String) -> rusqlite::Result<RawJson> {
    RawValue::from_string(text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(FromSqlError::other(error)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a6_half_a_surrogate_pair_is_found_wherever_it_stands() {
        for (json, at) in [
            (r#""plain""#, None),
            (r#""\ud83d\ude00""#, None),
            (r#""\\ud83d""#, None),
            (r#""\u0000\u2028""#, None),
            (r#""\ud83d""#, Some(1)),
            (r#""a\n\uDE00""#, Some(4)),
            (r#""\ud83d\ud83d\ude00""#, Some(1)),
            (r#""\ud83dA""#, Some(1)),
        ] {
            assert_eq!(lone_surrogate(json), at, "{json}");
        }
    }
}
