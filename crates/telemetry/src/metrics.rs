//! Metrics of a process, counted from its finished spans. They contain no user data. `http` renders them in the exposition
//! format.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use protocol::Usage;

use crate::span::{SpanOutcome, TraceSpan, TraceSpanKind};

/// The upper bounds of the buckets of a [`DurationHistogram`], in seconds, ascending. They range from a quick tool call to
/// a long model call.
pub const DURATION_BOUNDS: [f64; 12] = [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// Maximum distinct models that have their own label. Further models are counted together, so that the number of time
/// series stays bounded.
const MODELS_MAX: usize = 50;
/// The label for all further models, and for calls whose model is unknown.
const OTHER_MODELS: &str = "other";

/// A histogram of durations.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DurationHistogram {
    /// Number of durations in each bucket: at most the bound of the same index in [`DURATION_BOUNDS`], and above the
    /// previous bound. The counts are not cumulative.
    pub buckets: [u64; DURATION_BOUNDS.len()],
    /// Number of all durations, including those above the last bound.
    pub count: u64,
    /// Sum of all durations, in seconds.
    pub seconds: f64,
}

/// The totals of all metrics. Keys of maps are label values.
///
/// An outcome is one of `success`, `error`, `interrupted` and `stopped`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TelemetryTotals {
    /// Number of runs that ended, by outcome.
    pub runs: BTreeMap<&'static str, u64>,
    /// Durations of runs.
    pub run_durations: DurationHistogram,
    /// Number of steps that ended.
    pub steps: u64,
    /// Number of model calls, by model and outcome.
    pub model_calls: BTreeMap<(String, &'static str), u64>,
    /// Durations of model calls, by model.
    pub model_durations: BTreeMap<String, DurationHistogram>,
    /// Tokens of model calls, by model.
    pub tokens: BTreeMap<String, Usage>,
    /// Number of tool calls, by outcome.
    pub tool_calls: BTreeMap<&'static str, u64>,
    /// Durations of tool calls.
    pub tool_durations: DurationHistogram,
    /// Number of compactions, by outcome.
    pub compactions: BTreeMap<&'static str, u64>,
    /// Number of drafts of handoff summaries.
    pub drafts: u64,
    /// Number of handoffs, by decision or final status: `accepted`, `declined`, `previewed`, `expired`, `failed`.
    pub handoffs: BTreeMap<String, u64>,
    /// Number of memory summaries that were stored.
    pub memory_summaries: u64,
}

/// The metrics of a process. Shared between the trace export, which counts, and the endpoint that shows them.
#[derive(Debug, Default)]
pub struct TelemetryMetrics(Mutex<TelemetryTotals>);

impl TelemetryMetrics {
    /// Returns a copy of the current totals.
    pub fn totals(&self) -> TelemetryTotals {
        self.0.lock().clone()
    }

    /// Counts a finished span.
    pub(crate) fn record_span(&self, span: &TraceSpan) {
        let mut totals = self.0.lock();
        let outcome = outcome_label(&span.outcome);
        let duration = span.end.map(|end| span.duration(end)).unwrap_or_default();
        match span.kind {
            TraceSpanKind::Run => {
                *totals.runs.entry(outcome).or_default() += 1;
                totals.run_durations.record(duration);
            }
            TraceSpanKind::Step => totals.steps += 1,
            TraceSpanKind::Model => totals.record_model_call(span, outcome, duration),
            TraceSpanKind::Tool => {
                *totals.tool_calls.entry(outcome).or_default() += 1;
                totals.tool_durations.record(duration);
            }
            TraceSpanKind::Compaction => *totals.compactions.entry(outcome).or_default() += 1,
            TraceSpanKind::Draft => totals.drafts += 1,
            TraceSpanKind::Accept => *totals.handoffs.entry("accepted".to_owned()).or_default() += 1,
            TraceSpanKind::Decision => {
                let status = span.name.trim_start_matches("handoff_");
                if ["declined", "previewed", "expired", "failed"].contains(&status) {
                    *totals.handoffs.entry(status.to_owned()).or_default() += 1;
                }
            }
            TraceSpanKind::Transfer => totals.memory_summaries += 1,
            TraceSpanKind::Interrupt
            | TraceSpanKind::Resume
            | TraceSpanKind::Seed
            | TraceSpanKind::Cleanup
            | TraceSpanKind::Mirror => {}
        }
    }
}

impl TelemetryTotals {
    /// Counts a model call under its own label, or under [`OTHER_MODELS`] when there are too many labels already.
    fn record_model_call(&mut self, span: &TraceSpan, outcome: &'static str, duration: Duration) {
        let name = span.model.as_deref().unwrap_or(OTHER_MODELS);
        let has_own_label = self.tokens.contains_key(name) || self.tokens.len() < MODELS_MAX;
        let model = if has_own_label { name } else { OTHER_MODELS };
        *self.model_calls.entry((model.to_owned(), outcome)).or_default() += 1;
        self.model_durations.entry(model.to_owned()).or_default().record(duration);
        self.tokens.entry(model.to_owned()).or_default().add(span.usage.unwrap_or_default());
    }
}

impl DurationHistogram {
    /// Adds a duration.
    fn record(&mut self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        if let Some(bucket) = DURATION_BOUNDS.iter().position(|bound| seconds <= *bound) {
            self.buckets[bucket] += 1;
        }
        self.count += 1;
        self.seconds += seconds;
    }
}

/// Returns the label value of an outcome.
const fn outcome_label(outcome: &SpanOutcome) -> &'static str {
    match outcome {
        SpanOutcome::Done => "success",
        SpanOutcome::Failed(_) => "error",
        SpanOutcome::Waiting => "interrupted",
        SpanOutcome::Stopped | SpanOutcome::Working => "stopped",
    }
}
