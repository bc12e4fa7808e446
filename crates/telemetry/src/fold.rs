//! Makes spans from the events of one thread: events go in, in the order of `seq`, and spans come out when they end.
//!
//! [`SpanFold`] is a pure fold: it does no I/O and knows only the events it was given. The journal records the end of work,
//! not its beginning. A model call therefore begins at the time of the event before it, unless its event records a
//! duration. A tool call begins when the model requested it, or when it was allowed if that is later.

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

/// The thread of a fold, and its caller if it is the thread of a sub-agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadOrigin {
    /// The thread.
    pub thread_id: ThreadId,
    /// The assistant that owns the thread.
    pub assistant_id: String,
    /// For a sub-agent's thread, the run that started the sub-agent and the id of the tool call. The sub-agent's runs are
    /// part of that run's trace.
    pub caller: Option<(RunId, String)>,
}

/// Returns the run and the tool call that started a sub-agent, from the `thread_created` event of its thread. Returns `None`
/// for other threads.
pub fn subagent_caller(created: &Event) -> Option<(RunId, String)> {
    let ThreadCreated::Subagent { run_id, call_id } = created.body().ok()? else { return None };
    Some((run_id?, call_id))
}

/// The fold of one thread's events into spans.
#[derive(Debug)]
pub struct SpanFold {
    origin: ThreadOrigin,
    /// The runs in progress.
    runs: HashMap<RunId, OpenRun>,
    /// The last run, if it was interrupted to ask the user.
    interrupted_run: Option<RunId>,
    /// The last run that ended.
    last_ended_run: Option<RunId>,
    /// The run in which each handoff was accepted.
    accepting_runs: HashMap<HandoffId, RunId>,
    /// The feedback for the next draft of each handoff.
    draft_feedback: HashMap<HandoffId, String>,
    /// Model calls outside any run. The event after them determines what they were made for.
    background_calls: Vec<Event>,
    /// Spans that ended since the last [`take_finished`](Self::take_finished).
    finished_spans: Vec<TraceSpan>,
}

impl SpanFold {
    /// Returns a fold that has seen no events.
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

    /// Applies the next event. Event types of a later version, and events that repeat an earlier one, have no effect.
    pub fn apply_event(&mut self, event: &Event) {
        let Some(kind) = event.kind() else { return };
        if event.parsed_metadata().again.is_some() {
            // Continuing from an abandoned branch repeats its messages. Their work was traced when it was done.
            return;
        }
        if kind == EventType::ThreadCreated {
            // Events before the creation of a forked thread are copies of another thread's events.
            *self = Self::new(self.origin.clone());
            return;
        }
        if !matches!(kind, EventType::ModelCalled | EventType::TurnsArchived) {
            // No summary followed these calls, so they get traces of their own.
            let unclaimed = self.unclaimed_call_spans();
            self.finished_spans.extend(unclaimed);
            self.background_calls.clear();
        }
        match event.run_id {
            Some(run_id) => self.apply_in_run(run_id, kind, event),
            None => self.apply_outside_run(kind, event),
        }
    }

    /// Removes and returns the spans that ended since the last call, in the order in which they ended.
    pub fn take_finished(&mut self) -> Vec<TraceSpan> {
        std::mem::take(&mut self.finished_spans)
    }

    /// Returns the spans in progress, and the background model calls that may still become part of a summary's span, by
    /// their start.
    pub fn open_spans(&self) -> Vec<TraceSpan> {
        let mut open: Vec<TraceSpan> = self.runs.values().flat_map(OpenRun::spans).cloned().collect();
        open.extend(self.unclaimed_call_spans());
        open.sort_by_key(|span| (span.start, span.seq));
        open
    }

    /// Returns whether the thread has no span in progress.
    pub fn is_idle(&self) -> bool {
        self.runs.is_empty() && self.background_calls.is_empty()
    }

    /// Returns the spans of the background model calls, each as the root of its own trace.
    fn unclaimed_call_spans(&self) -> Vec<TraceSpan> {
        let span = |call: &Event| Some(run::model_span(&call.body().ok()?, call, call.created_at));
        self.background_calls.iter().filter_map(span).collect()
    }

    /// Applies an event of a run. The first event of an unknown run opens it.
    fn apply_in_run(&mut self, run_id: RunId, kind: EventType, event: &Event) {
        let timestamp = event.created_at;
        let interrupted = self.interrupted_run;
        let origin = &self.origin;
        let run = self.runs.entry(run_id).or_insert_with(|| OpenRun::from_first_event(origin, run_id, event));
        match kind {
            EventType::HumanMessage => run.record_message(event),
            EventType::RunStarted => {
                let interrupted = interrupted.filter(|interrupted| *interrupted != run_id);
                let resume =
                    event.body().ok().and_then(|body| run.apply_run_started(body, event, interrupted));
                self.finished_spans.extend(resume);
            }
            EventType::MemoryRead => event.body().into_iter().for_each(|body| run.record_memory(body)),
            EventType::AiMessage => self.finished_spans.extend(run.apply_answer(event)),
            EventType::ToolCallDecided => {
                event.body().into_iter().for_each(|body| run.apply_tool_decision(&body, event))
            }
            EventType::ToolMessage => self.finished_spans.extend(run.apply_tool_result(event)),
            EventType::ModelCalled => {
                let spans = event.body().into_iter().flat_map(|body| run.apply_model_call(&body, event));
                self.finished_spans.extend(spans);
            }
            EventType::HandoffFailed => {
                let draft = event.body().ok().and_then(|body| run.fail_draft(&body, event));
                self.finished_spans.extend(draft);
                self.finished_spans.push(run.decision_span(kind, event));
            }
            EventType::Compacted | EventType::CompactionFailed => {
                self.finished_spans.extend(run.apply_compaction(event));
            }
            EventType::HandoffProposed => {
                if let Ok(body) = event.body::<HandoffProposed>() {
                    let feedback = self.draft_feedback.remove(&body.handoff_id);
                    self.finished_spans.extend(run.finish_draft(origin, &body, event, feedback.as_deref()));
                }
            }
            EventType::HandoffRequested
            | EventType::HandoffEdited
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
                let spans = event.body().into_iter().flat_map(|body| run.finish_accept(&body, event));
                self.finished_spans.extend(spans);
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
        run.advance_time(timestamp);
    }

    /// Applies an event that belongs to no run, such as a cleanup, an export or a background model call.
    fn apply_outside_run(&mut self, kind: EventType, event: &Event) {
        match kind {
            EventType::ModelCalled => self.background_calls.push(event.clone()),
            EventType::TurnsArchived => self.apply_memory_summary(event),
            EventType::HandoffCleaned => {
                // The block is cleared when the turn ends, so the run is usually still in progress.
                let open_run = if self.runs.len() == 1 { self.runs.keys().next().copied() } else { None };
                let run_id = open_run.or(self.last_ended_run);
                let cleanup = self.handoff_span(TraceSpanKind::Cleanup, "handoff_cleanup", run_id, event);
                self.finished_spans.push(cleanup);
            }
            EventType::HandoffMirrored => {
                let mirror = self.handoff_span(TraceSpanKind::Mirror, "mirror_handoff", None, event);
                self.finished_spans
                    .extend(event.body().ok().map(|body| handoff::describe_export(&body, mirror)));
            }
            EventType::HandoffExpired | EventType::HandoffDeclined | EventType::HandoffFailed => {
                let span =
                    self.handoff_span(TraceSpanKind::Decision, kind.as_str(), self.interrupted_run, event);
                self.finished_spans.push(handoff::describe_handoff(event, span));
            }
            _ => {}
        }
    }

    /// Finishes the span of a memory summary and the spans of the model calls that wrote it. The summary's span is part of
    /// its run, or the root of its own trace if it was written outside any run.
    fn apply_memory_summary(&mut self, event: &Event) {
        let calls = std::mem::take(&mut self.background_calls);
        let Ok(archived) = event.body::<TurnsArchived>() else { return };
        let first_seq = calls.first().map_or(event.seq, |call| call.seq);
        let (trace_id, parent) = match event.run_id {
            Some(run_id) => (TraceId::of_run(run_id), Some(SpanId::of_run(run_id))),
            None => (TraceId::of_event(event.thread_id, first_seq), None),
        };
        let summary_span_id = SpanId::of_event(event.thread_id, event.seq, "transfer");
        let mut start = event.created_at;
        for call in &calls {
            let Ok(body) = call.body() else { continue };
            let mut span = run::model_span(&body, call, call.created_at);
            start = start.min(span.start);
            span.trace_id = trace_id;
            span.span_id = SpanId::of_event(call.thread_id, call.seq, "model");
            span.parent_id = Some(summary_span_id);
            self.finished_spans.push(span);
        }
        let keys = ["reason", "summary_id", "turn_count", "turn_range_start", "turn_range_end", "model"];
        let context = SpanLineage { trace_id, span_id: summary_span_id, parent_id: parent };
        self.finished_spans.push(TraceSpan {
            detail: format!("{} messages", archived.turn_count),
            metadata: text::select_fields(&archived, &keys),
            ..instant_span(TraceSpanKind::Transfer, "transfer", context, event).extend_start(start)
        });
    }

    /// Returns an instant span for an event of a handoff outside any run. Its parent is the given run, else the run in which
    /// the handoff was accepted; if neither is known, the span is the root of its own trace.
    fn handoff_span(
        &self,
        kind: TraceSpanKind,
        name: &str,
        run_id: Option<RunId>,
        event: &Event,
    ) -> TraceSpan {
        let handoff_id = event.handoff_id();
        let run_id = run_id.or_else(|| handoff_id.and_then(|id| self.accepting_runs.get(&id).copied()));
        let (trace_id, parent) = match run_id {
            Some(run_id) => (TraceId::of_run(run_id), Some(SpanId::of_run(run_id))),
            None => (TraceId::of_event(event.thread_id, event.seq), None),
        };
        let span_id = SpanId::of_event(event.thread_id, event.seq, name);
        let context = SpanLineage { trace_id, span_id, parent_id: parent };
        TraceSpan { handoff_id, run_id, ..instant_span(kind, name, context, event) }
    }
}

/// The ids that locate a span: its trace, its own id, and its parent.
struct SpanLineage {
    trace_id: TraceId,
    span_id: SpanId,
    parent_id: Option<SpanId>,
}

/// Returns a span that begins and ends at the time of `event`, with the outcome [`SpanOutcome::Done`] and no attributes.
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
    /// Moves the start back to `start` if that is earlier.
    fn extend_start(mut self, start: Timestamp) -> Self {
        self.start = self.start.min(start);
        self
    }

    /// Ends the span at the time of `event`, but not before its start.
    fn finish(mut self, event: &Event, outcome: SpanOutcome) -> Self {
        self.end = Some(event.created_at.max(self.start));
        self.outcome = outcome;
        self.seq = event.seq;
        self
    }
}

/// Returns a link to the interrupt span of a run.
fn interrupt_link(run_id: RunId) -> TraceSpanLink {
    TraceSpanLink { trace_id: TraceId::of_run(run_id), span_id: SpanId::in_run(run_id, "interrupt") }
}

/// Returns a number as a metadata value.
fn number_value(value: u64) -> Value {
    json!(value)
}

/// Returns the handoff and the feedback, if the event requests a new draft with feedback.
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
