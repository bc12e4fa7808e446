//! Activity metrics of this server, in Prometheus' text format: runs, steps, model and tool calls, tokens, compactions
//! and handoffs. They count from the start of the process. Labels are models, statuses and outcomes, never users or
//! threads, so that the number of rows is small.

use std::fmt::Write as _;

use agent::{DURATION_BOUNDS, DurationHistogram, TelemetryTotals};
use protocol::Usage;

/// Returns the metrics of all activity since the start of the process.
pub(crate) fn activity_metrics(counts: &TelemetryTotals) -> String {
    let mut text = MetricsText(String::new());
    let by = |label: &str, counts: &mut dyn Iterator<Item = (String, u64)>| -> Vec<(String, u64)> {
        counts.map(|(value, count)| (format!("{{{label}=\"{}\"}}", escape_label(&value)), count)).collect()
    };
    let named = |counts: &std::collections::BTreeMap<&'static str, u64>, label: &str| {
        by(label, &mut counts.iter().map(|(name, count)| ((*name).to_owned(), *count)))
    };
    let unlabeled = |count: u64| vec![(String::new(), count)];
    text.counter("segue_runs_total", "Ended runs, by status.", named(&counts.runs, "status"));
    text.counter("segue_steps_total", "Ended steps.", unlabeled(counts.steps));
    let calls = counts.model_calls.iter().map(|((model, outcome), count)| {
        (format!("{{model=\"{}\",outcome=\"{outcome}\"}}", escape_label(model)), *count)
    });
    text.counter("segue_model_calls_total", "Ended model calls, by model and outcome.", calls.collect());
    for (name, help, read) in TOKEN_METRICS {
        let tokens = counts.tokens.iter().map(|(model, usage)| (model.clone(), read(usage)));
        text.counter(name, help, by("model", &mut { tokens }));
    }
    text.counter(
        "segue_tool_calls_total",
        "Ended tool calls, by outcome.",
        named(&counts.tool_calls, "outcome"),
    );
    let compactions = named(&counts.compactions, "outcome");
    text.counter("segue_compactions_total", "Compactions, by outcome.", compactions);
    text.counter("segue_handoff_drafts_total", "Handoff drafts.", unlabeled(counts.drafts));
    let handoffs = counts.handoffs.iter().map(|(outcome, count)| (outcome.clone(), *count));
    text.counter("segue_handoffs_total", "Handoffs, by outcome.", by("outcome", &mut { handoffs }));
    text.counter("segue_transfers_total", "Summaries of old messages.", unlabeled(counts.memory_summaries));
    text.histogram("segue_run_seconds", "Duration of runs.", [(String::new(), &counts.run_durations)]);
    let models = counts
        .model_durations
        .iter()
        .map(|(model, durations)| (format!("model=\"{}\",", escape_label(model)), durations));
    text.histogram("segue_model_call_seconds", "Duration of model calls.", models);
    let tools = [(String::new(), &counts.tool_durations)];
    text.histogram("segue_tool_call_seconds", "Duration of tool calls.", tools);
    text.0
}

/// A metric of tokens: its name, its help text, and the field it reads.
type TokenMetric = (&'static str, &'static str, fn(&Usage) -> u64);

/// The token metrics, each with one row for every model.
const TOKEN_METRICS: [TokenMetric; 4] = [
    ("segue_input_tokens_total", "Input tokens sent to models.", |usage| usage.input_tokens),
    ("segue_output_tokens_total", "Output tokens received from models.", |usage| usage.output_tokens),
    ("segue_cache_read_tokens_total", "Input tokens read from a provider's cache.", |usage| {
        usage.cache_read_tokens
    }),
    ("segue_cache_write_tokens_total", "Input tokens written to a provider's cache.", |usage| {
        usage.cache_write_tokens
    }),
];

/// A text in Prometheus' exposition format, to which metrics are appended.
struct MetricsText(String);

impl MetricsText {
    /// Appends a counter. Each row consists of its labels in braces, or an empty text, and its value.
    fn counter(&mut self, name: &str, help: &str, rows: Vec<(String, u64)>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} counter");
        for (labels, count) in rows {
            let _ = writeln!(self.0, "{name}{labels} {count}");
        }
    }

    /// Appends a histogram of durations in seconds. The labels of a row are without braces and end with a comma, unless
    /// they are empty, because the label `le` is appended to them.
    fn histogram<'d>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (String, &'d DurationHistogram)>,
    ) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} histogram");
        for (labels, durations) in rows {
            let mut count = 0;
            for (bound, bucket_count) in DURATION_BOUNDS.iter().zip(durations.buckets) {
                count += bucket_count;
                let _ = writeln!(self.0, "{name}_bucket{{{labels}le=\"{bound}\"}} {count}");
            }
            let _ = writeln!(self.0, "{name}_bucket{{{labels}le=\"+Inf\"}} {}", durations.count);
            let row_labels = labels.trim_end_matches(',');
            let row_labels = if row_labels.is_empty() { String::new() } else { format!("{{{row_labels}}}") };
            let _ = writeln!(
                self.0,
                "{name}_sum{row_labels} {}\n{name}_count{row_labels} {}",
                durations.seconds, durations.count
            );
        }
    }
}

/// Returns a label's value with backslashes, quotes and line breaks escaped.
fn escape_label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activity_is_counted_by_outcome_and_model() {
        let model = || "anthropic/claude \"x\"".to_owned();
        let usage =
            Usage { input_tokens: 100, output_tokens: 10, cache_read_tokens: 40, cache_write_tokens: 0 };
        let mut took = DurationHistogram { count: 3, seconds: 400.5, ..DurationHistogram::default() };
        took.buckets[1] = 2;
        let counts = TelemetryTotals {
            runs: [("success", 2), ("error", 1)].into(),
            model_calls: [((model(), "success"), 3)].into(),
            model_durations: [(model(), took)].into(),
            tokens: [(model(), usage)].into(),
            handoffs: [("accepted".to_owned(), 1)].into(),
            ..TelemetryTotals::default()
        };
        let text = activity_metrics(&counts);
        for line in [
            "segue_runs_total{status=\"error\"} 1",
            "segue_steps_total 0",
            "segue_model_calls_total{model=\"anthropic/claude \\\"x\\\"\",outcome=\"success\"} 3",
            "segue_cache_read_tokens_total{model=\"anthropic/claude \\\"x\\\"\"} 40",
            "segue_handoffs_total{outcome=\"accepted\"} 1",
            "segue_model_call_seconds_bucket{model=\"anthropic/claude \\\"x\\\"\",le=\"0.01\"} 0",
            "segue_model_call_seconds_bucket{model=\"anthropic/claude \\\"x\\\"\",le=\"300\"} 2",
            "segue_model_call_seconds_bucket{model=\"anthropic/claude \\\"x\\\"\",le=\"+Inf\"} 3",
            "segue_model_call_seconds_sum{model=\"anthropic/claude \\\"x\\\"\"} 400.5",
            "segue_run_seconds_count 0",
        ] {
            assert!(text.lines().any(|text_line| text_line == line), "{line} in\n{text}");
        }
    }
}
