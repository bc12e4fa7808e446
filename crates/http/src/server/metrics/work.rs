//! What this server has done, in the text form Prometheus reads: runs, steps, calls of models and tools, tokens, handoffs.

use std::fmt::Write as _;

use agent::{Counts, DURATION_BOUNDS, Durations};
use protocol::Usage;

/// Returns the lines.
pub(crate) fn text(counts: &Counts) -> String {
    let mut text = Text(String::new());
    let by = |label: &str, counts: &mut dyn Iterator<Item = (String, u64)>| -> Vec<(String, u64)> {
        counts.map(|(value, count)| (format!("{{{label}=\"{}\"}}", escaped(&value)), count)).collect()
    };
    let named = |counts: &std::collections::BTreeMap<&'static str, u64>, label: &str| {
        by(label, &mut counts.iter().map(|(name, count)| ((*name).to_owned(), *count)))
    };
    let one = |count: u64| vec![(String::new(), count)];
    text.counter("segue_runs_total", "Runs that ended.", named(&counts.runs, "status"));
    text.counter("segue_steps_total", "Steps that ended.", one(counts.steps));
    let calls = counts.model_calls.iter().map(|((model, outcome), count)| {
        (format!("{{model=\"{}\",outcome=\"{outcome}\"}}", escaped(model)), *count)
    });
    text.counter("segue_model_calls_total", "Calls of models that ended.", calls.collect());
    for (name, help, read) in TOKENS {
        let tokens = counts.tokens.iter().map(|(model, usage)| (model.clone(), read(usage)));
        text.counter(name, help, by("model", &mut { tokens }));
    }
    text.counter(
        "segue_tool_calls_total",
        "Calls of tools that ended.",
        named(&counts.tool_calls, "outcome"),
    );
    let compactions = named(&counts.compactions, "outcome");
    text.counter("segue_compactions_total", "Conversations condensed, or not after all.", compactions);
    text.counter("segue_handoff_drafts_total", "Drafts of handoffs.", one(counts.drafts));
    let handoffs = counts.handoffs.iter().map(|(outcome, count)| (outcome.clone(), *count));
    text.counter("segue_handoffs_total", "Handoffs that were decided.", by("outcome", &mut { handoffs }));
    text.counter("segue_transfers_total", "Old turns that became a summary.", one(counts.transfers));
    text.histogram("segue_run_seconds", "How long runs took.", [(String::new(), &counts.run_durations)]);
    let models =
        counts.model_durations.iter().map(|(model, took)| (format!("model=\"{}\",", escaped(model)), took));
    text.histogram("segue_model_call_seconds", "How long calls of models took.", models);
    let tools = [(String::new(), &counts.tool_durations)];
    text.histogram("segue_tool_call_seconds", "How long calls of tools took.", tools);
    text.0
}

/// A figure of tokens: its name, what it is, and how it is read.
type Tokens = (&'static str, &'static str, fn(&Usage) -> u64);

const TOKENS: [Tokens; 4] = [
    ("segue_input_tokens_total", "Tokens that models were sent.", |usage| usage.input_tokens),
    ("segue_output_tokens_total", "Tokens that models answered.", |usage| usage.output_tokens),
    ("segue_cache_read_tokens_total", "Of the tokens sent, those read from a cache.", |usage| {
        usage.cache_read_tokens
    }),
    ("segue_cache_write_tokens_total", "Of the tokens sent, those written to a cache.", |usage| {
        usage.cache_write_tokens
    }),
];

struct Text(String);

impl Text {
    /// Writes a counter; `rows` are its labels and values.
    fn counter(&mut self, name: &str, help: &str, rows: Vec<(String, u64)>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} counter");
        for (labels, count) in rows {
            let _ = writeln!(self.0, "{name}{labels} {count}");
        }
    }

    /// Writes a histogram; of each of its rows the labels with a comma behind, if there are any.
    fn histogram<'d>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (String, &'d Durations)>,
    ) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} histogram");
        for (labels, took) in rows {
            let mut count = 0;
            for (bound, class) in DURATION_BOUNDS.iter().zip(took.classes) {
                count += class;
                let _ = writeln!(self.0, "{name}_bucket{{{labels}le=\"{bound}\"}} {count}");
            }
            let _ = writeln!(self.0, "{name}_bucket{{{labels}le=\"+Inf\"}} {}", took.count);
            let own = labels.trim_end_matches(',');
            let own = if own.is_empty() { String::new() } else { format!("{{{own}}}") };
            let _ = writeln!(self.0, "{name}_sum{own} {}\n{name}_count{own} {}", took.seconds, took.count);
        }
    }
}

/// Returns a label's value as the form has it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_told_by_outcome_and_model() {
        let model = || "anthropic/claude \"x\"".to_owned();
        let usage =
            Usage { input_tokens: 100, output_tokens: 10, cache_read_tokens: 40, cache_write_tokens: 0 };
        let mut took = Durations { count: 3, seconds: 400.5, ..Durations::default() };
        took.classes[1] = 2;
        let counts = Counts {
            runs: [("success", 2), ("error", 1)].into(),
            model_calls: [((model(), "success"), 3)].into(),
            model_durations: [(model(), took)].into(),
            tokens: [(model(), usage)].into(),
            handoffs: [("accepted".to_owned(), 1)].into(),
            ..Counts::default()
        };
        let text = text(&counts);
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
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
