//! The one way into a run. Whoever asks, what is put in, answered, changed or gone back to becomes one admission, and the
//! run is driven until it rests. When a run begins, and what becomes of those that wait, is not decided here.

pub(crate) mod action;
mod admitting;
pub(crate) mod error;
pub(crate) mod messages;
mod questions;
mod reads;
mod recovery;
pub(crate) mod secrets;
mod sending;
mod threads;
mod undo;
mod webhooks;

use jiff::Timestamp;
use journal::{Transaction, Write};
use protocol::{Run, RunId, RunRequest, RunStatus, Scope, ThreadId, ThreadStatus, Usage};
use runtime::{ATTEMPTS_MAX, Admitted, Driver, Frame, Frames, Origin, RunEnd, Start};
use tokio_util::sync::CancellationToken;

use self::action::RunInput;
use self::admitting::Admitting;
use self::admitting::ending::Ended;
use crate::agent::services::RunService;
use crate::assembly::Purpose;
use crate::{Error, Result, RunError};

pub use self::admitting::bounds::steps_max;
pub use self::threads::{IfExists, NewThread, TEMPORARY_KEY};
pub(crate) use self::threads::{METADATA_BYTES_MAX, RESERVED_METADATA, made};
pub use self::webhooks::{Webhook, Webhooks};

/// A run that has begun. It may have ended at once, because there was nothing to do or the request could not be met.
pub struct Begun {
    /// The run, as it was admitted.
    pub run: Run,
    /// The run's id.
    pub run_id: RunId,
    /// Its thread.
    pub thread_id: ThreadId,
    work: Work,
}

/// What begins a run.
#[derive(Clone, Copy)]
struct Beginning<'a> {
    origin: Origin,
    run_id: RunId,
    thread_id: ThreadId,
    /// What bounds the run, and what is stored of how it was asked for.
    request: &'a RunRequest,
    what: What<'a>,
}

/// What a run does.
#[derive(Clone, Copy)]
enum What<'a> {
    /// What its request says, in the words of the client's protocol.
    Requested,
    /// This.
    Given(&'a RunInput),
    /// It begins with this start, which depends on nothing that a run before it may change.
    Prepared(&'a PreparedStart),
}

/// The start of a run that is not a turn.
pub(crate) struct PreparedStart {
    pub(crate) purpose: Purpose,
    pub(crate) start: Start,
}

/// What is left to do of a run that has begun.
pub(crate) enum Work {
    /// Nothing but to tell of it.
    Told(Box<Ended>),
    /// The graph's.
    Driven(Box<(Driver, Admitted)>),
}

impl Begun {
    /// Returns how the run ended, where it has already.
    pub fn end(&self) -> Option<&RunEnd> {
        match &self.work {
            Work::Told(ended) => Some(&ended.end),
            Work::Driven(_) => None,
        }
    }
}

impl RunService<'_> {
    /// Begins a run on the thread with what the client asked for, in one transaction. Whatever is wrong with
    /// the request is how the run ends, and no error: what cannot be met changes nothing else.
    ///
    /// # Errors
    /// Of [`crate::Class::Conflict`] when another run of the thread is active, or came and went meanwhile. When there is
    /// no such thread, or the journal fails.
    pub async fn begin(
        self,
        run_id: RunId,
        thread_id: ThreadId,
        request: &RunRequest,
        frames: &Frames,
    ) -> Result<Begun> {
        let beginning = Beginning { origin: Origin::New, run_id, thread_id, request, what: What::Requested };
        self.begin_planned(beginning, frames).await
    }

    /// Begins a run that waits ([`RunService::queue`]), as [`RunService::begin`] does a new one.
    ///
    /// # Errors
    /// As there, and when the run was forgotten.
    pub async fn begin_queued(
        self,
        run_id: RunId,
        thread_id: ThreadId,
        request: &RunRequest,
        frames: &Frames,
    ) -> Result<Begun> {
        let beginning =
            Beginning { origin: Origin::Queue, run_id, thread_id, request, what: What::Requested };
        self.begin_planned(beginning, frames).await
    }

    /// Begins a run, and works it out again where another run came and went meanwhile: what an admission derives from the
    /// thread is always of the checkpoint that it is admitted with.
    async fn begin_planned(self, beginning: Beginning<'_>, frames: &Frames) -> Result<Begun> {
        let mut attempts = 0;
        loop {
            let head = self.agent.store.checkpoint(beginning.thread_id).await?;
            let thread = self.agent.thread(beginning.thread_id).await?;
            let admitting =
                Admitting { agent: self.agent, beginning, thread: &thread, now: Timestamp::now() };
            let begun = match (admitting.begin(head).await, beginning.what) {
                (Ok(begun), _) => Ok(begun),
                // A client knows the run by its id, and is told how it ended.
                (Err(refused), What::Requested) => match refused.into_fault() {
                    Ok(fault) => admitting.fail(fault).await,
                    Err(error) => Err(error),
                },
                (Err(refused), What::Given(_) | What::Prepared(_)) => Err(refused.into_error()),
            };
            match begun {
                Err(Error::Run(RunError::Runtime(runtime::Error::Outrun))) if attempts < ATTEMPTS_MAX => {
                    attempts += 1;
                }
                begun => {
                    let begun = begun?;
                    self.tell_notices(frames);
                    return Ok(begun);
                }
            }
        }
    }

    /// Begins the first run of a new thread, as [`RunService::begin`] does. A turn is one transaction with the thread; whatever
    /// else is asked finds the thread made.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn begin_on_new(
        self,
        run_id: RunId,
        new: &NewThread,
        request: &RunRequest,
        frames: &Frames,
    ) -> Result<Begun> {
        let (thread_id, what) = (new.thread_id(), What::Requested);
        let beginning = Beginning { origin: Origin::New, run_id, thread_id, request, what };
        let admitting = Admitting { agent: self.agent, beginning, thread: &new.0, now: Timestamp::now() };
        match admitting.begin_turn_on_new().await {
            Ok(Some(begun)) => {
                self.tell_notices(frames);
                Ok(begun)
            }
            Ok(None) => {
                self.agent.threads().store_new(new).await?;
                self.begin(run_id, thread_id, request, frames).await
            }
            Err(refused) => {
                refused.into_fault()?;
                self.agent.threads().store_new(new).await?;
                self.begin(run_id, thread_id, request, frames).await
            }
        }
    }

    /// Tells what the person at the machine should know of the tools; it is nobody else's business.
    pub(crate) fn tell_notices(self, frames: &Frames) {
        if self.agent.scope == Scope::Owner(None)
            && let Some(toolbox) = self.agent.toolbox.get()
        {
            for text in toolbox.notices() {
                frames.send(Frame::Notice { text });
            }
        }
    }

    /// Makes the tools ready, and returns what the person at the machine should know of them, once: nobody else is told it.
    ///
    /// # Errors
    /// When the rules about tools cannot be read.
    pub async fn notices(self) -> Result<Vec<String>> {
        Ok(self.agent.toolbox().await?.notices())
    }

    /// Drives a run that has begun until it rests, and tells of it.
    ///
    /// # Errors
    /// When the journal fails, or another process took the run over.
    pub async fn drive_begun(
        self,
        begun: Begun,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<RunEnd> {
        let thread_id = begun.thread_id;
        let end = self.drive_work(begun, frames, cancel).await?;
        self.agent.handoffs().end_stopped(thread_id, &end, frames).await?;
        Ok(end)
    }

    async fn drive_work(self, begun: Begun, frames: &Frames, cancel: &CancellationToken) -> Result<RunEnd> {
        match begun.work {
            Work::Told(ended) => Ok(ended.tell(begun.thread_id, frames)),
            Work::Driven(work) => {
                let (driver, admitted) = *work;
                Ok(self.drive(&driver, admitted, frames, cancel).await?)
            }
        }
    }

    /// Drives the run until it rests, then lets memory notice what is due in its thread.
    pub(crate) async fn drive(
        self,
        driver: &Driver,
        admitted: Admitted,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> runtime::Result<RunEnd> {
        let thread_id = admitted.checkpoint.thread_id;
        let end = driver.drive(admitted, frames, cancel).await?;
        self.agent.memory().look_at_memory(thread_id, &end, frames).await;
        Ok(end)
    }

    /// Stores a run that waits, with what the client asked for, and says on the thread whose it is.
    ///
    /// # Errors
    /// When there is no such thread, or the journal fails.
    pub async fn queue(self, run_id: RunId, thread_id: ThreadId, request: &RunRequest) -> Result<Run> {
        // Who sees the run waits for this process to begin it, as long as that lives.
        self.agent.leases.announce().await?;
        let thread = self.agent.thread(thread_id).await?;
        let now = Timestamp::now();
        let run = Run {
            run_id,
            thread_id,
            assistant_id: thread.assistant_id.clone(),
            status: RunStatus::Pending,
            model: None,
            failure: None,
            // Who began it knows that it waits; another process looks after it once this one is gone.
            lease_owner: Some(self.agent.leases.name().await?.to_owned()),
            lease_until: None,
            usage: Usage::default(),
            created_at: now,
            updated_at: now,
        };
        let mut patch = threads::stamped(&thread).unwrap_or_default();
        patch.status = Some(ThreadStatus::Busy);
        patch.updated_at = Some(now);
        let mut writes = vec![
            Write::QueueRun(run.clone()),
            Write::PutRunRequest { run_id, thread_id, request: Box::new(request.clone()) },
            Write::UpdateThread { thread_id, patch },
        ];
        writes.extend(self.owed(run_id, request).await?);
        self.agent.store.commit(Transaction { fence: None, writes }).await?;
        Ok(run)
    }
}
