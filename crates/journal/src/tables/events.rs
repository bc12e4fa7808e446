//! The event log: appending events, and reading pages of them. A stored event is never changed. The only exception is
//! the deletion of a thread, which empties events of other threads that contain text about it
//! (`memory::summary_removal`).

pub(crate) mod checksums;
mod event_filter;
mod event_rows;
pub(crate) mod pins;
pub(crate) mod rewinds;
pub(crate) mod transcript_copy;
pub(crate) mod verification;

use std::collections::hash_map::Entry;
use std::ops::{ControlFlow, RangeInclusive};

use crate::engines::sql::{SqlConnection, SqlDialect, SqlRow};
use jiff::Timestamp;
use protocol::{Category, Event, EventId, EventType, NewEvent, RawJson, RunId, Seq, ThreadId};
use uuid::Uuid;

use self::checksums::{COLUMNS, EventColumns};
use self::event_filter::{is_selected, page_conditions};
use self::event_rows::NewEventRow;
use super::columns::{encode_counter, encode_json, encode_time};
use super::memory::turns;
use super::threads;
use super::{check_page_limit, runs};
use crate::query::verification::DAMAGED_EVENT_TYPE;
use crate::{DamageHandling, Error, EventQuery, Result, SupersededVisibility, ThreadSize};

/// The highest possible seq of a thread. The search index stores a seq in 32 bits.
const SEQ_MAX: u64 = u32::MAX as u64;

/// Maximum number of windows that a backwards read executes as forwards reads, see
/// [`EventPageReader::read_backwards`].
const WINDOWS_MAX: usize = 4;
/// Minimum number of rows for which a window is worth a query.
const WINDOW_ROWS_MIN: usize = 8;

/// The condition of the partial index `events_markers`: events that change where a context begins or what it leaves
/// out. An engine uses the index only for a statement that contains the same condition.
pub(crate) const CONTEXT_CHANGE_EVENTS: &str =
    "event_type IN ('middleware:summarize', 'compaction_undone', 'turns_archived', 'turns_restored')";

/// The condition of the partial index `events_pins`: events that hold the pins of a thread.
pub(crate) const PIN_EVENTS: &str = "event_type IN ('pins_changed')";

/// The lowest seq of the thread `$1` with the event key `$2`. The sum is not the column itself, because `min(seq)` makes
/// an engine search the thread's events in the order of their seqs, of which there are many, until one has the key.
const SEQ_OF_EVENT_KEY: &str =
    "SELECT min(seq + 0) FROM events WHERE thread_key = $1 AND event_key = $2 AND event_key IS NOT NULL";

/// The result of an append.
pub(crate) struct AppendReceipt {
    /// One seq for each event, in order.
    pub(crate) seqs: Vec<Seq>,
    /// The seqs of the events that were inserted, which are consecutive; the other events were repetitions. `None` if
    /// none was inserted.
    pub(crate) new_seqs: Option<RangeInclusive<Seq>>,
    /// Number of events that were inserted.
    pub(crate) stored_events: u64,
}

/// Appends events to a thread. An event whose key is stored for the same run already is a repetition and keeps its
/// first seq. Updates the counters of the thread and the last seqs of the runs.
///
/// # Errors
/// [`Error::NotFound`] if the thread does not exist, [`Error::InvalidRequest`] if an event cannot be stored.
pub(crate) fn append(db: &SqlConnection, thread_id: ThreadId, events: &[NewEvent]) -> Result<AppendReceipt> {
    let mut head = threads::load_head(db, thread_id)?;
    let mut stored_seqs = event_rows::find_stored_events(db, head.key, events)?;
    let mut receipt =
        AppendReceipt { seqs: Vec::with_capacity(events.len()), new_seqs: None, stored_events: 0 };
    let mut new: Vec<NewEventRow<'_>> = Vec::with_capacity(events.len());
    for event in events {
        let seq = head.last_seq + 1;
        check_event(event, seq)?;
        if let Some(event_key) = &event.event_key {
            match stored_seqs.entry((event_key, event.run_id)) {
                Entry::Occupied(stored) => {
                    receipt.seqs.push(*stored.get());
                    continue;
                }
                Entry::Vacant(vacant) => vacant.insert(seq),
            };
        }
        let checksum = EventColumns::of_event(event, seq).checksum(thread_id);
        new.push(NewEventRow { seq, event, checksum, is_turn: turns::is_turn(db, &mut head, event)? });
        head.last_seq = seq;
        if event.event_type.category() == Category::Message {
            head.message_count += 1;
        }
        let created_at = encode_time(event.created_at);
        if created_at > head.updated_at && !is_background(event.event_type) {
            head.updated_at = created_at;
        }
        receipt.seqs.push(seq);
    }
    receipt.stored_events = new.len() as u64;
    receipt.new_seqs = new.first().map(|first| first.seq..=head.last_seq);
    if !new.is_empty() {
        event_rows::insert_events(db, &head, &new)?;
        for run_rows in new.chunk_by(|left, right| left.event.run_id == right.event.run_id) {
            let last = &run_rows[run_rows.len() - 1];
            if let Some(run_id) = last.event.run_id {
                runs::record_event_seq(db, run_id, head.key, last.seq)?;
            }
        }
    }
    Ok(receipt)
}

/// Returns whether an event does not count as activity in its thread. Such an event records background work or a
/// name, and leaves the thread's time of the last change as it is.
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

/// Fails if an event cannot be stored: the thread is full, or its JSON escapes half of a surrogate pair, which no
/// store could return unchanged as text.
fn check_event(event: &NewEvent, seq: Seq) -> Result<()> {
    let invalid = |reason: String| Error::InvalidRequest { what: "an event to append", reason };
    if seq > SEQ_MAX {
        return Err(invalid(format!("the thread has {SEQ_MAX} events, which is the maximum")));
    }
    for json in [Some(&event.content), event.metadata.as_ref()].into_iter().flatten() {
        if let Some(byte) = protocol::lone_surrogate(json.get()) {
            return Err(invalid(format!("half of a surrogate pair is escaped at byte {byte} of its JSON")));
        }
    }
    Ok(())
}

/// Returns the number of events of a thread, and the size of its events and artifacts in bytes.
pub(crate) fn thread_size(db: &SqlConnection, thread_id: ThreadId) -> Result<ThreadSize> {
    let mut statement = db.prepare(
        "SELECT count(*),
             CAST(coalesce(sum(octet_length(e.content) + coalesce(octet_length(e.metadata), 0)), 0) AS BIGINT),
             (SELECT CAST(coalesce(sum(octet_length(b.bytes)), 0) AS BIGINT)
              FROM artifacts a JOIN artifact_bytes b ON b.sha256 = a.sha256
              JOIN thread_heads h ON h.thread_key = a.thread_key WHERE h.thread_id = $1)
         FROM events e JOIN thread_heads h ON h.thread_key = e.thread_key
         WHERE h.thread_id = $1 AND h.updated_at IS NOT NULL",
    )?;
    statement.query_row([thread_id.to_string()], |row| {
        let number = |index: usize| row.get::<_, i64>(index).map(i64::unsigned_abs);
        Ok(ThreadSize { events: number(0)?, bytes: number(1)? + number(2)? })
    })
}

/// Returns the lowest seq of the events with this key, of any run, or `None`.
pub(crate) fn seq_of_event_key(
    db: &SqlConnection,
    thread_id: ThreadId,
    event_key: &str,
) -> Result<Option<Seq>> {
    let Some(key) = threads::thread_key(db, thread_id)? else { return Ok(None) };
    let seq =
        db.prepare(SEQ_OF_EVENT_KEY)?.query_row((key, event_key), |row| row.get::<_, Option<u32>>(0))?;
    Ok(seq.map(Into::into))
}

/// Returns a page of the events of a thread in ascending order.
///
/// # Errors
/// [`Error::InvalidRequest`] if the limit is zero or too large.
pub(crate) fn thread_page(db: &SqlConnection, thread_id: ThreadId, query: &EventQuery) -> Result<Vec<Event>> {
    check_page_limit("events", query.limit)?;
    let Some((key, last_seq)) = threads::key_and_last_seq(db, thread_id)? else { return Ok(Vec::new()) };
    let before = query.before.map_or(i64::MAX, encode_counter);
    let bounds = match query.after {
        Some(after) => SeqBounds { after: encode_counter(after), before },
        None => SeqBounds { after: 0, before: before.min(last_seq + 1) },
    };
    let reader = EventPageReader { db, thread_id, key, query, bounds };
    match (query.superseded, query.after) {
        (SupersededVisibility::Shown, _) => reader.read_range(bounds, Vec::new()),
        (SupersededVisibility::Hidden, _) if db.dialect() == SqlDialect::Postgres => {
            reader.read_visible_in_groups()
        }
        (SupersededVisibility::Hidden, Some(_)) => reader.read_visible_forwards(),
        (SupersededVisibility::Hidden, None) => reader.read_visible_backwards(),
    }
    .map(|mut events| {
        if query.after.is_none() {
            events.reverse();
        }
        events
    })
}

/// Returns a page as [`thread_page`] does, with one statement. `None` if the thread has superseded events that the query leaves
/// out, or if events of a later version took the place of others. Used for PostgreSQL.
///
/// # Errors
/// [`Error::InvalidRequest`] if the limit is zero or too large.
pub(crate) fn unrewound_page(
    db: &SqlConnection,
    thread_id: ThreadId,
    query: &EventQuery,
) -> Result<Option<Vec<Event>>> {
    let limit = check_page_limit("events", query.limit)?;
    let (after, before) =
        (query.after.map_or(0, encode_counter), query.before.map_or(i64::MAX, encode_counter));
    let (mut events, mut rows, mut is_rewound) = (Vec::new(), 0, false);
    db.prepare(&unrewound_page_sql(query))?.for_each_row(
        (thread_id.to_string(), after, before, limit),
        |row| {
            // Seqs start at 1, and the row that announces superseded events has none.
            is_rewound = row.get::<_, u32>(0)? == 0;
            if is_rewound {
                return Ok(ControlFlow::Break(()));
            }
            rows += 1;
            let event = read_event(row, thread_id, query.damage)?;
            events.extend(Some(event).filter(|event| is_selected(query, event)));
            Ok(ControlFlow::Continue(()))
        },
    )?;
    if query.after.is_none() {
        events.reverse();
    }
    let is_cut = rows == query.limit && events.len() < rows;
    Ok((!is_rewound && !is_cut).then_some(events))
}

/// Returns the statement for a page of the thread `$1`: its events between `$2` and `$3` (exclusive), at most `$4`. If the
/// thread has superseded events that the query leaves out, it returns one row with the seq 0 instead.
fn unrewound_page_sql(query: &EventQuery) -> String {
    let key = "(SELECT h.thread_key FROM thread_heads h WHERE h.thread_id = $1 AND h.updated_at IS NOT NULL)";
    let direction = if query.after.is_some() { "ASC" } else { "DESC" };
    let conditions = page_conditions(query);
    let page = format!(
        "SELECT {COLUMNS} FROM events WHERE thread_key = {key} AND seq > $2 AND seq < $3{conditions}"
    );
    let rewound = format!("EXISTS (SELECT 1 FROM superseded s WHERE s.thread_key = {key})");
    match query.superseded {
        SupersededVisibility::Shown => format!("{page} ORDER BY seq {direction} LIMIT $4"),
        SupersededVisibility::Hidden => format!(
            "(SELECT 0 AS seq, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL WHERE {rewound}) UNION ALL
             ({page} AND NOT {rewound} ORDER BY seq {direction} LIMIT $4)"
        ),
    }
}

/// Returns a page of the events of a run in ascending order, including superseded events. Only the range of seqs from
/// the run's first to its last event is searched.
pub(crate) fn run_page(
    db: &SqlConnection,
    thread_id: ThreadId,
    run_id: RunId,
    after: Seq,
    limit: usize,
) -> Result<Vec<Event>> {
    let limit = check_page_limit("events of a run", limit)?;
    let Some(key) = threads::thread_key(db, thread_id)? else { return Ok(Vec::new()) };
    let Some((first, last)) = runs::seq_span(db, run_id, key)? else { return Ok(Vec::new()) };
    let mut statement = db.prepare(&run_page_sql())?;
    let first = first.max(encode_counter(after).saturating_add(1));
    let parameters = (key, first, last, run_id.uuid().into_bytes(), limit);
    statement.query_map(parameters, |row| read_event(row, thread_id, DamageHandling::Refuse))
}

/// A range of seqs. Both bounds are exclusive.
#[derive(Clone, Copy)]
struct SeqBounds {
    /// The seq before the range.
    after: i64,
    /// The seq after the range.
    before: i64,
}

/// Reads one page of a thread's events, in the direction of the query.
struct EventPageReader<'a> {
    /// The connection.
    db: &'a SqlConnection<'a>,
    /// The thread.
    thread_id: ThreadId,
    /// The number under which the thread's events are stored.
    key: i64,
    /// The query.
    query: &'a EventQuery,
    /// The range of seqs that the query covers.
    bounds: SeqBounds,
}

impl EventPageReader<'_> {
    /// Reads visible events in ascending order. It jumps from one visible range to the next, so superseded events in
    /// between cost nothing.
    fn read_visible_forwards(&self) -> Result<Vec<Event>> {
        let SeqBounds { after: mut position, before: end } = self.bounds;
        let mut events = Vec::new();
        loop {
            let (after, before) = rewinds::visible_range_after(self.db, self.key, position)?;
            events = self.read_range(SeqBounds { after, before: before.min(end) }, events)?;
            if events.len() == self.query.limit || before >= end {
                return Ok(events);
            }
            position = before - 1;
        }
    }

    /// Reads visible events in descending order, jumping from one visible range to the previous one.
    fn read_visible_backwards(&self) -> Result<Vec<Event>> {
        let SeqBounds { after: end, before: mut position } = self.bounds;
        let mut events = Vec::new();
        loop {
            let (after, before) = rewinds::visible_range_before(self.db, self.key, position)?;
            events = self.read_range(SeqBounds { after: after.max(end), before }, events)?;
            if events.len() == self.query.limit || after <= end {
                return Ok(events);
            }
            position = after + 1;
        }
    }

    /// Reads visible events with few statements, each of which is a round trip: one for the visible ranges, one for the
    /// events of the first range, and then one for each group of ranges. Each group has more ranges than the one before,
    /// so the number of statements grows with the logarithm of the number of rewinds, and few events beyond the page are
    /// read.
    fn read_visible_in_groups(&self) -> Result<Vec<Event>> {
        /// The factor by which the next group is larger.
        const GROWTH: usize = 4;
        let SeqBounds { after, before } = self.bounds;
        let mut ranges = rewinds::visible_ranges(self.db, self.key, after, before)?;
        if self.query.after.is_none() {
            ranges.reverse();
        }
        let (mut events, mut remaining, mut group_size) = (Vec::new(), ranges.as_slice(), 1);
        while let Some((group, rest)) = remaining.split_at_checked(group_size.min(remaining.len()))
            && !group.is_empty()
            && events.len() < self.query.limit
        {
            events = match *group {
                [(after, before)] => {
                    self.select_events(self.direction(), SeqBounds { after, before }, events)?
                }
                _ => self.select_events_of_ranges(group, events)?,
            };
            remaining = rest;
            group_size *= GROWTH;
        }
        Ok(events)
    }

    /// Appends the matching events of several ranges to `events`, up to the limit of the page, with one statement of
    /// PostgreSQL.
    fn select_events_of_ranges(&self, ranges: &[(i64, i64)], mut events: Vec<Event>) -> Result<Vec<Event>> {
        let (first_new, limit) = (events.len(), self.query.limit - events.len());
        let mut rows = 0;
        let mut statement = self.db.prepare(&ranges_sql(self.query))?;
        let parameters = (self.key, encode_json(&ranges)?, encode_counter(limit as u64));
        statement.for_each_row(parameters, |row| {
            rows += 1;
            let event = read_event(row, self.thread_id, self.query.damage)?;
            events.extend(Some(event).filter(|event| is_selected(self.query, event)));
            Ok(ControlFlow::Continue(()))
        })?;
        if rows < limit || events.len() == self.query.limit {
            return Ok(events);
        }
        // Events of a later version took the place of others.
        events.truncate(first_new);
        for &(after, before) in ranges {
            events = self.select_events(self.direction(), SeqBounds { after, before }, events)?;
        }
        Ok(events)
    }

    /// Returns the SQL direction in which the query is read.
    const fn direction(&self) -> &'static str {
        if self.query.after.is_some() { "ASC" } else { "DESC" }
    }

    /// Appends the events of a range to `events`, up to the limit of the page.
    fn read_range(&self, bounds: SeqBounds, events: Vec<Event>) -> Result<Vec<Event>> {
        match self.query.after {
            Some(_) => self.select_events("ASC", bounds, events),
            None => self.read_backwards(bounds, events),
        }
    }

    /// Appends the events of a range to `events` in descending order, up to the limit of the page.
    ///
    /// SQLite reads rows forwards in half the time that it needs backwards. So windows that contain no more seqs than
    /// rows are needed are read forwards and reversed. Only if many of their events do not match the query, the rest
    /// is read backwards.
    fn read_backwards(&self, bounds: SeqBounds, mut events: Vec<Event>) -> Result<Vec<Event>> {
        let SeqBounds { after, mut before } = bounds;
        for _ in 0..WINDOWS_MAX {
            let missing = self.query.limit - events.len();
            if missing < WINDOW_ROWS_MIN || before <= after {
                break;
            }
            let start = before.saturating_sub(encode_counter(missing as u64) + 1).max(after);
            let first_new = events.len();
            events = self.select_events("ASC", SeqBounds { after: start, before }, events)?;
            events[first_new..].reverse();
            before = start + 1;
        }
        if events.len() == self.query.limit || before <= after + 1 {
            return Ok(events);
        }
        self.select_events("DESC", SeqBounds { after, before }, events)
    }

    /// Appends the matching events of a range to `events`, up to the limit of the page, in the given SQL direction.
    fn select_events(
        &self,
        direction: &str,
        mut bounds: SeqBounds,
        mut events: Vec<Event>,
    ) -> Result<Vec<Event>> {
        let mut statement = self.db.prepare(&page_sql(self.query, direction))?;
        loop {
            let limit = self.query.limit - events.len();
            let (mut rows, mut last_seq) = (0, 0);
            let parameters = (self.key, bounds.after, bounds.before, encode_counter(limit as u64));
            statement.for_each_row(parameters, |row| {
                let event = read_event(row, self.thread_id, self.query.damage)?;
                (rows, last_seq) = (rows + 1, encode_counter(event.seq));
                events.extend(Some(event).filter(|event| is_selected(self.query, event)));
                Ok(ControlFlow::Continue(()))
            })?;
            if rows < limit || events.len() == self.query.limit {
                return Ok(events);
            }
            // Events of a later version took the place of others.
            match direction {
                "ASC" => bounds.after = last_seq,
                _ => bounds.before = last_seq,
            }
        }
    }
}

/// Returns the statement for a range of a thread's events: of the thread `$1`, the events between `$2` and `$3`
/// (exclusive), at most `$4`.
fn page_sql(query: &EventQuery, direction: &str) -> String {
    let conditions = page_conditions(query);
    format!(
        "SELECT {COLUMNS} FROM events
         WHERE thread_key = $1 AND seq > $2 AND seq < $3{conditions} ORDER BY seq {direction} LIMIT $4"
    )
}

/// Returns PostgreSQL's statement for several ranges of a thread's events: of the thread `$1`, the events in one of the
/// ranges `$2`, a JSON list of pairs of exclusive bounds, at most `$3`.
fn ranges_sql(query: &EventQuery) -> String {
    let conditions = page_conditions(query);
    let direction = if query.after.is_some() { "ASC" } else { "DESC" };
    format!(
        "SELECT {COLUMNS} FROM json_array_elements(CAST($2 AS text)::json) AS ranges(bounds)
         CROSS JOIN LATERAL (SELECT {COLUMNS} FROM events
             WHERE thread_key = $1 AND seq > (bounds ->> 0)::bigint AND seq < (bounds ->> 1)::bigint{conditions}
             ORDER BY seq {direction} LIMIT $3) AS of_range
         ORDER BY seq {direction} LIMIT $3"
    )
}

/// Returns the statement for a page of events of the run `$4`: the events of the thread `$1` in the range `$2 ..=
/// $3`, at most `$5`.
fn run_page_sql() -> String {
    format!(
        "SELECT {COLUMNS} FROM events
         WHERE thread_key = $1 AND seq >= $2 AND seq <= $3 AND run_id = $4 ORDER BY seq LIMIT $5"
    )
}

/// Reads an event from a row with [`COLUMNS`].
///
/// # Errors
/// [`Error::DamagedEvent`] if the event has changed since it was stored, unless it is to be marked.
fn read_event(row: &SqlRow<'_>, thread_id: ThreadId, damage: DamageHandling) -> Result<Event> {
    let event = EventColumns::read(row, thread_id).and_then(|columns| columns.into_event(thread_id));
    match (event, damage) {
        (Err(Error::DamagedEvent { seq, .. }), DamageHandling::Mark) => {
            Ok(damaged_event(row, thread_id, seq))
        }
        (event, DamageHandling::Refuse | DamageHandling::Mark) => event,
    }
}

/// Returns the event that stands for a damaged one.
fn damaged_event(row: &SqlRow<'_>, thread_id: ThreadId, seq: Seq) -> Event {
    let time = EventColumns::read_unverified(row, thread_id).map(|(columns, _)| columns.created_at);
    Event {
        thread_id,
        seq,
        event_id: EventId::from_uuid(Uuid::nil()),
        run_id: None,
        event_type: DAMAGED_EVENT_TYPE.to_owned(),
        category: String::new(),
        content: RawJson::default(),
        metadata: None,
        created_at: time.unwrap_or(Timestamp::UNIX_EPOCH),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::query_plan;
    use crate::view::history::{BOUNDARY_EVENTS, HISTORY_EVENTS};

    #[test]
    fn b7_pages_and_traces_are_read_from_an_index() {
        let seq_index = "SEARCH events USING INDEX events_seq (thread_key=? AND seq>? AND seq<?)";
        let marker_index = "SEARCH events USING INDEX events_markers (thread_key=? AND seq>? AND seq<?)";
        let pin_index = "SEARCH events USING INDEX events_pins (thread_key=? AND seq>? AND seq<?)";
        let query_for = |categories: &[Category], types: &[EventType]| EventQuery {
            categories: categories.to_vec(),
            types: types.to_vec(),
            ..EventQuery::default()
        };
        for (query, expected) in [
            (query_for(&[], &[]), seq_index),
            (query_for(&[Category::Message], &[]), seq_index),
            (query_for(&[], &HISTORY_EVENTS), seq_index),
            (query_for(&[Category::Message, Category::Middleware], &[EventType::AiMessage]), seq_index),
            (query_for(&[], &BOUNDARY_EVENTS), marker_index),
            (query_for(&[], &[BOUNDARY_EVENTS[1], BOUNDARY_EVENTS[0]]), marker_index),
            (query_for(&[], &[EventType::TurnsArchived]), marker_index),
            (query_for(&[], &[EventType::PinsChanged]), pin_index),
        ] {
            for direction in ["ASC", "DESC"] {
                assert_eq!(query_plan(&page_sql(&query, direction)), [expected], "{query:?} {direction}");
            }
        }
        assert_eq!(query_plan(&run_page_sql()), [seq_index]);
    }
    #[test]
    fn b7_the_seq_of_an_event_key_is_found_by_the_key() {
        let plan = query_plan(SEQ_OF_EVENT_KEY);
        assert_eq!(plan, ["SEARCH events USING INDEX events_key (thread_key=? AND event_key=?)"]);
    }
}
