//! Traces made from a thread's events and from nothing else, and their export over OTLP.
//!
//! A trace shows exactly what the journal holds, also for a run that a crash interrupted, and the same event yields the
//! same span wherever it is read. Export runs beside the work: no run waits for a collector, and events that an
//! unavailable collector missed are still in the journal. Drawing a trace on a screen is not done here.

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
