//! Waiting for a run and answering with what came of it. The head of the answer goes out at once; while the run works, line
//! breaks keep the connection, which JSON does not mind.

use agent::{Frame, Item};
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures::stream;
use protocol::{Interrupt, Run, RunFailure, RunId, RunStatus, Seq, ThreadId};
use scheduler::Live;
use serde_json::{Map, Value, json};
use tokio::time::Interval;

use crate::caller::Caller;
use crate::fault::Fault;
use crate::sse;
use crate::streams::transcript::Transcript;
use crate::wire;
use crate::wire::failure::RunFault;
use crate::wire::state::Values;

/// A run that is waited for.
pub(super) struct Wait {
    caller: Caller,
    thread_id: ThreadId,
    run_id: RunId,
    source: Source,
    /// What the client came with, where the end is found elsewhere: going away from it may stop the run.
    held: Option<Live>,
    seen: Seen,
    heartbeat: Interval,
}

enum Source {
    Live(Live),
    Ended(Box<Run>),
    Over,
}

/// Why an answer breaks off: half of one would be taken for a whole one.
#[derive(Debug, thiserror::Error)]
#[error("wait for the run: the server is stopping")]
struct Cut;

/// What was found of a run whose end was not told.
enum LookedUp {
    /// Where it goes on, or how it ended.
    Found,
    /// The server goes before the run has ended.
    LeftBehind,
}

/// What was seen of the run.
#[derive(Default)]
struct Seen {
    /// The newest state: the event it ends with, and what it holds beside messages.
    stands: Option<(Seq, Map<String, Value>)>,
    interrupts: Vec<Interrupt>,
    end: SeenEnd,
}

/// How a run ended, as far as it was seen.
#[derive(Default)]
enum SeenEnd {
    #[default]
    NotYet,
    Succeeded,
    Failed(RunFailure),
}

impl Wait {
    /// Returns what waits for the run that `live` tells of.
    pub(super) fn of(caller: Caller, live: Live) -> Self {
        let (thread_id, run_id) = (live.thread_id, live.run_id);
        Self::from(caller, thread_id, run_id, Source::Live(live))
    }

    /// Returns what waits for a run that is there already, wherever it works.
    ///
    /// # Errors
    /// When the journal fails.
    pub(super) async fn for_run(caller: Caller, run: Run) -> Result<Self, Fault> {
        let (thread_id, run_id) = (run.thread_id, run.run_id);
        let source = match caller.server.dispatch.follow(&caller.scope, &run, None).await? {
            Some(live) => Source::Live(live),
            None => Source::Ended(Box::new(run)),
        };
        Ok(Self::from(caller, thread_id, run_id, source))
    }

    fn from(caller: Caller, thread_id: ThreadId, run_id: RunId, source: Source) -> Self {
        let (seen, heartbeat) = (Seen::default(), sse::heartbeat());
        Self { caller, thread_id, run_id, source, held: None, seen, heartbeat }
    }

    /// Returns the answer.
    pub(super) fn response(self) -> Response {
        let chunks = stream::unfold(self, async |mut wait| {
            let chunk = wait.chunk().await?;
            Some((chunk, wait))
        });
        let json = HeaderValue::from_static("application/json");
        ([(header::CONTENT_TYPE, json)], Body::from_stream(chunks)).into_response()
    }

    async fn chunk(&mut self) -> Option<Result<Bytes, Cut>> {
        loop {
            let item = match &mut self.source {
                Source::Over => return None,
                Source::Ended(run) => {
                    let failure = run.failure.clone();
                    return Some(Ok(self.result(failure).await));
                }
                Source::Live(live) => tokio::select! {
                    biased;
                    _ = self.heartbeat.tick() => return Some(Ok(Bytes::from_static(b"\n"))),
                    item = live.next() => item,
                },
            };
            match item {
                Some(Item::Frame(_, frame)) => self.seen.look(&frame),
                // What was lost is read at the end.
                Some(Item::Gap { .. }) => self.seen = Seen::default(),
                None => match std::mem::take(&mut self.seen.end) {
                    SeenEnd::Succeeded => return Some(Ok(self.result(None).await)),
                    SeenEnd::Failed(failure) => return Some(Ok(self.result(Some(failure)).await)),
                    SeenEnd::NotYet => match self.look_up().await {
                        Ok(LookedUp::Found) => {}
                        // It goes on when the server is started again.
                        Ok(LookedUp::LeftBehind) => return Some(self.cut()),
                        Err(fault) => return Some(Ok(self.failed(fault))),
                    },
                },
            }
        }
    }

    /// Finds out about a run whose end was not told here.
    async fn look_up(&mut self) -> Result<LookedUp, Fault> {
        let found = self.caller.agent.runs().get(self.run_id).await?;
        let Some(run) = found else {
            // It was taken back.
            self.seen.end = SeenEnd::of(RunFailure::from_stored_text(RunStatus::Cancelled, None));
            return Ok(LookedUp::Found);
        };
        if run.status.is_active() && self.caller.server.closing.is_cancelled() {
            return Ok(LookedUp::LeftBehind);
        }
        let next = match self.caller.server.dispatch.follow(&self.caller.scope, &run, None).await? {
            Some(live) if run.status.is_active() => Source::Live(live),
            Some(_) | None => Source::Ended(Box::new(run)),
        };
        if let Source::Live(live) = std::mem::replace(&mut self.source, next) {
            self.held.get_or_insert(live);
        }
        Ok(LookedUp::Found)
    }

    /// Breaks the answer off: the run goes on when the server is started again, and whoever asks then is told.
    fn cut(&mut self) -> Result<Bytes, Cut> {
        self.source = Source::Over;
        Err(Cut)
    }

    /// Returns what came of the run.
    async fn result(&mut self, failure: Option<RunFailure>) -> Bytes {
        if let Source::Live(live) = std::mem::replace(&mut self.source, Source::Over) {
            // The thread of a run that was given none goes when nobody looks on any more.
            let written = self.written(failure).await;
            drop(live);
            return written;
        }
        self.written(failure).await
    }

    async fn written(&mut self, failure: Option<RunFailure>) -> Bytes {
        if let Some(fault) = failure.map(RunFault::from) {
            return bytes(&json!({"__error__": fault}));
        }
        self.values().await.unwrap_or_else(|fault| self.failed(fault))
    }

    /// Returns the state at the run's end: of what was seen of it, or else as the thread stands.
    async fn values(&mut self) -> Result<Bytes, Fault> {
        let (agent, thread_id) = (&self.caller.agent, self.thread_id);
        let interrupts: Vec<wire::Interrupt> =
            self.seen.interrupts.iter().map(wire::Interrupt::from).collect();
        if let Some((head_seq, channels)) = &self.seen.stands {
            let mut transcript = Transcript::of(thread_id);
            transcript.set(&agent.threads().messages_at(thread_id, *head_seq).await?);
            return Ok(bytes(&transcript.values(channels).asking(&interrupts)));
        }
        let Some(state) = agent.threads().state(thread_id).await? else { return Ok(bytes(&json!({}))) };
        let interrupts = state.interrupts.iter().map(wire::Interrupt::from).collect();
        Ok(bytes(&Values::of(thread_id, &state).with_interrupts(interrupts)))
    }

    /// Says that what came of the run could not be read; the head of the answer is out already.
    fn failed(&mut self, fault: Fault) -> Bytes {
        self.source = Source::Over;
        tracing::error!(run_id = %self.run_id, error = %fault, "failed to read what came of run {}", self.run_id);
        bytes(&json!({"__error__": {"error": "InternalError", "message": fault.detail()}}))
    }
}

impl SeenEnd {
    fn of(failure: Option<RunFailure>) -> Self {
        failure.map_or(Self::Succeeded, Self::Failed)
    }
}

impl Seen {
    fn look(&mut self, frame: &Frame) {
        if let Frame::Values { head_seq, channels, .. } = frame {
            self.stands = Some((*head_seq, agent::shown_channels(channels)));
        } else if let Frame::Interrupted(interrupt) = frame {
            self.interrupts.push((**interrupt).clone());
        } else if let Frame::RunEnded { failure, .. } = frame {
            self.end = SeenEnd::of(failure.clone());
        }
    }
}

fn bytes(value: &impl serde::Serialize) -> Bytes {
    let written = serde_json::to_vec(value);
    Bytes::from(written.unwrap_or_else(|_| Value::Null.to_string().into_bytes()))
}
