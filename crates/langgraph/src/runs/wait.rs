//! The response that waits for a run and then contains its result as JSON.
//!
//! The status and the headers are sent at once. While the run is active, line breaks are sent as heartbeats, so that
//! proxies do not close the connection; JSON allows whitespace before a value. Because the status is sent before the
//! result is known, a failed run is reported in the body, under the key `__error__`.

use agent::{Frame, SubscriptionItem};
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures::stream;
use protocol::{Interrupt, Run, RunFailure, RunId, RunStatus, Seq, ThreadId};
use scheduler::RunReader;
use serde_json::{Map, Value, json};
use tokio::time::Interval;

use crate::caller::Caller;
use crate::error::ApiError;
use crate::sse;
use crate::streams::transcript::StreamTranscript;
use crate::wire;
use crate::wire::failure::WireRunFailure;
use crate::wire::state::StateValues;

/// A response that waits for one run. Dropping it drops its readers of the run, which cancels a run whose request says
/// so.
pub(super) struct RunWaiter {
    caller: Caller,
    thread_id: ThreadId,
    run_id: RunId,
    /// The source of the run's remaining frames or of its end.
    source: ResultSource,
    /// The reader that the run was created with, if `source` has a later one. It is kept because dropping it may cancel
    /// the run.
    original_reader: Option<RunReader>,
    /// The parts of the result that were received so far.
    observed: ObservedRun,
    heartbeat: Interval,
}

/// The source of a run's result.
enum ResultSource {
    /// The frames of the run.
    Reader(RunReader),
    /// The ended run, as it is stored.
    Ended(Box<Run>),
    /// The response is complete or was aborted.
    Done,
}

/// The error that aborts the connection of a response without a result. Ending the body normally would look like an
/// empty but complete response.
#[derive(Debug, thiserror::Error)]
#[error("wait for the run: the server is stopping")]
struct ResponseAborted;

/// The outcome of looking up a run whose end was not received.
enum LookupOutcome {
    /// The run continues in another stream, or its end is known.
    Found,
    /// The server shuts down before the run has ended.
    ShuttingDown,
}

/// The parts of the result that the received frames contained.
#[derive(Default)]
struct ObservedRun {
    /// The newest state: the sequence number of its last event, and its channels without the messages.
    state: Option<(Seq, Map<String, Value>)>,
    /// The interrupts that the run raised.
    interrupts: Vec<Interrupt>,
    end: ObservedEnd,
}

/// The end of a run, if its frame was received.
#[derive(Default)]
enum ObservedEnd {
    /// The end was not received: the run is active, or the frame was lost.
    #[default]
    Unknown,
    /// The run ended without a failure. This includes a run that stopped at an interrupt.
    Succeeded,
    /// The run failed or was cancelled.
    Failed(RunFailure),
}

impl RunWaiter {
    /// Returns a waiter for the run of `reader`.
    pub(super) fn for_reader(caller: Caller, reader: RunReader) -> Self {
        let (thread_id, run_id) = (reader.thread_id, reader.run_id);
        Self::new(caller, thread_id, run_id, ResultSource::Reader(reader))
    }

    /// Returns a waiter for an existing run, which may be active in any process or may have ended.
    ///
    /// # Errors
    /// If the journal fails.
    pub(super) async fn for_run(caller: Caller, run: Run) -> Result<Self, ApiError> {
        let (thread_id, run_id) = (run.thread_id, run.run_id);
        let source = match caller.server.scheduler.follow_run(&caller.scope, &run, None).await? {
            Some(reader) => ResultSource::Reader(reader),
            None => ResultSource::Ended(Box::new(run)),
        };
        Ok(Self::new(caller, thread_id, run_id, source))
    }

    /// Returns a waiter that has not received any frame.
    fn new(caller: Caller, thread_id: ThreadId, run_id: RunId, source: ResultSource) -> Self {
        let (observed, heartbeat) = (ObservedRun::default(), sse::heartbeat_interval());
        Self { caller, thread_id, run_id, source, original_reader: None, observed, heartbeat }
    }

    /// Returns the response.
    pub(super) fn response(self) -> Response {
        let chunks = stream::unfold(self, async |mut waiter| {
            let chunk = waiter.next_chunk().await?;
            Some((chunk, waiter))
        });
        let json = HeaderValue::from_static("application/json");
        ([(header::CONTENT_TYPE, json)], Body::from_stream(chunks)).into_response()
    }

    /// Waits for the next part of the body: a heartbeat, or the whole result. Returns `None` after the result, and an
    /// error if the response has to be aborted.
    async fn next_chunk(&mut self) -> Option<Result<Bytes, ResponseAborted>> {
        loop {
            let item = match &mut self.source {
                ResultSource::Done => return None,
                ResultSource::Ended(run) => {
                    let failure = run.failure.clone();
                    return Some(Ok(self.final_chunk(failure).await));
                }
                ResultSource::Reader(reader) => tokio::select! {
                    biased;
                    _ = self.heartbeat.tick() => return Some(Ok(Bytes::from_static(b"\n"))),
                    item = reader.next() => item,
                },
            };
            match item {
                Some(SubscriptionItem::Frame(_, frame)) => self.observed.observe(&frame),
                // Frames were lost, so the observed state may be out of date. The journal is read at the end instead.
                Some(SubscriptionItem::Gap { .. }) => self.observed = ObservedRun::default(),
                None => match std::mem::take(&mut self.observed.end) {
                    ObservedEnd::Succeeded => return Some(Ok(self.final_chunk(None).await)),
                    ObservedEnd::Failed(failure) => return Some(Ok(self.final_chunk(Some(failure)).await)),
                    ObservedEnd::Unknown => match self.find_outcome().await {
                        Ok(LookupOutcome::Found) => {}
                        // The run resumes when the server is started again, so there is no result to send.
                        Ok(LookupOutcome::ShuttingDown) => return Some(self.abort()),
                        Err(error) => return Some(Ok(self.render_read_failure(error))),
                    },
                },
            }
        }
    }

    /// Looks up a run whose frames ended without its end, and sets the source or the observed end accordingly.
    ///
    /// # Errors
    /// If the journal fails.
    async fn find_outcome(&mut self) -> Result<LookupOutcome, ApiError> {
        let stored = self.caller.agent.runs().get(self.run_id).await?;
        let Some(run) = stored else {
            // The run was rolled back or deleted, which counts as cancelled.
            self.observed.end =
                ObservedEnd::from_failure(RunFailure::from_stored_text(RunStatus::Cancelled, None));
            return Ok(LookupOutcome::Found);
        };
        if run.status.is_active() && self.caller.server.closing.is_cancelled() {
            return Ok(LookupOutcome::ShuttingDown);
        }
        let next = match self.caller.server.scheduler.follow_run(&self.caller.scope, &run, None).await? {
            Some(reader) if run.status.is_active() => ResultSource::Reader(reader),
            Some(_) | None => ResultSource::Ended(Box::new(run)),
        };
        if let ResultSource::Reader(reader) = std::mem::replace(&mut self.source, next) {
            self.original_reader.get_or_insert(reader);
        }
        Ok(LookupOutcome::Found)
    }

    /// Aborts the response because the server is shutting down. The run resumes when the server is started again, and a
    /// client can then join it.
    fn abort(&mut self) -> Result<Bytes, ResponseAborted> {
        self.source = ResultSource::Done;
        Err(ResponseAborted)
    }

    /// Returns the last part of the body, which contains the result.
    async fn final_chunk(&mut self, failure: Option<RunFailure>) -> Bytes {
        if let ResultSource::Reader(reader) = std::mem::replace(&mut self.source, ResultSource::Done) {
            // The thread of a stateless run may be deleted when its last reader is dropped, so the reader is kept until
            // the state has been read.
            let result = self.render_result(failure).await;
            drop(reader);
            return result;
        }
        self.render_result(failure).await
    }

    /// Returns the result as JSON: the failure if there is one, and otherwise the state.
    async fn render_result(&mut self, failure: Option<RunFailure>) -> Bytes {
        if let Some(failure) = failure.map(WireRunFailure::from) {
            return to_json_bytes(&json!({"__error__": failure}));
        }
        self.render_values().await.unwrap_or_else(|error| self.render_read_failure(error))
    }

    /// Returns the state at the end of the run as JSON. With the state come the interrupts that the run raised.
    ///
    /// The state comes from the received frames, because a later run may have changed the thread already. If they are
    /// incomplete, the thread's current state is returned.
    ///
    /// # Errors
    /// If the journal fails.
    async fn render_values(&mut self) -> Result<Bytes, ApiError> {
        let (agent, thread_id) = (&self.caller.agent, self.thread_id);
        let interrupts: Vec<wire::Interrupt> =
            self.observed.interrupts.iter().map(wire::Interrupt::from).collect();
        if let Some((head_seq, channels)) = &self.observed.state {
            let mut transcript = StreamTranscript::new(thread_id);
            transcript.set(&agent.threads().messages_at(thread_id, *head_seq).await?);
            return Ok(to_json_bytes(&transcript.values(channels).with_interrupts(&interrupts)));
        }
        let Some(state) = agent.threads().state(thread_id).await? else {
            return Ok(to_json_bytes(&json!({})));
        };
        let interrupts = state.interrupts.iter().map(wire::Interrupt::from).collect();
        Ok(to_json_bytes(&StateValues::from_state(thread_id, &state).with_interrupts(interrupts)))
    }

    /// Logs that the result could not be read, and returns the error as the body. The status was sent already.
    fn render_read_failure(&mut self, error: ApiError) -> Bytes {
        self.source = ResultSource::Done;
        tracing::error!(run_id = %self.run_id, %error, "failed to read the result of run {}", self.run_id);
        to_json_bytes(&json!({"__error__": {"error": "InternalError", "message": error.detail()}}))
    }
}

impl ObservedEnd {
    /// Returns the end of a run with that failure, or without one.
    fn from_failure(failure: Option<RunFailure>) -> Self {
        failure.map_or(Self::Succeeded, Self::Failed)
    }
}

impl ObservedRun {
    /// Records the parts of the result that a frame contains.
    fn observe(&mut self, frame: &Frame) {
        if let Frame::Values { head_seq, channels, .. } = frame {
            self.state = Some((*head_seq, agent::client_channels(channels)));
        } else if let Frame::Interrupted(interrupt) = frame {
            self.interrupts.push((**interrupt).clone());
        } else if let Frame::RunEnded { failure, .. } = frame {
            self.end = ObservedEnd::from_failure(failure.clone());
        }
    }
}

/// Serializes a value as JSON. A value that cannot be serialized becomes `null`.
fn to_json_bytes(value: &impl serde::Serialize) -> Bytes {
    let json = serde_json::to_vec(value);
    Bytes::from(json.unwrap_or_else(|_| Value::Null.to_string().into_bytes()))
}
