//! Snapshots of a thread's past: messages, channels, the next node and pending questions at each checkpoint,
//! on all branches. Only [`ThreadService::update_state`] changes a state.

pub(crate) mod branching;
pub(crate) mod message;
pub(crate) mod points;
pub(crate) mod transcript_cache;
mod update;
mod window;

use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use journal::view::branches::BranchHistory;
use journal::{CheckpointRef, SupersededVisibility};
use protocol::{
    CheckpointEntry, CheckpointId, CheckpointSource, Interrupt, Run, RunId, RunStatus, Seq, Thread, ThreadId,
    ThreadStatus,
};
use runtime::Channels;
use serde_json::{Map, Value};

pub use self::message::StateMessage;
use self::points::{HistoryPoint, base_point_before, has_input};
pub use self::transcript_cache::has_media;
pub use self::update::{Continuation, StateChange};
pub use self::window::ModelWindow;
use crate::ThreadService;
use crate::{Result, ThreadError};

/// The most questions of one step.
const QUESTIONS_MAX: usize = 64;

/// Checkpoints per page when the last one of a run is searched. Few runs start between a run's end and that
/// search, so one page usually suffices.
const LAST_POINT_PAGE_ROWS: usize = 64;

/// A snapshot of a thread at a point of its past.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadSnapshot {
    /// The id of the checkpoint. Ids sort in the order of creation.
    pub checkpoint_id: CheckpointId,
    /// The checkpoint before it on its branch; `None` for the first one.
    pub parent_id: Option<CheckpointId>,
    /// The origin of the snapshot.
    pub origin: StateOrigin,
    /// Its number along its branch: -1 for the first input, and one higher for each later checkpoint.
    pub number: i64,
    /// The run that wrote it; `None` if a client's change or an import did.
    pub run_id: Option<RunId>,
    /// The nodes that would run next. Empty if the thread is idle, and for a snapshot that precedes an input.
    pub next: Vec<String>,
    /// The messages that are visible there, including compacted ones.
    pub messages: Vec<Arc<StateMessage>>,
    /// The other channels that clients may see.
    pub channels: Channels,
    /// The interrupts: the pending ones at the current checkpoint, and at an earlier one those that were
    /// raised there.
    pub interrupts: Vec<Interrupt>,
    /// The failure of the run that ended there. It is set for the current checkpoint only.
    pub error: Option<String>,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The client's metadata of the run that wrote it.
    pub run_metadata: Map<String, Value>,
}

/// The origin of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateOrigin {
    /// It precedes an input that an admission brings in.
    Input,
    /// A step of a run wrote it.
    Step,
    /// A client's change of the state wrote it, or the thread was imported or copied.
    Change,
    /// A rewind wrote it, and no input follows at that point.
    Rewind,
}

/// Returns the channels that clients may see: neither private ones nor those that only the graph's edges
/// read.
pub fn client_channels(channels: &Channels) -> Channels {
    let is_public = |name: &str| !name.starts_with('_') && name != runtime::HAS_TOOL_CALLS_CHANNEL.key();
    let public = channels.iter().filter(|(name, _)| is_public(name));
    public.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// A point with the context that is needed to build its snapshot.
struct PointContext {
    /// The point.
    point: HistoryPoint,
    /// The checkpoint that was stored before it, on whatever branch.
    previous_point: Option<CheckpointEntry>,
    /// True if its run may have been interrupted at this point.
    can_have_interrupt: bool,
    /// True if it is the current point of the thread.
    is_head: bool,
}

impl<'a> ThreadService<'a> {
    /// Returns the current snapshot of the thread; `None` if the thread has neither a checkpoint nor a
    /// message.
    ///
    /// # Errors
    /// Fails if the thread does not exist, or if the journal fails.
    pub fn state(self, thread_id: ThreadId) -> BoxFuture<'a, Result<Option<ThreadSnapshot>>> {
        journal::box_future(async move {
            let thread = self.agent.thread(thread_id).await?;
            let points = self.point_page(thread_id, None, 1).await?;
            Ok(self.assemble_states(&thread, points).await?.pop())
        })
    }

    /// Returns the snapshot at a checkpoint, on whatever branch it is.
    ///
    /// # Errors
    /// [`ThreadError::UnknownCheckpoint`] if the thread has no such checkpoint. Also fails if the thread does
    /// not exist, or if the journal fails.
    pub fn state_at(self, thread_id: ThreadId, given: CheckpointId) -> BoxFuture<'a, Result<ThreadSnapshot>> {
        journal::box_future(async move {
            let thread = self.agent.thread(thread_id).await?;
            let unknown = || ThreadError::UnknownCheckpoint { thread_id, given };
            let point = self.point(thread_id, given).await?;
            let head = self.head_point(thread_id).await?;
            let is_head = head.as_ref().is_some_and(|head| head.id() == point.id());
            let previous = match &point {
                HistoryPoint::Stored(stored) | HistoryPoint::Input(stored) => {
                    let before = Some(stored.checkpoint_id);
                    self.agent
                        .store
                        .checkpoints(thread_id, before, 1, SupersededVisibility::Shown)
                        .await?
                        .pop()
                }
                HistoryPoint::Base { .. } => None,
            };
            let context = PointContext {
                can_have_interrupt: point.next_node().is_some(),
                point,
                previous_point: previous,
                is_head,
            };
            Ok(self.assemble_states(&thread, vec![context]).await?.pop().ok_or_else(unknown)?)
        })
    }

    /// Returns a page of snapshots of all branches, newest first, from the newest one or from the first one
    /// before `before`.
    ///
    /// # Errors
    /// [`ThreadError::UnknownCheckpoint`] if `before` does not exist. Also fails if the page has no rows or
    /// more than [`journal::PAGE_ROWS_MAX`], if the thread does not exist, or if the journal fails.
    pub fn states(
        self,
        thread_id: ThreadId,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<ThreadSnapshot>>> {
        journal::box_future(async move {
            let thread = self.agent.thread(thread_id).await?;
            if limit == 0 || limit > journal::PAGE_ROWS_MAX {
                let reason = format!("the limit must be 1 to {}, not {limit}", journal::PAGE_ROWS_MAX);
                return Err(journal::Error::InvalidRequest { what: "states", reason }.into());
            }
            let points = self.point_page(thread_id, before, limit).await?;
            self.assemble_states(&thread, points).await
        })
    }

    /// Returns the snapshot at the last checkpoint that the run wrote. For a run that never started, returns
    /// the snapshot that existed when it was created; `None` if there is none.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn last_state_of_run(self, run: &'a Run) -> BoxFuture<'a, Result<Option<ThreadSnapshot>>> {
        journal::box_future(async move {
            let (thread_id, mut before) = (run.thread_id, None);
            loop {
                let page = self
                    .agent
                    .store
                    .checkpoints(thread_id, before, LAST_POINT_PAGE_ROWS, SupersededVisibility::Shown)
                    .await?;
                let is_last = |point: &&CheckpointEntry| {
                    let is_candidate = point.run_id == run.run_id || point.created_at < run.created_at;
                    is_candidate && point.source != CheckpointSource::Rewind
                };
                if let Some(point) = page.iter().find(is_last) {
                    return self.state_at(thread_id, point.checkpoint_id).await.map(Some);
                }
                if page.len() < LAST_POINT_PAGE_ROWS {
                    return Ok(None);
                }
                before = page.last().map(|point| point.checkpoint_id);
            }
        })
    }

    /// Returns the visible messages of the thread after `seq`.
    ///
    /// # Errors
    /// Fails if the thread does not exist, or if the journal fails.
    pub fn messages_after(
        self,
        thread_id: ThreadId,
        seq: Seq,
    ) -> BoxFuture<'a, Result<Vec<Arc<StateMessage>>>> {
        journal::box_future(async move {
            self.agent.thread(thread_id).await?;
            Ok(self
                .agent
                .transcripts
                .with_transcript(&*self.agent.store, thread_id, |all| all.visible_after(seq))
                .await?)
        })
    }

    /// Returns the messages that were visible when `head_seq` was the thread's last event, including those
    /// that were rewound since. A missing thread has none.
    ///
    /// The transcript cache reads only new events, because a stream calls this at the start of each run.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn messages_at(
        self,
        thread_id: ThreadId,
        head_seq: Seq,
    ) -> BoxFuture<'a, Result<Vec<Arc<StateMessage>>>> {
        journal::box_future(async move {
            Ok(self
                .agent
                .transcripts
                .with_transcript(&*self.agent.store, thread_id, |all| all.visible_at(head_seq))
                .await?)
        })
    }

    /// Returns up to `limit` points, newest first, from the newest one or from the first one before `before`.
    async fn point_page(
        self,
        thread_id: ThreadId,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> Result<Vec<PointContext>> {
        let start = match before {
            None => None,
            Some(before) => match self.point(thread_id, before).await? {
                HistoryPoint::Base { .. } => return Ok(Vec::new()),
                HistoryPoint::Input(admission) => Some((admission, false)),
                HistoryPoint::Stored(point) => Some((point.clone(), has_input(&point))),
            },
        };
        let mut points = Vec::new();
        let (stored, is_end) =
            self.stored_points(thread_id, start.as_ref().map(|(point, _)| point), limit).await?;
        if let Some((admission, true)) = &start {
            points.push(PointContext::new(HistoryPoint::Input(admission.clone()), stored.first()));
        }
        // The last stored checkpoint is only read as the predecessor of the one before it, unless it is the
        // oldest.
        let own_count = if is_end { stored.len() } else { stored.len().saturating_sub(1) };
        for (index, point) in stored[..own_count].iter().enumerate() {
            let (is_head, previous) = (index == 0 && start.is_none(), stored.get(index + 1));
            if point.source == CheckpointSource::Rewind && !is_head {
                continue;
            }
            let newer_run_id = index.checked_sub(1).map(|index| stored[index].run_id);
            let can_have_interrupt = point.next.is_some() && newer_run_id != Some(point.run_id);
            points.push(PointContext {
                can_have_interrupt,
                is_head,
                ..PointContext::new(HistoryPoint::Stored(point.clone()), previous)
            });
            if has_input(point) {
                points.push(PointContext::new(HistoryPoint::Input(point.clone()), previous));
            }
        }
        if is_end && points.len() < limit {
            let oldest = stored.last().cloned().or_else(|| start.map(|(point, _)| point));
            let is_head = points.is_empty() && oldest.is_none();
            let base = self.base_point(thread_id, oldest.as_ref()).await?;
            points.extend(base.map(|base| PointContext { is_head, ..PointContext::new(base, None) }));
        }
        points.truncate(limit);
        Ok(points)
    }

    /// Returns stored checkpoints, newest first, until they yield `limit` points and one more checkpoint
    /// follows. The flag says whether there are no more.
    async fn stored_points(
        self,
        thread_id: ThreadId,
        before: Option<&CheckpointEntry>,
        limit: usize,
    ) -> Result<(Vec<CheckpointEntry>, bool)> {
        let rows = limit.saturating_add(1).min(journal::PAGE_ROWS_MAX);
        let mut from = before.map(|point| point.checkpoint_id);
        let (mut stored, mut yielded) = (Vec::new(), 0);
        loop {
            let page =
                self.agent.store.checkpoints(thread_id, from, rows, SupersededVisibility::Shown).await?;
            let is_end = page.len() < rows;
            let points = |point: &CheckpointEntry| {
                usize::from(point.source != CheckpointSource::Rewind) + usize::from(has_input(point))
            };
            yielded += page.iter().map(points).sum::<usize>();
            from = page.last().map(|point| point.checkpoint_id).or(from);
            let last_yield = page.last().map_or(0, points);
            stored.extend(page);
            if is_end || yielded - last_yield >= limit {
                return Ok((stored, is_end));
            }
        }
    }

    /// Returns the state of the thread before its oldest checkpoint, or its only state if it has no
    /// checkpoint. `None` if it has no messages there.
    async fn base_point(
        self,
        thread_id: ThreadId,
        oldest: Option<&CheckpointEntry>,
    ) -> Result<Option<HistoryPoint>> {
        let Some(oldest) = oldest else { return self.head_point(thread_id).await };
        let base = |all: &transcript_cache::ThreadTranscript| base_point_before(thread_id, oldest, all);
        Ok(self.agent.transcripts.with_transcript(&*self.agent.store, thread_id, base).await?)
    }

    /// Builds the snapshots of the points. Reads the transcript once for all of them.
    async fn assemble_states(
        self,
        thread: &Thread,
        points: Vec<PointContext>,
    ) -> Result<Vec<ThreadSnapshot>> {
        let thread_id = thread.thread_id;
        let read_messages = |all: &transcript_cache::ThreadTranscript| {
            let messages = points.iter().map(|context| {
                let head_seq = context.point.head_seq();
                all.visible_at(if context.is_head { all.end_of_current_state(head_seq) } else { head_seq })
            });
            (messages.collect::<Vec<_>>(), all.branches.clone())
        };
        let (messages, branches) =
            self.agent.transcripts.with_transcript(&*self.agent.store, thread_id, read_messages).await?;
        let mut run_ids: Vec<RunId> = points.iter().filter_map(|context| context.point.run_id()).collect();
        run_ids.dedup();
        let run_metadata: BTreeMap<RunId, Map<String, Value>> = match run_ids.is_empty() {
            true => BTreeMap::new(),
            false => self.agent.store.run_metadata(&run_ids).await?.into_iter().collect(),
        };
        let mut states = Vec::with_capacity(points.len());
        for (context, messages) in points.iter().zip(messages) {
            let parent = self.parent_id(thread_id, context, &branches).await?;
            let metadata = context.point.run_id().and_then(|run_id| run_metadata.get(&run_id)).cloned();
            states.push(ThreadSnapshot {
                channels: client_channels(&self.stored_channels(thread_id, &context.point, parent).await?),
                parent_id: parent,
                messages,
                ..self.state_without_content(thread, context, &branches, metadata.unwrap_or_default()).await?
            });
        }
        Ok(states)
    }

    /// Builds a snapshot without its messages, channels and parent.
    async fn state_without_content(
        self,
        thread: &Thread,
        context: &PointContext,
        branches: &BranchHistory,
        run_metadata: Map<String, Value>,
    ) -> Result<ThreadSnapshot> {
        let point = &context.point;
        let interrupts = self.interrupts_at(thread, context).await?;
        let mut next: Vec<String> = point.next_node().map(str::to_owned).into_iter().collect();
        for question in interrupts.iter().filter(|_| context.is_head) {
            if !next.contains(&question.node) {
                next.push(question.node.clone());
            }
        }
        Ok(ThreadSnapshot {
            checkpoint_id: point.id(),
            parent_id: None,
            origin: context.origin(branches),
            number: point.number(),
            run_id: point.run_id(),
            next,
            messages: Vec::new(),
            channels: Channels::new(),
            interrupts,
            error: self.failure_at(thread, context).await?,
            created_at: point.created_at(),
            run_metadata,
        })
    }

    /// Returns the id of the checkpoint before a point on its branch.
    async fn parent_id(
        self,
        thread_id: ThreadId,
        context: &PointContext,
        branches: &BranchHistory,
    ) -> Result<Option<CheckpointId>> {
        match &context.point {
            HistoryPoint::Base { .. } => Ok(None),
            HistoryPoint::Stored(point) if has_input(point) => {
                Ok(Some(HistoryPoint::Input(point.clone()).id()))
            }
            HistoryPoint::Stored(point) | HistoryPoint::Input(point) => {
                self.previous_checkpoint_id(thread_id, context.previous_point.as_ref(), point, branches).await
            }
        }
    }

    /// Returns the channels of a point. The point before an input is not stored; it has the channels of its
    /// parent.
    async fn stored_channels(
        self,
        thread_id: ThreadId,
        point: &HistoryPoint,
        parent: Option<CheckpointId>,
    ) -> Result<Channels> {
        let mut id = match point {
            HistoryPoint::Stored(point) => Some(point.checkpoint_id),
            HistoryPoint::Input(_) => parent,
            HistoryPoint::Base { .. } => None,
        };
        while let Some(from) = id {
            let stored = self
                .agent
                .store
                .checkpoint_at(thread_id, CheckpointRef::Id(from), SupersededVisibility::Shown)
                .await?;
            match stored {
                Some((_, channels)) => return Ok(channels),
                // The parent can itself be the point before an input, which has no channels of its own
                // either.
                None => id = self.parent_of_input(thread_id, from).await?,
            }
        }
        Ok(Channels::new())
    }

    /// Returns the parent of a point before an input; `None` for points of other kinds.
    async fn parent_of_input(self, thread_id: ThreadId, id: CheckpointId) -> Result<Option<CheckpointId>> {
        match self.point(thread_id, id).await? {
            HistoryPoint::Input(admission) => self.checkpoint_before(thread_id, &admission).await,
            HistoryPoint::Stored(_) | HistoryPoint::Base { .. } => Ok(None),
        }
    }

    /// Returns the id of the checkpoint before a stored one, ignoring the point before its input.
    async fn checkpoint_before(
        self,
        thread_id: ThreadId,
        point: &CheckpointEntry,
    ) -> Result<Option<CheckpointId>> {
        let before = Some(point.checkpoint_id);
        let previous =
            self.agent.store.checkpoints(thread_id, before, 1, SupersededVisibility::Shown).await?.pop();
        let branches = self
            .agent
            .transcripts
            .with_transcript(&*self.agent.store, thread_id, |all| all.branches.clone())
            .await?;
        self.previous_checkpoint_id(thread_id, previous.as_ref(), point, &branches).await
    }

    /// Returns the interrupts of a point: the pending ones at the current point, and at an earlier one those
    /// that were raised there.
    async fn interrupts_at(self, thread: &Thread, context: &PointContext) -> Result<Vec<Interrupt>> {
        if context.is_head {
            return match thread.status {
                ThreadStatus::Idle => Ok(Vec::new()),
                ThreadStatus::Busy | ThreadStatus::Interrupted | ThreadStatus::Error => {
                    Ok(self.agent.store.pending_interrupts(thread.thread_id).await?)
                }
            };
        }
        let mut interrupts = Vec::new();
        let HistoryPoint::Stored(point) = &context.point else { return Ok(interrupts) };
        let Some(node) = point.next.as_deref().filter(|_| context.can_have_interrupt) else {
            return Ok(interrupts);
        };
        while interrupts.len() < QUESTIONS_MAX {
            let id = runtime::interrupt_id(point.run_id, point.step, node, interrupts.len());
            match self.agent.store.interrupt(id).await? {
                Some(question) => interrupts.push(question),
                None => break,
            }
        }
        Ok(interrupts)
    }

    /// Returns the failure of the run that ended at the current point; `None` for other points.
    async fn failure_at(self, thread: &Thread, context: &PointContext) -> Result<Option<String>> {
        let is_failed = context.is_head && thread.status == ThreadStatus::Error;
        let Some(run_id) = context.point.run_id().filter(|_| is_failed) else { return Ok(None) };
        let run = self.agent.store.run(run_id).await?;
        let failed = run.filter(|run| matches!(run.status, RunStatus::Error | RunStatus::Timeout));
        Ok(failed.and_then(|run| run.failure).map(|failure| failure.message))
    }
}

impl PointContext {
    /// Creates the context of a point that is neither the current one nor can have interrupts.
    fn new(point: HistoryPoint, previous: Option<&CheckpointEntry>) -> Self {
        Self { point, previous_point: previous.cloned(), can_have_interrupt: false, is_head: false }
    }

    /// Returns the origin of the point's snapshot.
    fn origin(&self, branches: &BranchHistory) -> StateOrigin {
        let point = match &self.point {
            HistoryPoint::Input(_) => return StateOrigin::Input,
            HistoryPoint::Base { .. } => return StateOrigin::Change,
            HistoryPoint::Stored(point) => point,
        };
        let after = self.previous_point.as_ref().map_or(0, |previous| previous.head_seq);
        let is_rewound = || {
            branches.newest_rewind(after, point.head_seq).is_some_and(|rewind| rewind.checkpoint_id.is_some())
        };
        match point.source {
            CheckpointSource::Update => StateOrigin::Change,
            CheckpointSource::Rewind => StateOrigin::Rewind,
            CheckpointSource::Loop if point.step == 0 && !has_input(point) && is_rewound() => {
                StateOrigin::Rewind
            }
            CheckpointSource::Loop => StateOrigin::Step,
        }
    }
}

#[cfg(test)]
mod tests;
