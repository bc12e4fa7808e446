//! Traces made from the events of a thread, their export over OTLP, and metrics counted from them.
//!
//! [`SpanFold`] makes spans from events and reads nothing else. A trace therefore shows exactly what the journal contains,
//! even for a run that a crash interrupted, and the same event yields the same span in every process. [`TraceExport`]
//! follows the commits of this process and exports its spans. No run waits for a collector; events that an unavailable
//! collector missed are still in the journal.
//!
//! The crate does not decide what is journaled, and does not draw traces on a screen.

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
