//! Waiting for a run and answering with what came of it. The head of the answer goes out at once; while the run works, line
//! breaks keep the connection, which JSON does not mind.

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

/// A run that is waited for.
pub(super) struct RunWaiter {
    caller: Caller,
    thread_id: ThreadId,
    run_id: RunId,
    source: ResultSource,
    /// The reader that the client came with, if the end is found elsewhere. Dropping it may stop the run.
    original_reader: Option<RunReader>,
    observed: ObservedRun,
    heartbeat: Interval,
}

enum ResultSource {
    Reader(RunReader),
    Ended(Box<Run>),
    Done,
}

/// Why an answer breaks off: half of one would be taken for a whole one.
#[derive(Debug, thiserror::Error)]
#[error("wait for the run: the server is stopping")]
struct ResponseAborted;

/// The outcome of looking up a run whose end was not received.
enum LookupOutcome {
    /// Where it goes on, or how it ended.
    Found,
    /// The server goes before the run has ended.
    ShuttingDown,
}

/// The frames of the run that were received.
#[derive(Default)]
struct ObservedRun {
    /// The newest state: the event it ends with, and what it holds beside messages.
    state: Option<(Seq, Map<String, Value>)>,
    interrupts: Vec<Interrupt>,
    end: ObservedEnd,
}

/// How a run ended, as far as it was seen.
#[derive(Default)]
enum ObservedEnd {
    #[default]
    Unknown,
    Succeeded,
    Failed(RunFailure),
}

impl RunWaiter {
    /// Returns what waits for the run that `live` tells of.
    pub(super) fn for_reader(caller: Caller, live: RunReader) -> Self {
        let (thread_id, run_id) = (live.thread_id, live.run_id);
        Self::new(caller, thread_id, run_id, ResultSource::Reader(live))
    }

    /// Returns what waits for a run that is there already, wherever it works.
    ///
    /// # Errors
    /// When the journal fails.
    pub(super) async fn for_run(caller: Caller, run: Run) -> Result<Self, ApiError> {
        let (thread_id, run_id) = (run.thread_id, run.run_id);
        let source = match caller.server.scheduler.follow_run(&caller.scope, &run, None).await? {
            Some(live) => ResultSource::Reader(live),
            None => ResultSource::Ended(Box::new(run)),
        };
        Ok(Self::new(caller, thread_id, run_id, source))
    }

    fn new(caller: Caller, thread_id: ThreadId, run_id: RunId, source: ResultSource) -> Self {
        let (observed, heartbeat) = (ObservedRun::default(), sse::heartbeat_interval());
        Self { caller, thread_id, run_id, source, original_reader: None, observed, heartbeat }
    }

    /// Returns the answer.
    pub(super) fn response(self) -> Response {
        let chunks = stream::unfold(self, async |mut wait| {
            let chunk = wait.next_chunk().await?;
            Some((chunk, wait))
        });
        let json = HeaderValue::from_static("application/json");
        ([(header::CONTENT_TYPE, json)], Body::from_stream(chunks)).into_response()
    }

    async fn next_chunk(&mut self) -> Option<Result<Bytes, ResponseAborted>> {
        loop {
            let item = match &mut self.source {
                ResultSource::Done => return None,
                ResultSource::Ended(run) => {
                    let failure = run.failure.clone();
                    return Some(Ok(self.final_chunk(failure).await));
                }
                ResultSource::Reader(live) => tokio::select! {
                    biased;
                    _ = self.heartbeat.tick() => return Some(Ok(Bytes::from_static(b"\n"))),
                    item = live.next() => item,
                },
            };
            match item {
                Some(SubscriptionItem::Frame(_, frame)) => self.observed.observe(&frame),
                // What was lost is read at the end.
                Some(SubscriptionItem::Gap { .. }) => self.observed = ObservedRun::default(),
                None => match std::mem::take(&mut self.observed.end) {
                    ObservedEnd::Succeeded => return Some(Ok(self.final_chunk(None).await)),
                    ObservedEnd::Failed(failure) => return Some(Ok(self.final_chunk(Some(failure)).await)),
                    ObservedEnd::Unknown => match self.find_outcome().await {
                        Ok(LookupOutcome::Found) => {}
                        // It goes on when the server is started again.
                        Ok(LookupOutcome::ShuttingDown) => return Some(self.abort()),
                        Err(fault) => return Some(Ok(self.render_read_failure(fault))),
                    },
                },
            }
        }
    }

    /// Finds out about a run whose end was not told here.
    async fn find_outcome(&mut self) -> Result<LookupOutcome, ApiError> {
        let found = self.caller.agent.runs().get(self.run_id).await?;
        let Some(run) = found else {
            // It was taken back.
            self.observed.end =
                ObservedEnd::from_failure(RunFailure::from_stored_text(RunStatus::Cancelled, None));
            return Ok(LookupOutcome::Found);
        };
        if run.status.is_active() && self.caller.server.closing.is_cancelled() {
            return Ok(LookupOutcome::ShuttingDown);
        }
        let next = match self.caller.server.scheduler.follow_run(&self.caller.scope, &run, None).await? {
            Some(live) if run.status.is_active() => ResultSource::Reader(live),
            Some(_) | None => ResultSource::Ended(Box::new(run)),
        };
        if let ResultSource::Reader(live) = std::mem::replace(&mut self.source, next) {
            self.original_reader.get_or_insert(live);
        }
        Ok(LookupOutcome::Found)
    }

    /// Breaks the answer off: the run goes on when the server is started again, and whoever asks then is told.
    fn abort(&mut self) -> Result<Bytes, ResponseAborted> {
        self.source = ResultSource::Done;
        Err(ResponseAborted)
    }

    /// Returns what came of the run.
    async fn final_chunk(&mut self, failure: Option<RunFailure>) -> Bytes {
        if let ResultSource::Reader(live) = std::mem::replace(&mut self.source, ResultSource::Done) {
            // The thread of a run that was given none goes when nobody looks on any more.
            let written = self.render_result(failure).await;
            drop(live);
            return written;
        }
        self.render_result(failure).await
    }

    async fn render_result(&mut self, failure: Option<RunFailure>) -> Bytes {
        if let Some(fault) = failure.map(WireRunFailure::from) {
            return to_json_bytes(&json!({"__error__": fault}));
        }
        self.render_values().await.unwrap_or_else(|fault| self.render_read_failure(fault))
    }

    /// Returns the state at the run's end: of what was seen of it, or else as the thread stands.
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

    /// Says that what came of the run could not be read; the head of the answer is out already.
    fn render_read_failure(&mut self, fault: ApiError) -> Bytes {
        self.source = ResultSource::Done;
        tracing::error!(run_id = %self.run_id, error = %fault, "failed to read what came of run {}", self.run_id);
        to_json_bytes(&json!({"__error__": {"error": "InternalError", "message": fault.detail()}}))
    }
}

impl ObservedEnd {
    fn from_failure(failure: Option<RunFailure>) -> Self {
        failure.map_or(Self::Succeeded, Self::Failed)
    }
}

impl ObservedRun {
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

fn to_json_bytes(value: &impl serde::Serialize) -> Bytes {
    let written = serde_json::to_vec(value);
    Bytes::from(written.unwrap_or_else(|_| Value::Null.to_string().into_bytes()))
}
