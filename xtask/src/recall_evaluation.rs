//! `cargo xtask eval-recall`: builds the evaluation program of the `memory` room, which searches as `segue search` does,
//! and gives what it found to the scorer that comes with the conversations. The scores are the scorer's; only the bar is
//! held against them here.

use std::path::Path;

use anyhow::{Context, bail};

use crate::cargo_metadata::CargoMetadata;
use crate::command::CommandSpec;

const SCORER: &str = "../shared/data/eval_retrieval.py";
const CONVERSATIONS: &str = "../shared/data/open/locomo/locomo5-open.json";
const EXAMPLE: &str = "eval_recall";
/// The units that count as a match: the message itself, or a message that a hit shows right before or after.
const MATCH_UNITS: [&str; 2] = ["turn", "window3"];
/// The part of the evidence, in percent, that the ten best hits must hold.
const RECALL_PERCENT_MIN: f64 = 70.0;
/// The column of the scorer's table that it is held against.
const SCORE_COLUMN: &str = "R@10";

/// Builds, runs, scores and prints.
///
/// # Errors
/// When an argument is not `--dev`, the conversations or Python are absent, the build fails, or the bar is missed with what counts by itself.
pub fn run_evaluation(root: &Path, args: &[String]) -> anyhow::Result<()> {
    if !root.join(CONVERSATIONS).is_file() || !root.join(SCORER).is_file() {
        bail!(
            "score searches: the conversations and their scorer are not at {CONVERSATIONS} and {SCORER} (beside the checkout); nothing was run"
        );
    }
    let (profile, folder) = match args {
        [] => ("release", "release"),
        [dev] if dev == "--dev" => ("dev", "debug"),
        [other, ..] => bail!("score searches: there is no argument `{other}`"),
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
    let found = target.join("eval_recall.jsonl");
    let ranked = CommandSpec::from_program(&binary).arg(CONVERSATIONS).output(root)?;
    std::fs::write(&found, ranked).with_context(|| format!("write {}", found.display()))?;
    let mut recall = Vec::new();
    for unit in MATCH_UNITS {
        let scores = CommandSpec::from_line("python3")
            .arg(SCORER)
            .arg(CONVERSATIONS)
            .arg("--run")
            .arg(found.to_string_lossy())
            .arg("--unit")
            .arg(unit)
            .output(root)?;
        println!("{scores}");
        recall.push(score_in_column(&scores).with_context(|| format!("read the scores of unit {unit}"))?);
    }
    let told = MATCH_UNITS.iter().zip(&recall).map(|(unit, recall)| format!("{recall:.1} % by {unit}"));
    println!(
        "evidence recall@10: {}; the bar is {RECALL_PERCENT_MIN} % by {}",
        told.collect::<Vec<_>>().join(", "),
        MATCH_UNITS[0]
    );
    match recall[0] >= RECALL_PERCENT_MIN {
        true => Ok(()),
        false => bail!(
            "score searches: {:.1} % of the evidence is among the ten best hits, not {RECALL_PERCENT_MIN} %",
            recall[0]
        ),
    }
}

/// Returns the number in the column of the first table of the scorer's answer.
fn score_in_column(scores: &str) -> Option<f64> {
    let mut rows = scores.lines().filter(|line| line.starts_with('|'));
    let at = table_cells(rows.next()?).position(|cell| cell == SCORE_COLUMN)?;
    table_cells(rows.nth(1)?).nth(at)?.parse().ok()
}

fn table_cells(row: &str) -> impl Iterator<Item = &str> {
    row.split('|').map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recall_is_read_from_the_table() {
        let scores =
            "# Title\n\n| unit | R@1 | R@10 |\n|---|---|---|\n| run | 1.5 | 73.4 |\n\n| other | R@10 |\n";
        assert_eq!(score_in_column(scores), Some(73.4));
        assert_eq!(score_in_column("nothing"), None);
        assert_eq!(score_in_column("| unit |\n|---|\n| run |\n"), None);
    }
}
