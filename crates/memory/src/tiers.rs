//! The tiers of memory: old turns become summaries of medium-term memory, and a thread's context loses what a summary
//! stands for. Finding things again is search's matter, and what is kept for good agent.md's and the store's.
//!
//! [`SummarizationHandoff`] makes one summary, [`Tiering`] decides what is due and works through the queue of it, and
//! [`TieredMemoryHook`] shows a model the recent ones. Nothing is lost by any of it: the turns stay in the journal.

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

use std::sync::Arc;

use jiff::Timestamp;
use journal::{OutboxItem, PAGE_ROWS_MAX, Store, SummaryQuery, TurnQuery, Write};
use model::ChatModel;
use protocol::{AssistantId, LoggedMessage, MediumTermSummary, ThreadId};
use runtime::{FrameSender, RunScope};
use tokio_util::sync::CancellationToken;

pub use error::{NoSummaryReason, SummarizationError};
pub use hook::TieredMemoryHook;
pub use settings::MemorySettings;
pub use window::TurnWindow;
pub use worker::{SummarizationWorker, SummarizedTurns};

use queue_item::QueuedTurns;
use transfer::{SummaryWriter, TransferRequest, TurnDeparture};

/// The kind of the items in the outbox that say a thread has turns to transfer.
pub const TRANSFER_OUTBOX_KIND: &str = "transfer_turns";

/// The name of the deterministic extract in the place of a model's.
const OFFLINE_MODEL_NAME: &str = "extractive";

/// Makes summaries of medium-term memory out of turns, and reads both.
pub struct SummarizationHandoff {
    /// Where they are.
    pub store: Arc<dyn Store>,
    /// The model that writes the summaries; without one they are extracted.
    pub summarizer: Option<Arc<dyn ChatModel>>,
    /// How long they are, and the like.
    pub settings: MemorySettings,
}

impl SummarizationHandoff {
    /// Summarises the turns of the window that no summary stands for, and archives exactly those; `None` when there are
    /// none, without a call of a model.
    ///
    /// A model is shown a user's and an assistant's words only, 1,500 characters of each turn at most, in at most 32
    /// calls, each with the summary so far; a window that takes more is refused, and is to be given in parts. The extract
    /// takes any. The summary and the archival are one transaction. The turns leave the contexts of their threads, so
    /// that none of them may have an active run or wait for a decision.
    ///
    /// # Errors
    /// When there is no summary, and why; nothing is stored then.
    pub async fn transfer(
        &self,
        agent_id: &AssistantId,
        turn_window: &TurnWindow,
    ) -> Result<Option<MediumTermSummary>, SummarizationError> {
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
    }

    /// Returns the newest summaries of the agent's turns, the newest first and of those stored at the same time the one
    /// with the higher id first; never more than 5,000, and none for a limit of 0.
    pub async fn retrieve_recent_summaries(
        &self,
        agent_id: &AssistantId,
        limit: usize,
    ) -> Result<Vec<MediumTermSummary>, SummarizationError> {
        let limit = limit.min(PAGE_ROWS_MAX);
        if limit == 0 {
            return Ok(Vec::new());
        }
        let query = SummaryQuery { agent_id: agent_id.clone(), except_thread: None, offset: 0, limit };
        let stored = self.store.summaries(query).await?;
        Ok(stored.into_iter().map(|stored| stored.summary).collect())
    }

    /// Returns the turns of a thread in order, archived ones too: the first ones behind the index `after`, never more than
    /// 5,000. A thread that does not exist has none.
    pub async fn get_task_trace(
        &self,
        thread_id: ThreadId,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<LoggedMessage>, SummarizationError> {
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
    }
}

/// Returns the item that says that turns of the thread were condensed, and are to be kept, in the place of one that waits
/// already. Whose they are is said in it: who works on the item later does not decide that.
pub async fn build_transfer_item(
    store: &dyn Store,
    agent_id: &AssistantId,
    thread_id: ThreadId,
    now: Timestamp,
) -> journal::Result<OutboxItem> {
    let due = QueuedTurns { agent_id: agent_id.clone(), thread_id, budget: None, draft: None };
    let queued = worker::find_queued(store, &due.queue_key()).await?;
    Ok(due.into_item_replacing(queued, now))
}

/// Returns the writes that take everything of the thread out of the queue, a summary that waits there with its words too.
/// They go with the thread's deletion.
pub fn dequeue_writes(thread_id: ThreadId) -> Vec<Write> {
    let dequeue =
        |key| Write::RemoveOutboxItem { kind: TRANSFER_OUTBOX_KIND.to_owned(), key, created_at: None };
    queue_item::queue_keys(thread_id).map(dequeue).into()
}
