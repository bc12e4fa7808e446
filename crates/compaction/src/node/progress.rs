//! Progress frames for subscribers of a run: that a compaction has started, and how it ended.
//!
//! The frames are not stored. The event of a compaction informs later readers.

use protocol::CompactionTrigger;
use runtime::{Frame, FrameSender};
use serde_json::json;

use crate::plan::CompactionPlan;

/// The name of the custom frames.
const COMPACTING_FRAME: &str = "compacting";

/// The end of a compaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CompactionOutcome {
    /// The compaction is complete and will be committed.
    Compacted,
    /// The user stopped it.
    Stopped,
    /// It failed or did not help, for this reason.
    Failed(String),
}

/// A guard that announces the start of a compaction, and announces its end when it is dropped. The end is announced
/// in any case, also after an early return, so that no subscriber waits for it forever.
#[derive(Debug)]
pub(super) struct ProgressGuard<'a> {
    /// The sender of the frames; `None` when only tool results are clipped, which is not announced.
    frames: Option<&'a FrameSender>,
    /// The trigger of the compaction.
    trigger: CompactionTrigger,
    /// The outcome to announce.
    outcome: CompactionOutcome,
}

impl<'a> ProgressGuard<'a> {
    /// Announces the start and returns the guard. Until an outcome is set, the outcome is a failure.
    pub(super) fn start(frames: &'a FrameSender, plan: &CompactionPlan, trigger: CompactionTrigger) -> Self {
        if let Some(cut) = &plan.cut {
            let value = json!({
                "state": "began",
                "trigger": trigger,
                "replaced_count": cut.replaced_count,
                "last_seq": cut.last_seq,
                "tokens_before": plan.accounting.reported_tokens(plan.accounting.request_tokens),
            });
            frames.send(Frame::Custom { name: COMPACTING_FRAME.to_owned(), value });
        }
        let frames = plan.cut.is_some().then_some(frames);
        Self { frames, trigger, outcome: CompactionOutcome::Failed("it was interrupted".to_owned()) }
    }

    /// Sets the outcome to announce.
    pub(super) fn set_outcome(&mut self, outcome: CompactionOutcome) {
        self.outcome = outcome;
    }
}

impl Drop for ProgressGuard<'_> {
    fn drop(&mut self) {
        let (Some(frames), trigger) = (self.frames, self.trigger) else { return };
        let value = match &self.outcome {
            CompactionOutcome::Compacted => json!({"state": "condensed", "trigger": trigger}),
            CompactionOutcome::Stopped => json!({"state": "stopped", "trigger": trigger}),
            CompactionOutcome::Failed(reason) => {
                json!({"state": "failed", "trigger": trigger, "reason": reason})
            }
        };
        frames.send(Frame::Custom { name: COMPACTING_FRAME.to_owned(), value });
    }
}
