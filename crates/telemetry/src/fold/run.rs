//! A run in progress: its root span, the current step, and the calls that have not finished.

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

/// The state of a run that has not ended.
#[derive(Debug)]
pub(super) struct OpenRun {
    pub run_id: RunId,
    /// The trace of the run; for a sub-agent, the trace of the run that called it.
    pub trace_id: TraceId,
    /// The span of the whole run.
    pub root: TraceSpan,
    /// The draft of a handoff summary in progress.
    pub draft: Option<TraceSpan>,
    /// The acceptance of a handoff in progress, and the time at which it was stored.
    pub accept: Option<(TraceSpan, Timestamp)>,
    /// The current step.
    step: Option<TraceSpan>,
    /// Number of steps so far.
    steps: u64,
    /// Tool calls without a result, in the order in which they were requested.
    calls: Vec<TraceSpan>,
    /// Finished model calls for a compaction that is not stored yet.
    compaction_calls: Vec<TraceSpan>,
    /// True if the last model call failed and has a span with its failure.
    is_failure_reported: bool,
    /// Name and hash of the memory sources in the context of the next answer.
    memory: Option<Value>,
    /// Time of the last event.
    last_event_at: Timestamp,
}

impl OpenRun {
    /// Opens the run whose first known event is `event`.
    pub fn from_first_event(origin: &ThreadOrigin, run_id: RunId, event: &Event) -> Self {
        let (trace_id, parent) = match &origin.caller {
            Some((caller, call_id)) => (TraceId::of_run(*caller), Some(tool_span_id(*caller, call_id))),
            None => (TraceId::of_run(run_id), None),
        };
        let context = SpanLineage { trace_id, span_id: SpanId::of_run(run_id), parent_id: parent };
        let mut root = instant_span(TraceSpanKind::Run, "run", context, event);
        (root.end, root.outcome, root.run_id) = (None, SpanOutcome::Working, Some(run_id));
        root.metadata.insert("assistant_id".to_owned(), Value::String(origin.assistant_id.clone()));
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

    /// Returns the spans in progress, parents before their children.
    pub fn spans(&self) -> impl Iterator<Item = &TraceSpan> {
        let accept = self.accept.as_ref().map(|(span, _)| span);
        std::iter::once(&self.root).chain(&self.step).chain(&self.calls).chain(&self.draft).chain(accept)
    }

    /// Records the time of an event.
    pub fn advance_time(&mut self, timestamp: Timestamp) {
        self.last_event_at = self.last_event_at.max(timestamp);
    }

    /// Returns the start of the work that `event` ends: by the event's recorded duration, else the time of the event before.
    pub fn start_time(&self, event: &Event) -> Timestamp {
        recorded_start(event).unwrap_or(self.last_event_at).min(event.created_at)
    }

    /// Records a message of the user. The first one is the input of the run.
    pub fn record_message(&mut self, event: &Event) {
        if self.root.input.is_none() {
            self.root.input = text::message_text(event);
        }
    }

    /// Records the start of the run, or its takeover by another process. If the run resumes after the interrupt of
    /// `interrupted`, the root is linked to that interrupt, and a resume span is returned.
    pub fn apply_run_started(
        &mut self,
        body: RunStarted,
        event: &Event,
        interrupted: Option<RunId>,
    ) -> Option<TraceSpan> {
        let how = body.how;
        self.root.model = body.model.or(self.root.model.take());
        let (key, value) = match how == RunStartKind::TakenOver {
            true => ("taken_over", Value::Bool(true)),
            false => ("how", Value::String(how.to_string())),
        };
        self.root.metadata.insert(key.to_owned(), value);
        let link = interrupt_link(interrupted.filter(|_| how == RunStartKind::Resumed)?);
        self.root.links.push(link);
        Some(TraceSpan { links: vec![link], ..self.instant_span(TraceSpanKind::Resume, "resume", event) })
    }

    /// Records the memory that is in the context of the next answer.
    pub fn record_memory(&mut self, body: MemoryRead) {
        let sources = body.sources.iter().map(|source| format!("{}:{}", source.name, source.sha256));
        self.memory = Some(Value::Array(sources.map(Value::String).collect()));
    }

    /// Records an answer of the model: ends the previous step and begins the next one, with the tool calls of the answer. An
    /// answer without tool calls ends its step at once. Returns the spans that ended.
    pub fn apply_answer(&mut self, event: &Event) -> Vec<TraceSpan> {
        let mut finished = self.end_step(event, SpanOutcome::Done);
        let Some(Message::Ai(message)) = event.message() else { return finished };
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
        finished.push(answer);
        let step_id = step.span_id;
        self.step = Some(step);
        for block in &message.content {
            let ContentBlock::ToolCall { id, name, args } = block else { continue };
            let call = self.tool_span(id, name, Some(step_id), event);
            self.calls.push(TraceSpan { input: Some(text::json_text(args)), ..call });
        }
        if self.calls.is_empty() {
            finished.extend(self.end_step(event, SpanOutcome::Done));
        }
        finished
    }

    /// Records that a tool call was allowed or refused. Its span begins then, so that it does not include the wait for a
    /// decision.
    pub fn apply_tool_decision(&mut self, body: &ToolCallDecided, event: &Event) {
        let call = self.call_mut(&body.call_id, &body.tool, event);
        call.start = call.start.max(event.created_at);
        call.metadata.extend(text::select_fields(body, &["decision", "by", "rule"]));
    }

    /// Records the result of a tool call and returns the spans that ended: the call, and the step if it was its last call.
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
                SpanOutcome::Failed(text::brief_text(call.output.as_deref().unwrap_or("the tool failed")))
            }
        };
        let mut finished = vec![call.finish(event, outcome)];
        if self.calls.is_empty() {
            finished.extend(self.end_step(event, SpanOutcome::Done));
        }
        finished
    }

    /// Records a model call that is not an answer: for a draft, a compaction or another purpose. Returns the spans that
    /// ended. The span of a call for a compaction is returned with the compaction.
    pub fn apply_model_call(&mut self, body: &ModelCalled, event: &Event) -> Vec<TraceSpan> {
        let mut span = model_span(body, event, self.start_time(event));
        span.trace_id = self.trace_id;
        span.span_id = SpanId::in_run(self.run_id, &format!("model:{}", event.seq));
        self.add_usage(span.usage.unwrap_or_default());
        self.is_failure_reported = matches!(span.outcome, SpanOutcome::Failed(_));
        if let Some(trace) = &body.trace {
            let (draft_id, abandoned) = self.record_draft_call(trace, event, &span.outcome);
            span.parent_id = Some(draft_id);
            return abandoned.into_iter().chain([span]).collect();
        }
        if body.purpose == ModelCallPurpose::Compaction {
            self.compaction_calls.push(span);
            return Vec::new();
        }
        span.parent_id = Some(self.root.span_id);
        vec![span]
    }

    /// Records a compaction that was stored, failed or was vetoed. Returns its span and those of its model calls.
    pub fn apply_compaction(&mut self, event: &Event) -> Vec<TraceSpan> {
        let model_calls = std::mem::take(&mut self.compaction_calls);
        let mut span = TraceSpan {
            span_id: SpanId::in_run(self.run_id, &format!("compaction:{}", event.seq)),
            ..self.instant_span(TraceSpanKind::Compaction, "compaction", event)
        };
        let start = model_calls.first().map_or(self.start_time(event), |call| call.start);
        if let Ok(compaction) = event.body() {
            self.describe_compaction(&mut span, compaction, event);
        } else if let Ok(failed) = event.body::<CompactionFailed>() {
            span.metadata = text::select_fields(&failed, &["trigger", "vetoed_by"]);
            span.outcome = SpanOutcome::Failed(text::brief_text(&failed.reason));
        }
        let span = span.extend_start(start);
        let span_id = span.span_id;
        let calls = model_calls.into_iter().map(|call| TraceSpan { parent_id: Some(span_id), ..call });
        calls.chain([span.clone()]).collect()
    }

    /// Ends the run and all spans in it that are in progress. Returns them, the root last.
    pub fn finish_run(&mut self, kind: EventType, event: &Event) -> Vec<TraceSpan> {
        let failed = event.body::<RunFailed>().map(|failed| failed.failure).ok();
        let status = event.body::<RunEnded>().map(|ended| ended.status).ok();
        let outcome = match (kind, &failed) {
            (EventType::RunInterrupted, _) => SpanOutcome::Waiting,
            (_, Some(failure)) => SpanOutcome::Failed(text::brief_text(&failure.message)),
            (_, None) => match status {
                Some(RunStatus::Success) => SpanOutcome::Done,
                Some(RunStatus::Timeout) => SpanOutcome::Failed("the run exceeded its time limit".to_owned()),
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
        // The outcome of spans that the end of the run cuts off.
        let inner_outcome = match &outcome {
            SpanOutcome::Waiting => SpanOutcome::Waiting,
            SpanOutcome::Done => SpanOutcome::Done,
            SpanOutcome::Working | SpanOutcome::Stopped | SpanOutcome::Failed(_) => SpanOutcome::Stopped,
        };
        let mut finished = self.end_step(event, inner_outcome.clone());
        let accept = self.accept.take().map(|(span, _)| span);
        let compaction_calls = self
            .compaction_calls
            .drain(..)
            .map(|call| TraceSpan { parent_id: Some(self.root.span_id), ..call });
        finished.extend(compaction_calls);
        finished.extend(self.draft.take().map(|draft| abandon_draft(draft, event, inner_outcome.clone())));
        finished.extend(accept.map(|span| span.finish(event, inner_outcome.clone())));
        finished.extend(failed.as_ref().and_then(|failure| self.failed_call_span(failure, event)));
        if let Ok(interrupted) = event.body::<RunInterrupted>() {
            let keys = ["interrupt_ids", "actions"];
            finished.push(TraceSpan {
                outcome: SpanOutcome::Waiting,
                metadata: text::select_fields(&interrupted, &keys),
                ..self.instant_span(TraceSpanKind::Interrupt, "interrupt", event)
            });
        }
        let mut root = self.root.clone().finish(event, outcome);
        root.metadata.extend(status.map(|status| ("status".to_owned(), status.as_str().into())));
        root.metadata.extend(failed.map(|failure| ("kind".to_owned(), failure.kind.as_str().into())));
        root.metadata.insert("steps".to_owned(), number_value(self.steps));
        finished.push(root);
        finished
    }

    /// Returns the span of the model call that failed the run. A failed call for an answer has no event, so the failure of
    /// the run is its only record. Returns `None` if the call has a span already, or the run failed for another reason.
    fn failed_call_span(&self, failure: &RunFailure, event: &Event) -> Option<TraceSpan> {
        let is_model_failure = matches!(failure.kind, FailureKind::Model | FailureKind::Overflow);
        if self.is_failure_reported || !is_model_failure {
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

    /// Ends the current step and its unfinished tool calls. Returns the spans, the step last.
    fn end_step(&mut self, event: &Event, outcome: SpanOutcome) -> Vec<TraceSpan> {
        let mut finished: Vec<TraceSpan> =
            self.calls.drain(..).map(|call| call.finish(event, outcome.clone())).collect();
        finished.extend(self.step.take().map(|step| step.finish(event, outcome)));
        finished
    }

    /// Returns the span of a tool call, which is created if it is unknown: an earlier run of the turn may have requested it.
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

    /// Returns the index of an unfinished tool call.
    fn call_index(&self, call_id: &str) -> Option<usize> {
        self.calls.iter().position(|call| call.tool.as_ref().is_some_and(|tool| tool.call_id == call_id))
    }

    /// Returns the span of a tool call that begins at the time of `event`.
    fn tool_span(&self, call_id: &str, name: &str, parent: Option<SpanId>, event: &Event) -> TraceSpan {
        // The name comes from a model, so it is redacted and cut.
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

    /// Returns an instant span of this run. Its id is derived from its name, so callers set another id if the name is not
    /// unique in the run.
    fn instant_span(&self, kind: TraceSpanKind, name: &str, event: &Event) -> TraceSpan {
        let span_id = SpanId::in_run(self.run_id, name);
        instant_span(kind, name, self.context(span_id), event)
    }

    /// Returns the ids of a span whose parent is the root span.
    pub(super) fn context(&self, span_id: SpanId) -> SpanLineage {
        SpanLineage { trace_id: self.trace_id, span_id, parent_id: Some(self.root.span_id) }
    }

    /// Adds the tokens of a model call to those of the run.
    fn add_usage(&mut self, usage: Usage) {
        self.root.usage.get_or_insert_default().add(usage);
    }

    /// Adds the amounts, the start and the summary of a stored compaction to its span.
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
        let duration = SignedDuration::from_millis(i64::try_from(duration_ms).unwrap_or(i64::MAX));
        span.start = event.created_at.checked_sub(duration).unwrap_or(span.start).min(span.start);
        span.output = Some(text::content_text(&compaction.summary));
    }
}

/// Ends a draft that was not stored. It failed if its last model call failed; otherwise it has the given outcome.
pub(super) fn abandon_draft(draft: TraceSpan, event: &Event, outcome: SpanOutcome) -> TraceSpan {
    let outcome =
        if matches!(draft.outcome, SpanOutcome::Failed(_)) { draft.outcome.clone() } else { outcome };
    draft.finish(event, outcome)
}

/// Returns the span of a model call that is not an answer, as the root of its own trace. A caller that knows the run or the
/// parent changes the ids.
pub(super) fn model_span(body: &ModelCalled, event: &Event, start: Timestamp) -> TraceSpan {
    let model = body.model.clone();
    let context = SpanLineage {
        trace_id: TraceId::of_event(event.thread_id, event.seq),
        span_id: SpanId::of_event(event.thread_id, event.seq, "model"),
        parent_id: None,
    };
    let span = instant_span(TraceSpanKind::Model, &span_name("chat", model.as_deref()), context, event);
    let mut metadata = text::select_fields(body, &["purpose", "prompt_sha256", "handoff_id"]);
    if let Some(part) = &body.part {
        metadata.insert("first_seq".to_owned(), number_value(part.first_seq));
        metadata.insert("last_seq".to_owned(), number_value(part.last_seq));
    }
    TraceSpan {
        model,
        usage: body.usage,
        metadata,
        outcome: body
            .problem
            .as_ref()
            .map_or(SpanOutcome::Done, |problem| SpanOutcome::Failed(text::brief_text(problem))),
        ..span.extend_start(recorded_start(event).unwrap_or(start))
    }
}

/// Returns the id of a tool call's span. It depends only on the run and the call, so the spans of a sub-agent can refer to
/// it as their parent.
fn tool_span_id(run_id: RunId, call_id: &str) -> SpanId {
    SpanId::in_run(run_id, &format!("tool:{call_id}"))
}

/// Returns the start of the work that the event ends, if the event records a duration.
fn recorded_start(event: &Event) -> Option<Timestamp> {
    let duration = SignedDuration::from_millis(i64::try_from(event.parsed_metadata().duration_ms?).ok()?);
    event.created_at.checked_sub(duration).ok()
}

/// Returns the name of a span by OpenTelemetry's conventions: the operation, and the model without its provider.
fn span_name(operation: &str, model: Option<&str>) -> String {
    let model_name = model.map(|model| model.split_once('/').map_or(model, |(_, name)| name));
    model_name.map_or_else(|| operation.to_owned(), |name| format!("{operation} {name}"))
}
