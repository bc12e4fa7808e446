//! Runs that end with their admission, because there is nothing to do or the request is invalid. Start and
//! end are one transaction, so that no reader sees such a run as active.

use jiff::Timestamp;
use journal::{RunPatch, ThreadPatch, Transaction, Write};
use protocol::event::body::RunStartKind;
use protocol::{
    Checkpoint, Decisions, FailureKind, Interrupt, NewEvent, Run, RunFailure, RunId, RunRequest, RunStatus,
    Seq, ThreadId, ThreadStatus, Usage,
};
use runtime::{Frame, FrameSender, RunEnd, RunEvents};

use super::RequestAdmission;
use crate::Result;
use crate::runs::request::client_threads::assistant_patch;
use crate::runs::{RemainingWork, StartedRun};

/// The most bytes of JSON up to which a failed request is stored complete.
const KEPT_REQUEST_BYTES_MAX: usize = 64 << 10;

/// A run that has ended without being driven.
pub(crate) struct ImmediateEnd {
    /// The end of the run.
    pub(crate) end: RunEnd,
    /// The thread's checkpoint.
    head: Option<Checkpoint>,
    /// The seq of the event that records the start.
    begun_seq: Seq,
    /// The seq of the last event of the run.
    last_seq: Seq,
}

/// The outcome of a run that ends immediately.
pub(super) enum ImmediateOutcome {
    /// There was nothing to do.
    NothingToDo,
    /// The questions of the thread are still pending.
    StillWaiting,
    /// The request is invalid.
    Failed(RunFailure),
}

impl ImmediateOutcome {
    /// Returns the status of the run.
    const fn run_status(&self) -> RunStatus {
        match self {
            Self::NothingToDo => RunStatus::Success,
            Self::StillWaiting => RunStatus::Interrupted,
            Self::Failed(_) => RunStatus::Error,
        }
    }

    /// Returns the thread's status after the run, given its pending interrupts; `None` if the status does not
    /// change.
    fn thread_status_after(&self, pending: &[Interrupt]) -> Option<ThreadStatus> {
        match self {
            Self::Failed(_) if pending.is_empty() => Some(ThreadStatus::Error),
            Self::NothingToDo | Self::StillWaiting | Self::Failed(_) => None,
        }
    }

    /// Returns the part of the request that is stored. The messages of a failed request are stored nowhere
    /// else, so they are kept, but only up to a limit, because lists of runs show them.
    fn request_to_keep(&self, request: &RunRequest) -> RunRequest {
        match self {
            Self::NothingToDo | Self::StillWaiting => request.without_input_messages(),
            Self::Failed(_) if is_small_request(request) => {
                RunRequest { webhook: request.without_input_messages().webhook, ..request.clone() }
            }
            Self::Failed(_) => request.without_input_messages(),
        }
    }
}

/// Returns whether a request is small enough to be stored complete.
fn is_small_request(request: &RunRequest) -> bool {
    serde_json::to_vec(request).is_ok_and(|json| json.len() <= KEPT_REQUEST_BYTES_MAX)
}

impl ImmediateEnd {
    /// Sends the frames of the run and returns its end.
    pub(in crate::runs) fn send_frames(self, thread_id: ThreadId, frames: &FrameSender) -> RunEnd {
        let (run_id, end) = (self.end.run_id, self.end);
        frames.advance_to(self.begun_seq);
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
        frames.advance_to(self.last_seq);
        for interrupt in &end.interrupts {
            frames.send(Frame::Interrupted(Box::new(interrupt.clone())));
        }
        frames.send(Frame::RunEnded { run_id, status: end.status, failure: end.failure.clone() });
        end
    }
}

impl RequestAdmission<'_> {
    /// Ends the run with a failure. The thread's state does not change.
    ///
    /// # Errors
    /// Fails if another run of the thread is active, or if the journal fails.
    pub(in crate::runs) async fn end_failed(&self, failure: RunFailure) -> Result<StartedRun> {
        let store = &self.agent.store;
        let thread_id = self.thread.thread_id;
        let head = store.checkpoint(thread_id).await?;
        let pending = store.pending_interrupts(thread_id).await?;
        self.end_immediately(ImmediateOutcome::Failed(failure), head, pending).await
    }

    /// Stores answers while other questions of their step are pending, and ends the run with those. The
    /// answer to the last question resumes the step.
    ///
    /// # Errors
    /// Fails if an interrupt was already answered, if another run of the thread is active, or if the journal
    /// fails.
    pub(super) async fn store_partial_answers(
        &self,
        answers: &[(&Interrupt, Decisions)],
        head: Option<Checkpoint>,
        others: Vec<Interrupt>,
    ) -> Result<StartedRun> {
        let resolve = |(interrupt, decisions): &(&Interrupt, Decisions)| Write::ResolveInterrupt {
            interrupt_id: interrupt.interrupt_id,
            decisions: Some(decisions.clone()),
            at: self.now,
        };
        let is_of_step = |other: &&Interrupt| answers.iter().any(|(answered, _)| answered.node == other.node);
        let open = others.iter().filter(is_of_step).map(|other| other.interrupt_id);
        let expected = open.map(|interrupt_id| Write::ExpectPendingInterrupt { interrupt_id });
        let writes = expected.chain(answers.iter().map(resolve)).collect();
        self.end_with_writes(writes, ImmediateOutcome::StillWaiting, head, others).await
    }

    /// Ends the run in the transaction that admits it.
    ///
    /// # Errors
    /// Fails as [`Self::end_with_writes`] does.
    pub(super) async fn end_immediately(
        &self,
        outcome: ImmediateOutcome,
        head: Option<Checkpoint>,
        pending: Vec<Interrupt>,
    ) -> Result<StartedRun> {
        self.end_with_writes(Vec::new(), outcome, head, pending).await
    }

    /// Ends the run in the transaction that admits it, after `writes`. `pending` was read after `head`; no
    /// interrupt is raised as long as `head` is the current checkpoint, and the transaction expects that.
    ///
    /// # Errors
    /// [`runtime::Error::HeadConflict`] if another run started and ended meanwhile, or if an interrupt that
    /// was expected to be pending is not. Also fails if another run is active, or if the journal fails.
    pub(super) async fn end_with_writes(
        &self,
        mut writes: Vec<Write>,
        outcome: ImmediateOutcome,
        head: Option<Checkpoint>,
        pending: Vec<Interrupt>,
    ) -> Result<StartedRun> {
        let (run_id, thread_id, now) = (self.spec.run_id, self.thread.thread_id, self.now);
        let run = self.run_row(None).await?;
        let status = outcome.run_status();
        let patch = self.thread_patch(&outcome, &pending);
        let failure = match &outcome {
            ImmediateOutcome::Failed(failure) => Some(failure.clone()),
            ImmediateOutcome::NothingToDo | ImmediateOutcome::StillWaiting => None,
        };
        let ended =
            RunPatch { status: Some(status), failure: failure.clone(), at: Some(now), ..RunPatch::default() };
        let events = outcome_events(&outcome, run_id, now)?;
        let checkpoint_id = head.as_ref().map(|head| head.checkpoint_id);
        writes.extend([
            self.spec.origin.admission_write(run.clone()),
            Write::ExpectCheckpoint { thread_id, checkpoint_id },
            Write::PutRunRequest {
                run_id,
                thread_id,
                request: Box::new(outcome.request_to_keep(self.spec.request)),
            },
            Write::UpdateRun { run_id, patch: ended },
        ]);
        if let Some(patch) = patch {
            writes.push(Write::Append { thread_id, events });
            writes.push(Write::UpdateThread { thread_id, patch });
        }
        writes.push(Write::SettleThread { thread_id });
        writes.extend(self.agent.runs().webhook_write(run_id, self.spec.request).await?);
        let committed = match self.agent.store.commit(Transaction { fence: None, writes }).await {
            Err(error) if error.is_checkpoint_conflict() => return Err(runtime::Error::HeadConflict.into()),
            Err(journal::Error::AlreadyDecided { interrupt_id })
                if pending.iter().any(|other| other.interrupt_id == interrupt_id) =>
            {
                return Err(runtime::Error::HeadConflict.into());
            }
            committed => committed?,
        };
        let event_seqs: Vec<Seq> = committed.seqs.into_iter().flatten().collect();
        let first_seq = event_seqs.iter().copied().min().unwrap_or(self.thread.last_seq);
        let last_seq = event_seqs.iter().copied().max().unwrap_or(first_seq);
        let interrupts = if status == RunStatus::Interrupted { pending } else { Vec::new() };
        let end = RunEnd { run_id, status, interrupts, failure, usage: Usage::default() };
        let work =
            RemainingWork::Finished(Box::new(ImmediateEnd { end, head, begun_seq: first_seq, last_seq }));
        Ok(StartedRun { run, run_id, thread_id, work })
    }

    /// Returns the change of the thread; `None` if a strict answer was refused, which must not change
    /// anything.
    fn thread_patch(&self, outcome: &ImmediateOutcome, pending: &[Interrupt]) -> Option<ThreadPatch> {
        let is_refused = matches!(outcome, ImmediateOutcome::Failed(failure) if failure.kind == FailureKind::UnknownInterrupt);
        let is_bound = self.spec.request.answered_interrupts.is_some();
        if is_refused && self.spec.request.strict_resume {
            return None;
        }
        let patch = assistant_patch(self.thread).unwrap_or_default();
        // The thread is not broken because an answer came too late.
        let status = if is_refused && is_bound { None } else { outcome.thread_status_after(pending) };
        Some(ThreadPatch { status, updated_at: Some(self.now), ..patch })
    }

    /// Returns the row of the run at its start.
    pub(super) async fn run_row(&self, model: Option<String>) -> Result<Run> {
        Ok(Run {
            run_id: self.spec.run_id,
            thread_id: self.thread.thread_id,
            assistant_id: self.thread.assistant_id.clone(),
            status: RunStatus::Running,
            model,
            failure: None,
            lease_owner: Some(self.agent.leases.process_name().await?.to_owned()),
            lease_until: Some(self.now),
            usage: Usage::default(),
            created_at: self.now,
            updated_at: self.now,
        })
    }
}

/// Returns the events of the run. Pending interrupts are not recorded again, so that the newest interrupt
/// event of the thread remains the one that raised them.
fn outcome_events(outcome: &ImmediateOutcome, run_id: RunId, at: Timestamp) -> Result<Vec<NewEvent>> {
    let run_events = RunEvents { run_id, at };
    let started = run_events.started_event(RunStartKind::EndedImmediately, None)?;
    let ended = match outcome {
        ImmediateOutcome::NothingToDo | ImmediateOutcome::StillWaiting => {
            run_events.ended_event(outcome.run_status(), 0)?
        }
        ImmediateOutcome::Failed(failure) => run_events.failed_event(failure.clone(), 0)?,
    };
    Ok(vec![started, ended])
}
