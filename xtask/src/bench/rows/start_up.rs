//! Delays that a user notices: start-up, the thread list, a turn, and the handoff of a long session.
//!
//! Each measurement is a new process of the built program. Wall-clock time and peak memory are measured from outside
//! the process.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::super::harness::BenchContext;
use super::super::harness::home::{BenchHome, write_session_file};
use super::super::harness::model::ModelServer;
use super::super::report::Measurement;

/// Number of processes of which [`median_cost`] takes the median.
const START_UP_RUNS: usize = 30;
/// Number of threads for the measurement of the thread list.
const THREAD_COUNT: usize = 10_000;
/// Messages of each of these threads.
const THREAD_MESSAGES: usize = 4;
/// Lengths of the sessions for the measurement of handoffs, in messages.
const SESSION_LENGTHS: [usize; 3] = [1_000, 10_000, 100_000];
/// Lengths of the threads for the measurement of turns, in messages; 0 is a new thread.
const TURN_LENGTHS: [usize; 4] = [0, 100, 5_000, 50_000];
/// Interval between two reads of the memory of a running process.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The cost of one process.
struct ProcessCost {
    /// Wall-clock time from start to exit.
    time: Duration,
    /// Peak resident memory in KiB; 0 if the system does not report it.
    peak_kib: u64,
}

impl ProcessCost {
    fn measurements(&self, name: &str) -> [Measurement; 2] {
        [
            Measurement::cost(name, self.time.as_secs_f64() * 1e3, "ms"),
            Measurement::cost(format!("{name}: peak memory"), self.peak_kib as f64 * 1.024 / 1e3, "MB"),
        ]
    }
}

/// Measures processes of the program.
///
/// # Errors
/// If a process fails or a file cannot be written.
pub fn measure_processes(context: &BenchContext) -> anyhow::Result<Vec<Measurement>> {
    let home = BenchHome::create(context, "start-up")?;
    let mut measurements = Vec::new();
    measurements.extend(median_cost(&home, &["--version"])?.measurements("segue --version"));
    for messages in SESSION_LENGTHS {
        measurements.extend(measure_handoff(context, messages)?);
    }
    measurements.extend(measure_thread_list(context)?);
    measurements.extend(measure_turns(context)?);
    Ok(measurements)
}

/// Measures whole turns. The model server answers immediately, so the result is the program's own time.
fn measure_turns(context: &BenchContext) -> anyhow::Result<Vec<Measurement>> {
    let server = ModelServer::start_with_answer(context, "Hello.")?;
    let mut measurements = Vec::new();
    for messages in TURN_LENGTHS {
        let home = BenchHome::create(context, &format!("turn-{messages}"))?;
        home.configure(&server.config(""))?;
        if messages == 0 {
            let args = ["run", "-p", "hi"];
            measurements.extend(median_cost(&home, &args)?.measurements("run -p, a new thread"));
            let syncs = count_syncs(&home, &context.folder.join("strace"), &args)?;
            measurements.extend(
                syncs.map(|syncs| Measurement::cost("run -p, a new thread: syncs", syncs as f64, "syncs")),
            );
            continue;
        }
        home.import_session(messages)?;
        let cost = median_cost(&home, &["run", "-t", "last", "-p", "hi"])?;
        measurements.extend(cost.measurements(&format!("run -t last -p, a thread of {messages} messages")));
    }
    Ok(measurements)
}

/// Measures the preview of a handoff from a session file: with its import, and again when it is imported already.
fn measure_handoff(context: &BenchContext, messages: usize) -> anyhow::Result<Vec<Measurement>> {
    let file = context.folder.join(format!("{messages}.jsonl"));
    write_session_file(&file, messages, messages)?;
    let home = BenchHome::create(context, &format!("preview-{messages}"))?;
    let path = file.to_string_lossy();
    let args = ["handoff", &path, "--preview", "--json"];
    let name = |part: &str| format!("handoff FILE --preview, {messages} messages, {part}");
    let mut measurements = run_measured(&home, &args)?.measurements(&name("first time")).to_vec();
    measurements.extend(run_measured(&home, &args)?.measurements(&name("imported before")));
    Ok(measurements)
}

/// Measures the import of many sessions and the list of the resulting threads.
fn measure_thread_list(context: &BenchContext) -> anyhow::Result<Vec<Measurement>> {
    let sessions = context.folder.join("sessions");
    fs::create_dir_all(&sessions)?;
    for name in 0..THREAD_COUNT {
        write_session_file(&sessions.join(format!("{name}.jsonl")), name, THREAD_MESSAGES)?;
    }
    let home = BenchHome::create(context, "threads")?;
    let path = sessions.to_string_lossy();
    let import = run_measured(&home, &["import", &path])?;
    let list = median_cost(&home, &["threads", "list"])?;
    let mut measurements = import.measurements(&format!("import FOLDER, {THREAD_COUNT} sessions")).to_vec();
    measurements.extend(list.measurements(&format!("threads list, {THREAD_COUNT} threads")));
    Ok(measurements)
}

/// Returns how often the process syncs a file to disk, or `None` if `strace` is not installed.
fn count_syncs(home: &BenchHome, trace: &Path, args: &[&str]) -> anyhow::Result<Option<usize>> {
    let traced = home.command(args);
    let mut command = Command::new("strace");
    command.args(["-f", "-e", "trace=fsync,fdatasync", "-o"]).arg(trace).arg(traced.get_program()).args(args);
    command.current_dir(home.workspace());
    for (name, value) in traced.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let silent = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = match silent.status() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        status => status.context("start strace")?,
    };
    if !status.success() {
        bail!("`strace segue {}` exited with {status}", args.join(" "));
    }
    let lines = fs::read_to_string(trace)?;
    // A call that another thread interrupts has a second line, which does not contain the opening parenthesis.
    Ok(Some(lines.lines().filter(|line| line.contains("sync(")).count()))
}

/// Returns the cost of the process with the median time of [`START_UP_RUNS`] runs.
fn median_cost(home: &BenchHome, args: &[&str]) -> anyhow::Result<ProcessCost> {
    let mut costs: Vec<ProcessCost> =
        (0..START_UP_RUNS).map(|_| run_measured(home, args)).collect::<Result<_, _>>()?;
    costs.sort_by_key(|cost| cost.time);
    Ok(costs.swap_remove(START_UP_RUNS / 2))
}

/// Runs the program once and returns its cost.
///
/// # Errors
/// If the program cannot be started or fails.
fn run_measured(home: &BenchHome, args: &[&str]) -> anyhow::Result<ProcessCost> {
    let mut command = home.command(args);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let begin = Instant::now();
    let mut child: Child = command.spawn().context("start segue")?;
    let process = child.id();
    // A second thread polls the memory, so that the wait for the exit has no polling delay.
    let poller = thread::spawn(move || poll_peak_kib(process));
    let status = child.wait()?;
    let time = begin.elapsed();
    let peak_kib = poller.join().unwrap_or(0);
    if !status.success() {
        bail!("`segue {}` exited with {status}", args.join(" "));
    }
    Ok(ProcessCost { time, peak_kib })
}

/// Polls the peak memory of a process until it exits and returns the last value in KiB. Returns 0 on systems without
/// `/proc`.
fn poll_peak_kib(process: u32) -> u64 {
    let mut peak = 0;
    while let Some(now) =
        fs::read_to_string(format!("/proc/{process}/status")).ok().as_deref().and_then(parse_peak_kib)
    {
        peak = now;
        thread::sleep(POLL_INTERVAL);
    }
    peak
}

/// Returns the peak resident memory in KiB from the text of `/proc/PID/status`.
fn parse_peak_kib(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_memory_is_parsed() {
        assert_eq!(parse_peak_kib("Name:\tsegue\nVmHWM:\t    5120 kB\n"), Some(5120));
        assert_eq!(parse_peak_kib("Name:\tsegue\n"), None);
    }
}
