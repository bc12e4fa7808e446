//! Hooks that run before a compaction is committed. A hook can veto the compaction, or add writes to its transaction.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use journal::{Store, Write};
use protocol::event::metadata::FailedHook;
use protocol::{Compaction, RunId, ThreadId};
use runtime::{Frame, RunScope, StepFailure};

/// The timeout of a hook that does not set its own. It is short because a conversation that does not fit cannot
/// continue before it has been compacted.
const DEFAULT_HOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// A hook that runs before a compaction is committed (E18).
///
/// The hook is called once for each compaction, after the summary is complete and before anything is stored. It is not
/// called for a preview, for a compaction that was stopped, or for one that would not shrink the request.
///
/// A failure or a timeout does not count as a veto: it is reported and recorded, and the compaction continues. When a
/// person stops the compaction, the future of the running hook is dropped, so an implementation must be cancellation
/// safe.
#[async_trait]
pub trait BeforeCompactionHook: Send + Sync {
    /// Returns the name of the hook, for messages about a veto or a failure.
    fn name(&self) -> &str;

    /// Returns the timeout of the hook.
    fn timeout(&self) -> Duration {
        DEFAULT_HOOK_TIMEOUT
    }

    /// Decides about the compaction.
    ///
    /// # Errors
    ///
    /// Any failure of the hook. The compaction continues nevertheless.
    async fn before_compaction(&self, pending: &PendingCompaction<'_>) -> Result<HookVerdict, StepFailure>;
}

/// A compaction that is ready to be committed.
pub struct PendingCompaction<'a> {
    /// The thread that is compacted.
    pub thread_id: ThreadId,
    /// The run that compacts it.
    pub run_id: RunId,
    /// The content of the `middleware:summarize` event to be committed.
    pub compaction: &'a Compaction,
    /// The store, for reading.
    pub store: &'a Arc<dyn Store>,
    /// The time of the event.
    pub now: Timestamp,
}

/// The decision of a hook.
#[derive(Debug)]
pub enum HookVerdict {
    /// Commit the compaction.
    Allow,
    /// Commit the compaction together with these writes.
    AllowWithWrites(Vec<Write>),
    /// Do not commit the compaction; the context does not change.
    Veto {
        /// The reason, shown to the user.
        reason: String,
    },
}

/// The combined decision of all hooks.
#[derive(Debug)]
pub(crate) enum CombinedVerdict {
    /// No hook vetoed.
    Allowed(HookEffects),
    /// A hook vetoed. The hooks after it were not called.
    Vetoed {
        /// The name of the hook.
        by: String,
        /// The reason, shown to the user.
        reason: String,
    },
    /// The user stopped the compaction while a hook was running.
    Stopped,
}

/// The effects of the hooks that allowed a compaction.
#[derive(Debug, Default)]
pub(crate) struct HookEffects {
    /// The writes to commit with the compaction.
    pub writes: Vec<Write>,
    /// The hooks that failed or timed out.
    pub failed_hooks: Vec<FailedHook>,
}

/// Calls the hooks in order until one vetoes. Cancelling the scope drops the running hook and returns
/// [`CombinedVerdict::Stopped`] immediately.
pub(crate) async fn run_before_hooks(
    hooks: &[Arc<dyn BeforeCompactionHook>],
    pending: &PendingCompaction<'_>,
    scope: RunScope<'_>,
) -> CombinedVerdict {
    let mut effects = HookEffects::default();
    for hook in hooks {
        let call = tokio::time::timeout(hook.timeout(), hook.before_compaction(pending));
        let Some(outcome) = scope.cancel.run_until_cancelled(call).await else {
            return CombinedVerdict::Stopped;
        };
        let reason = match outcome {
            Ok(Ok(HookVerdict::Allow)) => continue,
            Ok(Ok(HookVerdict::AllowWithWrites(writes))) => {
                effects.writes.extend(writes);
                continue;
            }
            Ok(Ok(HookVerdict::Veto { reason })) => {
                return CombinedVerdict::Vetoed { by: hook.name().to_owned(), reason };
            }
            Ok(Err(failure)) => failure.message,
            Err(_) => format!("it took longer than {} seconds", hook.timeout().as_secs()),
        };
        let text = format!(
            "failed to run the hook {} before the compaction: {reason}; the compaction continues",
            hook.name()
        );
        scope.frames.send(Frame::Notice { text });
        effects.failed_hooks.push(FailedHook { hook: hook.name().to_owned(), reason });
    }
    CombinedVerdict::Allowed(effects)
}
