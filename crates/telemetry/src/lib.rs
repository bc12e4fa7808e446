//! What happened, as spans: stretches of time, each within another one, made from the events of a thread and from nothing
//! else. So what a trace shows is what the journal holds, of a run that a crash cut in two as well, and the same event gives
//! the same span wherever it is read. They are sent over OTLP to whatever understands it, behind the work and apart from it: no run
//! waits for a collector, and what one that is away does not get is in the journal still. What a trace looks like on a
//! screen is not said here.

mod attributes;
mod export;
mod fold;
mod metrics;
mod settings;
mod span;
mod trace_export;

pub use export::Error;
pub use fold::{SpanFold, ThreadOrigin};
pub use metrics::{DURATION_BOUNDS, DurationHistogram, TelemetryMetrics, TelemetryTotals};
pub use settings::{TracingPreset, TracingSettings};
pub use span::{SpanId, SpanOutcome, ToolCallRef, TraceId, TraceSpan, TraceSpanKind, TraceSpanLink};
pub use trace_export::{TraceExport, load_fold};
