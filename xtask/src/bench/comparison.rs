//! `cargo xtask bench --against REV`: builds another revision in a worktree below the target folder, runs both programs in
//! turn, and prints the ratio of each result with its 95 % confidence interval.
//!
//! The interval is the t interval of the logarithms of the ratios of the pairs. The runs of a pair follow each other and
//! their order alternates, so that a drift of the machine's speed affects both programs alike.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::harness::BenchPrograms;
use super::harness::statistics::{PAIRS_MAX, RatioInterval, median};
use super::report::{Better, Measurement, format_value};
use super::rows::BenchRow;
use crate::command::CommandSpec;

/// The results of one benchmark: of the other revision and of this one, for each pair.
type MeasuredPairs = Vec<[Vec<Measurement>; 2]>;

/// Compares this checkout with `revision`, and prints a line for each result.
///
/// # Errors
/// If the revision does not exist or does not build, or a benchmark fails.
pub fn compare_revisions(
    programs: &BenchPrograms,
    revision: &str,
    rows: &[BenchRow],
    pairs: usize,
) -> anyhow::Result<()> {
    ensure!((2..=PAIRS_MAX).contains(&pairs), "the number of pairs must be 2 to {PAIRS_MAX}");
    let (commit, worktree) = create_worktree(programs, revision)?;
    let result = build_other_program(programs, &worktree)
        .and_then(|other| compare_programs(&[other, programs.clone()], rows, pairs));
    remove_worktree(programs, &worktree)?;
    result.with_context(|| format!("compare with {commit}"))
}

/// Checks out a revision below the target folder. Returns the commit and the folder.
fn create_worktree(programs: &BenchPrograms, revision: &str) -> anyhow::Result<(String, PathBuf)> {
    let root = &programs.checkout;
    let commit = CommandSpec::from_line("git rev-parse --verify --short=12")
        .arg(format!("{revision}^{{commit}}"))
        .output(root)?;
    let commit = commit.trim().to_owned();
    let folder = programs.target_folder.join("bench").join(format!("against-{commit}"));
    if folder.exists() {
        // An interrupted comparison left it.
        remove_worktree(programs, &folder)?;
    }
    CommandSpec::from_line("git worktree add --quiet --detach")
        .arg(folder.to_string_lossy())
        .arg(&commit)
        .run(root)?;
    Ok((commit, folder))
}

fn remove_worktree(programs: &BenchPrograms, folder: &Path) -> anyhow::Result<()> {
    CommandSpec::from_line("git worktree remove --force")
        .arg(folder.to_string_lossy())
        .run(&programs.checkout)
}

/// Builds the program of the other checkout in the same target folder, which has the dependencies, and copies it into the
/// checkout. Then this checkout's program is built again, because both are written to the same file.
fn build_other_program(programs: &BenchPrograms, worktree: &Path) -> anyhow::Result<BenchPrograms> {
    let build = CommandSpec::from_line("cargo build --locked --release -p segue --target-dir")
        .arg(programs.target_folder.to_string_lossy());
    build.run(worktree)?;
    let segue = worktree.join("segue-other");
    fs::copy(&programs.segue, &segue).context("copy the program")?;
    build.run(&programs.checkout)?;
    Ok(BenchPrograms { segue, checkout: worktree.to_owned(), ..programs.clone() })
}

/// Runs each benchmark with both programs in turn, and prints the ratios.
fn compare_programs(programs: &[BenchPrograms; 2], rows: &[BenchRow], pairs: usize) -> anyhow::Result<()> {
    println!("ratios of this revision to the other; geometric means with 95 % t intervals of {pairs} pairs");
    for row in rows {
        println!("{}", row.name);
        let mut measured = MeasuredPairs::with_capacity(pairs);
        for pair in 0..pairs {
            let mut both = [Vec::new(), Vec::new()];
            for position in 0..2 {
                let index = (pair + position) % 2;
                both[index] = row.run(&programs[index])?;
            }
            measured.push(both);
        }
        for line in comparison_lines(&measured) {
            println!("{line}");
        }
    }
    Ok(())
}

/// Returns a line for each result of a benchmark.
fn comparison_lines(measured: &MeasuredPairs) -> Vec<String> {
    let names = measured.first().map(|[_, new]| new.as_slice()).unwrap_or_default();
    let line = |result: &Measurement| {
        let find = |results: &[Measurement]| results.iter().find(|other| other.name == result.name).cloned();
        let values: Vec<(f64, f64)> =
            measured.iter().filter_map(|[old, new]| Some((find(old)?.value, find(new)?.value))).collect();
        comparison_line(result, &values)
    };
    names.iter().map(line).collect()
}

/// Returns the line of one result: both medians, the ratio with its interval, and a verdict if the interval excludes 1.
fn comparison_line(result: &Measurement, values: &[(f64, f64)]) -> String {
    let medians = [
        median(values.iter().map(|(old, _)| *old).collect()),
        median(values.iter().map(|(_, new)| *new).collect()),
    ];
    let [old, new] = medians.map(format_value);
    let Some(interval) = RatioInterval::from_pairs(values) else {
        return format!("  {:<72} {old:>9} → {new:>9} {}", result.name, result.unit);
    };
    let verdict =
        match (interval.is_significant(), (interval.ratio < 1.0) == (result.better == Better::Lower)) {
            (false, _) => "",
            (true, true) => "  better",
            (true, false) => "  worse",
        };
    format!(
        "  {:<72} {old:>9} → {new:>9} {:<11} ratio {:.3} [{:.3}, {:.3}]{verdict}",
        result.name, result.unit, interval.ratio, interval.low, interval.high
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_cost_is_better_and_a_lower_throughput_worse() {
        let values = [(2.0, 1.0), (2.2, 1.1), (1.8, 0.9)];
        let cost = comparison_line(&Measurement::cost("turn", 1.0, "ms"), &values);
        assert!(cost.ends_with("ratio 0.500 [0.500, 0.500]  better"), "{cost}");
        let throughput = comparison_line(&Measurement::throughput("runs", 1.0, "runs/s"), &values);
        assert!(throughput.ends_with("  worse"), "{throughput}");
    }

    #[test]
    fn an_interval_around_one_has_no_verdict() {
        let line = comparison_line(&Measurement::cost("turn", 1.0, "ms"), &[(1.0, 1.1), (1.1, 1.0)]);
        assert!(line.ends_with(']'), "{line}");
    }

    #[test]
    fn results_are_paired_by_name() {
        let results =
            |value| vec![Measurement::cost("a", value, "ms"), Measurement::cost("b", value * 3.0, "ms")];
        let lines = comparison_lines(&vec![[results(2.0), results(1.0)], [results(2.0), results(1.0)]]);
        assert_eq!(lines.len(), 2);
        assert!(lines[1].contains("6.00 →      3.00"), "{}", lines[1]);
    }
}
