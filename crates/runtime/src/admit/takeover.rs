//! Runs of other processes: requesting a stop, and taking over or ending a run whose process is gone.

use futures::future::BoxFuture;
use jiff::Timestamp;
use journal::{FencingToken, Store, Transaction, Write};
use protocol::event::body::RunStartKind;
use protocol::{Checkpoint, CheckpointId, FailureKind, Run, RunFailure, RunId, RunStatus};

use super::RELEASED_LEASE_END;
use crate::Result;
use crate::driver::lease::LeaseHolder;
use crate::driver::lifecycle::RunEvents;
use crate::driver::{AdmittedRun, StopRequest};
use crate::step::StepEntry;
use crate::turn::RECOVERED_CHANNEL;

/// Returns the key of the event that requests the run to stop. The key makes a repeated request a single event.
pub(crate) fn stop_key(run_id: RunId) -> String {
    format!("stop:{run_id}")
}

/// Requests a run to stop, by an event that the process driving the run polls for. Returns the run's status as it
/// was read. A run that has ended is not changed.
///
/// # Errors
/// [`journal::Error::NotFound`] when the run does not exist.
pub fn request_stop<'a>(
    store: &'a dyn Store,
    run_id: RunId,
    now: Timestamp,
) -> BoxFuture<'a, Result<RunStatus>> {
    journal::box_future(async move {
        let Some(run) = store.run(run_id).await? else {
            return Err(journal::Error::NotFound { what: "run", id: run_id.to_string() }.into());
        };
        if run.status.is_active() {
            let event = RunEvents { run_id, at: now }.stop_requested_event()?.with_key(stop_key(run_id));
            let writes = vec![Write::Append { thread_id: run.thread_id, events: vec![event] }];
            store.commit(Transaction { fence: None, writes }).await?;
        }
        Ok(run.status)
    })
}

/// Ends an active run as failed when its process is gone and the run cannot continue here. The thread stays
/// usable, and a run that continues from its checkpoint treats the step as possibly started.
///
/// # Errors
/// [`journal::Error::Fenced`] when the run's lease has not expired at `now`.
pub fn abandon_run<'a>(
    store: &'a dyn Store,
    run: &'a Run,
    lease: &'a LeaseHolder,
    now: Timestamp,
) -> BoxFuture<'a, Result<()>> {
    journal::box_future(async move {
        let claim = reclaim_write(run, lease, now);
        let failure = RunFailure::new(FailureKind::Store, "its process ended before it was done");
        let writes = failure_writes(store, run, failure, now).await?;
        let writes = std::iter::once(claim).chain(writes).collect();
        store.commit(Transaction { fence: None, writes }).await?;
        Ok(())
    })
}

/// Ends an active run of this process as failed when nothing drives it any more because of an internal error. The
/// thread stays usable, as after [`abandon_run`].
///
/// # Errors
/// [`journal::Error::Fenced`] when the run is not running or `owner` does not hold its lease.
pub fn fail_run<'a>(
    store: &'a dyn Store,
    run: &'a Run,
    owner: &'a str,
    reason: &'a str,
    now: Timestamp,
) -> BoxFuture<'a, Result<()>> {
    journal::box_future(async move {
        let fence = Some(FencingToken { run_id: run.run_id, owner: owner.to_owned() });
        let failure = RunFailure::new(FailureKind::Internal, reason);
        let writes = failure_writes(store, run, failure, now).await?;
        store.commit(Transaction { fence, writes }).await?;
        Ok(())
    })
}

/// Returns the writes that end a run in the middle of a step: the event, the run's status, a checkpoint and the
/// thread's status.
async fn failure_writes(
    store: &dyn Store,
    run: &Run,
    failure: RunFailure,
    now: Timestamp,
) -> Result<Vec<Write>> {
    let checkpoint = store.checkpoint(run.thread_id).await?.filter(|point| point.run_id == run.run_id);
    let steps = checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.step);
    let patch = journal::RunPatch {
        status: Some(RunStatus::Error),
        failure: Some(failure.clone()),
        at: Some(now),
        ..journal::RunPatch::default()
    };
    let event = RunEvents { run_id: run.run_id, at: now }.failed_event(failure, steps)?;
    let mut writes = vec![
        Write::Append { thread_id: run.thread_id, events: vec![event] },
        Write::UpdateRun { run_id: run.run_id, patch },
    ];
    writes.extend(checkpoint.map(|checkpoint| Write::PutCheckpoint(abandoned_checkpoint(checkpoint, now))));
    writes.push(Write::SettleThread { thread_id: run.thread_id });
    Ok(writes)
}

/// Returns a copy of the checkpoint with a new id, which records that its next node may have been started.
fn abandoned_checkpoint(checkpoint: Checkpoint, now: Timestamp) -> Checkpoint {
    let mut channels = checkpoint.channels;
    if checkpoint.next.is_some() {
        RECOVERED_CHANNEL.set(&mut channels, &true);
    }
    Checkpoint { checkpoint_id: CheckpointId::generate(), channels, created_at: now, ..checkpoint }
}

/// Returns the write that takes over the run's lease, if that lease has expired at `now`.
fn reclaim_write(run: &Run, lease: &LeaseHolder, now: Timestamp) -> Write {
    let (owner, lease_until) = (lease.owner().to_owned(), lease.lease_end());
    Write::ReclaimRun { run_id: run.run_id, owner, now, lease_until }
}

/// The reason why this process may take over a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeoverReason {
    /// This process has already claimed the run, so it holds the lease.
    Claimed,
    /// The run's lease has expired at this time.
    LeaseExpired(Timestamp),
}

/// Takes over an active run whose process is gone or has released it. `run` is the row as it was before this
/// process claimed it; its lease end says whether the next step may have been started.
///
/// # Errors
/// [`journal::Error::Fenced`] when the run's lease has not expired, or another process holds it.
pub fn take_over_run<'a>(
    store: &'a dyn Store,
    run: &'a Run,
    lease: &'a LeaseHolder,
    reason: TakeoverReason,
) -> BoxFuture<'a, Result<AdmittedRun>> {
    journal::box_future(async move {
        let events = RunEvents { run_id: run.run_id, at: lease.now() };
        let started = events.started_event(RunStartKind::TakenOver, run.model.clone())?;
        let started_append = Write::Append { thread_id: run.thread_id, events: vec![started] };
        let transaction = match reason {
            TakeoverReason::Claimed => {
                let fence = Some(FencingToken { run_id: run.run_id, owner: lease.owner().to_owned() });
                // The claim may be old, so the lease is renewed.
                let patch = journal::RunPatch {
                    lease_until: Some(lease.lease_end()),
                    ..journal::RunPatch::default()
                };
                Transaction {
                    fence,
                    writes: vec![Write::UpdateRun { run_id: run.run_id, patch }, started_append],
                }
            }
            TakeoverReason::LeaseExpired(now) => {
                Transaction { fence: None, writes: vec![reclaim_write(run, lease, now), started_append] }
            }
        };
        let committed = store.commit(transaction).await?;
        let checkpoint = store.checkpoint(run.thread_id).await?.ok_or_else(|| journal::Error::NotFound {
            what: "checkpoint of thread",
            id: run.thread_id.to_string(),
        })?;
        // The takeover's event gives the frames from here on positions that no frame of the previous process has.
        let head_seq = committed.seqs.iter().flatten().copied().max().unwrap_or(checkpoint.head_seq);
        let entry =
            if run.lease_until == Some(RELEASED_LEASE_END) { StepEntry::Fresh } else { StepEntry::Recovered };
        let stop_request = match store.seq_of_event_key(run.thread_id, &stop_key(run.run_id)).await? {
            Some(_) => StopRequest::Pending,
            None => StopRequest::Absent,
        };
        Ok(AdmittedRun::from_takeover(Checkpoint { head_seq, ..checkpoint }, entry, stop_request))
    })
}
