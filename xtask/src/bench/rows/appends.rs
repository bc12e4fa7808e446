//! Durable appends of 64 tasks. No client of the program can reach this limit, so cargo runs the benchmark of the journal.

use anyhow::Context;

use super::super::harness::BenchContext;
use super::super::report::Measurement;
use crate::command::CommandSpec;

/// The benchmark in `crates/journal/benches/append.rs`.
const BENCHMARK: &str = "durable_appends_of_messages_from_64_tasks";
/// Appends of one sample of the benchmark: 100 of each task.
const APPENDS: f64 = 6_400.0;

/// Returns the appended messages per second.
///
/// # Errors
/// If the benchmark fails or prints no time.
pub fn measure_appends(context: &BenchContext) -> anyhow::Result<Vec<Measurement>> {
    let programs = &context.programs;
    let output = CommandSpec::from_line("cargo bench --locked -p segue-journal --bench append --target-dir")
        .arg(programs.target_folder.to_string_lossy())
        .arg("--")
        .arg(BENCHMARK)
        .output(&programs.checkout)?;
    let milliseconds = median_ms(&output).with_context(|| format!("find the median in: {output}"))?;
    let rate = APPENDS / milliseconds;
    Ok(vec![Measurement::throughput("durable appends, 64 tasks", rate, "k messages/s").with_goal(30.0)])
}

/// Returns the median of the benchmark from divan's table, whose columns are fastest, slowest, median and mean.
fn median_ms(output: &str) -> Option<f64> {
    let line = output.lines().find(|line| line.contains(BENCHMARK))?;
    let column = line.split('│').nth(2)?;
    let (number, unit) = column.trim().split_once(' ')?;
    let factor = match unit {
        "s" => 1e3,
        "ms" => 1.0,
        "µs" => 1e-3,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_third_column() {
        let table = "append                                           fastest       │ slowest       │ median        │ mean\n\
            ╰─ durable_appends_of_messages_from_64_tasks     240.1 ms      │ 353.2 ms      │ 290.5 ms      │ 291 ms        │ 20\n";
        assert_eq!(median_ms(table), Some(290.5));
        assert_eq!(median_ms("nothing"), None);
    }
}
