//! Queue items of threads whose messages are due for summarization: the reason, and a summary that could not be stored
//! yet. The items are rows of the journal's outbox.

use jiff::Timestamp;
use journal::OutboxItem;
use protocol::{AssistantId, ThreadId, Usage};
use serde::{Deserialize, Serialize};

use super::TRANSFER_OUTBOX_KIND;
use super::coverage::TurnSet;
use super::model_summary::UnstoredFact;

/// The payload of a queue item. A thread has at most one item for its compactions and one for its budget, under
/// separate keys, so that one does not replace the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct QueuedTurns {
    /// The agent that the messages belong to. The process that works on the item may run another agent.
    pub agent_id: AssistantId,
    pub thread_id: ThreadId,
    /// The budget that the thread exceeds. `None` if the messages are due because they were compacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<ShortTermBudget>,
    /// A summary that was made but could not be stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<UnstoredSummary>,
}

/// The budget of the short-term tier at the time at which a thread was found to exceed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ShortTermBudget {
    /// Maximum tokens of the conversation.
    pub tokens: u64,
    /// `provider/name` of the model that the thread is sent to.
    pub model: String,
}

/// A summary that is not stored yet, for example because its thread has an active run. It stays in the queue item,
/// because its model calls were paid for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct UnstoredSummary {
    /// The summarized messages. The summary is usable only for exactly this set.
    pub turns: TurnSet,
    /// The summary without its heading.
    pub text: String,
    /// `provider/name` of the model that wrote it, or `extractive`.
    pub model: String,
    /// Number of secrets redacted from it.
    pub withheld: u64,
    /// Tokens of its model calls.
    pub usage: Usage,
    /// The facts that are proposed with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<UnstoredFact>,
}

/// Returns the keys that a thread can have in the queue: for its compactions, and for its budget.
pub(super) fn queue_keys(thread_id: ThreadId) -> [String; 2] {
    [thread_id.to_string(), format!("{thread_id}/budget")]
}

impl UnstoredSummary {
    /// Returns whether a model wrote it. An offline summary costs nothing and is not worth keeping.
    pub(super) fn is_from_model(&self) -> bool {
        self.model != protocol::OFFLINE_SUMMARY_MODEL
    }
}

impl QueuedTurns {
    /// Returns the key of the item in the queue.
    pub(super) fn queue_key(&self) -> String {
        let [compaction, budget] = queue_keys(self.thread_id);
        if self.budget.is_some() { budget } else { compaction }
    }

    /// Returns the outbox item that replaces the item `queued` under the same key. The unstored summary and the
    /// number of failed attempts are taken over from it.
    pub(super) fn into_item_replacing(mut self, queued: Option<OutboxItem>, now: Timestamp) -> OutboxItem {
        let mut attempts = 0;
        if let Some(queued) = queued
            && let Ok(before) = serde_json::from_value::<Self>(queued.payload)
        {
            // The budget may differ, but the summary may still be of the messages that leave the context first.
            (self.draft, attempts) = (before.draft, queued.attempts);
        }
        OutboxItem { attempts, ..self.to_outbox_item(now) }
    }

    /// Returns the outbox item, without failed attempts.
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
