//! What is due in a thread as it is: the turns that a compaction condensed, or those that leave because of the budget, part
//! by part. It reads; what is done about it is decided elsewhere.

mod leaving;

use journal::{EventQuery, PAGE_ROWS_MAX, TurnQuery};
use protocol::{
    ArchiveReason, AssistantId, EventType, Message, ParentKind, Seq, Thread, ThreadId, ThreadStatus,
    TurnRole, TurnsArchived,
};
use runtime::Context;

use super::due::{Budget, Draft, Due};
use super::error::SummarizationError;
use super::seen::TurnSet;
use super::transfer::Departure;
use super::window::TurnWindow;
use super::worker::Tiering;
use leaving::{Leaving, Limit, Logged, Newest, leaving, parts};

/// Turns that are read at a time.
const PAGE_TURNS: usize = 200;

/// Turns of a thread that become one summary.
pub(super) struct Step {
    pub window: TurnWindow,
    pub departure: Departure,
}

/// How far the work on a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing has left.
    Begun,
    /// Some of its turns have left, and the others follow.
    Underway,
}

/// The events between which turns are looked for; neither belongs to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Between {
    pub after: Seq,
    pub before: Seq,
}

/// What a compaction condensed and memory may not have yet.
#[derive(Clone, Copy)]
struct Condensed {
    marker_seq: Seq,
    /// Where its turns are.
    between: Between,
}

impl Tiering {
    /// Returns what is due, in the order in which it is done. Turns that a draft tells of are a part of their own when they
    /// come first: what was said since does not make it worthless.
    pub(super) async fn plan(
        &self,
        thread: &Thread,
        due: &Due,
        draft: Option<&Draft>,
        progress: Progress,
    ) -> Result<Vec<Step>, SummarizationError> {
        let context = self.contexts.read(&*self.tiers.store, thread.thread_id).await?;
        let Some(budget) = &due.budget else {
            let Some(Condensed { marker_seq, between }) = self.condensed(thread, &context).await? else {
                return Ok(Vec::new());
            };
            let turns = self.logged(&due.agent_id, thread.thread_id, between).await?;
            let departure = Departure::Compaction { marker_seq };
            let steps = divided(&turns, draft).into_iter();
            return Ok(steps
                .map(|part| Step { window: window_of(part, thread.thread_id), departure })
                .collect());
        };
        let Some(leaving) = self.leaving(thread, &context, budget, progress).await? else {
            return Ok(Vec::new());
        };
        let turns = self.logged(&due.agent_id, thread.thread_id, leaving.between()).await?;
        let marker_seq = context.beginning.compaction().map(|(seq, _)| seq);
        Ok(departures(&divided(&turns, draft), leaving, thread.thread_id, marker_seq))
    }

    /// Returns whether any turn of the thread is due for one reason or the other: condensed by a compaction, or over that
    /// budget.
    pub(super) async fn is_due(
        &self,
        thread: &Thread,
        budget: Option<&Budget>,
    ) -> Result<bool, SummarizationError> {
        let context = self.contexts.read(&*self.tiers.store, thread.thread_id).await?;
        let between = match budget {
            Some(budget) => {
                let leaving = self.leaving(thread, &context, budget, Progress::Begun).await?;
                leaving.map(|leaving| leaving.between())
            }
            None => self.condensed(thread, &context).await?.map(|condensed| condensed.between),
        };
        let Some(between) = between else { return Ok(false) };
        let query = TurnQuery { limit: 1, ..left(&thread.assistant_id, thread.thread_id, between) };
        Ok(!self.tiers.store.turns(query).await?.is_empty())
    }

    async fn condensed(&self, thread: &Thread, context: &Context) -> journal::Result<Option<Condensed>> {
        let beginning = &context.beginning;
        let Some((marker_seq, compaction)) = beginning.compaction() else { return Ok(None) };
        let after = self.kept_until(thread.thread_id, compaction.previous_seq, marker_seq).await?;
        // The turn whose request is still sent stays until the next compaction.
        let before = beginning.request_seq().unwrap_or(compaction.last_seq + 1);
        Ok(Some(Condensed { marker_seq, between: Between { after, before } }))
    }

    async fn leaving(
        &self,
        thread: &Thread,
        context: &Context,
        budget: &Budget,
        progress: Progress,
    ) -> journal::Result<Option<Leaving>> {
        let limit = match progress {
            Progress::Begun => Limit::of(&budget.model, budget.tokens),
            Progress::Underway => Limit::of(&budget.model, budget.tokens).underway(),
        };
        let newest = newest(thread.status, context);
        let found = leaving(context, limit, newest, 0);
        if found.is_none() || thread.parent_kind != Some(ParentKind::Fork) {
            return Ok(found);
        }
        let from = self.own_from(thread, context).await?;
        Ok(leaving(context, limit, newest, from))
    }

    /// Returns the last event of what memory took over because of a compaction or of the one before it: nothing up to there
    /// is looked for again.
    async fn kept_until(
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
            let page = self.tiers.store.events(thread_id, query).await?;
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
    async fn own_from(&self, thread: &Thread, context: &Context) -> journal::Result<Seq> {
        let sent_from = context.seqs.get(context.opening).copied().unwrap_or_default();
        let first = TurnQuery {
            thread_id: Some(thread.thread_id),
            after_seq: Some(sent_from.saturating_sub(1)),
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
        between: Between,
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
}

fn left(agent_id: &AssistantId, thread_id: ThreadId, between: Between) -> TurnQuery {
    TurnQuery {
        thread_id: Some(thread_id),
        after_seq: Some(between.after),
        before_seq: Some(between.before),
        archived: Some(false),
        ..TurnQuery::of(agent_id.clone())
    }
}

fn window_of(part: &[Logged], thread_id: ThreadId) -> TurnWindow {
    let ends = part.first().into_iter().chain(part.last());
    TurnWindow::of(ends.map(|turn| turn.turn_index)).in_thread(thread_id)
}

/// Divides turns among summaries: first those that a draft tells of, when exactly they come first.
fn divided<'a>(turns: &'a [Logged], draft: Option<&Draft>) -> Vec<&'a [Logged]> {
    let told = draft.and_then(|draft| {
        let count = usize::try_from(draft.turns.count).ok()?;
        let (told, rest) = turns.split_at_checked(count)?;
        let is_whole = rest.first().is_none_or(|next| next.is_persons);
        let is_same = TurnSet::of(told.iter().map(|turn| turn.turn_index)) == Some(draft.turns);
        (is_whole && is_same).then_some((told, rest))
    });
    match told {
        Some((told, rest)) => std::iter::once(told).chain(parts(rest)).collect(),
        None => parts(turns),
    }
}

/// Returns how the parts of what leaves a context leave; each takes with it what lies between its turns.
fn departures(
    parts: &[&[Logged]],
    leaving: Leaving,
    thread_id: ThreadId,
    marker_seq: Option<Seq>,
) -> Vec<Step> {
    let begins = |part: &[Logged]| part.first().map_or(0, |turn| turn.seq);
    let mut steps = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let first_seq = if at == 0 { leaving.first_seq } else { begins(part) };
        let last_seq = parts.get(at + 1).map_or(leaving.last_seq, |next| begins(next) - 1);
        let context_from = leaving.is_oldest.then_some(last_seq + 1);
        let departure = Departure::Budget { first_seq, last_seq, context_from, marker_seq };
        steps.push(Step { window: window_of(part, thread_id), departure });
    }
    steps
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
