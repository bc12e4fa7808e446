//! Copying a transcript into another thread, for a fork. Who forks, and what the new thread is called, is not known
//! here.

use crate::engines::sql::Connection;
use protocol::{Category, Seq, ThreadId};

use super::rewinds;
use crate::tables::columns::integer;
use crate::tables::memory::turns;
use crate::tables::{artifacts, threads};
use crate::{Error, Result};

/// Events one statement copies: the engine holds them in memory, because it reads the table it writes.
const ROWS_PER_STATEMENT: usize = 500;

/// Copies the visible transcript up to `until` into the blank thread `into`.
pub(crate) fn copy(db: &Connection, from: ThreadId, into: ThreadId, until: Option<Seq>) -> Result<()> {
    let source = threads::head(db, from)?;
    let mut target = threads::head(db, into)?;
    if target.last_seq > 0 {
        let reason = format!("thread {into}, which is to take it, has had {} events", target.last_seq);
        return Err(Error::Invalid { what: "a transcript to copy", reason });
    }
    target.last_seq = until.map_or(source.last_seq, |until| until.min(source.last_seq));
    let copied = copy_events(db, source.key, target.key, target.last_seq)?;
    threads::set_copied(db, &target, copied)?;
    target.message_count = count_messages(db, target.key)?;
    target.has_prompt = source.has_prompt;
    turns::find_first_prompt(db, into, &mut target)?;
    threads::advance(db, &target)?;
    artifacts::share(db, source.key, target.key)
}

/// Returns how many events were copied.
fn copy_events(db: &Connection, from: i64, into: i64, until: Seq) -> Result<u64> {
    let categories: Vec<String> =
        Category::ALL.into_iter().filter(is_transcript).map(|name| format!("'{}'", name.as_str())).collect();
    let mut statement = db.prepare(&format!(
        "INSERT INTO events (thread_key, seq, event_id, run_id, category, event_type, created_at, metadata, content)
         SELECT $2, e.seq, e.event_id, e.run_id, e.category, e.event_type, e.created_at, e.metadata, e.content
         FROM events e
         WHERE e.thread_key = $1 AND e.seq > (SELECT coalesce(max(seq), 0) FROM events WHERE thread_key = $2)
             AND e.seq <= $3 AND e.category IN ({}) AND {}
         ORDER BY e.seq LIMIT {ROWS_PER_STATEMENT}",
        categories.join(", "),
        rewinds::is_visible("e.seq")
    ))?;
    let mut copied = 0;
    loop {
        let rows = statement.execute((from, into, integer(until)))?;
        copied += rows as u64;
        if rows < ROWS_PER_STATEMENT {
            return Ok(copied);
        }
    }
}

/// What was said and what a model was given to read is the conversation's; what happened to its runs is the source's.
const fn is_transcript(category: &Category) -> bool {
    match category {
        Category::Message | Category::Context | Category::Middleware => true,
        Category::Trace | Category::Outputs | Category::Error | Category::Subagent | Category::Lifecycle => {
            false
        }
    }
}

fn count_messages(db: &Connection, key: i64) -> Result<u64> {
    let messages: i64 = db
        .prepare("SELECT count(*) FROM events WHERE thread_key = $1 AND category = 'message'")?
        .query_row([key], |row| row.get(0))?;
    Ok(messages.unsigned_abs())
}
