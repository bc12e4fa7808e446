//! The bounds that a client's request sets for its run: breakpoints and a step limit.

use protocol::{FailureKind, RunFailure, RunId, RunRequest};
use runtime::{Breakpoints, Driver, NodeSet};

use crate::Result;
use crate::RunService;

/// The name that selects all nodes as breakpoints.
const EVERY_NODE: &str = "*";

/// Applies the bounds of the request to the driver. A client can lower the configured step limit but not raise
/// it.
///
/// # Errors
/// The failure with which the run ends, if a bound is invalid.
pub(super) fn apply_bounds(driver: &mut Driver, request: &RunRequest) -> std::result::Result<(), RunFailure> {
    if let Some(steps_max) = requested_steps_max(request)? {
        driver.limits.steps_max = driver.limits.steps_max.min(steps_max);
    }
    driver.breakpoints = Breakpoints {
        before: breakpoint_nodes(driver, &request.interrupt_before)?,
        after: breakpoint_nodes(driver, &request.interrupt_after)?,
    };
    Ok(())
}

/// Returns the requested step limit (`recursion_limit`); `None` if the request has none.
///
/// # Errors
/// A failure if the value is not a whole number of at least 1.
pub fn requested_steps_max(request: &RunRequest) -> std::result::Result<Option<u64>, RunFailure> {
    let Some(limit) = request.config.get("recursion_limit").filter(|limit| !limit.is_null()) else {
        return Ok(None);
    };
    let invalid_limit = || {
        RunFailure::new(
            FailureKind::Request,
            format!("`recursion_limit` must be a whole number of at least 1, not {limit}"),
        )
    };
    limit.as_u64().filter(|steps| *steps > 0).ok_or_else(invalid_limit).map(Some)
}

/// Returns the nodes with these names; `*` selects all nodes.
fn breakpoint_nodes(driver: &Driver, names: &[String]) -> std::result::Result<NodeSet, RunFailure> {
    if names.is_empty() {
        return Ok(NodeSet::None);
    }
    if names.iter().any(|name| name == EVERY_NODE) {
        return Ok(NodeSet::All);
    }
    if let Some(unknown) = names.iter().find(|name| driver.graph.get(name).is_none()) {
        let excerpt: String = unknown.chars().take(80).collect();
        return Err(RunFailure::new(
            FailureKind::Request,
            format!("there is no node `{excerpt}` to stop at"),
        ));
    }
    Ok(NodeSet::Named(names.iter().cloned().collect()))
}

impl RunService<'_> {
    /// Applies the bounds of a run's stored request to the driver that resumes the run after a crash.
    pub(crate) async fn reapply_bounds(self, driver: &mut Driver, run_id: RunId) -> Result<()> {
        if let Some((_, request)) = self.agent.store.run_requests(&[run_id]).await?.pop() {
            // Invalid bounds were already refused when the run started. A breakpoint can be invalid now only
            // if this process has no usable model: its graph then has fewer nodes. That is not an error.
            let _ = apply_bounds(driver, &request);
        }
        Ok(())
    }
}
