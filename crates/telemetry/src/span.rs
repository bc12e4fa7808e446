//! A span: a stretch of time in which something was done, or a moment at which something happened. How it is made from
//! events is `fold`'s.

use jiff::Timestamp;
use protocol::{HandoffId, RunId, Seq, ThreadId, Usage};
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

/// Which trace a span belongs to: the id of the run that everything in it happened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct TraceId(Uuid);

/// Which span it is. It follows from what the span tells of, so that it is the same whenever the events are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct SpanId(Uuid);

impl TraceId {
    /// Returns the trace of a run that no other run began.
    pub const fn of_run(run_id: RunId) -> Self {
        Self(run_id.uuid())
    }

    /// Returns the trace of what happens in a thread outside its runs, from that event on.
    pub fn of_event(thread_id: ThreadId, seq: Seq) -> Self {
        Self(Uuid::new_v5(&thread_id.uuid(), format!("trace:{seq}").as_bytes()))
    }

    /// Returns the 128 bits of it.
    pub const fn uuid(self) -> Uuid {
        self.0
    }
}

impl SpanId {
    /// Returns the span of the run as a whole.
    pub const fn of_run(run_id: RunId) -> Self {
        Self(run_id.uuid())
    }

    /// Returns the span of that name within the run.
    pub fn in_run(run_id: RunId, key: &str) -> Self {
        Self(Uuid::new_v5(&run_id.uuid(), key.as_bytes()))
    }

    /// Returns the span of what happens outside any run, from that event on.
    pub fn of_event(thread_id: ThreadId, seq: Seq, key: &str) -> Self {
        Self(Uuid::new_v5(&thread_id.uuid(), format!("{key}:{seq}").as_bytes()))
    }

    /// Returns the 128 bits of it.
    pub const fn uuid(self) -> Uuid {
        self.0
    }

    /// Returns the 64 bits of it that OpenTelemetry knows a span by: the half without a time.
    pub fn otel_id(self) -> [u8; 8] {
        let mut half = [0; 8];
        half.copy_from_slice(&self.0.as_bytes()[8..]);
        half
    }
}

/// The kind of work that a span measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceSpanKind {
    /// A run, from its admission to its end.
    Run,
    /// An answer of the model with the work it asked for.
    Step,
    /// A call of a model.
    Model,
    /// A call of a tool.
    Tool,
    /// The conversation was condensed, or was to be.
    Compaction,
    /// A draft of a handoff's summary (contract §10).
    Draft,
    /// A person is asked.
    Interrupt,
    /// A run that was waiting for an answer resumes.
    Resume,
    /// Something was decided about a handoff.
    Decision,
    /// A handoff is accepted: the child thread is made.
    Accept,
    /// The summary is written into the child's `agent.md`.
    Seed,
    /// The block of `agent.md` is cleared after the child's first turn.
    Cleanup,
    /// The accepted summary is copied to the mirror, from its acceptance to its arrival.
    Mirror,
    /// Old turns became a summary of medium-term memory.
    Transfer,
}

/// The outcome of a span.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", content = "reason", rename_all = "snake_case")]
pub enum SpanOutcome {
    /// It is under way.
    Working,
    /// It was done.
    Done,
    /// It waits for a person, or stopped to ask one.
    Waiting,
    /// It was cut off: stopped by a person, or its run ended before it did.
    Stopped,
    /// It failed, and why.
    Failed(String),
}

/// Another span that this one follows from, in another trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TraceSpanLink {
    /// Its trace.
    pub trace_id: TraceId,
    /// Itself.
    pub span_id: SpanId,
}

/// One span.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TraceSpan {
    /// Its trace.
    pub trace_id: TraceId,
    /// Which it is.
    pub span_id: SpanId,
    /// The span it happened in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<SpanId>,
    /// The kind of work.
    pub kind: TraceSpanKind,
    /// The name it is exported under.
    pub name: String,
    /// A short detail that tells the span from others of its kind: a reason or an amount.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// When it began.
    pub start: Timestamp,
    /// When it ended; `None` while it is under way. The same as `start` for a moment.
    pub end: Option<Timestamp>,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: SpanOutcome,
    /// The thread it happened in.
    pub thread_id: ThreadId,
    /// The run it happened in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The handoff it was done for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handoff_id: Option<HandoffId>,
    /// `provider/name` of the model that was called, or that the run was admitted with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The tokens it took; of a run, all of its model calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The tool that was called, and the id of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolCallRef>,
    /// Words to find it by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Further small attributes, without content.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// Links to the spans that this one follows from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<TraceSpanLink>,
    /// The input, with secrets redacted. It leaves the process only if content export is enabled.
    #[serde(skip)]
    pub input: Option<String>,
    /// The output, with secrets redacted.
    #[serde(skip)]
    pub output: Option<String>,
    /// The event that ended it, or began what is under way.
    pub seq: Seq,
}

/// A tool and a call of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolCallRef {
    /// Its name.
    pub name: String,
    /// The id of the call.
    pub call_id: String,
}

impl TraceSpan {
    /// Returns the time it took, or has taken until `now`.
    pub fn duration(&self, now: Timestamp) -> std::time::Duration {
        let until = self.end.unwrap_or(now);
        std::time::Duration::try_from(until.duration_since(self.start)).unwrap_or_default()
    }
}
