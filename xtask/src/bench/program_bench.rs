//! Benchmarks of delays that a user notices: start-up, the thread list, a turn, and the handoff of a long session.
//!
//! Each measurement is a new process of the built program. Wall-clock time and peak memory are measured from outside
//! the process.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::session_generator;

/// Number of processes of which [`median_cost`] takes the median.
const START_UP_RUNS: usize = 30;
/// Number of threads for the measurement of the thread list.
const THREAD_COUNT: usize = 10_000;
/// Lengths of the sessions for the measurement of handoffs, in messages.
const SESSION_LENGTHS: [usize; 3] = [1_000, 10_000, 100_000];
/// Lengths of the threads for the measurement of turns, in messages; 0 is a new thread.
const TURN_LENGTHS: [usize; 4] = [0, 100, 5_000, 50_000];
/// Interval between two reads of the memory of a running process.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Environment variables of API keys. They are removed, so that the program uses the offline summary and not a model.
const PROVIDER_KEY_VARIABLES: [&str; 3] = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"];

/// The cost of one process.
struct ProcessCost {
    /// Wall-clock time from start to exit.
    time: Duration,
    /// Peak resident memory in KiB; 0 if the system does not report it.
    peak_kib: u64,
}

/// Runs all measurements and prints one line for each. `folder` is emptied first and removed at the end.
///
/// # Errors
/// If a process fails or a file cannot be written.
pub fn measure_program(program: &Path, folder: &Path) -> anyhow::Result<()> {
    remove_folder(folder)?;
    fs::create_dir_all(folder)?;
    println!("program ({})", program.display());
    let home = folder.join("home");
    print_cost("true, the least that a process costs", &median_cost(Path::new("true"), &home, &[])?);
    print_cost("segue --version", &median_cost(program, &home, &["--version"])?);
    for messages in SESSION_LENGTHS {
        measure_handoff(program, folder, messages)?;
    }
    measure_thread_list(program, folder)?;
    measure_turns(program, folder)?;
    remove_folder(folder)
}

/// Measures whole turns. The model server answers immediately, so the result is the program's own time.
fn measure_turns(program: &Path, folder: &Path) -> anyhow::Result<()> {
    let server = ModelServer::start(program, folder)?;
    for messages in TURN_LENGTHS {
        let home = folder.join(format!("home-turn-{messages}"));
        server.configure(&home)?;
        if messages == 0 {
            print_cost("run -p, a new thread", &median_cost(program, &home, &["run", "-p", "hi"])?);
            match count_syncs(program, &home, &["run", "-p", "hi"])? {
                Some(syncs) => println!("  {:<72} {syncs:>9} syncs to disk", "run -p, a new thread"),
                None => {
                    println!("  run -p: the syncs to disk are not counted, because strace is not installed")
                }
            }
            continue;
        }
        let file = folder.join(format!("turn-{messages}.jsonl"));
        write_session(&file, messages, messages)?;
        run_measured(program, &home, &["import", &file.to_string_lossy()])?;
        let cost = median_cost(program, &home, &["run", "-t", "last", "-p", "hi"])?;
        print_cost(&format!("run -t last -p, a thread of {messages} messages"), &cost);
    }
    Ok(())
}

/// A process of the scripted model server, which is built into the same folder as the program.
struct ModelServer {
    process: Child,
    /// The base URL of the server.
    url: String,
}

impl ModelServer {
    /// Starts the server and reads its URL from its first line of output.
    fn start(program: &Path, folder: &Path) -> anyhow::Result<Self> {
        let script = folder.join("script.json");
        fs::write(&script, r#"{"replies":[{"always":true,"text":["Hello."]}],"requests_kept":1}"#)?;
        let path = program.with_file_name("segue-test-model");
        let mut command = Command::new(&path);
        let mut process = command
            .arg(&script)
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {}", path.display()))?;
        let mut url = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output).read_line(&mut url)?;
        }
        Ok(Self { process, url: url.trim().to_owned() })
    }

    /// Writes a configuration to `home` with which the program uses this server.
    fn configure(&self, home: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(home)?;
        let url = &self.url;
        let text = format!(
            "model = \"openai-chat/bench\"\n[providers.openai-chat]\nbase_url = \"{url}\"\napi_key = \"none\"\n"
        );
        Ok(fs::write(home.join("config.toml"), text)?)
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        // Both fail only if the process has exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Measures the preview of a handoff from a session file: with its import, and again when it is imported already.
fn measure_handoff(program: &Path, folder: &Path, messages: usize) -> anyhow::Result<()> {
    let file = folder.join(format!("{messages}.jsonl"));
    write_session(&file, messages, messages)?;
    let megabytes = fs::metadata(&file)?.len() as f64 / 1e6;
    let home = folder.join(format!("home-{messages}"));
    let path = file.to_string_lossy();
    let args = ["handoff", &path, "--preview", "--json"];
    let first = run_measured(program, &home, &args)?;
    print_cost(
        &format!("handoff FILE --preview, {messages} messages ({megabytes:.1} MB), first time"),
        &first,
    );
    let second = run_measured(program, &home, &args)?;
    print_cost(&format!("handoff FILE --preview, {messages} messages, imported before"), &second);
    Ok(())
}

/// Measures the import of many sessions and the list of the resulting threads.
fn measure_thread_list(program: &Path, folder: &Path) -> anyhow::Result<()> {
    let sessions = folder.join("sessions");
    fs::create_dir_all(&sessions)?;
    for name in 0..THREAD_COUNT {
        write_session(&sessions.join(format!("{name}.jsonl")), name, 4)?;
    }
    let home = folder.join("home-threads");
    let path = sessions.to_string_lossy();
    print_cost(
        &format!("import FOLDER, {THREAD_COUNT} sessions"),
        &run_measured(program, &home, &["import", &path])?,
    );
    print_cost(
        &format!("threads list, {THREAD_COUNT} threads"),
        &median_cost(program, &home, &["threads", "list"])?,
    );
    Ok(())
}

/// Writes a generated session to a file.
fn write_session(path: &Path, name: usize, messages: usize) -> anyhow::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    session_generator::write_session(&mut out, name, messages)?;
    out.flush().with_context(|| format!("write {}", path.display()))
}

/// Returns how often the process syncs a file to disk, or `None` if `strace` is not installed.
fn count_syncs(program: &Path, home: &Path, args: &[&str]) -> anyhow::Result<Option<usize>> {
    let trace = home.with_extension("strace");
    let mut command = Command::new("strace");
    command.args(["-f", "-e", "trace=fsync,fdatasync", "-o"]).arg(&trace).arg(program);
    let status = match prepare(&mut command, home, args).stderr(Stdio::null()).status() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        status => status.context("start strace")?,
    };
    if !status.success() {
        bail!("`strace segue {}` exited with {status}", args.join(" "));
    }
    let lines = fs::read_to_string(&trace)?;
    // A call that another thread interrupts has a second line, which does not contain the opening parenthesis.
    Ok(Some(lines.lines().filter(|line| line.contains("sync(")).count()))
}

/// Returns the cost of the process with the median time of [`START_UP_RUNS`] runs.
fn median_cost(program: &Path, home: &Path, args: &[&str]) -> anyhow::Result<ProcessCost> {
    let mut costs: Vec<ProcessCost> =
        (0..START_UP_RUNS).map(|_| run_measured(program, home, args)).collect::<Result<_, _>>()?;
    costs.sort_by_key(|cost| cost.time);
    Ok(costs.swap_remove(START_UP_RUNS / 2))
}

/// Runs the program once and returns its cost.
///
/// # Errors
/// If the program cannot be started or fails.
fn run_measured(program: &Path, home: &Path, args: &[&str]) -> anyhow::Result<ProcessCost> {
    let mut command = Command::new(program);
    prepare(&mut command, home, args);
    let begin = Instant::now();
    let mut child = command.spawn().with_context(|| format!("start {}", program.display()))?;
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

/// Adds the arguments and the environment of a measured process to the command.
fn prepare<'c>(command: &'c mut Command, home: &Path, args: &[&str]) -> &'c mut Command {
    for key in PROVIDER_KEY_VARIABLES {
        command.env_remove(key);
    }
    command.args(args).env("SEGUE_HOME", home).stdin(Stdio::null()).stdout(Stdio::null())
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

/// Prints one line with a label, milliseconds and MiB.
fn print_cost(label: &str, cost: &ProcessCost) {
    let milliseconds = cost.time.as_secs_f64() * 1e3;
    let megabytes = cost.peak_kib as f64 / 1024.0;
    println!("  {label:<72} {milliseconds:>9.1} ms {megabytes:>7.1} MiB");
}

/// Removes a folder with its content, if it exists.
fn remove_folder(folder: &Path) -> anyhow::Result<()> {
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
    fn the_peak_memory_is_parsed() {
        assert_eq!(parse_peak_kib("Name:\tsegue\nVmHWM:\t    5120 kB\n"), Some(5120));
        assert_eq!(parse_peak_kib("Name:\tsegue\n"), None);
    }
}
