//! The benchmarks of the whole program, each with a name. A benchmark runs the program over its wire: processes, HTTP,
//! PostgreSQL. One that the program cannot show runs a benchmark of a crate.

mod appends;
mod compaction;
mod gateway;
pub mod handoffs;
mod postgres_runs;
mod replicas;
mod start_up;
mod tool_turns;
mod whole_history;

use std::fs;

use anyhow::{Context, bail};

use super::harness::{BenchContext, BenchPrograms};
use super::report::Measurement;

/// A named benchmark.
#[derive(Debug, Clone, Copy)]
pub struct BenchRow {
    pub name: &'static str,
    /// The measured operation, for the help text.
    pub about: &'static str,
    measure: fn(&BenchContext) -> anyhow::Result<Vec<Measurement>>,
}

/// All benchmarks, in the order in which they run.
pub const ROWS: [BenchRow; 13] = [
    BenchRow {
        name: "start-up",
        about: "processes: the version, one prompt, a handoff's preview, the list of 10,000 threads",
        measure: start_up::measure_processes,
    },
    BenchRow {
        name: "tool-turns",
        about: "a tool turn in a loop of 100, in a new thread and after 400 turns",
        measure: tool_turns::measure_new_threads,
    },
    BenchRow {
        name: "long-turns",
        about: "a tool turn in compacted threads of 5,000 and 50,000 messages",
        measure: tool_turns::measure_compacted_threads,
    },
    BenchRow {
        name: "full-prompt",
        about: "a turn whose request has 1.36 MB",
        measure: tool_turns::measure_full_prompt,
    },
    BenchRow {
        name: "handoff-http",
        about: "draft, refinement and acceptance over HTTP, at 120 and 5,000 messages, cold and warm",
        measure: handoffs::measure_handoffs,
    },
    BenchRow {
        name: "gateway",
        about: "durable runs of 1, 64 and 256 streams, and the server's memory",
        measure: gateway::measure_streams,
    },
    BenchRow {
        name: "stateless",
        about: "stateless runs of 16 streams, in a home with 250,000 messages",
        measure: gateway::measure_stateless_runs,
    },
    BenchRow {
        name: "whole-history",
        about: "all 100,000 messages of a thread: page by page, and as an export",
        measure: whole_history::measure_history,
    },
    BenchRow {
        name: "appends",
        about: "durable appends of 64 tasks (a benchmark of the journal)",
        measure: appends::measure_appends,
    },
    BenchRow {
        name: "compact",
        about: "`segue compact` at 5,000, 20,000 and 50,000 messages, with memory",
        measure: compaction::measure_compactions,
    },
    BenchRow {
        name: "postgres-runs",
        about: "durable runs on PostgreSQL: one client, 64 streams, statements and round trips of a run",
        measure: postgres_runs::measure_runs,
    },
    BenchRow {
        name: "database-latency",
        about: "a first handoff and a run with a distant PostgreSQL",
        measure: postgres_runs::measure_latency,
    },
    BenchRow {
        name: "replicas",
        about: "from a commit on PostgreSQL to a client of another server",
        measure: replicas::measure_delays,
    },
];

/// Returns the benchmarks with these names; all without a name.
///
/// # Errors
/// If there is none with one of the names.
pub fn find_rows(names: &[String]) -> anyhow::Result<Vec<BenchRow>> {
    if names.is_empty() {
        return Ok(ROWS.to_vec());
    }
    let find = |name: &String| ROWS.iter().find(|row| row.name == name).copied();
    match names.iter().find(|name| find(name).is_none()) {
        Some(unknown) => {
            bail!("there is no benchmark of the program named `{unknown}`; `bench --list` lists them")
        }
        None => Ok(names.iter().filter_map(find).collect()),
    }
}

impl BenchRow {
    /// Runs the benchmark in an empty folder, which is removed at the end.
    ///
    /// # Errors
    /// If a process fails or answers wrongly.
    pub fn run(&self, programs: &BenchPrograms) -> anyhow::Result<Vec<Measurement>> {
        let folder = programs.target_folder.join("bench").join(self.name);
        remove_folder(&folder)?;
        fs::create_dir_all(&folder)?;
        let context = BenchContext { programs: programs.clone(), folder };
        let result = (self.measure)(&context).with_context(|| format!("measure {}", self.name));
        remove_folder(&context.folder)?;
        result
    }
}

/// Removes a folder with its content, if it exists.
///
/// # Errors
/// If a file cannot be removed.
pub fn remove_folder(folder: &std::path::Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("empty {}", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_name() {
        assert_eq!(find_rows(&[]).unwrap().len(), ROWS.len());
        assert_eq!(find_rows(&["compact".to_owned()]).unwrap()[0].name, "compact");
        assert!(find_rows(&["compact".to_owned(), "x".to_owned()]).is_err());
        let names: std::collections::BTreeSet<&str> = ROWS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), ROWS.len());
    }
}
