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

use crate::span::{SpanId, SpanOutcome, TraceId, TraceSpan, TraceSpanKind, TraceSpanLink};
use run::OpenRun;

/// Where a thread's runs belong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadOrigin {
    /// The thread.
    pub thread_id: ThreadId,
    /// The assistant that works in it.
    pub assistant_id: String,
    /// The run that gave the thread's sub-agent its task, and the call it was given with.
    pub caller: Option<(RunId, String)>,
}

/// Returns the run that gave a sub-agent its task and the call it was given with, from the `thread_created` event of its thread.
pub fn subagent_caller(created: &Event) -> Option<(RunId, String)> {
    let ThreadCreated::Subagent { run_id, call_id } = created.body().ok()? else { return None };
    Some((run_id?, call_id))
}

/// Draws the spans of one thread, event by event.
#[derive(Debug)]
pub struct SpanFold {
    origin: ThreadOrigin,
    runs: HashMap<RunId, OpenRun>,
    /// The run that stopped last to ask a person.
    interrupted_run: Option<RunId>,
    /// The run that ended last.
    last_ended_run: Option<RunId>,
    /// The run in which a handoff was accepted.
    accepting_runs: HashMap<HandoffId, RunId>,
    /// The feedback the next draft of a handoff is made with.
    draft_feedback: HashMap<HandoffId, String>,
    /// Calls of models outside any run, whose purpose comes with the event behind them.
    background_calls: Vec<Event>,
    finished_spans: Vec<TraceSpan>,
}

impl SpanFold {
    /// Returns a fold that has seen nothing of the thread.
    pub fn new(origin: ThreadOrigin) -> Self {
        Self {
            origin,
            runs: HashMap::new(),
            interrupted_run: None,
            last_ended_run: None,
            accepting_runs: HashMap::new(),
            draft_feedback: HashMap::new(),
            background_calls: Vec::new(),
            finished_spans: Vec::new(),
        }
    }

    /// Takes the next event.
    pub fn apply_event(&mut self, event: &Event) {
        let Some(kind) = event.kind() else { return };
        if event.parsed_metadata().again.is_some() {
            // It happened in a run that is over, on a branch that was left.
            return;
        }
        if kind == EventType::ThreadCreated {
            // What stands before the beginning of a fork are copies of what happened elsewhere.
            *self = Self::new(self.origin.clone());
            return;
        }
        if !matches!(kind, EventType::ModelCalled | EventType::TurnsArchived) {
            let unused = self.unclaimed_call_spans();
            self.finished_spans.extend(unused);
            self.background_calls.clear();
        }
        match event.run_id {
            Some(run_id) => self.apply_in_run(run_id, kind, event),
            None => self.apply_outside_run(kind, event),
        }
    }

    /// Returns the spans that ended since the last call, in the order in which they did.
    pub fn take_finished(&mut self) -> Vec<TraceSpan> {
        std::mem::take(&mut self.finished_spans)
    }

    /// Returns the spans that are under way, and those that wait for what comes with them.
    pub fn open_spans(&self) -> Vec<TraceSpan> {
        let mut open: Vec<TraceSpan> = self.runs.values().flat_map(OpenRun::spans).cloned().collect();
        open.extend(self.unclaimed_call_spans());
        open.sort_by_key(|span| (span.start, span.seq));
        open
    }

    /// Returns whether nothing of the thread is under way.
    pub fn is_idle(&self) -> bool {
        self.runs.is_empty() && self.background_calls.is_empty()
    }

    /// Returns the calls outside any run that nothing came of, each in a trace of its own.
    fn unclaimed_call_spans(&self) -> Vec<TraceSpan> {
        let span = |call: &Event| Some(run::model_span(&call.body().ok()?, call, call.created_at));
        self.background_calls.iter().filter_map(span).collect()
    }

    fn apply_in_run(&mut self, run_id: RunId, kind: EventType, event: &Event) {
        let at = event.created_at;
        let asked = self.interrupted_run;
        let place = &self.origin;
        let run = self.runs.entry(run_id).or_insert_with(|| OpenRun::from_first_event(place, run_id, event));
        match kind {
            EventType::HumanMessage => run.record_message(event),
            EventType::RunStarted => {
                let asked = asked.filter(|asked| *asked != run_id);
                self.finished_spans
                    .extend(event.body().ok().and_then(|body| run.apply_run_started(body, event, asked)));
            }
            EventType::MemoryRead => event.body().into_iter().for_each(|body| run.record_memory(body)),
            EventType::AiMessage => self.finished_spans.extend(run.apply_answer(event)),
            EventType::ToolCallDecided => {
                event.body().into_iter().for_each(|body| run.apply_tool_decision(&body, event))
            }
            EventType::ToolMessage => self.finished_spans.extend(run.apply_tool_result(event)),
            EventType::ModelCalled => {
                let called = event.body().into_iter().flat_map(|body| run.apply_model_call(&body, event));
                self.finished_spans.extend(called);
            }
            EventType::HandoffFailed => {
                let failed = event.body().ok().and_then(|body| run.fail_draft(&body, event));
                self.finished_spans.extend(failed);
                self.finished_spans.push(run.decision_span(kind, event));
            }
            EventType::Compacted | EventType::CompactionFailed => {
                self.finished_spans.extend(run.apply_compaction(event));
            }
            EventType::HandoffProposed => {
                if let Ok(body) = event.body::<HandoffProposed>() {
                    let feedback = self.draft_feedback.remove(&body.handoff_id);
                    self.finished_spans.extend(run.finish_draft(place, &body, event, feedback.as_deref()));
                }
            }
            EventType::HandoffRequested
            | EventType::HandoffReverted
            | EventType::HandoffTruncated
            | EventType::HandoffDeclined
            | EventType::HandoffPreviewed
            | EventType::HandoffExpired
            | EventType::HandoffRefined => {
                self.draft_feedback.extend(requested_feedback(event));
                self.finished_spans.push(run.decision_span(kind, event));
            }
            EventType::HandoffAccepted => {
                self.accepting_runs.extend(event.handoff_id().map(|id| (id, run_id)));
                event.body().into_iter().for_each(|body| run.start_accept(&body, event));
            }
            EventType::TurnsArchived => return self.apply_memory_summary(event),
            EventType::HandoffSeeded => {
                let seeded = event.body().into_iter().flat_map(|body| run.finish_accept(&body, event));
                self.finished_spans.extend(seeded);
            }
            EventType::RunInterrupted | EventType::RunFailed | EventType::RunEnded => {
                self.finished_spans.extend(run.finish_run(kind, event));
                self.runs.remove(&run_id);
                self.last_ended_run = Some(run_id);
                self.interrupted_run = (kind == EventType::RunInterrupted).then_some(run_id);
                return;
            }
            _ => {}
        }
        run.advance_time(at);
    }

    fn apply_outside_run(&mut self, kind: EventType, event: &Event) {
        match kind {
            EventType::ModelCalled => self.background_calls.push(event.clone()),
            EventType::TurnsArchived => self.apply_memory_summary(event),
            EventType::HandoffCleaned => {
                // It is cleared as the turn ends, so that is under way still.
                let open = if self.runs.len() == 1 { self.runs.keys().next().copied() } else { None };
                let within = open.or(self.last_ended_run);
                let cleanup = self.handoff_span(TraceSpanKind::Cleanup, "handoff_cleanup", within, event);
                self.finished_spans.push(cleanup);
            }
            EventType::HandoffMirrored => {
                let mirror = self.handoff_span(TraceSpanKind::Mirror, "mirror_handoff", None, event);
                self.finished_spans
                    .extend(event.body().ok().map(|body| handoff::describe_export(&body, mirror)));
            }
            EventType::HandoffExpired | EventType::HandoffDeclined | EventType::HandoffFailed => {
                let moment =
                    self.handoff_span(TraceSpanKind::Decision, kind.as_str(), self.interrupted_run, event);
                self.finished_spans.push(handoff::describe_handoff(event, moment));
            }
            _ => {}
        }
    }

    /// Old turns became a summary: within a run, or in a trace of its own, with the calls it took.
    fn apply_memory_summary(&mut self, event: &Event) {
        let calls = std::mem::take(&mut self.background_calls);
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
            self.finished_spans.push(span);
        }
        let keys = ["reason", "summary_id", "turn_count", "turn_range_start", "turn_range_end", "model"];
        let context = SpanLineage { trace_id, span_id: whole, parent_id: parent };
        self.finished_spans.push(TraceSpan {
            detail: format!("{} turns", archived.turn_count),
            metadata: text::select_fields(&archived, &keys),
            ..instant_span(TraceSpanKind::Transfer, "transfer", context, event).extend_start(start)
        });
    }

    /// Adds a span for an event of a handoff outside a run: within the run it belongs to, or in a trace of its own when
    /// that run is unknown.
    fn handoff_span(
        &self,
        kind: TraceSpanKind,
        name: &str,
        within: Option<RunId>,
        event: &Event,
    ) -> TraceSpan {
        let handoff_id = event.handoff_id();
        let run_id = within.or_else(|| handoff_id.and_then(|id| self.accepting_runs.get(&id).copied()));
        let (trace_id, parent) = match run_id {
            Some(run_id) => (TraceId::of_run(run_id), Some(SpanId::of_run(run_id))),
            None => (TraceId::of_event(event.thread_id, event.seq), None),
        };
        let span_id = SpanId::of_event(event.thread_id, event.seq, name);
        let context = SpanLineage { trace_id, span_id, parent_id: parent };
        TraceSpan { handoff_id, run_id, ..instant_span(kind, name, context, event) }
    }
}

/// A span's own id, the trace it is in, and the span it is within.
struct SpanLineage {
    trace_id: TraceId,
    span_id: SpanId,
    parent_id: Option<SpanId>,
}

/// Returns the span of a moment, of which nothing is known but what it is.
fn instant_span(kind: TraceSpanKind, name: &str, context: SpanLineage, event: &Event) -> TraceSpan {
    let SpanLineage { trace_id, span_id, parent_id } = context;
    TraceSpan {
        trace_id,
        span_id,
        parent_id,
        kind,
        name: name.to_owned(),
        detail: String::new(),
        start: event.created_at,
        end: Some(event.created_at),
        outcome: SpanOutcome::Done,
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

impl TraceSpan {
    /// Moves its beginning forward to `start`, if that is earlier.
    fn extend_start(mut self, start: Timestamp) -> Self {
        self.start = self.start.min(start);
        self
    }

    /// Ends it.
    fn finish(mut self, event: &Event, outcome: SpanOutcome) -> Self {
        self.end = Some(event.created_at.max(self.start));
        self.outcome = outcome;
        self.seq = event.seq;
        self
    }
}

/// Returns the link to the question that a run stopped with.
fn interrupt_link(run_id: RunId) -> TraceSpanLink {
    TraceSpanLink { trace_id: TraceId::of_run(run_id), span_id: SpanId::in_run(run_id, "interrupt") }
}

/// Returns a number as metadata holds it.
fn number_value(value: u64) -> Value {
    json!(value)
}

/// Returns the feedback with which a new draft of a handoff was requested.
fn requested_feedback(event: &Event) -> Option<(HandoffId, String)> {
    let HandoffRefined { request: DraftRequest::Feedback { feedback }, handoff_id, .. } =
        event.body().ok()?
    else {
        return None;
    };
    Some((handoff_id, feedback))
}

#[cfg(test)]
mod tests;
