//! The message log of agents (view `turn_log`): which events are logged messages of which agent, and the first prompt
//! of a thread. The tables call a logged message a turn. Texts are not stored a second time; the view reads them from
//! the events.

use std::borrow::Cow;

use crate::engines::sql::{SqlConnection, SqlDialect, SqlRow, ToSqlValue};
use protocol::event::metadata::EventMetadata;
use protocol::{
    AssistantId, Category, Event, EventType, LoggedMessage, MessageRole, NewEvent, RawJson, Seq, ThreadId,
};
use serde::Deserialize;
use unicode_segmentation::UnicodeSegmentation;

use super::summary_removal::{self, RetainedPrefix, SummaryRemoval};
use crate::tables::columns::{encode_counter, read_column, read_counter, read_optional_column};
use crate::tables::events::checksums::{COLUMNS, EventColumns};
use crate::tables::threads::{self, ThreadHead};
use crate::tables::{check_page_limit, events};
use crate::{EventQuery, Result, TurnQuery};

/// Maximum length of a stored first prompt, in grapheme clusters.
const FIRST_PROMPT_GRAPHEMES_MAX: usize = 200;
/// Number of messages that are read at a time to find the first prompt of a thread.
const FIRST_PROMPT_PAGE: usize = 16;

/// Returns whether an event is logged as a message of its agent: it is a message of a person or a model and has text.
/// Messages in threads of sub-agents are not logged, because no person takes part in them. Also stores the first
/// prompt of the thread.
pub(crate) fn is_turn(db: &SqlConnection, head: &mut ThreadHead, event: &NewEvent) -> Result<bool> {
    let is_prompt = event.event_type == EventType::HumanMessage;
    let is_conversation = is_prompt || event.event_type == EventType::AiMessage;
    if !is_conversation || is_outside_conversation(event.metadata.as_ref()) {
        return Ok(false);
    }
    let Some(text) = visible_text(event.content.get()) else { return Ok(false) };
    if is_prompt && !head.has_prompt {
        threads::set_first_prompt(db, head, Some(&truncate_prompt(&text)))?;
        head.has_prompt = true;
    }
    Ok(!head.is_in_subagent)
}

/// The state of an agent's message log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AgentTurns {
    /// The number under which the agent's messages are stored.
    pub(crate) agent_key: i64,
    /// The highest index ever assigned, including those of deleted messages; 0 if there was none.
    pub(crate) last_index: i64,
}

/// Returns the state of an agent's message log, and creates the agent's row if there is none.
pub(crate) fn agent_turns(db: &SqlConnection, agent_id: &str) -> Result<AgentTurns> {
    let stored = db
        .prepare(
            "SELECT a.agent_key, a.turn_floor,
                 coalesce((SELECT max(t.turn_index) FROM turns t WHERE t.agent_key = a.agent_key), 0)
             FROM agents a WHERE a.agent_id = $1",
        )?
        .query_optional([agent_id], |row| {
            Ok(AgentTurns { agent_key: row.get(0)?, last_index: row.get::<_, i64>(1)?.max(row.get(2)?) })
        })?;
    match stored {
        Some(stored) => Ok(stored),
        None => Ok(AgentTurns { agent_key: ensure_agent(db, agent_id)?, last_index: 0 }),
    }
}

/// Returns the number of an agent, and creates its row if there is none.
///
/// In PostgreSQL the agent gets a sequence for the indexes of its messages. A counter in a row would make all threads
/// of the agent wait for each other's commits. An index that was taken by a transaction that fails stays unused.
pub(crate) fn ensure_agent(db: &SqlConnection, agent_id: &str) -> Result<i64> {
    // A concurrent insert of the same agent waits here until the other transaction has created the sequence.
    let agent_key = db
        .prepare(
            "INSERT INTO agents (agent_id) VALUES ($1)
             ON CONFLICT (agent_id) DO UPDATE SET agent_id = excluded.agent_id RETURNING agent_key",
        )?
        .query_row([agent_id], |row| row.get(0))?;
    if db.dialect() == SqlDialect::Postgres {
        db.execute(&format!("CREATE SEQUENCE IF NOT EXISTS segue_turns_{agent_key}"), ())?;
    }
    Ok(agent_key)
}

/// Inserts the row of a logged message.
pub(crate) fn insert_turn(db: &SqlConnection, agent_key: i64, index: i64, event_row: i64) -> Result<()> {
    db.prepare("INSERT INTO turns (agent_key, turn_index, event_row) VALUES ($1, $2, $3)")?
        .execute_deferred((agent_key, index, event_row))
}

/// Determines the first prompt of a thread again, from its visible messages. Does nothing if the thread had no
/// prompt.
pub(crate) fn update_first_prompt(
    db: &SqlConnection,
    thread_id: ThreadId,
    head: &mut ThreadHead,
) -> Result<()> {
    if !head.has_prompt {
        return Ok(());
    }
    let mut query =
        EventQuery { categories: vec![Category::Message], ..EventQuery::after(0, FIRST_PROMPT_PAGE) };
    let prompt = loop {
        let page = events::thread_page(db, thread_id, &query)?;
        if let Some(prompt) = page.iter().find_map(prompt_text) {
            break Some(prompt);
        }
        let Some(last) = page.last() else { break None };
        query.after = Some(last.seq);
    };
    head.has_prompt = prompt.is_some();
    threads::set_first_prompt(db, head, prompt.as_deref())
}

/// Returns the prompt of an event, or `None` if the event is not a message of a person with text.
fn prompt_text(event: &Event) -> Option<String> {
    let is_prompt =
        event.kind() == Some(EventType::HumanMessage) && !is_outside_conversation(event.metadata.as_ref());
    is_prompt.then(|| visible_text(event.content.get())).flatten().map(|text| truncate_prompt(&text))
}

/// Returns the stored form of a prompt.
fn truncate_prompt(text: &str) -> String {
    text.trim().graphemes(true).take(FIRST_PROMPT_GRAPHEMES_MAX).collect()
}

/// Archives the messages of a thread after `seq`, because a rewind has superseded them. Their rows stay, so that
/// traces show them like summarized messages, and they are not summarized again. Summaries of any of these messages
/// are removed, and their other messages become active again. Call [`SummaryRemoval::append_restored_events`] on the
/// result to record that in other threads.
pub(crate) fn archive_after(db: &SqlConnection, head: &ThreadHead, seq: Seq) -> Result<SummaryRemoval> {
    let mut removal =
        SummaryRemoval::new(Some(RetainedPrefix { thread_key: head.key, last_seq: encode_counter(seq) }));
    for summary in summary_removal::summaries_after(db, head.key, encode_counter(seq))? {
        removal.remove_summary(db, summary)?;
    }
    db
        .prepare(
            "UPDATE turns SET archived = 1 WHERE archived = 0
             AND agent_key = (SELECT agent_key FROM agents WHERE agent_id = $1)
             AND turn_index IN (
                 SELECT turn_index FROM events WHERE thread_key = $2 AND seq > $3 AND turn_index IS NOT NULL)",
        )?
        .execute_deferred((&head.assistant_id, head.key, encode_counter(seq)))?;
    Ok(removal)
}

/// Deletes the message log of a thread before its events are deleted, and the summaries of its messages. The indexes
/// of the messages are not assigned again.
pub(crate) fn delete(db: &SqlConnection, head: &ThreadHead) -> Result<()> {
    let mut removal = SummaryRemoval::new(Some(RetainedPrefix { thread_key: head.key, last_seq: 0 }));
    for summary in summary_removal::summaries_after(db, head.key, 0)? {
        removal.remove_summary(db, summary)?;
    }
    removal.clear_mentions(db, head.key)?;
    // In PostgreSQL the agent's sequence keeps the highest index. Deletions of all its threads would wait for the agent's row.
    if db.dialect() == SqlDialect::Sqlite {
        db.execute(
            "UPDATE agents SET turn_floor = (SELECT max(t.turn_index) FROM turns t WHERE t.agent_key = agents.agent_key)
             WHERE agent_id = $1 AND turn_floor < (
                 SELECT max(t.turn_index) FROM turns t WHERE t.agent_key = agents.agent_key)",
            [&head.assistant_id],
        )?;
    }
    db.prepare(
        "DELETE FROM turns WHERE agent_key = (SELECT agent_key FROM agents WHERE agent_id = $1)
         AND turn_index IN (SELECT turn_index FROM events WHERE thread_key = $2 AND turn_index IS NOT NULL)",
    )?
    .execute_deferred((&head.assistant_id, head.key))?;
    removal.append_restored_events(db)
}

/// Returns a page of logged messages in ascending order.
///
/// # Errors
/// [`Error::InvalidRequest`](crate::Error::InvalidRequest) if the limit is zero or too large.
pub(crate) fn turn_page(db: &SqlConnection, query: &TurnQuery) -> Result<Vec<LoggedMessage>> {
    let limit = check_page_limit("turns", query.limit)?;
    let (first, last) = (encode_counter(query.first), encode_counter(query.last));
    let (after, before) =
        (encode_counter(query.after_seq.unwrap_or(0)), query.before_seq.map_or(i64::MAX, encode_counter));
    let agent_id = query.agent_id.as_str();
    let Some(thread_id) = query.thread_id else {
        let parameters: [&dyn ToSqlValue; 5] = [&limit, &agent_id, &first, &last, &query.archived];
        return read_page(db, &agent_page_sql(), &parameters, &query.agent_id);
    };
    let Some(thread_key) = threads::thread_key(db, thread_id)? else { return Ok(Vec::new()) };
    let parameters: [&dyn ToSqlValue; 8] =
        [&limit, &agent_id, &first, &last, &query.archived, &thread_key, &after, &before];
    read_page(db, &thread_page_sql(db.dialect()), &parameters, &query.agent_id)
}

/// Returns the statement for a page of an agent's messages.
pub(crate) fn agent_page_sql() -> String {
    page_sql(AGENT_TURNS_FROM, "t.turn_index")
}

/// Returns the statement for a page of a thread's messages.
pub(crate) fn thread_page_sql(dialect: SqlDialect) -> String {
    page_sql(&thread_turns_from(dialect), "e.seq")
}

/// Finds the messages of the agent `$2` by their indexes.
const AGENT_TURNS_FROM: &str = "turns t CROSS JOIN events e CROSS JOIN thread_heads h
    WHERE e.event_row = t.event_row AND e.turn_index = t.turn_index AND h.thread_key = e.thread_key
        AND t.agent_key = (SELECT agent_key FROM agents WHERE agent_id = $2)";

/// Returns the FROM clause for the messages of the thread `$6` between the seqs `$7` and `$8` through the events of the
/// thread, because any number of messages of other threads can lie between them. The search starts at the message `$3`, or at the one
/// before it, with which the previous page ended, and ends at the message `$4`. Each of the two bounds is one expression,
/// because SQLite begins and ends a search of an index with one condition each, and reads the rest row by row.
fn thread_turns_from(dialect: SqlDialect) -> String {
    let (lesser, greater) = (dialect.lesser_function(), dialect.greater_function());
    format!(
        "events e CROSS JOIN turns t CROSS JOIN thread_heads h
    WHERE t.turn_index = e.turn_index AND t.event_row = e.event_row
        AND t.agent_key = (SELECT agent_key FROM agents WHERE agent_id = $2)
        AND h.thread_key = e.thread_key AND e.thread_key = $6 AND e.turn_index IS NOT NULL
        AND e.seq > {greater}($7, coalesce((SELECT max(b.seq) - 1 FROM agents a JOIN turns f ON f.agent_key = a.agent_key
            JOIN events b ON b.event_row = f.event_row AND b.thread_key = $6
            WHERE a.agent_id = $2 AND f.turn_index IN (CAST($3 AS BIGINT) - 1, $3)), 0))
        AND e.seq < {lesser}($8, coalesce((SELECT max(b.seq) + 1 FROM agents a JOIN turns l ON l.agent_key = a.agent_key
            JOIN events b ON b.event_row = l.event_row AND b.thread_key = $6
            WHERE a.agent_id = $2 AND l.turn_index = $4), $8))"
    )
}

/// Returns the statement for a page of messages found by a FROM clause.
fn page_sql(from: &str, order: &str) -> String {
    format!(
        "SELECT {COLUMNS}, h.thread_id, t.turn_index, t.archived,
             (SELECT s.id FROM summaries s WHERE s.summary_key = t.summary_key) AS summary_id
         FROM {from} AND t.turn_index BETWEEN $3 AND $4 AND (CAST($5 AS BIGINT) IS NULL OR t.archived = $5)
         ORDER BY {order} LIMIT $1"
    )
}

/// Reads a page of logged messages.
fn read_page(
    db: &SqlConnection,
    sql: &str,
    parameters: &[&dyn ToSqlValue],
    agent_id: &AssistantId,
) -> Result<Vec<LoggedMessage>> {
    let mut statement = db.prepare(sql)?;
    statement.query_map(parameters, |row| read_turn(row, agent_id))
}

/// Reads a logged message from a row.
///
/// # Errors
/// [`Error::DamagedEvent`](crate::Error::DamagedEvent) if its event has changed since it was stored.
fn read_turn(row: &SqlRow<'_>, agent_id: &AssistantId) -> Result<LoggedMessage> {
    let thread_id = read_column(row, "thread_id")?;
    let event = EventColumns::read(row, thread_id)?;
    let is_prompt = event.event_type == EventType::HumanMessage.as_str();
    Ok(LoggedMessage {
        agent_id: agent_id.clone(),
        thread_id,
        turn_index: read_counter(row, "turn_index")?,
        role: if is_prompt { MessageRole::User } else { MessageRole::Assistant },
        content: visible_text(&event.content).unwrap_or_default().into_owned(),
        created_at: event.created_at,
        is_archived: row.get("archived")?,
        seq: event.seq,
        summary_id: read_optional_column(row, "summary_id")?,
    })
}

/// Returns whether a message is not part of the conversation: it belongs to a sub-agent, or a program injected it.
fn is_outside_conversation(metadata: Option<&RawJson>) -> bool {
    let EventMetadata { side, injected, .. } = EventMetadata::parse(metadata);
    side || injected
}

/// The texts of a message. Other fields are skipped without being copied.
#[derive(Deserialize)]
struct MessageText<'a> {
    /// The content blocks.
    #[serde(borrow)]
    content: Vec<MessageTextBlock<'a>>,
}

/// A content block of a message. Its text is empty if it is not a text block.
#[derive(Deserialize)]
struct MessageTextBlock<'a> {
    /// The type of the block.
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    /// The text of a text block.
    #[serde(default, borrow)]
    text: Cow<'a, str>,
}

/// Returns the non-empty text blocks of a stored message, joined by newlines. `None` if the message has no visible
/// text. The view `turn_log` implements the same rule in SQL.
pub(crate) fn visible_text(content: &str) -> Option<Cow<'_, str>> {
    let message: MessageText<'_> = serde_json::from_str(content).ok()?;
    let texts = message.content.into_iter().filter(|block| block.kind == "text").map(|block| block.text);
    let mut texts = texts.filter(|text| !text.is_empty());
    let mut text = texts.next()?;
    for block_text in texts {
        text.to_mut().push('\n');
        text.to_mut().push_str(&block_text);
    }
    (!text.trim().is_empty()).then_some(text)
}
