//! Plans the transfers of messages from a thread's context to memory. Messages are due if they were compacted or if they
//! exceed the context budget. Planning only reads; the worker performs the plan.

mod context_budget;

use journal::{EventQuery, PAGE_ROWS_MAX, TurnQuery};
use protocol::{
    ArchiveReason, AssistantId, EventType, Message, MessageRole, ParentKind, Seq, Thread, ThreadId,
    ThreadStatus, TurnsArchived,
};
use runtime::ModelContext;

use super::coverage::TurnSet;
use super::error::SummarizationError;
use super::queue_item::{QueuedTurns, ShortTermBudget, UnstoredSummary};
use super::transfer::TurnDeparture;
use super::window::TurnWindow;
use super::worker::SummarizationWorker;
use context_budget::{
    ContextLimit, DepartingRange, NewestTurnState, TurnPosition, divide_into_summaries, find_departing_range,
};

/// Number of logged messages that are read at a time.
const PAGE_TURNS: usize = 200;
/// Number of `turns_archived` events of the first page. The newest one is nearly always that of the compaction.
const ARCHIVED_ROWS_FIRST: usize = 4;

/// A planned transfer: messages of a thread that become one summary.
pub(super) struct TransferStep {
    pub window: TurnWindow,
    /// The way in which the messages leave the context.
    pub departure: TurnDeparture,
}

/// The progress of reducing one thread's context to its budget. It determines the limit that applies; see
/// [`ContextLimit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransferProgress {
    /// No messages have left the context yet.
    NotStarted,
    /// Some messages have left the context. More leave until the target is reached.
    InProgress,
}

/// An open interval of seqs: neither end belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeqInterval {
    pub after: Seq,
    pub before: Seq,
}

/// Messages that the newest compaction covers and that may not be summarized in memory yet.
#[derive(Clone, Copy)]
struct CompactedTurns {
    /// The seq of the compaction's event.
    marker_seq: Seq,
    /// The seqs of the messages.
    interval: SeqInterval,
}

impl SummarizationWorker {
    /// Returns the transfers that are due for a queue item, in the order in which they must be performed.
    ///
    /// If the first due messages are those of `draft`, they become a separate transfer. A summary that could not be stored
    /// can therefore still be used when more messages have become due in the meantime.
    ///
    /// # Errors
    /// When the journal fails.
    pub(super) async fn plan_transfers(
        &self,
        thread: &Thread,
        due: &QueuedTurns,
        draft: Option<&UnstoredSummary>,
        progress: TransferProgress,
    ) -> Result<Vec<TransferStep>, SummarizationError> {
        let context = self.contexts.read_context(&*self.summarization.store, thread.thread_id).await?;
        let Some(budget) = &due.budget else {
            let Some(CompactedTurns { marker_seq, interval }) =
                self.compacted_turns(thread, &context).await?
            else {
                return Ok(Vec::new());
            };
            let turns = self.read_unarchived_turns(&due.agent_id, thread.thread_id, interval).await?;
            let departure = TurnDeparture::Compaction { marker_seq };
            let steps = divide_turns(&turns, draft).into_iter();
            return Ok(steps
                .map(|part| TransferStep { window: turn_window(part, thread.thread_id), departure })
                .collect());
        };
        let Some(departing) = self.over_budget_range(thread, &context, budget, progress).await? else {
            return Ok(Vec::new());
        };
        let turns = self.read_unarchived_turns(&due.agent_id, thread.thread_id, departing.interval()).await?;
        let marker_seq = context.beginning.compaction().map(|(seq, _)| seq);
        Ok(plan_departures(&divide_turns(&turns, draft), departing, thread.thread_id, marker_seq))
    }

    /// Returns whether any message of the thread is due. With a budget, the messages that exceed it are due. Without a
    /// budget, the messages that were compacted are due.
    ///
    /// # Errors
    /// When the journal fails.
    pub(super) async fn has_due_turns(
        &self,
        thread: &Thread,
        budget: Option<&ShortTermBudget>,
    ) -> Result<bool, SummarizationError> {
        let context = self.contexts.read_context(&*self.summarization.store, thread.thread_id).await?;
        let interval = match budget {
            Some(budget) => {
                let departing =
                    self.over_budget_range(thread, &context, budget, TransferProgress::NotStarted).await?;
                departing.map(|departing| departing.interval())
            }
            None => self.compacted_turns(thread, &context).await?.map(|compacted| compacted.interval),
        };
        let Some(interval) = interval else { return Ok(false) };
        let query =
            TurnQuery { limit: 1, ..unarchived_query(&thread.assistant_id, thread.thread_id, interval) };
        Ok(!self.summarization.store.turns(query).await?.is_empty())
    }

    /// Returns the messages that the newest compaction covers, without those that memory already archived because of this
    /// compaction or the previous one. Returns `None` when the thread has no compaction.
    async fn compacted_turns(
        &self,
        thread: &Thread,
        context: &ModelContext,
    ) -> journal::Result<Option<CompactedTurns>> {
        let beginning = &context.beginning;
        let Some((marker_seq, compaction)) = beginning.compaction() else { return Ok(None) };
        let after = self.archived_until(thread.thread_id, compaction.previous_seq, marker_seq).await?;
        // The context still contains the request that the compaction kept, so the messages of that request's turn are
        // not due before the next compaction.
        let before = beginning.request_seq().unwrap_or(compaction.last_seq + 1);
        Ok(Some(CompactedTurns { marker_seq, interval: SeqInterval { after, before } }))
    }

    /// Returns the messages that must leave the context so that it is within the budget. Returns `None` when the context
    /// is within the budget, or when no message can leave it.
    async fn over_budget_range(
        &self,
        thread: &Thread,
        context: &ModelContext,
        budget: &ShortTermBudget,
        progress: TransferProgress,
    ) -> journal::Result<Option<DepartingRange>> {
        let limit = match progress {
            TransferProgress::NotStarted => ContextLimit::from_budget(&budget.model, budget.tokens),
            TransferProgress::InProgress => {
                ContextLimit::from_budget(&budget.model, budget.tokens).in_progress()
            }
        };
        let newest = newest_turn_state(thread.status, context);
        let range = find_departing_range(context, limit, newest, 0);
        if range.is_none() || thread.parent_kind != Some(ParentKind::Fork) {
            return Ok(range);
        }
        // Copied messages of a fork stay in its context: they are logged for their own thread and are not summarized
        // here.
        let from = self.first_own_seq(thread, context).await?;
        Ok(find_departing_range(context, limit, newest, from))
    }

    /// Returns the last seq that memory archived because of the compaction `marker_seq` or the previous compaction, or 0
    /// if there is none. Messages up to that seq are not due again.
    ///
    /// The parts of a compaction are archived in ascending order, so its newest event has the last seq. Reading begins
    /// there, because a long thread has hundreds of these events.
    async fn archived_until(
        &self,
        thread_id: ThreadId,
        previous_seq: Option<Seq>,
        marker_seq: Seq,
    ) -> journal::Result<Seq> {
        let marker_seqs = [Some(marker_seq), previous_seq];
        let belongs_to_compaction = |archived: &TurnsArchived| {
            archived.reason == ArchiveReason::Compaction
                && archived.marker_seq.is_some()
                && marker_seqs.contains(&archived.marker_seq)
        };
        let mut query = EventQuery {
            types: vec![EventType::TurnsArchived],
            limit: ARCHIVED_ROWS_FIRST,
            ..EventQuery::default()
        };
        let oldest = previous_seq.unwrap_or(marker_seq);
        loop {
            let page = self.summarization.store.events(thread_id, query.clone()).await?;
            let archived = page.iter().filter_map(|event| event.body().ok()).filter(belongs_to_compaction);
            if let Some(archived_until) = archived.map(|archived: TurnsArchived| archived.last_seq).max() {
                return Ok(archived_until);
            }
            match page.first() {
                Some(first) if page.len() == query.limit && first.seq > oldest => {
                    query.before = Some(first.seq);
                    query.limit = PAGE_ROWS_MAX;
                }
                Some(_) | None => return Ok(0),
            }
        }
    }

    /// Returns the seq of the first logged message in the fork's context that was not copied from another thread.
    /// Copied messages are logged only for the thread they were copied from. Returns [`Seq::MAX`] when all messages
    /// are copies.
    async fn first_own_seq(&self, thread: &Thread, context: &ModelContext) -> journal::Result<Seq> {
        let sent_from = context.seqs.get(context.summary_len).copied().unwrap_or_default();
        let first = TurnQuery {
            thread_id: Some(thread.thread_id),
            after_seq: Some(sent_from.saturating_sub(1)),
            limit: 1,
            ..TurnQuery::for_agent(thread.assistant_id.clone())
        };
        Ok(self.summarization.store.turns(first).await?.first().map_or(Seq::MAX, |turn| turn.seq))
    }

    /// Returns the positions of all logged messages of the thread in the interval that have no summary yet. The texts
    /// are not kept in memory.
    async fn read_unarchived_turns(
        &self,
        agent_id: &AssistantId,
        thread_id: ThreadId,
        interval: SeqInterval,
    ) -> Result<Vec<TurnPosition>, SummarizationError> {
        let mut turns = Vec::new();
        let mut query = TurnQuery { limit: PAGE_TURNS, ..unarchived_query(agent_id, thread_id, interval) };
        loop {
            let page = self.summarization.store.turns(query.clone()).await?;
            turns.extend(page.iter().map(|turn| TurnPosition {
                turn_index: turn.turn_index,
                seq: turn.seq,
                is_user: turn.role == MessageRole::User,
                second: turn.created_at.as_second(),
            }));
            match page.last() {
                Some(last) if page.len() == PAGE_TURNS => query.first = last.turn_index + 1,
                Some(_) | None => return Ok(turns),
            }
        }
    }
}

/// Returns a query for the logged messages of the thread in the interval that have no summary yet.
fn unarchived_query(agent_id: &AssistantId, thread_id: ThreadId, interval: SeqInterval) -> TurnQuery {
    TurnQuery {
        thread_id: Some(thread_id),
        after_seq: Some(interval.after),
        before_seq: Some(interval.before),
        archived: Some(false),
        ..TurnQuery::for_agent(agent_id.clone())
    }
}

/// Returns the window from the first to the last of these messages.
fn turn_window(part: &[TurnPosition], thread_id: ThreadId) -> TurnWindow {
    let ends = part.first().into_iter().chain(part.last());
    TurnWindow::from_indexes(ends.map(|turn| turn.turn_index)).in_thread(thread_id)
}

/// Divides messages among summaries. If the first messages are exactly those of the draft, they are the first part.
fn divide_turns<'a>(turns: &'a [TurnPosition], draft: Option<&UnstoredSummary>) -> Vec<&'a [TurnPosition]> {
    let draft_split = draft.and_then(|draft| {
        let count = usize::try_from(draft.turns.count).ok()?;
        let (summarized, others) = turns.split_at_checked(count)?;
        let ends_at_turn = others.first().is_none_or(|next| next.is_user);
        let is_same =
            TurnSet::from_indexes(summarized.iter().map(|turn| turn.turn_index)) == Some(draft.turns);
        (ends_at_turn && is_same).then_some((summarized, others))
    });
    match draft_split {
        Some((summarized, others)) => {
            std::iter::once(summarized).chain(divide_into_summaries(others)).collect()
        }
        None => divide_into_summaries(turns),
    }
}

/// Returns one step for each part of the messages that leave a context. Each step also removes the events between its
/// messages, such as tool calls. Together the steps cover the whole range.
fn plan_departures(
    parts: &[&[TurnPosition]],
    departing: DepartingRange,
    thread_id: ThreadId,
    marker_seq: Option<Seq>,
) -> Vec<TransferStep> {
    let start_seq = |part: &[TurnPosition]| part.first().map_or(0, |turn| turn.seq);
    let mut steps = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let first_seq = if index == 0 { departing.first_seq } else { start_seq(part) };
        let last_seq = parts.get(index + 1).map_or(departing.last_seq, |next| start_seq(next) - 1);
        let context_from = departing.is_oldest.then_some(last_seq + 1);
        let departure = TurnDeparture::Budget { first_seq, last_seq, context_from, marker_seq };
        steps.push(TransferStep { window: turn_window(part, thread_id), departure });
    }
    steps
}

/// Returns the state of the newest turn. It is complete when the thread is idle and its last message is a complete
/// answer without tool calls.
fn newest_turn_state(status: ThreadStatus, context: &ModelContext) -> NewestTurnState {
    let is_answered = match context.messages.last() {
        Some(message @ Message::Ai(answer)) => !answer.incomplete && message.tool_calls().next().is_none(),
        Some(Message::Human(_) | Message::Tool(_)) | None => false,
    };
    match status {
        ThreadStatus::Idle if is_answered => NewestTurnState::Complete,
        ThreadStatus::Idle | ThreadStatus::Busy | ThreadStatus::Interrupted | ThreadStatus::Error => {
            NewestTurnState::Open
        }
    }
}
