//! Runs that end with their admission: there was nothing to do, or the request could not be met. One transaction holds
//! both, so that nobody ever sees such a run at work.

use jiff::Timestamp;
use journal::{RunPatch, ThreadPatch, Transaction, Write};
use protocol::event::body::RunBeginning;
use protocol::{
    Checkpoint, Decisions, Interrupt, NewEvent, Run, RunId, RunRequest, RunStatus, Seq, ThreadId,
    ThreadStatus, Usage,
};
use protocol::{FailureKind, RunFailure};
use runtime::{Frame, Frames, RunEnd, RunEvents};

use super::Admitting;
use crate::Result;
use crate::requests::threads::stamped;
use crate::requests::{Begun, Work};

/// The most bytes of a request that is kept as it came where its run failed before it began.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// A run that has ended before anything was driven.
pub(crate) struct Ended {
    pub(crate) end: RunEnd,
    /// Where the thread stands.
    head: Option<Checkpoint>,
    /// The event that tells of its beginning.
    begun: Seq,
    /// The last event of the run.
    seq: Seq,
}

/// How a run ends at once.
pub(super) enum Outcome {
    /// There was nothing to do.
    Nothing,
    /// What the thread asks still waits.
    Waiting,
    /// The request could not be met.
    Failed(RunFailure),
}

impl Outcome {
    const fn status(&self) -> RunStatus {
        match self {
            Self::Nothing => RunStatus::Success,
            Self::Waiting => RunStatus::Interrupted,
            Self::Failed(_) => RunStatus::Error,
        }
    }

    /// Returns where it leaves the thread in which this waits; `None` where that was.
    fn leaves(&self, pending: &[Interrupt]) -> Option<ThreadStatus> {
        match self {
            Self::Failed(_) if pending.is_empty() => Some(ThreadStatus::Error),
            Self::Nothing | Self::Waiting | Self::Failed(_) => None,
        }
    }

    /// Returns what is kept of the request. What was put in with one that failed is nowhere else; a list of runs shows
    /// it, so that it is kept up to a bound.
    fn keeps(&self, request: &RunRequest) -> RunRequest {
        match self {
            Self::Nothing | Self::Waiting => request.begun(),
            Self::Failed(_) if is_short(request) => {
                RunRequest { webhook: request.begun().webhook, ..request.clone() }
            }
            Self::Failed(_) => request.begun(),
        }
    }
}

/// Returns whether a request may be kept as it came.
fn is_short(request: &RunRequest) -> bool {
    serde_json::to_vec(request).is_ok_and(|json| json.len() <= KEPT_BYTES_MAX)
}

impl Ended {
    /// Tells of the run what there is to tell.
    pub(in crate::requests) fn tell(self, thread_id: ThreadId, frames: &Frames) -> RunEnd {
        let (run_id, end) = (self.end.run_id, self.end);
        frames.at(self.begun);
        frames.send(Frame::RunStarted { thread_id, run_id });
        if let Some(head) = self.head {
            frames.send(Frame::Values {
                run_id,
                step: 0,
                checkpoint_id: head.checkpoint_id,
                head_seq: head.head_seq,
                next: head.next,
                channels: head.channels.into_iter().filter(|(key, _)| !key.starts_with('_')).collect(),
            });
        }
        frames.at(self.seq);
        for interrupt in &end.interrupts {
            frames.send(Frame::Interrupted(Box::new(interrupt.clone())));
        }
        frames.send(Frame::RunEnded { run_id, status: end.status, failure: end.failure.clone() });
        end
    }
}

impl Admitting<'_> {
    /// Ends the run with a fault; the thread is as it was.
    ///
    /// # Errors
    /// When another run of the thread is active, or the journal fails.
    pub(in crate::requests) async fn fail(&self, fault: RunFailure) -> Result<Begun> {
        let store = &self.agent.store;
        let thread_id = self.thread.thread_id;
        let head = store.checkpoint(thread_id).await?;
        let pending = store.pending_interrupts(thread_id).await?;
        self.end(Outcome::Failed(fault), head, pending).await
    }

    /// Stores answers while other questions of their step wait, and ends the run with these: whoever answers the last one
    /// goes on.
    ///
    /// # Errors
    /// When somebody else was first, another run of the thread is active, or the journal fails.
    pub(super) async fn answer_some(
        &self,
        answers: &[(&Interrupt, Decisions)],
        head: Option<Checkpoint>,
        others: Vec<Interrupt>,
    ) -> Result<Begun> {
        let resolve = |(interrupt, decisions): &(&Interrupt, Decisions)| Write::ResolveInterrupt {
            interrupt_id: interrupt.interrupt_id,
            decisions: Some(decisions.clone()),
            at: self.now,
        };
        let is_of_step = |other: &&Interrupt| answers.iter().any(|(answered, _)| answered.node == other.node);
        let open = others.iter().filter(is_of_step).map(|other| other.interrupt_id);
        let expected = open.map(|interrupt_id| Write::ExpectPending { interrupt_id });
        let writes = expected.chain(answers.iter().map(resolve)).collect();
        self.end_with(writes, Outcome::Waiting, head, others).await
    }

    /// Ends the run in the transaction that admits it.
    ///
    /// # Errors
    /// When another run of the thread is active, or the journal fails.
    pub(super) async fn end(
        &self,
        outcome: Outcome,
        head: Option<Checkpoint>,
        pending: Vec<Interrupt>,
    ) -> Result<Begun> {
        self.end_with(Vec::new(), outcome, head, pending).await
    }

    /// Ends the run in the transaction that admits it, behind `writes`. What is pending was read after the thread's `head`,
    /// and no other question comes for as long as that is the newest.
    ///
    /// # Errors
    /// [`runtime::Error::Outrun`] when another run came and went meanwhile, or a question that was expected to wait does not.
    pub(super) async fn end_with(
        &self,
        mut writes: Vec<Write>,
        outcome: Outcome,
        head: Option<Checkpoint>,
        pending: Vec<Interrupt>,
    ) -> Result<Begun> {
        let (run_id, thread_id, now) = (self.beginning.run_id, self.thread.thread_id, self.now);
        let run = self.row(None).await?;
        let status = outcome.status();
        let patch = self.leaving(&outcome, &pending);
        let failure = match &outcome {
            Outcome::Failed(failure) => Some(failure.clone()),
            Outcome::Nothing | Outcome::Waiting => None,
        };
        let ended =
            RunPatch { status: Some(status), failure: failure.clone(), at: Some(now), ..RunPatch::default() };
        let events = events(&outcome, run_id, now)?;
        let checkpoint_id = head.as_ref().map(|head| head.checkpoint_id);
        writes.extend([
            self.beginning.origin.admitting(run.clone()),
            Write::ExpectCheckpoint { thread_id, checkpoint_id },
            Write::PutRunRequest {
                run_id,
                thread_id,
                request: Box::new(outcome.keeps(self.beginning.request)),
            },
            Write::UpdateRun { run_id, patch: ended },
        ]);
        if let Some(patch) = patch {
            writes.push(Write::Append { thread_id, events });
            writes.push(Write::UpdateThread { thread_id, patch });
        }
        writes.push(Write::SettleThread { thread_id });
        writes.extend(self.agent.runs().owed(run_id, self.beginning.request).await?);
        let committed = match self.agent.store.commit(Transaction { fence: None, writes }).await {
            Err(error) if error.is_other_checkpoint() => return Err(runtime::Error::Outrun.into()),
            Err(journal::Error::AlreadyDecided { interrupt_id })
                if pending.iter().any(|other| other.interrupt_id == interrupt_id) =>
            {
                return Err(runtime::Error::Outrun.into());
            }
            committed => committed?,
        };
        let told: Vec<Seq> = committed.seqs.into_iter().flatten().collect();
        let begun = told.iter().copied().min().unwrap_or(self.thread.last_seq);
        let seq = told.iter().copied().max().unwrap_or(begun);
        let interrupts = if status == RunStatus::Interrupted { pending } else { Vec::new() };
        let end = RunEnd { run_id, status, interrupts, failure, usage: Usage::default() };
        let work = Work::Told(Box::new(Ended { end, head, begun, seq }));
        Ok(Begun { run, run_id, thread_id, work })
    }

    /// Returns what changes in the thread; `None` where an answer is refused that must not change anything.
    fn leaving(&self, outcome: &Outcome, pending: &[Interrupt]) -> Option<ThreadPatch> {
        let is_refused =
            matches!(outcome, Outcome::Failed(fault) if fault.kind == FailureKind::UnknownInterrupt);
        if is_refused && self.beginning.request.strict_resume {
            return None;
        }
        let patch = stamped(self.thread).unwrap_or_default();
        Some(ThreadPatch { status: outcome.leaves(pending), updated_at: Some(self.now), ..patch })
    }

    /// Returns the run's row as it begins.
    pub(super) async fn row(&self, model: Option<String>) -> Result<Run> {
        Ok(Run {
            run_id: self.beginning.run_id,
            thread_id: self.thread.thread_id,
            assistant_id: self.thread.assistant_id.clone(),
            status: RunStatus::Running,
            model,
            failure: None,
            lease_owner: Some(self.agent.leases.name().await?.to_owned()),
            lease_until: Some(self.now),
            usage: Usage::default(),
            created_at: self.now,
            updated_at: self.now,
        })
    }
}

/// Returns what the journal tells of the run. What waits was told when it was asked: who looks for the newest question
/// of the thread finds that.
fn events(outcome: &Outcome, run_id: RunId, at: Timestamp) -> Result<Vec<NewEvent>> {
    let of_run = RunEvents { run_id, at };
    let started = of_run.started(RunBeginning::EndedAtOnce, None)?;
    let ended = match outcome {
        Outcome::Nothing | Outcome::Waiting => of_run.ended(outcome.status(), 0)?,
        Outcome::Failed(failure) => of_run.failed(failure.clone(), 0)?,
    };
    Ok(vec![started, ended])
}
