//! Activities: named side effects that are decided with a step, performed after its commit, and safe to repeat.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::step::{Failure, Update};
use crate::stream::Frames;

/// A side effect outside the step's transaction. It may be performed again after a crash, and must then notice
/// what it has done already.
#[async_trait]
pub trait Activity: Send + Sync {
    /// Returns the name it is stored under.
    fn name(&self) -> &'static str;

    /// Does it, and returns what is to be recorded in the thread that asked for it.
    async fn perform(&self, args: &Value, frames: &Frames) -> Result<Update, Failure>;
}

/// The registered activities.
#[derive(Clone, Default)]
pub struct Activities {
    by_name: BTreeMap<&'static str, Arc<dyn Activity>>,
}

impl Activities {
    /// Adds an activity.
    #[must_use]
    pub fn with(mut self, activity: Arc<dyn Activity>) -> Self {
        self.by_name.insert(activity.name(), activity);
        self
    }

    /// Returns the activity of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Activity>> {
        self.by_name.get(name)
    }
}
