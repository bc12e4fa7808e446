//! What memory has to say before a compaction takes effect: that the turns it condenses are to be kept. The turns are
//! summarised later, by whoever settles what is due.

use async_trait::async_trait;
use compaction::{BeforeCompaction, DueCompaction, Ruling};
use journal::Write;
use protocol::{AssistantId, ParentKind};
use runtime::Failure;

/// Queues the turns of a conversation that is condensed, in the same transaction as the marker: they are neither lost
/// with the process nor queued for a compaction that never was (F8).
pub(super) struct MemoryFlush {
    /// Whose turns they are; it goes into the queue with them (F10).
    pub(super) assistant_id: AssistantId,
}

#[async_trait]
impl BeforeCompaction for MemoryFlush {
    fn name(&self) -> &str {
        "MemoryFlush"
    }

    async fn before_compaction(&self, due: &DueCompaction<'_>) -> Result<Ruling, Failure> {
        let thread = due.store.thread(due.thread_id).await?;
        // What a sub-agent did is told by its result, in the thread that asked for it.
        if thread.is_none_or(|thread| thread.parent_kind == Some(ParentKind::Subagent)) {
            return Ok(Ruling::Pass);
        }
        let item = memory::transfer_due(&**due.store, &self.assistant_id, due.thread_id, due.now).await?;
        Ok(Ruling::With(vec![Write::Enqueue(item)]))
    }
}
