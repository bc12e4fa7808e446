//! A run while it is under way: its span, the step it is at, and the calls that have not come to their end.

use jiff::{SignedDuration, Timestamp};
use protocol::event::body::{
    MemoryRead, ModelCallPurpose, ModelCalled, RunEnded, RunFailed, RunInterrupted, RunStartKind, RunStarted,
    ToolCallDecided,
};
use protocol::{
    Compaction, CompactionFailed, ContentBlock, Event, EventType, FailureKind, Message, RunFailure, RunId,
    RunStatus, ToolStatus, Usage,
};
use serde_json::{Map, Value};

use super::{SpanLineage, ThreadOrigin, instant_span, interrupt_link, number_value, text};
use crate::span::{SpanId, SpanOutcome, ToolCallRef, TraceId, TraceSpan, TraceSpanKind};

/// A run that has not ended.
#[derive(Debug)]
pub(super) struct OpenRun {
    pub run_id: RunId,
    pub trace_id: TraceId,
    pub root: TraceSpan,
    pub draft: Option<TraceSpan>,
    /// The acceptance of a handoff, and when it was stored.
    pub accept: Option<(TraceSpan, Timestamp)>,
    step: Option<TraceSpan>,
    steps: u64,
    /// Calls of tools that have not returned, in the order in which they were made.
    calls: Vec<TraceSpan>,
    /// Calls of models for a compaction that is not stored yet.
    compaction_calls: Vec<TraceSpan>,
    /// True if the last model call failed and the failure is part of a span.
    is_failure_reported: bool,
    /// The memory that the next answer is made with.
    memory: Option<Value>,
    /// When the last thing happened.
    last_event_at: Timestamp,
}

impl OpenRun {
    /// Returns the run that `event` is the first of.
    pub fn from_first_event(place: &ThreadOrigin, run_id: RunId, event: &Event) -> Self {
        let (trace_id, parent) = match &place.caller {
            Some((caller, call_id)) => (TraceId::of_run(*caller), Some(tool_span_id(*caller, call_id))),
            None => (TraceId::of_run(run_id), None),
        };
        let context = SpanLineage { trace_id, span_id: SpanId::of_run(run_id), parent_id: parent };
        let mut root = instant_span(TraceSpanKind::Run, "run", context, event);
        (root.end, root.outcome, root.run_id) = (None, SpanOutcome::Working, Some(run_id));
        root.metadata.insert("assistant_id".to_owned(), Value::String(place.assistant_id.clone()));
        Self {
            run_id,
            trace_id,
            root,
            draft: None,
            accept: None,
            step: None,
            steps: 0,
            calls: Vec::new(),
            compaction_calls: Vec::new(),
            is_failure_reported: false,
            memory: None,
            last_event_at: event.created_at,
        }
    }

    /// Returns the spans that are under way, what they are in first.
    pub fn spans(&self) -> impl Iterator<Item = &TraceSpan> {
        let accept = self.accept.as_ref().map(|(span, _)| span);
        std::iter::once(&self.root).chain(&self.step).chain(&self.calls).chain(&self.draft).chain(accept)
    }

    /// Notes that something happened at `at`.
    pub fn advance_time(&mut self, at: Timestamp) {
        self.last_event_at = self.last_event_at.max(at);
    }

    /// Returns when that began which `event` is the end of.
    pub fn start_time(&self, event: &Event) -> Timestamp {
        recorded_start(event).unwrap_or(self.last_event_at).min(event.created_at)
    }

    /// A person said something, as a run begins or while it works.
    pub fn record_message(&mut self, event: &Event) {
        if self.root.input.is_none() {
            self.root.input = text::message_text(event);
        }
    }

    /// The run begins, or goes on after a question of an earlier one, or with another process.
    pub fn apply_run_started(
        &mut self,
        body: RunStarted,
        event: &Event,
        asked: Option<RunId>,
    ) -> Option<TraceSpan> {
        let how = body.how;
        self.root.model = body.model.or(self.root.model.take());
        let (key, value) = match how == RunStartKind::TakenOver {
            true => ("taken_over", Value::Bool(true)),
            false => ("how", Value::String(how.to_string())),
        };
        self.root.metadata.insert(key.to_owned(), value);
        let asked = interrupt_link(asked.filter(|_| how == RunStartKind::Resumed)?);
        self.root.links.push(asked);
        Some(TraceSpan { links: vec![asked], ..self.instant_span(TraceSpanKind::Resume, "resume", event) })
    }

    /// Records the memory that is in the context of the next answer.
    pub fn record_memory(&mut self, body: MemoryRead) {
        let named = body.sources.iter().map(|source| format!("{}:{}", source.name, source.sha256));
        self.memory = Some(Value::Array(named.map(Value::String).collect()));
    }

    /// A model answered: a step ends, and the next one begins.
    pub fn apply_answer(&mut self, event: &Event) -> Vec<TraceSpan> {
        let mut ended = self.end_step(event, SpanOutcome::Done);
        let Some(Message::Ai(message)) = event.message() else { return ended };
        self.steps += 1;
        self.is_failure_reported = false;
        let start = self.start_time(event);
        let step = TraceSpan {
            end: None,
            outcome: SpanOutcome::Working,
            span_id: SpanId::in_run(self.run_id, &format!("step:{}", event.seq)),
            ..self.instant_span(TraceSpanKind::Step, &format!("step {}", self.steps), event)
        }
        .extend_start(start);
        let usage = message.usage.unwrap_or_default();
        self.add_usage(usage);
        let mut answer = TraceSpan {
            span_id: SpanId::in_run(self.run_id, &format!("model:{}", event.seq)),
            parent_id: Some(step.span_id),
            model: message.model.clone().or_else(|| self.root.model.clone()),
            usage: message.usage,
            outcome: if message.incomplete { SpanOutcome::Stopped } else { SpanOutcome::Done },
            input: self.root.input.clone().filter(|_| self.steps == 1),
            output: text::message_text(event),
            ..self.instant_span(TraceSpanKind::Model, &span_name("chat", message.model.as_deref()), event)
        }
        .extend_start(start);
        if let Some(stop) = message.stop.and_then(|stop| serde_json::to_value(stop).ok()) {
            answer.metadata.insert("finish_reason".to_owned(), stop);
        }
        if let Some(sources) = self.memory.take() {
            answer.metadata.insert("memory".to_owned(), sources);
        }
        self.root.output = answer.output.clone();
        ended.push(answer);
        let step_id = step.span_id;
        self.step = Some(step);
        for block in &message.content {
            let ContentBlock::ToolCall { id, name, args } = block else { continue };
            let call = self.tool_span(id, name, Some(step_id), event);
            self.calls.push(TraceSpan { input: Some(text::json_text(args)), ..call });
        }
        if self.calls.is_empty() {
            ended.extend(self.end_step(event, SpanOutcome::Done));
        }
        ended
    }

    /// A call of a tool was allowed or refused: its work begins.
    pub fn apply_tool_decision(&mut self, body: &ToolCallDecided, event: &Event) {
        let call = self.call_mut(&body.call_id, &body.tool, event);
        call.start = call.start.max(event.created_at);
        call.metadata.extend(text::select_fields(body, &["decision", "by", "rule"]));
    }

    /// A tool returned.
    pub fn apply_tool_result(&mut self, event: &Event) -> Vec<TraceSpan> {
        let Some(Message::Tool(result)) = event.message() else { return Vec::new() };
        self.call_mut(&result.call_id, result.name.as_deref().unwrap_or("tool"), event);
        let Some(index) = self.call_index(&result.call_id) else { return Vec::new() };
        let mut call = self.calls.remove(index);
        if let Some(start) = recorded_start(event) {
            call.start = call.start.max(start);
        }
        call.output = text::message_text(event);
        let outcome = match result.status {
            ToolStatus::Success => SpanOutcome::Done,
            ToolStatus::Error => {
                SpanOutcome::Failed(text::brief_text(call.output.as_deref().unwrap_or("it failed")))
            }
        };
        let mut ended = vec![call.finish(event, outcome)];
        if self.calls.is_empty() {
            ended.extend(self.end_step(event, SpanOutcome::Done));
        }
        ended
    }

    /// A model was called for something other than an answer.
    pub fn apply_model_call(&mut self, body: &ModelCalled, event: &Event) -> Vec<TraceSpan> {
        let mut span = model_span(body, event, self.start_time(event));
        span.trace_id = self.trace_id;
        span.span_id = SpanId::in_run(self.run_id, &format!("model:{}", event.seq));
        self.add_usage(span.usage.unwrap_or_default());
        self.is_failure_reported = matches!(span.outcome, SpanOutcome::Failed(_));
        if let Some(trace) = &body.trace {
            let (draft_id, before) = self.record_draft_call(trace, event, &span.outcome);
            span.parent_id = Some(draft_id);
            return before.into_iter().chain([span]).collect();
        }
        if body.purpose == ModelCallPurpose::Compaction {
            self.compaction_calls.push(span);
            return Vec::new();
        }
        span.parent_id = Some(self.root.span_id);
        vec![span]
    }

    /// The conversation was condensed, or was not after all.
    pub fn apply_compaction(&mut self, event: &Event) -> Vec<TraceSpan> {
        let internal = std::mem::take(&mut self.compaction_calls);
        let mut span = TraceSpan {
            span_id: SpanId::in_run(self.run_id, &format!("compaction:{}", event.seq)),
            ..self.instant_span(TraceSpanKind::Compaction, "compaction", event)
        };
        let start = internal.first().map_or(self.start_time(event), |call| call.start);
        if let Ok(compaction) = event.body() {
            self.describe_compaction(&mut span, compaction, event);
        } else if let Ok(failed) = event.body::<CompactionFailed>() {
            span.metadata = text::select_fields(&failed, &["trigger", "vetoed_by"]);
            span.outcome = SpanOutcome::Failed(text::brief_text(&failed.reason));
        }
        let span = span.extend_start(start);
        let whole = span.span_id;
        let calls = internal.into_iter().map(|call| TraceSpan { parent_id: Some(whole), ..call });
        calls.chain([span.clone()]).collect()
    }

    /// The run came to its end: what has not, is cut off with it.
    pub fn finish_run(&mut self, kind: EventType, event: &Event) -> Vec<TraceSpan> {
        let failed = event.body::<RunFailed>().map(|failed| failed.failure).ok();
        let status = event.body::<RunEnded>().map(|ended| ended.status).ok();
        let outcome = match (kind, &failed) {
            (EventType::RunInterrupted, _) => SpanOutcome::Waiting,
            (_, Some(failure)) => SpanOutcome::Failed(text::brief_text(&failure.message)),
            (_, None) => match status {
                Some(RunStatus::Success) => SpanOutcome::Done,
                Some(RunStatus::Timeout) => SpanOutcome::Failed("it took longer than it may".to_owned()),
                Some(
                    RunStatus::Pending
                    | RunStatus::Running
                    | RunStatus::Error
                    | RunStatus::Interrupted
                    | RunStatus::Cancelled,
                )
                | None => SpanOutcome::Stopped,
            },
        };
        let cut = match &outcome {
            SpanOutcome::Waiting => SpanOutcome::Waiting,
            SpanOutcome::Done => SpanOutcome::Done,
            SpanOutcome::Working | SpanOutcome::Stopped | SpanOutcome::Failed(_) => SpanOutcome::Stopped,
        };
        let mut ended = self.end_step(event, cut.clone());
        let accept = self.accept.take().map(|(span, _)| span);
        let open = self
            .compaction_calls
            .drain(..)
            .map(|call| TraceSpan { parent_id: Some(self.root.span_id), ..call });
        ended.extend(open);
        ended.extend(self.draft.take().map(|draft| abandon_draft(draft, event, cut.clone())));
        ended.extend(accept.map(|span| span.finish(event, cut.clone())));
        ended.extend(failed.as_ref().and_then(|failure| self.failed_call_span(failure, event)));
        if let Ok(interrupted) = event.body::<RunInterrupted>() {
            let keys = ["interrupt_ids", "actions"];
            ended.push(TraceSpan {
                outcome: SpanOutcome::Waiting,
                metadata: text::select_fields(&interrupted, &keys),
                ..self.instant_span(TraceSpanKind::Interrupt, "interrupt", event)
            });
        }
        let mut root = self.root.clone().finish(event, outcome);
        root.metadata.extend(status.map(|status| ("status".to_owned(), status.as_str().into())));
        root.metadata.extend(failed.map(|failure| ("kind".to_owned(), failure.kind.as_str().into())));
        root.metadata.insert("steps".to_owned(), number_value(self.steps));
        ended.push(root);
        ended
    }

    /// Returns the call of the model that the run failed with, of which nothing else is stored.
    fn failed_call_span(&self, failure: &RunFailure, event: &Event) -> Option<TraceSpan> {
        let is_of_model = matches!(failure.kind, FailureKind::Model | FailureKind::Overflow);
        if self.is_failure_reported || !is_of_model {
            return None;
        }
        Some(TraceSpan {
            span_id: SpanId::in_run(self.run_id, &format!("model:{}", event.seq)),
            model: self.root.model.clone(),
            outcome: SpanOutcome::Failed(text::brief_text(&failure.message)),
            ..self
                .instant_span(TraceSpanKind::Model, &span_name("chat", self.root.model.as_deref()), event)
                .extend_start(self.last_event_at)
        })
    }

    /// Ends the step, and whatever of it has not come to its end.
    fn end_step(&mut self, event: &Event, outcome: SpanOutcome) -> Vec<TraceSpan> {
        let mut ended: Vec<TraceSpan> =
            self.calls.drain(..).map(|call| call.finish(event, outcome.clone())).collect();
        ended.extend(self.step.take().map(|step| step.finish(event, outcome)));
        ended
    }

    /// Returns the call, which is there from here on: an earlier run may have made it.
    fn call_mut(&mut self, call_id: &str, name: &str, event: &Event) -> &mut TraceSpan {
        let index = self.call_index(call_id).unwrap_or_else(|| {
            let parent = self.step.as_ref().map(|step| step.span_id);
            let mut span = self.tool_span(call_id, name, parent, event);
            span.start = self.last_event_at.min(event.created_at);
            self.calls.push(span);
            self.calls.len() - 1
        });
        &mut self.calls[index]
    }

    fn call_index(&self, call_id: &str) -> Option<usize> {
        self.calls.iter().position(|call| call.tool.as_ref().is_some_and(|tool| tool.call_id == call_id))
    }

    fn tool_span(&self, call_id: &str, name: &str, parent: Option<SpanId>, event: &Event) -> TraceSpan {
        // Whoever named it is a model.
        let name = &text::brief_text(name);
        TraceSpan {
            span_id: tool_span_id(self.run_id, call_id),
            parent_id: parent.or(Some(self.root.span_id)),
            end: None,
            outcome: SpanOutcome::Working,
            tool: Some(ToolCallRef { name: name.to_owned(), call_id: call_id.to_owned() }),
            ..self.instant_span(TraceSpanKind::Tool, &format!("execute_tool {name}"), event)
        }
    }

    /// Returns a moment of this run.
    fn instant_span(&self, kind: TraceSpanKind, name: &str, event: &Event) -> TraceSpan {
        let span_id = SpanId::in_run(self.run_id, name);
        instant_span(kind, name, self.context(span_id), event)
    }

    /// Returns the context of a span right below this run's.
    pub(super) fn context(&self, span_id: SpanId) -> SpanLineage {
        SpanLineage { trace_id: self.trace_id, span_id, parent_id: Some(self.root.span_id) }
    }

    fn add_usage(&mut self, usage: Usage) {
        self.root.usage.get_or_insert_default().add(usage);
    }

    /// Says of a compaction what came of it.
    fn describe_compaction(&self, span: &mut TraceSpan, compaction: Compaction, event: &Event) {
        let Compaction { replaced_count, tokens_before, tokens_after, duration_ms, .. } = compaction;
        span.detail = format!("{replaced_count} messages, {tokens_before} → {tokens_after} tokens");
        span.metadata = Map::from_iter([
            ("trigger".to_owned(), Value::String(compaction.trigger.as_str().to_owned())),
            ("replaced_count".to_owned(), number_value(replaced_count)),
            ("tokens_before".to_owned(), number_value(tokens_before)),
            ("tokens_after".to_owned(), number_value(tokens_after)),
            ("summary_model".to_owned(), Value::String(compaction.model)),
        ]);
        let took = SignedDuration::from_millis(i64::try_from(duration_ms).unwrap_or(i64::MAX));
        span.start = event.created_at.checked_sub(took).unwrap_or(span.start).min(span.start);
        span.output = Some(text::content_text(&compaction.summary));
    }
}

/// Ends a draft that was not stored: it failed if the last call for it did.
pub(super) fn abandon_draft(draft: TraceSpan, event: &Event, outcome: SpanOutcome) -> TraceSpan {
    let outcome =
        if matches!(draft.outcome, SpanOutcome::Failed(_)) { draft.outcome.clone() } else { outcome };
    draft.finish(event, outcome)
}

/// Returns the span of a model's call that was for no answer, outside any other.
pub(super) fn model_span(body: &ModelCalled, event: &Event, start: Timestamp) -> TraceSpan {
    let model = body.model.clone();
    let context = SpanLineage {
        trace_id: TraceId::of_event(event.thread_id, event.seq),
        span_id: SpanId::of_event(event.thread_id, event.seq, "model"),
        parent_id: None,
    };
    let span = instant_span(TraceSpanKind::Model, &span_name("chat", model.as_deref()), context, event);
    TraceSpan {
        model,
        usage: body.usage,
        metadata: text::select_fields(body, &["purpose", "prompt_sha256", "handoff_id"]),
        outcome: body
            .problem
            .as_ref()
            .map_or(SpanOutcome::Done, |problem| SpanOutcome::Failed(text::brief_text(problem))),
        ..span.extend_start(recorded_start(event).unwrap_or(start))
    }
}

/// Returns the span of a call, whoever makes it known.
fn tool_span_id(run_id: RunId, call_id: &str) -> SpanId {
    SpanId::in_run(run_id, &format!("tool:{call_id}"))
}

/// Returns when that began which the event is the end of, if it says how long it took.
fn recorded_start(event: &Event) -> Option<Timestamp> {
    let took = SignedDuration::from_millis(i64::try_from(event.parsed_metadata().duration_ms?).ok()?);
    event.created_at.checked_sub(took).ok()
}

/// Returns a span's name by OpenTelemetry's conventions: what is done, and with which model.
fn span_name(operation: &str, model: Option<&str>) -> String {
    let bare = model.map(|model| model.split_once('/').map_or(model, |(_, name)| name));
    bare.map_or_else(|| operation.to_owned(), |name| format!("{operation} {name}"))
}
