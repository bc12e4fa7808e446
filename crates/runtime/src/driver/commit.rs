//! The driver's writes: what a step, an activity or the end of a run makes durable, and the frames that tell of it.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use jiff::Timestamp;
use journal::{RunPatch, ThreadPatch, Transaction, Write};
use protocol::{
    Checkpoint, CheckpointId, Event, EventType, Interrupt, InterruptId, InterruptPayload, InterruptStatus,
    NewEvent, RunStatus, ThreadStatus,
};
use serde_json::json;

use super::Drive;
use super::owed::{Owed, Part, State, Told};
use crate::Result;
use crate::admit::{LEASE, is_outrun};
use crate::error::Error;
use crate::step::Update;
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
        self.usage.lock().unwrap_or_else(PoisonError::into_inner).add(update.usage);
        let mut events = update.events;
        if let Some(ending) = ending {
            events.push(self.ended(turn, ending, now)?);
        }
        let mut writes = update.writes;
        if let Some(ending) = ending {
            for (index, payload) in ending.interrupts.iter().enumerate() {
                writes.push(Write::RaiseInterrupt(self.interrupt(turn, (index, payload), now)));
            }
            writes.push(self.thread_rests(ending, now).await?);
        }
        writes.push(Write::UpdateRun {
            run_id: self.run_id,
            patch: RunPatch {
                status: ending.map(|ending| ending.status),
                error: ending
                    .and_then(|ending| ending.failure.as_ref().map(|(_, message, _)| message.clone())),
                lease_until: ending.is_none().then_some(now + LEASE),
                add_usage: Some(update.usage),
                at: Some(now),
            },
        });
        let checkpoint = self.checkpoint(turn, now);
        let state = self.frames.is_open().then(|| State {
            node: turn.node().to_owned(),
            step: turn.step,
            changed: public(&update.channels),
            checkpoint_id: checkpoint.checkpoint_id,
            next: turn.next.clone(),
            channels: public(&turn.channels),
        });
        let events = self.own(events);
        let shown = self.shown(&events);
        let told = Told { events: shown, state };
        self.owed.add(writes, (self.thread_id, events), Some(checkpoint), told);
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
        recorded.add(writes, (self.thread_id, events), None, told);
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
        let committed = self.driver.store.commit(Transaction { fence, writes }).await;
        let committed = match committed.map_err(Error::from) {
            Err(error) if is_admission && is_outrun(&error) => return Err(Error::Outrun),
            committed => committed?,
        };
        if is_admission {
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
            if let Some(State { node, step, changed, checkpoint_id, next, channels }) = state {
                if self.is_immediate(&node) {
                    self.frames.send(Frame::StepStarted { node: node.clone(), step });
                }
                self.frames.send(Frame::Updates { node, channels: changed });
                self.frames.send(Frame::Values { checkpoint_id, head_seq, next, channels });
            }
        }
        Ok(())
    }

    pub(super) async fn renew(&self) -> Result<()> {
        // A run that is not there yet has no lease.
        if self.owed.is_admission {
            return Ok(());
        }
        let lease_until = Some(Timestamp::now() + LEASE);
        let patch = RunPatch { lease_until, ..RunPatch::default() };
        let writes = vec![Write::UpdateRun { run_id: self.run_id, patch }];
        self.driver.store.commit(Transaction { fence: Some(self.fence()), writes }).await?;
        Ok(())
    }

    pub(super) fn interrupt_id(&self, turn: &Turn<'_>, index: usize) -> InterruptId {
        interrupt_id(self.run_id, turn.step, (turn.next.as_deref().unwrap_or_default(), index))
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
            created_at: now,
        }
    }

    /// The question this run answers may be open in the store still.
    async fn thread_rests(&self, ending: &Ending, now: Timestamp) -> Result<Write> {
        let answered = |id| {
            let resolves = |write: &Write| matches!(write, Write::ResolveInterrupt { interrupt_id, .. } if *interrupt_id == id);
            self.owed.writes().iter().any(resolves)
        };
        let pending = self.driver.store.pending_interrupts(self.thread_id).await?;
        let waits = pending.iter().any(|interrupt| !answered(interrupt.interrupt_id));
        let status = if waits { ThreadStatus::Interrupted } else { thread_status(ending.status) };
        let patch = ThreadPatch { status: Some(status), updated_at: Some(now), ..ThreadPatch::default() };
        Ok(Write::UpdateThread { thread_id: self.thread_id, patch })
    }

    fn interrupt(
        &self,
        turn: &Turn<'_>,
        (index, payload): (usize, &InterruptPayload),
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
        let event = match &ending.failure {
            None if !ending.interrupts.is_empty() => {
                let requests = ending.interrupts.iter().flat_map(|payload| &payload.action_requests);
                let actions: Vec<&str> = requests.map(|request| request.name.as_str()).collect();
                let ids: Vec<InterruptId> =
                    (0..ending.interrupts.len()).map(|index| self.interrupt_id(turn, index)).collect();
                let content = json!({"interrupt_ids": ids, "actions": actions});
                NewEvent::new(EventType::RunInterrupted, &content, now)?
            }
            Some((kind, message, _)) if ending.status == RunStatus::Error => {
                let content = json!({"kind": kind, "message": message, "steps": turn.step});
                NewEvent::new(EventType::RunFailed, &content, now)?
            }
            Some(_) | None => {
                let content = json!({"status": ending.status, "steps": turn.step});
                NewEvent::new(EventType::RunEnded, &content, now)?
            }
        };
        Ok(event)
    }
}

const fn thread_status(status: RunStatus) -> ThreadStatus {
    match status {
        RunStatus::Pending | RunStatus::Running => ThreadStatus::Busy,
        RunStatus::Success | RunStatus::Cancelled => ThreadStatus::Idle,
        RunStatus::Interrupted => ThreadStatus::Interrupted,
        RunStatus::Error | RunStatus::Timeout => ThreadStatus::Error,
    }
}
