//! What people and models said in plain words: which events are turns of which agent, and a thread's first prompt. It
//! reads the content of messages, and keeps no second copy of it: the view `turn_log` takes the words from the events.

use std::borrow::Cow;

use crate::engines::sql::{Connection, Dialect, Row, ToValue};
use protocol::event::metadata::EventMetadata;
use protocol::{
    AssistantId, Category, Event, EventType, LoggedTurn, NewEvent, RawJson, Seq, ThreadId, TurnRole,
};
use serde::Deserialize;
use unicode_segmentation::UnicodeSegmentation;

use super::dissolving::{self, Dissolving, RetainedPrefix};
use crate::tables::columns::{count, integer, stored, stored_option};
use crate::tables::threads::{self, Head};
use crate::tables::{events, page_limit};
use crate::{EventQuery, Result, TurnQuery};

/// The most grapheme clusters kept of a thread's first prompt.
const FIRST_PROMPT_GRAPHEMES_MAX: usize = 200;
/// Messages read at a time in search of a thread's first prompt.
const FIRST_PROMPT_PAGE: usize = 16;

/// Returns whether the event is a turn when it is stored: a person's or a model's message with any words. What is said in
/// the thread of a sub-agent is no turn: nobody spoke with the person there.
pub(crate) fn is_turn(db: &Connection, head: &mut Head, event: &NewEvent) -> Result<bool> {
    let is_prompt = event.event_type == EventType::HumanMessage;
    let is_said = is_prompt || event.event_type == EventType::AiMessage;
    if !is_said || is_beside_the_conversation(event.metadata.as_ref()) {
        return Ok(false);
    }
    let Some(text) = text_of(event.content.get()) else { return Ok(false) };
    if is_prompt && !head.has_prompt {
        threads::set_first_prompt(db, head, Some(&beginning(&text)))?;
        head.has_prompt = true;
    }
    Ok(!head.is_in_subagent)
}

/// The turns that an agent had so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turns {
    /// The number they are stored under.
    pub(crate) agent_key: i64,
    /// The index of the last one, deleted ones included; 0 when there never was one.
    pub(crate) last: i64,
}

/// Returns the turns of an agent, which is made where there is none.
pub(crate) fn so_far(db: &Connection, agent_id: &str) -> Result<Turns> {
    let known = db
        .prepare(
            "SELECT a.agent_key, a.turn_floor,
                 coalesce((SELECT max(t.turn_index) FROM turns t WHERE t.agent_key = a.agent_key), 0)
             FROM agents a WHERE a.agent_id = $1",
        )?
        .find([agent_id], |row| {
            Ok(Turns { agent_key: row.get(0)?, last: row.get::<_, i64>(1)?.max(row.get(2)?) })
        })?;
    match known {
        Some(known) => Ok(known),
        None => Ok(Turns { agent_key: agent(db, agent_id)?, last: 0 }),
    }
}

/// Returns the number of an agent, which is made where there is none. In PostgreSQL its turns have a sequence: a counter in a
/// row would have every thread of the agent wait until what another one writes is committed. An index that was taken and not
/// used stays unused.
pub(crate) fn agent(db: &Connection, agent_id: &str) -> Result<i64> {
    // Whoever meets another one here waits until it has made the sequence.
    let agent_key = db
        .prepare(
            "INSERT INTO agents (agent_id) VALUES ($1)
             ON CONFLICT (agent_id) DO UPDATE SET agent_id = excluded.agent_id RETURNING agent_key",
        )?
        .query_row([agent_id], |row| row.get(0))?;
    if db.dialect() == Dialect::Postgres {
        db.execute(&format!("CREATE SEQUENCE IF NOT EXISTS segue_turns_{agent_key}"), ())?;
    }
    Ok(agent_key)
}

/// Stores that the event in a row is a turn.
pub(crate) fn log(db: &Connection, agent_key: i64, index: i64, event_row: i64) -> Result<()> {
    db.prepare("INSERT INTO turns (agent_key, turn_index, event_row) VALUES ($1, $2, $3)")?
        .send((agent_key, index, event_row))
}

/// Sets the thread's first prompt anew, from what is visible of it. Where none was, none is looked for.
pub(crate) fn find_first_prompt(db: &Connection, thread_id: ThreadId, head: &mut Head) -> Result<()> {
    if !head.has_prompt {
        return Ok(());
    }
    let mut query =
        EventQuery { categories: vec![Category::Message], ..EventQuery::after(0, FIRST_PROMPT_PAGE) };
    let prompt = loop {
        let page = events::page(db, thread_id, &query)?;
        if let Some(prompt) = page.iter().find_map(prompt_of) {
            break Some(prompt);
        }
        let Some(last) = page.last() else { break None };
        query.after = Some(last.seq);
    };
    head.has_prompt = prompt.is_some();
    threads::set_first_prompt(db, head, prompt.as_deref())
}

fn prompt_of(event: &Event) -> Option<String> {
    let is_prompt =
        event.kind() == Some(EventType::HumanMessage) && !is_beside_the_conversation(event.metadata.as_ref());
    is_prompt.then(|| text_of(event.content.get())).flatten().map(|text| beginning(&text))
}

fn beginning(text: &str) -> String {
    text.trim().graphemes(true).take(FIRST_PROMPT_GRAPHEMES_MAX).collect()
}

/// Marks the turns after `seq` as archived, whatever made them leave. Their rows stay: a trace of what was done shows
/// them as it shows turns that memory has condensed, and memory condenses neither again. A summary that tells of any of
/// them goes, and what else it stood for is active again; other threads of it are still to be told.
pub(crate) fn archive_after(db: &Connection, head: &Head, seq: Seq) -> Result<Dissolving> {
    let mut dissolving = Dissolving::new(Some(RetainedPrefix { thread_key: head.key, last_seq: integer(seq) }));
    for summary in dissolving::told_after(db, head.key, integer(seq))? {
        dissolving.dissolve(db, summary)?;
    }
    db
        .prepare(
            "UPDATE turns SET archived = 1 WHERE archived = 0
             AND agent_key = (SELECT agent_key FROM agents WHERE agent_id = $1)
             AND turn_index IN (
                 SELECT turn_index FROM events WHERE thread_key = $2 AND seq > $3 AND turn_index IS NOT NULL)",
        )?
        .send((&head.assistant_id, head.key, integer(seq)))?;
    Ok(dissolving)
}

/// Removes the turns of a thread, while its events are still there, and what tells of them; their indexes are not given
/// again.
pub(crate) fn delete(db: &Connection, head: &Head) -> Result<()> {
    let mut dissolving = Dissolving::new(Some(RetainedPrefix { thread_key: head.key, last_seq: 0 }));
    for summary in dissolving::told_after(db, head.key, 0)? {
        dissolving.dissolve(db, summary)?;
    }
    dissolving.forget(db, head.key)?;
    db.execute(
        "UPDATE agents SET turn_floor = (SELECT max(t.turn_index) FROM turns t WHERE t.agent_key = agents.agent_key)
         WHERE agent_id = $1 AND turn_floor < (
             SELECT max(t.turn_index) FROM turns t WHERE t.agent_key = agents.agent_key)",
        [&head.assistant_id],
    )?;
    db.execute(
        "DELETE FROM turns WHERE agent_key = (SELECT agent_key FROM agents WHERE agent_id = $1)
         AND turn_index IN (SELECT turn_index FROM events WHERE thread_key = $2 AND turn_index IS NOT NULL)",
        (&head.assistant_id, head.key),
    )?;
    dissolving.tell(db)
}

pub(crate) fn page(db: &Connection, query: &TurnQuery) -> Result<Vec<LoggedTurn>> {
    let limit = page_limit("turns", query.limit)?;
    let (first, last) = (integer(query.first), integer(query.last));
    let (after, before) = (integer(query.after_seq.unwrap_or(0)), query.before_seq.map_or(i64::MAX, integer));
    let agent_id = query.agent_id.as_str();
    let Some(thread_id) = query.thread_id else {
        let parameters: [&dyn ToValue; 5] = [&limit, &agent_id, &first, &last, &query.archived];
        return read_page(db, &page_of_agent(), &parameters, &query.agent_id);
    };
    let Some(thread_key) = threads::key(db, thread_id)? else { return Ok(Vec::new()) };
    let parameters: [&dyn ToValue; 8] =
        [&limit, &agent_id, &first, &last, &query.archived, &thread_key, &after, &before];
    read_page(db, &page_of_thread(), &parameters, &query.agent_id)
}

/// Returns the statement that reads turns of an agent.
pub(crate) fn page_of_agent() -> String {
    page_sql(OF_AGENT, "t.turn_index")
}

/// Returns the statement that reads turns of one thread.
pub(crate) fn page_of_thread() -> String {
    page_sql(OF_THREAD, "e.seq")
}

/// Where the turns of the agent `$2` are found, by their indexes.
const OF_AGENT: &str = "turns t CROSS JOIN events e CROSS JOIN thread_heads h
    WHERE e.event_row = t.event_row AND e.turn_index = t.turn_index AND h.thread_key = e.thread_key
        AND t.agent_key = (SELECT agent_key FROM agents WHERE agent_id = $2)";

/// Where those of its thread `$6` between two seqs are found: by its events, for between its turns there may be any
/// number of turns of other threads. It begins with the turn `$3`, or the one a page before ended with.
const OF_THREAD: &str =
    "events e CROSS JOIN turns t CROSS JOIN thread_heads h
    WHERE t.turn_index = e.turn_index AND t.event_row = e.event_row
        AND t.agent_key = (SELECT agent_key FROM agents WHERE agent_id = $2)
        AND h.thread_key = e.thread_key AND e.thread_key = $6 AND e.turn_index IS NOT NULL AND e.seq > $7 AND e.seq < $8
        AND e.seq >= coalesce((SELECT max(b.seq) FROM agents a JOIN turns f ON f.agent_key = a.agent_key
            JOIN events b ON b.event_row = f.event_row AND b.thread_key = $6
            WHERE a.agent_id = $2 AND f.turn_index IN (CAST($3 AS BIGINT) - 1, $3)), 0)";

fn page_sql(from: &str, order: &str) -> String {
    format!(
        "SELECT h.thread_id, t.turn_index, e.event_type, e.content, e.created_at, t.archived, e.seq,
             (SELECT s.id FROM summaries s WHERE s.summary_key = t.summary_key) AS summary_id
         FROM {from} AND t.turn_index BETWEEN $3 AND $4 AND (CAST($5 AS BIGINT) IS NULL OR t.archived = $5)
         ORDER BY {order} LIMIT $1"
    )
}

fn read_page(
    db: &Connection,
    sql: &str,
    parameters: &[&dyn ToValue],
    agent_id: &AssistantId,
) -> Result<Vec<LoggedTurn>> {
    let mut statement = db.prepare(sql)?;
    statement.query_map(parameters, |row| read(row, agent_id))
}

fn read(row: &Row<'_>, agent_id: &AssistantId) -> Result<LoggedTurn> {
    let is_prompt = row.text("event_type")? == EventType::HumanMessage.as_str();
    let content = row.text("content")?;
    Ok(LoggedTurn {
        agent_id: agent_id.clone(),
        thread_id: stored(row, "thread_id")?,
        turn_index: count(row, "turn_index")?,
        role: if is_prompt { TurnRole::User } else { TurnRole::Assistant },
        content: text_of(&content).unwrap_or_default().into_owned(),
        created_at: stored(row, "created_at")?,
        is_archived: row.get("archived")?,
        seq: count(row, "seq")?,
        summary_id: stored_option(row, "summary_id")?,
    })
}

fn is_beside_the_conversation(metadata: Option<&RawJson>) -> bool {
    let EventMetadata { side, injected, .. } = EventMetadata::read(metadata);
    side || injected
}

/// The part of a message that holds words; everything else is skipped without being copied.
#[derive(Deserialize)]
struct Words<'a> {
    #[serde(borrow)]
    content: Vec<Part<'a>>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    text: Cow<'a, str>,
}

/// Returns the text blocks of a stored message that are not empty, joined by newlines; `None` when there is no visible
/// text in it. The view `turn_log` says the same in SQL.
pub(crate) fn text_of(content: &str) -> Option<Cow<'_, str>> {
    let words: Words<'_> = serde_json::from_str(content).ok()?;
    let texts = words.content.into_iter().filter(|part| part.kind == "text").map(|part| part.text);
    let mut texts = texts.filter(|text| !text.is_empty());
    let mut text = texts.next()?;
    for part in texts {
        text.to_mut().push('\n');
        text.to_mut().push_str(&part);
    }
    (!text.trim().is_empty()).then_some(text)
}
