//! `cargo xtask eval-recall`: measures the evidence recall of search.
//!
//! The evaluation example of the crate `memory` answers each question with the search of `segue search`. The scorer
//! that belongs to the conversations computes the scores from its output. This module only compares them with a
//! minimum.

use std::path::Path;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::cargo_metadata::CargoMetadata;
use crate::command::CommandSpec;

/// The scorer, relative to the workspace. It is not part of the repository.
const SCORER: &str = "../shared/data/eval_retrieval.py";
/// The conversations with questions and evidence, relative to the workspace.
const CONVERSATIONS: &str = "../shared/data/open/locomo/locomo5-open.json";
/// The example of the crate `memory` that searches.
const EXAMPLE: &str = "eval_recall";
/// Computes the recall of lists of messages of any length, with the scorer's data.
const BUDGET_SCORER: &str = include_str!("recall_evaluation/score_budget.py");
/// The measured quantities, each in its own field of the example's output.
const MEASURES: [RecallMeasure; 3] = [
    RecallMeasure {
        field: "messages",
        name: "among the ten best messages",
        unit: Some("turn"),
        percent_min: 80.2,
    },
    RecallMeasure {
        field: "passages",
        name: "in the ten best passages",
        unit: Some("window3"),
        percent_min: 85.2,
    },
    RecallMeasure {
        field: "budget",
        name: "in 1,000 tokens of single messages",
        unit: None,
        percent_min: 85.3,
    },
];
/// The column of the scorer's table that is compared with the minimum.
const SCORE_COLUMN: &str = "R@10";

/// A measured share of the evidence.
struct RecallMeasure {
    /// The field of the example's output that lists the hits.
    field: &'static str,
    /// Where the evidence is looked for, for people.
    name: &'static str,
    /// The scorer's unit of a hit; `None` for a list of messages that counts as a whole.
    unit: Option<&'static str>,
    /// The minimum, in percent.
    percent_min: f64,
}

/// Builds the example, searches, runs the scorer for each measure and prints the scores.
///
/// # Errors
/// If an argument is unknown, the conversations, the scorer or Python are missing, the build fails, or a recall is below its
/// minimum.
pub fn run_evaluation(root: &Path, args: &[String]) -> anyhow::Result<()> {
    if !root.join(CONVERSATIONS).is_file() || !root.join(SCORER).is_file() {
        bail!("score searches: {CONVERSATIONS} or {SCORER} is missing; nothing was run");
    }
    let (profile, folder, model) = match args {
        [] => ("release", "release", None),
        [dev] if dev == "--dev" => ("dev", "debug", None),
        [option, url, model] if option == "--embeddings" => ("release", "release", Some((url, model))),
        [other, ..] => bail!("score searches: unknown argument `{other}`"),
    };
    if !CommandSpec::from_line("python3 --version").is_successful(root) {
        bail!("score searches: `python3` is not installed; nothing was run");
    }
    let target = CargoMetadata::load(root)?.target_folder;
    CommandSpec::from_line("cargo build --locked -p segue-memory --example")
        .arg(EXAMPLE)
        .arg("--profile")
        .arg(profile)
        .run(root)?;
    let binary = target.join(folder).join("examples").join(EXAMPLE);
    let mut search = CommandSpec::from_program(&binary).arg(CONVERSATIONS);
    if let Some((url, model)) = model {
        search = search.arg(url).arg(model);
    }
    let hits = search.output(root)?;
    let mut missed = Vec::new();
    for measure in &MEASURES {
        let hits_file = target.join(format!("eval_recall_{}.jsonl", measure.field));
        std::fs::write(&hits_file, ranked_lines(&hits, measure.field)?)
            .with_context(|| format!("write {}", hits_file.display()))?;
        let percent = score_hits(root, measure, &hits_file)?;
        let RecallMeasure { name, percent_min, .. } = measure;
        println!("{percent:.1} % of the evidence is {name}; the minimum is {percent_min} %");
        if percent < *percent_min {
            missed.push(*name);
        }
    }
    match missed[..] {
        [] => Ok(()),
        _ => bail!("score searches: the evidence {} is below the minimum", missed.join(", and ")),
    }
}

/// Returns the example's output with one field only, under the name that the scorer reads.
fn ranked_lines(output: &str, field: &str) -> anyhow::Result<String> {
    let mut lines = String::new();
    for line in output.lines() {
        let question: Value = serde_json::from_str(line).context("read the hits of a question")?;
        lines.push_str(&json!({"q": question["q"], "ranked": question[field]}).to_string());
        lines.push('\n');
    }
    Ok(lines)
}

/// Runs the scorer, prints its scores, and returns the recall in percent.
fn score_hits(root: &Path, measure: &RecallMeasure, hits_file: &Path) -> anyhow::Result<f64> {
    let scorer = CommandSpec::from_line("python3");
    let hits_file = hits_file.to_string_lossy();
    let Some(unit) = measure.unit else {
        let arguments = scorer.arg("-c").arg(BUDGET_SCORER).arg(SCORER).arg(CONVERSATIONS).arg(hits_file);
        return arguments.output(root)?.trim().parse().context("read the recall within a budget");
    };
    let arguments = scorer.arg(SCORER).arg(CONVERSATIONS).arg("--run").arg(hits_file).arg("--unit").arg(unit);
    let scores = arguments.output(root)?;
    println!("{scores}");
    score_in_column(&scores).with_context(|| format!("read the scores of unit {unit}"))
}

/// Returns the number in [`SCORE_COLUMN`] of the first row of the scorer's first Markdown table.
fn score_in_column(scores: &str) -> Option<f64> {
    let mut rows = scores.lines().filter(|line| line.starts_with('|'));
    let column = table_cells(rows.next()?).position(|cell| cell == SCORE_COLUMN)?;
    table_cells(rows.nth(1)?).nth(column)?.parse().ok()
}

/// Returns the cells of a row of a Markdown table.
fn table_cells(row: &str) -> impl Iterator<Item = &str> {
    row.split('|').map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recall_is_parsed_from_the_table() {
        let scores =
            "# Title\n\n| unit | R@1 | R@10 |\n|---|---|---|\n| run | 1.5 | 73.4 |\n\n| other | R@10 |\n";
        assert_eq!(score_in_column(scores), Some(73.4));
        assert_eq!(score_in_column("nothing"), None);
        assert_eq!(score_in_column("| unit |\n|---|\n| run |\n"), None);
    }
}
