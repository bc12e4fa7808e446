//! The tiers of memory: summarizes old messages into medium-term memory and removes summarized messages from a thread's
//! context.
//!
//! [`SummarizationHandoff`] makes one summary, [`SummarizationWorker`] decides which threads are due and works
//! through their queue, and [`TieredMemoryHook`] shows recent summaries to the model. No message is lost: the journal
//! keeps all of them, and recall and search find them.
//!
//! In the names of this module a *turn* is a row of the table `turn_log`: one plain message of the user or the model.
//! Tool calls and tool results are not logged there. The comments say "message".
//!
//! Deliberately absent: finding messages again (`recall`, `search`) and long-term memory (agent.md and the item store).

mod coverage;
mod error;
mod hook;
mod model_summary;
mod offline;
mod plan;
mod queue_item;
mod settings;
mod transfer;
mod turn_text;
mod window;
mod worker;

use futures::future::BoxFuture;
use std::sync::Arc;

use crate::AgentFile;
use jiff::Timestamp;
use journal::{OutboxItem, PAGE_ROWS_MAX, ProjectScope, Store, SummaryQuery, TurnQuery, Write};
use model::ChatModel;
use protocol::{AssistantId, LoggedMessage, MediumTermSummary, ThreadId};
use runtime::{FrameSender, RunScope};
use tokio_util::sync::CancellationToken;

pub use error::{NoSummaryReason, SummarizationError};
pub use hook::TieredMemoryHook;
pub use settings::{MemoryScope, MemorySettings};
pub use window::TurnWindow;
pub use worker::{SummarizationWorker, SummarizedTurns};

use queue_item::QueuedTurns;
use transfer::{SummaryWriter, TransferRequest, TurnDeparture};

/// The kind of outbox items that request the summarization of a thread's messages.
pub const TRANSFER_OUTBOX_KIND: &str = "transfer_turns";

/// Returns the agent.md of an assistant.
pub type AgentFileLookup = Arc<dyn Fn(&AssistantId) -> Arc<AgentFile> + Send + Sync>;

/// Summarizes logged messages into medium-term memory, and reads both.
pub struct SummarizationHandoff {
    /// The journal's store, with the messages and the summaries.
    pub store: Arc<dyn Store>,
    /// The model that writes the summaries. With `None`, they are offline summaries.
    pub summarizer: Option<Arc<dyn ChatModel>>,
    /// The settings, such as the length of a summary.
    pub settings: MemorySettings,
    /// The files that proposed facts are compared with and written to. With `None`, no facts are proposed.
    pub agent_md: Option<AgentFileLookup>,
}

impl SummarizationHandoff {
    /// Summarizes the messages of the window that have no summary yet, and archives exactly those. Returns `None` when
    /// there are none; no model is called then.
    ///
    /// A model gets only messages of the user and the assistant, with at most 1,500 characters of each. It is called at
    /// most 32 times, each time with the summary so far. A window that needs more calls is refused and must be given in
    /// parts. An offline summary can cover any number of messages.
    ///
    /// The summary and the archival are one transaction, and the model is called before it. Archived messages leave
    /// the contexts of their threads, so none of the threads may have an active run or a pending decision. If another
    /// process changes the messages meanwhile, the transfer is repeated, up to 16 times.
    ///
    /// Dropping the future stores nothing.
    ///
    /// # Errors
    /// When no summary could be made or stored. Nothing is stored then.
    pub fn transfer<'a>(
        &'a self,
        agent_id: &'a AssistantId,
        turn_window: &'a TurnWindow,
    ) -> BoxFuture<'a, Result<Option<MediumTermSummary>, SummarizationError>> {
        journal::box_future(async move {
            let request = TransferRequest {
                agent_id,
                window: turn_window,
                departure: TurnDeparture::Request,
                writer: SummaryWriter::Model,
                expected_thread: None,
                completion_write: None,
            };
            let (frames, cancel) = (&FrameSender::default(), &CancellationToken::new());
            let transferred = self.execute_transfer(&request, RunScope { frames, cancel }).await?;
            Ok(transferred.map(|transferred| transferred.summary))
        })
    }

    /// Returns the newest summaries of the agent's messages in all projects, newest first. Among summaries of the same time, the one
    /// with the higher id comes first. Returns at most 5,000, and none for a limit of 0.
    ///
    /// # Errors
    /// When the journal fails.
    pub fn retrieve_recent_summaries<'a>(
        &'a self,
        agent_id: &'a AssistantId,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<MediumTermSummary>, SummarizationError>> {
        journal::box_future(async move {
            let limit = limit.min(PAGE_ROWS_MAX);
            if limit == 0 {
                return Ok(Vec::new());
            }
            let query = SummaryQuery {
                agent_id: agent_id.clone(),
                project: ProjectScope::Any,
                except_thread: None,
                offset: 0,
                limit,
            };
            let stored = self.store.summaries(query).await?;
            Ok(stored.into_iter().map(|stored| stored.summary).collect())
        })
    }

    /// Returns the logged messages of a thread in order, including archived ones. The page begins after the index
    /// `after` and has at most 5,000 messages. A thread that does not exist has none.
    ///
    /// # Errors
    /// When the journal fails.
    pub fn get_task_trace<'a>(
        &'a self,
        thread_id: ThreadId,
        after: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<LoggedMessage>, SummarizationError>> {
        journal::box_future(async move {
            let limit = limit.min(PAGE_ROWS_MAX);
            let Some(thread) = self.store.thread(thread_id).await?.filter(|_| limit > 0) else {
                return Ok(Vec::new());
            };
            let first = after.map_or(0, |after| after.saturating_add(1));
            let query = TurnQuery {
                thread_id: Some(thread_id),
                first,
                limit,
                ..TurnQuery::for_agent(thread.assistant_id)
            };
            Ok(self.store.turns(query).await?)
        })
    }
}

/// Returns the outbox item that requests the summarization of a thread's compacted messages. It replaces an item that
/// is queued already, and takes over its unstored summary and its failure count.
///
/// The item names the agent that the messages belong to, because a process of any agent may work on it later.
///
/// # Errors
/// When the journal fails.
pub fn build_transfer_item<'a>(
    store: &'a dyn Store,
    agent_id: &'a AssistantId,
    thread_id: ThreadId,
    now: Timestamp,
) -> BoxFuture<'a, journal::Result<OutboxItem>> {
    journal::box_future(async move {
        let due = QueuedTurns { agent_id: agent_id.clone(), thread_id, budget: None, draft: None };
        let queued = worker::find_queued(store, &due.queue_key()).await?;
        Ok(due.into_item_replacing(queued, now))
    })
}

/// Returns the writes that remove all items of the thread from the queue, including unstored summaries, which quote the
/// thread's messages. Commit them together with the deletion of the thread.
pub fn dequeue_writes(thread_id: ThreadId) -> Vec<Write> {
    let dequeue =
        |key| Write::RemoveOutboxItem { kind: TRANSFER_OUTBOX_KIND.to_owned(), key, created_at: None };
    queue_item::queue_keys(thread_id).map(dequeue).into()
}
