//! The worker of the tiers: looks whether a thread is over its budget, and works through the queue of threads that have
//! turns to transfer. It may be stopped or killed anywhere: an item leaves the queue with its last transfer, and what was
//! transferred before is not transferred again.

use std::sync::Arc;

use jiff::Timestamp;
use journal::{EventQuery, OutboxItem, Transaction, TurnQuery, Write};
use protocol::{
    ArchiveReason, AssistantId, EventType, Message, ParentKind, Seq, SummaryId, Thread, ThreadId,
    ThreadStatus, TurnRole, TurnsArchived,
};
use runtime::{Context, Contexts, Frame, Frames};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::ask::Called;
use super::error::SummarizationError;
use super::leaving::{Leaving, Logged, Newest, leaving, parts};
use super::transfer::{Departure, Request, Transferred, Writer, traced};
use super::window::TurnWindow;
use super::{SummarizationHandoff, TRANSFER_DUE, transfer_due};

/// Attempts of a model at the turns of a thread before they are extracted.
const ATTEMPTS_MAX: u32 = 3;
/// Turns that are read at a time.
const PAGE_TURNS: usize = 200;
/// The newest events that are looked at for what memory has of a compaction.
const ARCHIVED_EVENTS: usize = 50;

/// Works through the queue.
#[derive(Clone)]
pub struct Tiering {
    /// Makes the summaries.
    pub tiers: Arc<SummarizationHandoff>,
    /// The contexts that were used last.
    pub contexts: Arc<Contexts>,
    /// `provider/name` of the model that threads are sent to.
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

/// What an item of the queue says.
#[derive(Deserialize)]
struct Due {
    agent_id: AssistantId,
    thread_id: ThreadId,
}

/// Turns of a thread that become one summary.
struct Planned {
    window: TurnWindow,
    departure: Departure,
}

/// Where a thread stands.
struct Standing {
    context: Context,
    /// What the compaction in effect condensed.
    condensed: Option<Condensed>,
    leaving: Option<Leaving>,
}

/// What a compaction condensed and memory may not have yet.
#[derive(Clone, Copy)]
struct Condensed {
    marker_seq: Seq,
    /// The events between which its turns are.
    between: (Seq, Seq),
}

impl Tiering {
    /// Puts the thread into the queue when its conversation is over the budget of the short-term tier, or a compaction
    /// left turns behind; otherwise, and for a sub-agent's thread, nothing. Reads what is new, and no old message.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn look(&self, thread_id: ThreadId) -> Result<(), SummarizationError> {
        let store = &self.tiers.store;
        let Some(thread) = store.thread(thread_id).await?.filter(|thread| self.is_tiered(thread)) else {
            return Ok(());
        };
        let key = thread_id.to_string();
        if !self.is_due(&thread).await?
            || store.outbox(TRANSFER_DUE).await?.iter().any(|item| item.key == key)
        {
            return Ok(());
        }
        let item = transfer_due(&thread.assistant_id, thread_id, Timestamp::now());
        self.commit(vec![Write::Enqueue(item)]).await
    }

    /// Transfers everything that is queued, the oldest item first. A thread with an active run stays in the queue, and so
    /// does one whose turns could not be summarised: what failed is told in a notice and tried again with the next call,
    /// and after three failures of the model the summaries are extracted. The search index catches up at the end.
    ///
    /// # Errors
    /// When the journal fails; what was done until then is durable.
    pub async fn settle(
        &self,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<Vec<Settled>, SummarizationError> {
        let mut settled = Vec::new();
        for item in self.tiers.store.outbox(TRANSFER_DUE).await? {
            let mut calls = Vec::new();
            let done = self.settle_item(&item, (&mut settled, &mut calls), (frames, cancel)).await;
            match done {
                Ok(()) | Err(SummarizationError::Busy { .. } | SummarizationError::Contended { .. }) => {}
                Err(SummarizationError::Stopped) => break,
                Err(error) if error.is_of_the_model() => {
                    let text = format!("failed to {error}; it is tried again later");
                    frames.send(Frame::Notice { text });
                    self.note_failure(item, &calls).await?;
                }
                Err(error) => return Err(error),
            }
        }
        if !cancel.is_cancelled() {
            // Whoever searches next need not wait for it.
            self.tiers.store.index().await?;
        }
        Ok(settled)
    }

    /// Does what one item asks for.
    async fn settle_item(
        &self,
        item: &OutboxItem,
        (settled, calls): (&mut Vec<Settled>, &mut Vec<Called>),
        running: (&Frames, &CancellationToken),
    ) -> Result<(), SummarizationError> {
        let done = Write::Dequeue { kind: TRANSFER_DUE.to_owned(), key: item.key.clone() };
        let Ok(due) = serde_json::from_value::<Due>(item.payload.clone()) else {
            return self.commit(vec![done]).await;
        };
        let store = &self.tiers.store;
        let Some(thread) = store.thread(due.thread_id).await?.filter(|thread| self.is_tiered(thread)) else {
            return self.commit(vec![done]).await;
        };
        if !store.active_runs(Some(due.thread_id)).await?.is_empty() {
            return Err(SummarizationError::Busy { thread_id: due.thread_id });
        }
        let writer = if item.attempts < ATTEMPTS_MAX { Writer::Model } else { Writer::Extract };
        let planned = self.plan(&thread, &due.agent_id).await?;
        let last = planned.len();
        let mut is_dequeued = false;
        for (number, Planned { window, departure }) in (1..).zip(planned) {
            let dequeue = (number == last).then(|| item.key.clone());
            is_dequeued = dequeue.is_some();
            let request = Request { agent_id: &due.agent_id, window: &window, departure, writer, dequeue };
            calls.clear();
            match self.tiers.carry_out(&request, calls, running).await? {
                Some(transferred) => settled.push(told(due.thread_id, &departure, transferred)),
                None => is_dequeued = false,
            }
        }
        if !is_dequeued {
            self.commit(vec![done]).await?;
        }
        // What became due meanwhile may have been put into the queue in the place of what is done.
        self.look(due.thread_id).await
    }

    /// Counts a failure of the model, and records the calls it made.
    async fn note_failure(&self, item: OutboxItem, calls: &[Called]) -> Result<(), SummarizationError> {
        let mut writes = Vec::new();
        let thread_id = item.key.parse::<ThreadId>().ok();
        if let Some(thread_id) = thread_id.filter(|_| !calls.is_empty()) {
            let events = traced(calls, Timestamp::now())?;
            writes.push(Write::Append { thread_id, events });
        }
        writes.push(Write::Enqueue(OutboxItem { attempts: item.attempts.saturating_add(1), ..item }));
        match self.commit(writes).await {
            // The thread was deleted, and its item goes with the next call.
            Err(SummarizationError::Journal(journal::Error::NotFound { .. })) => Ok(()),
            done => done,
        }
    }

    /// Returns what is due in the thread, in the order in which it is done.
    async fn plan(
        &self,
        thread: &Thread,
        agent_id: &AssistantId,
    ) -> Result<Vec<Planned>, SummarizationError> {
        let standing = self.standing(thread).await?;
        let mut planned = Vec::new();
        if let Some(Condensed { marker_seq, between }) = standing.condensed {
            let turns = self.logged(agent_id, thread.thread_id, between).await?;
            let window = |part: &[Logged]| window_of(part, thread.thread_id);
            let departure = Departure::Compaction { marker_seq };
            planned.extend(parts(&turns).into_iter().map(|part| Planned { window: window(part), departure }));
        }
        if let Some(leaving) = standing.leaving {
            let turns = self.logged(agent_id, thread.thread_id, leaving.between()).await?;
            let marker_seq = standing.context.beginning.compaction().map(|(seq, _)| seq);
            planned.extend(departures(&turns, leaving, (thread.thread_id, marker_seq)));
        }
        Ok(planned)
    }

    async fn standing(&self, thread: &Thread) -> Result<Standing, SummarizationError> {
        let context = self.contexts.read(&*self.tiers.store, thread.thread_id).await?;
        let beginning = &context.beginning;
        let condensed = match beginning.compaction() {
            Some((marker_seq, compaction)) => {
                let known = [Some(marker_seq), compaction.previous_seq];
                let after = self.kept_until(thread.thread_id, known).await?;
                // The turn whose request is still sent stays until the next compaction.
                let before = beginning.request_seq().unwrap_or(compaction.last_seq + 1);
                Some(Condensed { marker_seq, between: (after, before) })
            }
            None => None,
        };
        let newest = newest(thread.status, &context);
        let budget = self.tiers.settings.short_term_budget(self.window);
        let leaving = |from| leaving(&context, (&self.model, budget?), newest, from);
        let leaving = match (leaving(0), thread.parent_kind) {
            (Some(_), Some(ParentKind::Fork)) => leaving(self.own_from(thread).await?),
            (leaving, _) => leaving,
        };
        Ok(Standing { context, condensed, leaving })
    }

    /// Returns the last event of what memory took over because of these compactions: nothing before it is looked for again.
    async fn kept_until(&self, thread_id: ThreadId, markers: [Option<Seq>; 2]) -> journal::Result<Seq> {
        let types = vec![EventType::TurnsArchived];
        let query = EventQuery { types, limit: ARCHIVED_EVENTS, ..EventQuery::default() };
        let events = self.tiers.store.events(thread_id, query).await?;
        let archived = events.iter().filter_map(|event| serde_json::from_str(event.content.get()).ok());
        let kept = archived.filter(|archived: &TurnsArchived| {
            archived.reason == ArchiveReason::Compaction
                && archived.marker_seq.is_some()
                && markers.contains(&archived.marker_seq)
        });
        Ok(kept.map(|archived| archived.last_seq).max().unwrap_or(0))
    }

    /// Returns whether any turn of the thread is to become part of a summary.
    async fn is_due(&self, thread: &Thread) -> Result<bool, SummarizationError> {
        let standing = self.standing(thread).await?;
        let mut places = Vec::from_iter(standing.condensed.map(|condensed| condensed.between));
        places.extend(standing.leaving.map(|leaving| leaving.between()));
        for between in places {
            let query = TurnQuery { limit: 1, ..left(&thread.assistant_id, thread.thread_id, between) };
            if !self.tiers.store.turns(query).await?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns where the turns of the thread begin that were not copied from another one: those are that thread's, and no
    /// summary is made of them here.
    async fn own_from(&self, thread: &Thread) -> journal::Result<Seq> {
        let first = TurnQuery {
            thread_id: Some(thread.thread_id),
            limit: 1,
            ..TurnQuery::of(thread.assistant_id.clone())
        };
        Ok(self.tiers.store.turns(first).await?.first().map_or(Seq::MAX, |turn| turn.seq))
    }

    /// Returns the turns of the thread between two events that no summary stands for.
    async fn logged(
        &self,
        agent_id: &AssistantId,
        thread_id: ThreadId,
        between: (Seq, Seq),
    ) -> Result<Vec<Logged>, SummarizationError> {
        let mut turns = Vec::new();
        let mut query = TurnQuery { limit: PAGE_TURNS, ..left(agent_id, thread_id, between) };
        loop {
            let page = self.tiers.store.turns(query.clone()).await?;
            turns.extend(page.iter().map(|turn| Logged {
                turn_index: turn.turn_index,
                seq: turn.seq,
                is_persons: turn.role == TurnRole::User,
                second: turn.created_at.as_second(),
            }));
            match page.last() {
                Some(last) if page.len() == PAGE_TURNS => query.first = last.turn_index + 1,
                Some(_) | None => return Ok(turns),
            }
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

fn left(agent_id: &AssistantId, thread_id: ThreadId, (after, before): (Seq, Seq)) -> TurnQuery {
    TurnQuery {
        thread_id: Some(thread_id),
        after_seq: Some(after),
        before_seq: Some(before),
        archived: Some(false),
        ..TurnQuery::of(agent_id.clone())
    }
}

fn window_of(part: &[Logged], thread_id: ThreadId) -> TurnWindow {
    let ends = part.first().into_iter().chain(part.last());
    TurnWindow::of(ends.map(|turn| turn.turn_index)).in_thread(thread_id)
}

/// Divides what leaves a context among summaries; each takes with it what lies between its turns.
fn departures(
    turns: &[Logged],
    leaving: Leaving,
    (thread_id, marker_seq): (ThreadId, Option<Seq>),
) -> Vec<Planned> {
    let parts = parts(turns);
    let begins = |part: &[Logged]| part.first().map_or(0, |turn| turn.seq);
    let mut planned = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let first_seq = if at == 0 { leaving.first_seq } else { begins(part) };
        let last_seq = parts.get(at + 1).map_or(leaving.last_seq, |next| begins(next) - 1);
        let context_from = leaving.is_oldest.then_some(last_seq + 1);
        let departure = Departure::Budget { first_seq, last_seq, context_from, marker_seq };
        planned.push(Planned { window: window_of(part, thread_id), departure });
    }
    planned
}

/// Returns whether the newest turn has come to its end.
fn newest(status: ThreadStatus, context: &Context) -> Newest {
    let is_answered = match context.messages.last() {
        Some(message @ Message::Ai(answer)) => !answer.incomplete && message.tool_calls().next().is_none(),
        Some(Message::Human(_) | Message::Tool(_)) | None => false,
    };
    match status {
        ThreadStatus::Idle if is_answered => Newest::Complete,
        ThreadStatus::Idle | ThreadStatus::Busy | ThreadStatus::Interrupted | ThreadStatus::Error => {
            Newest::Open
        }
    }
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
