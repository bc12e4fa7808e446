//! Queue items of threads whose turns are due for summarization: the reason, and a summary that could not be
//! stored yet.

use jiff::Timestamp;
use journal::OutboxItem;
use protocol::{AssistantId, ThreadId, Usage};
use serde::{Deserialize, Serialize};

use super::coverage::TurnSet;
use super::{OFFLINE_MODEL_NAME, TRANSFER_OUTBOX_KIND};

/// An item of the queue. A thread has at most one for its compactions and one for its budget, so that neither stands in
/// the other's place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct QueuedTurns {
    /// The agent that the turns belong to, whichever process works on the item.
    pub agent_id: AssistantId,
    pub thread_id: ThreadId,
    /// The budget that the thread is over; `None`: a compaction condensed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<ShortTermBudget>,
    /// A summary that could not be stored when it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<UnstoredSummary>,
}

/// The budget of a short-term tier, as it was for whoever noticed that a thread is over it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ShortTermBudget {
    pub tokens: u64,
    /// `provider/name` of the model the thread is sent to.
    pub model: String,
}

/// A summary that is not stored yet. It is worth what its calls took, so that it waits with the item while its thread is at
/// work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct UnstoredSummary {
    /// The turns it tells of.
    pub turns: TurnSet,
    pub text: String,
    /// `provider/name` of the model that wrote it, or `extractive`.
    pub model: String,
    /// Secrets that were withheld from it.
    pub withheld: u64,
    /// Tokens that its calls took.
    pub usage: Usage,
}

/// Returns the keys a thread can have in the queue: for its compactions, and for its budget.
pub(super) fn queue_keys(thread_id: ThreadId) -> [String; 2] {
    [thread_id.to_string(), format!("{thread_id}/budget")]
}

impl UnstoredSummary {
    /// Returns whether anything was paid for it.
    pub(super) fn is_from_model(&self) -> bool {
        self.model != OFFLINE_MODEL_NAME
    }
}

impl QueuedTurns {
    /// Returns its key in the queue.
    pub(super) fn queue_key(&self) -> String {
        let [compaction, budget] = queue_keys(self.thread_id);
        if self.budget.is_some() { budget } else { compaction }
    }

    /// Returns the item for the queue in the place of the one that is `queued` under its key: a summary that waits there, and
    /// how often the model failed, are not forgotten.
    pub(super) fn into_item_replacing(mut self, queued: Option<OutboxItem>, now: Timestamp) -> OutboxItem {
        let mut attempts = 0;
        if let Some(queued) = queued
            && let Ok(before) = serde_json::from_value::<Self>(queued.payload)
        {
            // A summary that was made for another budget may still be of the turns that leave.
            (self.draft, attempts) = (before.draft, queued.attempts);
        }
        OutboxItem { attempts, ..self.to_outbox_item(now) }
    }

    /// Returns the item for the queue.
    pub(super) fn to_outbox_item(&self, now: Timestamp) -> OutboxItem {
        let payload = serde_json::to_value(self).expect("ids, numbers and texts are JSON");
        OutboxItem {
            kind: TRANSFER_OUTBOX_KIND.to_owned(),
            key: self.queue_key(),
            payload,
            attempts: 0,
            created_at: now,
        }
    }
}
