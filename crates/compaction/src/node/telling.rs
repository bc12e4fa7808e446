//! Telling whoever looks on that a conversation is being condensed, and what came of it. What is stored of it tells by itself;
//! this is for the time until then.

use protocol::CompactionTrigger;
use runtime::{Frame, Frames};
use serde_json::json;

use crate::plan::Plan;

/// The name of the frames.
const COMPACTING: &str = "compacting";

/// What came of a compaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is about to be stored.
    Condensed,
    Stopped,
    /// It came to nothing: why.
    Failed(String),
}

/// A compaction that was told to have begun. Its end is told when this is dropped, so that nobody waits for it in vain.
#[derive(Debug)]
pub(super) struct Telling<'a> {
    /// Where it is told; nowhere where only results of tools are clipped.
    frames: Option<&'a Frames>,
    trigger: CompactionTrigger,
    outcome: Outcome,
}

impl<'a> Telling<'a> {
    /// Tells that it begins.
    pub(super) fn begin(frames: &'a Frames, plan: &Plan, trigger: CompactionTrigger) -> Self {
        if let Some(cut) = &plan.cut {
            let value = json!({
                "state": "began",
                "trigger": trigger,
                "replaced_count": cut.replaced,
                "last_seq": cut.last_seq,
                "tokens_before": plan.sizes.told(plan.sizes.request),
            });
            frames.send(Frame::Custom { name: COMPACTING.to_owned(), value });
        }
        let frames = plan.cut.is_some().then_some(frames);
        Self { frames, trigger, outcome: Outcome::Failed("it broke off".to_owned()) }
    }

    /// Notes what came of it.
    pub(super) fn came(&mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        let (Some(frames), trigger) = (self.frames, self.trigger) else { return };
        let value = match &self.outcome {
            Outcome::Condensed => json!({"state": "condensed", "trigger": trigger}),
            Outcome::Stopped => json!({"state": "stopped", "trigger": trigger}),
            Outcome::Failed(reason) => json!({"state": "failed", "trigger": trigger, "reason": reason}),
        };
        frames.send(Frame::Custom { name: COMPACTING.to_owned(), value });
    }
}
