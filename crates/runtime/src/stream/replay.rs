//! Replay of a run from the journal, for clients of a process that does not drive the run. A replay sends the
//! frames of durable steps, at the positions that they have in the driving process. Frames that are not stored
//! are missing: deltas of an answer, live output and the frames of sub-agents.

use journal::{CheckpointRef, Store, SupersededVisibility};
use protocol::event::body::{RunFailed, RunInterrupted, RunStartKind, RunStarted};
use protocol::{
    CheckpointEntry, CheckpointSource, Event, EventType, InterruptId, RunFailure, RunId, RunStatus, Seq,
    ThreadId,
};
use serde_json::Value;

use super::frame::Frame;
use super::{FramePosition, FrameSender};
use crate::Result;
use crate::node::model::MODEL_NODE;
use crate::node::tools::TOOLS_NODE;
use crate::step::Channels;

/// The number of events or checkpoints that are read at a time.
const PAGE_ROWS: usize = 256;

/// The number of attempts to read events and checkpoints without a commit in between.
const READ_ATTEMPTS_MAX: u32 = 4;

/// The completeness of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayStatus {
    /// Everything that is durable so far was sent. The run is still pending or active.
    Partial,
    /// The whole run was sent; its end was the last frame.
    Complete,
}

/// A position at which a process lost the run in the middle of a step and another process started that step
/// again. A client that received frames in between has seen the beginning of a step that was not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakeoverGap {
    /// The position of the last durable frame before the takeover.
    pub after: FramePosition,
    /// The sequence number of the event that records the takeover.
    pub until: Seq,
}

/// The replay of one run. Each call of [`Self::send_new_frames`] continues after the frames sent before.
#[derive(Debug)]
pub struct Replay {
    /// The thread of the run.
    thread_id: ThreadId,
    /// The run.
    run_id: RunId,
    /// The sequence number of the last event that was read.
    after: Seq,
    /// The last checkpoint whose state was sent.
    last_checkpoint: Option<CheckpointEntry>,
    /// The public channels of that checkpoint.
    channels: Channels,
    /// The node of the step whose start was sent and whose end was not.
    node: Option<String>,
    /// Set once the start of the run was sent.
    is_started: bool,
    /// The position of the newest durable frame that was sent.
    last_position: FramePosition,
    /// The takeovers so far, oldest first.
    takeover_gaps: Vec<TakeoverGap>,
}

/// The end of a run as its events record it.
#[derive(Default)]
struct RecordedRunEnd {
    /// The failure, if the run failed and it can be read.
    failure: Option<RunFailure>,
    /// The interrupts, if the run was interrupted.
    interrupt_ids: Vec<InterruptId>,
}

impl Replay {
    /// Returns a replay that starts at the beginning of the run.
    pub fn new(thread_id: ThreadId, run_id: RunId) -> Self {
        Self {
            thread_id,
            run_id,
            after: 0,
            last_checkpoint: None,
            channels: Channels::new(),
            node: None,
            is_started: false,
            last_position: FramePosition::default(),
            takeover_gaps: Vec::new(),
        }
    }

    /// Returns the position of the newest durable frame that was sent.
    pub const fn last_position(&self) -> FramePosition {
        self.last_position
    }

    /// Returns the takeovers so far, oldest first.
    pub fn takeover_gaps(&self) -> &[TakeoverGap] {
        &self.takeover_gaps
    }

    /// Sends the frames of everything that became durable since the last call. A run that no longer exists ends
    /// as cancelled.
    ///
    /// # Errors
    /// Fails when the journal fails. Frames that were not sent are sent by the next call.
    pub async fn send_new_frames(&mut self, store: &dyn Store, frames: &FrameSender) -> Result<ReplayStatus> {
        let Some(run) = store.run(self.run_id).await? else {
            // The run's row no longer exists: the run was withdrawn while it was queued.
            let failure = RunFailure::from_stored_text(RunStatus::Cancelled, None);
            self.send_run_end(frames, RunStatus::Cancelled, failure);
            return Ok(ReplayStatus::Complete);
        };
        if run.status == RunStatus::Pending {
            return Ok(ReplayStatus::Partial);
        }
        match self.send_steps(store, frames).await? {
            Some(end) => {
                // The run's row has its final content since the transaction of that event.
                let run = store.run(self.run_id).await?.unwrap_or(run);
                for interrupt_id in &end.interrupt_ids {
                    let interrupt = store.interrupt(*interrupt_id).await?;
                    interrupt
                        .into_iter()
                        .for_each(|interrupt| frames.send(Frame::Interrupted(Box::new(interrupt))));
                }
                self.send_run_end(frames, run.status, end.failure.or(run.failure));
            }
            None if run.status.is_active() => return Ok(ReplayStatus::Partial),
            None => self.send_run_end(frames, run.status, run.failure),
        }
        Ok(ReplayStatus::Complete)
    }

    /// Sends the last frame of the run.
    fn send_run_end(&self, frames: &FrameSender, status: RunStatus, failure: Option<RunFailure>) {
        frames.send(Frame::RunEnded { run_id: self.run_id, status, failure });
    }

    /// Sends the completed steps and the stored events of the current one. Returns the run's end, if its event
    /// was among them.
    async fn send_steps(
        &mut self,
        store: &dyn Store,
        frames: &FrameSender,
    ) -> Result<Option<RecordedRunEnd>> {
        let (events, checkpoints) = self.read_unsent(store).await?;
        let end = events.iter().rev().find_map(recorded_run_end);
        let mut events = events.as_slice();
        for checkpoint in checkpoints {
            let (own, later) =
                events.split_at(events.partition_point(|event| event.seq <= checkpoint.head_seq));
            events = later;
            self.send_events(store, own, Some(checkpoint.step), frames).await?;
            self.send_checkpoint(store, checkpoint, frames).await?;
        }
        self.send_events(store, events, None, frames).await?;
        Ok(end)
    }

    /// Returns the events and checkpoints that were not sent yet, as they were at one moment: every checkpoint
    /// comes with all events up to it.
    async fn read_unsent(&self, store: &dyn Store) -> Result<(Vec<Event>, Vec<CheckpointEntry>)> {
        let (mut events, mut checkpoints) = (self.read_events_after(store, self.after).await?, Vec::new());
        for _ in 0..READ_ATTEMPTS_MAX {
            let first = events.first().filter(|_| self.after == 0);
            checkpoints = self.read_checkpoints(store, first.map_or(self.after, |first| first.seq)).await?;
            let after = events.last().map_or(self.after, |last| last.seq);
            let more = self.read_events_after(store, after).await?;
            if more.is_empty() {
                return Ok((events, checkpoints));
            }
            events.extend(more);
        }
        // Commits keep arriving between the reads. The events up to the last checkpoint that was read are
        // complete.
        let known = checkpoints.last().map_or(self.after, |checkpoint| checkpoint.head_seq);
        events.retain(|event| event.seq <= known);
        Ok((events, checkpoints))
    }

    /// Returns all events of the run after `after`.
    async fn read_events_after(&self, store: &dyn Store, mut after: Seq) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        loop {
            let page = store.run_events(self.thread_id, self.run_id, after, PAGE_ROWS).await?;
            let is_last = page.len() < PAGE_ROWS;
            after = page.last().map_or(after, |last| last.seq);
            events.extend(page);
            if is_last {
                return Ok(events);
            }
        }
    }

    /// Returns the run's checkpoints after the last one that was sent, oldest first. Checkpoints whose head is
    /// before `since` are left out.
    async fn read_checkpoints(&self, store: &dyn Store, since: Seq) -> Result<Vec<CheckpointEntry>> {
        let (mut checkpoints, mut before) = (Vec::new(), None);
        let known = self.last_checkpoint.as_ref().map(|checkpoint| checkpoint.checkpoint_id);
        'pages: loop {
            let page =
                store.checkpoints(self.thread_id, before, PAGE_ROWS, SupersededVisibility::Shown).await?;
            let is_last = page.len() < PAGE_ROWS;
            before = page.last().map(|checkpoint| checkpoint.checkpoint_id);
            for checkpoint in page {
                if Some(checkpoint.checkpoint_id) == known || checkpoint.head_seq < since {
                    break 'pages;
                }
                if checkpoint.run_id == self.run_id && checkpoint.source == CheckpointSource::Loop {
                    checkpoints.push(checkpoint);
                }
            }
            if is_last {
                break;
            }
        }
        checkpoints.reverse();
        Ok(checkpoints)
    }

    /// Sends events of one step. `step` is the step's number, or `None` while the step is not complete.
    async fn send_events(
        &mut self,
        store: &dyn Store,
        events: &[Event],
        step: Option<u64>,
        frames: &FrameSender,
    ) -> Result<()> {
        for event in events {
            self.after = event.seq;
            match event.kind() {
                // The event is not sent; its effect is the end of the run.
                Some(EventType::RunStopRequested) => {}
                Some(EventType::RunStarted) => self.send_run_start(store, event, frames).await?,
                // The events of the admission are part of the state at the run's start.
                _ if !self.is_started => {}
                _ => {
                    self.send_step_start(events, step, frames);
                    frames.send(Frame::Event(Box::new(event.clone())));
                    self.last_position = frames.position();
                }
            }
        }
        Ok(())
    }

    /// Sends the start of the run. Records a takeover if the run has started before. If the run ended with its
    /// admission, sends the thread's state, too.
    async fn send_run_start(&mut self, store: &dyn Store, event: &Event, frames: &FrameSender) -> Result<()> {
        if self.is_started {
            self.takeover_gaps.push(TakeoverGap { after: self.last_position, until: event.seq });
        }
        (self.is_started, self.node) = (true, None);
        frames.advance_to(event.seq);
        frames.send(Frame::RunStarted { thread_id: self.thread_id, run_id: self.run_id });
        let has_ended =
            event.body().is_ok_and(|RunStarted { how, .. }| how == RunStartKind::EndedImmediately);
        if has_ended && let Some(head) = store.checkpoint(self.thread_id).await? {
            frames.send(Frame::Values {
                run_id: self.run_id,
                step: 0,
                checkpoint_id: head.checkpoint_id,
                head_seq: head.head_seq,
                next: head.next,
                channels: super::frame::public_channels(&head.channels),
            });
        }
        self.last_position = frames.position();
        Ok(())
    }

    /// Sends the start of a step unless it was sent before.
    fn send_step_start(&mut self, events: &[Event], step: Option<u64>, frames: &FrameSender) {
        let node = self.step_node(events);
        if self.node.as_ref() != Some(&node) {
            let step = step.unwrap_or(self.last_checkpoint.as_ref().map_or(0, |point| point.step) + 1);
            frames.send(Frame::StepStarted { node: node.clone(), step });
            self.node = Some(node);
        }
    }

    /// Returns the node whose step wrote these events. Steps that changed nothing are not stored, so the node
    /// that was to be next may not be the one that wrote them; the events of the model and of tools identify
    /// their node.
    fn step_node(&self, events: &[Event]) -> String {
        let wrote = |kind| events.iter().any(|event| event.kind() == Some(kind));
        let next = self.last_checkpoint.as_ref().and_then(|point| point.next.as_deref());
        match () {
            () if wrote(EventType::AiMessage) => MODEL_NODE.to_owned(),
            () if wrote(EventType::ToolMessage) => TOOLS_NODE.to_owned(),
            () => self.node.as_deref().or(next).unwrap_or_default().to_owned(),
        }
    }

    /// Sends the changes of a step and the state after it.
    async fn send_checkpoint(
        &mut self,
        store: &dyn Store,
        checkpoint: CheckpointEntry,
        frames: &FrameSender,
    ) -> Result<()> {
        let checkpoint_ref = CheckpointRef::Id(checkpoint.checkpoint_id);
        let Some((_, channels)) =
            store.checkpoint_at(self.thread_id, checkpoint_ref, SupersededVisibility::Shown).await?
        else {
            // The checkpoint was removed in the meantime.
            return Ok(());
        };
        if checkpoint.step > 0 {
            self.send_step_start(&[], Some(checkpoint.step), frames);
            let node = self.node.take().unwrap_or_default();
            frames.send(Frame::Updates { node, channels: channel_changes(&self.channels, &channels) });
        }
        frames.send(Frame::Values {
            run_id: self.run_id,
            step: checkpoint.step,
            checkpoint_id: checkpoint.checkpoint_id,
            head_seq: checkpoint.head_seq,
            next: checkpoint.next.clone(),
            channels: channels.clone(),
        });
        self.last_position = frames.position();
        (self.channels, self.last_checkpoint) = (channels, Some(checkpoint));
        Ok(())
    }
}

/// Returns the end of the run that the event records, if it records one.
fn recorded_run_end(event: &Event) -> Option<RecordedRunEnd> {
    match event.kind()? {
        EventType::RunEnded => Some(RecordedRunEnd::default()),
        EventType::RunFailed => {
            let failure = event.body().map(|RunFailed { failure, .. }| failure);
            Some(RecordedRunEnd { failure: failure.ok(), ..RecordedRunEnd::default() })
        }
        EventType::RunInterrupted => {
            let interrupt_ids = event.body().map(|RunInterrupted { interrupt_ids, .. }| interrupt_ids);
            Some(RecordedRunEnd {
                interrupt_ids: interrupt_ids.unwrap_or_default(),
                ..RecordedRunEnd::default()
            })
        }
        _ => None,
    }
}

/// Returns the changes from one state to another; a `null` stands for a removed channel.
fn channel_changes(before: &Channels, after: &Channels) -> Channels {
    let set = after.iter().filter(|(key, value)| before.get(*key) != Some(value));
    let removed = before.keys().filter(|key| !after.contains_key(*key));
    let set = set.map(|(key, value)| (key.clone(), value.clone()));
    set.chain(removed.map(|key| (key.clone(), Value::Null))).collect()
}
