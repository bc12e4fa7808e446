//! What an address is told of a run that has ended: the run as clients read it, when it began and ended, and the state it
//! left, whatever became of the thread since. Where it is sent, and how often it is tried, is dispatch's business.

use agent::{Agent, State, Superseded};
use dispatch::Ended;
use jiff::Timestamp;
use protocol::{CheckpointSource, Run, RunStatus, StepPoint};
use serde_json::{Value, json};

use crate::wire;
use crate::wire::run::WireRun;
use crate::wire::state::Values;
use crate::wire::timestamp;

/// Bytes of a body; a state that is larger is left out.
const BODY_BYTES_MAX: usize = 8 << 20;

/// Points that are read at a time in search of a run's last one; few runs come between its end and the telling of it.
const PAGE_POINTS: usize = 64;

/// Returns the body.
pub(crate) async fn body(ended: Ended) -> agent::Result<Vec<u8>> {
    let Ended { agent, run, request } = ended;
    let mut told = serde_json::to_value(WireRun::of(&run, Some(request)))?;
    let state = last_state(&agent, &run).await?;
    told["run_started_at"] = timestamp(started_at(&agent, &run).await?).into();
    told["run_ended_at"] = timestamp(run.updated_at).into();
    told["webhook_sent_at"] = timestamp(Timestamp::now()).into();
    if let Some(fault) = failure(&run) {
        told["error"] = json!(fault);
    }
    let values = match &state {
        Some(state) => values(&run, state)?,
        None => json!({}),
    };
    told["values"] = values;
    let written = serde_json::to_vec(&told)?;
    if written.len() <= BODY_BYTES_MAX {
        return Ok(written);
    }
    told["values"] = Value::Null;
    Ok(serde_json::to_vec(&told)?)
}

/// Returns the state at the run's end, as one who waited for it is told.
fn values(run: &Run, state: &State) -> agent::Result<Value> {
    let interrupts = state.interrupts.iter().map(wire::Interrupt::from).collect();
    Ok(serde_json::to_value(Values::of(run.thread_id, state).with_interrupts(interrupts))?)
}

/// Returns the state at the run's last point; of one that never began, what it found.
async fn last_state(agent: &Agent, run: &Run) -> agent::Result<Option<State>> {
    let mut before = None;
    loop {
        let page = agent.store().checkpoints(run.thread_id, before, PAGE_POINTS, Superseded::Shown).await?;
        let is_last = |point: &&StepPoint| {
            let is_its_own = point.run_id == run.run_id || point.created_at < run.created_at;
            is_its_own && point.source != CheckpointSource::Rewind
        };
        if let Some(point) = page.iter().find(is_last) {
            return agent.state_at(run.thread_id, point.checkpoint_id).await.map(Some);
        }
        if page.len() < PAGE_POINTS {
            return Ok(None);
        }
        before = page.last().map(|point| point.checkpoint_id);
    }
}

async fn started_at(agent: &Agent, run: &Run) -> agent::Result<Timestamp> {
    let first = agent.store().run_events(run.thread_id, run.run_id, 0, 1).await?.pop();
    Ok(first.map_or(run.created_at, |event| event.created_at))
}

/// Returns how a run failed that did. One that was stopped did not.
fn failure(run: &Run) -> Option<agent::Fault> {
    match run.status {
        RunStatus::Error | RunStatus::Timeout => agent::Fault::of(run.status, run.error.as_deref()),
        RunStatus::Pending
        | RunStatus::Running
        | RunStatus::Success
        | RunStatus::Interrupted
        | RunStatus::Cancelled => None,
    }
}
