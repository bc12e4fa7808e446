//! The worker of the tiers: queues threads that have messages to summarize, and works through the queue.
//!
//! The process may be killed at any time. A queue item is removed in the transaction of its last transfer, and messages
//! that were transferred before are archived and so are not transferred again.
//!
//! Deliberately absent: the decision which messages leave (`plan`), and one transfer (`transfer`).

use futures::future::BoxFuture;
use std::sync::Arc;

use jiff::Timestamp;
use journal::{OutboxItem, OutboxQuery, PAGE_ROWS_MAX, Store, ThreadVersion, Transaction, Write};
use protocol::{ArchiveReason, ParentKind, SummaryId, Thread, ThreadId};
use runtime::{ContextCache, Frame, FrameSender, RunScope};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::error::SummarizationError;
use super::plan::{TransferProgress, TransferStep};
use super::queue_item::{QueuedTurns, ShortTermBudget, UnstoredSummary};
use super::transfer::{
    ATTEMPTS_MAX, StoredTransfer, SummaryWriter, TransferOutcome, TransferRequest, TransferState,
    TurnDeparture, model_call_events,
};
use super::{SummarizationHandoff, TRANSFER_OUTBOX_KIND};

/// Number of failures of the model on one queue item after which offline summaries are made instead.
const FAILURES_MAX: u32 = 3;

/// Queues threads with due messages and summarizes them.
#[derive(Clone)]
pub struct SummarizationWorker {
    /// Makes and stores the summaries.
    pub summarization: Arc<SummarizationHandoff>,
    /// A cache of recently used contexts. Updating a cached context reads only new events.
    pub contexts: Arc<ContextCache>,
    /// `provider/name` of the model that the threads are sent to. Its calibration corrects token estimates.
    pub model: String,
    /// The model's context window in tokens, if known.
    pub window: Option<u64>,
}

/// A completed transfer: messages that a stored summary covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SummarizedTurns {
    /// The thread of the messages.
    pub thread_id: ThreadId,
    /// The summary.
    pub summary_id: SummaryId,
    /// The reason for the transfer.
    pub reason: ArchiveReason,
    /// Number of summarized messages.
    pub turns: u64,
    /// `provider/name` of the model that wrote it, or `extractive`.
    pub model: String,
    /// Number of secrets redacted from it.
    pub withheld: u64,
    /// Number of durable facts that were proposed with it and await review.
    pub facts_to_review: u64,
    /// Number of durable facts that were accepted without a review.
    pub facts_accepted: u64,
}

/// The work of a queue item.
#[derive(Clone, Copy)]
struct QueuedTransfer<'a> {
    queued_turns: &'a QueuedTurns,
    /// The write that removes the item from the queue.
    dequeue_write: &'a Write,
    writer: SummaryWriter,
}

/// The transfers that are due for a thread.
#[derive(Clone, Copy)]
struct TransferPlan<'a> {
    /// The transfers, in order.
    steps: &'a [TransferStep],
    /// The version of the thread for which they were planned.
    planned_for: ThreadVersion,
}

impl SummarizationWorker {
    /// Queues the thread if its conversation exceeds the budget of the short-term tier, or if a compaction left
    /// messages without a summary. Never queues a sub-agent's thread.
    ///
    /// The budget is stored in the queue item, so that it applies in whichever process works on the item. Reads only
    /// events that are newer than the cached context.
    ///
    /// # Errors
    /// When the journal fails.
    pub fn enqueue_if_due<'a>(
        &'a self,
        thread_id: ThreadId,
    ) -> BoxFuture<'a, Result<(), SummarizationError>> {
        journal::box_future(async move {
            if !self.summarization.settings.enabled {
                return Ok(());
            }
            let tokens = self.summarization.settings.short_term_budget(self.window);
            let context = self.contexts.read_context(&*self.summarization.store, thread_id).await?;
            // Most threads have no compaction and are within the budget; for them nothing more is read.
            if context.beginning.compaction().is_some() {
                self.enqueue_for_reason(thread_id, None).await?;
            }
            match tokens.filter(|tokens| context.request_tokens(&self.model, 0) > *tokens) {
                Some(tokens) => {
                    let budget = ShortTermBudget { tokens, model: self.model.clone() };
                    self.enqueue_for_reason(thread_id, Some(budget)).await
                }
                None => Ok(()),
            }
        })
    }

    /// Queues the thread for one reason, unless nothing is due or the same item is queued already.
    async fn enqueue_for_reason(
        &self,
        thread_id: ThreadId,
        budget: Option<ShortTermBudget>,
    ) -> Result<(), SummarizationError> {
        let store = &self.summarization.store;
        let Some(thread) = store.thread(thread_id).await?.filter(|thread| self.is_eligible(thread)) else {
            return Ok(());
        };
        if !self.has_due_turns(&thread, budget.as_ref()).await? {
            return Ok(());
        }
        let due = QueuedTurns { agent_id: thread.assistant_id, thread_id, budget, draft: None };
        let queued = find_queued(&**store, &due.queue_key()).await?;
        let queued_turns =
            queued.as_ref().and_then(|item| serde_json::from_value::<QueuedTurns>(item.payload.clone()).ok());
        if queued_turns.is_some_and(|queued_turns| queued_turns.budget == due.budget) {
            return Ok(());
        }
        let item = due.into_item_replacing(queued, Timestamp::now());
        self.commit(vec![Write::PutOutboxItem(item)]).await
    }

    /// Works through the queue, oldest item first, and returns the completed transfers. Updates the search index at
    /// the end.
    ///
    /// An item stays in the queue if its thread has an active run, or if its messages could not be summarized. The reason
    /// is logged with the thread. A failure of the model, and other processes that keep changing the thread, are
    /// reported as a notice too; the next call tries again, and after three failures of the model an offline summary is
    /// made. A summary that was made but could not be stored stays in the item and is not made again.
    ///
    /// When `cancel` is cancelled, the call ends after the current write and returns the transfers so far. Dropping the
    /// future is safe as well: each transfer is one transaction.
    ///
    /// # Errors
    /// When the journal fails. Transfers that were completed before are durable.
    pub fn summarize_queue<'a>(
        &'a self,
        frames: &'a FrameSender,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Vec<SummarizedTurns>, SummarizationError>> {
        journal::box_future(async move {
            let mut completed = Vec::new();
            let mut page = OutboxQuery::for_kind(TRANSFER_OUTBOX_KIND, PAGE_ROWS_MAX);
            'queue: loop {
                let items = self.summarization.store.outbox(page.clone()).await?;
                let is_last = items.len() < page.limit;
                page.after = items.last().map(OutboxItem::cursor);
                for item in items {
                    match self.summarize_item(item, &mut completed, RunScope { frames, cancel }).await {
                        Ok(()) | Err(SummarizationError::Busy { .. }) => {}
                        Err(SummarizationError::Stopped) => break 'queue,
                        Err(error)
                            if error.is_model_failure()
                                || matches!(error, SummarizationError::Contended { .. }) =>
                        {
                            let text = format!("failed to {error}; it is tried again later");
                            frames.send(Frame::Notice { text });
                        }
                        Err(error) => return Err(error),
                    }
                }
                if is_last {
                    break;
                }
            }
            if !cancel.is_cancelled() {
                // Otherwise the next search would have to index the turn.
                self.summarization.store.start_index_update();
            }
            Ok(completed)
        })
    }

    /// Performs the transfers of one item. If they fail, the item is stored again with the draft and the failure
    /// count. An item with an unknown payload is removed.
    async fn summarize_item(
        &self,
        item: OutboxItem,
        completed: &mut Vec<SummarizedTurns>,
        scope: RunScope<'_>,
    ) -> Result<(), SummarizationError> {
        let dequeue_write = Write::RemoveOutboxItem {
            kind: TRANSFER_OUTBOX_KIND.to_owned(),
            key: item.key.clone(),
            created_at: Some(item.created_at),
        };
        let Ok(due) = serde_json::from_value::<QueuedTurns>(item.payload.clone()) else {
            return self.commit(vec![dequeue_write]).await;
        };
        if item.key != due.queue_key() {
            // A store that is not scoped to an owner shows the items of owners under prefixed keys. The store of the
            // owner works on them.
            return Ok(());
        }
        let writer = if item.attempts < FAILURES_MAX { SummaryWriter::Model } else { SummaryWriter::Offline };
        let mut state = TransferState {
            draft: due.draft.clone(),
            thread_id: Some(due.thread_id),
            ..TransferState::default()
        };
        let transfer = QueuedTransfer { queued_turns: &due, dequeue_write: &dequeue_write, writer };
        let result = self.transfer_due_turns(transfer, &mut state, completed, scope).await;
        match &result {
            Ok(()) => self.summarization.trace_calls(&mut state).await?,
            Err(error) => {
                log_deferral(due.thread_id, error);
                self.requeue_item(item, due, state, error).await?;
            }
        }
        result
    }

    /// Performs the due transfers of a thread one by one. If another process changes the thread, the rest is planned
    /// again. The last transfer removes the item from the queue; messages that became due meanwhile are then queued
    /// again.
    ///
    /// # Errors
    /// When the thread has an active run, after [`ATTEMPTS_MAX`] consecutive stale attempts, and when a transfer fails.
    async fn transfer_due_turns(
        &self,
        transfer: QueuedTransfer<'_>,
        state: &mut TransferState,
        completed: &mut Vec<SummarizedTurns>,
        scope: RunScope<'_>,
    ) -> Result<(), SummarizationError> {
        let QueuedTransfer { queued_turns: due, dequeue_write, .. } = transfer;
        let (store, thread_id) = (&self.summarization.store, due.thread_id);
        let (mut progress, mut stale_attempts) = (TransferProgress::NotStarted, 0);
        while stale_attempts < ATTEMPTS_MAX {
            let Some(thread) = store.thread(thread_id).await?.filter(|thread| self.is_eligible(thread))
            else {
                return self.commit(vec![dequeue_write.clone()]).await;
            };
            if !store.active_runs(Some(thread_id)).await?.is_empty() {
                return Err(SummarizationError::Busy { thread_id });
            }
            let steps = self.plan_transfers(&thread, due, state.draft.as_ref(), progress).await?;
            if steps.is_empty() {
                self.commit(vec![dequeue_write.clone()]).await?;
                break;
            }
            let planned_for = ThreadVersion { thread_id, last_seq: thread.last_seq };
            let performed =
                self.perform_steps(transfer, TransferPlan { steps: &steps, planned_for }, state, scope).await;
            let (stored, result) = performed;
            let stored_count = stored.len();
            completed.extend(stored);
            result?;
            if stored_count == steps.len() {
                break;
            }
            if stored_count > 0 {
                (progress, stale_attempts) = (TransferProgress::InProgress, 0);
            }
            stale_attempts += 1;
        }
        if stale_attempts == ATTEMPTS_MAX {
            return Err(SummarizationError::Contended { attempts: ATTEMPTS_MAX });
        }
        // Messages that became due during the transfers were not queued, because the item was still in the queue.
        self.enqueue_for_reason(thread_id, due.budget.clone()).await
    }

    /// Performs the transfers of a plan, until one finds that another process changed the thread or its messages.
    /// A plan is made once for all of its transfers, so that the messages of the thread are not read again for each.
    /// Each transfer expects the version of the thread with which the one before it ended.
    ///
    /// Returns the completed transfers, and the error of the one that failed.
    async fn perform_steps(
        &self,
        transfer: QueuedTransfer<'_>,
        plan: TransferPlan<'_>,
        state: &mut TransferState,
        scope: RunScope<'_>,
    ) -> (Vec<SummarizedTurns>, Result<(), SummarizationError>) {
        let QueuedTransfer { queued_turns: due, dequeue_write, writer } = transfer;
        let TransferPlan { steps, mut planned_for } = plan;
        let mut completed = Vec::with_capacity(steps.len());
        let is_offline = writer == SummaryWriter::Offline || self.summarization.summarizer.is_none();
        for (index, TransferStep { window, departure }) in steps.iter().enumerate() {
            // The calls of a model report their own progress.
            if is_offline && steps.len() > 1 {
                let what = "summarizing old messages".to_owned();
                let (done, total) = (index as u64, Some(steps.len() as u64));
                scope.frames.send(Frame::Progress { what, done, total });
            }
            let request = TransferRequest {
                agent_id: &due.agent_id,
                window,
                departure: *departure,
                writer,
                expected_thread: Some(planned_for),
                completion_write: (index + 1 == steps.len()).then(|| dequeue_write.clone()),
            };
            match self.summarization.attempt_transfer(&request, state, scope).await {
                Ok(TransferOutcome::Stored(transferred)) => {
                    planned_for.last_seq = transferred.last_seq;
                    completed.push(to_summarized_turns(due.thread_id, departure, transferred));
                }
                Ok(TransferOutcome::NoTurns | TransferOutcome::Stale) => break,
                Err(error) => return (completed, Err(error)),
            }
        }
        (completed, Ok(()))
    }

    /// Updates the item after a failure: stores the summary that could not be stored in it, counts a failure of the
    /// model, and records the model calls. The item keeps its place in the queue.
    async fn requeue_item(
        &self,
        item: OutboxItem,
        due: QueuedTurns,
        state: TransferState,
        error: &SummarizationError,
    ) -> Result<(), SummarizationError> {
        let mut writes = Vec::new();
        if !state.calls.is_empty() {
            let events = model_call_events(&state.calls)?;
            writes.push(Write::Append { thread_id: due.thread_id, events });
        }
        let draft = state.draft.filter(UnstoredSummary::is_from_model);
        let failures = u32::from(error.is_model_failure());
        if draft != due.draft || failures > 0 {
            let (attempts, created_at) = (item.attempts.saturating_add(failures), item.created_at);
            let item = QueuedTurns { draft, ..due }.to_outbox_item(created_at);
            writes.push(Write::PutOutboxItem(OutboxItem { attempts, ..item }));
        }
        if writes.is_empty() {
            return Ok(());
        }
        match self.commit(writes).await {
            // The thread was deleted. The next call removes its item.
            Err(SummarizationError::Journal(journal::Error::NotFound { .. })) => Ok(()),
            result => result,
        }
    }

    /// Returns whether messages of the thread are summarized. Those of a sub-agent's thread are not, because the
    /// thread that called the sub-agent contains its result.
    fn is_eligible(&self, thread: &Thread) -> bool {
        self.summarization.settings.enabled && thread.parent_kind != Some(ParentKind::Subagent)
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<(), SummarizationError> {
        self.summarization.store.commit(Transaction { fence: None, writes }).await?;
        Ok(())
    }
}

/// Logs the reason why the messages of a thread stay in the queue. Other errors end the work on the queue, and the caller
/// reports them.
fn log_deferral(thread_id: ThreadId, error: &SummarizationError) {
    match error {
        // Not a failure: the run ends. A server with busy threads meets them in each round.
        SummarizationError::Busy { .. } => {
            tracing::info!(%thread_id, "the messages of the thread are summarized later: a run is active");
        }
        SummarizationError::NoSummary { .. }
        | SummarizationError::Model(_)
        | SummarizationError::TooManyTurns { .. }
        | SummarizationError::Contended { .. } => {
            tracing::warn!(%thread_id, %error, "failed to summarize the messages of the thread; it is tried again later");
        }
        SummarizationError::AwaitingDecision { .. }
        | SummarizationError::Stopped
        | SummarizationError::Prompt(_)
        | SummarizationError::Json(_)
        | SummarizationError::Journal(_) => {}
    }
}

/// Returns the item with this key in the queue of transfers.
pub(super) async fn find_queued(store: &dyn Store, key: &str) -> journal::Result<Option<OutboxItem>> {
    store.outbox_item(TRANSFER_OUTBOX_KIND, key).await
}

fn to_summarized_turns(
    thread_id: ThreadId,
    departure: &TurnDeparture,
    transferred: StoredTransfer,
) -> SummarizedTurns {
    let reason = match departure {
        TurnDeparture::Request => ArchiveReason::Request,
        TurnDeparture::Compaction { .. } => ArchiveReason::Compaction,
        TurnDeparture::Budget { .. } => ArchiveReason::Budget,
    };
    let StoredTransfer { summary, model, turns, redacted_secrets: withheld, facts, last_seq: _ } =
        transferred;
    let (facts_to_review, facts_accepted) = (facts.to_review, facts.accepted);
    let summary_id = summary.id;
    SummarizedTurns { thread_id, summary_id, reason, turns, model, withheld, facts_to_review, facts_accepted }
}
