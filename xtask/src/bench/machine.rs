//! The figures of the machine that explain a result: its processors, and the costs of a sync to disk and of a process.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::Context;
use serde_json::{Value, json};

use super::harness::statistics::median;
use crate::command::CommandSpec;

/// Number of measured syncs.
const SYNCS: usize = 200;
/// Bytes written before each sync: one page of SQLite.
const SYNC_BYTES: usize = 4_096;
/// Number of measured processes.
const SPAWNS: usize = 100;

/// The figures of one machine.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineFigures {
    pub cpu: String,
    pub cpus: usize,
    pub memory_gib: f64,
    pub kernel: String,
    /// Median milliseconds of a write of one page with `fdatasync`.
    pub fsync_ms: f64,
    /// Median milliseconds from the start of `true` to its exit.
    pub spawn_ms: f64,
}

impl MachineFigures {
    /// Measures this machine, with a file in `folder`.
    ///
    /// # Errors
    /// If the file cannot be written, or no process can be started.
    pub fn measure(folder: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(folder)?;
        let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let memory_info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let memory_kib: f64 =
            field_text(&memory_info, "MemTotal").trim_end_matches(" kB").parse().unwrap_or(0.0);
        Ok(Self {
            cpu: field_text(&cpu_info, "model name").to_owned(),
            cpus: std::thread::available_parallelism().map_or(0, usize::from),
            memory_gib: (memory_kib / 1_048_576.0).round(),
            kernel: kernel.trim().to_owned(),
            fsync_ms: median_sync_ms(&folder.join("sync"))?,
            spawn_ms: median_spawn_ms()?,
        })
    }

    /// Returns the line for the terminal.
    pub fn text(&self) -> String {
        format!(
            "machine: {} × {}, {:.0} GiB, Linux {}; a sync {:.3} ms, a process {:.2} ms",
            self.cpus, self.cpu, self.memory_gib, self.kernel, self.fsync_ms, self.spawn_ms
        )
    }

    pub fn to_json(&self) -> Value {
        json!({
            "cpu": self.cpu, "cpus": self.cpus, "memory_gib": self.memory_gib, "kernel": self.kernel,
            "fsync_ms": round_micro(self.fsync_ms), "spawn_ms": round_micro(self.spawn_ms),
        })
    }
}

/// Returns the commit of a checkout, with `+` after it if files differ from the commit.
///
/// # Errors
/// If `git` fails.
pub fn revision(root: &Path) -> anyhow::Result<String> {
    let commit = CommandSpec::from_line("git rev-parse --short=12 HEAD").output(root)?;
    let changes = CommandSpec::from_line("git status --porcelain --untracked-files=no").output(root)?;
    Ok(format!("{}{}", commit.trim(), if changes.trim().is_empty() { "" } else { "+" }))
}

/// Returns the value of the first line `NAME: VALUE` in a file of `/proc`.
fn field_text<'t>(text: &'t str, name: &str) -> &'t str {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
    line.unwrap_or_default().trim()
}

fn median_sync_ms(path: &Path) -> anyhow::Result<f64> {
    let mut file = OpenOptions::new().create(true).append(true).open(path).context("open a file to sync")?;
    let mut times = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let start = Instant::now();
        file.write_all(&[0; SYNC_BYTES])?;
        file.sync_data()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    fs::remove_file(path)?;
    Ok(median(times))
}

fn median_spawn_ms() -> anyhow::Result<f64> {
    let mut times = Vec::with_capacity(SPAWNS);
    for _ in 0..SPAWNS {
        let start = Instant::now();
        Command::new("true").stdin(Stdio::null()).stdout(Stdio::null()).status().context("start `true`")?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(times))
}

fn round_micro(milliseconds: f64) -> f64 {
    (milliseconds * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_proc_is_found_by_its_name() {
        let text = "MemTotal:       24683844 kB\nMemFree: 1 kB\nmodel name\t: Fast CPU\n";
        assert_eq!(field_text(text, "MemTotal"), "24683844 kB");
        assert_eq!(field_text(text, "model name"), "Fast CPU");
        assert_eq!(field_text(text, "Swap"), "");
    }
}
