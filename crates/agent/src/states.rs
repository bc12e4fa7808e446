//! States: what a thread held at the points of its past: messages, channels, what would run next, what is asked. All branches are here; nothing is changed but by [`ThreadService::update_state`].

pub(crate) mod beginnings;
pub(crate) mod message;
pub(crate) mod points;
mod shape;
pub(crate) mod transcripts;
mod update;
mod window;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use journal::view::branches::Branches;
use journal::{CheckpointRef, Superseded};
use protocol::{
    CheckpointId, CheckpointSource, Interrupt, Run, RunId, RunStatus, Seq, StepPoint, Thread, ThreadId,
    ThreadStatus,
};
use runtime::Channels;
use serde_json::{Map, Value};

pub use self::message::StateMessage;
use self::points::{Point, base_before, has_input};
pub use self::shape::{GraphEdge, GraphPlace, GraphShape};
pub use self::transcripts::has_media;
pub use self::update::{Continuation, StateChange};
pub use self::window::ModelWindow;
use crate::agent::services::ThreadService;
use crate::{Result, ThreadError};

/// The most questions one step asks.
const QUESTIONS_MAX: usize = 64;

/// Points read at a time in search of a run's last one; few runs come between its end and the search.
const LAST_POINT_ROWS: usize = 64;

/// What a thread held at a point of its past.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// The point; ids sort in the order of creation.
    pub checkpoint_id: CheckpointId,
    /// The point before it on its branch.
    pub parent_id: Option<CheckpointId>,
    /// What wrote it.
    pub origin: StateOrigin,
    /// Its number along its branch: -1 for what first came in, and one higher for each later point.
    pub number: i64,
    /// The run that wrote it, if a run did.
    pub run_id: Option<RunId>,
    /// The nodes that would run next; empty when the thread is at rest, or something is about to be put in.
    pub next: Vec<String>,
    /// The messages in sight there, whatever was condensed.
    pub messages: Vec<Arc<StateMessage>>,
    /// The other channels that are a client's business.
    pub channels: Channels,
    /// What is asked: at the newest point what waits, at an earlier one what had been asked there.
    pub interrupts: Vec<Interrupt>,
    /// How the run failed that ended here; of the newest point only.
    pub error: Option<String>,
    /// When it was written.
    pub created_at: Timestamp,
    /// The client's notes about the run that wrote it.
    pub run_metadata: Map<String, Value>,
}

/// What wrote a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateOrigin {
    /// Nothing yet: something is about to be put in.
    Input,
    /// A step of a run.
    Step,
    /// A change of the state, or an import.
    Change,
    /// A rewind, behind which nothing new came in.
    Rewind,
}

/// Returns the channels that are a client's business: neither private ones nor what only the graph itself reads.
pub fn shown_channels(channels: &Channels) -> Channels {
    let is_shown = |name: &str| !name.starts_with('_') && name != runtime::TOOLS_WANTED_CHANNEL.key();
    let shown = channels.iter().filter(|(name, _)| is_shown(name));
    shown.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// A point that becomes a state.
struct Placed {
    point: Point,
    /// The point that was stored before it.
    previous: Option<StepPoint>,
    /// Whether a question of its node may have ended its run.
    may_ask: bool,
    is_head: bool,
}

impl ThreadService<'_> {
    /// Returns what the thread holds now; `None` where there is neither a point nor a message.
    ///
    /// # Errors
    /// When the thread does not exist, or the journal fails.
    pub async fn state(self, thread_id: ThreadId) -> Result<Option<State>> {
        let thread = self.agent.thread(thread_id).await?;
        let points = self.points(thread_id, None, 1).await?;
        Ok(self.put_together(&thread, points).await?.pop())
    }

    /// Returns what the thread held at a point of its past, whatever branch that is on.
    ///
    /// # Errors
    /// [`ThreadError::UnknownCheckpoint`] when there is no such point.
    pub async fn state_at(self, thread_id: ThreadId, given: CheckpointId) -> Result<State> {
        let thread = self.agent.thread(thread_id).await?;
        let unknown = || ThreadError::UnknownCheckpoint { thread_id, given };
        let point = self.point(thread_id, given).await?;
        let head = self.head_point(thread_id).await?;
        let is_head = head.as_ref().is_some_and(|head| head.id() == point.id());
        let previous = match &point {
            Point::Stored(stored) | Point::Input(stored) => {
                let before = Some(stored.checkpoint_id);
                self.agent.store.checkpoints(thread_id, before, 1, Superseded::Shown).await?.pop()
            }
            Point::Base { .. } => None,
        };
        let placed = Placed { may_ask: point.next().is_some(), point, previous, is_head };
        Ok(self.put_together(&thread, vec![placed]).await?.pop().ok_or_else(unknown)?)
    }

    /// Returns what the thread held at the points of its past, of all branches, newest first: those before `before`, or of
    /// all.
    ///
    /// # Errors
    /// [`ThreadError::UnknownCheckpoint`] when there is no such point; when the page has no rows or too many.
    pub async fn states(
        self,
        thread_id: ThreadId,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> Result<Vec<State>> {
        let thread = self.agent.thread(thread_id).await?;
        if limit == 0 || limit > journal::PAGE_ROWS_MAX {
            let reason = format!("the limit must be 1 to {}, not {limit}", journal::PAGE_ROWS_MAX);
            return Err(journal::Error::Invalid { what: "states", reason }.into());
        }
        let points = self.points(thread_id, before, limit).await?;
        self.put_together(&thread, points).await
    }

    /// Returns the state at the last point that the run wrote; for a run that never began, the state it found.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn last_state_of(self, run: &Run) -> Result<Option<State>> {
        let (thread_id, mut before) = (run.thread_id, None);
        loop {
            let page =
                self.agent.store.checkpoints(thread_id, before, LAST_POINT_ROWS, Superseded::Shown).await?;
            let is_last = |point: &&StepPoint| {
                let is_its_own = point.run_id == run.run_id || point.created_at < run.created_at;
                is_its_own && point.source != CheckpointSource::Rewind
            };
            if let Some(point) = page.iter().find(is_last) {
                return self.state_at(thread_id, point.checkpoint_id).await.map(Some);
            }
            if page.len() < LAST_POINT_ROWS {
                return Ok(None);
            }
            before = page.last().map(|point| point.checkpoint_id);
        }
    }

    /// Returns what is in sight of the thread and was said after `seq`.
    ///
    /// # Errors
    /// When the thread does not exist, or the journal fails.
    pub async fn messages_after(self, thread_id: ThreadId, seq: Seq) -> Result<Vec<Arc<StateMessage>>> {
        self.agent.thread(thread_id).await?;
        Ok(self.agent.transcripts.look(&*self.agent.store, thread_id, |all| all.after(seq)).await?)
    }

    /// Returns what was in sight of the thread when `head_seq` was its last event, whatever became of it since: nothing,
    /// where there is no such thread. A stream asks at each run's beginning, and no more is read than that takes.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn messages_at(self, thread_id: ThreadId, head_seq: Seq) -> Result<Vec<Arc<StateMessage>>> {
        Ok(self.agent.transcripts.look(&*self.agent.store, thread_id, |all| all.at(head_seq)).await?)
    }

    /// Returns up to `limit` points, newest first: those before `before`, or of all.
    async fn points(
        self,
        thread_id: ThreadId,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> Result<Vec<Placed>> {
        let given = match before {
            None => None,
            Some(before) => match self.point(thread_id, before).await? {
                Point::Base { .. } => return Ok(Vec::new()),
                Point::Input(admission) => Some((admission, false)),
                Point::Stored(point) => Some((point.clone(), has_input(&point))),
            },
        };
        let mut found = Vec::new();
        let (stored, is_end) =
            self.stored_points(thread_id, given.as_ref().map(|(point, _)| point), limit).await?;
        if let Some((admission, true)) = &given {
            found.push(Placed::new(Point::Input(admission.clone()), stored.first()));
        }
        // The last one is there for the one behind it.
        let shown = if is_end { stored.len() } else { stored.len().saturating_sub(1) };
        for (at, point) in stored[..shown].iter().enumerate() {
            let (is_head, previous) = (at == 0 && given.is_none(), stored.get(at + 1));
            if point.source == CheckpointSource::Rewind && !is_head {
                continue;
            }
            let newer = at.checked_sub(1).map(|at| stored[at].run_id);
            let may_ask = point.next.is_some() && newer != Some(point.run_id);
            found.push(Placed { may_ask, is_head, ..Placed::new(Point::Stored(point.clone()), previous) });
            if has_input(point) {
                found.push(Placed::new(Point::Input(point.clone()), previous));
            }
        }
        if is_end && found.len() < limit {
            let oldest = stored.last().cloned().or_else(|| given.map(|(point, _)| point));
            let is_head = found.is_empty() && oldest.is_none();
            let base = self.base(thread_id, oldest.as_ref()).await?;
            found.extend(base.map(|base| Placed { is_head, ..Placed::new(base, None) }));
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Returns stored points, newest first, until they give `limit` points and one is behind these, and whether there are
    /// no more.
    async fn stored_points(
        self,
        thread_id: ThreadId,
        before: Option<&StepPoint>,
        limit: usize,
    ) -> Result<(Vec<StepPoint>, bool)> {
        let rows = limit.saturating_add(1).min(journal::PAGE_ROWS_MAX);
        let mut from = before.map(|point| point.checkpoint_id);
        let (mut stored, mut given) = (Vec::new(), 0);
        loop {
            let page = self.agent.store.checkpoints(thread_id, from, rows, Superseded::Shown).await?;
            let is_end = page.len() < rows;
            let points = |point: &StepPoint| {
                usize::from(point.source != CheckpointSource::Rewind) + usize::from(has_input(point))
            };
            given += page.iter().map(points).sum::<usize>();
            from = page.last().map(|point| point.checkpoint_id).or(from);
            let spare = page.last().map_or(0, points);
            stored.extend(page);
            if is_end || given - spare >= limit {
                return Ok((stored, is_end));
            }
        }
    }

    /// Returns what the thread held before its oldest point, or all it holds where it has none.
    async fn base(self, thread_id: ThreadId, oldest: Option<&StepPoint>) -> Result<Option<Point>> {
        let Some(oldest) = oldest else { return self.head_point(thread_id).await };
        let base = |all: &transcripts::Transcript| base_before(thread_id, oldest, all);
        Ok(self.agent.transcripts.look(&*self.agent.store, thread_id, base).await?)
    }

    /// Puts the states of these points together.
    async fn put_together(self, thread: &Thread, points: Vec<Placed>) -> Result<Vec<State>> {
        let thread_id = thread.thread_id;
        let heads: Vec<Seq> = points.iter().map(|placed| placed.point.head_seq()).collect();
        let look = |all: &transcripts::Transcript| {
            (heads.iter().map(|head| all.at(*head)).collect::<Vec<_>>(), all.branches.clone())
        };
        let (messages, branches) = self.agent.transcripts.look(&*self.agent.store, thread_id, look).await?;
        let mut run_ids: Vec<RunId> = points.iter().filter_map(|placed| placed.point.run_id()).collect();
        run_ids.dedup();
        let asked: BTreeMap<RunId, Map<String, Value>> = match run_ids.is_empty() {
            true => BTreeMap::new(),
            false => self.agent.store.run_metadata(&run_ids).await?.into_iter().collect(),
        };
        let mut states = Vec::with_capacity(points.len());
        for (placed, messages) in points.iter().zip(messages) {
            let parent = self.parent(thread_id, placed, &branches).await?;
            let noted = placed.point.run_id().and_then(|run_id| asked.get(&run_id)).cloned();
            states.push(State {
                channels: shown_channels(&self.stored_channels(thread_id, &placed.point, parent).await?),
                parent_id: parent,
                messages,
                ..self.bare(thread, placed, &branches, noted.unwrap_or_default()).await?
            });
        }
        Ok(states)
    }

    /// Returns a state without what is said elsewhere: its messages, channels and parent.
    async fn bare(
        self,
        thread: &Thread,
        placed: &Placed,
        branches: &Branches,
        run_metadata: Map<String, Value>,
    ) -> Result<State> {
        let point = &placed.point;
        let interrupts = self.asked_at(thread, placed).await?;
        let mut next: Vec<String> = point.next().map(str::to_owned).into_iter().collect();
        for question in interrupts.iter().filter(|_| placed.is_head) {
            if !next.contains(&question.node) {
                next.push(question.node.clone());
            }
        }
        Ok(State {
            checkpoint_id: point.id(),
            parent_id: None,
            origin: placed.origin(branches),
            number: point.number(),
            run_id: point.run_id(),
            next,
            messages: Vec::new(),
            channels: Channels::new(),
            interrupts,
            error: self.failure_at(thread, placed).await?,
            created_at: point.created_at(),
            run_metadata,
        })
    }

    async fn parent(
        self,
        thread_id: ThreadId,
        placed: &Placed,
        branches: &Branches,
    ) -> Result<Option<CheckpointId>> {
        match &placed.point {
            Point::Base { .. } => Ok(None),
            Point::Stored(point) if has_input(point) => Ok(Some(Point::Input(point.clone()).id())),
            Point::Stored(point) | Point::Input(point) => {
                self.before(thread_id, placed.previous.as_ref(), point, branches).await
            }
        }
    }

    /// Returns the public channels of a point. Before something was put in they are those of the point before.
    async fn stored_channels(
        self,
        thread_id: ThreadId,
        point: &Point,
        parent: Option<CheckpointId>,
    ) -> Result<Channels> {
        let mut id = match point {
            Point::Stored(point) => Some(point.checkpoint_id),
            Point::Input(_) => parent,
            Point::Base { .. } => None,
        };
        while let Some(from) = id {
            let found =
                self.agent.store.checkpoint_at(thread_id, CheckpointRef::Id(from), Superseded::Shown).await?;
            match found {
                Some((_, channels)) => return Ok(channels),
                // What came in before this did has none of its own either.
                None => id = self.parent_of_input(thread_id, from).await?,
            }
        }
        Ok(Channels::new())
    }

    /// Returns the point before one that is not stored.
    async fn parent_of_input(self, thread_id: ThreadId, id: CheckpointId) -> Result<Option<CheckpointId>> {
        match self.point(thread_id, id).await? {
            Point::Input(admission) => self.before_stored(thread_id, &admission).await,
            Point::Stored(_) | Point::Base { .. } => Ok(None),
        }
    }

    /// Returns the point before a stored one, what that brought in not counted.
    async fn before_stored(self, thread_id: ThreadId, point: &StepPoint) -> Result<Option<CheckpointId>> {
        let before = Some(point.checkpoint_id);
        let previous = self.agent.store.checkpoints(thread_id, before, 1, Superseded::Shown).await?.pop();
        let branches =
            self.agent.transcripts.look(&*self.agent.store, thread_id, |all| all.branches.clone()).await?;
        self.before(thread_id, previous.as_ref(), point, &branches).await
    }

    /// Returns what is asked at the point: what waits there, or what had been asked.
    async fn asked_at(self, thread: &Thread, placed: &Placed) -> Result<Vec<Interrupt>> {
        if placed.is_head {
            return match thread.status {
                ThreadStatus::Idle => Ok(Vec::new()),
                ThreadStatus::Busy | ThreadStatus::Interrupted | ThreadStatus::Error => {
                    Ok(self.agent.store.pending_interrupts(thread.thread_id).await?)
                }
            };
        }
        let mut asked = Vec::new();
        let Point::Stored(point) = &placed.point else { return Ok(asked) };
        let Some(node) = point.next.as_deref().filter(|_| placed.may_ask) else { return Ok(asked) };
        while asked.len() < QUESTIONS_MAX {
            let id = runtime::interrupt_id(point.run_id, point.step, node, asked.len());
            match self.agent.store.interrupt(id).await? {
                Some(question) => asked.push(question),
                None => break,
            }
        }
        Ok(asked)
    }

    /// Returns how the run failed that ended at the newest point.
    async fn failure_at(self, thread: &Thread, placed: &Placed) -> Result<Option<String>> {
        let is_failed = placed.is_head && thread.status == ThreadStatus::Error;
        let Some(run_id) = placed.point.run_id().filter(|_| is_failed) else { return Ok(None) };
        let run = self.agent.store.run(run_id).await?;
        let failed = run.filter(|run| matches!(run.status, RunStatus::Error | RunStatus::Timeout));
        Ok(failed.and_then(|run| run.failure).map(|failure| failure.message))
    }
}

impl Placed {
    fn new(point: Point, previous: Option<&StepPoint>) -> Self {
        Self { point, previous: previous.cloned(), may_ask: false, is_head: false }
    }

    fn origin(&self, branches: &Branches) -> StateOrigin {
        let point = match &self.point {
            Point::Input(_) => return StateOrigin::Input,
            Point::Base { .. } => return StateOrigin::Change,
            Point::Stored(point) => point,
        };
        let after = self.previous.as_ref().map_or(0, |previous| previous.head_seq);
        let went_back =
            || branches.newest(after, point.head_seq).is_some_and(|back| back.checkpoint_id.is_some());
        match point.source {
            CheckpointSource::Update => StateOrigin::Change,
            CheckpointSource::Rewind => StateOrigin::Rewind,
            CheckpointSource::Loop if point.step == 0 && !has_input(point) && went_back() => {
                StateOrigin::Rewind
            }
            CheckpointSource::Loop => StateOrigin::Step,
        }
    }
}

#[cfg(test)]
mod tests;
