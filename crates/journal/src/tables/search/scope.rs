//! What a search looks through: the rows its filters let through, as far as that can be told without reading what they
//! stand for. The rest is asked when a place is read.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use crate::engines::sql::{Connection, Dialect};
use jiff::Timestamp;

use super::index::Among;
use super::texts::{self, Kind};
use super::{belonging, index_row, seq_of, thread_of};
use crate::tables::columns::{stored, time};
use crate::tables::events::rewinds::Superseding;
use crate::tables::{owners, threads};
use crate::{FoundKind, Result, SearchQuery};

/// The most threads, and messages in them, that are looked through one by one: of more, what holds a word is looked for among
/// everybody's.
const THREADS_MAX: i64 = 1_000;
const MESSAGES_MAX: i64 = 20_000;
/// The most parts that SQLite's index is asked for: each costs about as much as to pass by a hundred rows.
const RUNS_MAX: usize = 64;
/// The threads that are looked through: of an assistant (`$1`), since a time (`$2`), of an owner (`$3`).
const THREADS_LOOKED_THROUGH: &str =
    "updated_at IS NOT NULL AND (CAST($1 AS TEXT) IS NULL OR assistant_id = $1)
    AND (CAST($2 AS TEXT) IS NULL OR updated_at >= $2) AND (CAST($3 AS TEXT) IS NULL OR owner = $3)";

/// What a search looks through.
pub(super) struct Scope<'a> {
    db: &'a Connection<'a>,
    query: &'a SearchQuery,
    /// The number that the events of the one thread are stored under.
    thread_key: Option<i64>,
    /// What is known of the threads that were met; `None` for one that is not looked through.
    threads: HashMap<i64, Option<Part>>,
    /// The texts beside messages that were met, and whether each is looked through.
    texts: HashMap<i64, bool>,
}

/// The part of a thread that is looked through.
struct Part {
    from_seq: i64,
    superseded: Superseding,
    copied: Option<Copied>,
}

/// What a fork copied.
#[derive(Clone, Copy)]
struct Copied {
    /// The number of the thread it was said in.
    from: i64,
    /// The last seq; it is the same there.
    until: i64,
}

impl<'a> Scope<'a> {
    /// Returns what the query looks through.
    pub(super) fn of(db: &'a Connection<'a>, query: &'a SearchQuery) -> Result<Self> {
        let thread_key = match query.thread_id {
            // One that does not exist has no rows.
            Some(thread_id) => Some(threads::key(db, thread_id)?.unwrap_or(0)),
            None => None,
        };
        Ok(Self { db, query, thread_key, threads: HashMap::new(), texts: HashMap::new() })
    }

    /// Returns the rows that may be among what is looked for, and which messages of them.
    pub(super) fn ranges(&self) -> Result<(Vec<Range<i64>>, Among)> {
        let kinds = [
            (FoundKind::Handoff, Kind::Handoff),
            (FoundKind::Summary, Kind::Summary),
            (FoundKind::Item, Kind::Item),
        ];
        let texts = kinds.into_iter().filter(|(kind, _)| self.is_wanted(*kind));
        let mut ranges: Vec<Range<i64>> = texts.map(|(_, kind)| texts::rows(kind)).collect();
        if !self.is_wanted(FoundKind::Message) {
            return Ok((ranges, Among::All));
        }
        if let Some(key) = self.thread_key {
            ranges.push(rows_of(key, key));
            return Ok((ranges, Among::All));
        }
        let (assistant_id, owner) = self.whose();
        if assistant_id.is_none() && owner.is_none() && self.query.since.is_none() {
            ranges.push(0..i64::MAX);
            return Ok((ranges, Among::All));
        }
        let Some(keys) = self.few_threads()? else {
            ranges.push(self.rows_of_threads()?);
            let [assistant_id, owner] = [assistant_id, owner].map(|whose| whose.map(str::to_owned));
            return Ok((ranges, Among::Of { assistant_id, owner }));
        };
        let runs = runs(&keys);
        match (self.db.dialect(), (keys.first(), keys.last())) {
            (_, (None, _) | (_, None)) => {}
            (Dialect::Sqlite, _) if runs.len() <= RUNS_MAX => ranges.extend(runs),
            (_, (Some(first), Some(last))) => ranges.push(rows_of(*first, *last)),
        }
        Ok((ranges, Among::Threads(keys)))
    }

    /// Returns of which assistant and of which owner the threads are that are looked through.
    fn whose(&self) -> (Option<&str>, Option<&str>) {
        let SearchQuery { assistant_id, scope, .. } = self.query;
        (assistant_id.as_ref().map(|id| id.as_str()), owners::of(scope.as_ref()))
    }

    /// Returns the threads that are looked through, in order; `None` when they, or the messages in them, are too many.
    fn few_threads(&self) -> Result<Option<Vec<i64>>> {
        let (assistant_id, owner) = self.whose();
        let found: Vec<(i64, i64)> = self
            .db
            .prepare(&format!(
                "SELECT thread_key, message_count FROM thread_heads WHERE {THREADS_LOOKED_THROUGH} ORDER BY thread_key LIMIT $4"
            ))?
            .query_map((assistant_id, self.query.since.map(time), owner, THREADS_MAX + 1), |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        let messages: i64 = found.iter().map(|(_, messages)| messages).sum();
        let are_few = found.len() as i64 <= THREADS_MAX && messages <= MESSAGES_MAX;
        Ok(are_few.then(|| found.into_iter().map(|(key, _)| key).collect()))
    }

    /// Returns the rows from the first to the last thread that is looked through. Threads are numbered as they begin, so
    /// that lately active ones are mostly near each other.
    fn rows_of_threads(&self) -> Result<Range<i64>> {
        let (assistant_id, owner) = self.whose();
        self.db
            .prepare(&format!(
                "SELECT coalesce(min(thread_key), 0), coalesce(max(thread_key), -1) FROM thread_heads WHERE {THREADS_LOOKED_THROUGH}"
            ))?
            .query_row((assistant_id, self.query.since.map(time), owner), |row| {
                Ok(rows_of(row.get(0)?, row.get(1)?))
            })
    }

    fn is_wanted(&self, kind: FoundKind) -> bool {
        match self.query.kinds[..] {
            [] => kind != FoundKind::Item,
            _ => self.query.kinds.contains(&kind),
        }
    }

    /// Returns how many messages there are among them.
    pub(super) fn rows(&self) -> Result<u64> {
        let (assistant_id, owner) = self.whose();
        let messages: i64 = self
            .db
            .prepare(
                "SELECT CAST(coalesce(sum(message_count), 0) AS BIGINT) FROM thread_heads
                 WHERE updated_at IS NOT NULL AND (CAST($1 AS BIGINT) IS NULL OR thread_key = $1)
                     AND (CAST($2 AS TEXT) IS NULL OR assistant_id = $2) AND (CAST($3 AS TEXT) IS NULL OR owner = $3)",
            )?
            .query_row((self.thread_key, assistant_id, owner), |row| row.get(0))?;
        Ok(messages.unsigned_abs())
    }

    /// Returns whether the row is looked through, as far as can be told without reading its text.
    pub(super) fn admits(&mut self, row: i64) -> Result<bool> {
        if let Some((kind, key)) = texts::of_row(row) {
            return match self.texts.get(&row) {
                Some(is_admitted) => Ok(*is_admitted),
                None => {
                    let is_admitted = belonging::is_text_of(self.db, kind, key, self.query)?;
                    self.texts.insert(row, is_admitted);
                    Ok(is_admitted)
                }
            };
        }
        let (key, seq) = (thread_of(row), seq_of(row));
        if !self.shows(key, seq)? {
            return Ok(false);
        }
        let copied = self.part(key)?.and_then(|part| part.copied).filter(|copied| seq <= copied.until);
        match copied {
            // It is found where it was said, if that is looked through too; else every fork would answer in its place.
            Some(copied) if self.thread_key.is_none() => Ok(!self.shows(copied.from, seq)?),
            Some(_) | None => Ok(true),
        }
    }

    fn shows(&mut self, key: i64, seq: i64) -> Result<bool> {
        let part = self.part(key)?;
        Ok(part.is_some_and(|part| seq >= part.from_seq && !part.superseded.contains(seq)))
    }

    fn part(&mut self, key: i64) -> Result<Option<&Part>> {
        Ok(match self.threads.entry(key) {
            Entry::Occupied(known) => known.into_mut().as_ref(),
            Entry::Vacant(unknown) => unknown.insert(part(self.db, self.query, key)?).as_ref(),
        })
    }
}

/// Returns the rows from the first to the last of these threads.
const fn rows_of(first: i64, last: i64) -> Range<i64> {
    index_row(first, 0)..index_row(last + 1, 0)
}

/// Returns the rows of threads, of those that follow each other together.
fn runs(keys: &[i64]) -> Vec<Range<i64>> {
    keys.chunk_by(|one, next| one + 1 == *next).map(|run| rows_of(run[0], run[run.len() - 1])).collect()
}

/// Returns the part of the thread that the query looks through.
fn part(db: &Connection, query: &SearchQuery, key: i64) -> Result<Option<Part>> {
    let head = db
        .prepare(
            "SELECT base_seq, copied_count FROM thread_heads WHERE thread_key = $1 AND updated_at IS NOT NULL
             AND (CAST($2 AS TEXT) IS NULL OR assistant_id = $2) AND (CAST($3 AS TEXT) IS NULL OR updated_at >= $3)
             AND (CAST($4 AS TEXT) IS NULL OR owner = $4)",
        )?
        .find(
            (
                key,
                query.assistant_id.as_ref().map(|id| id.as_str()),
                query.since.map(time),
                owners::of(query.scope.as_ref()),
            ),
            |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)? > 0)),
        )?;
    let Some((base_seq, has_copied)) = head else { return Ok(None) };
    let from_seq = match query.since {
        Some(since) => first_seq_since(db, key, since)?,
        None => 0,
    };
    // What a deleted thread of the same id had said is not there any longer.
    let from_seq = if has_copied { from_seq } else { from_seq.max(base_seq + 1) };
    let copied = if has_copied { copied(db, key, base_seq)? } else { None };
    Ok(Some(Part { from_seq, superseded: Superseding::of(db, key)?, copied }))
}

/// Returns what the thread copied of its parent; `None` when the parent is gone, or it copied another thread.
fn copied(db: &Connection, key: i64, base_seq: i64) -> Result<Option<Copied>> {
    let from = db
        .prepare(
            "SELECT p.thread_key FROM threads t JOIN threads p ON p.thread_id = t.parent_id
             JOIN events c ON c.thread_key = t.thread_key
             JOIN events o ON o.thread_key = p.thread_key AND o.seq = c.seq AND o.event_id = c.event_id
             WHERE t.thread_key = $1
                 AND c.seq = (SELECT max(seq) FROM events WHERE thread_key = $1 AND seq <= $2)",
        )?
        .find((key, base_seq), |row| row.get(0))?;
    Ok(from.map(|from| Copied { from, until: base_seq }))
}

/// Returns a seq before which nothing of the thread was said since that time: its events are in the order of their times,
/// as far as clocks go.
fn first_seq_since(db: &Connection, key: i64, since: Timestamp) -> Result<i64> {
    // Most threads were begun since then, or all was said in them before.
    let (mut low, mut high) = match next_event(db, key, 0)? {
        Some((seq, at)) if at < since => (seq + 1, last_seq(db, key)? + 1),
        Some(_) | None => return Ok(0),
    };
    while low < high {
        let middle = low + (high - low) / 2;
        match next_event(db, key, middle)? {
            Some((seq, at)) if at < since => low = seq + 1,
            Some(_) | None => high = middle,
        }
    }
    Ok(low)
}

/// Returns the first event at or behind a seq, and when it happened.
fn next_event(db: &Connection, key: i64, seq: i64) -> Result<Option<(i64, Timestamp)>> {
    db.prepare("SELECT seq, created_at FROM events WHERE thread_key = $1 AND seq >= $2 ORDER BY seq LIMIT 1")?
        .find((key, seq), |row| Ok((row.get("seq")?, stored(row, "created_at")?)))
}

fn last_seq(db: &Connection, key: i64) -> Result<i64> {
    db.prepare("SELECT last_seq FROM thread_heads WHERE thread_key = $1")?.query_row([key], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_follow_each_other_are_one_part() {
        assert_eq!(runs(&[]), Vec::<Range<i64>>::new());
        assert_eq!(runs(&[3, 4, 5, 9]), [rows_of(3, 5), rows_of(9, 9)]);
    }
}
