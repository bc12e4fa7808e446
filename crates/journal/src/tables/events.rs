//! The log: appending events and reading pages of them. An event that was stored is never changed here; only the deletion
//! of a thread empties events of others that hold words about it (`memory::dissolving`).

pub(crate) mod copies;
pub(crate) mod rewinds;
mod rows;

use std::collections::hash_map::Entry;
use std::ops::{ControlFlow, RangeInclusive};

use crate::engines::sql::{Connection, Row};
use jiff::Timestamp;
use protocol::{Category, Event, EventId, EventType, NewEvent, RawJson, RunId, Seq, ThreadId};
use serde_json::value::RawValue;
use uuid::Uuid;

use self::rows::NewRow;
use super::columns::{Stored, integer, time};
use super::memory::turns;
use super::threads;
use super::{page_limit, runs};
use crate::view::history::MARKERS;
use crate::{Error, EventQuery, Result, Superseded, ThreadSize};

/// The highest seq of a thread.
const SEQ_MAX: u64 = u32::MAX as u64;

/// How many windows of a page that is read backwards are read forwards, and the fewest rows that are worth one.
const WINDOWS_MAX: usize = 4;
const WINDOW_ROWS_MIN: usize = 8;

/// What [`read`] reads, in its order.
const COLUMNS: &str = "seq, event_id, run_id, category, event_type, created_at, metadata, content";

/// The condition of the index of markers, what changes where a context begins or what leaves it: a statement finds them through it only when it says the same.
pub(crate) const MARKER_EVENTS: &str =
    "event_type IN ('middleware:summarize', 'compaction_undone', 'turns_archived', 'turns_restored')";

/// What an append did.
pub(crate) struct Appended {
    /// One seq per event, in order.
    pub(crate) seqs: Vec<Seq>,
    /// The seqs of those that were stored, one after the other; the others were repetitions.
    pub(crate) new: Option<RangeInclusive<Seq>>,
    pub(crate) stored: u64,
}

pub(crate) fn append(db: &Connection, thread_id: ThreadId, events: &[NewEvent]) -> Result<Appended> {
    let mut head = threads::head(db, thread_id)?;
    let mut known = rows::known(db, head.key, events)?;
    let mut appended = Appended { seqs: Vec::with_capacity(events.len()), new: None, stored: 0 };
    let mut new: Vec<NewRow<'_>> = Vec::with_capacity(events.len());
    for event in events {
        let seq = head.last_seq + 1;
        check(event, seq)?;
        if let Some(event_key) = &event.event_key {
            match known.entry((event_key, event.run_id)) {
                Entry::Occupied(first) => {
                    appended.seqs.push(*first.get());
                    continue;
                }
                Entry::Vacant(unknown) => unknown.insert(seq),
            };
        }
        new.push(NewRow { seq, event, is_turn: turns::is_turn(db, &mut head, event)? });
        head.last_seq = seq;
        if event.event_type.category() == Category::Message {
            head.message_count += 1;
        }
        let created_at = time(event.created_at);
        if created_at > head.updated_at && !is_background(event.event_type) {
            head.updated_at = created_at;
        }
        appended.seqs.push(seq);
    }
    appended.stored = new.len() as u64;
    appended.new = new.first().map(|first| first.seq..=head.last_seq);
    if !new.is_empty() {
        rows::insert(db, &head, &new)?;
        for of_run in new.chunk_by(|one, next| one.event.run_id == next.event.run_id) {
            let last = &of_run[of_run.len() - 1];
            if let Some(run_id) = last.event.run_id {
                runs::reach(db, run_id, head.key, last.seq)?;
            }
        }
    }
    Ok(appended)
}

/// Returns whether the event alone is no activity in its thread: nobody did anything there, or only gave it a name.
const fn is_background(event_type: EventType) -> bool {
    matches!(
        event_type,
        EventType::TurnsArchived
            | EventType::TurnsRestored
            | EventType::ModelCalled
            | EventType::ThreadRenamed
            | EventType::HandoffMirrored
    )
}

/// Refuses what no store could give back unchanged as text.
fn check(event: &NewEvent, seq: Seq) -> Result<()> {
    let invalid = |reason: String| Error::Invalid { what: "an event to append", reason };
    if seq > SEQ_MAX {
        return Err(invalid(format!("the thread holds {SEQ_MAX} events, the most there can be")));
    }
    for json in [Some(&event.content), event.metadata.as_ref()].into_iter().flatten() {
        if let Some(byte) = protocol::lone_surrogate(json.get()) {
            return Err(invalid(format!("half of a surrogate pair is escaped at byte {byte} of its JSON")));
        }
    }
    Ok(())
}

/// Returns how much a thread holds.
pub(crate) fn size(db: &Connection, thread_id: ThreadId) -> Result<ThreadSize> {
    let mut statement = db.prepare(
        "SELECT count(*),
             CAST(coalesce(sum(octet_length(e.content) + coalesce(octet_length(e.metadata), 0)), 0) AS BIGINT),
             (SELECT CAST(coalesce(sum(octet_length(b.bytes)), 0) AS BIGINT)
              FROM artifacts a JOIN artifact_bytes b ON b.sha256 = a.sha256
              JOIN thread_heads h ON h.thread_key = a.thread_key WHERE h.thread_id = $1)
         FROM events e JOIN thread_heads h ON h.thread_key = e.thread_key WHERE h.thread_id = $1",
    )?;
    statement.query_row([thread_id.to_string()], |row| {
        let number = |at: usize| row.get::<_, i64>(at).map(i64::unsigned_abs);
        Ok(ThreadSize { events: number(0)?, bytes: number(1)? + number(2)? })
    })
}

/// Returns the seq of the event with that key, of whatever run.
pub(crate) fn seq_of_key(db: &Connection, thread_id: ThreadId, event_key: &str) -> Result<Option<Seq>> {
    let Some(key) = threads::key(db, thread_id)? else { return Ok(None) };
    let seq = db
        .prepare(
            "SELECT min(seq) FROM events WHERE thread_key = $1 AND event_key = $2 AND event_key IS NOT NULL",
        )?
        .query_row((key, event_key), |row| row.get::<_, Option<u32>>(0))?;
    Ok(seq.map(Into::into))
}

/// Returns a page of events in ascending order.
pub(crate) fn page(db: &Connection, thread_id: ThreadId, query: &EventQuery) -> Result<Vec<Event>> {
    page_limit("events", query.limit)?;
    let Some((key, last_seq)) = threads::end(db, thread_id)? else { return Ok(Vec::new()) };
    let before = query.before.map_or(i64::MAX, integer);
    let bounds = match query.after {
        Some(after) => SeqBounds { after: integer(after), before },
        None => SeqBounds { after: 0, before: before.min(last_seq + 1) },
    };
    let pages = Pages { db, thread_id, key, query, bounds };
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

/// Returns a page of a run's events in ascending order, superseded ones too. Its events are between those of other runs
/// of the thread, so that the rest is not looked at.
pub(crate) fn page_of_run(
    db: &Connection,
    thread_id: ThreadId,
    run_id: RunId,
    after: Seq,
    limit: usize,
) -> Result<Vec<Event>> {
    let limit = page_limit("events of a run", limit)?;
    let Some(key) = threads::key(db, thread_id)? else { return Ok(Vec::new()) };
    let Some((first, last)) = runs::span(db, run_id, key)? else { return Ok(Vec::new()) };
    let mut statement = db.prepare(&run_sql())?;
    let first = first.max(integer(after).saturating_add(1));
    let parameters = (key, first, last, run_id.uuid().into_bytes(), limit);
    statement.query_map(parameters, |row| read(row, thread_id))
}

/// The seqs between which events are read; neither belongs to them.
#[derive(Clone, Copy)]
struct SeqBounds {
    after: i64,
    before: i64,
}

/// One page being read, in the order in which the query goes through the thread.
struct Pages<'a> {
    db: &'a Connection<'a>,
    thread_id: ThreadId,
    key: i64,
    query: &'a EventQuery,
    bounds: SeqBounds,
}

impl Pages<'_> {
    /// Steps from one visible range to the next, so that what is superseded between them costs nothing.
    fn visible_forwards(&self) -> Result<Vec<Event>> {
        let SeqBounds { after: mut at, before: end } = self.bounds;
        let mut events = Vec::new();
        loop {
            let (after, before) = rewinds::visible_after(self.db, self.key, at)?;
            events = self.read(SeqBounds { after, before: before.min(end) }, events)?;
            if events.len() == self.query.limit || before >= end {
                return Ok(events);
            }
            at = before - 1;
        }
    }

    fn visible_backwards(&self) -> Result<Vec<Event>> {
        let SeqBounds { after: end, before: mut at } = self.bounds;
        let mut events = Vec::new();
        loop {
            let (after, before) = rewinds::visible_before(self.db, self.key, at)?;
            events = self.read(SeqBounds { after: after.max(end), before }, events)?;
            if events.len() == self.query.limit || after <= end {
                return Ok(events);
            }
            at = after + 1;
        }
    }

    /// Adds the events between the bounds to `events`, up to the page's limit.
    fn read(&self, bounds: SeqBounds, events: Vec<Event>) -> Result<Vec<Event>> {
        match self.query.after {
            Some(_) => self.select("ASC", bounds, events),
            None => self.read_backwards(bounds, events),
        }
    }

    /// The engine goes forwards from row to row in half the time: windows that hold no more rows than are wanted are
    /// read that way, and only what they leave open, because much in them is hidden, is looked for backwards.
    fn read_backwards(&self, bounds: SeqBounds, mut events: Vec<Event>) -> Result<Vec<Event>> {
        let SeqBounds { after, mut before } = bounds;
        for _ in 0..WINDOWS_MAX {
            let wanted = self.query.limit - events.len();
            if wanted < WINDOW_ROWS_MIN || before <= after {
                break;
            }
            let start = before.saturating_sub(integer(wanted as u64) + 1).max(after);
            let from = events.len();
            events = self.select("ASC", SeqBounds { after: start, before }, events)?;
            events[from..].reverse();
            before = start + 1;
        }
        if events.len() == self.query.limit || before <= after + 1 {
            return Ok(events);
        }
        self.select("DESC", SeqBounds { after, before }, events)
    }

    fn select(&self, direction: &str, bounds: SeqBounds, mut events: Vec<Event>) -> Result<Vec<Event>> {
        let limit = integer((self.query.limit - events.len()) as u64);
        let mut statement = self.db.prepare(&page_sql(self.query, direction))?;
        let parameters = (self.key, bounds.after, bounds.before, limit);
        statement.each(parameters, |row| {
            events.push(read(row, self.thread_id)?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(events)
    }
}

/// Returns the statement that reads a stretch of a thread: of the thread `$1`, the events between `$2` and `$3`, up to `$4`.
fn page_sql(query: &EventQuery, direction: &str) -> String {
    // In the order of the catalog, so that the same question is the same statement. The names are in it: the engine finds
    // markers through an index of their own only when it knows that nothing else is asked for.
    let categories = Category::ALL.into_iter().filter(|category| query.categories.contains(category));
    let types = EventType::ALL.iter().filter(|event_type| query.types.contains(event_type));
    let conditions = [
        ("category", categories.map(Category::as_str).collect::<Vec<_>>()),
        ("event_type", types.map(|event_type| event_type.as_str()).collect()),
    ];
    let conditions = conditions.iter().filter(|(_, names)| !names.is_empty());
    let mut conditions: String =
        conditions.map(|(column, names)| format!(" AND {column} IN ('{}')", names.join("', '"))).collect();
    if !query.types.is_empty() && query.types.iter().all(|event_type| MARKERS.contains(event_type)) {
        conditions.push_str(" AND ");
        conditions.push_str(MARKER_EVENTS);
    }
    format!(
        "SELECT {COLUMNS} FROM events
         WHERE thread_key = $1 AND seq > $2 AND seq < $3{conditions} ORDER BY seq {direction} LIMIT $4"
    )
}

/// Returns the statement that reads a page of the run `$4`, whose events are among `$2 ..= $3` of the thread `$1`.
fn run_sql() -> String {
    format!(
        "SELECT {COLUMNS} FROM events
         WHERE thread_key = $1 AND seq >= $2 AND seq <= $3 AND run_id = $4 ORDER BY seq LIMIT $5"
    )
}

/// By number: looking a column up by its name costs as much as reading it.
fn read(row: &Row<'_>, thread_id: ThreadId) -> Result<Event> {
    let run_id: Option<[u8; 16]> = row.get(2)?;
    Ok(Event {
        thread_id,
        seq: row.get::<_, u32>(0)?.into(),
        event_id: EventId::from_uuid(Uuid::from_bytes(row.get(1)?)),
        run_id: run_id.map(|bytes| RunId::from_uuid(Uuid::from_bytes(bytes))),
        category: row.get(3)?,
        event_type: row.get(4)?,
        created_at: row.get::<_, Stored<Timestamp>>(5)?.0,
        metadata: row.get::<_, Option<String>>(6)?.map(raw_json).transpose()?,
        content: raw_json(row.get(7)?)?,
    })
}

fn raw_json(text: String) -> Result<RawJson> {
    RawValue::from_string(text).map_err(|error| Error::Malformed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::plan;
    use crate::view::history::{MARKERS, SHOWN};

    #[test]
    fn b7_pages_and_traces_come_from_an_index() {
        let by_seq = "SEARCH events USING INDEX events_seq (thread_key=? AND seq>? AND seq<?)";
        let of_markers = "SEARCH events USING INDEX events_markers (thread_key=? AND seq>? AND seq<?)";
        let of = |categories: &[Category], types: &[EventType]| EventQuery {
            categories: categories.to_vec(),
            types: types.to_vec(),
            ..EventQuery::default()
        };
        for (query, expected) in [
            (of(&[], &[]), by_seq),
            (of(&[Category::Message], &[]), by_seq),
            (of(&[], &SHOWN), by_seq),
            (of(&[Category::Message, Category::Middleware], &[EventType::AiMessage]), by_seq),
            (of(&[], &MARKERS), of_markers),
            (of(&[], &[MARKERS[1], MARKERS[0]]), of_markers),
            (of(&[], &[EventType::TurnsArchived]), of_markers),
        ] {
            for direction in ["ASC", "DESC"] {
                assert_eq!(plan(&page_sql(&query, direction)), [expected], "{query:?} {direction}");
            }
        }
        assert_eq!(plan(&run_sql()), [by_seq]);
    }
}
