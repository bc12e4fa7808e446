//! What a client's request bounds its run by: where to stop and look, and how many steps it may take.

use protocol::{FailureKind, RunFailure};
use protocol::{RunId, RunRequest};
use runtime::{Breakpoints, Driver, Nodes};

use crate::Result;
use crate::agent::services::RunService;

/// The name that means every node.
const EVERY_NODE: &str = "*";

/// Bounds the runs of `driver` as the request says. A client may lower the limit of steps, never raise it.
///
/// # Errors
/// The fault with which the run ends.
pub(super) fn bind(driver: &mut Driver, request: &RunRequest) -> std::result::Result<(), RunFailure> {
    if let Some(steps_max) = steps_max(request)? {
        driver.limits.steps_max = driver.limits.steps_max.min(steps_max);
    }
    driver.breakpoints = Breakpoints {
        before: nodes(driver, &request.interrupt_before)?,
        after: nodes(driver, &request.interrupt_after)?,
    };
    Ok(())
}

/// Returns how many steps the client allows; `None` where it does not say.
///
/// # Errors
/// When that is no number of steps.
pub fn steps_max(request: &RunRequest) -> std::result::Result<Option<u64>, RunFailure> {
    let Some(limit) = request.config.get("recursion_limit").filter(|limit| !limit.is_null()) else {
        return Ok(None);
    };
    let wrong = || {
        RunFailure::new(
            FailureKind::Request,
            format!("`recursion_limit` is a number of at least 1, not {limit}"),
        )
    };
    limit.as_u64().filter(|steps| *steps > 0).ok_or_else(wrong).map(Some)
}

fn nodes(driver: &Driver, names: &[String]) -> std::result::Result<Nodes, RunFailure> {
    if names.is_empty() {
        return Ok(Nodes::None);
    }
    if names.iter().any(|name| name == EVERY_NODE) {
        return Ok(Nodes::All);
    }
    if let Some(unknown) = names.iter().find(|name| driver.graph.get(name).is_none()) {
        let shown: String = unknown.chars().take(80).collect();
        return Err(RunFailure::new(FailureKind::Request, format!("there is no node `{shown}` to stop at")));
    }
    Ok(Nodes::These(names.iter().cloned().collect()))
}

impl RunService<'_> {
    /// Bounds the runs of `driver` as the stored request of a run says that goes on after a crash.
    pub(crate) async fn bind_again(self, driver: &mut Driver, run_id: RunId) -> Result<()> {
        if let Some((_, request)) = self.agent.store.run_requests(&[run_id]).await?.pop() {
            // What could not be met was refused when the run began; a graph without a model has fewer nodes.
            let _ = bind(driver, &request);
        }
        Ok(())
    }
}
