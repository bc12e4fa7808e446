//! Copying of a thread's transcript into another thread, for a fork. The caller creates and names the new thread.

use crate::engines::sql::SqlConnection;
use protocol::{Category, Seq, ThreadId};

use super::checksums::{thread_change, xor_sql};
use super::rewinds;
use crate::tables::columns::encode_counter;
use crate::tables::memory::turns;
use crate::tables::threads::ThreadHead;
use crate::tables::{artifacts, threads};
use crate::{Error, Result};

/// Number of events that one statement copies. The statement reads the table that it writes, so the engine holds its
/// rows in memory.
const ROWS_PER_STATEMENT: usize = 500;

/// Copies the visible transcript of a thread, up to the seq `until`, into the blank thread `into`. Seqs are kept. The copy of
/// a damaged event is as noticeable as the event itself.
///
/// # Errors
/// [`Error::InvalidRequest`] if `into` has had events.
pub(crate) fn copy_transcript(
    db: &SqlConnection,
    from: ThreadId,
    into: ThreadId,
    until: Option<Seq>,
) -> Result<()> {
    let source = threads::load_head(db, from)?;
    let mut target = threads::load_head(db, into)?;
    if target.last_seq > 0 {
        let reason = format!("the target thread {into} already has {} events", target.last_seq);
        return Err(Error::InvalidRequest { what: "a transcript to copy", reason });
    }
    target.last_seq = until.map_or(source.last_seq, |until| until.min(source.last_seq));
    let copied = copy_events(db, &source, &target, thread_change(from, into))?;
    threads::set_copied_count(db, &target, copied)?;
    target.message_count = count_messages(db, target.key)?;
    target.has_prompt = source.has_prompt;
    turns::update_first_prompt(db, into, &mut target)?;
    threads::store_head(db, &target)?;
    artifacts::share_artifacts(db, source.key, target.key)
}

/// Copies the events up to the last seq of the target, and returns their number. `checksum_change` converts the checksum of
/// an event of the source to that of its copy.
fn copy_events(
    db: &SqlConnection,
    source: &ThreadHead,
    target: &ThreadHead,
    checksum_change: i64,
) -> Result<u64> {
    // The others are listed, because an event whose category is damaged may belong to the transcript.
    let others = Category::ALL.into_iter().filter(|category| !is_transcript(category));
    let others: Vec<String> = others.map(|category| format!("'{}'", category.as_str())).collect();
    let mut statement = db.prepare(&format!(
        "INSERT INTO events (thread_key, seq, event_id, run_id, category, event_type, created_at, metadata, content, checksum)
         SELECT $2, e.seq, e.event_id, e.run_id, e.category, e.event_type, e.created_at, e.metadata, e.content, {}
         FROM events e
         WHERE e.thread_key = $1 AND e.seq > (SELECT coalesce(max(seq), 0) FROM events WHERE thread_key = $2)
             AND e.seq <= $3 AND e.category NOT IN ({}) AND {}
         ORDER BY e.seq LIMIT {ROWS_PER_STATEMENT}",
        xor_sql("e.checksum", "CAST($4 AS BIGINT)"),
        others.join(", "),
        rewinds::visibility_condition("e.seq")
    ))?;
    let mut copied = 0;
    loop {
        let rows =
            statement.execute((source.key, target.key, encode_counter(target.last_seq), checksum_change))?;
        copied += rows as u64;
        if rows < ROWS_PER_STATEMENT {
            return Ok(copied);
        }
    }
}

/// Returns whether events of a category belong to the transcript. Messages and the context of a model are part of the
/// conversation; events about runs belong to the source only.
const fn is_transcript(category: &Category) -> bool {
    match category {
        Category::Message | Category::Context | Category::Middleware => true,
        Category::Trace | Category::Outputs | Category::Error | Category::Subagent | Category::Lifecycle => {
            false
        }
    }
}

/// Returns the number of messages of a thread.
fn count_messages(db: &SqlConnection, key: i64) -> Result<u64> {
    let messages: i64 = db
        .prepare("SELECT count(*) FROM events WHERE thread_key = $1 AND category = 'message'")?
        .query_row([key], |row| row.get(0))?;
    Ok(messages.unsigned_abs())
}
