//! A run while it is under way: its span, the step it is at, and the calls that have not come to their end.

use jiff::{SignedDuration, Timestamp};
use protocol::event::body::{
    CallPurpose, MemoryRead, ModelCalled, RunBeginning, RunEnded, RunFailed, RunInterrupted, RunStarted,
    ToolCallDecided,
};
use protocol::{
    Block, Compaction, CompactionFailed, Event, EventType, FailureKind, Message, RunFailure, RunId,
    RunStatus, ToolStatus, Usage,
};
use serde_json::{Map, Value};

use super::{Place, SpanContext, moment, number, question_of, text};
use crate::span::{Kind, Outcome, Span, SpanId, ToolCalled, TraceId};

/// A run that has not ended.
#[derive(Debug)]
pub(super) struct OpenRun {
    pub run_id: RunId,
    pub trace_id: TraceId,
    pub root: Span,
    pub draft: Option<Span>,
    /// The acceptance of a handoff, and when it was stored.
    pub accept: Option<(Span, Timestamp)>,
    step: Option<Span>,
    steps: u64,
    /// Calls of tools that have not returned, in the order in which they were made.
    calls: Vec<Span>,
    /// Calls of models for a compaction that is not stored yet.
    internal: Vec<Span>,
    /// Whether the last call of a model failed and is told.
    is_failure_told: bool,
    /// What the next answer was made with.
    memory: Option<Value>,
    /// When the last thing happened.
    before: Timestamp,
}

impl OpenRun {
    /// Returns the run that `event` is the first of.
    pub fn begun(place: &Place, run_id: RunId, event: &Event) -> Self {
        let (trace_id, parent) = match &place.caller {
            Some((caller, call_id)) => (TraceId::of_run(*caller), Some(tool_id(*caller, call_id))),
            None => (TraceId::of_run(run_id), None),
        };
        let context = SpanContext { trace_id, span_id: SpanId::of_run(run_id), parent_id: parent };
        let mut root = moment(Kind::Run, "run", context, event);
        (root.end, root.outcome, root.run_id) = (None, Outcome::Working, Some(run_id));
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
            internal: Vec::new(),
            is_failure_told: false,
            memory: None,
            before: event.created_at,
        }
    }

    /// Returns the spans that are under way, what they are in first.
    pub fn spans(&self) -> impl Iterator<Item = &Span> {
        let accept = self.accept.as_ref().map(|(span, _)| span);
        std::iter::once(&self.root).chain(&self.step).chain(&self.calls).chain(&self.draft).chain(accept)
    }

    /// Notes that something happened at `at`.
    pub fn passed(&mut self, at: Timestamp) {
        self.before = self.before.max(at);
    }

    /// Returns when that began which `event` is the end of.
    pub fn start_of(&self, event: &Event) -> Timestamp {
        noted_start(event).unwrap_or(self.before).min(event.created_at)
    }

    /// A person said something, as a run begins or while it works.
    pub fn said(&mut self, event: &Event) {
        if self.root.input.is_none() {
            self.root.input = text::said(event);
        }
    }

    /// The run begins, or goes on after a question of an earlier one, or with another process.
    pub fn started(&mut self, body: RunStarted, event: &Event, asked: Option<RunId>) -> Option<Span> {
        let how = body.how;
        self.root.model = body.model.or(self.root.model.take());
        let (key, value) = match how == RunBeginning::TakenOver {
            true => ("taken_over", Value::Bool(true)),
            false => ("how", Value::String(how.to_string())),
        };
        self.root.metadata.insert(key.to_owned(), value);
        let asked = question_of(asked.filter(|_| how == RunBeginning::Resumed)?);
        self.root.links.push(asked);
        Some(Span { links: vec![asked], ..self.at(Kind::Resume, "resume", event) })
    }

    /// What the next answer is made with is in the context by now.
    pub fn read_memory(&mut self, body: MemoryRead) {
        let named = body.sources.iter().map(|source| format!("{}:{}", source.name, source.sha256));
        self.memory = Some(Value::Array(named.map(Value::String).collect()));
    }

    /// A model answered: a step ends, and the next one begins.
    pub fn answered(&mut self, event: &Event) -> Vec<Span> {
        let mut ended = self.end_step(event, Outcome::Done);
        let Some(Message::Ai(message)) = event.message() else { return ended };
        self.steps += 1;
        self.is_failure_told = false;
        let start = self.start_of(event);
        let step = Span {
            end: None,
            outcome: Outcome::Working,
            span_id: SpanId::within(self.run_id, &format!("step:{}", event.seq)),
            ..self.at(Kind::Step, &format!("step {}", self.steps), event)
        }
        .began(start);
        let usage = message.usage.unwrap_or_default();
        self.count(usage);
        let mut answer = Span {
            span_id: SpanId::within(self.run_id, &format!("model:{}", event.seq)),
            parent_id: Some(step.span_id),
            model: message.model.clone().or_else(|| self.root.model.clone()),
            usage: message.usage,
            outcome: if message.incomplete { Outcome::Stopped } else { Outcome::Done },
            input: self.root.input.clone().filter(|_| self.steps == 1),
            output: text::said(event),
            ..self.at(Kind::Model, &named("chat", message.model.as_deref()), event)
        }
        .began(start);
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
            let Block::ToolCall { id, name, args } = block else { continue };
            let call = self.tool_span(id, name, Some(step_id), event);
            self.calls.push(Span { input: Some(text::json(args)), ..call });
        }
        if self.calls.is_empty() {
            ended.extend(self.end_step(event, Outcome::Done));
        }
        ended
    }

    /// A call of a tool was allowed or refused: its work begins.
    pub fn decided(&mut self, body: &ToolCallDecided, event: &Event) {
        let call = self.call(&body.call_id, &body.tool, event);
        call.start = call.start.max(event.created_at);
        call.metadata.extend(text::chosen(body, &["decision", "by", "rule"]));
    }

    /// A tool returned.
    pub fn returned(&mut self, event: &Event) -> Vec<Span> {
        let Some(Message::Tool(result)) = event.message() else { return Vec::new() };
        self.call(&result.call_id, result.name.as_deref().unwrap_or("tool"), event);
        let Some(index) = self.index_of(&result.call_id) else { return Vec::new() };
        let mut call = self.calls.remove(index);
        if let Some(start) = noted_start(event) {
            call.start = call.start.max(start);
        }
        call.output = text::said(event);
        let outcome = match result.status {
            ToolStatus::Success => Outcome::Done,
            ToolStatus::Error => Outcome::Failed(text::brief(call.output.as_deref().unwrap_or("it failed"))),
        };
        let mut ended = vec![call.ended(event, outcome)];
        if self.calls.is_empty() {
            ended.extend(self.end_step(event, Outcome::Done));
        }
        ended
    }

    /// A model was called for something other than an answer.
    pub fn called(&mut self, body: &ModelCalled, event: &Event) -> Vec<Span> {
        let mut span = model_span(body, event, self.start_of(event));
        span.trace_id = self.trace_id;
        span.span_id = SpanId::within(self.run_id, &format!("model:{}", event.seq));
        self.count(span.usage.unwrap_or_default());
        self.is_failure_told = matches!(span.outcome, Outcome::Failed(_));
        if let Some(trace) = &body.trace {
            let (draft_id, before) = self.drafting(trace, event, &span.outcome);
            span.parent_id = Some(draft_id);
            return before.into_iter().chain([span]).collect();
        }
        if body.purpose == CallPurpose::Compaction {
            self.internal.push(span);
            return Vec::new();
        }
        span.parent_id = Some(self.root.span_id);
        vec![span]
    }

    /// The conversation was condensed, or was not after all.
    pub fn condensed(&mut self, event: &Event) -> Vec<Span> {
        let internal = std::mem::take(&mut self.internal);
        let mut span = Span {
            span_id: SpanId::within(self.run_id, &format!("compaction:{}", event.seq)),
            ..self.at(Kind::Compaction, "compaction", event)
        };
        let start = internal.first().map_or(self.start_of(event), |call| call.start);
        if let Ok(compaction) = event.body() {
            self.told(&mut span, compaction, event);
        } else if let Ok(failed) = event.body::<CompactionFailed>() {
            span.metadata = text::chosen(&failed, &["trigger", "vetoed_by"]);
            span.outcome = Outcome::Failed(text::brief(&failed.reason));
        }
        let span = span.began(start);
        let whole = span.span_id;
        let calls = internal.into_iter().map(|call| Span { parent_id: Some(whole), ..call });
        calls.chain([span.clone()]).collect()
    }

    /// The run came to its end: what has not, is cut off with it.
    pub fn ended(&mut self, kind: EventType, event: &Event) -> Vec<Span> {
        let failed = event.body::<RunFailed>().map(|failed| failed.failure).ok();
        let status = event.body::<RunEnded>().map(|ended| ended.status).ok();
        let outcome = match (kind, &failed) {
            (EventType::RunInterrupted, _) => Outcome::Waiting,
            (_, Some(failure)) => Outcome::Failed(text::brief(&failure.message)),
            (_, None) => match status {
                Some(RunStatus::Success) => Outcome::Done,
                Some(RunStatus::Timeout) => Outcome::Failed("it took longer than it may".to_owned()),
                Some(
                    RunStatus::Pending
                    | RunStatus::Running
                    | RunStatus::Error
                    | RunStatus::Interrupted
                    | RunStatus::Cancelled,
                )
                | None => Outcome::Stopped,
            },
        };
        let cut = match &outcome {
            Outcome::Waiting => Outcome::Waiting,
            Outcome::Done => Outcome::Done,
            Outcome::Working | Outcome::Stopped | Outcome::Failed(_) => Outcome::Stopped,
        };
        let mut ended = self.end_step(event, cut.clone());
        let accept = self.accept.take().map(|(span, _)| span);
        let open = self.internal.drain(..).map(|call| Span { parent_id: Some(self.root.span_id), ..call });
        ended.extend(open);
        ended.extend(self.draft.take().map(|draft| given_up(draft, event, cut.clone())));
        ended.extend(accept.map(|span| span.ended(event, cut.clone())));
        ended.extend(failed.as_ref().and_then(|failure| self.refused(failure, event)));
        if let Ok(interrupted) = event.body::<RunInterrupted>() {
            let keys = ["interrupt_ids", "actions"];
            ended.push(Span {
                outcome: Outcome::Waiting,
                metadata: text::chosen(&interrupted, &keys),
                ..self.at(Kind::Interrupt, "interrupt", event)
            });
        }
        let mut root = self.root.clone().ended(event, outcome);
        root.metadata.extend(status.map(|status| ("status".to_owned(), status.as_str().into())));
        root.metadata.extend(failed.map(|failure| ("kind".to_owned(), failure.kind.as_str().into())));
        root.metadata.insert("steps".to_owned(), number(self.steps));
        ended.push(root);
        ended
    }

    /// Returns the call of the model that the run failed with, of which nothing else is stored.
    fn refused(&self, failure: &RunFailure, event: &Event) -> Option<Span> {
        let is_of_model = matches!(failure.kind, FailureKind::Model | FailureKind::Overflow);
        if self.is_failure_told || !is_of_model {
            return None;
        }
        Some(Span {
            span_id: SpanId::within(self.run_id, &format!("model:{}", event.seq)),
            model: self.root.model.clone(),
            outcome: Outcome::Failed(text::brief(&failure.message)),
            ..self.at(Kind::Model, &named("chat", self.root.model.as_deref()), event).began(self.before)
        })
    }

    /// Ends the step, and whatever of it has not come to its end.
    fn end_step(&mut self, event: &Event, outcome: Outcome) -> Vec<Span> {
        let mut ended: Vec<Span> =
            self.calls.drain(..).map(|call| call.ended(event, outcome.clone())).collect();
        ended.extend(self.step.take().map(|step| step.ended(event, outcome)));
        ended
    }

    /// Returns the call, which is there from here on: an earlier run may have made it.
    fn call(&mut self, call_id: &str, name: &str, event: &Event) -> &mut Span {
        let index = self.index_of(call_id).unwrap_or_else(|| {
            let parent = self.step.as_ref().map(|step| step.span_id);
            let mut span = self.tool_span(call_id, name, parent, event);
            span.start = self.before.min(event.created_at);
            self.calls.push(span);
            self.calls.len() - 1
        });
        &mut self.calls[index]
    }

    fn index_of(&self, call_id: &str) -> Option<usize> {
        self.calls.iter().position(|call| call.tool.as_ref().is_some_and(|tool| tool.call_id == call_id))
    }

    fn tool_span(&self, call_id: &str, name: &str, parent: Option<SpanId>, event: &Event) -> Span {
        // Whoever named it is a model.
        let name = &text::brief(name);
        Span {
            span_id: tool_id(self.run_id, call_id),
            parent_id: parent.or(Some(self.root.span_id)),
            end: None,
            outcome: Outcome::Working,
            tool: Some(ToolCalled { name: name.to_owned(), call_id: call_id.to_owned() }),
            ..self.at(Kind::Tool, &format!("execute_tool {name}"), event)
        }
    }

    /// Returns a moment of this run.
    fn at(&self, kind: Kind, name: &str, event: &Event) -> Span {
        let span_id = SpanId::within(self.run_id, name);
        moment(kind, name, self.context(span_id), event)
    }

    /// Returns the context of a span right below this run's.
    pub(super) fn context(&self, span_id: SpanId) -> SpanContext {
        SpanContext { trace_id: self.trace_id, span_id, parent_id: Some(self.root.span_id) }
    }

    fn count(&mut self, usage: Usage) {
        self.root.usage.get_or_insert_default().add(usage);
    }

    /// Says of a compaction what came of it.
    fn told(&self, span: &mut Span, compaction: Compaction, event: &Event) {
        let Compaction { replaced_count, tokens_before, tokens_after, duration_ms, .. } = compaction;
        span.detail = format!("{replaced_count} messages, {tokens_before} → {tokens_after} tokens");
        span.metadata = Map::from_iter([
            ("trigger".to_owned(), Value::String(compaction.trigger.as_str().to_owned())),
            ("replaced_count".to_owned(), number(replaced_count)),
            ("tokens_before".to_owned(), number(tokens_before)),
            ("tokens_after".to_owned(), number(tokens_after)),
            ("summary_model".to_owned(), Value::String(compaction.model)),
        ]);
        let took = SignedDuration::from_millis(i64::try_from(duration_ms).unwrap_or(i64::MAX));
        span.start = event.created_at.checked_sub(took).unwrap_or(span.start).min(span.start);
        span.output = Some(text::content(&compaction.summary));
    }
}

/// Ends a draft that was not stored: it failed if the last call for it did.
pub(super) fn given_up(draft: Span, event: &Event, outcome: Outcome) -> Span {
    let outcome = if matches!(draft.outcome, Outcome::Failed(_)) { draft.outcome.clone() } else { outcome };
    draft.ended(event, outcome)
}

/// Returns the span of a model's call that was for no answer, outside any other.
pub(super) fn model_span(body: &ModelCalled, event: &Event, start: Timestamp) -> Span {
    let model = body.model.clone();
    let context = SpanContext {
        trace_id: TraceId::of_event(event.thread_id, event.seq),
        span_id: SpanId::of_event(event.thread_id, event.seq, "model"),
        parent_id: None,
    };
    let span = moment(Kind::Model, &named("chat", model.as_deref()), context, event);
    Span {
        model,
        usage: body.usage,
        metadata: text::chosen(body, &["purpose", "prompt_sha256", "handoff_id"]),
        outcome: body.problem.as_ref().map_or(Outcome::Done, |problem| Outcome::Failed(text::brief(problem))),
        ..span.began(noted_start(event).unwrap_or(start))
    }
}

/// Returns the span of a call, whoever makes it known.
fn tool_id(run_id: RunId, call_id: &str) -> SpanId {
    SpanId::within(run_id, &format!("tool:{call_id}"))
}

/// Returns when that began which the event is the end of, if it says how long it took.
fn noted_start(event: &Event) -> Option<Timestamp> {
    let took = SignedDuration::from_millis(i64::try_from(event.parsed_metadata().duration_ms?).ok()?);
    event.created_at.checked_sub(took).ok()
}

/// Returns a span's name by OpenTelemetry's conventions: what is done, and with which model.
fn named(operation: &str, model: Option<&str>) -> String {
    let bare = model.map(|model| model.split_once('/').map_or(model, |(_, name)| name));
    bare.map_or_else(|| operation.to_owned(), |name| format!("{operation} {name}"))
}
