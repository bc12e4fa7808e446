//! What others have to say before a compaction takes effect: one may refuse it, or have rows written together with its
//! marker. What they keep or refuse it for is not known here.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use journal::{Store, Write};
use protocol::event::metadata::FailedHook;
use protocol::{Compaction, RunId, ThreadId};
use runtime::{Failure, Frame, RunScope};

/// How long one of them may take that does not say how long it takes; a conversation that does not fit waits for nobody longer.
const HOOK_TIME_MAX: Duration = Duration::from_secs(10);

/// A feature's say before a compaction takes effect (E18).
///
/// It is asked once, when the summary is there and nothing is stored yet, and only about a compaction that is stored if
/// nobody refuses it: not for a preview, nor for one that was stopped or would not help. One that fails or takes too long
/// has said nothing; that is told, and the compaction takes effect. One that is still at it when a person stops the
/// compaction is dropped.
#[async_trait]
pub trait BeforeCompaction: Send + Sync {
    /// Returns its name, for those who are told that it refused or failed.
    fn name(&self) -> &str;

    /// Returns how long it may take.
    fn time_max(&self) -> Duration {
        HOOK_TIME_MAX
    }

    /// Says what is to become of the compaction.
    async fn before_compaction(&self, due: &DueCompaction<'_>) -> Result<Ruling, Failure>;
}

/// A compaction that is about to take effect.
pub struct DueCompaction<'a> {
    /// The thread.
    pub thread_id: ThreadId,
    /// The run that condenses it.
    pub run_id: RunId,
    /// What the marker is to hold.
    pub compaction: &'a Compaction,
    /// For reading.
    pub store: &'a Arc<dyn Store>,
    /// The time the marker bears.
    pub now: Timestamp,
}

/// What is to become of a compaction.
#[derive(Debug)]
pub enum Ruling {
    /// It takes effect.
    Pass,
    /// It takes effect, and these rows are written in the same transaction.
    With(Vec<Write>),
    /// It does not: the conversation stays as it is.
    Veto {
        /// Why.
        reason: String,
    },
}

/// What they said together.
#[derive(Debug)]
pub(crate) enum Said {
    /// It takes effect.
    Effect(HookEffects),
    /// One of them refused it; those behind it were not asked.
    Vetoed { by: String, reason: String },
    /// A person stopped it while one of them had not answered.
    Stopped,
}

/// What the hooks of a compaction that takes effect left.
#[derive(Debug, Default)]
pub(crate) struct HookEffects {
    /// Rows that are written with it.
    pub writes: Vec<Write>,
    pub failed: Vec<FailedHook>,
}

/// Asks everyone in turn; the first who refuses has the last word, and nobody is waited for any longer once the scope
/// is cancelled.
pub(crate) async fn ask(
    hooks: &[Arc<dyn BeforeCompaction>],
    due: &DueCompaction<'_>,
    scope: RunScope<'_>,
) -> Said {
    let mut effects = HookEffects::default();
    for hook in hooks {
        let said = tokio::time::timeout(hook.time_max(), hook.before_compaction(due));
        let Some(said) = scope.cancel.run_until_cancelled(said).await else { return Said::Stopped };
        let reason = match said {
            Ok(Ok(Ruling::Pass)) => continue,
            Ok(Ok(Ruling::With(more))) => {
                effects.writes.extend(more);
                continue;
            }
            Ok(Ok(Ruling::Veto { reason })) => {
                return Said::Vetoed { by: hook.name().to_owned(), reason };
            }
            Ok(Err(failure)) => failure.message,
            Err(_) => format!("it took longer than {} seconds", hook.time_max().as_secs()),
        };
        let text = format!(
            "failed to let {} know that the conversation is condensed: {reason}; it is condensed all the same",
            hook.name()
        );
        scope.frames.send(Frame::Notice { text });
        effects.failed.push(FailedHook { hook: hook.name().to_owned(), reason });
    }
    Said::Effect(effects)
}
