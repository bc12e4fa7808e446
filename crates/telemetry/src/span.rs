//! Spans and their ids. A span is an interval in which work was done, or an instant at which something happened. `fold`
//! makes spans from events.

use jiff::Timestamp;
use protocol::{HandoffId, RunId, Seq, ThreadId, Usage};
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

/// The id of a trace: the id of the run that caused all work in the trace, including the runs of its sub-agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct TraceId(Uuid);

/// The id of a span. It is derived from the ids of the events, so a repeated export of the same events yields the same
/// spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct SpanId(Uuid);

impl TraceId {
    /// Returns the trace of a run that is not the run of a sub-agent.
    pub const fn of_run(run_id: RunId) -> Self {
        Self(run_id.uuid())
    }

    /// Returns the trace of work in a thread that belongs to no run and begins with the event `seq`.
    pub fn of_event(thread_id: ThreadId, seq: Seq) -> Self {
        Self(Uuid::new_v5(&thread_id.uuid(), format!("trace:{seq}").as_bytes()))
    }

    /// Returns the id as a UUID, which has the 128 bits of the id.
    pub const fn uuid(self) -> Uuid {
        self.0
    }
}

impl SpanId {
    /// Returns the root span of a run.
    pub const fn of_run(run_id: RunId) -> Self {
        Self(run_id.uuid())
    }

    /// Returns the span of a run with the key `key`, which must be unique within the run.
    pub fn in_run(run_id: RunId, key: &str) -> Self {
        Self(Uuid::new_v5(&run_id.uuid(), key.as_bytes()))
    }

    /// Returns the span of work that belongs to no run and is identified by the event `seq` and the key `key`.
    pub fn of_event(thread_id: ThreadId, seq: Seq, key: &str) -> Self {
        Self(Uuid::new_v5(&thread_id.uuid(), format!("{key}:{seq}").as_bytes()))
    }

    /// Returns the id as a UUID, which has the 128 bits of the id.
    pub const fn uuid(self) -> Uuid {
        self.0
    }

    /// Returns the 64-bit span id of OpenTelemetry: the second half of the UUID. The first half of a UUIDv7 is mostly a
    /// timestamp, which is not unique enough.
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
    /// One model answer with the tool calls that it requested.
    Step,
    /// A model call.
    Model,
    /// A tool call.
    Tool,
    /// A compaction, or an attempt that failed or was vetoed.
    Compaction,
    /// A draft of a handoff summary (contract §10).
    Draft,
    /// The instant at which a run stops to ask the user.
    Interrupt,
    /// The instant at which a new run continues after an interrupt.
    Resume,
    /// The instant of a change in a handoff's state, such as a request, a refinement or a decline.
    Decision,
    /// The acceptance of a handoff: the child thread is created.
    Accept,
    /// Writing the summary into the child's `agent.md`.
    Seed,
    /// The instant at which the block in `agent.md` is cleared after the child's first turn.
    Cleanup,
    /// The export of an accepted summary, from its acceptance to its arrival.
    Mirror,
    /// Summarizing old messages into medium-term memory.
    Transfer,
}

/// The outcome of a span.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", content = "reason", rename_all = "snake_case")]
pub enum SpanOutcome {
    /// The work is in progress.
    Working,
    /// The work is complete.
    Done,
    /// The work stopped to ask the user.
    Waiting,
    /// The work was cancelled, or its run ended before it.
    Stopped,
    /// The work failed, for this reason. The text is redacted.
    Failed(String),
}

/// A link to a span in another trace that caused this span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TraceSpanLink {
    /// The trace of the linked span.
    pub trace_id: TraceId,
    /// The linked span.
    pub span_id: SpanId,
}

/// One span. Its JSON is the output of `segue trace --json`; input and output are not part of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TraceSpan {
    /// The trace that the span belongs to.
    pub trace_id: TraceId,
    /// The id of the span.
    pub span_id: SpanId,
    /// The enclosing span; `None` for the root of a trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<SpanId>,
    /// The kind of work.
    pub kind: TraceSpanKind,
    /// The name under which the span is exported.
    pub name: String,
    /// A short detail that distinguishes the span from others of its kind, such as an amount. May be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Time of the beginning.
    pub start: Timestamp,
    /// Time of the end; `None` while the work is in progress. Equal to `start` for an instant.
    pub end: Option<Timestamp>,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: SpanOutcome,
    /// The thread of the work.
    pub thread_id: ThreadId,
    /// The run of the work; `None` for work outside any run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The handoff that the work belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handoff_id: Option<HandoffId>,
    /// `provider/name` of the model: the one called, or for a run the one it was admitted with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens of the model call; for a run, of all its model calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The tool that was called, and the id of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolCallRef>,
    /// Tags for filtering in a tracing tool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Further attributes: short redacted values, without message content.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// Links to the spans that this one follows from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<TraceSpanLink>,
    /// The input, with secrets redacted. It is exported only if content export is enabled.
    #[serde(skip)]
    pub input: Option<String>,
    /// The output, with secrets redacted. It is exported only if content export is enabled.
    #[serde(skip)]
    pub output: Option<String>,
    /// `seq` of the event that ended the span; while it is in progress, of the event that began it.
    pub seq: Seq,
}

/// A reference to a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolCallRef {
    /// The name of the tool.
    pub name: String,
    /// The id of the call.
    pub call_id: String,
}

impl TraceSpan {
    /// Returns the duration of the span, until `now` if it is in progress. Returns zero for a clock that ran backwards.
    pub fn duration(&self, now: Timestamp) -> std::time::Duration {
        let end = self.end.unwrap_or(now);
        std::time::Duration::try_from(end.duration_since(self.start)).unwrap_or_default()
    }
}
