//! User hooks that run before a compaction takes effect and may veto it. The crate `user_hooks` calls the
//! command or webhook.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use compaction::{BeforeCompactionHook, HookVerdict, PendingCompaction};
use runtime::{FailureKind, StepFailure};
use user_hooks::{AnnouncedCompaction, HookAnswer, HookPayload, UserHook};

/// A configured `compaction.before` hook as a hook of the compaction node.
pub(super) struct VetoHook {
    /// The configured hook.
    pub(super) hook: Arc<UserHook>,
}

#[async_trait]
impl BeforeCompactionHook for VetoHook {
    fn name(&self) -> &str {
        self.hook.name()
    }

    fn timeout(&self) -> Duration {
        // The hook's own timeout is shorter, so that it ends the call first with a more specific message.
        self.hook.timeout() * 2
    }

    async fn before_compaction(&self, pending: &PendingCompaction<'_>) -> Result<HookVerdict, StepFailure> {
        let Some(thread) = pending.store.thread(pending.thread_id).await? else {
            return Ok(HookVerdict::Allow);
        };
        let announced =
            AnnouncedCompaction { run_id: pending.run_id, compaction: pending.compaction, now: pending.now };
        let payload = HookPayload::before_compaction(&thread, announced);
        match self.hook.call_hook(&payload).await {
            Ok(HookAnswer::Acknowledged) => Ok(HookVerdict::Allow),
            Ok(HookAnswer::Veto { reason }) => Ok(HookVerdict::Veto { reason }),
            Err(error) => {
                let name = self.hook.name();
                tracing::warn!(
                    hook = name, occasion = payload.hook.as_str(), thread_id = %pending.thread_id, run_id = %pending.run_id,
                    "failed to call the hook `{name}` before a compaction: failed to {error}; the conversation is compacted anyway"
                );
                Err(StepFailure::new(FailureKind::Config, error.to_string()))
            }
        }
    }
}
