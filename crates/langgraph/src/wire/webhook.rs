//! The body of a webhook for an ended run: the run as clients read it, its start and end, and the state that it left,
//! whatever happened to the thread since. The scheduler decides where it is sent and how often delivery is tried.

use agent::{Agent, ThreadSnapshot};
use jiff::Timestamp;
use protocol::{Run, RunStatus};
use scheduler::EndedRun;
use serde_json::{Value, json};

use crate::wire;
use crate::wire::failure::WireRunFailure;
use crate::wire::run::WireRun;
use crate::wire::state::StateValues;
use crate::wire::timestamp;

/// Bytes of a body; a state that is larger is left out.
const BODY_BYTES_MAX: usize = 8 << 20;

/// Returns the body.
pub async fn render_body(ended: EndedRun) -> agent::Result<Vec<u8>> {
    let EndedRun { agent, run, request } = ended;
    let mut told = serde_json::to_value(WireRun::from_run(&run, Some(request)))?;
    let state = agent.threads().last_state_of_run(&run).await?;
    told["run_started_at"] = timestamp(started_at(&agent, &run).await?).into();
    told["run_ended_at"] = timestamp(run.updated_at).into();
    told["webhook_sent_at"] = timestamp(Timestamp::now()).into();
    if let Some(fault) = run_failure(&run) {
        told["error"] = json!(fault);
    }
    let values = match &state {
        Some(state) => final_values(&run, state)?,
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
fn final_values(run: &Run, state: &ThreadSnapshot) -> agent::Result<Value> {
    let interrupts = state.interrupts.iter().map(wire::Interrupt::from).collect();
    Ok(serde_json::to_value(StateValues::from_state(run.thread_id, state).with_interrupts(interrupts))?)
}

async fn started_at(agent: &Agent, run: &Run) -> agent::Result<Timestamp> {
    let first = agent.threads().run_events(run.run_ref(), 0, 1).await?.pop();
    Ok(first.map_or(run.created_at, |event| event.created_at))
}

/// Returns how a run failed that did. One that was stopped did not.
fn run_failure(run: &Run) -> Option<WireRunFailure> {
    match run.status {
        RunStatus::Error | RunStatus::Timeout => run.failure.clone().map(WireRunFailure::from),
        RunStatus::Pending
        | RunStatus::Running
        | RunStatus::Success
        | RunStatus::Interrupted
        | RunStatus::Cancelled => None,
    }
}
