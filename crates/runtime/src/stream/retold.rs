//! Telling a run from the journal, for those who look on where it is not driven: the frames of what is durable, at the places
//! they have where it is. What is not stored is not told: pieces of an answer, live output, what sub-agents do.

use journal::{CheckpointRef, Store, Superseded};
use protocol::event::body::{RunBeginning, RunFailed, RunInterrupted, RunStarted};
use protocol::{
    CheckpointSource, Event, EventType, InterruptId, RunFailure, RunId, RunStatus, Seq, StepPoint, ThreadId,
};
use serde_json::Value;

use super::frame::Frame;
use super::{Frames, Position};
use crate::Result;
use crate::node::model::MODEL_NODE;
use crate::node::tools::TOOLS_NODE;
use crate::step::Channels;

/// Events and points that are read at once.
const PAGE_ROWS: usize = 256;

/// How often events and points are read again because something was written between.
const READS_MAX: u32 = 4;

/// How much of a run has been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retold {
    /// What is durable so far.
    SoFar,
    /// All of it; its end was the last frame.
    Whole,
}

/// A place at which a process lost the run in the middle of a step, which another one began anew: who has had anything in
/// between has had the beginning of what is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The last thing before it that is stored.
    pub after: Position,
    /// The event that tells that the run was taken over.
    pub until: Seq,
}

/// One run, told from the journal as far as it is there.
#[derive(Debug)]
pub struct Retelling {
    thread_id: ThreadId,
    run_id: RunId,
    /// The last event that was looked at.
    after: Seq,
    /// The last point that was told.
    point: Option<StepPoint>,
    /// The public channels at that point.
    channels: Channels,
    /// The node of the step that was told to have begun.
    node: Option<String>,
    is_begun: bool,
    /// The place of the newest thing that is stored.
    newest: Position,
    cuts: Vec<Cut>,
}

/// The end that was found in the run's events.
#[derive(Default)]
struct End {
    failure: Option<RunFailure>,
    asked: Vec<InterruptId>,
}

impl Retelling {
    /// Returns the telling of a run that nothing was told of yet.
    pub fn new(thread_id: ThreadId, run_id: RunId) -> Self {
        Self {
            thread_id,
            run_id,
            after: 0,
            point: None,
            channels: Channels::new(),
            node: None,
            is_begun: false,
            newest: Position::default(),
            cuts: Vec::new(),
        }
    }

    /// Returns the place of the newest thing that was told and is stored.
    pub const fn newest(&self) -> Position {
        self.newest
    }

    /// Returns where the run was cut off so far.
    pub fn cuts(&self) -> &[Cut] {
        &self.cuts
    }

    /// Sends what is durable by now and was not sent before.
    ///
    /// # Errors
    /// When the journal fails; what was not sent is sent next time.
    pub async fn tell(&mut self, store: &dyn Store, frames: &Frames) -> Result<Retold> {
        let Some(run) = store.run(self.run_id).await? else {
            // It was taken back.
            let taken_back = RunFailure::from_stored_text(RunStatus::Cancelled, None);
            self.end(frames, RunStatus::Cancelled, taken_back);
            return Ok(Retold::Whole);
        };
        if run.status == RunStatus::Pending {
            return Ok(Retold::SoFar);
        }
        match self.go_on(store, frames).await? {
            Some(end) => {
                // Its row is final with the event.
                let run = store.run(self.run_id).await?.unwrap_or(run);
                for interrupt_id in &end.asked {
                    let interrupt = store.interrupt(*interrupt_id).await?;
                    interrupt.into_iter().for_each(|asked| frames.send(Frame::Interrupted(Box::new(asked))));
                }
                self.end(frames, run.status, end.failure.or(run.failure));
            }
            None if run.status.is_active() => return Ok(Retold::SoFar),
            None => self.end(frames, run.status, run.failure),
        }
        Ok(Retold::Whole)
    }

    fn end(&self, frames: &Frames, status: RunStatus, failure: Option<RunFailure>) {
        frames.send(Frame::RunEnded { run_id: self.run_id, status, failure });
    }

    /// Sends the steps that are there, and what is stored of the one that is under way; returns the end, if that is there.
    async fn go_on(&mut self, store: &dyn Store, frames: &Frames) -> Result<Option<End>> {
        let (events, points) = self.read(store).await?;
        let end = events.iter().rev().find_map(end_of);
        let mut events = events.as_slice();
        for point in points {
            let (own, later) = events.split_at(events.partition_point(|event| event.seq <= point.head_seq));
            events = later;
            self.events(store, own, Some(point.step), frames).await?;
            self.point(store, point, frames).await?;
        }
        self.events(store, events, None, frames).await?;
        Ok(end)
    }

    /// Returns what was not told yet, as it was at one moment: no point without its events, and none missing among them.
    async fn read(&self, store: &dyn Store) -> Result<(Vec<Event>, Vec<StepPoint>)> {
        let (mut events, mut points) = (self.events_after(store, self.after).await?, Vec::new());
        for _ in 0..READS_MAX {
            let first = events.first().filter(|_| self.after == 0);
            points = self.points(store, first.map_or(self.after, |first| first.seq)).await?;
            let after = events.last().map_or(self.after, |last| last.seq);
            let more = self.events_after(store, after).await?;
            if more.is_empty() {
                return Ok((events, points));
            }
            events.extend(more);
        }
        // More comes while it is read. What has its point is whole.
        let known = points.last().map_or(self.after, |point| point.head_seq);
        events.retain(|event| event.seq <= known);
        Ok((events, points))
    }

    async fn events_after(&self, store: &dyn Store, mut after: Seq) -> Result<Vec<Event>> {
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

    /// Returns the run's points behind the last one that was told, in order; none is from before `since`.
    async fn points(&self, store: &dyn Store, since: Seq) -> Result<Vec<StepPoint>> {
        let (mut points, mut before) = (Vec::new(), None);
        let known = self.point.as_ref().map(|point| point.checkpoint_id);
        'pages: loop {
            let page = store.checkpoints(self.thread_id, before, PAGE_ROWS, Superseded::Shown).await?;
            let is_last = page.len() < PAGE_ROWS;
            before = page.last().map(|point| point.checkpoint_id);
            for point in page {
                if Some(point.checkpoint_id) == known || point.head_seq < since {
                    break 'pages;
                }
                if point.run_id == self.run_id && point.source == CheckpointSource::Loop {
                    points.push(point);
                }
            }
            if is_last {
                break;
            }
        }
        points.reverse();
        Ok(points)
    }

    /// Sends events of one step; which step it is, is known once that is whole.
    async fn events(
        &mut self,
        store: &dyn Store,
        events: &[Event],
        step: Option<u64>,
        frames: &Frames,
    ) -> Result<()> {
        for event in events {
            self.after = event.seq;
            match event.kind() {
                // It is told by what comes of it.
                Some(EventType::RunStopRequested) => {}
                Some(EventType::RunStarted) => self.begin(store, event, frames).await?,
                // What came in with the admission is told with the state it begins with.
                _ if !self.is_begun => {}
                _ => {
                    self.step(events, step, frames);
                    frames.send(Frame::Event(Box::new(event.clone())));
                    self.newest = frames.position();
                }
            }
        }
        Ok(())
    }

    async fn begin(&mut self, store: &dyn Store, event: &Event, frames: &Frames) -> Result<()> {
        if self.is_begun {
            self.cuts.push(Cut { after: self.newest, until: event.seq });
        }
        (self.is_begun, self.node) = (true, None);
        frames.at(event.seq);
        frames.send(Frame::RunStarted { thread_id: self.thread_id, run_id: self.run_id });
        let is_over = event.body().is_ok_and(|RunStarted { how, .. }| how == RunBeginning::EndedAtOnce);
        if is_over && let Some(head) = store.checkpoint(self.thread_id).await? {
            frames.send(Frame::Values {
                run_id: self.run_id,
                step: 0,
                checkpoint_id: head.checkpoint_id,
                head_seq: head.head_seq,
                next: head.next,
                channels: super::frame::public(&head.channels),
            });
        }
        self.newest = frames.position();
        Ok(())
    }

    /// Sends that a step began, once.
    fn step(&mut self, events: &[Event], step: Option<u64>, frames: &Frames) {
        let node = self.node_of(events);
        if self.node.as_ref() != Some(&node) {
            let step = step.unwrap_or(self.point.as_ref().map_or(0, |point| point.step) + 1);
            frames.send(Frame::StepStarted { node: node.clone(), step });
            self.node = Some(node);
        }
    }

    /// Returns the node whose step wrote these. Steps that changed nothing left no trace: the node that was to be next may
    /// have been one of those.
    fn node_of(&self, events: &[Event]) -> String {
        let wrote = |kind| events.iter().any(|event| event.kind() == Some(kind));
        let next = self.point.as_ref().and_then(|point| point.next.as_deref());
        match () {
            () if wrote(EventType::AiMessage) => MODEL_NODE.to_owned(),
            () if wrote(EventType::ToolMessage) => TOOLS_NODE.to_owned(),
            () => self.node.as_deref().or(next).unwrap_or_default().to_owned(),
        }
    }

    /// Sends what a step changed and the state behind it.
    async fn point(&mut self, store: &dyn Store, point: StepPoint, frames: &Frames) -> Result<()> {
        let at = CheckpointRef::Id(point.checkpoint_id);
        let Some((_, channels)) = store.checkpoint_at(self.thread_id, at, Superseded::Shown).await? else {
            // It was taken back meanwhile.
            return Ok(());
        };
        if point.step > 0 {
            self.step(&[], Some(point.step), frames);
            let node = self.node.take().unwrap_or_default();
            frames.send(Frame::Updates { node, channels: changes(&self.channels, &channels) });
        }
        frames.send(Frame::Values {
            run_id: self.run_id,
            step: point.step,
            checkpoint_id: point.checkpoint_id,
            head_seq: point.head_seq,
            next: point.next.clone(),
            channels: channels.clone(),
        });
        self.newest = frames.position();
        (self.channels, self.point) = (channels, Some(point));
        Ok(())
    }
}

/// Returns what the event says of the run's end, if it tells of one.
fn end_of(event: &Event) -> Option<End> {
    match event.kind()? {
        EventType::RunEnded => Some(End::default()),
        EventType::RunFailed => {
            let failed = event.body().map(|RunFailed { failure, .. }| failure);
            Some(End { failure: failed.ok(), ..End::default() })
        }
        EventType::RunInterrupted => {
            let asked = event.body().map(|RunInterrupted { interrupt_ids, .. }| interrupt_ids);
            Some(End { asked: asked.unwrap_or_default(), ..End::default() })
        }
        _ => None,
    }
}

/// Returns what changed between two states; a `null` stands for what is gone.
fn changes(before: &Channels, after: &Channels) -> Channels {
    let set = after.iter().filter(|(key, value)| before.get(*key) != Some(value));
    let gone = before.keys().filter(|key| !after.contains_key(*key));
    let set = set.map(|(key, value)| (key.clone(), value.clone()));
    set.chain(gone.map(|key| (key.clone(), Value::Null))).collect()
}
