//! `cargo xtask eval-recall`: measures the evidence recall of search.
//!
//! The evaluation example of the crate `memory` answers each question with the search of `segue search`. The scorer
//! that belongs to the conversations computes the scores from its output. This module only compares them with a
//! minimum.

use std::path::Path;

use anyhow::{Context, bail};

use crate::cargo_metadata::CargoMetadata;
use crate::command::CommandSpec;

/// The scorer, relative to the workspace. It is not part of the repository.
const SCORER: &str = "../shared/data/eval_retrieval.py";
/// The conversations with questions and evidence, relative to the workspace.
const CONVERSATIONS: &str = "../shared/data/open/locomo/locomo5-open.json";
/// The example of the crate `memory` that searches.
const EXAMPLE: &str = "eval_recall";
/// The scorer's units of a match: the evidence message itself, or also a message directly before or after a hit.
const MATCH_UNITS: [&str; 2] = ["turn", "window3"];
/// The minimum share of the evidence among the ten best hits, in percent, for the first of [`MATCH_UNITS`].
const RECALL_PERCENT_MIN: f64 = 70.0;
/// The column of the scorer's table that is compared with the minimum.
const SCORE_COLUMN: &str = "R@10";

/// Builds the example, searches, runs the scorer for each unit and prints the scores.
///
/// # Errors
/// If an argument is not `--dev`, the conversations, the scorer or Python are missing, the build fails, or the recall
/// is below [`RECALL_PERCENT_MIN`].
pub fn run_evaluation(root: &Path, args: &[String]) -> anyhow::Result<()> {
    if !root.join(CONVERSATIONS).is_file() || !root.join(SCORER).is_file() {
        bail!("score searches: {CONVERSATIONS} or {SCORER} is missing; nothing was run");
    }
    let (profile, folder) = match args {
        [] => ("release", "release"),
        [dev] if dev == "--dev" => ("dev", "debug"),
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
    let hits_file = target.join("eval_recall.jsonl");
    let ranked_hits = CommandSpec::from_program(&binary).arg(CONVERSATIONS).output(root)?;
    std::fs::write(&hits_file, ranked_hits).with_context(|| format!("write {}", hits_file.display()))?;
    let mut recalls = Vec::new();
    for unit in MATCH_UNITS {
        let scores = CommandSpec::from_line("python3")
            .arg(SCORER)
            .arg(CONVERSATIONS)
            .arg("--run")
            .arg(hits_file.to_string_lossy())
            .arg("--unit")
            .arg(unit)
            .output(root)?;
        println!("{scores}");
        recalls.push(score_in_column(&scores).with_context(|| format!("read the scores of unit {unit}"))?);
    }
    let results = MATCH_UNITS.iter().zip(&recalls).map(|(unit, recall)| format!("{recall:.1} % by {unit}"));
    println!(
        "evidence recall@10: {}; the minimum is {RECALL_PERCENT_MIN} % by {}",
        results.collect::<Vec<_>>().join(", "),
        MATCH_UNITS[0]
    );
    match recalls[0] >= RECALL_PERCENT_MIN {
        true => Ok(()),
        false => bail!(
            "score searches: {:.1} % of the evidence is among the ten best hits; the minimum is {RECALL_PERCENT_MIN} %",
            recalls[0]
        ),
    }
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
