//! Runs of other processes: stopping one, and taking over or ending one whose process is gone.

use jiff::Timestamp;
use journal::{Fence, Store, Transaction, Write};
use protocol::event::body::RunBeginning;
use protocol::{Checkpoint, CheckpointId, FailureKind, Run, RunFailure, RunId, RunStatus};

use super::GIVEN_BACK;
use crate::Result;
use crate::driver::lease::Lease;
use crate::driver::lifecycle::RunEvents;
use crate::driver::{Admitted, StopAsked};
use crate::step::Entry;
use crate::turn::RECOVERED_CHANNEL;

/// Returns the key of the event that asks a run to stop.
pub(crate) fn stop_key(run_id: RunId) -> String {
    format!("stop:{run_id}")
}

/// Writes into the journal that the run is to stop; the process that drives it looks there. A run that has ended
/// stays as it is.
///
/// # Errors
/// [`journal::Error::NotFound`] when there is no such run.
pub async fn request_stop(store: &dyn Store, run_id: RunId, now: Timestamp) -> Result<RunStatus> {
    let Some(run) = store.run(run_id).await? else {
        return Err(journal::Error::NotFound { what: "run", id: run_id.to_string() }.into());
    };
    if run.status.is_active() {
        let event = RunEvents { run_id, at: now }.stop_requested()?.keyed(stop_key(run_id));
        let writes = vec![Write::Append { thread_id: run.thread_id, events: vec![event] }];
        store.commit(Transaction { fence: None, writes }).await?;
    }
    Ok(run.status)
}

/// Ends an active run whose process is gone and that cannot go on here, and leaves its thread usable: whoever goes on
/// from where it stood knows that the step may have been begun.
///
/// # Errors
/// [`journal::Error::Fenced`] when its lease has not ended at `now`.
pub async fn give_up(store: &dyn Store, run: &Run, lease: &Lease, now: Timestamp) -> Result<()> {
    let claim = taking(run, lease, now);
    let failure = RunFailure::new(FailureKind::Store, "its process ended before it was done");
    let writes = failed(store, run, failure, now).await?;
    let writes = std::iter::once(claim).chain(writes).collect();
    store.commit(Transaction { fence: None, writes }).await?;
    Ok(())
}

/// Ends an active run of this process that nobody drives any more because of a fault of ours, and leaves its thread usable
/// in the same way.
///
/// # Errors
/// [`journal::Error::Fenced`] when it is not running, or not `owner`'s.
pub async fn fail(store: &dyn Store, run: &Run, owner: &str, why: &str, now: Timestamp) -> Result<()> {
    let fence = Some(Fence { run_id: run.run_id, owner: owner.to_owned() });
    let failure = RunFailure::new(FailureKind::Internal, why);
    let writes = failed(store, run, failure, now).await?;
    store.commit(Transaction { fence, writes }).await?;
    Ok(())
}

/// Returns the writes by which a run ends in the middle of a step.
async fn failed(store: &dyn Store, run: &Run, failure: RunFailure, now: Timestamp) -> Result<Vec<Write>> {
    let left = store.checkpoint(run.thread_id).await?.filter(|point| point.run_id == run.run_id);
    let steps = left.as_ref().map_or(0, |left| left.step);
    let patch = journal::RunPatch {
        status: Some(RunStatus::Error),
        failure: Some(failure.clone()),
        at: Some(now),
        ..journal::RunPatch::default()
    };
    let event = RunEvents { run_id: run.run_id, at: now }.failed(failure, steps)?;
    let mut writes = vec![
        Write::Append { thread_id: run.thread_id, events: vec![event] },
        Write::UpdateRun { run_id: run.run_id, patch },
    ];
    writes.extend(left.map(|left| Write::PutCheckpoint(given_up(left, now))));
    writes.push(Write::SettleThread { thread_id: run.thread_id });
    Ok(writes)
}

fn given_up(left: Checkpoint, now: Timestamp) -> Checkpoint {
    let mut channels = left.channels;
    if left.next.is_some() {
        RECOVERED_CHANNEL.set(&mut channels, &true);
    }
    Checkpoint { checkpoint_id: CheckpointId::generate(), channels, created_at: now, ..left }
}

fn taking(run: &Run, lease: &Lease, now: Timestamp) -> Write {
    let (owner, lease_until) = (lease.owner().to_owned(), lease.until());
    Write::ReclaimRun { run_id: run.run_id, owner, now, lease_until }
}

/// How a run is taken over whose process is gone, or gave it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// This process has claimed it: its lease is this process's.
    Claimed,
    /// Its lease has ended at this moment.
    Ended(Timestamp),
}

/// Takes over an active run whose process is gone, or gave it back; `run` is as it was before this process claimed it.
///
/// # Errors
/// [`journal::Error::Fenced`] when its lease has not ended, or is another process's.
pub async fn reclaim(store: &dyn Store, run: &Run, lease: &Lease, taken: Taken) -> Result<Admitted> {
    let events = RunEvents { run_id: run.run_id, at: lease.now() };
    let started = events.started(RunBeginning::TakenOver, run.model.clone())?;
    let told = Write::Append { thread_id: run.thread_id, events: vec![started] };
    let taking = match taken {
        Taken::Claimed => {
            let fence = Some(Fence { run_id: run.run_id, owner: lease.owner().to_owned() });
            // However long ago it was claimed.
            let patch =
                journal::RunPatch { lease_until: Some(lease.until()), ..journal::RunPatch::default() };
            Transaction { fence, writes: vec![Write::UpdateRun { run_id: run.run_id, patch }, told] }
        }
        Taken::Ended(now) => Transaction { fence: None, writes: vec![taking(run, lease, now), told] },
    };
    let committed = store.commit(taking).await?;
    let checkpoint = store.checkpoint(run.thread_id).await?.ok_or_else(|| journal::Error::NotFound {
        what: "checkpoint of thread",
        id: run.thread_id.to_string(),
    })?;
    // The event gives what is streamed from here on places of its own.
    let head_seq = committed.seqs.iter().flatten().copied().max().unwrap_or(checkpoint.head_seq);
    let entry = if run.lease_until == Some(GIVEN_BACK) { Entry::Fresh } else { Entry::Recovered };
    let stop = match store.seq_of_key(run.thread_id, &stop_key(run.run_id)).await? {
        Some(_) => StopAsked::Yes,
        None => StopAsked::No,
    };
    Ok(Admitted::taken_over(Checkpoint { head_seq, ..checkpoint }, entry, stop))
}
