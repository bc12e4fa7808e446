//! What rewinds superseded: the ranges of seqs, and how a read steps over them. The events stay as they are.

use crate::engines::sql::{Connection, Row};
use jiff::Timestamp;
use protocol::{Seq, ThreadId};

use crate::tables::columns::integer;
use crate::tables::memory::turns;
use crate::tables::{interrupts, runs, threads};
use crate::{Error, Result};

/// A superseded range; both ends belong to it.
#[derive(Clone, Copy)]
struct Span {
    first: i64,
    last: i64,
}

/// Returns the condition that a row `e`, which has a `thread_key`, is visible; `seq` is its column that tells where.
pub(crate) fn is_visible(seq: &str) -> String {
    format!(
        "coalesce((SELECT s.last_seq FROM superseded s WHERE s.thread_key = e.thread_key AND s.first_seq <= {seq}
                 ORDER BY s.first_seq DESC LIMIT 1), -1) < {seq}"
    )
}

/// Everything that is superseded of one thread, for reads that ask about many seqs.
pub(crate) struct Superseding(Vec<Span>);

impl Superseding {
    /// Reads the thread's superseded ranges.
    pub(crate) fn of(db: &Connection, key: i64) -> Result<Self> {
        let mut statement = db
            .prepare("SELECT first_seq, last_seq FROM superseded WHERE thread_key = $1 ORDER BY first_seq")?;
        let spans = statement.query_map([key], read)?;
        Ok(Self(spans))
    }

    /// Returns whether `seq` is superseded.
    pub(crate) fn contains(&self, seq: i64) -> bool {
        let after = self.0.partition_point(|span| span.first <= seq);
        after.checked_sub(1).is_some_and(|at| self.0[at].last >= seq)
    }
}

/// Returns the visible range that begins after `seq`, as the bounds outside it.
pub(crate) fn visible_after(db: &Connection, key: i64, seq: i64) -> Result<(i64, i64)> {
    let after = match spanning(db, key, seq.saturating_add(1))? {
        Some(span) => span.last,
        None => seq,
    };
    let next = db
        .prepare(
            "SELECT first_seq, last_seq FROM superseded WHERE thread_key = $1 AND first_seq > $2
             ORDER BY first_seq LIMIT 1",
        )?
        .find((key, after), read)?;
    Ok((after, next.map_or(i64::MAX, |span| span.first)))
}

/// Returns the visible range that ends before `seq`, as the bounds outside it.
pub(crate) fn visible_before(db: &Connection, key: i64, seq: i64) -> Result<(i64, i64)> {
    let before = match spanning(db, key, seq.saturating_sub(1))? {
        Some(span) => span.first,
        None => seq,
    };
    let previous = at_or_before(db, key, before.saturating_sub(1))?;
    Ok((previous.map_or(0, |span| span.last), before))
}

/// Takes the thread back to `keep_seq`.
pub(crate) fn rewind(db: &Connection, thread_id: ThreadId, keep_seq: Seq, at: Timestamp) -> Result<()> {
    let mut head = threads::head(db, thread_id)?;
    if let Some(run_id) = runs::active_run_of(db, head.key)? {
        return Err(Error::Busy { thread_id, run_id });
    }
    if keep_seq >= head.last_seq {
        return Ok(());
    }
    head.message_count -= messages_after(db, thread_id, keep_seq)?;
    let dissolving = turns::archive_after(db, &head, keep_seq)?;
    let keep = integer(keep_seq);
    let first = spanning(db, head.key, keep)?.map_or(keep + 1, |span| span.first);
    // Of the ranges behind it one is left: they would touch.
    db.prepare("DELETE FROM superseded WHERE thread_key = $1 AND first_seq >= $2")?
        .send((head.key, first))?;
    db.prepare("INSERT INTO superseded (thread_key, first_seq, last_seq) VALUES ($1, $2, $3)")?.send((
        head.key,
        first,
        integer(head.last_seq),
    ))?;
    turns::find_first_prompt(db, thread_id, &mut head)?;
    threads::advance(db, &head)?;
    interrupts::withdraw(db, thread_id, keep_seq, at)?;
    threads::settle_rewound(db, &head)?;
    dissolving.tell(db)
}

/// Supersedes one event that is no message and nothing was built upon; returns whether it was visible.
pub(crate) fn supersede(db: &Connection, key: i64, seq: i64) -> Result<bool> {
    let before = at_or_before(db, key, seq)?;
    if before.is_some_and(|span| span.last >= seq) {
        return Ok(false);
    }
    let after = at_or_before(db, key, seq + 1)?.filter(|span| span.first == seq + 1);
    let before = before.filter(|span| span.last + 1 == seq);
    // Ranges never touch.
    db.prepare("DELETE FROM superseded WHERE thread_key = $1 AND first_seq IN ($2, $3)")?.send((
        key,
        before.map_or(seq, |span| span.first),
        seq + 1,
    ))?;
    db.prepare("INSERT INTO superseded (thread_key, first_seq, last_seq) VALUES ($1, $2, $3)")?.send((
        key,
        before.map_or(seq, |span| span.first),
        after.map_or(seq, |span| span.last),
    ))?;
    Ok(true)
}

/// Returns whether anything at or after `seq` is superseded.
pub(crate) fn reaches(db: &Connection, key: i64, seq: Seq) -> Result<bool> {
    // The ranges do not overlap: the last one ends last.
    Ok(at_or_before(db, key, i64::MAX)?.is_some_and(|span| span.last >= integer(seq)))
}

/// Returns how many visible messages are after `seq`.
pub(crate) fn messages_after(db: &Connection, thread_id: ThreadId, seq: Seq) -> Result<u64> {
    let Some(key) = threads::key(db, thread_id)? else { return Ok(0) };
    let messages: i64 = db
        .prepare(&format!(
            "SELECT count(*) FROM events e
             WHERE e.thread_key = $1 AND e.seq > $2 AND e.category = 'message' AND {}",
            is_visible("e.seq")
        ))?
        .query_row((key, integer(seq)), |row| row.get(0))?;
    Ok(messages.unsigned_abs())
}

/// Returns whether the event is visible.
pub(crate) fn is_seq_visible(db: &Connection, key: i64, seq: i64) -> Result<bool> {
    Ok(spanning(db, key, seq)?.is_none())
}

/// Returns the range that `seq` is in.
fn spanning(db: &Connection, key: i64, seq: i64) -> Result<Option<Span>> {
    Ok(at_or_before(db, key, seq)?.filter(|span| span.last >= seq))
}

/// Returns the last range that begins at or before `seq`.
fn at_or_before(db: &Connection, key: i64, seq: i64) -> Result<Option<Span>> {
    db.prepare(
        "SELECT first_seq, last_seq FROM superseded WHERE thread_key = $1 AND first_seq <= $2
         ORDER BY first_seq DESC LIMIT 1",
    )?
    .find((key, seq), read)
}

fn read(row: &Row<'_>) -> Result<Span> {
    Ok(Span { first: row.get("first_seq")?, last: row.get("last_seq")? })
}
