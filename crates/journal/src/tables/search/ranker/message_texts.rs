//! Reads the texts of candidates, with the message before each, for features that the index does not give. Tool
//! results and very long messages are not read, because reading them would take longer than everything else.

use crate::engines::sql::{SqlConnection, SqlDialect, SqlRow, SqlValue};

use super::super::candidates::{PROXIMITY_SEQS, SearchCandidate};
use super::super::{message_row, row_thread_key, searchable_prefix};
use super::cues::CueText;
use crate::tables::memory::turns::visible_text;
use crate::{Error, Result};

/// Maximum length of the stored form of a message whose text is read.
const CONTENT_CHARS_MAX: usize = 32 << 10;

/// A message of a candidate.
pub(super) struct MessageText {
    /// The role: `human`, `ai` or `tool`.
    pub(super) role: String,
    /// The text; `None` for a tool result and for a very long message.
    text: Option<String>,
    /// The message before it that is no tool result, if it is near and a match.
    pub(super) previous: Option<PreviousMessage>,
}

/// The message before another message.
pub(super) struct PreviousMessage {
    /// The seq of its event.
    pub(super) seq: i64,
    /// The text; empty if it was not read.
    pub(super) text: String,
}

impl MessageText {
    /// Returns the text, or an empty text if it was not read.
    pub(super) fn visible_text(&self) -> &str {
        self.text.as_deref().map_or("", searchable_prefix)
    }

    /// Returns the beginning of the text, in which cues are looked for.
    pub(super) fn cue_text(&self) -> CueText<'_> {
        CueText::new(self.visible_text())
    }

    /// Returns whether the message is the result of a tool call.
    pub(super) fn is_tool_result(&self) -> bool {
        self.role == "tool"
    }
}

/// Returns the message of each candidate; `None` for a summary, a handoff, an item or a deleted message.
pub(super) fn read_message_texts(
    db: &SqlConnection,
    candidates: &[SearchCandidate],
) -> Result<Vec<Option<MessageText>>> {
    let mut texts: Vec<Option<MessageText>> = candidates.iter().map(|_| None).collect();
    let rows: Vec<i64> = candidates.iter().map(|candidate| candidate.row).collect();
    for (position, message) in read_rows(db, &message_sql(db.dialect()), &rows, |row| {
        Ok(MessageText {
            role: row.get_text("event_type")?.trim_end_matches("_message").to_owned(),
            text: read_text(row)?,
            previous: None,
        })
    })? {
        texts[position] = Some(message);
    }
    // A document's id is no message, and 0 is no row.
    let answers: Vec<i64> = candidates
        .iter()
        .map(|candidate| if candidate.preceding.is_some() { candidate.row } else { 0 })
        .collect();
    for (position, previous) in read_rows(db, &previous_sql(db.dialect()), &answers, |row| {
        Ok(PreviousMessage { seq: row.get("seq")?, text: read_text(row)?.unwrap_or_default() })
    })? {
        if let Some(message) = &mut texts[position] {
            message.previous = Some(previous);
        }
    }
    Ok(texts)
}

/// Returns the visible text of a row's message, or `None` if the row has no content or an unreadable one.
fn read_text(row: &SqlRow<'_>) -> Result<Option<String>> {
    let content: Option<String> = match row.get("content") {
        Err(Error::Malformed(_)) => None,
        content => content?,
    };
    Ok(content.and_then(|content| visible_text(&content).map(|text| text.into_owned())))
}

/// Returns the expression for the stored message of the event `e`, or NULL if it is not read.
fn content_sql() -> String {
    format!(
        "CASE WHEN e.event_type = 'tool_message' OR length(e.content) > {CONTENT_CHARS_MAX} THEN NULL ELSE e.content END AS content"
    )
}

/// Returns the rows of the parameter `$1` as the table `requested`, with their positions from 0.
const fn requested_sql(dialect: SqlDialect) -> &'static str {
    match dialect {
        SqlDialect::Sqlite => "(SELECT key AS position, value AS id FROM json_each($1)) AS requested",
        SqlDialect::Postgres => {
            "(SELECT ordinality - 1 AS position, id FROM unnest(CAST($1 AS bigint[])) WITH ORDINALITY AS listed (id, ordinality)) AS requested"
        }
    }
}

/// Returns the statement for the messages of the requested rows.
fn message_sql(dialect: SqlDialect) -> String {
    format!(
        "SELECT position, e.event_type AS event_type, {} FROM {}
         JOIN events e ON e.thread_key = requested.id >> 32 AND e.seq = requested.id & 4294967295
         WHERE requested.id > 0",
        content_sql(),
        requested_sql(dialect)
    )
}

/// Returns the statement for the messages before the requested rows.
fn previous_sql(dialect: SqlDialect) -> String {
    format!(
        "SELECT position, e.seq AS seq, {} FROM {}
         JOIN events e ON e.thread_key = requested.id >> 32 AND e.seq = (
             SELECT max(p.seq) FROM events p WHERE p.thread_key = requested.id >> 32
                 AND p.seq < (requested.id & 4294967295) AND p.seq >= (requested.id & 4294967295) - {PROXIMITY_SEQS}
                 AND p.category = 'message' AND p.event_type <> 'tool_message')
         WHERE requested.id > 0",
        content_sql(),
        requested_sql(dialect)
    )
}

/// Returns the rows of the messages directly before and after each candidate, as far as they are near.
pub(super) fn read_adjacent_rows(
    db: &SqlConnection,
    candidates: &[SearchCandidate],
) -> Result<Vec<[Option<i64>; 2]>> {
    let mut adjacent = vec![[None, None]; candidates.len()];
    let rows: Vec<i64> = candidates.iter().map(|candidate| candidate.row).collect();
    let read = |row: &SqlRow<'_>| {
        Ok([row.get::<_, Option<i64>>("row_before")?, row.get::<_, Option<i64>>("row_after")?])
    };
    for (position, seqs) in read_rows(db, &adjacent_sql(db.dialect()), &rows, read)? {
        let thread_key = row_thread_key(rows[position]);
        adjacent[position] = seqs.map(|seq| seq.map(|seq| message_row(thread_key, seq)));
    }
    Ok(adjacent)
}

/// Returns the statement for the seqs of the messages before and after the requested rows.
fn adjacent_sql(dialect: SqlDialect) -> String {
    let of_thread = "SELECT CAST({} AS bigint) FROM events e WHERE e.thread_key = requested.id >> 32
        AND e.category = 'message'";
    let seq = "(requested.id & 4294967295)";
    format!(
        "SELECT position,
             ({} AND e.seq < {seq} AND e.seq >= {seq} - {PROXIMITY_SEQS}) AS row_before,
             ({} AND e.seq > {seq} AND e.seq <= {seq} + {PROXIMITY_SEQS}) AS row_after
         FROM {} WHERE requested.id > 0",
        of_thread.replace("{}", "max(e.seq)"),
        of_thread.replace("{}", "min(e.seq)"),
        requested_sql(dialect)
    )
}

/// Runs a statement for rows, and returns what `read` returns with the position of each row.
fn read_rows<T>(
    db: &SqlConnection,
    sql: &str,
    rows: &[i64],
    mut read: impl FnMut(&SqlRow<'_>) -> Result<T>,
) -> Result<Vec<(usize, T)>> {
    let parameter = match db.dialect() {
        SqlDialect::Sqlite => {
            let ids: Vec<String> = rows.iter().map(i64::to_string).collect();
            SqlValue::Text(format!("[{}]", ids.join(",")).into())
        }
        SqlDialect::Postgres => SqlValue::Integers(rows.into()),
    };
    db.prepare(sql)?.query_map([parameter], |row| {
        let position: i64 = row.get("position")?;
        Ok((usize::try_from(position).unwrap_or_default(), read(row)?))
    })
}
