//! Queries about threads: counts, pages of events, artifacts, tokens, feedback and channels. All of them fail
//! only if the journal does.

use std::collections::BTreeMap;

use journal::{Artifact, EventQuery, ThreadFilter};
use protocol::{Event, RunFeedback, RunId, RunRef, Seq, ThreadId};
use runtime::Channels;

use crate::Result;
use crate::agent::services::ThreadService;
use crate::states::client_channels;

impl ThreadService<'_> {
    /// Returns the number of threads that match the filter, ignoring its page.
    ///
    /// # Errors
    /// Fails only if the journal does, as all queries here.
    pub async fn count(self, filter: ThreadFilter) -> Result<u64> {
        Ok(self.agent.store.thread_count(filter).await?)
    }

    /// Returns a page of the thread's events; an unknown thread has none.
    pub async fn events_page(self, thread_id: ThreadId, query: EventQuery) -> Result<Vec<Event>> {
        Ok(self.agent.store.events(thread_id, query).await?)
    }

    /// Returns a page of the events of a run, from the first one after `after`; an unknown run has none.
    pub async fn run_events(self, run: RunRef, after: Seq, limit: usize) -> Result<Vec<Event>> {
        Ok(self.agent.store.run_events(run.thread_id, run.run_id, after, limit).await?)
    }

    /// Returns the artifact of the thread whose hash begins with `sha256`; `None` if there is none.
    pub async fn artifact(self, thread_id: ThreadId, sha256: &str) -> Result<Option<Artifact>> {
        Ok(self.agent.store.artifact(thread_id, sha256).await?)
    }

    /// Returns the total tokens of the runs of each thread. Threads without runs are left out.
    pub async fn run_tokens(self, thread_ids: &[ThreadId]) -> Result<BTreeMap<ThreadId, u64>> {
        Ok(self.agent.store.thread_tokens(thread_ids).await?.into_iter().collect())
    }

    /// Returns this person's feedback on the run; `None` if there is none.
    pub async fn feedback(self, thread_id: ThreadId, run_id: RunId) -> Result<Option<RunFeedback>> {
        Ok(self.agent.store.feedback(thread_id, &[run_id], self.agent.feedback_user()).await?.pop())
    }

    /// Returns the channels of the thread's current checkpoint that clients may see.
    pub async fn head_channels(self, thread_id: ThreadId) -> Result<Channels> {
        let head = self.agent.store.checkpoint(thread_id).await?;
        Ok(head.map(|head| client_channels(&head.channels)).unwrap_or_default())
    }
}
