//! Insertion of events: detection of repetitions, and the rows of new events. The caller has assigned the seqs and
//! updated the thread's counters.

use std::borrow::Cow;
use std::collections::HashMap;

use protocol::{NewEvent, RunId, Seq};

use crate::Result;
use crate::engines::sql::{SqlConnection, SqlDialect, SqlValue};
use crate::tables::columns::{StoredColumn, compact_timestamp, encode_counter, encode_time};
use crate::tables::memory::turns;
use crate::tables::threads::{self, PendingEventRow, RowQueue, ThreadHead, ThreadHeadCache};

/// An event to be inserted.
pub(super) struct NewEventRow<'a> {
    /// Its seq.
    pub(super) seq: Seq,
    /// The event.
    pub(super) event: &'a NewEvent,
    /// Its checksum.
    pub(super) checksum: i64,
    /// `true` if it becomes a logged message of the agent (a row of `turn_log`).
    pub(super) is_turn: bool,
}

/// The seqs of stored events, by event key and run.
pub(super) type StoredEventSeqs<'a> = HashMap<(&'a String, Option<RunId>), Seq>;

/// Returns the seqs of those events that are stored already, which is decided by key and run. Events without a key
/// are always new.
pub(super) fn find_stored_events<'a>(
    db: &SqlConnection,
    thread_key: i64,
    events: &'a [NewEvent],
) -> Result<StoredEventSeqs<'a>> {
    let keyed = || events.iter().filter_map(|event| Some((event.event_key.as_ref()?, event.run_id)));
    let mut stored_seqs = StoredEventSeqs::new();
    match db.dialect() {
        SqlDialect::Sqlite => {
            for (event_key, run_id) in keyed() {
                let bytes = run_id.map(|run_id| run_id.uuid().into_bytes());
                let seq: Option<u32> = db
                    .prepare(
                        "SELECT seq FROM events WHERE thread_key = $1 AND event_key = $2
                         AND ifnull(run_id, x'') = $3 AND event_key IS NOT NULL",
                    )?
                    .query_optional(
                        (thread_key, event_key, bytes.as_ref().map_or(&[][..], |bytes| bytes)),
                        |row| row.get(0),
                    )?;
                stored_seqs.extend(seq.map(|seq| ((event_key, run_id), seq.into())));
            }
        }
        // The unique index of the keys refuses a repetition.
        SqlDialect::Postgres if RowQueue::of(db).is_some() => {}
        // One query for all events, and no query if none has a key.
        SqlDialect::Postgres if keyed().next().is_some() => {
            let keys = keyed().map(|(event_key, _)| Some(Cow::Borrowed(event_key.as_str()))).collect();
            let stored = db
                .prepare(
                    "SELECT event_key, run_id, seq FROM events
                     WHERE thread_key = $1 AND event_key = ANY(CAST($2 AS text[])) AND event_key IS NOT NULL",
                )?
                .query_map((SqlValue::Integer(thread_key), SqlValue::Texts(keys)), |row| {
                    let run_id: Option<StoredColumn<RunId>> = row.get(1)?;
                    let run_id = run_id.map(|StoredColumn(run_id)| run_id);
                    Ok((row.get::<_, String>(0)?, run_id, row.get::<_, u32>(2)?))
                })?;
            for (event_key, run_id) in keyed() {
                let matching = stored.iter().find(|(key, run, _)| key == event_key && *run == run_id);
                stored_seqs.extend(matching.map(|(_, _, seq)| ((event_key, run_id), Seq::from(*seq))));
            }
        }
        SqlDialect::Postgres => {}
    }
    Ok(stored_seqs)
}

/// Inserts events, assigns the next turn indexes to those that are logged messages, and stores the updated head of
/// the thread.
pub(super) fn insert_events(db: &SqlConnection, head: &ThreadHead, rows: &[NewEventRow<'_>]) -> Result<()> {
    match db.heads() {
        Some(heads) => queue_rows(db, heads, head, rows),
        None => {
            insert_one_by_one(db, head, rows)?;
            threads::store_head(db, head)
        }
    }
}

/// Inserts events with one statement each. Used for SQLite, where a statement costs no round trip.
fn insert_one_by_one(db: &SqlConnection, head: &ThreadHead, rows: &[NewEventRow<'_>]) -> Result<()> {
    let mut turns = match rows.iter().any(|row| row.is_turn) {
        true => Some(turns::agent_turns(db, &head.assistant_id)?),
        false => None,
    };
    for NewEventRow { seq, event, checksum, is_turn } in rows {
        let turn = turns.as_mut().filter(|_| *is_turn).map(|turns| {
            turns.last_index += 1;
            *turns
        });
        let event_row = db
            .prepare(
                "INSERT INTO events (thread_key, seq, event_id, run_id, category, event_type, created_at, turn_index,
                                     event_key, metadata, content, checksum)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) RETURNING event_row",
            )?
            .query_row(
                (
                    head.key,
                    encode_counter(*seq),
                    event.event_id.uuid().as_bytes(),
                    event.run_id.map(|run_id| run_id.uuid().into_bytes()),
                    event.event_type.category().as_str(),
                    event.event_type.as_str(),
                    compact_timestamp(event.created_at),
                    turn.map(|turn| turn.last_index),
                    &event.event_key,
                    event.metadata.as_ref().map(|json| json.get()),
                    event.content.get(),
                    checksum,
                ),
                |row| row.get(0),
            )?;
        if let Some(turn) = turn {
            turns::insert_turn(db, turn.agent_key, turn.last_index, event_row)?;
        }
    }
    Ok(())
}

/// Queues events to be inserted, together with those of other threads, before the next statement. Used for
/// PostgreSQL, where each statement costs a round trip. The statement assigns the turn indexes.
fn queue_rows(
    db: &SqlConnection,
    heads: &ThreadHeadCache,
    head: &ThreadHead,
    rows: &[NewEventRow<'_>],
) -> Result<()> {
    let mut head = head.clone();
    let agent_key = match (rows.iter().any(|row| row.is_turn), head.agent_key) {
        (false, _) => 0,
        (true, Some(agent_key)) => agent_key,
        (true, None) => *head.agent_key.insert(turns::ensure_agent(db, &head.assistant_id)?),
    };
    for NewEventRow { seq, event, checksum, is_turn } in rows {
        heads.queue_row(PendingEventRow {
            thread_key: head.key,
            seq: encode_counter(*seq),
            turn_agent_key: is_turn.then_some(agent_key),
            event_id: event.event_id.uuid().into_bytes(),
            run_id: event.run_id.map(|run_id| run_id.uuid().into_bytes()),
            category: event.event_type.category().as_str(),
            event_type: event.event_type.as_str(),
            created_at: encode_time(event.created_at),
            event_key: event.event_key.clone(),
            metadata: event.metadata.as_ref().map(|json| json.get().to_owned()),
            content: event.content.get().to_owned(),
            checksum: *checksum,
        });
    }
    heads.update_head(head, None);
    Ok(())
}
