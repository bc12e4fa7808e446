//! The model's view of a thread, as opposed to the whole transcript that people and clients see.

use futures::future::BoxFuture;
use protocol::{Seq, ThreadId};
use serde::Serialize;

use crate::Result;
use crate::ThreadService;

/// The part of a thread that the model receives. The transcript is [`crate::ThreadSnapshot::messages`]; the
/// window says which of its messages are sent verbatim, and which summary replaces the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelWindow {
    /// The summary that replaces compacted messages; `None` if nothing is compacted.
    pub summary: Option<String>,
    /// The seq of the compaction boundary.
    pub marker_seq: Option<Seq>,
    /// The seq of the last compacted event.
    pub condensed_until: Option<Seq>,
    /// The seqs of the messages that are sent verbatim: those that were not compacted, and a compacted
    /// request that is still sent. Messages that memory archived are not among them.
    pub kept_seqs: Vec<Seq>,
    /// The number of messages in the transcript.
    pub transcript_messages: usize,
    /// The estimated tokens of the conversation as it is sent.
    pub tokens: u64,
}

impl<'a> ThreadService<'a> {
    /// Returns the part of the thread that the model receives.
    ///
    /// # Errors
    /// Fails if the thread does not exist, or if the journal fails.
    pub fn model_window(self, thread_id: ThreadId) -> BoxFuture<'a, Result<ModelWindow>> {
        journal::box_future(async move {
            let transcript = self.messages_after(thread_id, 0).await?;
            let context = self.agent.contexts.read_context(&*self.agent.store, thread_id).await?;
            let compaction = context.beginning.compaction();
            // The context also contains the summary, whose seq is that of an event and not of a message in the
            // transcript.
            let marker_seq = compaction.map(|(seq, _)| seq);
            let is_message =
                |seq: &&Seq| transcript.binary_search_by_key(*seq, |message| message.seq).is_ok();
            Ok(ModelWindow {
                summary: compaction.map(|(_, compaction)| compaction.summary.clone()),
                marker_seq,
                condensed_until: compaction.map(|(_, compaction)| compaction.last_seq),
                kept_seqs: context.seqs.iter().filter(is_message).copied().collect(),
                transcript_messages: transcript.len(),
                tokens: context.tokens,
            })
        })
    }
}
