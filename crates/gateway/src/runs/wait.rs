//! Waiting for a run and answering with what came of it. The head of the answer goes out at once; while the run works, line
//! breaks keep the connection, which JSON does not mind.

use agent::{Frame, Item};
use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use dispatch::Live;
use futures::stream;
use http::{HeaderValue, header};
use protocol::{Interrupt, Run, RunId, RunStatus, Seq, ThreadId};
use serde_json::{Map, Value, json};
use tokio::time::Interval;

use crate::error::Fault;
use crate::extract::Caller;
use crate::server::Gateway;
use crate::sse;
use crate::streams::transcript::Transcript;
use crate::wire;
use crate::wire::state::Values;

/// A run that is waited for.
pub(super) struct Wait {
    gateway: Gateway,
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
    end: Option<(RunStatus, Option<String>)>,
}

impl Wait {
    /// Returns what waits for the run that `live` tells of.
    pub(super) fn of((gateway, caller): (Gateway, Caller), live: Live) -> Self {
        let (thread_id, run_id) = (live.thread_id, live.run_id);
        Self::from((gateway, caller), (thread_id, run_id), Source::Live(live))
    }

    /// Returns what waits for a run that is there already, wherever it works.
    ///
    /// # Errors
    /// When the journal fails.
    pub(super) async fn for_run((gateway, caller): (Gateway, Caller), run: Run) -> Result<Self, Fault> {
        let (thread_id, run_id) = (run.thread_id, run.run_id);
        let source = match gateway.dispatch.follow(&caller.scope, &run, None).await? {
            Some(live) => Source::Live(live),
            None => Source::Ended(Box::new(run)),
        };
        Ok(Self::from((gateway, caller), (thread_id, run_id), source))
    }

    fn from(
        (gateway, caller): (Gateway, Caller),
        (thread_id, run_id): (ThreadId, RunId),
        source: Source,
    ) -> Self {
        let (seen, heartbeat) = (Seen::default(), sse::heartbeat());
        Self { gateway, caller, thread_id, run_id, source, held: None, seen, heartbeat }
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
                    let end = (run.status, run.error.take());
                    return Some(Ok(self.result(end).await));
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
                None => match self.seen.end.take() {
                    Some(end) => return Some(Ok(self.result(end).await)),
                    None => match self.look_up().await {
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
        let found = self.caller.agent.store().run(self.run_id).await.map_err(agent::Error::from)?;
        let Some(run) = found else {
            // It was taken back.
            self.seen.end = Some((RunStatus::Cancelled, None));
            return Ok(LookedUp::Found);
        };
        if run.status.is_active() && self.gateway.closing.is_cancelled() {
            return Ok(LookedUp::LeftBehind);
        }
        let next = match self.gateway.dispatch.follow(&self.caller.scope, &run, None).await? {
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
    async fn result(&mut self, (status, error): (RunStatus, Option<String>)) -> Bytes {
        if let Source::Live(live) = std::mem::replace(&mut self.source, Source::Over) {
            // The thread of a run that was given none goes when nobody looks on any more.
            let written = self.written(status, error).await;
            drop(live);
            return written;
        }
        self.written(status, error).await
    }

    async fn written(&mut self, status: RunStatus, error: Option<String>) -> Bytes {
        if let Some(fault) = agent::Fault::of(status, error.as_deref()) {
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
            transcript.set(&agent.messages_at(thread_id, *head_seq).await?);
            return Ok(bytes(&transcript.values(channels).asking(&interrupts)));
        }
        let Some(state) = agent.state(thread_id).await? else { return Ok(bytes(&json!({}))) };
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

impl Seen {
    fn look(&mut self, frame: &Frame) {
        if let Frame::Values { head_seq, channels, .. } = frame {
            self.stands = Some((*head_seq, agent::shown_channels(channels)));
        } else if let Frame::Interrupted(interrupt) = frame {
            self.interrupts.push((**interrupt).clone());
        } else if let Frame::RunEnded { status, error, .. } = frame {
            self.end = Some((*status, error.clone()));
        }
    }
}

fn bytes(value: &impl serde::Serialize) -> Bytes {
    let written = serde_json::to_vec(value);
    Bytes::from(written.unwrap_or_else(|_| Value::Null.to_string().into_bytes()))
}
