//! Queries about threads: counts, pages of events, artifacts, tokens, feedback and channels. All of them fail
//! only if the journal does.

use futures::future::BoxFuture;
use std::collections::BTreeMap;

use journal::{Artifact, EventQuery, ThreadFilter};
use protocol::{Event, RunFeedback, RunId, RunRef, Seq, ThreadId};
use runtime::Channels;

use crate::Result;
use crate::ThreadService;
use crate::threads::states::client_channels;

impl<'a> ThreadService<'a> {
    /// Returns the number of threads that match the filter, ignoring its page. Counting stops at `maximum`, because
    /// its time grows with the number of threads.
    ///
    /// # Errors
    /// Fails only if the journal does, as all queries here.
    pub fn count(self, filter: ThreadFilter, maximum: Option<u64>) -> BoxFuture<'a, Result<u64>> {
        journal::box_future(async move { Ok(self.agent.store.thread_count(filter, maximum).await?) })
    }

    /// Returns a page of the thread's events; an unknown thread has none.
    pub fn events_page(self, thread_id: ThreadId, query: EventQuery) -> BoxFuture<'a, Result<Vec<Event>>> {
        journal::box_future(async move { Ok(self.agent.store.events(thread_id, query).await?) })
    }

    /// Returns a page of the events of a run, from the first one after `after`; an unknown run has none.
    pub fn run_events(self, run: RunRef, after: Seq, limit: usize) -> BoxFuture<'a, Result<Vec<Event>>> {
        Box::pin(
            async move { Ok(self.agent.store.run_events(run.thread_id, run.run_id, after, limit).await?) },
        )
    }

    /// Returns the artifact of the thread whose hash begins with `sha256`; `None` if there is none.
    pub fn artifact(self, thread_id: ThreadId, sha256: &'a str) -> BoxFuture<'a, Result<Option<Artifact>>> {
        journal::box_future(async move { Ok(self.agent.store.artifact(thread_id, sha256).await?) })
    }

    /// Returns the total tokens of the runs of each thread. Threads without runs are left out.
    pub fn run_tokens(self, thread_ids: &'a [ThreadId]) -> BoxFuture<'a, Result<BTreeMap<ThreadId, u64>>> {
        journal::box_future(async move {
            Ok(self.agent.store.thread_tokens(thread_ids).await?.into_iter().collect())
        })
    }

    /// Returns this person's feedback on the run; `None` if there is none.
    pub fn feedback(self, thread_id: ThreadId, run_id: RunId) -> BoxFuture<'a, Result<Option<RunFeedback>>> {
        journal::box_future(async move {
            Ok(self.agent.store.feedback(thread_id, &[run_id], self.agent.feedback_user()).await?.pop())
        })
    }

    /// Returns the channels of the thread's current checkpoint that clients may see.
    pub fn head_channels(self, thread_id: ThreadId) -> BoxFuture<'a, Result<Channels>> {
        journal::box_future(async move {
            let head = self.agent.store.checkpoint(thread_id).await?;
            Ok(head.map(|head| client_channels(&head.channels)).unwrap_or_default())
        })
    }
}
