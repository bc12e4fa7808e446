//! Removal of summaries from medium-term memory. The messages of a removed summary become active again, and return to
//! the contexts that they had left. The caller decides which summaries are removed: a rewind, the deletion of a
//! thread, or a request to restore messages.

use std::borrow::Cow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::engines::sql::{SqlConnection, SqlDialect};
use protocol::{NewEvent, OwnerScope, SummaryId, ThreadId, TurnsRestored};
use serde_json::{Map, Value};

use super::facts;
use crate::ownership::owner_name;
use crate::tables::columns::{encode_json, read_column};
use crate::tables::events::checksums::{COLUMNS, EventColumns, xor_sql};
use crate::tables::events::{self, CONTEXT_CHANGE_EVENTS, rewinds};
use crate::tables::threads::{self, LockState};
use crate::tables::{owners, runs, search};
use crate::{Error, Result};

/// A removal of summaries, with the state that accumulates until [`Self::append_restored_events`].
pub(crate) struct SummaryRemoval {
    /// The part of the rewound or deleted thread that is kept. The caller handles the events after it. `None` for a
    /// plain removal.
    retained: Option<RetainedPrefix>,
    /// The summary events of the threads involved, as they were when they were first read, by thread key.
    threads: BTreeMap<i64, ThreadSummaryEvents>,
    /// The seqs of `turns_archived` events that no longer apply, by thread key: the messages that left the context by
    /// them are in it again.
    restored_events: BTreeMap<i64, BTreeSet<i64>>,
}

/// The `turns_archived` events of a thread about summaries of its own messages, in ascending order.
struct ThreadSummaryEvents {
    /// The events.
    events: Vec<SummaryEvent>,
    /// The indexes into `events` for each summary key.
    positions: HashMap<i64, Vec<usize>>,
    /// Index into `events`: the summaries of all later events that depend on earlier ones have been returned for
    /// removal.
    dependents_from: usize,
}

/// An event that announces a summary in a thread.
#[derive(Clone, Copy)]
struct SummaryEvent {
    /// The seq of the event.
    seq: i64,
    /// The key of the summary.
    summary_key: i64,
    /// `true` if messages left the context by this event.
    leaves_context: bool,
    /// `true` if the event states that no earlier message is in the context (`context_from`).
    depends_on_earlier: bool,
}

/// The part of a thread that remains after a rewind or a deletion.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RetainedPrefix {
    /// The key of the thread.
    pub(crate) thread_key: i64,
    /// The last remaining seq; 0 if nothing remains.
    pub(crate) last_seq: i64,
}

impl SummaryRemoval {
    /// Returns an empty removal. A rewind or a deletion passes the remaining part of its thread.
    pub(crate) const fn new(retained: Option<RetainedPrefix>) -> Self {
        Self { retained, threads: BTreeMap::new(), restored_events: BTreeMap::new() }
    }

    /// Removes a summary and makes its messages active again. Its events in the threads of its messages are
    /// superseded, so the messages return to these contexts. Summaries whose messages left such a context later
    /// depend on it, and are removed too.
    ///
    /// # Errors
    /// [`Error::Busy`] if a run of an affected thread is active.
    pub(crate) fn remove_summary(&mut self, db: &SqlConnection, key: i64) -> Result<()> {
        let mut pending = vec![key];
        while let Some(key) = pending.pop() {
            let thread_keys = self.lock_summary_threads(db, key)?;
            if thread_keys.is_empty() {
                continue;
            }
            for thread_key in &thread_keys {
                pending.extend(self.supersede_summary_events(db, *thread_key, key)?);
            }
            if thread_keys.len() > 1 {
                record_shared_summary(db, key)?;
            }
            delete_summary(db, key)?;
        }
        Ok(())
    }

    /// Locks the threads of a summary's messages and returns their keys. Returns an empty list if the summary has
    /// been removed.
    fn lock_summary_threads(&self, db: &SqlConnection, key: i64) -> Result<Vec<i64>> {
        let thread_keys = summary_threads(db, key)?;
        match self.lock_threads(db, &thread_keys)? {
            LockState::AlreadyLocked => Ok(thread_keys),
            // Another transaction that held one of the locks may have removed the summary.
            LockState::NewlyLocked => summary_threads(db, key),
        }
    }

    /// Locks threads, except the thread that is rewound or deleted, which is locked already.
    fn lock_threads(&self, db: &SqlConnection, thread_keys: &[i64]) -> Result<LockState> {
        let is_other = |key: &&i64| self.retained.is_none_or(|retained| retained.thread_key != **key);
        threads::lock_threads(db, &thread_keys.iter().filter(is_other).copied().collect::<Vec<_>>())
    }

    /// Supersedes the events of a thread that announce the summary, and returns the summaries that depend on them.
    fn supersede_summary_events(
        &mut self,
        db: &SqlConnection,
        thread_key: i64,
        key: i64,
    ) -> Result<Vec<i64>> {
        let summary_events = match self.threads.entry(thread_key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(ThreadSummaryEvents::load(db, thread_key)?),
        };
        let (mut dependents, mut restored) = (Vec::new(), Vec::new());
        for index in summary_events.positions.remove(&key).unwrap_or_default() {
            let SummaryEvent { seq, leaves_context, .. } = summary_events.events[index];
            let was_visible = rewinds::supersede(db, thread_key, seq)?;
            if leaves_context {
                dependents.extend(summary_events.take_dependents(index + 1));
                restored.extend(was_visible.then_some(seq));
            }
        }
        restored.into_iter().try_for_each(|seq| self.record_restored(db, thread_key, seq))?;
        Ok(dependents)
    }

    /// Records that the messages that left the context of a thread by an event are in it again.
    ///
    /// # Errors
    /// [`Error::Busy`] if a run of the thread is active.
    fn record_restored(&mut self, db: &SqlConnection, thread_key: i64, seq: i64) -> Result<()> {
        if self.retained.is_some_and(|retained| retained.thread_key == thread_key && seq > retained.last_seq)
        {
            return Ok(());
        }
        if self.retained.is_none_or(|retained| retained.thread_key != thread_key)
            && let Some(run_id) = runs::active_run_id(db, thread_key)?
        {
            return Err(Error::Busy { thread_id: thread_and_last_update(db, thread_key)?.0, run_id });
        }
        self.restored_events.entry(thread_key).or_default().insert(seq);
        Ok(())
    }

    /// Empties the events of other threads that announce removed summaries of the thread `deleted_key`, because they
    /// contain text about it. Called before the thread is deleted.
    pub(crate) fn clear_mentions(&mut self, db: &SqlConnection, deleted_key: i64) -> Result<()> {
        for (thread_key, seq, leaves_context) in self.locked_foreign_mentions(db, deleted_key)? {
            replace_content(db, thread_key, seq, "null")?;
            if leaves_context && rewinds::is_seq_visible(db, thread_key, seq)? {
                clear_dependencies(db, thread_key, seq)?;
                self.record_restored(db, thread_key, seq)?;
            }
        }
        db.prepare(
            "DELETE FROM dissolved_summaries
             WHERE id IN (SELECT d.id FROM dissolved_summaries d WHERE d.thread_key = $1)",
        )?
        .execute_deferred([deleted_key])
    }

    /// Returns the result of [`foreign_mentions`], with all its threads locked.
    fn locked_foreign_mentions(&self, db: &SqlConnection, deleted_key: i64) -> Result<Vec<(i64, i64, bool)>> {
        let mut locked = BTreeSet::new();
        loop {
            let mentions = foreign_mentions(db, deleted_key)?;
            let thread_keys: BTreeSet<i64> = mentions.iter().map(|(thread_key, ..)| *thread_key).collect();
            let unlocked: Vec<i64> = thread_keys.difference(&locked).copied().collect();
            if self.lock_threads(db, &unlocked)? == LockState::AlreadyLocked {
                return Ok(mentions);
            }
            // A thread that was locked before may have been copied by its holder, so search again.
            locked.extend(unlocked);
        }
    }

    /// Appends a `turns_restored` event to each thread whose context has changed. The event gets the time of the
    /// thread's last activity, because it is not an activity of its own.
    pub(crate) fn append_restored_events(self, db: &SqlConnection) -> Result<()> {
        for (thread_key, seqs) in self.restored_events {
            let (thread_id, updated_at) = thread_and_last_update(db, thread_key)?;
            let archived_seqs = seqs.into_iter().map(i64::unsigned_abs).collect();
            let event = NewEvent::from_body(&TurnsRestored { archived_seqs }, updated_at)?;
            events::append(db, thread_id, &[event])?;
        }
        Ok(())
    }
}

impl ThreadSummaryEvents {
    /// Reads the summary events of a thread.
    fn load(db: &SqlConnection, thread_key: i64) -> Result<Self> {
        let mut statement = db.prepare(&summary_events_sql(db.dialect()))?;
        let events = statement.query_map([thread_key], |row| {
            Ok(SummaryEvent {
                seq: row.get(0)?,
                summary_key: row.get(1)?,
                leaves_context: row.get(2)?,
                depends_on_earlier: row.get(3)?,
            })
        })?;
        let events: Vec<SummaryEvent> = events;
        let mut positions: HashMap<i64, Vec<usize>> = HashMap::new();
        for (index, event) in events.iter().enumerate() {
            positions.entry(event.summary_key).or_default().push(index);
        }
        Ok(Self { dependents_from: events.len(), positions, events })
    }

    /// Returns the summaries of the events from index `from` on that depend on earlier events. Summaries that were
    /// returned before are left out.
    fn take_dependents(&mut self, from: usize) -> Vec<i64> {
        let end = self.dependents_from;
        self.dependents_from = end.min(from);
        let later_events = self.events.get(from..end).unwrap_or_default().iter();
        later_events.filter(|event| event.depends_on_earlier).map(|event| event.summary_key).collect()
    }
}

/// Removes those of the summaries that belong to a scope, and makes their messages active again.
///
/// # Errors
/// [`Error::Busy`] if a run of an affected thread is active.
pub(crate) fn restore_turns(
    db: &SqlConnection,
    summary_ids: &[SummaryId],
    scope: Option<&OwnerScope>,
) -> Result<()> {
    let mut removal = SummaryRemoval::new(None);
    for id in summary_ids {
        let key_and_agent: Option<(i64, String)> = db
            .prepare(
                "SELECT s.summary_key, m.agent_id FROM summaries s JOIN medium_term_memory m ON m.id = s.id
                 WHERE s.id = $1",
            )?
            .query_optional([id.to_string()], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if let Some((key, agent_id)) = key_and_agent
            && owners::owner_column_value(scope).is_none_or(|owner| owner == owner_name(&agent_id))
        {
            removal.remove_summary(db, key)?;
        }
    }
    removal.append_restored_events(db)
}

/// Returns the keys of the summaries that cover any message of a thread after `seq`, and of those that the thread
/// announces after `seq`.
pub(crate) fn summaries_after(db: &SqlConnection, thread_key: i64, seq: i64) -> Result<Vec<i64>> {
    let mut statement = db.prepare(&summaries_after_sql(db.dialect()))?;
    statement.query_map((thread_key, seq), |row| row.get(0))
}

/// Returns the statement of [`summaries_after`].
fn summaries_after_sql(dialect: SqlDialect) -> String {
    format!(
        "SELECT summary_key FROM summary_threads WHERE thread_key = $1 AND last_seq > $2
         UNION
         SELECT s.summary_key FROM events e CROSS JOIN summaries s CROSS JOIN summary_threads o
         WHERE s.id = {} AND o.summary_key = s.summary_key AND o.thread_key = e.thread_key
             AND e.thread_key = $1 AND e.seq > $2 AND {CONTEXT_CHANGE_EVENTS} AND e.event_type = 'turns_archived'",
        dialect.json_field("e.content", "summary_id")
    )
}

/// Returns the keys of the threads of a summary's messages. Empty if the summary has been removed.
fn summary_threads(db: &SqlConnection, key: i64) -> Result<Vec<i64>> {
    let mut statement = db.prepare("SELECT thread_key FROM summary_threads WHERE summary_key = $1")?;
    statement.query_map([key], |row| row.get(0))
}

/// Records that a removed summary covered messages of several threads, so that events about it can be emptied when
/// one of these threads is deleted.
fn record_shared_summary(db: &SqlConnection, key: i64) -> Result<()> {
    db.prepare(
        "INSERT INTO dissolved_summaries (thread_key, id)
         SELECT o.thread_key, s.id FROM summaries s CROSS JOIN summary_threads o
         WHERE o.summary_key = s.summary_key AND s.summary_key = $1 ON CONFLICT DO NOTHING",
    )?
    .execute_deferred([key])
}

/// Deletes a summary with its index row, and makes its messages active again.
fn delete_summary(db: &SqlConnection, key: i64) -> Result<()> {
    db.prepare("UPDATE turns SET archived = 0, summary_key = NULL WHERE summary_key = $1")?
        .execute_deferred([key])?;
    facts::delete_undecided_of_summary(db, key)?;
    db.prepare(
        "DELETE FROM medium_term_memory WHERE id = (SELECT id FROM summaries WHERE summary_key = $1)",
    )?
    .execute_deferred([key])?;
    search::document_index::remove_document(db, search::document_index::DocumentKind::Summary, key)
}

/// Returns the statement for the events of the thread `$1` that announce summaries of its own messages. Copies of
/// such events in forks are left out, because they concern messages of another thread.
fn summary_events_sql(dialect: SqlDialect) -> String {
    format!(
        "SELECT e.seq, s.summary_key, {} <> 'compaction', {} IS NOT NULL
         FROM events e CROSS JOIN summaries s CROSS JOIN summary_threads o
         WHERE s.id = {} AND o.summary_key = s.summary_key AND o.thread_key = e.thread_key
             AND e.thread_key = $1 AND {CONTEXT_CHANGE_EVENTS} AND e.event_type = 'turns_archived' ORDER BY e.seq",
        dialect.json_field("e.content", "reason"),
        dialect.json_field("e.content", "context_from"),
        dialect.json_field("e.content", "summary_id")
    )
}

/// Returns the events of other threads that announce removed summaries of the thread `deleted_key`: thread key, seq, and
/// whether messages left the context by the event.
fn foreign_mentions(db: &SqlConnection, deleted_key: i64) -> Result<Vec<(i64, i64, bool)>> {
    let has_removed_summaries = db
        .prepare("SELECT 1 FROM dissolved_summaries WHERE thread_key = $1 LIMIT 1")?
        .exists([deleted_key])?;
    if !has_removed_summaries {
        return Ok(Vec::new());
    }
    let mut statement = db.prepare(&foreign_mentions_sql(db.dialect()))?;
    statement.query_map([deleted_key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
}

/// Returns the statement of [`foreign_mentions`]. Events of deleted threads are left out; a purge removes them.
fn foreign_mentions_sql(dialect: SqlDialect) -> String {
    format!(
        "SELECT e.thread_key, e.seq, {} <> 'compaction' FROM events e
         WHERE {CONTEXT_CHANGE_EVENTS} AND e.event_type = 'turns_archived' AND e.thread_key <> $1
           AND EXISTS (SELECT 1 FROM threads t WHERE t.thread_key = e.thread_key)
           AND {} IN (SELECT d.id FROM dissolved_summaries d WHERE d.thread_key = $1)",
        dialect.json_field("e.content", "reason"),
        dialect.json_field("e.content", "summary_id")
    )
}

/// Removes `context_from` from the `turns_archived` events of a thread after `seq`: it is no longer true that no earlier
/// message is in the context.
fn clear_dependencies(db: &SqlConnection, thread_key: i64, seq: i64) -> Result<()> {
    let dependents = db
        .prepare(&dependents_sql(db.dialect()))?
        .query_map((thread_key, seq), |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
    for (seq, content) in dependents {
        let mut fields: Map<String, Value> = serde_json::from_str(&content)?;
        fields.shift_remove("context_from");
        replace_content(db, thread_key, seq, &encode_json(&fields)?)?;
    }
    Ok(())
}

/// Returns the statement for the `turns_archived` events of the thread `$1` after the seq `$2` that have `context_from`.
fn dependents_sql(dialect: SqlDialect) -> String {
    format!(
        "SELECT seq, content FROM events
         WHERE thread_key = $1 AND seq > $2 AND {CONTEXT_CHANGE_EVENTS} AND event_type = 'turns_archived'
           AND {} IS NOT NULL",
        dialect.json_field("content", "context_from")
    )
}

/// Replaces the content of an event and adapts its checksum. An event that was damaged before is so afterwards.
fn replace_content(db: &SqlConnection, thread_key: i64, seq: i64, content: &str) -> Result<()> {
    let change = db
        .prepare(&format!(
            "SELECT {COLUMNS}, h.thread_id FROM events e JOIN thread_heads h ON h.thread_key = e.thread_key
             WHERE e.thread_key = $1 AND e.seq = $2"
        ))?
        .query_optional((thread_key, seq), |row| {
            let thread_id = read_column(row, "thread_id")?;
            match EventColumns::read_unverified(row, thread_id) {
                Ok((columns, _)) => {
                    let before = columns.checksum(thread_id);
                    let after = EventColumns { content: Cow::Borrowed(content), ..columns };
                    Ok(before ^ after.checksum(thread_id))
                }
                Err(Error::DamagedEvent { .. }) => Ok(0),
                Err(error) => Err(error),
            }
        })?;
    db.prepare(&format!(
        "UPDATE events SET content = $3, checksum = {} WHERE thread_key = $1 AND seq = $2",
        xor_sql("checksum", "CAST($4 AS BIGINT)")
    ))?
    .execute_deferred((thread_key, seq, content, change.unwrap_or_default()))
}

/// Returns the id of a thread and the time of its last activity.
fn thread_and_last_update(db: &SqlConnection, thread_key: i64) -> Result<(ThreadId, jiff::Timestamp)> {
    db.prepare("SELECT thread_id, updated_at FROM thread_heads WHERE thread_key = $1")?
        .query_row([thread_key], |row| Ok((read_column(row, "thread_id")?, read_column(row, "updated_at")?)))
}

#[cfg(test)]
mod tests;
