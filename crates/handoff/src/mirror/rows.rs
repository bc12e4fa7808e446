//! The outbox items of the mirror, and the table rows built from them: a row with the accepted summary or, once the
//! handoff has been deleted from the journal, a deletion row.
//!
//! An item names a handoff and contains none of its text. The row is built from the journal at the time of sending,
//! so the order in which items were replaced makes no difference.

use futures::future::BoxFuture;
use jiff::Timestamp;
use journal::{EventQuery, HandoffFilter, OutboxItem, PAGE_ROWS_MAX, Store, SupersededVisibility, Write};
use protocol::{
    AssistantId, EventType, Handoff, HandoffId, HandoffStatus, HandoffSummary, Proposal, SCHEMA_VERSION,
    ThreadId,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::summary::redaction::replace_texts;

/// The outbox kind of the items that the mirror sends.
pub const MIRROR_KIND: &str = "mirror_summary";

/// The statuses of a handoff that has been accepted.
const ACCEPTED_STATUSES: [HandoffStatus; 3] =
    [HandoffStatus::Accepted, HandoffStatus::Seeded, HandoffStatus::Cleaned];

/// The payload of an outbox item.
#[derive(Debug, Serialize, Deserialize)]
struct MirrorOutboxPayload {
    /// The handoff to export.
    handoff_id: HandoffId,
    /// The assistant of the handoff. It is needed for the deletion row of a handoff that the journal no longer has.
    assistant_id: Option<AssistantId>,
    /// The time of the acceptance; `None` falls back to the time at which the item was added.
    accepted_at: Option<Timestamp>,
}

/// A row of the mirror's table, and the fields that logs and events need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MirrorRow {
    /// Column: the assistant; first part of the key.
    pub(crate) assistant_id: String,
    /// Column: the handoff; second part of the key.
    pub(crate) handoff_id: HandoffId,
    /// Column: the summary as JSON text, redacted.
    pub(crate) summary_json: String,
    /// Column: the summary as Markdown, redacted.
    pub(crate) summary_md: String,
    /// Column: the time of the acceptance.
    pub(crate) created_at: Timestamp,
    /// The provider's id of the response with the draft. It is not a column.
    pub(crate) model_run_id: Option<String>,
    /// The thread that gets an event about the delivery; `None` in a deletion row. It is not a column.
    pub(crate) parent_thread_id: Option<ThreadId>,
    /// The tokens that the draft used. It is not a column.
    pub(crate) tokens_used: u64,
}

/// Returns the write that adds an accepted handoff to the outbox.
pub(crate) fn enqueue_write(handoff: &Handoff, accepted_at: Timestamp, now: Timestamp) -> Write {
    let payload = json!(MirrorOutboxPayload {
        handoff_id: handoff.handoff_id,
        assistant_id: Some(handoff.assistant_id.clone()),
        accepted_at: Some(accepted_at),
    });
    let key = handoff.handoff_id.to_string();
    Write::PutOutboxItem(OutboxItem {
        kind: MIRROR_KIND.to_owned(),
        key,
        payload,
        attempts: 0,
        created_at: now,
    })
}

/// Returns the writes that make the mirror follow the deletion of a thread. They belong in the transaction of the
/// deletion.
///
/// A handoff is deleted with the second of its two threads. The writes enqueue every accepted handoff of the thread,
/// and the sender finds out from the journal whether the handoff still exists.
///
/// # Errors
///
/// When the journal cannot be read.
pub fn deletion_writes<'a>(
    store: &'a dyn Store,
    thread_id: ThreadId,
    now: Timestamp,
) -> BoxFuture<'a, journal::Result<Vec<Write>>> {
    journal::box_future(async move {
        let accepted =
            |filter: HandoffFilter| HandoffFilter { statuses: ACCEPTED_STATUSES.to_vec(), ..filter };
        let as_parent = HandoffFilter { parent_thread_id: Some(thread_id), ..HandoffFilter::default() };
        let as_child = HandoffFilter { child_thread_id: Some(thread_id), ..HandoffFilter::default() };
        let mut writes = Vec::new();
        for filter in [as_parent, as_child] {
            for handoff in store.handoffs(accepted(filter)).await? {
                let accepted_at = decided_at(store, &handoff).await?.unwrap_or(handoff.updated_at);
                writes.push(enqueue_write(&handoff, accepted_at, now));
            }
        }
        Ok(writes)
    })
}

/// Returns the time of the decision; `None` for a handoff that is pending, failed or expired.
///
/// # Errors
///
/// When the journal cannot be read.
pub fn decided_at<'a>(
    store: &'a dyn Store,
    handoff: &'a Handoff,
) -> BoxFuture<'a, journal::Result<Option<Timestamp>>> {
    journal::box_future(async move {
        match handoff.status {
            HandoffStatus::Declined | HandoffStatus::Previewed => Ok(Some(handoff.updated_at)),
            HandoffStatus::Accepted | HandoffStatus::Seeded | HandoffStatus::Cleaned => {
                // The child thread was created in the transaction of the decision.
                match store.thread(handoff.child_thread_id).await? {
                    Some(child) => Ok(Some(child.created_at)),
                    None => acceptance_event_time(store, handoff).await,
                }
            }
            HandoffStatus::Requested
            | HandoffStatus::Drafting
            | HandoffStatus::AwaitingDecision
            | HandoffStatus::Failed
            | HandoffStatus::Expired => Ok(None),
        }
    })
}

/// Returns the time of the `handoff_accepted` event in the parent thread. Reads the events page by page.
async fn acceptance_event_time(store: &dyn Store, handoff: &Handoff) -> journal::Result<Option<Timestamp>> {
    let mut after = 0;
    loop {
        let query = EventQuery {
            types: vec![EventType::HandoffAccepted],
            superseded: SupersededVisibility::Shown,
            ..EventQuery::after(after, PAGE_ROWS_MAX)
        };
        let events = store.events(handoff.parent_thread_id, query).await?;
        let is_of_handoff = |event: &&protocol::Event| event.handoff_id() == Some(handoff.handoff_id);
        if let Some(event) = events.iter().find(is_of_handoff) {
            return Ok(Some(event.created_at));
        }
        match events.last() {
            Some(last) if events.len() == PAGE_ROWS_MAX => after = last.seq,
            Some(_) | None => return Ok(None),
        }
    }
}

/// Returns the row for an item, built from the present state of the journal; `None` when there is nothing to export.
///
/// # Errors
///
/// When the journal cannot be read.
pub(crate) async fn build_row(store: &dyn Store, item: &OutboxItem) -> journal::Result<Option<MirrorRow>> {
    let Ok(payload) = MirrorOutboxPayload::deserialize(&item.payload) else { return Ok(None) };
    let Some(handoff) = store.handoff(payload.handoff_id).await? else {
        return Ok(payload
            .assistant_id
            .map(|assistant_id| deletion_row(&assistant_id, payload.handoff_id, item.created_at)));
    };
    let proposals = store.proposals(payload.handoff_id).await?;
    let accepted = proposals
        .into_iter()
        .find(|proposal| Some(&proposal.summary_sha256) == handoff.accepted_sha256.as_ref());
    let accepted_at = payload.accepted_at.unwrap_or(item.created_at);
    Ok(accepted.map(|proposal| summary_row(&handoff, proposal, accepted_at)))
}

/// Returns the row of an accepted summary, redacted.
fn summary_row(handoff: &Handoff, proposal: Proposal, accepted_at: Timestamp) -> MirrorRow {
    let child_thread_id = Some(handoff.child_thread_id);
    let summary = HandoffSummary { child_thread_id, ..proposal.summary_json };
    // Serializing cannot fail: the summary was read from JSON.
    let mut json = serde_json::to_value(&summary).unwrap_or_default();
    replace_texts(&mut json, &redact_text);
    MirrorRow {
        assistant_id: handoff.assistant_id.as_str().to_owned(),
        handoff_id: handoff.handoff_id,
        summary_json: json.to_string(),
        summary_md: redact_text(&proposal.package_md),
        created_at: accepted_at,
        parent_thread_id: Some(handoff.parent_thread_id),
        model_run_id: summary.model_run_id,
        tokens_used: summary.tokens_used,
    }
}

/// Returns the row that replaces the row of a deleted handoff. It contains the ids and the time of the deletion only.
fn deletion_row(assistant_id: &AssistantId, handoff_id: HandoffId, at: Timestamp) -> MirrorRow {
    let json = json!({
        "schema_version": SCHEMA_VERSION, "handoff_id": handoff_id, "assistant_id": assistant_id, "deleted_at": at,
    });
    MirrorRow {
        assistant_id: assistant_id.as_str().to_owned(),
        handoff_id,
        summary_json: json.to_string(),
        summary_md: String::new(),
        created_at: at,
        parent_thread_id: None,
        model_run_id: None,
        tokens_used: 0,
    }
}

/// Returns the text without secrets and without NUL characters.
///
/// A summary of an earlier version may contain a secret that its user wrote. PostgreSQL stores no NUL in `text` or `jsonb`.
fn redact_text(text: &str) -> String {
    secrets::redact(text).replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m16_a_key_that_a_person_wrote_into_a_summary_is_not_exported() {
        let mut value = json!({"title": "Use it", "body": [{"text": "the key is sk-ant-api03-abcdefghijklmnopqrstuvwx"}]});
        replace_texts(&mut value, &redact_text);
        assert!(!value.to_string().contains("abcdefghijkl"), "{value}");
        assert!(value.to_string().contains(secrets::REDACTED), "{value}");
    }

    #[test]
    fn redaction_keeps_ids_hashes_and_times() {
        let mut value = json!({
            "handoff_id": HandoffId::generate(), "created_at": "2026-11-22T10:00:00.123456789Z", "model": "openai/gpt-5",
            "carried": {"referenced_files": [{"path": "src/a.rs", "sha256": "ab".repeat(32)}]}, "text": "a\0b",
        });
        let before = value.to_string().replace("\\u0000", "\u{fffd}");
        replace_texts(&mut value, &redact_text);
        assert_eq!(value.to_string(), before);
    }
}
