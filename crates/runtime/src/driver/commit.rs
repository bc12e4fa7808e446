//! The driver's writes: what a step, an activity or the end of a run makes durable, and the frames that tell of it.

use std::sync::atomic::Ordering;

use jiff::Timestamp;
use journal::{RunPatch, ThreadPatch, Transaction, Write};
use protocol::event::body::RunInterrupted;
use protocol::{
    Checkpoint, CheckpointId, CheckpointSource, Event, Interrupt, InterruptId, InterruptPayload,
    InterruptStatus, NewEvent, RunStatus, Seq, ThreadStatus,
};

use super::owed::{Owed, Part, State, Told};
use super::{Drive, Others};
use crate::Result;
use crate::admit::{GIVEN_BACK, is_outrun};
use crate::driver::lifecycle::RunEvents;
use crate::error::Error;
use crate::step::{Entry, Update};
use crate::stream::frame::{Frame, public};
use crate::turn::{Ending, Turn, interrupt_id};

impl Drive<'_> {
    /// Makes the end of a step or activity durable, with the checkpoint and, if the run ends here, its end. A step that
    /// another follows at once waits for that one.
    pub(super) async fn commit(
        &mut self,
        turn: &Turn<'_>,
        update: Update,
        ending: Option<&Ending>,
    ) -> Result<()> {
        let now = Timestamp::now();
        self.usage.lock().add(update.usage);
        let mut events = update.events;
        if let Some(ending) = ending {
            events.push(self.ended(turn, ending, now)?);
        }
        let mut writes = update.writes;
        let mut points = Vec::new();
        if let Some(ending) = ending {
            let interrupts = ending.interrupts.iter().enumerate();
            points
                .extend(interrupts.map(|(index, payload)| {
                    Write::RaiseInterrupt(self.interrupt(turn, index, payload, now))
                }));
            writes.push(self.thread_rests(turn, ending, now).await?);
        }
        let failure = ending.and_then(|ending| ending.failure.as_ref());
        writes.push(Write::UpdateRun {
            run_id: self.run_id,
            patch: RunPatch {
                status: ending.map(|ending| ending.status),
                failure: failure.cloned(),
                lease_until: ending.is_none().then(|| self.driver.lease.until()),
                add_usage: Some(update.usage),
                at: Some(now),
            },
        });
        let checkpoint = self.checkpoint(turn, now);
        let state = self.frames.is_open().then(|| State {
            done: Some((turn.node().to_owned(), public(&update.channels))),
            step: turn.step,
            checkpoint_id: checkpoint.checkpoint_id,
            next: turn.next.clone(),
            channels: public(&turn.channels),
        });
        let events = self.own(events);
        let shown = self.shown(&events);
        points.push(Write::PutCheckpoint(checkpoint));
        let told = Told { events: shown, state };
        self.owed.add(writes, self.thread_id, events, points, told);
        let is_followed_at_once = ending.is_none()
            && turn.activities.is_empty()
            && turn.next.as_deref().is_some_and(|next| self.is_immediate(next));
        if is_followed_at_once { Ok(()) } else { self.flush().await }
    }

    /// Makes events of a step that still runs durable.
    pub(super) async fn record(&self, events: Vec<NewEvent>, writes: Vec<Write>) -> Result<()> {
        let mut recorded = Owed::default();
        let events = self.own(events);
        let told = Told { events: self.shown(&events), state: None };
        recorded.add(writes, self.thread_id, events, Vec::new(), told);
        self.write(recorded).await
    }

    fn own(&self, events: Vec<NewEvent>) -> Vec<NewEvent> {
        events.into_iter().map(|event| event.in_run(self.run_id)).collect()
    }

    /// Returns the events that are told once they are durable.
    fn shown(&self, events: &[NewEvent]) -> Vec<NewEvent> {
        if self.frames.is_open() { events.to_vec() } else { Vec::new() }
    }

    /// Commits what is owed.
    pub(super) async fn flush(&mut self) -> Result<()> {
        let owed = std::mem::take(&mut self.owed);
        if owed.is_empty() { Ok(()) } else { self.write(owed).await }
    }

    /// Commits, and tells of it. An event whose key was there before is not shown again.
    async fn write(&self, owed: Owed) -> Result<()> {
        let Owed { writes, parts, is_admission } = owed;
        let fence = (!is_admission).then(|| self.fence());
        let (at, renews) = (tokio::time::Instant::now(), is_admission || writes.iter().any(is_renewal));
        let committed = self.driver.store.commit(Transaction { fence, writes }).await;
        let committed = match committed.map_err(Error::from) {
            Err(error) if is_admission && is_outrun(&error) => return Err(Error::Outrun),
            committed => committed?,
        };
        if renews {
            self.held.was_renewed(at);
        }
        if is_admission {
            // The admission's own events are the first.
            let begun = parts.first().and_then(|part| committed.seqs.get(part.append)?.iter().copied().max());
            self.frames.at(begun.unwrap_or(self.head()));
            self.frames.send(Frame::RunStarted { thread_id: self.thread_id, run_id: self.run_id });
        }
        for Part { append, told: Told { events, state } } in parts {
            let seqs = committed.seqs.get(append).map(Vec::as_slice).unwrap_or_default();
            let before = self.head();
            for (event, seq) in events.into_iter().zip(seqs).filter(|(_, seq)| **seq > before) {
                self.frames.send(Frame::Event(Box::new(Event::stored(event, self.thread_id, *seq))));
            }
            let head_seq = seqs.iter().copied().max().unwrap_or(0).max(before);
            self.head.store(head_seq, Ordering::Relaxed);
            if let Some(state) = state {
                self.tell(state, head_seq);
            }
        }
        Ok(())
    }

    /// Tells of a step's end, or of the state a run begins with.
    fn tell(&self, state: State, head_seq: Seq) {
        let State { done, step, checkpoint_id, next, channels } = state;
        if let Some((node, channels)) = done {
            if self.is_immediate(&node) {
                self.frames.send(Frame::StepStarted { node: node.clone(), step });
            }
            self.frames.send(Frame::Updates { node, channels });
        }
        let run_id = self.run_id;
        self.frames.send(Frame::Values { run_id, step, checkpoint_id, head_seq, next, channels });
    }

    /// Tells that the run began and what it begins with; where it is not durable yet, once it is.
    pub(super) fn begin(&mut self, checkpoint: &Checkpoint, entry: Entry) {
        // What a run that was taken over begins with was told before.
        let is_told = entry == Entry::Fresh && self.frames.is_open();
        let state = is_told.then(|| State::first(checkpoint));
        if self.owed.is_admission {
            self.owed.begins_with(state);
            return;
        }
        self.frames.send(Frame::RunStarted { thread_id: self.thread_id, run_id: self.run_id });
        if let Some(state) = state {
            self.tell(state, checkpoint.head_seq);
        }
    }

    /// Leaves the run to another process: what is owed is made durable, and the lease is given back, which says that nothing
    /// after that was begun. What may have been begun before this process took it over may still have been.
    pub(super) async fn leave(&mut self, turn: &Turn<'_>) -> Error {
        if let Err(error) = self.flush().await {
            return error;
        }
        let lease_until = match turn.entry() {
            Entry::Fresh => Some(GIVEN_BACK),
            Entry::Recovered => Some(self.driver.lease.now()),
        };
        let patch = RunPatch { lease_until, ..RunPatch::default() };
        let nothing = Write::Append { thread_id: self.thread_id, events: Vec::new() };
        // Whoever looks after the thread hears of it.
        let writes = vec![Write::UpdateRun { run_id: self.run_id, patch }, nothing];
        match self.driver.store.commit(Transaction { fence: Some(self.fence()), writes }).await {
            Ok(_) => Error::Halted,
            Err(error) => error.into(),
        }
    }

    pub(super) fn interrupt_id(&self, turn: &Turn<'_>, index: usize) -> InterruptId {
        interrupt_id(self.run_id, turn.step, turn.next.as_deref().unwrap_or_default(), index)
    }

    fn checkpoint(&self, turn: &Turn<'_>, now: Timestamp) -> Checkpoint {
        Checkpoint {
            checkpoint_id: CheckpointId::generate(),
            thread_id: self.thread_id,
            run_id: self.run_id,
            step: turn.step,
            head_seq: 0,
            next: turn.next.clone(),
            channels: turn.channels.clone(),
            activities: turn.activities.iter().cloned().collect(),
            source: CheckpointSource::Loop,
            created_at: now,
        }
    }

    async fn thread_rests(&self, turn: &Turn<'_>, ending: &Ending, now: Timestamp) -> Result<Write> {
        let waits = self.others == Others::Perhaps && self.others_wait().await?;
        let is_cut_off = ending.status == RunStatus::Cancelled && turn.next.is_some();
        let status =
            if waits || is_cut_off { ThreadStatus::Interrupted } else { thread_status(ending.status) };
        let patch = ThreadPatch { status: Some(status), updated_at: Some(now), ..ThreadPatch::default() };
        Ok(Write::UpdateThread { thread_id: self.thread_id, patch })
    }

    /// The question this run answers may be open in the store still.
    async fn others_wait(&self) -> Result<bool> {
        let answered = |id| {
            let resolves = |write: &Write| matches!(write, Write::ResolveInterrupt { interrupt_id, .. } if *interrupt_id == id);
            self.owed.writes().iter().any(resolves)
        };
        let pending = self.driver.store.pending_interrupts(self.thread_id).await?;
        Ok(pending.iter().any(|interrupt| !answered(interrupt.interrupt_id)))
    }

    fn interrupt(
        &self,
        turn: &Turn<'_>,
        index: usize,
        payload: &InterruptPayload,
        now: Timestamp,
    ) -> Interrupt {
        Interrupt {
            interrupt_id: self.interrupt_id(turn, index),
            thread_id: self.thread_id,
            run_id: self.run_id,
            node: turn.next.clone().unwrap_or_default(),
            payload: payload.clone(),
            status: InterruptStatus::Pending,
            decisions: None,
            created_at: now,
            resolved_at: None,
        }
    }

    fn ended(&self, turn: &Turn<'_>, ending: &Ending, now: Timestamp) -> Result<NewEvent> {
        let events = RunEvents { run_id: self.run_id, at: now };
        let event = match &ending.failure {
            None if ending.status == RunStatus::Interrupted => {
                let requests = ending.interrupts.iter().flat_map(|payload| &payload.action_requests);
                let ids = 0..ending.interrupts.len();
                events.interrupted(&RunInterrupted {
                    interrupt_ids: ids.map(|index| self.interrupt_id(turn, index)).collect(),
                    actions: requests.map(|request| request.name.clone()).collect(),
                    next: turn.next.clone(),
                })?
            }
            Some(failure) if ending.status == RunStatus::Error => {
                events.failed(failure.clone(), turn.step)?
            }
            Some(_) | None => events.ended(ending.status, turn.step)?,
        };
        Ok(event)
    }
}

const fn is_renewal(write: &Write) -> bool {
    matches!(write, Write::UpdateRun { patch: RunPatch { lease_until: Some(_), .. }, .. })
}

const fn thread_status(status: RunStatus) -> ThreadStatus {
    match status {
        RunStatus::Pending | RunStatus::Running => ThreadStatus::Busy,
        RunStatus::Success | RunStatus::Cancelled => ThreadStatus::Idle,
        RunStatus::Interrupted => ThreadStatus::Interrupted,
        RunStatus::Error | RunStatus::Timeout => ThreadStatus::Error,
    }
}
