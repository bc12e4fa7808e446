//! Indexes imported messages while the import goes on, so that the first search after an import does not have to index
//! all of it before it answers.

use std::sync::Arc;

use journal::Store;
use tokio::task::JoinHandle;

use crate::agent::Agent;

/// Updates of the search index in the background. At most one runs at a time.
///
/// A failed update does not fail the import, because what was imported is stored, and the next search indexes the rest.
pub(super) struct BackgroundIndexing {
    /// The journal; `None` for a scratch journal, which is not searched.
    store: Option<Arc<dyn Store>>,
    /// The update that was started last.
    running: Option<JoinHandle<()>>,
}

impl BackgroundIndexing {
    /// Returns the indexing for the journal of an agent. Starts nothing yet.
    pub(super) fn new(agent: &Agent) -> Self {
        let store = agent.scratch_of.is_none().then(|| Arc::clone(&agent.store));
        Self { store, running: None }
    }

    /// Starts an update, unless one is running. Does not wait for it.
    pub(super) fn start_update(&mut self) {
        let Some(store) = &self.store else { return };
        if self.running.as_ref().is_none_or(JoinHandle::is_finished) {
            let store = Arc::clone(store);
            self.running = Some(tokio::spawn(async move { update_index(&*store).await }));
        }
    }

    /// Waits for the running update, and indexes everything that was stored since it began.
    pub(super) async fn finish(self) {
        if let Some(running) = self.running {
            // The join fails only if the update panicked. What it left is indexed below.
            let _ = running.await;
        }
        if let Some(store) = &self.store {
            update_index(&**store).await;
        }
    }
}

/// Indexes everything that is stored. A failure is logged.
async fn update_index(store: &dyn Store) {
    if let Err(error) = store.update_search_index().await {
        tracing::warn!(%error, "failed to index imported messages; the next search tries again");
    }
}
