//! Plans the transfers that are due in a thread: turns that were compacted, and turns that exceed the budget.
//! Only reads; the worker performs the plan.

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

/// Turns that are read at a time.
const PAGE_TURNS: usize = 200;

/// Turns of a thread that become one summary.
pub(super) struct TransferStep {
    pub window: TurnWindow,
    pub departure: TurnDeparture,
}

/// How far the work on a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransferProgress {
    /// Nothing has left.
    NotStarted,
    /// Some of its turns have left, and the others follow.
    InProgress,
}

/// The events between which turns are looked for; neither belongs to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeqInterval {
    pub after: Seq,
    pub before: Seq,
}

/// Compacted turns that may not be in memory yet.
#[derive(Clone, Copy)]
struct CompactedTurns {
    marker_seq: Seq,
    /// Where its turns are.
    interval: SeqInterval,
}

impl SummarizationWorker {
    /// Returns what is due, in the order in which it is done. Turns that a draft tells of are a part of their own when they
    /// come first: what was said since does not make it worthless.
    pub(super) async fn plan_transfers(
        &self,
        thread: &Thread,
        due: &QueuedTurns,
        draft: Option<&UnstoredSummary>,
        progress: TransferProgress,
    ) -> Result<Vec<TransferStep>, SummarizationError> {
        let context = self.contexts.read_context(&*self.summarization.store, thread.thread_id).await?;
        let Some(budget) = &due.budget else {
            let Some(CompactedTurns { marker_seq, interval: between }) =
                self.compacted_turns(thread, &context).await?
            else {
                return Ok(Vec::new());
            };
            let turns = self.read_unarchived_turns(&due.agent_id, thread.thread_id, between).await?;
            let departure = TurnDeparture::Compaction { marker_seq };
            let steps = divide_turns(&turns, draft).into_iter();
            return Ok(steps
                .map(|part| TransferStep { window: turn_window(part, thread.thread_id), departure })
                .collect());
        };
        let Some(leaving) = self.over_budget_range(thread, &context, budget, progress).await? else {
            return Ok(Vec::new());
        };
        let turns = self.read_unarchived_turns(&due.agent_id, thread.thread_id, leaving.interval()).await?;
        let marker_seq = context.beginning.compaction().map(|(seq, _)| seq);
        Ok(plan_departures(&divide_turns(&turns, draft), leaving, thread.thread_id, marker_seq))
    }

    /// Returns whether any turn of the thread is due for one reason or the other: compacted, or over that
    /// budget.
    pub(super) async fn has_due_turns(
        &self,
        thread: &Thread,
        budget: Option<&ShortTermBudget>,
    ) -> Result<bool, SummarizationError> {
        let context = self.contexts.read_context(&*self.summarization.store, thread.thread_id).await?;
        let between = match budget {
            Some(budget) => {
                let leaving =
                    self.over_budget_range(thread, &context, budget, TransferProgress::NotStarted).await?;
                leaving.map(|leaving| leaving.interval())
            }
            None => self.compacted_turns(thread, &context).await?.map(|condensed| condensed.interval),
        };
        let Some(between) = between else { return Ok(false) };
        let query =
            TurnQuery { limit: 1, ..unarchived_query(&thread.assistant_id, thread.thread_id, between) };
        Ok(!self.summarization.store.turns(query).await?.is_empty())
    }

    async fn compacted_turns(
        &self,
        thread: &Thread,
        context: &ModelContext,
    ) -> journal::Result<Option<CompactedTurns>> {
        let beginning = &context.beginning;
        let Some((marker_seq, compaction)) = beginning.compaction() else { return Ok(None) };
        let after = self.archived_until(thread.thread_id, compaction.previous_seq, marker_seq).await?;
        // The turn whose request is still sent stays until the next compaction.
        let before = beginning.request_seq().unwrap_or(compaction.last_seq + 1);
        Ok(Some(CompactedTurns { marker_seq, interval: SeqInterval { after, before } }))
    }

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
        let found = find_departing_range(context, limit, newest, 0);
        if found.is_none() || thread.parent_kind != Some(ParentKind::Fork) {
            return Ok(found);
        }
        let from = self.first_own_seq(thread, context).await?;
        Ok(find_departing_range(context, limit, newest, from))
    }

    /// Returns the last event of what memory took over because of a compaction or of the one before it: nothing up to there
    /// is looked for again.
    async fn archived_until(
        &self,
        thread_id: ThreadId,
        previous_seq: Option<Seq>,
        marker_seq: Seq,
    ) -> journal::Result<Seq> {
        let known = [Some(marker_seq), previous_seq];
        let (mut kept, mut after) = (0, previous_seq.unwrap_or(marker_seq));
        loop {
            let types = vec![EventType::TurnsArchived];
            let query = EventQuery { types, ..EventQuery::after(after, PAGE_ROWS_MAX) };
            let page = self.summarization.store.events(thread_id, query).await?;
            let archived = page.iter().filter_map(|event| event.body().ok());
            let archived = archived.filter(|archived: &TurnsArchived| {
                archived.reason == ArchiveReason::Compaction
                    && archived.marker_seq.is_some()
                    && known.contains(&archived.marker_seq)
            });
            kept = archived.map(|archived| archived.last_seq).fold(kept, Seq::max);
            match page.last() {
                Some(last) if page.len() == PAGE_ROWS_MAX => after = last.seq,
                Some(_) | None => return Ok(kept),
            }
        }
    }

    /// Returns where the turns in the fork's context begin that were not copied from another thread: those are that
    /// thread's, and no summary is made of them here.
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

    /// Returns the turns of the thread between two events that no summary stands for.
    async fn read_unarchived_turns(
        &self,
        agent_id: &AssistantId,
        thread_id: ThreadId,
        between: SeqInterval,
    ) -> Result<Vec<TurnPosition>, SummarizationError> {
        let mut turns = Vec::new();
        let mut query = TurnQuery { limit: PAGE_TURNS, ..unarchived_query(agent_id, thread_id, between) };
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

fn unarchived_query(agent_id: &AssistantId, thread_id: ThreadId, between: SeqInterval) -> TurnQuery {
    TurnQuery {
        thread_id: Some(thread_id),
        after_seq: Some(between.after),
        before_seq: Some(between.before),
        archived: Some(false),
        ..TurnQuery::for_agent(agent_id.clone())
    }
}

fn turn_window(part: &[TurnPosition], thread_id: ThreadId) -> TurnWindow {
    let ends = part.first().into_iter().chain(part.last());
    TurnWindow::from_indexes(ends.map(|turn| turn.turn_index)).in_thread(thread_id)
}

/// Divides turns among summaries: first those that a draft tells of, when exactly they come first.
fn divide_turns<'a>(turns: &'a [TurnPosition], draft: Option<&UnstoredSummary>) -> Vec<&'a [TurnPosition]> {
    let told = draft.and_then(|draft| {
        let count = usize::try_from(draft.turns.count).ok()?;
        let (told, rest) = turns.split_at_checked(count)?;
        let is_whole = rest.first().is_none_or(|next| next.is_user);
        let is_same = TurnSet::from_indexes(told.iter().map(|turn| turn.turn_index)) == Some(draft.turns);
        (is_whole && is_same).then_some((told, rest))
    });
    match told {
        Some((told, rest)) => std::iter::once(told).chain(divide_into_summaries(rest)).collect(),
        None => divide_into_summaries(turns),
    }
}

/// Returns how the parts of what leaves a context leave; each takes with it what lies between its turns.
fn plan_departures(
    parts: &[&[TurnPosition]],
    leaving: DepartingRange,
    thread_id: ThreadId,
    marker_seq: Option<Seq>,
) -> Vec<TransferStep> {
    let begins = |part: &[TurnPosition]| part.first().map_or(0, |turn| turn.seq);
    let mut steps = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let first_seq = if at == 0 { leaving.first_seq } else { begins(part) };
        let last_seq = parts.get(at + 1).map_or(leaving.last_seq, |next| begins(next) - 1);
        let context_from = leaving.is_oldest.then_some(last_seq + 1);
        let departure = TurnDeparture::Budget { first_seq, last_seq, context_from, marker_seq };
        steps.push(TransferStep { window: turn_window(part, thread_id), departure });
    }
    steps
}

/// Returns whether the newest turn has come to its end.
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
