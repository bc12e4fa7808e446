//! Ranges of seqs that rewinds superseded, and how reads skip them. The events themselves are not changed.

use crate::engines::sql::{SqlConnection, SqlRow};
use jiff::Timestamp;
use protocol::{Seq, ThreadId};

use crate::tables::columns::encode_counter;
use crate::tables::memory::turns;
use crate::tables::{interrupts, runs, threads};
use crate::{Error, Result};

/// A range of superseded seqs. Both ends are inclusive. The ranges of a thread neither overlap nor touch.
#[derive(Clone, Copy)]
struct SupersededRange {
    /// The first superseded seq.
    first: i64,
    /// The last superseded seq.
    last: i64,
}

/// Returns the SQL condition that a row `e`, which has a `thread_key`, is visible. `seq` is the expression for its
/// seq.
pub(crate) fn visibility_condition(seq: &str) -> String {
    format!(
        "coalesce((SELECT s.last_seq FROM superseded s WHERE s.thread_key = e.thread_key AND s.first_seq <= {seq}
                 ORDER BY s.first_seq DESC LIMIT 1), -1) < {seq}"
    )
}

/// All superseded ranges of a thread, in ascending order. For reads that check many seqs.
pub(crate) struct SupersededRanges(Vec<SupersededRange>);

impl SupersededRanges {
    /// Reads the superseded ranges of a thread.
    pub(crate) fn load(db: &SqlConnection, key: i64) -> Result<Self> {
        let mut statement = db
            .prepare("SELECT first_seq, last_seq FROM superseded WHERE thread_key = $1 ORDER BY first_seq")?;
        let ranges = statement.query_map([key], read_range)?;
        Ok(Self(ranges))
    }

    /// Returns whether `seq` is superseded. O(log n) in the number of ranges.
    pub(crate) fn contains(&self, seq: i64) -> bool {
        let after = self.0.partition_point(|range| range.first <= seq);
        after.checked_sub(1).is_some_and(|index| self.0[index].last >= seq)
    }
}

/// Returns the first visible range that begins after `seq`, as exclusive bounds.
pub(crate) fn visible_range_after(db: &SqlConnection, key: i64, seq: i64) -> Result<(i64, i64)> {
    let after = match range_containing(db, key, seq.saturating_add(1))? {
        Some(range) => range.last,
        None => seq,
    };
    let next = db
        .prepare(
            "SELECT first_seq, last_seq FROM superseded WHERE thread_key = $1 AND first_seq > $2
             ORDER BY first_seq LIMIT 1",
        )?
        .query_optional((key, after), read_range)?;
    Ok((after, next.map_or(i64::MAX, |range| range.first)))
}

/// Returns the last visible range that ends before `seq`, as exclusive bounds.
pub(crate) fn visible_range_before(db: &SqlConnection, key: i64, seq: i64) -> Result<(i64, i64)> {
    let before = match range_containing(db, key, seq.saturating_sub(1))? {
        Some(range) => range.first,
        None => seq,
    };
    let previous = last_range_starting_by(db, key, before.saturating_sub(1))?;
    Ok((previous.map_or(0, |range| range.last), before))
}

/// Returns the visible ranges between `after` and `before`, in ascending order. All bounds are exclusive. One statement reads
/// them.
pub(crate) fn visible_ranges(
    db: &SqlConnection,
    key: i64,
    after: i64,
    before: i64,
) -> Result<Vec<(i64, i64)>> {
    let superseded = db
        .prepare(
            "SELECT first_seq, last_seq FROM superseded WHERE thread_key = $1 AND last_seq > $2 AND first_seq < $3
             ORDER BY first_seq",
        )?
        .query_map((key, after, before), read_range)?;
    let starts = std::iter::once(after).chain(superseded.iter().map(|range| range.last));
    let ends = superseded.iter().map(|range| range.first).chain([before]);
    Ok(starts.zip(ends).filter(|(after, before)| before.saturating_sub(*after) > 1).collect())
}

/// Supersedes all visible events of a thread after `keep_seq`, withdraws interrupts raised after it, and removes
/// summaries of superseded messages.
///
/// # Errors
/// [`Error::Busy`] if a run of the thread is active.
pub(crate) fn rewind(db: &SqlConnection, thread_id: ThreadId, keep_seq: Seq, at: Timestamp) -> Result<()> {
    let mut head = threads::load_head(db, thread_id)?;
    if let Some(run_id) = runs::active_run_id(db, head.key)? {
        return Err(Error::Busy { thread_id, run_id });
    }
    if keep_seq >= head.last_seq {
        return Ok(());
    }
    head.message_count -= message_count_after(db, thread_id, keep_seq)?;
    let summary_removal = turns::archive_after(db, &head, keep_seq)?;
    let keep = encode_counter(keep_seq);
    let first = range_containing(db, head.key, keep)?.map_or(keep + 1, |range| range.first);
    // Later ranges are merged into the new one, because ranges must not touch.
    db.prepare("DELETE FROM superseded WHERE thread_key = $1 AND first_seq >= $2")?
        .execute_deferred((head.key, first))?;
    db.prepare("INSERT INTO superseded (thread_key, first_seq, last_seq) VALUES ($1, $2, $3)")?
        .execute_deferred((head.key, first, encode_counter(head.last_seq)))?;
    turns::update_first_prompt(db, thread_id, &mut head)?;
    threads::store_head(db, &head)?;
    interrupts::withdraw_after(db, thread_id, keep_seq, at)?;
    threads::settle_after_rewind(db, &head)?;
    summary_removal.append_restored_events(db)
}

/// Supersedes one event that is not a message and that nothing refers to. Returns `false` if it was superseded
/// already.
pub(crate) fn supersede(db: &SqlConnection, key: i64, seq: i64) -> Result<bool> {
    let before = last_range_starting_by(db, key, seq)?;
    if before.is_some_and(|range| range.last >= seq) {
        return Ok(false);
    }
    let after = last_range_starting_by(db, key, seq + 1)?.filter(|range| range.first == seq + 1);
    let before = before.filter(|range| range.last + 1 == seq);
    // Merge with the adjacent ranges, because ranges must not touch.
    db.prepare("DELETE FROM superseded WHERE thread_key = $1 AND first_seq IN ($2, $3)")?
        .execute_deferred((key, before.map_or(seq, |range| range.first), seq + 1))?;
    db.prepare("INSERT INTO superseded (thread_key, first_seq, last_seq) VALUES ($1, $2, $3)")?
        .execute_deferred((
            key,
            before.map_or(seq, |range| range.first),
            after.map_or(seq, |range| range.last),
        ))?;
    Ok(true)
}

/// Returns whether any event at or after `seq` is superseded.
pub(crate) fn has_superseded_from(db: &SqlConnection, key: i64, seq: Seq) -> Result<bool> {
    // The ranges do not overlap, so the last range has the highest end.
    Ok(last_range_starting_by(db, key, i64::MAX)?.is_some_and(|range| range.last >= encode_counter(seq)))
}

/// Returns the number of visible messages after `seq`.
pub(crate) fn message_count_after(db: &SqlConnection, thread_id: ThreadId, seq: Seq) -> Result<u64> {
    let Some(key) = threads::thread_key(db, thread_id)? else { return Ok(0) };
    let messages: i64 = db
        .prepare(&format!(
            "SELECT count(*) FROM events e
             WHERE e.thread_key = $1 AND e.seq > $2 AND e.category = 'message' AND {}",
            visibility_condition("e.seq")
        ))?
        .query_row((key, encode_counter(seq)), |row| row.get(0))?;
    Ok(messages.unsigned_abs())
}

/// Returns whether the event with this seq is visible.
pub(crate) fn is_seq_visible(db: &SqlConnection, key: i64, seq: i64) -> Result<bool> {
    Ok(range_containing(db, key, seq)?.is_none())
}

/// Returns the superseded range that contains `seq`, or `None`.
fn range_containing(db: &SqlConnection, key: i64, seq: i64) -> Result<Option<SupersededRange>> {
    Ok(last_range_starting_by(db, key, seq)?.filter(|range| range.last >= seq))
}

/// Returns the last superseded range that begins at or before `seq`, or `None`.
fn last_range_starting_by(db: &SqlConnection, key: i64, seq: i64) -> Result<Option<SupersededRange>> {
    db.prepare(
        "SELECT first_seq, last_seq FROM superseded WHERE thread_key = $1 AND first_seq <= $2
         ORDER BY first_seq DESC LIMIT 1",
    )?
    .query_optional((key, seq), read_range)
}

/// Reads a superseded range from a row.
fn read_range(row: &SqlRow<'_>) -> Result<SupersededRange> {
    Ok(SupersededRange { first: row.get("first_seq")?, last: row.get("last_seq")? })
}
