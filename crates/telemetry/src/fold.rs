//! Making spans: one thread's events in, in the order of `seq`, spans out as they end. Pure: it reads nothing, and whatever came
//! before the first event it is given is unknown to it.
//!
//! The journal holds what was done, not what begins. A call of a model therefore begins where the event before it is, unless the
//! event says how long it took; a call of a tool where it was asked for or allowed.

mod handoff;
mod run;
mod text;

use std::collections::HashMap;

use jiff::Timestamp;
use protocol::event::body::{DraftRequest, HandoffProposed, HandoffRefined, ThreadCreated};
use protocol::{Event, EventType, HandoffId, RunId, ThreadId, TurnsArchived};
use serde_json::{Map, Value, json};

use crate::span::{Kind, Link, Outcome, Span, SpanId, TraceId};
use run::OpenRun;

/// Where a thread's runs belong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The thread.
    pub thread_id: ThreadId,
    /// The assistant that works in it.
    pub assistant_id: String,
    /// The run that gave the thread's sub-agent its task, and the call it was given with.
    pub caller: Option<(RunId, String)>,
}

/// Returns the run that gave a sub-agent its task and the call it was given with, from the `thread_created` event of its thread.
pub fn caller(created: &Event) -> Option<(RunId, String)> {
    let ThreadCreated::Subagent { run_id, call_id } = created.body().ok()? else { return None };
    Some((run_id?, call_id))
}

/// Draws the spans of one thread, event by event.
#[derive(Debug)]
pub struct Fold {
    place: Place,
    runs: HashMap<RunId, OpenRun>,
    /// The run that stopped last to ask a person.
    asked: Option<RunId>,
    /// The run that ended last.
    ended: Option<RunId>,
    /// The run in which a handoff was accepted.
    accepted: HashMap<HandoffId, RunId>,
    /// The feedback the next draft of a handoff is made with.
    feedback: HashMap<HandoffId, String>,
    /// Calls of models outside any run, whose purpose comes with the event behind them.
    background: Vec<Event>,
    finished: Vec<Span>,
}

impl Fold {
    /// Returns a fold that has seen nothing of the thread.
    pub fn new(place: Place) -> Self {
        Self {
            place,
            runs: HashMap::new(),
            asked: None,
            ended: None,
            accepted: HashMap::new(),
            feedback: HashMap::new(),
            background: Vec::new(),
            finished: Vec::new(),
        }
    }

    /// Takes the next event.
    pub fn take(&mut self, event: &Event) {
        let Some(kind) = event.kind() else { return };
        if event.parsed_metadata().again.is_some() {
            // It happened in a run that is over, on a branch that was left.
            return;
        }
        if kind == EventType::ThreadCreated {
            // What stands before the beginning of a fork are copies of what happened elsewhere.
            *self = Self::new(self.place.clone());
            return;
        }
        if !matches!(kind, EventType::ModelCalled | EventType::TurnsArchived) {
            let unused = self.unused();
            self.finished.extend(unused);
            self.background.clear();
        }
        match event.run_id {
            Some(run_id) => self.within(run_id, kind, event),
            None => self.outside(kind, event),
        }
    }

    /// Returns the spans that ended since the last call, in the order in which they did.
    pub fn finished(&mut self) -> Vec<Span> {
        std::mem::take(&mut self.finished)
    }

    /// Returns the spans that are under way, and those that wait for what comes with them.
    pub fn open(&self) -> Vec<Span> {
        let mut open: Vec<Span> = self.runs.values().flat_map(OpenRun::spans).cloned().collect();
        open.extend(self.unused());
        open.sort_by_key(|span| (span.start, span.seq));
        open
    }

    /// Returns whether nothing of the thread is under way.
    pub fn is_idle(&self) -> bool {
        self.runs.is_empty() && self.background.is_empty()
    }

    /// Returns the calls outside any run that nothing came of, each in a trace of its own.
    fn unused(&self) -> Vec<Span> {
        let span = |call: &Event| Some(run::model_span(&call.body().ok()?, call, call.created_at));
        self.background.iter().filter_map(span).collect()
    }

    fn within(&mut self, run_id: RunId, kind: EventType, event: &Event) {
        let at = event.created_at;
        let asked = self.asked;
        let place = &self.place;
        let run = self.runs.entry(run_id).or_insert_with(|| OpenRun::begun(place, run_id, event));
        match kind {
            EventType::HumanMessage => run.said(event),
            EventType::RunStarted => {
                let asked = asked.filter(|asked| *asked != run_id);
                self.finished.extend(event.body().ok().and_then(|body| run.started(body, event, asked)));
            }
            EventType::MemoryRead => event.body().into_iter().for_each(|body| run.read_memory(body)),
            EventType::AiMessage => self.finished.extend(run.answered(event)),
            EventType::ToolCallDecided => event.body().into_iter().for_each(|body| run.decided(&body, event)),
            EventType::ToolMessage => self.finished.extend(run.returned(event)),
            EventType::ModelCalled => {
                let called = event.body().into_iter().flat_map(|body| run.called(&body, event));
                self.finished.extend(called);
            }
            EventType::HandoffFailed => {
                let failed = event.body().ok().and_then(|body| run.draft_failed(&body, event));
                self.finished.extend(failed);
                self.finished.push(run.handoff_decided(kind, event));
            }
            EventType::Compacted | EventType::CompactionFailed => {
                self.finished.extend(run.condensed(event));
            }
            EventType::HandoffProposed => {
                if let Ok(body) = event.body::<HandoffProposed>() {
                    let feedback = self.feedback.remove(&body.handoff_id);
                    self.finished.extend(run.proposed(place, &body, event, feedback.as_deref()));
                }
            }
            EventType::HandoffRequested
            | EventType::HandoffReverted
            | EventType::HandoffTruncated
            | EventType::HandoffDeclined
            | EventType::HandoffPreviewed
            | EventType::HandoffExpired
            | EventType::HandoffRefined => {
                if let Ok(HandoffRefined {
                    request: DraftRequest::Feedback { feedback }, handoff_id, ..
                }) = event.body()
                {
                    self.feedback.insert(handoff_id, feedback);
                }
                self.finished.push(run.handoff_decided(kind, event));
            }
            EventType::HandoffAccepted => {
                self.accepted.extend(event.handoff_id().map(|id| (id, run_id)));
                event.body().into_iter().for_each(|body| run.accepted(&body, event));
            }
            EventType::TurnsArchived => return self.archived(event),
            EventType::HandoffSeeded => {
                let seeded = event.body().into_iter().flat_map(|body| run.seeded(&body, event));
                self.finished.extend(seeded);
            }
            EventType::RunInterrupted | EventType::RunFailed | EventType::RunEnded => {
                self.finished.extend(run.ended(kind, event));
                self.runs.remove(&run_id);
                self.ended = Some(run_id);
                self.asked = (kind == EventType::RunInterrupted).then_some(run_id);
                return;
            }
            _ => {}
        }
        run.passed(at);
    }

    fn outside(&mut self, kind: EventType, event: &Event) {
        match kind {
            EventType::ModelCalled => self.background.push(event.clone()),
            EventType::TurnsArchived => self.archived(event),
            EventType::HandoffCleaned => {
                // It is cleared as the turn ends, so that is under way still.
                let open = if self.runs.len() == 1 { self.runs.keys().next().copied() } else { None };
                let within = open.or(self.ended);
                let cleanup = self.handoff_moment(Kind::Cleanup, "handoff_cleanup", within, event);
                self.finished.push(cleanup);
            }
            EventType::HandoffMirrored => {
                let mirror = self.handoff_moment(Kind::Mirror, "mirror_handoff", None, event);
                self.finished.extend(event.body().ok().map(|body| handoff::mirrored(&body, mirror)));
            }
            EventType::HandoffExpired | EventType::HandoffDeclined | EventType::HandoffFailed => {
                let moment = self.handoff_moment(Kind::Decision, kind.as_str(), self.asked, event);
                self.finished.push(handoff::told(event, moment));
            }
            _ => {}
        }
    }

    /// Old turns became a summary: within a run, or in a trace of its own, with the calls it took.
    fn archived(&mut self, event: &Event) {
        let calls = std::mem::take(&mut self.background);
        let Ok(archived) = event.body::<TurnsArchived>() else { return };
        let first = calls.first().map_or(event.seq, |call| call.seq);
        let (trace_id, parent) = match event.run_id {
            Some(run_id) => (TraceId::of_run(run_id), Some(SpanId::of_run(run_id))),
            None => (TraceId::of_event(event.thread_id, first), None),
        };
        let whole = SpanId::of_event(event.thread_id, event.seq, "transfer");
        let mut start = event.created_at;
        for call in &calls {
            let Ok(called) = call.body() else { continue };
            let mut span = run::model_span(&called, call, call.created_at);
            start = start.min(span.start);
            span.trace_id = trace_id;
            span.span_id = SpanId::of_event(call.thread_id, call.seq, "model");
            span.parent_id = Some(whole);
            self.finished.push(span);
        }
        let keys = ["reason", "summary_id", "turn_count", "turn_range_start", "turn_range_end", "model"];
        let context = SpanContext { trace_id, span_id: whole, parent_id: parent };
        self.finished.push(Span {
            detail: format!("{} turns", archived.turn_count),
            metadata: text::chosen(&archived, &keys),
            ..moment(Kind::Transfer, "transfer", context, event).began(start)
        });
    }

    /// What happened to a handoff outside a run: within the run it belongs to, or in a trace of its own when that is unknown.
    fn handoff_moment(&self, kind: Kind, name: &str, within: Option<RunId>, event: &Event) -> Span {
        let handoff_id = event.handoff_id();
        let run_id = within.or_else(|| handoff_id.and_then(|id| self.accepted.get(&id).copied()));
        let (trace_id, parent) = match run_id {
            Some(run_id) => (TraceId::of_run(run_id), Some(SpanId::of_run(run_id))),
            None => (TraceId::of_event(event.thread_id, event.seq), None),
        };
        let span_id = SpanId::of_event(event.thread_id, event.seq, name);
        let context = SpanContext { trace_id, span_id, parent_id: parent };
        Span { handoff_id, run_id, ..moment(kind, name, context, event) }
    }
}

/// A span's own id, the trace it is in, and the span it is within.
struct SpanContext {
    trace_id: TraceId,
    span_id: SpanId,
    parent_id: Option<SpanId>,
}

/// Returns the span of a moment, of which nothing is known but what it is.
fn moment(kind: Kind, name: &str, context: SpanContext, event: &Event) -> Span {
    let SpanContext { trace_id, span_id, parent_id } = context;
    Span {
        trace_id,
        span_id,
        parent_id,
        kind,
        name: name.to_owned(),
        detail: String::new(),
        start: event.created_at,
        end: Some(event.created_at),
        outcome: Outcome::Done,
        thread_id: event.thread_id,
        run_id: event.run_id,
        handoff_id: None,
        model: None,
        usage: None,
        tool: None,
        tags: Vec::new(),
        metadata: Map::new(),
        links: Vec::new(),
        input: None,
        output: None,
        seq: event.seq,
    }
}

impl Span {
    /// Moves its beginning forward to `start`, if that is earlier.
    fn began(mut self, start: Timestamp) -> Self {
        self.start = self.start.min(start);
        self
    }

    /// Ends it.
    fn ended(mut self, event: &Event, outcome: Outcome) -> Self {
        self.end = Some(event.created_at.max(self.start));
        self.outcome = outcome;
        self.seq = event.seq;
        self
    }
}

/// Returns the link to the question that a run stopped with.
fn question_of(run_id: RunId) -> Link {
    Link { trace_id: TraceId::of_run(run_id), span_id: SpanId::within(run_id, "interrupt") }
}

/// Returns a number as metadata holds it.
fn number(value: u64) -> Value {
    json!(value)
}

#[cfg(test)]
mod tests;
