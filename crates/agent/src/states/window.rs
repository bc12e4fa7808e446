//! The window: what of a thread its model sees, beside the whole transcript that people and clients see.

use protocol::{Seq, ThreadId};
use serde::Serialize;

use crate::Result;
use crate::agent::services::ThreadService;

/// What of a thread its model sees. The transcript is [`crate::State::messages`]; this says which of it is sent as it is, and what
/// stands for the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelWindow {
    /// The summary that stands for what was condensed; `None` where nothing is.
    pub summary: Option<String>,
    /// The marker of that compaction.
    pub marker_seq: Option<Seq>,
    /// The last event that it condensed.
    pub condensed_until: Option<Seq>,
    /// The messages that are sent, by their places: those that were kept, and a request that is sent although it was
    /// condensed. What has left for memory is not among them.
    pub kept_seqs: Vec<Seq>,
    /// How many messages the transcript has.
    pub transcript_messages: usize,
    /// The size of what is sent of the conversation, by estimate.
    pub tokens: u64,
}

impl ThreadService<'_> {
    /// Returns what of the thread its model sees.
    ///
    /// # Errors
    /// When the thread does not exist, or the journal fails.
    pub async fn context_of(self, thread_id: ThreadId) -> Result<ModelWindow> {
        let transcript = self.messages_after(thread_id, 0).await?;
        let context = self.agent.contexts.read(&*self.agent.store, thread_id).await?;
        let compaction = context.beginning.compaction();
        // What stands for the condensed is an event of its own, and no message of the transcript.
        let marker_seq = compaction.map(|(seq, _)| seq);
        let is_said = |seq: &&Seq| transcript.binary_search_by_key(*seq, |message| message.seq).is_ok();
        Ok(ModelWindow {
            summary: compaction.map(|(_, compaction)| compaction.summary.clone()),
            marker_seq,
            condensed_until: compaction.map(|(_, compaction)| compaction.last_seq),
            kept_seqs: context.seqs.iter().filter(is_said).copied().collect(),
            transcript_messages: transcript.len(),
            tokens: context.tokens,
        })
    }
}
