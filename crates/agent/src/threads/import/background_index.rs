//! Indexes imported messages while the import goes on, and reports the progress of the rest.

use std::time::Duration;

use protocol::OwnerScope;
use runtime::{Frame, RunScope};
use tokio::time::{MissedTickBehavior, interval};

use crate::agent::Agent;

/// Interval between two reports of the progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// Starts to index what the agent's journal has stored. Does not wait for it. A scratch journal is not searched, so it is
/// not indexed.
pub(super) fn start_indexing(agent: &Agent) {
    if agent.scratch_of.is_none() {
        agent.store.start_index_update();
    }
}

/// Indexes everything that the agent's journal has stored, and reports the progress as a share of `bytes`, the bytes that
/// were imported. Stops when it is cancelled; the next search continues.
///
/// A failure is logged and does not fail the import, because what was imported is stored.
pub(super) async fn finish_indexing(agent: &Agent, bytes: u64, scope: RunScope<'_>) {
    if agent.scratch_of.is_some() {
        return;
    }
    let update = agent.store.update_search_index();
    tokio::pin!(update);
    let mut ticks = interval(PROGRESS_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut total = None;
    loop {
        tokio::select! {
            biased;
            result = &mut update => {
                if let Err(error) = result {
                    tracing::warn!(%error, "failed to index imported messages; the next search tries again");
                }
                return;
            }
            () = scope.cancel.cancelled() => return,
            _ = ticks.tick() => {
                // The progress is only displayed. The update reports the failure of the journal.
                let Ok(backlog) = agent.store.index_backlog(&OwnerScope::Everyone).await else { continue };
                let total = *total.get_or_insert(backlog.messages.max(1));
                let missing = bytes * backlog.messages.min(total) / total;
                let what = "index".to_owned();
                scope.frames.send(Frame::Progress { what, done: bytes - missing, total: Some(bytes) });
            }
        }
    }
}
