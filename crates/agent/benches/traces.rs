//! Benchmarks of the cost of tracing for one model step, on a database on disk with durable commits: without tracing, with
//! spans only counted, and with spans and their content sent to a collector on the same machine. The three setups
//! alternate, so that other load of the machine affects all of them equally. The scripted model answers at once.
//!
//! `cargo bench -p segue-agent --bench traces` prints a table; nothing is asserted.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use agent::{Agent, AgentSettings, CancellationToken, FrameSender, HomeFolder, TraceExport};
use protocol::{HumanMessage, ThreadId};
use test_model::{Script, ScriptedReply, ScriptedServer};

/// Measured turns of each setup, one model step each.
const TURNS: usize = 300;
/// Turns of each setup before the measurement.
const WARM_UP: usize = 20;

/// A tracing configuration with its agent, its thread and the measured durations.
struct TracingSetup {
    name: &'static str,
    agent: Agent,
    thread_id: ThreadId,
    _traces: Option<TraceExport>,
    durations: Vec<Duration>,
}

/// Starts a collector that accepts every POST request, and returns its URL.
fn start_collector() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}/v1/traces", listener.local_addr().expect("the listener has an address"));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || accept_post(&stream));
        }
    });
    url
}

/// Answers every request of a connection with status 200. Returns `None` at the end of the connection.
fn accept_post(stream: &TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut stream = stream;
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            (reader.read_line(&mut line).ok()? > 0).then_some(())?;
            if line.trim().is_empty() {
                break;
            }
            let line = line.to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim().parse().ok()?;
            }
        }
        reader.read_exact(&mut vec![0; length]).ok()?;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").ok()?;
    }
}

/// Opens an agent whose home is in `folder`. `tracing` is added to its settings.
async fn agent(folder: &Path, server: &ScriptedServer, tracing: &str) -> Agent {
    let home = HomeFolder::locate(Some(folder.join("home").as_os_str())).expect("the home folder has a path");
    home.create().expect("the home folder can be created");
    let config =
        format!("[providers.anthropic]\nbase_url = \"{}\"\napi_key = \"bench\"\n{tracing}", server.url());
    std::fs::write(home.config_path(), config).expect("the settings are written");
    let settings =
        AgentSettings { model: Some("anthropic/instant".to_owned()), ..AgentSettings::new(home, folder) };
    Agent::open(settings).await.expect("the agent opens")
}

impl TracingSetup {
    /// Runs a turn and returns its duration.
    async fn turn(&self) -> Duration {
        let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
        let start = Instant::now();
        let message = HumanMessage::text("Which part is next?");
        self.agent
            .runs()
            .send_message(self.thread_id, message, &frames, &cancel)
            .await
            .expect("the turn ends");
        start.elapsed()
    }

    /// Returns the median duration.
    fn median(&mut self) -> Duration {
        self.durations.sort_unstable();
        self.durations[self.durations.len() / 2]
    }
}

#[tokio::main]
async fn main() {
    let server = ScriptedServer::start(Script::new([ScriptedReply::text("Part 7 is next.").with_repeat()]))
        .expect("a port is free");
    let folders: Vec<tempfile::TempDir> =
        (0..3).map(|_| tempfile::tempdir().expect("a folder can be created")).collect();
    let export_settings = format!("[tracing]\nendpoint = \"{}\"\ncontent = true\n", start_collector());
    let mut setups = Vec::new();
    for (name, tracing, folder) in [
        ("without", "", &folders[0]),
        ("counted", "", &folders[1]),
        ("sent", export_settings.as_str(), &folders[2]),
    ] {
        let agent = agent(folder.path(), &server, tracing).await;
        let traces = if name == "without" { None } else { agent.admin().start_trace_export_with_metrics() };
        let thread_id = agent.threads().create(None).await.expect("a thread can be created").thread_id;
        setups.push(TracingSetup { name, agent, thread_id, _traces: traces, durations: Vec::new() });
    }
    for turn in 0..WARM_UP + TURNS {
        for setup in &mut setups {
            let duration = setup.turn().await;
            if turn >= WARM_UP {
                setup.durations.push(duration);
            }
        }
    }
    let without = setups[0].median();
    println!("{:<10} {:>12} {:>8}", "tracing", "step", "ratio");
    for setup in &mut setups {
        let duration = setup.median();
        println!(
            "{:<10} {:>9.2} ms {:>8.3}",
            setup.name,
            duration.as_secs_f64() * 1e3,
            duration.as_secs_f64() / without.as_secs_f64()
        );
    }
}
