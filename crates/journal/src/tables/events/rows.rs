//! Storing events: which of them are there already, and the rows of the others. Their seqs, and what else their thread counts,
//! is worked out before.

use std::borrow::Cow;
use std::collections::HashMap;

use protocol::{NewEvent, RunId, Seq};

use crate::Result;
use crate::engines::sql::{Connection, Dialect, Value};
use crate::tables::columns::{Stored, instant, integer, time};
use crate::tables::memory::turns;
use crate::tables::threads::{self, EventRow, Head, Heads};

/// An event that is to be stored.
pub(super) struct NewRow<'a> {
    pub(super) seq: Seq,
    pub(super) event: &'a NewEvent,
    /// Whether it is a turn of its agent.
    pub(super) is_turn: bool,
}

/// Where events are, by their keys and runs.
pub(super) type Known<'a> = HashMap<(&'a String, Option<RunId>), Seq>;

/// Returns which of the events are stored already.
pub(super) fn known<'a>(db: &Connection, thread_key: i64, events: &'a [NewEvent]) -> Result<Known<'a>> {
    let keyed = || events.iter().filter_map(|event| Some((event.event_key.as_ref()?, event.run_id)));
    let mut known = Known::new();
    match db.dialect() {
        Dialect::Sqlite => {
            for (event_key, run_id) in keyed() {
                let bytes = run_id.map(|run_id| run_id.uuid().into_bytes());
                let seq: Option<u32> = db
                    .prepare(
                        "SELECT seq FROM events WHERE thread_key = $1 AND event_key = $2
                         AND ifnull(run_id, x'') = $3 AND event_key IS NOT NULL",
                    )?
                    .find((thread_key, event_key, bytes.as_ref().map_or(&[][..], |bytes| bytes)), |row| {
                        row.get(0)
                    })?;
                known.extend(seq.map(|seq| ((event_key, run_id), seq.into())));
            }
        }
        // One question for all of them, and none where there is nothing to ask.
        Dialect::Postgres if keyed().next().is_some() => {
            let keys = keyed().map(|(event_key, _)| Some(Cow::Borrowed(event_key.as_str()))).collect();
            let stored = db
                .prepare(
                    "SELECT event_key, run_id, seq FROM events
                     WHERE thread_key = $1 AND event_key = ANY(CAST($2 AS text[])) AND event_key IS NOT NULL",
                )?
                .query_map((Value::Integer(thread_key), Value::Texts(keys)), |row| {
                    let run_id: Option<Stored<RunId>> = row.get(1)?;
                    let run_id = run_id.map(|Stored(run_id)| run_id);
                    Ok((row.get::<_, String>(0)?, run_id, row.get::<_, u32>(2)?))
                })?;
            for (event_key, run_id) in keyed() {
                let found = stored.iter().find(|(key, of, _)| key == event_key && *of == run_id);
                known.extend(found.map(|(_, _, seq)| ((event_key, run_id), Seq::from(*seq))));
            }
        }
        Dialect::Postgres => {}
    }
    Ok(known)
}

/// Stores events, those of them that are turns as the next turns of the thread's agent, and the head that they moved.
pub(super) fn insert(db: &Connection, head: &Head, rows: &[NewRow<'_>]) -> Result<()> {
    match db.heads() {
        Some(heads) => put_all(db, heads, head, rows),
        None => {
            insert_each(db, head, rows)?;
            threads::advance(db, head)
        }
    }
}

fn insert_each(db: &Connection, head: &Head, rows: &[NewRow<'_>]) -> Result<()> {
    let mut turns = match rows.iter().any(|row| row.is_turn) {
        true => Some(turns::so_far(db, &head.assistant_id)?),
        false => None,
    };
    for NewRow { seq, event, is_turn } in rows {
        let turn = turns.as_mut().filter(|_| *is_turn).map(|turns| {
            turns.last += 1;
            *turns
        });
        let event_row = db
            .prepare(
                "INSERT INTO events (thread_key, seq, event_id, run_id, category, event_type, created_at, turn_index,
                                     event_key, metadata, content)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) RETURNING event_row",
            )?
            .query_row(
                (
                    head.key,
                    integer(*seq),
                    event.event_id.uuid().as_bytes(),
                    event.run_id.map(|run_id| run_id.uuid().into_bytes()),
                    event.event_type.category().as_str(),
                    event.event_type.as_str(),
                    instant(event.created_at),
                    turn.map(|turn| turn.last),
                    &event.event_key,
                    event.metadata.as_ref().map(|json| json.get()),
                    event.content.get(),
                ),
                |row| row.get(0),
            )?;
        if let Some(turn) = turn {
            turns::log(db, turn.agent_key, turn.last, event_row)?;
        }
    }
    Ok(())
}

/// They are stored with those of other threads, however many, before anything else is asked: the server is some way off. The
/// indexes of turns are taken there.
fn put_all(db: &Connection, heads: &Heads, head: &Head, rows: &[NewRow<'_>]) -> Result<()> {
    let mut head = head.clone();
    let agent_key = match (rows.iter().any(|row| row.is_turn), head.agent_key) {
        (false, _) => 0,
        (true, Some(agent_key)) => agent_key,
        (true, None) => *head.agent_key.insert(turns::agent(db, &head.assistant_id)?),
    };
    for NewRow { seq, event, is_turn } in rows {
        heads.put_row(EventRow {
            thread_key: head.key,
            seq: integer(*seq),
            turn_of: is_turn.then_some(agent_key),
            event_id: event.event_id.uuid().into_bytes(),
            run_id: event.run_id.map(|run_id| run_id.uuid().into_bytes()),
            category: event.event_type.category().as_str(),
            event_type: event.event_type.as_str(),
            created_at: time(event.created_at),
            event_key: event.event_key.clone(),
            metadata: event.metadata.as_ref().map(|json| json.get().to_owned()),
            content: event.content.get().to_owned(),
        });
    }
    heads.move_to(head);
    Ok(())
}
