//! Starting runs. Every message, answer, state change and rewind of any front end becomes one admission here,
//! and the run is then driven until it ends. The `scheduler` decides when a queued run starts.

mod admission;
mod bound_answers;
pub(crate) mod error;
mod interactive;
mod queries;
mod questions;
mod recovery;
mod replicas;
pub(crate) mod request;
pub(crate) mod spans;
mod undo;
mod webhooks;

use futures::future::BoxFuture;
use jiff::Timestamp;
use journal::{Transaction, Write};
use protocol::{OwnerScope, Run, RunId, RunRequest, RunStatus, ThreadId, ThreadStatus, Usage};
use runtime::{
    ADMISSION_ATTEMPTS_MAX, AdmissionSource, AdmittedRun, Driver, Frame, FrameSender, RunEnd, RunStart,
};
use tokio_util::sync::CancellationToken;

use self::admission::RequestAdmission;
use self::admission::immediate_end::ImmediateEnd;
use self::request::action::RunInput;
use crate::assembly::RunPurpose;
use crate::{Agent, Error, Result, RunError, ThreadError};

pub use self::admission::run_bounds::requested_steps_max;
pub use self::request::client_threads::{IfExists, NewThread};
pub(crate) use self::request::client_threads::{METADATA_BYTES_MAX, RESERVED_METADATA, create_thread_writes};
pub use self::webhooks::{PendingWebhook, PendingWebhookPage};

/// Runs: starting, resuming, queueing, stopping and recovering them, the questions they ask, and their
/// events.
#[derive(Clone, Copy)]
pub struct RunService<'a> {
    /// The agent whose runs the service works on.
    pub(crate) agent: &'a Agent,
}

impl Agent {
    /// Returns the service for runs.
    pub const fn runs(&self) -> RunService<'_> {
        RunService { agent: self }
    }
}

/// A run that has been started. It may have ended already, because there was nothing to do or because the
/// request could not be satisfied.
pub struct StartedRun {
    /// The row of the run, as it was admitted.
    pub run: Run,
    /// The run's id.
    pub run_id: RunId,
    /// The thread of the run.
    pub thread_id: ThreadId,
    /// The part of the run that is still to be done.
    work: RemainingWork,
}

/// A specification of the run to start.
#[derive(Clone, Copy)]
struct RunStartSpec<'a> {
    /// New, or from the queue.
    origin: AdmissionSource,
    /// The id of the run.
    run_id: RunId,
    /// The thread of the run.
    thread_id: ThreadId,
    /// The client's request, with the limits of the run. It is stored with the run.
    request: &'a RunRequest,
    /// The input of the run.
    content: RunStartContent<'a>,
}

impl<'a> RunStartSpec<'a> {
    /// Returns the specification of a run whose input is in the client's request.
    fn from_request(
        origin: AdmissionSource,
        run_id: RunId,
        thread_id: ThreadId,
        request: &'a RunRequest,
    ) -> Self {
        Self { origin, run_id, thread_id, request, content: RunStartContent::FromRequest }
    }
}

/// The source of a run's input.
#[derive(Clone, Copy)]
enum RunStartContent<'a> {
    /// The stored request, in the client's wire protocol. The reader of requests parses it.
    FromRequest,
    /// This typed input.
    Input(&'a RunInput),
    /// This prepared start, which does not depend on the thread's checkpoint.
    Prepared(&'a PreparedStart),
}

/// The start of a run that is not a turn.
pub(crate) struct PreparedStart {
    /// The purpose of the run.
    pub(crate) purpose: RunPurpose,
    /// The node, channels and update with which the run starts.
    pub(crate) start: RunStart,
}

/// The part of a started run that is still to be done.
pub(crate) enum RemainingWork {
    /// The run has ended. Only its frames are still to be sent.
    Finished(Box<ImmediateEnd>),
    /// The graph is still to be driven.
    Drive(Box<(Driver, AdmittedRun)>),
}

impl StartedRun {
    /// Returns the end of the run if it has already ended.
    pub fn end(&self) -> Option<&RunEnd> {
        match &self.work {
            RemainingWork::Finished(ended) => Some(&ended.end),
            RemainingWork::Drive(_) => None,
        }
    }
}

impl<'a> RunService<'a> {
    /// Starts a run on the thread with the client's request, in one transaction. An invalid request is not an
    /// error of this call: the run ends as failed, and nothing else changes.
    ///
    /// # Errors
    /// [`RunError::AnswerRefused`] if the request is bound to interrupts and its answer comes too late or is invalid.
    /// Fails with [`crate::ErrorClass::Conflict`] if another run of the thread is active, or if other runs
    /// repeatedly started and ended meanwhile. Also fails if the thread does not exist, or if the journal
    /// fails.
    pub fn begin(
        self,
        run_id: RunId,
        thread_id: ThreadId,
        request: &'a RunRequest,
        frames: &'a FrameSender,
    ) -> BoxFuture<'a, Result<StartedRun>> {
        let spec = RunStartSpec::from_request(AdmissionSource::New, run_id, thread_id, request);
        Box::pin(self.begin_with_replanning(spec, frames))
    }

    /// Starts a run that [`RunService::enqueue`] queued, as [`RunService::begin`] starts a new one.
    ///
    /// # Errors
    /// Fails as [`RunService::begin`] does, and if the queued run was deleted.
    pub fn begin_queued(
        self,
        run_id: RunId,
        thread_id: ThreadId,
        request: &'a RunRequest,
        frames: &'a FrameSender,
    ) -> BoxFuture<'a, Result<StartedRun>> {
        let spec = RunStartSpec::from_request(AdmissionSource::Queued, run_id, thread_id, request);
        Box::pin(self.begin_with_replanning(spec, frames))
    }

    /// Starts a run, and plans the admission again if another run started and ended meanwhile, up to
    /// [`ADMISSION_ATTEMPTS_MAX`] times. An admission is therefore always planned against the checkpoint with
    /// which it is committed.
    async fn begin_with_replanning(self, spec: RunStartSpec<'_>, frames: &FrameSender) -> Result<StartedRun> {
        let mut attempts = 0;
        loop {
            let found = self.agent.store.thread_with_checkpoint(spec.thread_id).await?;
            let (thread, head) = found.ok_or_else(|| ThreadError::Unknown(spec.thread_id.to_string()))?;
            let admission =
                RequestAdmission { agent: self.agent, spec, thread: &thread, now: Timestamp::now() };
            let started = match (admission.begin(head).await, spec.content) {
                (Ok(started), _) => Ok(started),
                // A client identifies the run by its id, so that a refusal becomes the end of that run.
                (Err(refused), RunStartContent::FromRequest) => {
                    match admission.with_outcome(refused).await.into_fault() {
                        Ok(fault) if admission.is_refused_at_once(&fault) => {
                            Err(RunError::AnswerRefused(fault).into())
                        }
                        Ok(fault) => admission.end_failed(fault).await,
                        Err(error) => Err(error),
                    }
                }
                (Err(refused), RunStartContent::Input(_) | RunStartContent::Prepared(_)) => {
                    Err(refused.into_error())
                }
            };
            match started {
                Err(Error::Run(RunError::Runtime(runtime::Error::HeadConflict)))
                    if attempts < ADMISSION_ATTEMPTS_MAX =>
                {
                    attempts += 1;
                }
                started => {
                    let started = started?;
                    self.send_notices(frames);
                    return Ok(started);
                }
            }
        }
    }

    /// Starts the first run of a new thread, as [`RunService::begin`] does. A turn creates the thread in the
    /// same transaction. For any other request the thread is created first.
    ///
    /// # Errors
    /// [`ThreadError::Exists`] if the id belongs to a thread of another owner. Fails as [`RunService::begin`] does if another
    /// process has created the thread meanwhile. Also fails if the journal does.
    pub fn begin_on_new_thread(
        self,
        run_id: RunId,
        new: &'a NewThread,
        request: &'a RunRequest,
        frames: &'a FrameSender,
    ) -> BoxFuture<'a, Result<StartedRun>> {
        journal::box_future(async move {
            let thread_id = new.thread_id();
            let spec = RunStartSpec::from_request(AdmissionSource::New, run_id, thread_id, request);
            let admission =
                RequestAdmission { agent: self.agent, spec, thread: &new.0, now: Timestamp::now() };
            match admission.begin_turn_on_new_thread().await {
                Ok(Some(started)) => {
                    self.send_notices(frames);
                    Ok(started)
                }
                Ok(None) => {
                    self.agent.threads().store_new_thread(new).await?;
                    self.begin(run_id, thread_id, request, frames).await
                }
                Err(refused) => {
                    match refused.into_fault() {
                        // Another process has created the thread meanwhile: the request is planned again on it.
                        Ok(_) | Err(Error::Run(RunError::Runtime(runtime::Error::HeadConflict))) => {}
                        Err(error) => return Err(new.classify_error(error)),
                    }
                    self.agent.threads().store_new_thread(new).await?;
                    self.begin(run_id, thread_id, request, frames).await
                }
            }
        })
    }

    /// Sends pending notices about the tools as frames. Only the person at the machine receives them, because
    /// they concern this machine.
    pub(crate) fn send_notices(self, frames: &FrameSender) {
        if self.agent.scope == OwnerScope::Owner(None)
            && let Some(toolbox) = self.agent.toolbox.get()
        {
            for text in toolbox.take_notices() {
                frames.send(Frame::Notice { text });
            }
        }
    }

    /// Sets up the tools, and takes the notices about them, so that each is shown once. Only for the person
    /// at the machine.
    ///
    /// # Errors
    /// Fails if the remembered permission rules cannot be read.
    pub fn take_notices(self) -> BoxFuture<'a, Result<Vec<String>>> {
        journal::box_future(async move { Ok(self.agent.toolbox().await?.take_notices()) })
    }

    /// Drives a started run until it ends or is interrupted, and publishes its frames.
    ///
    /// # Errors
    /// Fails if the journal fails, or if another process took the run over.
    pub fn drive_started(
        self,
        started: StartedRun,
        frames: &'a FrameSender,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<RunEnd>> {
        journal::box_future(async move {
            let thread_id = started.thread_id;
            let end = self.drive_remaining(started, frames, cancel).await?;
            self.agent.handoffs().finish_cancelled_draft(thread_id, &end, frames).await?;
            Ok(end)
        })
    }

    /// Drives a started run without completing a cancelled handoff draft.
    async fn drive_remaining(
        self,
        started: StartedRun,
        frames: &FrameSender,
        cancel: &CancellationToken,
    ) -> Result<RunEnd> {
        match started.work {
            RemainingWork::Finished(ended) => Ok(ended.send_frames(started.thread_id, frames)),
            RemainingWork::Drive(work) => {
                let (driver, admitted) = *work;
                Ok(self.drive(&driver, admitted, frames, cancel).await?)
            }
        }
    }

    /// Drives an admitted run until it ends or is interrupted, and then queues its thread for memory if
    /// messages are due.
    pub(crate) async fn drive(
        self,
        driver: &Driver,
        admitted: AdmittedRun,
        frames: &FrameSender,
        cancel: &CancellationToken,
    ) -> runtime::Result<RunEnd> {
        let thread_id = admitted.checkpoint.thread_id;
        let end = driver.drive(admitted, frames, cancel).await?;
        self.agent.memory().check_memory_due(thread_id, &end, frames).await;
        Ok(end)
    }

    /// Stores a queued run with the client's request, and sets the thread's status to busy.
    ///
    /// # Errors
    /// Fails if the thread does not exist, or if the journal fails.
    pub fn enqueue(
        self,
        run_id: RunId,
        thread_id: ThreadId,
        request: &'a RunRequest,
    ) -> BoxFuture<'a, Result<Run>> {
        journal::box_future(async move {
            // Heartbeats start first: other processes leave the queued run to this one while its heartbeats continue.
            self.agent.leases.start_heartbeat().await?;
            let thread = self.agent.thread(thread_id).await?;
            let now = Timestamp::now();
            let run = Run {
                run_id,
                thread_id,
                assistant_id: thread.assistant_id.clone(),
                status: RunStatus::Pending,
                model: None,
                failure: None,
                // This process starts the run. Once it has exited, another process claims the run.
                lease_owner: Some(self.agent.leases.process_name().await?.to_owned()),
                lease_until: None,
                usage: Usage::default(),
                created_at: now,
                updated_at: now,
            };
            let mut patch = request::client_threads::assistant_patch(&thread).unwrap_or_default();
            patch.status = Some(ThreadStatus::Busy);
            patch.updated_at = Some(now);
            let mut writes = vec![
                Write::QueueRun(run.clone()),
                Write::PutRunRequest { run_id, thread_id, request: Box::new(request.clone()) },
                Write::UpdateThread { thread_id, patch },
            ];
            writes.extend(self.webhook_write(run_id, request).await?);
            self.agent.store.commit(Transaction { fence: None, writes }).await?;
            Ok(run)
        })
    }
}
