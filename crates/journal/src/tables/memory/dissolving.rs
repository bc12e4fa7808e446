//! How summaries of medium-term memory go: their turns are active again, and what left a context by them is in it again.
//! When they go is decided by whoever rewinds or deletes a thread, or gives turns back.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::engines::sql::{Connection, Dialect};
use protocol::{NewEvent, Scope, SummaryId, ThreadId, TurnsRestored};

use crate::owned::owner_name;
use crate::tables::columns::stored;
use crate::tables::events::{self, MARKER_EVENTS, rewinds};
use crate::tables::threads::{self, Held};
use crate::tables::{owners, runs, search};
use crate::{Error, Result};

/// Removes summaries of medium-term memory.
pub(crate) struct Dissolving {
    /// The thread that a rewind or a deletion is about, and the last event that stays of it: what comes after is seen to
    /// by whoever does it.
    retained: Option<RetainedPrefix>,
    /// What threads were told of summaries that are there, by thread, as it was when it was read first.
    threads: BTreeMap<i64, Told>,
    /// Where what left a context came back: events that no longer count, by thread.
    restored: BTreeMap<i64, BTreeSet<i64>>,
}

/// What a thread was told of summaries of its own turns, in the order of its events.
struct Told {
    events: Vec<ToldOf>,
    /// Where it is told of each summary.
    places: HashMap<i64, Vec<usize>>,
    /// Every summary is removed that is told of from this place on and relied on one before.
    followed: usize,
}

/// An event that tells a thread of a summary.
#[derive(Clone, Copy)]
struct ToldOf {
    seq: i64,
    summary_key: i64,
    leaves_context: bool,
    /// It says that nothing before it is in the context.
    relies: bool,
}

/// The part of a thread that a rewind or a deletion leaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RetainedPrefix {
    /// The key of the thread.
    pub(crate) thread_key: i64,
    /// The last seq that stays; 0 when nothing does.
    pub(crate) last_seq: i64,
}

impl Dissolving {
    /// Returns an empty one. A rewind or a deletion passes the part of its thread that stays.
    pub(crate) const fn new(retained: Option<RetainedPrefix>) -> Self {
        Self { retained, threads: BTreeMap::new(), restored: BTreeMap::new() }
    }

    /// Removes a summary, and makes its turns active again. The events that tell of it in the threads of its turns are
    /// superseded: what left a context by them is in it again. What left that context later relied on it, and follows.
    pub(crate) fn dissolve(&mut self, db: &Connection, key: i64) -> Result<()> {
        let mut due = vec![key];
        while let Some(key) = due.pop() {
            let thread_keys = self.held(db, key)?;
            if thread_keys.is_empty() {
                continue;
            }
            for thread_key in &thread_keys {
                due.extend(self.take_back(db, *thread_key, key)?);
            }
            if thread_keys.len() > 1 {
                note_shared(db, key)?;
            }
            remove(db, key)?;
        }
        Ok(())
    }

    /// Returns the threads of a summary's turns, which nobody else writes to from here on; none when it is gone.
    fn held(&self, db: &Connection, key: i64) -> Result<Vec<i64>> {
        let thread_keys = threads_of(db, key)?;
        match self.hold(db, &thread_keys)? {
            Held::Before => Ok(thread_keys),
            // Whoever wrote to one of them may have removed the summary.
            Held::FromHere => threads_of(db, key),
        }
    }

    fn hold(&self, db: &Connection, thread_keys: &[i64]) -> Result<Held> {
        let is_other = |key: &&i64| self.retained.is_none_or(|own| own.thread_key != **key);
        threads::hold(db, &thread_keys.iter().filter(is_other).copied().collect::<Vec<_>>())
    }

    /// Supersedes what the thread was told of the summary, and returns those that follow.
    fn take_back(&mut self, db: &Connection, thread_key: i64, key: i64) -> Result<Vec<i64>> {
        let told = match self.threads.entry(thread_key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(Told::of(db, thread_key)?),
        };
        let (mut following, mut came_back) = (Vec::new(), Vec::new());
        for at in told.places.remove(&key).unwrap_or_default() {
            let ToldOf { seq, leaves_context, .. } = told.events[at];
            let was_visible = rewinds::supersede(db, thread_key, seq)?;
            if leaves_context {
                following.extend(told.follow(at + 1));
                came_back.extend(was_visible.then_some(seq));
            }
        }
        came_back.into_iter().try_for_each(|seq| self.restore(db, thread_key, seq))?;
        Ok(following)
    }

    /// Notes that what left the thread's context by that event is in it again.
    fn restore(&mut self, db: &Connection, thread_key: i64, seq: i64) -> Result<()> {
        if self.retained.is_some_and(|own| own.thread_key == thread_key && seq > own.last_seq) {
            return Ok(());
        }
        if self.retained.is_none_or(|own| own.thread_key != thread_key)
            && let Some(run_id) = runs::active_run_of(db, thread_key)?
        {
            return Err(Error::Busy { thread_id: place(db, thread_key)?.0, run_id });
        }
        self.restored.entry(thread_key).or_default().insert(seq);
        Ok(())
    }

    /// Empties what other threads were told of summaries that told of the thread `own` too, before it is deleted.
    pub(crate) fn forget(&mut self, db: &Connection, own: i64) -> Result<()> {
        for (thread_key, seq, leaves_context) in self.told_elsewhere(db, own)? {
            db.prepare("UPDATE events SET content = 'null' WHERE thread_key = $1 AND seq = $2")?
                .send((thread_key, seq))?;
            if leaves_context && rewinds::is_seq_visible(db, thread_key, seq)? {
                db.prepare(&unrely_sql(db.dialect()))?.send((thread_key, seq))?;
                self.restore(db, thread_key, seq)?;
            }
        }
        db.execute(
            "DELETE FROM dissolved_summaries
             WHERE id IN (SELECT d.id FROM dissolved_summaries d WHERE d.thread_key = $1)",
            [own],
        )?;
        Ok(())
    }

    /// Returns what [`told_elsewhere`] does, of threads that nobody else writes to from here on.
    fn told_elsewhere(&self, db: &Connection, own: i64) -> Result<Vec<(i64, i64, bool)>> {
        let mut held = BTreeSet::new();
        loop {
            let told = told_elsewhere(db, own)?;
            let thread_keys: BTreeSet<i64> = told.iter().map(|(thread_key, ..)| *thread_key).collect();
            let found: Vec<i64> = thread_keys.difference(&held).copied().collect();
            if self.hold(db, &found)? == Held::Before {
                return Ok(told);
            }
            // One of them may have been copied by who held it.
            held.extend(found);
        }
    }

    /// Tells the threads whose contexts are others now. The events are as old as what last happened there: nobody did
    /// anything in them.
    pub(crate) fn tell(self, db: &Connection) -> Result<()> {
        for (thread_key, seqs) in self.restored {
            let (thread_id, updated_at) = place(db, thread_key)?;
            let archived_seqs = seqs.into_iter().map(i64::unsigned_abs).collect();
            let event = NewEvent::of(&TurnsRestored { archived_seqs }, updated_at)?;
            events::append(db, thread_id, &[event])?;
        }
        Ok(())
    }
}

impl Told {
    fn of(db: &Connection, thread_key: i64) -> Result<Self> {
        let mut statement = db.prepare(&told_sql(db.dialect()))?;
        let events = statement.query_map([thread_key], |row| {
            Ok(ToldOf {
                seq: row.get(0)?,
                summary_key: row.get(1)?,
                leaves_context: row.get(2)?,
                relies: row.get(3)?,
            })
        })?;
        let events: Vec<ToldOf> = events;
        let mut places: HashMap<i64, Vec<usize>> = HashMap::new();
        for (at, told) in events.iter().enumerate() {
            places.entry(told.summary_key).or_default().push(at);
        }
        Ok(Self { followed: events.len(), places, events })
    }

    /// Returns the summaries that rely on what was told before `from`, but for those that were returned before.
    fn follow(&mut self, from: usize) -> Vec<i64> {
        let end = self.followed;
        self.followed = end.min(from);
        let following = self.events.get(from..end).unwrap_or_default().iter();
        following.filter(|told| told.relies).map(|told| told.summary_key).collect()
    }
}

/// Removes summaries of the scope, and makes their turns active again.
pub(crate) fn restore(db: &Connection, summary_ids: &[SummaryId], scope: Option<&Scope>) -> Result<()> {
    let mut dissolving = Dissolving::new(None);
    for id in summary_ids {
        let of_summary: Option<(i64, String)> = db
            .prepare(
                "SELECT s.summary_key, m.agent_id FROM summaries s JOIN medium_term_memory m ON m.id = s.id
                 WHERE s.id = $1",
            )?
            .find([id.to_string()], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if let Some((key, agent_id)) = of_summary
            && owners::of(scope).is_none_or(|owner| owner == owner_name(&agent_id))
        {
            dissolving.dissolve(db, key)?;
        }
    }
    dissolving.tell(db)
}

/// Returns the summaries that stand for any turn of the thread after `seq`, and those that the thread is told of after
/// it.
pub(crate) fn told_after(db: &Connection, thread_key: i64, seq: i64) -> Result<Vec<i64>> {
    let mut statement = db.prepare(&told_after_sql(db.dialect()))?;
    statement.query_map((thread_key, seq), |row| row.get(0))
}

fn told_after_sql(dialect: Dialect) -> String {
    format!(
        "SELECT summary_key FROM summary_threads WHERE thread_key = $1 AND last_seq > $2
         UNION
         SELECT s.summary_key FROM events e CROSS JOIN summaries s CROSS JOIN summary_threads o
         WHERE s.id = {} AND o.summary_key = s.summary_key AND o.thread_key = e.thread_key
             AND e.thread_key = $1 AND e.seq > $2 AND {MARKER_EVENTS} AND e.event_type = 'turns_archived'",
        dialect.json_field("e.content", "summary_id")
    )
}

/// Returns the threads of a summary's turns; none when it is gone.
fn threads_of(db: &Connection, key: i64) -> Result<Vec<i64>> {
    let mut statement = db.prepare("SELECT thread_key FROM summary_threads WHERE summary_key = $1")?;
    statement.query_map([key], |row| row.get(0))
}

fn note_shared(db: &Connection, key: i64) -> Result<()> {
    db.prepare(
        "INSERT INTO dissolved_summaries (thread_key, id)
         SELECT o.thread_key, s.id FROM summaries s CROSS JOIN summary_threads o
         WHERE o.summary_key = s.summary_key AND s.summary_key = $1 ON CONFLICT DO NOTHING",
    )?
    .send([key])
}

fn remove(db: &Connection, key: i64) -> Result<()> {
    db.prepare("UPDATE turns SET archived = 0, summary_key = NULL WHERE summary_key = $1")?.send([key])?;
    db.prepare(
        "DELETE FROM medium_term_memory WHERE id = (SELECT id FROM summaries WHERE summary_key = $1)",
    )?
    .send([key])?;
    search::texts::remove(db, search::texts::Kind::Summary, key)
}

/// What the thread `$1` was told of summaries of its own turns. A copy of such an event tells of another thread's turns.
fn told_sql(dialect: Dialect) -> String {
    format!(
        "SELECT e.seq, s.summary_key, {} <> 'compaction', {} IS NOT NULL
         FROM events e CROSS JOIN summaries s CROSS JOIN summary_threads o
         WHERE s.id = {} AND o.summary_key = s.summary_key AND o.thread_key = e.thread_key
             AND e.thread_key = $1 AND {MARKER_EVENTS} AND e.event_type = 'turns_archived' ORDER BY e.seq",
        dialect.json_field("e.content", "reason"),
        dialect.json_field("e.content", "context_from"),
        dialect.json_field("e.content", "summary_id")
    )
}

/// Returns what threads but this one were told of summaries that are gone and told of it: where, and whether turns left
/// a context by it.
fn told_elsewhere(db: &Connection, own: i64) -> Result<Vec<(i64, i64, bool)>> {
    let is_any =
        db.prepare("SELECT 1 FROM dissolved_summaries WHERE thread_key = $1 LIMIT 1")?.exists([own])?;
    if !is_any {
        return Ok(Vec::new());
    }
    let mut statement = db.prepare(&elsewhere_sql(db.dialect()))?;
    statement.query_map([own], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
}

fn elsewhere_sql(dialect: Dialect) -> String {
    format!(
        "SELECT e.thread_key, e.seq, {} <> 'compaction' FROM events e
         WHERE {MARKER_EVENTS} AND e.event_type = 'turns_archived' AND e.thread_key <> $1
           AND {} IN (SELECT d.id FROM dissolved_summaries d WHERE d.thread_key = $1)",
        dialect.json_field("e.content", "reason"),
        dialect.json_field("e.content", "summary_id")
    )
}

/// Takes from what left the context of the thread `$1` after the event `$2` the word that nothing before it is in it.
fn unrely_sql(dialect: Dialect) -> String {
    let without = match dialect {
        Dialect::Sqlite => "json_remove(content, '$.context_from')",
        Dialect::Postgres => "CAST(CAST(content AS jsonb) - 'context_from' AS text)",
    };
    format!(
        "UPDATE events SET content = {without}
         WHERE thread_key = $1 AND seq > $2 AND {MARKER_EVENTS} AND event_type = 'turns_archived'
           AND {} IS NOT NULL",
        dialect.json_field("content", "context_from")
    )
}

/// Returns the thread, and when something last happened in it.
fn place(db: &Connection, thread_key: i64) -> Result<(ThreadId, jiff::Timestamp)> {
    db.prepare("SELECT thread_id, updated_at FROM thread_heads WHERE thread_key = $1")?
        .query_row([thread_key], |row| Ok((stored(row, "thread_id")?, stored(row, "updated_at")?)))
}

#[cfg(test)]
mod tests;
