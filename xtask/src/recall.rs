//! `cargo xtask eval-recall`: builds the evaluation program of the `memory` room, which searches as `segue search` does,
//! and gives what it found to the scorer that comes with the conversations. The scores are the scorer's; only the bar is
//! held against them here.

use std::path::Path;

use anyhow::{Context, bail};

use crate::command::Command;
use crate::metadata::Metadata;

const SCORER: &str = "../shared/data/eval_retrieval.py";
const CONVERSATIONS: &str = "../shared/data/open/locomo/locomo5-open.json";
const EXAMPLE: &str = "eval_recall";
/// What counts as found: the message itself, or one that a hit shows right before or after.
const UNITS: [&str; 2] = ["turn", "window3"];
/// The part of the evidence, in percent, that the ten best hits must hold.
const BAR: f64 = 70.0;
/// The column of the scorer's table that it is held against.
const COLUMN: &str = "R@10";

/// Builds, runs, scores and prints.
///
/// # Errors
/// When an argument is not `--dev`, the conversations or Python are absent, the build fails, or the bar is missed with what counts by itself.
pub fn run(root: &Path, args: &[String]) -> anyhow::Result<()> {
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
    if !Command::line("python3 --version").succeeds(root) {
        bail!("score searches: `python3` is not installed; nothing was run");
    }
    let target = Metadata::read(root)?.target_folder;
    Command::line("cargo build --locked -p segue-memory --example")
        .arg(EXAMPLE)
        .arg("--profile")
        .arg(profile)
        .run(root)?;
    let binary = target.join(folder).join("examples").join(EXAMPLE);
    let found = target.join("eval_recall.jsonl");
    let ranked = Command::program(&binary).arg(CONVERSATIONS).output(root)?;
    std::fs::write(&found, ranked).with_context(|| format!("write {}", found.display()))?;
    let mut recall = Vec::new();
    for unit in UNITS {
        let scores = Command::line("python3")
            .arg(SCORER)
            .arg(CONVERSATIONS)
            .arg("--run")
            .arg(found.to_string_lossy())
            .arg("--unit")
            .arg(unit)
            .output(root)?;
        println!("{scores}");
        recall.push(column(&scores).with_context(|| format!("read the scores of unit {unit}"))?);
    }
    let told = UNITS.iter().zip(&recall).map(|(unit, recall)| format!("{recall:.1} % by {unit}"));
    println!(
        "evidence recall@10: {}; the bar is {BAR} % by {}",
        told.collect::<Vec<_>>().join(", "),
        UNITS[0]
    );
    match recall[0] >= BAR {
        true => Ok(()),
        false => bail!(
            "score searches: {:.1} % of the evidence is among the ten best hits, not {BAR} %",
            recall[0]
        ),
    }
}

/// Returns the number in the column of the first table of the scorer's answer.
fn column(scores: &str) -> Option<f64> {
    let mut rows = scores.lines().filter(|line| line.starts_with('|'));
    let at = cells(rows.next()?).position(|cell| cell == COLUMN)?;
    cells(rows.nth(1)?).nth(at)?.parse().ok()
}

fn cells(row: &str) -> impl Iterator<Item = &str> {
    row.split('|').map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recall_is_read_from_the_table() {
        let scores =
            "# Title\n\n| unit | R@1 | R@10 |\n|---|---|---|\n| run | 1.5 | 73.4 |\n\n| other | R@10 |\n";
        assert_eq!(column(scores), Some(73.4));
        assert_eq!(column("nothing"), None);
        assert_eq!(column("| unit |\n|---|\n| run |\n"), None);
    }
}
