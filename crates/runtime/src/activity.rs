//! Activities: named side effects that a step decides on, performed after the step's commit and safe to repeat.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::step::{GraphUpdate, StepFailure};
use crate::stream::FrameSender;

/// A side effect outside the journal's transaction, for example writing a file. The checkpoint lists it from the
/// step that decided on it until it is confirmed. After a crash it may be performed again, so an implementation
/// must detect what an earlier attempt has already done.
#[async_trait]
pub trait Activity: Send + Sync {
    /// Returns the name under which checkpoints list the activity.
    fn name(&self) -> &'static str;

    /// Performs the activity and returns the changes to record in the thread that requested it. They are
    /// committed together with the confirmation.
    ///
    /// # Errors
    /// Returns a [`StepFailure`] when the activity could not be performed. The failure ends the run; the
    /// checkpoint still lists the activity, so the next run performs it again.
    async fn perform(&self, args: &Value, frames: &FrameSender) -> Result<GraphUpdate, StepFailure>;
}

/// The activities that nodes of a graph can request, by name.
#[derive(Clone, Default)]
pub struct ActivityRegistry {
    by_name: BTreeMap<&'static str, Arc<dyn Activity>>,
}

impl ActivityRegistry {
    /// Adds an activity. An activity of the same name is replaced.
    #[must_use]
    pub fn with_activity(mut self, activity: Arc<dyn Activity>) -> Self {
        self.by_name.insert(activity.name(), activity);
        self
    }

    /// Returns the activity of that name, if it is registered.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Activity>> {
        self.by_name.get(name)
    }
}
