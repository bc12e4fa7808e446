//! The driver's writes: what a step, an activity or the end of a run makes durable, and the frames that tell of it.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use jiff::Timestamp;
use journal::{RunPatch, ThreadPatch, Transaction, Write};
use protocol::{
    Checkpoint, CheckpointId, Event, EventType, Interrupt, InterruptId, InterruptPayload, InterruptStatus,
    NewEvent, RunStatus, Seq, ThreadStatus,
};
use serde_json::json;

use super::Drive;
use crate::Result;
use crate::admit::LEASE;
use crate::step::Update;
use crate::stream::frame::{Frame, public};
use crate::turn::{Ending, Turn, interrupt_id};

impl Drive<'_> {
    /// Makes the end of a step or activity durable, with the checkpoint and, if the run ends here, its end.
    pub(super) async fn commit(
        &self,
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
            writes.push(self.thread_rests(ending.status, now).await?);
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
        let checkpoint_id = checkpoint.checkpoint_id;
        let head_seq = self.append(events, writes, Some(checkpoint)).await?;
        if self.frames.is_open() {
            let node = turn.node().to_owned();
            self.frames.send(Frame::Updates { node, channels: public(&update.channels) });
            let (next, channels) = (turn.next.clone(), public(&turn.channels));
            self.frames.send(Frame::Values { checkpoint_id, head_seq, next, channels });
        }
        Ok(())
    }

    /// Makes events of a step that still runs durable.
    pub(super) async fn record(&self, events: Vec<NewEvent>, writes: Vec<Write>) -> Result<()> {
        self.append(events, writes, None).await?;
        Ok(())
    }

    pub(super) async fn renew(&self) -> Result<()> {
        let lease_until = Some(Timestamp::now() + LEASE);
        let patch = RunPatch { lease_until, ..RunPatch::default() };
        let writes = vec![Write::UpdateRun { run_id: self.run_id, patch }];
        self.driver.store.commit(Transaction { fence: Some(self.fence()), writes }).await?;
        Ok(())
    }

    pub(super) fn interrupt_id(&self, turn: &Turn<'_>, index: usize) -> InterruptId {
        interrupt_id(self.run_id, turn.step, (turn.next.as_deref().unwrap_or_default(), index))
    }

    /// Commits the events with the other writes and shows those that are new; returns the journal's position. An event
    /// whose key was there before is not shown again.
    async fn append(
        &self,
        events: Vec<NewEvent>,
        mut writes: Vec<Write>,
        checkpoint: Option<Checkpoint>,
    ) -> Result<Seq> {
        let events: Vec<NewEvent> = events.into_iter().map(|event| event.in_run(self.run_id)).collect();
        let shown = if self.frames.is_open() { events.clone() } else { Vec::new() };
        let appended = writes.iter().filter(|write| matches!(write, Write::Append { .. })).count();
        writes.push(Write::Append { thread_id: self.thread_id, events });
        writes.extend(checkpoint.map(Write::PutCheckpoint));
        let committed = self.driver.store.commit(Transaction { fence: Some(self.fence()), writes }).await?;
        let seqs = committed.seqs.get(appended).map(Vec::as_slice).unwrap_or_default();
        let before = self.head();
        for (event, seq) in shown.into_iter().zip(seqs).filter(|(_, seq)| **seq > before) {
            self.frames.send(Frame::Event(Box::new(Event::stored(event, self.thread_id, *seq))));
        }
        let head = seqs.iter().copied().max().unwrap_or(0).max(before);
        self.head.store(head, Ordering::Relaxed);
        Ok(head)
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

    async fn thread_rests(&self, status: RunStatus, now: Timestamp) -> Result<Write> {
        let waits = !self.driver.store.pending_interrupts(self.thread_id).await?.is_empty();
        let status = if waits { ThreadStatus::Interrupted } else { thread_status(status) };
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
