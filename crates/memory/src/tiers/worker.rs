//! The worker of the tiers: looks whether a thread is over its budget, and works through the queue of threads that have
//! turns to transfer. It may be stopped or killed anywhere: an item leaves the queue with its last transfer, and what was
//! transferred before is not transferred again. What there is to transfer is worked out elsewhere.

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

/// Attempts of a model at the turns of a thread before they are extracted.
const FAILURES_MAX: u32 = 3;

/// Works through the queue.
#[derive(Clone)]
pub struct SummarizationWorker {
    /// Makes the summaries.
    pub summarization: Arc<SummarizationHandoff>,
    /// The contexts that were used last.
    pub contexts: Arc<ContextCache>,
    /// `provider/name` of the model that the threads looked at are sent to.
    pub model: String,
    /// The tokens it takes, if known.
    pub window: Option<u64>,
}

/// A transfer that was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SummarizedTurns {
    /// The thread.
    pub thread_id: ThreadId,
    /// The summary.
    pub summary_id: SummaryId,
    /// Why.
    pub reason: ArchiveReason,
    /// Turns it stands for.
    pub turns: u64,
    /// `provider/name` of the model that wrote it, or `extractive`.
    pub model: String,
    /// Secrets that were withheld from it.
    pub withheld: u64,
}

/// The work that a queue item asks for.
#[derive(Clone, Copy)]
struct QueuedTransfer<'a> {
    queued_turns: &'a QueuedTurns,
    /// Takes the item out of the queue.
    dequeue_write: &'a Write,
    writer: SummaryWriter,
}

impl SummarizationWorker {
    /// Puts the thread into the queue when its conversation is over the budget of the short-term tier, or a compaction
    /// left turns behind; otherwise, and for a sub-agent's thread, nothing. The budget goes into the queue with it, so that
    /// it holds whoever works on it. Reads what is new, and no old message.
    pub async fn enqueue_if_due(&self, thread_id: ThreadId) -> Result<(), SummarizationError> {
        if !self.summarization.settings.enabled {
            return Ok(());
        }
        let tokens = self.summarization.settings.short_term_budget(self.window);
        let context = self.contexts.read_context(&*self.summarization.store, thread_id).await?;
        // Of nearly every run this is the end of it.
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
    }

    /// Queues what is due for one reason, unless it is queued already.
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
        let before =
            queued.as_ref().and_then(|item| serde_json::from_value::<QueuedTurns>(item.payload.clone()).ok());
        if before.is_some_and(|before| before.budget == due.budget) {
            return Ok(());
        }
        let item = due.into_item_replacing(queued, Timestamp::now());
        self.commit(vec![Write::PutOutboxItem(item)]).await
    }

    /// Transfers everything that is queued, the oldest item first. A thread with an active run stays in the queue, and so
    /// does one whose turns could not be summarised: what failed is told in a notice and tried again with the next call,
    /// and after three failures of the model the summaries are extracted. A summary that was made and could not be stored
    /// waits there too, and is not made again. The search index catches up at the end.
    ///
    /// # Errors
    /// When the journal fails; what was done until then is durable.
    pub async fn summarize_queue(
        &self,
        frames: &FrameSender,
        cancel: &CancellationToken,
    ) -> Result<Vec<SummarizedTurns>, SummarizationError> {
        let mut settled = Vec::new();
        let mut page = OutboxQuery::for_kind(TRANSFER_OUTBOX_KIND, PAGE_ROWS_MAX);
        'queue: loop {
            let items = self.summarization.store.outbox(page.clone()).await?;
            let is_last = items.len() < page.limit;
            page.after = items.last().map(OutboxItem::cursor);
            for item in items {
                match self.summarize_item(item, &mut settled, RunScope { frames, cancel }).await {
                    Ok(()) | Err(SummarizationError::Busy { .. } | SummarizationError::Contended { .. }) => {}
                    Err(SummarizationError::Stopped) => break 'queue,
                    Err(error) if error.is_model_failure() => {
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
            // Whoever searches next need not wait for it.
            self.summarization.store.update_search_index().await?;
        }
        Ok(settled)
    }

    /// Does what one item asks for, and keeps in the queue what is left of it.
    async fn summarize_item(
        &self,
        item: OutboxItem,
        settled: &mut Vec<SummarizedTurns>,
        scope: RunScope<'_>,
    ) -> Result<(), SummarizationError> {
        let done = Write::RemoveOutboxItem {
            kind: TRANSFER_OUTBOX_KIND.to_owned(),
            key: item.key.clone(),
            created_at: Some(item.created_at),
        };
        let Ok(due) = serde_json::from_value::<QueuedTurns>(item.payload.clone()) else {
            return self.commit(vec![done]).await;
        };
        if item.key != due.queue_key() {
            // Everybody's store shows it under its owner's key: it is for the owner's to settle.
            return Ok(());
        }
        let writer = if item.attempts < FAILURES_MAX { SummaryWriter::Model } else { SummaryWriter::Offline };
        let mut work = TransferState {
            draft: due.draft.clone(),
            thread_id: Some(due.thread_id),
            ..TransferState::default()
        };
        let transfer = QueuedTransfer { queued_turns: &due, dequeue_write: &done, writer };
        let came = self.transfer_due_turns(transfer, &mut work, settled, scope).await;
        match &came {
            Ok(()) => self.summarization.trace_calls(&mut work).await?,
            Err(error) => self.requeue_item(item, due, work, error).await?,
        }
        came
    }

    /// Goes through what is due in a thread, part by part. The plan is made anew for each: the thread may have changed.
    async fn transfer_due_turns(
        &self,
        transfer: QueuedTransfer<'_>,
        work: &mut TransferState,
        settled: &mut Vec<SummarizedTurns>,
        scope: RunScope<'_>,
    ) -> Result<(), SummarizationError> {
        let QueuedTransfer { queued_turns: due, dequeue_write: done, writer } = transfer;
        let (store, thread_id) = (&self.summarization.store, due.thread_id);
        let (mut progress, mut outdated) = (TransferProgress::NotStarted, 0);
        while outdated < ATTEMPTS_MAX {
            let Some(thread) = store.thread(thread_id).await?.filter(|thread| self.is_eligible(thread))
            else {
                return self.commit(vec![done.clone()]).await;
            };
            if !store.active_runs(Some(thread_id)).await?.is_empty() {
                return Err(SummarizationError::Busy { thread_id });
            }
            let steps = self.plan_transfers(&thread, due, work.draft.as_ref(), progress).await?;
            let Some(TransferStep { window, departure }) = steps.first() else {
                self.commit(vec![done.clone()]).await?;
                break;
            };
            let is_last = steps.len() == 1;
            let request = TransferRequest {
                agent_id: &due.agent_id,
                window,
                departure: *departure,
                writer,
                expected_thread: Some(ThreadVersion { thread_id, last_seq: thread.last_seq }),
                completion_write: is_last.then(|| done.clone()),
            };
            match self.summarization.attempt_transfer(&request, work, scope).await? {
                TransferOutcome::Stored(transferred) => {
                    settled.push(to_summarized_turns(thread_id, departure, transferred));
                    if is_last {
                        break;
                    }
                    (progress, outdated) = (TransferProgress::InProgress, 0);
                }
                TransferOutcome::NoTurns | TransferOutcome::Stale => outdated += 1,
            }
        }
        if outdated == ATTEMPTS_MAX {
            return Err(SummarizationError::Contended { attempts: ATTEMPTS_MAX });
        }
        // What became due meanwhile was not queued again, for it was queued.
        self.enqueue_for_reason(thread_id, due.budget.clone()).await
    }

    /// Keeps the item in the queue with the summary that could not be stored, counts a failure of the model, and traces the
    /// calls that were made.
    async fn requeue_item(
        &self,
        item: OutboxItem,
        due: QueuedTurns,
        work: TransferState,
        error: &SummarizationError,
    ) -> Result<(), SummarizationError> {
        let mut writes = Vec::new();
        if !work.calls.is_empty() {
            let events = model_call_events(&work.calls)?;
            writes.push(Write::Append { thread_id: due.thread_id, events });
        }
        let draft = work.draft.filter(UnstoredSummary::is_from_model);
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
            // The thread was deleted, and its item goes with the next call.
            Err(SummarizationError::Journal(journal::Error::NotFound { .. })) => Ok(()),
            done => done,
        }
    }

    /// Returns whether turns of the thread become summaries: not those of a sub-agent, whose work its caller tells.
    fn is_eligible(&self, thread: &Thread) -> bool {
        self.summarization.settings.enabled && thread.parent_kind != Some(ParentKind::Subagent)
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<(), SummarizationError> {
        self.summarization.store.commit(Transaction { fence: None, writes }).await?;
        Ok(())
    }
}

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
    let StoredTransfer { summary, model, turns, redacted_secrets: withheld } = transferred;
    SummarizedTurns { thread_id, summary_id: summary.id, reason, turns, model, withheld }
}
