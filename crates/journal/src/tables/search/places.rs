//! What a row of the index stands for, read from its own table. What matches, and what the search looks through, is not
//! known here.

use crate::engines::sql::{Connection, Row};
use jiff::Timestamp;
use protocol::{EventId, HandoffSummary, Seq, ThreadId};
use uuid::Uuid;

use super::texts::{self, Kind};
use super::{seq_of, thread_of};
use crate::tables::columns::{count, json_column, stored, stored_option};
use crate::tables::events::rewinds;
use crate::tables::memory::items;
use crate::tables::memory::turns::text_of;
use crate::{Place, Result};

/// Something that may be found.
pub(super) struct Found {
    pub(super) place: Place,
    /// When it was said or stored.
    pub(super) created_at: Timestamp,
    pub(super) text: String,
    /// The event of a message, which copies of it have too.
    pub(super) event_id: Option<EventId>,
}

/// Returns what the row stands for; `None` when it is gone or superseded, or older than what is looked for.
pub(super) fn read(db: &Connection, row: i64, since: Option<Timestamp>) -> Result<Option<Found>> {
    let found = match texts::of_row(row) {
        None => message(db, row)?,
        Some((Kind::Summary, key)) => summary(db, key)?,
        Some((Kind::Handoff, key)) => handoff(db, key)?,
        Some((Kind::Item, key)) => item(db, key)?,
    };
    Ok(found.filter(|found| since.is_none_or(|since| found.created_at >= since)))
}

/// Returns when a message was said; `None` when the row is not one's.
pub(super) fn said_at(db: &Connection, row: i64) -> Result<Option<Timestamp>> {
    if row < 0 {
        return Ok(None);
    }
    db.prepare("SELECT created_at FROM events WHERE thread_key = $1 AND seq = $2")?
        .find((thread_of(row), seq_of(row)), |row| stored(row, "created_at"))
}

fn message(db: &Connection, row: i64) -> Result<Option<Found>> {
    db.prepare(&format!(
        "SELECT h.thread_id, e.seq, e.event_id, e.event_type, e.created_at, e.content
         FROM events e JOIN thread_heads h ON h.thread_key = e.thread_key
         WHERE e.thread_key = $1 AND e.seq = $2 AND {}",
        rewinds::is_visible("e.seq")
    ))?
    .find((thread_of(row), seq_of(row)), |row| {
        let role = row.text("event_type")?.trim_end_matches("_message").to_owned();
        let seq = Seq::from(row.get::<_, u32>("seq")?);
        let place = Place::Message { thread_id: stored::<ThreadId>(row, "thread_id")?, seq, role };
        let text = text_of(&row.text("content")?).unwrap_or_default().into_owned();
        let event_id = Some(EventId::from_uuid(Uuid::from_bytes(row.get("event_id")?)));
        Ok(Found { place, created_at: stored(row, "created_at")?, text, event_id })
    })
}

fn summary(db: &Connection, key: i64) -> Result<Option<Found>> {
    db.prepare(
        "SELECT m.id, m.summary_text, m.turn_range_start, m.turn_range_end, m.created_at,
             (SELECT h.thread_id FROM thread_heads h WHERE h.thread_key = s.thread_key) AS thread_id
         FROM summaries s JOIN medium_term_memory m ON m.id = s.id WHERE s.summary_key = $1",
    )?
    .find([key], |row| {
        let place = Place::Summary {
            summary_id: stored(row, "id")?,
            thread_id: stored_option(row, "thread_id")?,
            first_turn: count(row, "turn_range_start")?,
            last_turn: count(row, "turn_range_end")?,
        };
        let text = row.get("summary_text")?;
        Ok(Found { place, created_at: stored(row, "created_at")?, text, event_id: None })
    })
}

fn handoff(db: &Connection, key: i64) -> Result<Option<Found>> {
    db.prepare(&format!("{COUNTING_PROPOSAL} WHERE i.handoff_key = $1 {LATEST_FIRST}"))?.find([key], |row| {
        let place = Place::Handoff {
            handoff_id: stored(row, "handoff_id")?,
            parent_thread_id: stored(row, "parent_thread_id")?,
            child_thread_id: stored(row, "child_thread_id")?,
        };
        let text = proposal_text(row)?;
        Ok(Found { place, created_at: stored(row, "created_at")?, text, event_id: None })
    })
}

/// The proposals of handoffs, each with the row that tells where its handoff is in the index.
pub(super) const COUNTING_PROPOSAL: &str =
    "SELECT h.handoff_id, h.assistant_id, h.parent_thread_id, h.child_thread_id,
        p.summary_json, p.created_at
    FROM handoff_index i JOIN handoffs h ON h.handoff_id = i.handoff_id
    JOIN proposals p ON p.handoff_id = h.handoff_id";

/// The accepted proposal comes first, and otherwise the latest.
pub(super) const LATEST_FIRST: &str =
    "ORDER BY CASE WHEN p.summary_sha256 = h.accepted_sha256 THEN 0 ELSE 1 END, p.iteration DESC LIMIT 1";

/// Returns the words of the proposal that counts; `None` when the handoff has none.
pub(super) fn handoff_text(db: &Connection, key: i64) -> Result<Option<String>> {
    db.prepare(&format!("{COUNTING_PROPOSAL} WHERE i.handoff_key = $1 {LATEST_FIRST}"))?
        .find([key], proposal_text)
}

fn proposal_text(row: &Row<'_>) -> Result<String> {
    let summary: HandoffSummary = json_column(row, "summary_json")?;
    let body = summary.body.into_iter().map(|item| item.text);
    Ok([summary.title, summary.tldr].into_iter().chain(body).collect::<Vec<_>>().join("\n"))
}

fn item(db: &Connection, key: i64) -> Result<Option<Found>> {
    db.prepare("SELECT namespace, key, value, updated_at FROM items WHERE item_key = $1")?.find(
        [key],
        |row| {
            let key: String = row.get("key")?;
            let text = items::text(&key, &json_column(row, "value")?);
            let place = Place::Item { namespace: items::labels(&row.text("namespace")?), key };
            Ok(Found { place, created_at: stored(row, "updated_at")?, text, event_id: None })
        },
    )
}
