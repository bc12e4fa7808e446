//! Benchmarks of the waits that a user notices: start-up, the thread list and the handoff of a long session, each as a
//! new process of the built program. Time and peak memory are measured from outside, not by the program's own clock.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::session_generator;

const START_UP_RUNS: usize = 30;
const THREAD_COUNT: usize = 10_000;
const SESSION_LENGTHS: [usize; 3] = [1_000, 10_000, 100_000];
/// Messages of the threads in which turns are measured; 0 is a new one.
const TURN_LENGTHS: [usize; 4] = [0, 100, 5_000, 50_000];
/// How often the memory of a running process is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Keys that would make the program use a model instead of the extract.
const PROVIDER_KEY_VARIABLES: [&str; 3] = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"];

/// The time and memory of one process.
struct ProcessCost {
    time: Duration,
    peak_kib: u64,
}

/// Measures and prints; `folder` is emptied first and removed at the end.
///
/// # Errors
/// When a process fails or a file cannot be written.
pub fn measure_program(program: &Path, folder: &Path) -> anyhow::Result<()> {
    remove_folder(folder)?;
    fs::create_dir_all(folder)?;
    println!("program ({})", program.display());
    let home = folder.join("home");
    print_cost("segue --version", &median_cost(program, &home, &["--version"])?);
    for messages in SESSION_LENGTHS {
        measure_handoff(program, folder, messages)?;
    }
    measure_thread_list(program, folder)?;
    measure_turns(program, folder)?;
    remove_folder(folder)
}

/// Measures whole turns of the program against a model server that answers at once: its own time is all there is.
fn measure_turns(program: &Path, folder: &Path) -> anyhow::Result<()> {
    let server = ModelServer::start(program, folder)?;
    for messages in TURN_LENGTHS {
        let home = folder.join(format!("home-turn-{messages}"));
        server.configure(&home)?;
        if messages == 0 {
            print_cost("run -p, a new thread", &median_cost(program, &home, &["run", "-p", "hi"])?);
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

/// The scripted model server, built beside the program, as a process of its own.
struct ModelServer {
    process: Child,
    url: String,
}

impl ModelServer {
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
        // It ends with this process at the latest.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

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
    let again = run_measured(program, &home, &args)?;
    print_cost(&format!("handoff FILE --preview, {messages} messages, imported before"), &again);
    Ok(())
}

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

fn write_session(path: &Path, name: usize, messages: usize) -> anyhow::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    session_generator::write_session(&mut out, name, messages)?;
    out.flush().with_context(|| format!("write {}", path.display()))
}

fn median_cost(program: &Path, home: &Path, args: &[&str]) -> anyhow::Result<ProcessCost> {
    let mut costs: Vec<ProcessCost> =
        (0..START_UP_RUNS).map(|_| run_measured(program, home, args)).collect::<Result<_, _>>()?;
    costs.sort_by_key(|cost| cost.time);
    Ok(costs.swap_remove(START_UP_RUNS / 2))
}

fn run_measured(program: &Path, home: &Path, args: &[&str]) -> anyhow::Result<ProcessCost> {
    let mut command = Command::new(program);
    command.args(args).env("SEGUE_HOME", home).stdin(Stdio::null()).stdout(Stdio::null());
    for key in PROVIDER_KEY_VARIABLES {
        command.env_remove(key);
    }
    let begin = Instant::now();
    let mut child = command.spawn().with_context(|| format!("start {}", program.display()))?;
    let process = child.id();
    // Waiting is left to the kernel, so that looking at the memory does not add to the time.
    let watch = thread::spawn(move || poll_peak_kib(process));
    let status = child.wait()?;
    let time = begin.elapsed();
    let peak_kib = watch.join().unwrap_or(0);
    if !status.success() {
        bail!("`segue {}` ended with {status}", args.join(" "));
    }
    Ok(ProcessCost { time, peak_kib })
}

/// Looks at a process until it is gone; returns the most memory it had, 0 where the system does not tell.
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

fn parse_peak_kib(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn print_cost(what: &str, cost: &ProcessCost) {
    let milliseconds = cost.time.as_secs_f64() * 1e3;
    let megabytes = cost.peak_kib as f64 / 1024.0;
    println!("  {what:<72} {milliseconds:>9.1} ms {megabytes:>7.1} MiB");
}

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
    fn the_high_water_mark_is_read() {
        assert_eq!(parse_peak_kib("Name:\tsegue\nVmHWM:\t    5120 kB\n"), Some(5120));
        assert_eq!(parse_peak_kib("Name:\tsegue\n"), None);
    }
}
