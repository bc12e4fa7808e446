//! What people and models said in plain words: the rows of `turn_log`, and a thread's first prompt. It reads the
//! content of messages and changes nothing in it.

use std::borrow::Cow;

use protocol::{EventType, NewEvent, Seq};
use rusqlite::Connection;
use serde::Deserialize;
use unicode_segmentation::UnicodeSegmentation;

use super::columns::integer;
use super::threads::{self, Head};
use crate::Result;

/// The most grapheme clusters kept of a thread's first prompt.
const FIRST_PROMPT_GRAPHEMES_MAX: usize = 200;

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
    if is_beside_the_conversation(event) {
        return Ok(None);
    }
    let Some(text) = text_of(event.content.get()) else { return Ok(None) };
    if role == "user" && !head.has_prompt {
        let prompt: String = text.trim().graphemes(true).take(FIRST_PROMPT_GRAPHEMES_MAX).collect();
        threads::set_first_prompt(connection, head, &prompt)?;
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

fn is_beside_the_conversation(event: &NewEvent) -> bool {
    event
        .metadata
        .as_ref()
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
