//! Turns of an agent that calls tools: in new threads, after many turns, in long compacted threads, and with a full prompt.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::harness::BenchContext;
use super::super::harness::client::{HttpClient, new_thread_id};
use super::super::harness::home::BenchHome;
use super::super::harness::model::{ModelServer, config_for_url};
use super::super::harness::relay::Relay;
use super::super::harness::server::ServeProcess;
use super::super::harness::statistics::median;
use super::super::report::Measurement;

/// Tool calls of one loop.
const LOOP_CALLS: usize = 100;
/// Measured loops; the median is the result.
const LOOPS: usize = 3;
/// Tool calls before the measurement of a thread that has many.
const EARLIER_CALLS: usize = 400;
/// Lengths of the compacted threads, in messages.
const COMPACTED_LENGTHS: [usize; 2] = [5_000, 50_000];
/// Messages with which a request has 1.36 MB.
const FULL_PROMPT_MESSAGES: usize = 4_590;
/// The context window into which they fit, in tokens.
const FULL_WINDOW_TOKENS: u64 = 1_000_000;
/// Measured turns with a full prompt, and turns before them.
const FULL_PROMPT_TURNS: usize = 20;
const FULL_PROMPT_WARM_UP_TURNS: usize = 3;
/// The prompt and the last answer of each loop.
const PROMPT: &str = "Look into the file until I stop you.";
const ANSWER: &str = "I looked.";
/// The file that the agent reads.
const FILE_NAME: &str = "notes.txt";
/// Settings with which a loop needs no approval, reaches no limit and no other call of the model.
const SECTIONS: &str = "[permissions]\nallow = [\"execute\", \"read_file\"]\n[run]\nsteps_max = 100000\n\
     model_calls_max = 10000\n[memory]\nenabled = false\n[compaction]\nenabled = false\n";

/// A tool that the agent calls.
#[derive(Debug, Clone, Copy)]
enum LoopTool {
    Shell,
    ReadFile,
}

impl LoopTool {
    /// Returns the replies of the model to one loop: the calls and an answer.
    fn replies(self, calls: usize) -> Vec<Value> {
        let (name, args) = match self {
            Self::Shell => ("execute", json!({"command": "echo ok"})),
            Self::ReadFile => ("read_file", json!({"file_path": FILE_NAME})),
        };
        let call = |number| json!({"calls": [{"id": format!("call_{number}"), "name": name, "args": args}]});
        (0..calls).map(call).chain([json!({"text": [ANSWER]})]).collect()
    }
}

/// Measures loops in new threads, with each tool, and after many calls.
///
/// # Errors
/// If a run fails.
pub fn measure_new_threads(context: &BenchContext) -> anyhow::Result<Vec<Measurement>> {
    let tools = [LoopTool::Shell, LoopTool::ReadFile];
    let mut replies = tools[0].replies(10);
    replies.extend(tools.iter().flat_map(|tool| (0..LOOPS).flat_map(|_| tool.replies(LOOP_CALLS))));
    for tool in tools {
        replies.extend(tool.replies(EARLIER_CALLS));
        replies.extend((0..LOOPS).flat_map(|_| tool.replies(LOOP_CALLS)));
    }
    let model = ModelServer::start(context, &replies)?;
    let home = BenchHome::create(context, "turns")?;
    home.configure(&model.config(SECTIONS))?;
    write_notes(&home)?;
    let server = ServeProcess::start(&home)?;
    let mut client = server.connect()?;
    run_loop(&mut client, &new_thread_id())?;
    let mut measurements = Vec::new();
    for (name, goal) in [("with the shell", 2.0), ("read_file", 1.0)] {
        let cpu_before = server.cpu_time()?;
        let time = median_turn_ms(|| run_loop(&mut client, &new_thread_id()))?;
        let cpu = server.cpu_time()?.saturating_sub(cpu_before).as_secs_f64() * 1e3;
        let name = format!("tool turn, new thread, {name}");
        measurements.push(Measurement::cost(&name, time, "ms").with_goal(goal));
        measurements.push(Measurement::cost(name + ": CPU", cpu / (LOOPS * LOOP_CALLS) as f64, "ms"));
    }
    for name in ["with the shell", "read_file"] {
        let thread = new_thread_id();
        run_loop(&mut client, &thread)?;
        let time = median_turn_ms(|| run_loop(&mut client, &thread))?;
        measurements.push(Measurement::cost(
            format!("tool turn after {EARLIER_CALLS} turns, {name}"),
            time,
            "ms",
        ));
    }
    Ok(measurements)
}

/// Measures loops in long threads that were compacted.
///
/// # Errors
/// If a run fails.
pub fn measure_compacted_threads(context: &BenchContext) -> anyhow::Result<Vec<Measurement>> {
    let mut measurements = Vec::new();
    for messages in COMPACTED_LENGTHS {
        let tool = LoopTool::ReadFile;
        let replies: Vec<Value> = (0..=LOOPS).flat_map(|_| tool.replies(LOOP_CALLS)).collect();
        let model = ModelServer::start(context, &replies)?;
        let home = BenchHome::create(context, &format!("compacted-{messages}"))?;
        // Without a model, the summary of the compaction is offline, and the replies are left to the loops.
        home.configure("[memory]\nenabled = false\n")?;
        let thread = home.import_session(messages)?;
        home.run_command(&["compact", &thread])?;
        home.configure(&model.config(SECTIONS))?;
        write_notes(&home)?;
        let server = ServeProcess::start(&home)?;
        let mut client = server.connect()?;
        run_loop(&mut client, &thread)?;
        let time = median_turn_ms(|| run_loop(&mut client, &thread))?;
        let name = format!("tool turn, {messages} messages compacted, read_file");
        measurements.push(Measurement::cost(name, time, "ms"));
    }
    Ok(measurements)
}

/// Measures turns without a tool in a long thread that was not compacted.
///
/// # Errors
/// If a run fails.
pub fn measure_full_prompt(context: &BenchContext) -> anyhow::Result<Vec<Measurement>> {
    let model = ModelServer::start_with_answer(context, ANSWER)?;
    let relay = Relay::start(model.address()?, Duration::ZERO)?;
    let home = BenchHome::create(context, "prompt")?;
    let sections = format!("context_tokens = {FULL_WINDOW_TOKENS}\n{SECTIONS}");
    home.configure(&config_for_url(&format!("http://{}", relay.address()), &sections))?;
    let thread = home.import_session(FULL_PROMPT_MESSAGES)?;
    let server = ServeProcess::start(&home)?;
    let mut client = server.connect()?;
    for _ in 0..FULL_PROMPT_WARM_UP_TURNS {
        run_loop(&mut client, &thread)?;
    }
    let (sent_before, cpu_before) = (relay.counts(), server.cpu_time()?);
    let mut times = Vec::new();
    for _ in 0..FULL_PROMPT_TURNS {
        let start = Instant::now();
        run_loop(&mut client, &thread)?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let megabytes = relay.counts().since(sent_before).request_bytes as f64 / FULL_PROMPT_TURNS as f64 / 1e6;
    let cpu = server.cpu_time()?.saturating_sub(cpu_before).as_secs_f64() * 1e3 / FULL_PROMPT_TURNS as f64;
    Ok(vec![
        Measurement::cost("turn with a full prompt", median(times), "ms").with_goal(6.0),
        Measurement::cost("turn with a full prompt: CPU", cpu, "ms"),
        Measurement::cost("turn with a full prompt: request", megabytes, "MB"),
    ])
}

/// Returns the median milliseconds of a turn in [`LOOPS`] loops.
fn median_turn_ms(mut run: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let mut times = Vec::with_capacity(LOOPS);
    for _ in 0..LOOPS {
        let start = Instant::now();
        run()?;
        times.push(start.elapsed().as_secs_f64() * 1e3 / LOOP_CALLS as f64);
    }
    Ok(median(times))
}

/// Runs one loop to its end.
fn run_loop(client: &mut HttpClient, thread: &str) -> anyhow::Result<()> {
    client.run_with_updates(&format!("/threads/{thread}/runs/stream"), PROMPT, ANSWER)
}

fn write_notes(home: &BenchHome) -> anyhow::Result<()> {
    Ok(fs::write(home.workspace().join(FILE_NAME), "A line of notes.\n".repeat(10))?)
}
