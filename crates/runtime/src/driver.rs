//! The driver: does what the turn machine asks for, one effect at a time. It decides nothing.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use journal::{EventQuery, Fence, RunPatch, Store, ThreadPatch, Transaction, Write};
use protocol::{
    Checkpoint, CheckpointId, Decisions, Event, EventType, Interrupt, InterruptId, InterruptPayload,
    InterruptStatus, NewEvent, PendingActivity, RunId, RunStatus, Seq, ThreadId, ThreadStatus,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::Result;
use crate::activity::Activities;
use crate::admit::LEASE;
use crate::frame::{Frame, Frames};
use crate::graph::Graph;
use crate::step::{Failure, FailureKind, StepContext, Update};
use crate::turn::{Effect, Ending, Input, Turn};

/// How often a lease is renewed while a node runs; a third of its length, so that two renewals may be late.
const LEASE_RENEWAL: Duration = Duration::from_secs(10);

/// What a run may use at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Steps of one run.
    pub steps_max: u64,
    /// Wall-clock time of one run; `None` is no limit.
    pub time_max: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps_max: 200, time_max: None }
    }
}

/// How a run came to rest.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEnd {
    /// The run.
    pub run_id: RunId,
    /// Its last status.
    pub status: RunStatus,
    /// What waits for an answer, when it is interrupted.
    pub interrupt: Option<Interrupt>,
    /// The sort of failure, when it failed.
    pub kind: Option<String>,
    /// Why, when it did not succeed.
    pub error: Option<String>,
    /// What a person can do about it.
    pub hint: Option<String>,
}

/// Runs turns of one graph.
#[derive(Clone)]
pub struct Driver {
    /// Where facts go.
    pub store: Arc<dyn Store>,
    /// The graph.
    pub graph: Arc<Graph>,
    /// The activities its nodes may ask for.
    pub activities: Activities,
    /// The name of this process in leases.
    pub owner: String,
    /// What a run may use.
    pub limits: Limits,
}

/// One run being driven.
struct Drive<'a> {
    driver: &'a Driver,
    thread_id: ThreadId,
    run_id: RunId,
    frames: &'a Frames,
    cancel: &'a CancellationToken,
    deadline: Option<tokio::time::Instant>,
}

impl Driver {
    /// Drives the run at `checkpoint` until it rests. What happened on the way is in the journal; a crash at any
    /// point leaves a checkpoint from which calling this again goes on.
    ///
    /// # Errors
    /// When the journal fails, or the run belongs to another process: the run itself is untouched then.
    pub async fn drive(
        &self,
        checkpoint: &Checkpoint,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<RunEnd> {
        let (thread_id, run_id) = (checkpoint.thread_id, checkpoint.run_id);
        let deadline = self.limits.time_max.map(|limit| tokio::time::Instant::now() + limit);
        let drive = Drive { driver: self, thread_id, run_id, frames, cancel, deadline };
        frames.send(Frame::RunStarted { thread_id, run_id });
        let (mut turn, mut effect) = Turn::begin(&self.graph, checkpoint, self.limits.steps_max);
        loop {
            let input = match effect {
                Effect::Run { node, decisions } => drive.run(&turn, &node, decisions.as_ref()).await?,
                Effect::Commit { update, ending } => {
                    drive.commit(&turn, update, ending.as_ref()).await?;
                    Input::Committed
                }
                Effect::Perform(activity) => Input::Performed(drive.perform(&activity).await),
                Effect::Rest(ending) => return drive.rest(&turn, ending).await,
            };
            effect = turn.advance(drive.stop(input));
        }
    }
}

impl Drive<'_> {
    async fn run(&self, turn: &Turn<'_>, node: &str, decisions: Option<&Decisions>) -> Result<Input> {
        let Some(found) = self.driver.graph.get(node) else {
            let unknown = format!("continue the run: this version has no node `{node}`");
            return Ok(Input::Ran(Err(Failure::new(FailureKind::Internal, unknown))));
        };
        self.frames.send(Frame::StepStarted { node: node.to_owned(), step: turn.step + 1 });
        let cancel = self.cancel.child_token();
        let mut is_late = false;
        let work = found.run(StepContext {
            thread_id: self.thread_id,
            run_id: self.run_id,
            step: turn.step + 1,
            channels: &turn.channels,
            decisions,
            store: &self.driver.store,
            frames: self.frames,
            cancel: &cancel,
        });
        tokio::pin!(work);
        let mut renewal = tokio::time::interval(LEASE_RENEWAL);
        renewal.tick().await;
        loop {
            tokio::select! {
                done = &mut work => return Ok(match done {
                    Ok(update) if is_late => stop(update, RunStatus::Timeout, "its time is up"),
                    done => Input::Ran(done),
                }),
                () = at(self.deadline), if !is_late => {
                    // The node returns what it has.
                    is_late = true;
                    cancel.cancel();
                }
                _ = renewal.tick() => self.renew().await?,
            }
        }
    }

    async fn perform(&self, activity: &PendingActivity) -> std::result::Result<Update, Failure> {
        let Some(found) = self.driver.activities.get(&activity.name) else {
            let unknown = format!("continue the run: this version has no activity `{}`", activity.name);
            return Err(Failure::new(FailureKind::Internal, unknown));
        };
        found.perform(&activity.args, self.frames).await
    }

    /// A person's stop takes effect between steps: what the node returned is kept, what would follow is not begun.
    fn stop(&self, input: Input) -> Input {
        if !self.cancel.is_cancelled() {
            return input;
        }
        match input {
            Input::Ran(Ok(update)) => stop(update, RunStatus::Cancelled, "it was stopped"),
            Input::Committed => stop(Update::default(), RunStatus::Cancelled, "it was stopped"),
            Input::Ran(Err(_)) | Input::Performed(_) | Input::Stop { .. } => input,
        }
    }

    async fn renew(&self) -> Result<()> {
        let lease_until = Some(Timestamp::now() + LEASE);
        let patch = RunPatch { lease_until, ..RunPatch::default() };
        let writes = vec![Write::UpdateRun { run_id: self.run_id, patch }];
        self.driver.store.commit(Transaction { fence: Some(self.fence()), writes }).await?;
        Ok(())
    }

    fn fence(&self) -> Fence {
        Fence { run_id: self.run_id, owner: self.driver.owner.clone() }
    }

    async fn commit(&self, turn: &Turn<'_>, update: Update, ending: Option<&Ending>) -> Result<()> {
        let now = Timestamp::now();
        let mut events = update.events;
        if let Some(ending) = ending {
            events.push(self.ended(turn, ending, now)?);
        }
        let events: Vec<NewEvent> = events.into_iter().map(|event| event.in_run(self.run_id)).collect();
        let mut writes = update.writes;
        writes.push(Write::Append { thread_id: self.thread_id, events });
        if let Some(payload) = ending.and_then(|ending| ending.interrupt.as_ref()) {
            writes.push(Write::RaiseInterrupt(self.interrupt(turn, payload, now)));
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
        if let Some(ending) = ending {
            let waits = !self.driver.store.pending_interrupts(self.thread_id).await?.is_empty();
            let rests = thread_status(ending.status);
            let patch = ThreadPatch {
                status: Some(if waits { ThreadStatus::Interrupted } else { rests }),
                updated_at: Some(now),
                ..ThreadPatch::default()
            };
            writes.push(Write::UpdateThread { thread_id: self.thread_id, patch });
        }
        writes.push(Write::PutCheckpoint(Checkpoint {
            checkpoint_id: CheckpointId::generate(),
            thread_id: self.thread_id,
            run_id: self.run_id,
            step: turn.step,
            head_seq: 0,
            next: turn.next.clone(),
            channels: turn.channels.clone(),
            activities: turn.activities.iter().cloned().collect(),
            created_at: now,
        }));
        let committed = self.driver.store.commit(Transaction { fence: Some(self.fence()), writes }).await?;
        let last = committed.seqs.last().and_then(|seqs| seqs.iter().max().copied());
        self.show(last.unwrap_or(0), committed.stored).await
    }

    /// Sends the events just stored, as they are stored: the `stored` newest ones. An event whose key was there
    /// before is not among them.
    async fn show(&self, last: Seq, stored: u64) -> Result<()> {
        let limit = usize::try_from(stored).unwrap_or(usize::MAX).min(journal::PAGE_ROWS_MAX);
        if limit == 0 {
            return Ok(());
        }
        let query =
            EventQuery { before: Some(last + 1), ..EventQuery::after(last.saturating_sub(stored), limit) };
        for event in self.driver.store.events(self.thread_id, query).await? {
            self.frames.send(Frame::Event(Box::<Event>::new(event)));
        }
        Ok(())
    }

    fn interrupt(&self, turn: &Turn<'_>, payload: &InterruptPayload, now: Timestamp) -> Interrupt {
        let node = turn.next.clone().unwrap_or_default();
        Interrupt {
            interrupt_id: InterruptId::derive(self.run_id, turn.step, &node),
            thread_id: self.thread_id,
            run_id: self.run_id,
            node,
            payload: payload.clone(),
            status: InterruptStatus::Pending,
            decisions: None,
            created_at: now,
            resolved_at: None,
        }
    }

    fn ended(&self, turn: &Turn<'_>, ending: &Ending, now: Timestamp) -> Result<NewEvent> {
        let event = match (&ending.interrupt, &ending.failure) {
            (Some(payload), _) => {
                let node = turn.next.clone().unwrap_or_default();
                let id = InterruptId::derive(self.run_id, turn.step, &node);
                let actions: Vec<&str> =
                    payload.action_requests.iter().map(|request| request.name.as_str()).collect();
                NewEvent::new(
                    EventType::RunInterrupted,
                    &json!({"interrupt_id": id, "actions": actions}),
                    now,
                )?
            }
            (None, Some((kind, message, _))) if ending.status == RunStatus::Error => {
                let content = json!({"kind": kind, "message": message, "steps": turn.step});
                NewEvent::new(EventType::RunFailed, &content, now)?
            }
            (None, _) => {
                let content = json!({"status": ending.status, "steps": turn.step});
                NewEvent::new(EventType::RunEnded, &content, now)?
            }
        };
        Ok(event)
    }

    async fn rest(&self, turn: &Turn<'_>, ending: Ending) -> Result<RunEnd> {
        let interrupt = match &ending.interrupt {
            Some(_) => {
                let node = turn.next.clone().unwrap_or_default();
                self.driver.store.interrupt(InterruptId::derive(self.run_id, turn.step, &node)).await?
            }
            None => None,
        };
        if let Some(interrupt) = &interrupt {
            self.frames.send(Frame::Interrupted(Box::new(interrupt.clone())));
        }
        let (kind, error, hint) = match ending.failure {
            Some((kind, error, hint)) => (Some(kind), Some(error), hint),
            None => (None, None, None),
        };
        let run_id = self.run_id;
        self.frames.send(Frame::RunEnded { run_id, status: ending.status, error: error.clone() });
        Ok(RunEnd { run_id, status: ending.status, interrupt, kind, error, hint })
    }
}

fn stop(update: Update, status: RunStatus, why: &str) -> Input {
    Input::Stop { update, status, why: why.to_owned() }
}

async fn at(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
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
