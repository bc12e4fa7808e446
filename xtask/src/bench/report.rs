//! The results of benchmarks: named values, printed as lines and written as JSON.

use std::path::Path;

use anyhow::Context;
use serde::Serialize;
use serde_json::{Value, json};

use super::machine::MachineFigures;

/// The version of the JSON document.
const SCHEMA_VERSION: u32 = 1;
/// Significant digits of the values in the JSON document.
const SIGNIFICANT_DIGITS: i32 = 4;

/// The direction in which a value improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    Lower,
    Higher,
}

/// One measured value.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    pub name: String,
    pub value: f64,
    pub unit: &'static str,
    pub better: Better,
    /// `None` if the project has no goal for the value.
    pub goal: Option<f64>,
}

impl Measurement {
    /// Returns a measurement of a cost.
    pub fn cost(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { name: name.into(), value, unit, better: Better::Lower, goal: None }
    }

    /// Returns a measurement of a throughput.
    pub fn throughput(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { better: Better::Higher, ..Self::cost(name, value, unit) }
    }

    /// Sets the goal.
    #[must_use]
    pub fn with_goal(mut self, goal: f64) -> Self {
        self.goal = Some(goal);
        self
    }

    /// Returns true if the value reaches its goal or has none.
    pub fn is_within_goal(&self) -> bool {
        self.goal.is_none_or(|goal| match self.better {
            Better::Lower => self.value <= goal,
            Better::Higher => self.value >= goal,
        })
    }

    /// Returns the line for the terminal.
    pub fn text(&self) -> String {
        let value = format_value(self.value);
        let bound = if self.better == Better::Lower { "≤" } else { "≥" };
        let verdict = if self.is_within_goal() { "" } else { ", missed" };
        let goal = self
            .goal
            .map(|goal| format!("  (goal {bound} {}{verdict})", format_value(goal)))
            .unwrap_or_default();
        format!("  {:<72} {value:>9} {}{goal}", self.name, self.unit)
    }

    fn to_json(&self) -> Value {
        let value = round_significant(self.value);
        json!({"name": self.name, "value": value, "unit": self.unit, "better": self.better, "goal": self.goal})
    }
}

/// Returns the value with as many decimals as it deserves.
pub fn format_value(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Returns the value with [`SIGNIFICANT_DIGITS`] digits. More would be noise.
fn round_significant(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let decimals = SIGNIFICANT_DIGITS - 1 - value.abs().log10().floor() as i32;
    let text = format!("{value:.*}", decimals.max(0) as usize);
    let rounded = text.parse().unwrap_or(value);
    if decimals >= 0 { rounded } else { (value / 10f64.powi(-decimals)).round() * 10f64.powi(-decimals) }
}

/// Writes measurements to a JSON file, with the machine and the revision that they belong to.
///
/// # Errors
/// If the file cannot be written.
pub fn write_report(
    path: &Path,
    machine: &MachineFigures,
    revision: &str,
    measurements: &[Measurement],
) -> anyhow::Result<()> {
    let results: Vec<Value> = measurements.iter().map(Measurement::to_json).collect();
    let report = json!({
        "schema_version": SCHEMA_VERSION,
        "version": env!("CARGO_PKG_VERSION"),
        "revision": revision,
        "machine": machine.to_json(),
        "results": results,
    });
    let text = serde_json::to_string_pretty(&report)? + "\n";
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

/// Returns the results of a JSON file as a Markdown table, for the book.
///
/// # Errors
/// If the file cannot be read or is not a report.
pub fn markdown_table(path: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let report: Value = serde_json::from_str(&text).with_context(|| format!("parse {}", path.display()))?;
    let results = report["results"].as_array().context("the file has no results")?;
    let rows: String = results.iter().map(table_row).collect();
    Ok(format!("| result | measured | goal |\n| --- | --- | --- |\n{rows}"))
}

fn table_row(result: &Value) -> String {
    let text = |name: &str| result[name].as_str().unwrap_or_default();
    let value = result["value"].as_f64().map(format_value).unwrap_or_default();
    let bound = if text("better") == "lower" { "≤" } else { "≥" };
    let goal = result["goal"].as_f64().map(|goal| format!("{bound} {goal}")).unwrap_or_default();
    format!("| {} | {value} {} | {goal} |\n", text("name"), text("unit"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_above_and_a_throughput_below_its_goal_are_missed() {
        assert!(Measurement::cost("turn", 2.0, "ms").with_goal(2.0).is_within_goal());
        assert!(!Measurement::cost("turn", 2.1, "ms").with_goal(2.0).is_within_goal());
        assert!(!Measurement::throughput("runs", 999.0, "runs/s").with_goal(1_000.0).is_within_goal());
        assert!(Measurement::throughput("runs", 1.0, "runs/s").is_within_goal());
    }

    #[test]
    fn a_value_keeps_four_significant_digits() {
        assert_eq!(round_significant(0.012_345_6), 0.012_35);
        assert_eq!(round_significant(5.432_19), 5.432);
        assert_eq!(round_significant(123_456.0), 123_500.0);
        assert_eq!(round_significant(0.0), 0.0);
    }

    #[test]
    fn a_row_of_the_table_has_the_goal() {
        let result = Measurement::throughput("runs", 1_234.5, "runs/s").with_goal(3_000.0).to_json();
        assert_eq!(table_row(&result), "| runs | 1234 runs/s | ≥ 3000 |\n");
        assert_eq!(table_row(&Measurement::cost("CPU", 0.5, "ms").to_json()), "| CPU | 0.50 ms |  |\n");
    }

    #[test]
    fn a_result_names_its_unit_and_what_is_better() {
        let result = Measurement::cost("turn", 1.234_56, "ms").with_goal(1.0);
        let expected = json!({"name": "turn", "value": 1.235, "unit": "ms", "better": "lower", "goal": 1.0});
        assert_eq!(result.to_json(), expected);
        assert!(result.text().ends_with("1.23 ms  (goal ≤ 1.00, missed)"), "{}", result.text());
    }
}
