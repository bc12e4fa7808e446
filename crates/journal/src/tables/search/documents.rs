//! Reads the document that a row of the search index refers to, from the table that stores it. Other modules of `search`
//! match words and check the scope of a search.

use crate::engines::sql::{SqlConnection, SqlRow};
use jiff::Timestamp;
use protocol::{EventId, HandoffSummary};

use super::document_index::{self, DocumentKind};
use super::{row_seq, row_thread_key};
use crate::tables::columns::{read_column, read_counter, read_json_column, read_optional_column};
use crate::tables::events::checksums::{COLUMNS, EventColumns};
use crate::tables::events::rewinds;
use crate::tables::memory::items;
use crate::tables::memory::turns::visible_text;
use crate::{Error, HitLocation, Result};

/// The text of a message whose stored form is damaged. A single damaged message does not make the search fail.
const DAMAGED_TEXT: &str = "(the stored message is damaged)";

/// A document that a search can return.
pub(super) struct SearchDocument {
    /// The location of the document, which a search hit returns.
    pub(super) location: HitLocation,
    /// Time at which the message was created or the document was stored.
    pub(super) created_at: Timestamp,
    /// The text.
    pub(super) text: String,
    /// The event of a message. Copies of a message have the same id.
    pub(super) event_id: Option<EventId>,
}

/// Returns the document of an index row. `None` if it was deleted or superseded, or is older than `since`.
pub(super) fn read_document(
    db: &SqlConnection,
    row: i64,
    since: Option<Timestamp>,
) -> Result<Option<SearchDocument>> {
    let document = match document_index::decode_row(row) {
        None => read_message(db, row)?,
        Some((DocumentKind::Summary, key)) => read_summary(db, key)?,
        Some((DocumentKind::Handoff, key)) => read_handoff(db, key)?,
        Some((DocumentKind::Item, key)) => read_item(db, key)?,
    };
    Ok(document.filter(|document| since.is_none_or(|since| document.created_at >= since)))
}

/// Returns the creation time of a message, or `None` if the row is not a message or was deleted.
pub(super) fn message_time(db: &SqlConnection, row: i64) -> Result<Option<Timestamp>> {
    if row < 0 {
        return Ok(None);
    }
    db.prepare("SELECT created_at FROM events WHERE thread_key = $1 AND seq = $2")?
        .query_optional((row_thread_key(row), row_seq(row)), |row| read_column(row, "created_at"))
}

/// Reads a message. A damaged one is returned without its role, time and text.
fn read_message(db: &SqlConnection, row: i64) -> Result<Option<SearchDocument>> {
    db.prepare(&format!(
        "SELECT {COLUMNS}, h.thread_id FROM events e JOIN thread_heads h ON h.thread_key = e.thread_key
         WHERE e.thread_key = $1 AND e.seq = $2 AND {}",
        rewinds::visibility_condition("e.seq")
    ))?
    .query_optional((row_thread_key(row), row_seq(row)), |row| {
        let thread_id = read_column(row, "thread_id")?;
        let event = match EventColumns::read(row, thread_id) {
            Ok(event) => event,
            Err(Error::DamagedEvent { thread_id, seq }) => {
                let location = HitLocation::Message { thread_id, seq, role: "damaged".to_owned() };
                let (created_at, text) = (Timestamp::UNIX_EPOCH, DAMAGED_TEXT.to_owned());
                return Ok(SearchDocument { location, created_at, text, event_id: None });
            }
            Err(error) => return Err(error),
        };
        let role = event.event_type.trim_end_matches("_message").to_owned();
        Ok(SearchDocument {
            location: HitLocation::Message { thread_id, seq: event.seq, role },
            created_at: event.created_at,
            text: visible_text(&event.content).unwrap_or_default().into_owned(),
            event_id: Some(event.event_id),
        })
    })
}

/// Reads a summary.
fn read_summary(db: &SqlConnection, key: i64) -> Result<Option<SearchDocument>> {
    db.prepare(
        "SELECT m.id, m.summary_text, m.turn_range_start, m.turn_range_end, m.created_at,
             (SELECT h.thread_id FROM thread_heads h WHERE h.thread_key = s.thread_key) AS thread_id
         FROM summaries s JOIN medium_term_memory m ON m.id = s.id WHERE s.summary_key = $1",
    )?
    .query_optional([key], |row| {
        let location = HitLocation::Summary {
            summary_id: read_column(row, "id")?,
            thread_id: read_optional_column(row, "thread_id")?,
            first_turn: read_counter(row, "turn_range_start")?,
            last_turn: read_counter(row, "turn_range_end")?,
        };
        let text = row.get("summary_text")?;
        Ok(SearchDocument { location, created_at: read_column(row, "created_at")?, text, event_id: None })
    })
}

/// Reads the effective proposal of a handoff; see [`EFFECTIVE_FIRST_SQL`].
fn read_handoff(db: &SqlConnection, key: i64) -> Result<Option<SearchDocument>> {
    db.prepare(&format!("{EFFECTIVE_PROPOSAL_SQL} WHERE i.handoff_key = $1 {EFFECTIVE_FIRST_SQL}"))?
        .query_optional([key], |row| {
            let location = HitLocation::Handoff {
                handoff_id: read_column(row, "handoff_id")?,
                parent_thread_id: read_column(row, "parent_thread_id")?,
                child_thread_id: read_column(row, "child_thread_id")?,
            };
            let text = proposal_text(row)?;
            Ok(SearchDocument { location, created_at: read_column(row, "created_at")?, text, event_id: None })
        })
}

/// Selects the proposals of handoffs, each with the index key of its handoff.
pub(super) const EFFECTIVE_PROPOSAL_SQL: &str =
    "SELECT h.handoff_id, h.assistant_id, h.parent_thread_id, h.child_thread_id,
        p.summary_json, p.created_at
    FROM handoff_index i JOIN handoffs h ON h.handoff_id = i.handoff_id
    JOIN proposals p ON p.handoff_id = h.handoff_id";

/// Selects the effective proposal of a handoff: the accepted proposal, or else the latest.
pub(super) const EFFECTIVE_FIRST_SQL: &str =
    "ORDER BY CASE WHEN p.summary_sha256 = h.accepted_sha256 THEN 0 ELSE 1 END, p.iteration DESC LIMIT 1";

/// Returns the text of a handoff's effective proposal, or `None` if the handoff has no proposal.
pub(super) fn handoff_text(db: &SqlConnection, key: i64) -> Result<Option<String>> {
    db.prepare(&format!("{EFFECTIVE_PROPOSAL_SQL} WHERE i.handoff_key = $1 {EFFECTIVE_FIRST_SQL}"))?
        .query_optional([key], proposal_text)
}

/// Returns the indexed text of a proposal: title, short summary and body.
fn proposal_text(row: &SqlRow<'_>) -> Result<String> {
    let summary: HandoffSummary = read_json_column(row, "summary_json")?;
    let body = summary.body.into_iter().map(|item| item.text);
    Ok([summary.title, summary.tldr].into_iter().chain(body).collect::<Vec<_>>().join("\n"))
}

/// Reads a memory item.
fn read_item(db: &SqlConnection, key: i64) -> Result<Option<SearchDocument>> {
    db.prepare("SELECT namespace, key, value, updated_at FROM items WHERE item_key = $1")?.query_optional(
        [key],
        |row| {
            let key: String = row.get("key")?;
            let text = items::searchable_text(&key, &read_json_column(row, "value")?);
            let location =
                HitLocation::Item { namespace: items::split_labels(&row.get_text("namespace")?), key };
            Ok(SearchDocument { location, created_at: read_column(row, "updated_at")?, text, event_id: None })
        },
    )
}
