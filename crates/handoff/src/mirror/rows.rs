//! What waits in the outbox and what becomes of it: a row with the accepted summary or, once the handoff is gone from the
//! journal, one that says so. Sending it is not done here.
//!
//! An item names a handoff and holds none of its words; what is sent is what the journal says when it is sent. So the order
//! in which items were replaced makes no difference.

use jiff::Timestamp;
use journal::{EventQuery, HandoffFilter, OutboxItem, PAGE_ROWS_MAX, Store, Superseded, Write};
use protocol::{
    AssistantId, EventType, Handoff, HandoffId, HandoffStatus, HandoffSummary, Proposal, RunId,
    SCHEMA_VERSION, ThreadId,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The outbox kind of what is to be mirrored.
pub const MIRROR_KIND: &str = "mirror_summary";

const ACCEPTED: [HandoffStatus; 3] = [HandoffStatus::Accepted, HandoffStatus::Seeded, HandoffStatus::Cleaned];

/// What an item says.
#[derive(Debug, Serialize, Deserialize)]
struct Due {
    handoff_id: HandoffId,
    /// Whose; without it, whatever the journal says.
    assistant_id: Option<AssistantId>,
    /// When the handoff was accepted; without it, when the item was added.
    accepted_at: Option<Timestamp>,
}

/// A row of the mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) assistant_id: String,
    pub(crate) handoff_id: HandoffId,
    pub(crate) summary_json: String,
    pub(crate) summary_md: String,
    /// When the handoff was accepted.
    pub(crate) created_at: Timestamp,
    /// The run that drafted it.
    pub(crate) model_run_id: Option<RunId>,
    /// The thread that is told when it has arrived; `None` when it is gone.
    pub(crate) parent_thread_id: Option<ThreadId>,
    /// What the draft took.
    pub(crate) tokens_used: u64,
}

/// Returns the write that has an accepted handoff mirrored.
pub(crate) fn enqueue(handoff: &Handoff, accepted_at: Timestamp, now: Timestamp) -> Write {
    let payload = json!(Due {
        handoff_id: handoff.handoff_id,
        assistant_id: Some(handoff.assistant_id.clone()),
        accepted_at: Some(accepted_at),
    });
    let key = handoff.handoff_id.to_string();
    Write::Enqueue(OutboxItem { kind: MIRROR_KIND.to_owned(), key, payload, attempts: 0, created_at: now })
}

/// Returns the writes that have the mirror follow the deletion of a thread: they belong into its transaction. A handoff goes
/// with the last of its two threads; which one that is, is seen when the mirror is written.
pub async fn follow_deletion(
    store: &dyn Store,
    thread_id: ThreadId,
    now: Timestamp,
) -> journal::Result<Vec<Write>> {
    let of = |filter: HandoffFilter| HandoffFilter { statuses: ACCEPTED.to_vec(), ..filter };
    let from = HandoffFilter { parent_thread_id: Some(thread_id), ..HandoffFilter::default() };
    let to = HandoffFilter { child_thread_id: Some(thread_id), ..HandoffFilter::default() };
    let mut writes = Vec::new();
    for filter in [from, to] {
        for handoff in store.handoffs(of(filter)).await? {
            let accepted_at = decided_at(store, &handoff).await?.unwrap_or(handoff.updated_at);
            writes.push(enqueue(&handoff, accepted_at, now));
        }
    }
    Ok(writes)
}

/// Returns when the handoff was decided; `None` while it is not, and for one that nobody decided.
pub async fn decided_at(store: &dyn Store, handoff: &Handoff) -> journal::Result<Option<Timestamp>> {
    match handoff.status {
        HandoffStatus::Declined | HandoffStatus::Previewed => Ok(Some(handoff.updated_at)),
        HandoffStatus::Accepted | HandoffStatus::Seeded | HandoffStatus::Cleaned => {
            // The child was made by the decision.
            match store.thread(handoff.child_thread_id).await? {
                Some(child) => Ok(Some(child.created_at)),
                None => accepted_by_event(store, handoff).await,
            }
        }
        HandoffStatus::Requested
        | HandoffStatus::Drafting
        | HandoffStatus::AwaitingDecision
        | HandoffStatus::Failed
        | HandoffStatus::Expired => Ok(None),
    }
}

/// Returns when the parent says that the handoff was accepted.
async fn accepted_by_event(store: &dyn Store, handoff: &Handoff) -> journal::Result<Option<Timestamp>> {
    let mut after = 0;
    loop {
        let query = EventQuery {
            types: vec![EventType::HandoffAccepted],
            superseded: Superseded::Shown,
            ..EventQuery::after(after, PAGE_ROWS_MAX)
        };
        let events = store.events(handoff.parent_thread_id, query).await?;
        let of = |event: &&protocol::Event| event.handoff_id() == Some(handoff.handoff_id);
        if let Some(event) = events.iter().find(of) {
            return Ok(Some(event.created_at));
        }
        match events.last() {
            Some(last) if events.len() == PAGE_ROWS_MAX => after = last.seq,
            Some(_) | None => return Ok(None),
        }
    }
}

/// Returns the row that an item leads to, as of now; `None` when there is nothing to be mirrored.
pub(crate) async fn row(store: &dyn Store, item: &OutboxItem) -> journal::Result<Option<Row>> {
    let Ok(due) = Due::deserialize(&item.payload) else { return Ok(None) };
    let Some(handoff) = store.handoff(due.handoff_id).await? else {
        return Ok(due
            .assistant_id
            .map(|assistant_id| deleted(&assistant_id, due.handoff_id, item.created_at)));
    };
    let proposals = store.proposals(due.handoff_id).await?;
    let accepted = proposals
        .into_iter()
        .find(|proposal| Some(&proposal.summary_sha256) == handoff.accepted_sha256.as_ref());
    let accepted_at = due.accepted_at.unwrap_or(item.created_at);
    Ok(accepted.map(|proposal| mirrored(&handoff, proposal, accepted_at)))
}

fn mirrored(handoff: &Handoff, proposal: Proposal, accepted_at: Timestamp) -> Row {
    let child_thread_id = Some(handoff.child_thread_id);
    let summary = HandoffSummary { child_thread_id, ..proposal.summary_json };
    // A summary is serializable: it was stored as JSON.
    let mut json = serde_json::to_value(&summary).unwrap_or_default();
    make_shareable(&mut json);
    Row {
        assistant_id: handoff.assistant_id.as_str().to_owned(),
        handoff_id: handoff.handoff_id,
        summary_json: json.to_string(),
        summary_md: shareable(&proposal.summary_md),
        created_at: accepted_at,
        parent_thread_id: Some(handoff.parent_thread_id),
        model_run_id: summary.model_run_id,
        tokens_used: summary.tokens_used,
    }
}

/// Returns the row that takes the place of a handoff's that is gone: it has no words of it.
fn deleted(assistant_id: &AssistantId, handoff_id: HandoffId, at: Timestamp) -> Row {
    let json = json!({
        "schema_version": SCHEMA_VERSION, "handoff_id": handoff_id, "assistant_id": assistant_id, "deleted_at": at,
    });
    Row {
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

fn make_shareable(value: &mut Value) {
    match value {
        Value::String(text) => *text = shareable(text),
        Value::Array(values) => values.iter_mut().for_each(make_shareable),
        Value::Object(fields) => fields.values_mut().for_each(make_shareable),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the text as others may read it: a draft has no secrets, but what a person put into its place may. No text or
/// JSON of PostgreSQL holds a NUL.
fn shareable(text: &str) -> String {
    facts::redact(text).replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m16_a_key_that_a_person_wrote_into_a_summary_does_not_leave() {
        let mut value = json!({"title": "Use it", "body": [{"text": "the key is sk-ant-api03-abcdefghijklmnopqrstuvwx"}]});
        make_shareable(&mut value);
        assert!(!value.to_string().contains("abcdefghijkl"), "{value}");
        assert!(value.to_string().contains(facts::REDACTED), "{value}");
    }

    #[test]
    fn ids_hashes_and_times_stay_as_they_are() {
        let mut value = json!({
            "handoff_id": HandoffId::generate(), "created_at": "2026-11-22T10:00:00.123456789Z", "model": "openai/gpt-5",
            "carry_over": {"referenced_files": [{"path": "src/a.rs", "sha256": "ab".repeat(32)}]}, "text": "a\0b",
        });
        let before = value.to_string().replace("\\u0000", "\u{fffd}");
        make_shareable(&mut value);
        assert_eq!(value.to_string(), before);
    }
}
