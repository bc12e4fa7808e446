//! What a client's request for a run means: what is put in, answered, changed or gone back to becomes one admission, and
//! the run is driven until it rests. When a run begins, and what becomes of those that wait, is not decided here.

mod admitting;
pub(crate) mod bounds;
pub(crate) mod check;
pub(crate) mod ending;
pub(crate) mod fault;
mod input;
pub(crate) mod messages;
pub(crate) mod secrets;
mod threads;
mod undo;
mod wanted;
mod webhooks;

use jiff::Timestamp;
use journal::{Transaction, Write};
use protocol::{Run, RunId, RunRequest, RunStatus, Scope, ThreadId, ThreadStatus, Usage};
use runtime::{Admitted, Driver, Frame, Frames, Origin, RunEnd};
use tokio_util::sync::CancellationToken;

use self::admitting::{Admitting, Refused};
use self::ending::Ended;
use crate::agent::Agent;
use crate::{Error, Result};

pub use self::threads::{IfExists, NewThread, TEMPORARY_KEY};
pub(crate) use self::threads::{RESERVED_METADATA, made, stamped};
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

impl Agent {
    /// Begins a run on the thread with what the client asked for, in one transaction. Whatever is wrong with
    /// the request is how the run ends, and no error: what cannot be met changes nothing else.
    ///
    /// # Errors
    /// Of [`crate::Class::Conflict`] when another run of the thread is active, or came and went meanwhile. When there is
    /// no such thread, or the journal fails.
    pub async fn begin(
        &self,
        run_id: RunId,
        thread_id: ThreadId,
        request: &RunRequest,
        frames: &Frames,
    ) -> Result<Begun> {
        self.begin_from(Origin::New, (run_id, thread_id), request, frames).await
    }

    /// Begins a run that waits ([`Agent::queue`]), as [`Agent::begin`] does a new one.
    ///
    /// # Errors
    /// As there, and when the run was forgotten.
    pub async fn begin_queued(
        &self,
        run_id: RunId,
        thread_id: ThreadId,
        request: &RunRequest,
        frames: &Frames,
    ) -> Result<Begun> {
        self.begin_from(Origin::Queue, (run_id, thread_id), request, frames).await
    }

    async fn begin_from(
        &self,
        origin: Origin,
        (run_id, thread_id): (RunId, ThreadId),
        request: &RunRequest,
        frames: &Frames,
    ) -> Result<Begun> {
        let mut attempts = 0;
        let begun = loop {
            // What the thread says of itself is of this head, or of a newer one, which the admission finds out.
            let head = self.store.checkpoint(thread_id).await?;
            let thread = self.thread(thread_id).await?;
            let now = Timestamp::now();
            let admitting = Admitting { agent: self, run_id, thread: &thread, request, origin, now };
            let begun = match admitting.begin(head).await {
                Ok(begun) => Ok(begun),
                Err(Refused::Fault(fault)) => admitting.fail(fault).await,
                Err(Refused::Error(error)) => Err(error),
            };
            match begun {
                // What was worked out is of the thread as it was before another run came and went.
                Err(Error::Runtime(runtime::Error::Outrun)) if attempts < runtime::ATTEMPTS_MAX => {
                    attempts += 1;
                }
                begun => break begun?,
            }
        };
        self.tell_notices(frames);
        Ok(begun)
    }

    /// Begins the first run of a new thread, as [`Agent::begin`] does. A turn is one transaction with the thread; whatever
    /// else is asked finds the thread made.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn begin_on_new(
        &self,
        run_id: RunId,
        new: &NewThread,
        request: &RunRequest,
        frames: &Frames,
    ) -> Result<Begun> {
        let (origin, now) = (Origin::New, Timestamp::now());
        let admitting = Admitting { agent: self, run_id, thread: &new.0, request, origin, now };
        match admitting.begin_turn_on_new().await {
            Ok(Some(begun)) => {
                self.tell_notices(frames);
                Ok(begun)
            }
            Ok(None) | Err(Refused::Fault(_)) => {
                self.store_new(new).await?;
                self.begin(run_id, new.thread_id(), request, frames).await
            }
            Err(Refused::Error(error)) => Err(error),
        }
    }

    /// Tells what the person at the machine should know of the tools; it is nobody else's business.
    pub(crate) fn tell_notices(&self, frames: &Frames) {
        if self.scope == Scope::Owner(None)
            && let Some(toolbox) = self.toolbox.get()
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
    pub async fn notices(&self) -> Result<Vec<String>> {
        Ok(self.toolbox().await?.notices())
    }

    /// Drives a run that has begun until it rests, and tells of it.
    ///
    /// # Errors
    /// When the journal fails, or another process took the run over.
    pub async fn drive_begun(
        &self,
        begun: Begun,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<RunEnd> {
        let Begun { thread_id, work, .. } = begun;
        let (driver, admitted) = match work {
            Work::Told(ended) => return Ok(ended.tell(thread_id, frames)),
            Work::Driven(work) => *work,
        };
        let end = self.drive(&driver, admitted, (frames, cancel)).await?;
        self.end_stopped(thread_id, &end, frames).await?;
        Ok(end)
    }

    /// Stores a run that waits, with what the client asked for, and says on the thread whose it is.
    ///
    /// # Errors
    /// When there is no such thread, or the journal fails.
    pub async fn queue(&self, run_id: RunId, thread_id: ThreadId, request: &RunRequest) -> Result<Run> {
        // Who sees the run waits for this process to begin it, as long as that lives.
        self.leases.announce().await?;
        let thread = self.thread(thread_id).await?;
        let now = Timestamp::now();
        let run = Run {
            run_id,
            thread_id,
            assistant_id: thread.assistant_id.clone(),
            status: RunStatus::Pending,
            model: None,
            error: None,
            // Who began it knows that it waits; another process looks after it once this one is gone.
            lease_owner: Some(self.leases.name().await?.to_owned()),
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
        self.store.commit(Transaction { fence: None, writes }).await?;
        Ok(run)
    }
}
