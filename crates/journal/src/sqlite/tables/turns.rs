//! What people and models said in plain words: the rows of `turn_log`, and a thread's first prompt. It reads the
//! content of messages and changes nothing in it.

use std::borrow::Cow;

use protocol::{Category, Event, EventType, NewEvent, RawJson, Seq, ThreadId};
use rusqlite::Connection;
use serde::Deserialize;
use unicode_segmentation::UnicodeSegmentation;

use super::columns::integer;
use super::events;
use super::threads::{self, Head};
use crate::{EventQuery, Result};

/// The most grapheme clusters kept of a thread's first prompt.
const FIRST_PROMPT_GRAPHEMES_MAX: usize = 200;
/// Messages read at a time in search of a thread's first prompt.
const FIRST_PROMPT_PAGE: usize = 16;

/// Stores what the event says in words, if it is a person's or a model's message with any, and returns the turn's
/// index: above every index the agent ever had.
pub(crate) fn log(
    connection: &Connection,
    head: &mut Head,
    (seq, created_at): (Seq, &str),
    event: &NewEvent,
) -> Result<Option<i64>> {
    let role = match event.event_type {
        EventType::HumanMessage => "user",
        EventType::AiMessage => "assistant",
        _ => return Ok(None),
    };
    if is_beside_the_conversation(event.metadata.as_ref()) {
        return Ok(None);
    }
    let Some(text) = text_of(event.content.get()) else { return Ok(None) };
    if role == "user" && !head.has_prompt {
        threads::set_first_prompt(connection, head, Some(&beginning(&text)))?;
        head.has_prompt = true;
    }
    let turn_index = 1 + last_index(connection, head)?;
    head.turn_index = Some(turn_index);
    connection
        .prepare_cached(
            "INSERT INTO turn_log (agent_id, thread_id, turn_index, role, content, created_at, seq)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute((
            &head.assistant_id,
            &head.thread_id,
            turn_index,
            role,
            text.as_ref(),
            created_at,
            integer(seq),
        ))?;
    Ok(Some(turn_index))
}

fn last_index(connection: &Connection, head: &Head) -> Result<i64> {
    if let Some(turn_index) = head.turn_index {
        return Ok(turn_index);
    }
    // Two statements instead of one that returns what it inserted: that opens a temporary table each time.
    Ok(connection
        .prepare_cached(
            "SELECT max(ifnull((SELECT max(turn_index) FROM turn_log WHERE agent_id = ?1), 0),
                        ifnull((SELECT turn_index FROM turn_floors WHERE agent_id = ?1), 0))",
        )?
        .query_row([&head.assistant_id], |row| row.get(0))?)
}

/// Sets the thread's first prompt anew, from what is visible of it. Where none was, none is looked for.
pub(crate) fn find_first_prompt(connection: &Connection, thread_id: ThreadId, head: &mut Head) -> Result<()> {
    if !head.has_prompt {
        return Ok(());
    }
    let mut query =
        EventQuery { categories: vec![Category::Message], ..EventQuery::after(0, FIRST_PROMPT_PAGE) };
    let prompt = loop {
        let page = events::page(connection, thread_id, &query)?;
        if let Some(prompt) = page.iter().find_map(prompt_of) {
            break Some(prompt);
        }
        let Some(last) = page.last() else { break None };
        query.after = Some(last.seq);
    };
    head.has_prompt = prompt.is_some();
    threads::set_first_prompt(connection, head, prompt.as_deref())
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
/// them as it shows turns that memory has condensed, and memory condenses neither again.
pub(crate) fn archive_after(connection: &Connection, head: &Head, seq: Seq) -> Result<()> {
    connection
        .prepare_cached(
            "UPDATE turn_log SET archived = 1 WHERE archived = 0 AND agent_id = ?1 AND turn_index IN (
                 SELECT turn_index FROM events WHERE thread_key = ?2 AND seq > ?3 AND turn_index IS NOT NULL)",
        )?
        .execute((&head.assistant_id, head.key, integer(seq)))?;
    Ok(())
}

/// Removes the turns of a thread; their indexes are not given again.
pub(crate) fn delete(connection: &Connection, head: &Head) -> Result<()> {
    connection.execute(
        "INSERT INTO turn_floors (agent_id, turn_index)
         SELECT agent_id, max(turn_index) FROM turn_log WHERE agent_id = ?1 GROUP BY agent_id
         ON CONFLICT (agent_id) DO UPDATE SET turn_index = max(turn_index, excluded.turn_index)",
        [&head.assistant_id],
    )?;
    connection.execute(
        "DELETE FROM turn_log WHERE agent_id = ?1 AND turn_index IN (
             SELECT turn_index FROM events WHERE thread_key = ?2 AND turn_index IS NOT NULL)",
        (&head.assistant_id, head.key),
    )?;
    Ok(())
}

/// Notes that keep a message out of the turns.
#[derive(Deserialize)]
struct Notes {
    /// It was said in a sub-agent.
    #[serde(default)]
    side: bool,
    /// Nobody said it: a harness put it in.
    #[serde(default)]
    injected: bool,
}

fn is_beside_the_conversation(metadata: Option<&RawJson>) -> bool {
    metadata
        .and_then(|raw| serde_json::from_str::<Notes>(raw.get()).ok())
        .is_some_and(|notes| notes.side || notes.injected)
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

/// Returns the text blocks of a stored message joined by newlines; `None` when there is no visible text in it.
pub(crate) fn text_of(content: &str) -> Option<Cow<'_, str>> {
    let words: Words<'_> = serde_json::from_str(content).ok()?;
    let mut texts = words.content.into_iter().filter(|part| part.kind == "text").map(|part| part.text);
    let mut text = texts.next()?;
    for part in texts {
        if !text.is_empty() {
            text.to_mut().push('\n');
        }
        text.to_mut().push_str(&part);
    }
    (!text.trim().is_empty()).then_some(text)
}
