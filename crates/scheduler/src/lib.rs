//! The scheduler for the runs of many clients: queues, admission, live streams, cancellation, webhooks, and recovery
//! after a crash or a shutdown.
//!
//! Each busy thread has one queue. Its first entry is a run or a piece of exclusive work; one task executes the entries
//! in order ([`Scheduler::create_run`], [`Scheduler::change_thread`], [`Scheduler::run_exclusive`]). A queued run is also
//! a row of the journal, so that the next process can start it; the in-memory queue only holds the order. The number of runs that work at once
//! and the number of queued runs are limited over all threads. Anything above these limits is refused with a time after
//! which the client may try again.
//!
//! A run belongs to its task, not to the client that requested it. Clients watch it through a [`RunReader`]: the run
//! has one bounded ring of frames, and each reader reads it at its own pace. The rows of a run and of its thread are
//! final before its stream ends. A resumable stream is kept for a while after its end, within a limit on the bytes of
//! all kept streams.
//!
//! # Life of a run
//!
//! 1. `create` validates the request, opens the run's stream, and tries to occupy the thread ([`Scheduler::create_run`]).
//! 2. On a free thread with a free permit, the run starts at once. Otherwise its row is stored as pending and it is queued,
//!    or it is refused, according to its `multitask_strategy`.
//! 3. The thread's `worker` starts the queued entries in order and drives each run through `agent`. If another process works
//!    on the thread, the worker waits for it and takes the run over if that process dies. Changes of a thread wait like
//!    runs.
//! 4. When the run has ended, the worker rolls it back if that was requested, releases the thread, closes the stream, and
//!    schedules the webhook and the summarizing of the owner's memory.
//! 5. `recovery` does the same for runs that an earlier process left, at the start and periodically after that.
//!
//! This crate does not decide what a request means, how a frame looks on the wire, or who a client is. It stores
//! nothing of its own: a reader that missed frames finds the events in the journal.

mod cancel;
mod create;
mod error;
mod limits;
mod maintenance;
mod queue;
mod recovery;
mod scheduler;
mod streams;
mod webhooks;
mod worker;

pub use cancel::CancelAction;
pub use create::{CreatedRun, IfNotExists, NewRun};
pub use error::Error;
pub use limits::SchedulerLimits;
pub use recovery::RecoveryReport;
pub use scheduler::{Scheduler, SchedulerMetrics};
pub use streams::run_reader::{RunReader, StreamPosition};
pub use streams::thread_reader::{ThreadChanges, ThreadItem, ThreadReader};
pub use webhooks::target::{WebhookTargetError, WebhookTargetPolicy};
pub use webhooks::{EndedRun, WebhookRenderer};
pub use worker::exclusive::ExclusiveContext;

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
