//! The body of a webhook request for an ended run: the run on the wire, the times of its start and end, and the state
//! at its end. The state does not include later changes of the thread. The scheduler decides where the body is sent
//! and how often the delivery is attempted.

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

/// Maximum size of a body in bytes: 8 MiB. In a larger one, `values` is replaced by `null`.
const BODY_BYTES_MAX: usize = 8 << 20;

/// Renders the JSON body.
///
/// The body may be rendered again for each attempt; `webhook_sent_at` is the time of the rendering.
///
/// # Errors
/// Fails if the journal does, or if the state cannot be serialized.
pub async fn render_body(ended: EndedRun) -> agent::Result<Vec<u8>> {
    let EndedRun { agent, run, request } = ended;
    let mut body = serde_json::to_value(WireRun::from_run(&run, Some(request)))?;
    let state = agent.threads().last_state_of_run(&run).await?;
    body["run_started_at"] = timestamp(started_at(&agent, &run).await?).into();
    body["run_ended_at"] = timestamp(run.updated_at).into();
    body["webhook_sent_at"] = timestamp(Timestamp::now()).into();
    if let Some(failure) = run_failure(&run) {
        body["error"] = json!(failure);
    }
    let values = match &state {
        Some(state) => final_values(&run, state)?,
        None => json!({}),
    };
    body["values"] = values;
    let bytes = serde_json::to_vec(&body)?;
    if bytes.len() <= BODY_BYTES_MAX {
        return Ok(bytes);
    }
    body["values"] = Value::Null;
    Ok(serde_json::to_vec(&body)?)
}

/// Returns the values of the state at the run's end, in the same form as the response of an endpoint that waits for
/// the run.
fn final_values(run: &Run, state: &ThreadSnapshot) -> agent::Result<Value> {
    let interrupts = state.interrupts.iter().map(wire::Interrupt::from).collect();
    Ok(serde_json::to_value(StateValues::from_state(run.thread_id, state).with_interrupts(interrupts))?)
}

/// Returns the time of the run's first event; for a run that never started, the time of its creation.
async fn started_at(agent: &Agent, run: &Run) -> agent::Result<Timestamp> {
    let first = agent.threads().run_events(run.run_ref(), 0, 1).await?.pop();
    Ok(first.map_or(run.created_at, |event| event.created_at))
}

/// Returns the failure of a failed run. A run that was stopped is not a failed one.
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
