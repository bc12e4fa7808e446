//! The worker of the tiers: looks whether a thread is over its budget, and works through the queue of threads that have
//! turns to transfer. It may be stopped or killed anywhere: an item leaves the queue with its last transfer, and what was
//! transferred before is not transferred again. What there is to transfer is worked out elsewhere.

use std::sync::Arc;

use jiff::Timestamp;
use journal::{OutboxItem, OutboxQuery, PAGE_ROWS_MAX, Planned, Store, Transaction, Write};
use protocol::{ArchiveReason, ParentKind, SummaryId, Thread, ThreadId};
use runtime::{Contexts, Frame, Frames, RunScope};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::due::{Budget, Draft, Due};
use super::error::SummarizationError;
use super::plan::{Progress, Step};
use super::transfer::{ATTEMPTS_MAX, Came, Departure, Request, Transferred, Work, Writer, traced};
use super::{SummarizationHandoff, TRANSFER_DUE};

/// Attempts of a model at the turns of a thread before they are extracted.
const FAILURES_MAX: u32 = 3;

/// Works through the queue.
#[derive(Clone)]
pub struct Tiering {
    /// Makes the summaries.
    pub tiers: Arc<SummarizationHandoff>,
    /// The contexts that were used last.
    pub contexts: Arc<Contexts>,
    /// `provider/name` of the model that the threads looked at are sent to.
    pub model: String,
    /// The tokens it takes, if known.
    pub window: Option<u64>,
}

/// A transfer that was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Settled {
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

/// What an item of the queue asks for.
#[derive(Clone, Copy)]
struct QueuedTransfer<'a> {
    due: &'a Due,
    /// Takes the item out of the queue.
    done: &'a Write,
    writer: Writer,
}

impl Tiering {
    /// Puts the thread into the queue when its conversation is over the budget of the short-term tier, or a compaction
    /// left turns behind; otherwise, and for a sub-agent's thread, nothing. The budget goes into the queue with it, so that
    /// it holds whoever works on it. Reads what is new, and no old message.
    pub async fn look(&self, thread_id: ThreadId) -> Result<(), SummarizationError> {
        if !self.tiers.settings.enabled {
            return Ok(());
        }
        let tokens = self.tiers.settings.short_term_budget(self.window);
        let context = self.contexts.read(&*self.tiers.store, thread_id).await?;
        // Of nearly every run this is the end of it.
        if context.beginning.compaction().is_some() {
            self.look_for(thread_id, None).await?;
        }
        match tokens.filter(|tokens| context.request_tokens(&self.model, 0) > *tokens) {
            Some(tokens) => {
                let budget = Budget { tokens, model: self.model.clone() };
                self.look_for(thread_id, Some(budget)).await
            }
            None => Ok(()),
        }
    }

    /// Queues what is due for one reason, unless it is queued already.
    async fn look_for(&self, thread_id: ThreadId, budget: Option<Budget>) -> Result<(), SummarizationError> {
        let store = &self.tiers.store;
        let Some(thread) = store.thread(thread_id).await?.filter(|thread| self.is_tiered(thread)) else {
            return Ok(());
        };
        if !self.is_due(&thread, budget.as_ref()).await? {
            return Ok(());
        }
        let due = Due { agent_id: thread.assistant_id, thread_id, budget, draft: None };
        let queued = queued(&**store, &due.key()).await?;
        let before =
            queued.as_ref().and_then(|item| serde_json::from_value::<Due>(item.payload.clone()).ok());
        if before.is_some_and(|before| before.budget == due.budget) {
            return Ok(());
        }
        let item = due.taking_over(queued, Timestamp::now());
        self.commit(vec![Write::Enqueue(item)]).await
    }

    /// Transfers everything that is queued, the oldest item first. A thread with an active run stays in the queue, and so
    /// does one whose turns could not be summarised: what failed is told in a notice and tried again with the next call,
    /// and after three failures of the model the summaries are extracted. A summary that was made and could not be stored
    /// waits there too, and is not made again. The search index catches up at the end.
    ///
    /// # Errors
    /// When the journal fails; what was done until then is durable.
    pub async fn settle(
        &self,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<Vec<Settled>, SummarizationError> {
        let mut settled = Vec::new();
        let mut page = OutboxQuery::of(TRANSFER_DUE, PAGE_ROWS_MAX);
        'queue: loop {
            let items = self.tiers.store.outbox(page.clone()).await?;
            let is_last = items.len() < page.limit;
            page.after = items.last().map(OutboxItem::place);
            for item in items {
                match self.settle_item(item, &mut settled, RunScope { frames, cancel }).await {
                    Ok(()) | Err(SummarizationError::Busy { .. } | SummarizationError::Contended { .. }) => {}
                    Err(SummarizationError::Stopped) => break 'queue,
                    Err(error) if error.is_of_the_model() => {
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
            self.tiers.store.index().await?;
        }
        Ok(settled)
    }

    /// Does what one item asks for, and keeps in the queue what is left of it.
    async fn settle_item(
        &self,
        item: OutboxItem,
        settled: &mut Vec<Settled>,
        scope: RunScope<'_>,
    ) -> Result<(), SummarizationError> {
        let done = Write::Dequeue {
            kind: TRANSFER_DUE.to_owned(),
            key: item.key.clone(),
            created_at: Some(item.created_at),
        };
        let Ok(due) = serde_json::from_value::<Due>(item.payload.clone()) else {
            return self.commit(vec![done]).await;
        };
        if item.key != due.key() {
            // Everybody's store shows it under its owner's key: it is for the owner's to settle.
            return Ok(());
        }
        let writer = if item.attempts < FAILURES_MAX { Writer::Model } else { Writer::Extract };
        let mut work = Work { draft: due.draft.clone(), thread_id: Some(due.thread_id), ..Work::default() };
        let transfer = QueuedTransfer { due: &due, done: &done, writer };
        let came = self.work_through(transfer, &mut work, settled, scope).await;
        match &came {
            Ok(()) => self.tiers.leave_trace(&mut work).await?,
            Err(error) => self.keep(item, due, work, error).await?,
        }
        came
    }

    /// Goes through what is due in a thread, part by part. The plan is made anew for each: the thread may have changed.
    async fn work_through(
        &self,
        transfer: QueuedTransfer<'_>,
        work: &mut Work,
        settled: &mut Vec<Settled>,
        scope: RunScope<'_>,
    ) -> Result<(), SummarizationError> {
        let QueuedTransfer { due, done, writer } = transfer;
        let (store, thread_id) = (&self.tiers.store, due.thread_id);
        let (mut progress, mut outdated) = (Progress::Begun, 0);
        while outdated < ATTEMPTS_MAX {
            let Some(thread) = store.thread(thread_id).await?.filter(|thread| self.is_tiered(thread)) else {
                return self.commit(vec![done.clone()]).await;
            };
            if !store.active_runs(Some(thread_id)).await?.is_empty() {
                return Err(SummarizationError::Busy { thread_id });
            }
            let steps = self.plan(&thread, due, work.draft.as_ref(), progress).await?;
            let Some(Step { window, departure }) = steps.first() else {
                self.commit(vec![done.clone()]).await?;
                break;
            };
            let is_last = steps.len() == 1;
            let request = Request {
                agent_id: &due.agent_id,
                window,
                departure: *departure,
                writer,
                planned: Some(Planned { thread_id, last_seq: thread.last_seq }),
                done: is_last.then(|| done.clone()),
            };
            match self.tiers.attempt(&request, work, scope).await? {
                Came::Stored(transferred) => {
                    settled.push(told(thread_id, departure, transferred));
                    if is_last {
                        break;
                    }
                    (progress, outdated) = (Progress::Underway, 0);
                }
                Came::Nothing | Came::Outdated => outdated += 1,
            }
        }
        if outdated == ATTEMPTS_MAX {
            return Err(SummarizationError::Contended { attempts: ATTEMPTS_MAX });
        }
        // What became due meanwhile was not queued again, for it was queued.
        self.look_for(thread_id, due.budget.clone()).await
    }

    /// Keeps the item in the queue with the summary that could not be stored, counts a failure of the model, and traces the
    /// calls that were made.
    async fn keep(
        &self,
        item: OutboxItem,
        due: Due,
        work: Work,
        error: &SummarizationError,
    ) -> Result<(), SummarizationError> {
        let mut writes = Vec::new();
        if !work.calls.is_empty() {
            let events = traced(&work.calls)?;
            writes.push(Write::Append { thread_id: due.thread_id, events });
        }
        let draft = work.draft.filter(Draft::is_paid);
        let failures = u32::from(error.is_of_the_model());
        if draft != due.draft || failures > 0 {
            let (attempts, created_at) = (item.attempts.saturating_add(failures), item.created_at);
            let item = Due { draft, ..due }.item(created_at);
            writes.push(Write::Enqueue(OutboxItem { attempts, ..item }));
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
    fn is_tiered(&self, thread: &Thread) -> bool {
        self.tiers.settings.enabled && thread.parent_kind != Some(ParentKind::Subagent)
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<(), SummarizationError> {
        self.tiers.store.commit(Transaction { fence: None, writes }).await?;
        Ok(())
    }
}

pub(super) async fn queued(store: &dyn Store, key: &str) -> journal::Result<Option<OutboxItem>> {
    store.outbox_item(TRANSFER_DUE, key).await
}

fn told(thread_id: ThreadId, departure: &Departure, transferred: Transferred) -> Settled {
    let reason = match departure {
        Departure::Request => ArchiveReason::Request,
        Departure::Compaction { .. } => ArchiveReason::Compaction,
        Departure::Budget { .. } => ArchiveReason::Budget,
    };
    let Transferred { summary, model, turns, withheld } = transferred;
    Settled { thread_id, summary_id: summary.id, reason, turns, model, withheld }
}
