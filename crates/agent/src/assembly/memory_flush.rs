//! The hook that queues messages for memory when a compaction removes them from the context.
//! `SummarizationWorker` summarizes them later.

use async_trait::async_trait;
use compaction::{BeforeCompactionHook, HookVerdict, PendingCompaction};
use journal::Write;
use protocol::{AssistantId, ParentKind};
use runtime::StepFailure;

/// Queues the messages of a conversation that is compacted, in the same transaction as the compaction
/// boundary. The messages are therefore not lost if the process exits, and not queued for a compaction that
/// did not take effect (F8).
pub(super) struct MemoryFlush {
    /// The assistant that owns the messages. It is stored in the queue with them (F10).
    pub(super) assistant_id: AssistantId,
}

#[async_trait]
impl BeforeCompactionHook for MemoryFlush {
    fn name(&self) -> &str {
        "MemoryFlush"
    }

    async fn before_compaction(&self, pending: &PendingCompaction<'_>) -> Result<HookVerdict, StepFailure> {
        let thread = pending.store.thread(pending.thread_id).await?;
        // A sub-agent's thread is not queued: its result is in the thread that gave it the task.
        if thread.is_none_or(|thread| thread.parent_kind == Some(ParentKind::Subagent)) {
            return Ok(HookVerdict::Allow);
        }
        let item =
            memory::build_transfer_item(&**pending.store, &self.assistant_id, pending.thread_id, pending.now)
                .await?;
        Ok(HookVerdict::AllowWithWrites(vec![Write::PutOutboxItem(item)]))
    }
}
