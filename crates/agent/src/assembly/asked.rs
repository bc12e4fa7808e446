//! What hooks of the user's have to say before a compaction takes effect. How one is called is the room `hooks`'.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use compaction::{BeforeCompaction, DueCompaction, Ruling};
use runtime::{Failure, FailureKind};
use user_hooks::{Answer, Due, Payload, UserHook};

/// A hook that is asked; it may refuse.
pub(super) struct Asked {
    pub(super) hook: Arc<UserHook>,
}

#[async_trait]
impl BeforeCompaction for Asked {
    fn name(&self) -> &str {
        self.hook.name()
    }

    fn time_max(&self) -> Duration {
        // Its own limit ends it, and says so better.
        self.hook.time_max() * 2
    }

    async fn before_compaction(&self, due: &DueCompaction<'_>) -> Result<Ruling, Failure> {
        let Some(thread) = due.store.thread(due.thread_id).await? else { return Ok(Ruling::Pass) };
        let about = Due { run_id: due.run_id, compaction: due.compaction, now: due.now };
        let payload = Payload::before_compaction(&thread, about);
        match self.hook.call(&payload).await {
            Ok(Answer::Heard) => Ok(Ruling::Pass),
            Ok(Answer::Veto { reason }) => Ok(Ruling::Veto { reason }),
            Err(failed) => {
                let name = self.hook.name();
                tracing::warn!(
                    hook = name, occasion = payload.hook.as_str(), thread_id = %due.thread_id, run_id = %due.run_id,
                    "failed to ask the hook `{name}` before the conversation is condensed: failed to {failed}; it is condensed all the same"
                );
                Err(Failure::new(FailureKind::Config, failed.to_string()))
            }
        }
    }
}
