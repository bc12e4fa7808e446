//! Metrics of a process, counted from its spans. They contain no user data; the exposition format belongs to `http`.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use protocol::Usage;

use crate::span::{SpanOutcome, TraceSpan, TraceSpanKind};

/// The upper bounds of the classes that durations are sorted into, in seconds: from a quick tool to a long answer.
pub const DURATION_BOUNDS: [f64; 12] = [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// Models that are told apart; what more there are is counted together.
const MODELS_MAX: usize = 50;
/// The name under which they are.
const OTHER_MODELS: &str = "other";

/// How often something took how long.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DurationHistogram {
    /// How many took at most each of [`DURATION_BOUNDS`], and no less than the one before.
    pub buckets: [u64; DURATION_BOUNDS.len()],
    /// How many there were, longer ones too.
    pub count: u64,
    /// Seconds all took together.
    pub seconds: f64,
}

/// Everything that was counted. Names within are the values of labels.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TelemetryTotals {
    /// Runs that ended, by how.
    pub runs: BTreeMap<&'static str, u64>,
    /// How long they took.
    pub run_durations: DurationHistogram,
    /// Steps that ended.
    pub steps: u64,
    /// Calls of models, by model and outcome.
    pub model_calls: BTreeMap<(String, &'static str), u64>,
    /// How long they took, by model.
    pub model_durations: BTreeMap<String, DurationHistogram>,
    /// Tokens, by model.
    pub tokens: BTreeMap<String, Usage>,
    /// Calls of tools, by outcome.
    pub tool_calls: BTreeMap<&'static str, u64>,
    /// How long they took.
    pub tool_durations: DurationHistogram,
    /// Compactions, by outcome.
    pub compactions: BTreeMap<&'static str, u64>,
    /// Drafts of handoffs.
    pub drafts: u64,
    /// Handoffs that were decided, by what became of them.
    pub handoffs: BTreeMap<String, u64>,
    /// Old turns that became a summary, each time counted once.
    pub memory_summaries: u64,
}

/// Where it is counted.
#[derive(Debug, Default)]
pub struct TelemetryMetrics(Mutex<TelemetryTotals>);

impl TelemetryMetrics {
    /// Returns the counts of this moment.
    pub fn totals(&self) -> TelemetryTotals {
        self.0.lock().clone()
    }

    /// Counts a span that ended.
    pub(crate) fn record_span(&self, span: &TraceSpan) {
        let mut counts = self.0.lock();
        let outcome = outcome_label(&span.outcome);
        let took = span.end.map(|end| span.duration(end)).unwrap_or_default();
        match span.kind {
            TraceSpanKind::Run => {
                *counts.runs.entry(outcome).or_default() += 1;
                counts.run_durations.record(took);
            }
            TraceSpanKind::Step => counts.steps += 1,
            TraceSpanKind::Model => counts.record_model_call(span, outcome, took),
            TraceSpanKind::Tool => {
                *counts.tool_calls.entry(outcome).or_default() += 1;
                counts.tool_durations.record(took);
            }
            TraceSpanKind::Compaction => *counts.compactions.entry(outcome).or_default() += 1,
            TraceSpanKind::Draft => counts.drafts += 1,
            TraceSpanKind::Accept => *counts.handoffs.entry("accepted".to_owned()).or_default() += 1,
            TraceSpanKind::Decision => {
                let became = span.name.trim_start_matches("handoff_");
                if ["declined", "previewed", "expired", "failed"].contains(&became) {
                    *counts.handoffs.entry(became.to_owned()).or_default() += 1;
                }
            }
            TraceSpanKind::Transfer => counts.memory_summaries += 1,
            TraceSpanKind::Interrupt
            | TraceSpanKind::Resume
            | TraceSpanKind::Seed
            | TraceSpanKind::Cleanup
            | TraceSpanKind::Mirror => {}
        }
    }
}

impl TelemetryTotals {
    fn record_model_call(&mut self, span: &TraceSpan, outcome: &'static str, took: Duration) {
        let named = span.model.as_deref().unwrap_or(OTHER_MODELS);
        let is_told_apart = self.tokens.contains_key(named) || self.tokens.len() < MODELS_MAX;
        let model = if is_told_apart { named } else { OTHER_MODELS };
        *self.model_calls.entry((model.to_owned(), outcome)).or_default() += 1;
        self.model_durations.entry(model.to_owned()).or_default().record(took);
        self.tokens.entry(model.to_owned()).or_default().add(span.usage.unwrap_or_default());
    }
}

impl DurationHistogram {
    fn record(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        if let Some(class) = DURATION_BOUNDS.iter().position(|bound| seconds <= *bound) {
            self.buckets[class] += 1;
        }
        self.count += 1;
        self.seconds += seconds;
    }
}

const fn outcome_label(outcome: &SpanOutcome) -> &'static str {
    match outcome {
        SpanOutcome::Done => "success",
        SpanOutcome::Failed(_) => "error",
        SpanOutcome::Waiting => "interrupted",
        SpanOutcome::Stopped | SpanOutcome::Working => "stopped",
    }
}
