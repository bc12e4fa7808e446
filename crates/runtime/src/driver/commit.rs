//! The commits of a driven run: steps, activities and the end of the run, and the frames that publish them once
//! they are durable.

use std::sync::atomic::Ordering;

use jiff::Timestamp;
use journal::{RunPatch, ThreadPatch, Transaction, Write};
use protocol::event::body::RunInterrupted;
use protocol::{
    Checkpoint, CheckpointId, CheckpointSource, Event, Interrupt, InterruptId, InterruptPayload,
    InterruptStatus, NewEvent, RunStatus, Seq, ThreadStatus,
};

use super::deferred::{DeferredWrites, StateSnapshot, StepNotice, StepUpdate};
use super::{ActiveRun, OtherQuestions};
use crate::Result;
use crate::admit::{RELEASED_LEASE_END, is_head_conflict};
use crate::driver::lifecycle::RunEvents;
use crate::error::Error;
use crate::step::{EarlyCommit, GraphUpdate, StepEntry};
use crate::stream::frame::{Frame, public_channels};
use crate::turn::{RunEnding, TurnMachine, interrupt_id};

impl ActiveRun<'_> {
    /// Commits a step or the confirmation of an activity together with the checkpoint and, if `ending` is given,
    /// the end of the run. If an immediate node comes next, the writes are deferred and committed with the step
    /// of that node.
    ///
    /// # Errors
    /// Fails when the journal fails or another process holds the run.
    pub(super) async fn commit_step(
        &mut self,
        turn: &TurnMachine<'_>,
        update: GraphUpdate,
        ending: Option<&RunEnding>,
    ) -> Result<()> {
        let now = Timestamp::now();
        self.usage.lock().add(update.usage);
        let mut events = update.events;
        // The same key in another step of the run is the same event.
        events.retain(|event| event.event_key.as_ref().is_none_or(|key| self.event_keys.insert(key.clone())));
        if let Some(ending) = ending {
            events.push(self.run_end_event(turn, ending, now)?);
        }
        let mut writes = update.writes;
        let mut trailing_writes = Vec::new();
        if let Some(ending) = ending {
            let interrupts = ending.interrupts.iter().enumerate();
            trailing_writes
                .extend(interrupts.map(|(index, payload)| {
                    Write::RaiseInterrupt(self.interrupt(turn, index, payload, now))
                }));
            writes.push(self.thread_status_write(turn, ending, now).await?);
        }
        let failure = ending.and_then(|ending| ending.failure.as_ref());
        writes.push(Write::UpdateRun {
            run_id: self.run_id,
            patch: RunPatch {
                status: ending.map(|ending| ending.status),
                failure: failure.cloned(),
                lease_until: ending.is_none().then(|| self.driver.lease.lease_end()),
                add_usage: Some(update.usage),
                at: Some(now),
            },
        });
        let checkpoint = self.checkpoint(turn, now);
        let state = self.frames.is_open().then(|| StateSnapshot {
            caused_by: Some((turn.last_node().to_owned(), public_channels(&update.channels))),
            step: turn.step,
            checkpoint_id: checkpoint.checkpoint_id,
            next: turn.next.clone(),
            channels: public_channels(&turn.channels),
        });
        let events = self.events_in_run(events);
        let published_events = self.published_events(&events);
        trailing_writes.push(Write::PutCheckpoint(checkpoint));
        let notice = StepUpdate { events: published_events, state };
        self.deferred_writes.add_step(writes, self.thread_id, events, trailing_writes, notice);
        let is_followed_by_immediate = ending.is_none()
            && turn.activities.is_empty()
            && turn.next.as_deref().is_some_and(|next| self.is_immediate(next));
        if is_followed_by_immediate { Ok(()) } else { self.flush_deferred().await }
    }

    /// Commits events and rows of a step that is still running.
    pub(super) async fn commit_early(&self, commit: EarlyCommit) -> Result<()> {
        let EarlyCommit { events, writes, committed } = commit;
        let mut early_writes = DeferredWrites::default();
        let events = self.events_in_run(events);
        let notice = StepUpdate { events: self.published_events(&events), state: None };
        early_writes.add_step(writes, self.thread_id, events, Vec::new(), notice);
        self.commit_and_publish(early_writes).await?;
        if let Some(committed) = committed {
            // The node may have been dropped, so that nobody waits.
            let _ = committed.send(());
        }
        Ok(())
    }

    /// Returns the events with this run's id.
    fn events_in_run(&self, events: Vec<NewEvent>) -> Vec<NewEvent> {
        events.into_iter().map(|event| event.with_run(self.run_id)).collect()
    }

    /// Returns copies of the events to publish once they are durable. Without subscribers nothing is copied.
    fn published_events(&self, events: &[NewEvent]) -> Vec<NewEvent> {
        if self.frames.is_open() { events.to_vec() } else { Vec::new() }
    }

    /// Commits the deferred writes, if there are any.
    pub(super) async fn flush_deferred(&mut self) -> Result<()> {
        let deferred = std::mem::take(&mut self.deferred_writes);
        if deferred.is_empty() { Ok(()) } else { self.commit_and_publish(deferred).await }
    }

    /// Commits the writes and then publishes them. Events that were in the journal before, because their key
    /// existed, are not published again.
    async fn commit_and_publish(&self, deferred: DeferredWrites) -> Result<()> {
        let DeferredWrites { writes, notices, is_admission } = deferred;
        let fence = (!is_admission).then(|| self.fence());
        let (started_at, is_lease_renewal) =
            (tokio::time::Instant::now(), is_admission || writes.iter().any(is_renewal));
        let committed = self.driver.store.commit(Transaction { fence, writes }).await;
        let committed = match committed.map_err(Error::from) {
            Err(error) if is_admission && is_head_conflict(&error) => return Err(Error::HeadConflict),
            committed => committed?,
        };
        if is_lease_renewal {
            self.lease_guard.note_renewal(started_at);
        }
        if is_admission {
            // The admission's notice is the first, and its append holds the events of the admission.
            let start_seq = notices
                .first()
                .and_then(|notice| committed.seqs.get(notice.append_index)?.iter().copied().max());
            self.frames.advance_to(start_seq.unwrap_or(self.head()));
            self.frames.send(Frame::RunStarted { thread_id: self.thread_id, run_id: self.run_id });
        }
        for StepNotice { append_index, update: StepUpdate { events, state } } in notices {
            let seqs = committed.seqs.get(append_index).map(Vec::as_slice).unwrap_or_default();
            let before = self.head();
            for (event, seq) in events.into_iter().zip(seqs).filter(|(_, seq)| **seq > before) {
                self.frames.send(Frame::Event(Box::new(Event::from_new(event, self.thread_id, *seq))));
            }
            let head_seq = seqs.iter().copied().max().unwrap_or(0).max(before);
            self.head.store(head_seq, Ordering::Relaxed);
            if let Some(state) = state {
                self.publish_state(state, head_seq);
            }
        }
        Ok(())
    }

    /// Publishes the state after a step, or at the start of a run.
    fn publish_state(&self, state: StateSnapshot, head_seq: Seq) {
        let StateSnapshot { caused_by, step, checkpoint_id, next, channels } = state;
        if let Some((node, channels)) = caused_by {
            if self.is_immediate(&node) {
                self.frames.send(Frame::StepStarted { node: node.clone(), step });
            }
            self.frames.send(Frame::Updates { node, channels });
        }
        let run_id = self.run_id;
        self.frames.send(Frame::Values { run_id, step, checkpoint_id, head_seq, next, channels });
    }

    /// Publishes the start of the run and the state at its start. If the admission is deferred, this happens once
    /// it is durable.
    pub(super) fn publish_start(&mut self, checkpoint: &Checkpoint, entry: StepEntry) {
        // Subscribers received the start state of a recovered run when the run started.
        let has_start_state = entry == StepEntry::Fresh && self.frames.is_open();
        let state = has_start_state.then(|| StateSnapshot::initial(checkpoint));
        if self.deferred_writes.is_admission {
            self.deferred_writes.set_initial_state(state);
            return;
        }
        self.frames.send(Frame::RunStarted { thread_id: self.thread_id, run_id: self.run_id });
        if let Some(state) = state {
            self.publish_state(state, checkpoint.head_seq);
        }
    }

    /// Releases the run to other processes at shutdown: commits the deferred writes and ends the lease. The end
    /// of the lease tells the next process whether the next step may have been started: [`RELEASED_LEASE_END`] if
    /// it was not, the present if it may have been by a process before this one.
    ///
    /// Returns the error with which to stop driving: [`Error::ShuttingDown`], or the error of the journal.
    pub(super) async fn release_run(&mut self, turn: &TurnMachine<'_>) -> Error {
        if let Err(error) = self.flush_deferred().await {
            return error;
        }
        let lease_until = match turn.entry() {
            StepEntry::Fresh => Some(RELEASED_LEASE_END),
            StepEntry::Recovered => Some(self.driver.lease.now()),
        };
        let patch = RunPatch { lease_until, ..RunPatch::default() };
        let empty_append = Write::Append { thread_id: self.thread_id, events: Vec::new() };
        // An append, even without events, notifies the subscribers of the thread's commits.
        let writes = vec![Write::UpdateRun { run_id: self.run_id, patch }, empty_append];
        match self.driver.store.commit(Transaction { fence: Some(self.fence()), writes }).await {
            Ok(_) => Error::ShuttingDown,
            Err(error) => error.into(),
        }
    }

    /// Returns the id of the interrupt for question number `index` of the step that just ended.
    pub(super) fn interrupt_id(&self, turn: &TurnMachine<'_>, index: usize) -> InterruptId {
        interrupt_id(self.run_id, turn.step, turn.next.as_deref().unwrap_or_default(), index)
    }

    /// Returns the checkpoint after the last step. The journal sets its `head_seq` at the commit.
    fn checkpoint(&self, turn: &TurnMachine<'_>, now: Timestamp) -> Checkpoint {
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

    /// Returns the write that sets the thread's status at the end of the run. The thread counts as interrupted
    /// while it has pending questions or was stopped before the graph ended.
    async fn thread_status_write(
        &self,
        turn: &TurnMachine<'_>,
        ending: &RunEnding,
        now: Timestamp,
    ) -> Result<Write> {
        let has_pending_questions =
            self.other_questions == OtherQuestions::Unknown && self.has_other_questions().await?;
        let is_stopped_midway = ending.status == RunStatus::Cancelled && turn.next.is_some();
        let status = if has_pending_questions || is_stopped_midway {
            ThreadStatus::Interrupted
        } else {
            thread_status(ending.status)
        };
        let patch = ThreadPatch { status: Some(status), updated_at: Some(now), ..ThreadPatch::default() };
        Ok(Write::UpdateThread { thread_id: self.thread_id, patch })
    }

    /// Returns whether the thread has pending interrupts other than those that this run's deferred writes
    /// resolve.
    async fn has_other_questions(&self) -> Result<bool> {
        let answered = |id| {
            let resolves = |write: &Write| matches!(write, Write::ResolveInterrupt { interrupt_id, .. } if *interrupt_id == id);
            self.deferred_writes.writes().iter().any(resolves)
        };
        let pending = self.driver.store.pending_interrupts(self.thread_id).await?;
        Ok(pending.iter().any(|interrupt| !answered(interrupt.interrupt_id)))
    }

    /// Returns the interrupt for a question of the step that just ended.
    fn interrupt(
        &self,
        turn: &TurnMachine<'_>,
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

    /// Returns the event that records the end of the run: interrupted, failed or ended.
    fn run_end_event(&self, turn: &TurnMachine<'_>, ending: &RunEnding, now: Timestamp) -> Result<NewEvent> {
        let events = RunEvents { run_id: self.run_id, at: now };
        let event = match &ending.failure {
            None if ending.status == RunStatus::Interrupted => {
                let requests = ending.interrupts.iter().flat_map(|payload| &payload.action_requests);
                let ids = 0..ending.interrupts.len();
                events.interrupted_event(&RunInterrupted {
                    interrupt_ids: ids.map(|index| self.interrupt_id(turn, index)).collect(),
                    actions: requests.map(|request| request.name.clone()).collect(),
                    next: turn.next.clone(),
                })?
            }
            Some(failure) if ending.status == RunStatus::Error => {
                events.failed_event(failure.clone(), turn.step)?
            }
            Some(_) | None => events.ended_event(ending.status, turn.step)?,
        };
        Ok(event)
    }
}

/// Returns whether the write renews the run's lease.
const fn is_renewal(write: &Write) -> bool {
    matches!(write, Write::UpdateRun { patch: RunPatch { lease_until: Some(_), .. }, .. })
}

/// Returns the status of a thread whose last run has this status.
const fn thread_status(status: RunStatus) -> ThreadStatus {
    match status {
        RunStatus::Pending | RunStatus::Running => ThreadStatus::Busy,
        RunStatus::Success | RunStatus::Cancelled => ThreadStatus::Idle,
        RunStatus::Interrupted => ThreadStatus::Interrupted,
        RunStatus::Error | RunStatus::Timeout => ThreadStatus::Error,
    }
}
