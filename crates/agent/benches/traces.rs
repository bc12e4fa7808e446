//! Benchmarks of tracing for a step of a model that answers at once, on a database on disk with every commit durable:
//! without it, with spans
//! counted, and with spans sent to a collector on the same machine, content and all. The three take turns, so that what else the
//! machine does meets them alike.
//!
//! `cargo bench -p segue-agent --bench traces` prints a table; nothing is asserted.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use agent::{Agent, AgentSettings, CancellationToken, FrameSender, HomeFolder, TraceExport};
use protocol::{HumanMessage, ThreadId};
use test_model::{Script, ScriptedReply, ScriptedServer};

/// Turns of each that are measured, one step each.
const TURNS: usize = 300;
/// Turns before, that are not.
const WARM_UP: usize = 20;

/// One way to work, with what it works on.
struct TracingSetup {
    name: &'static str,
    agent: Agent,
    thread_id: ThreadId,
    _traces: Option<TraceExport>,
    durations: Vec<Duration>,
}

/// Takes whatever is posted, and answers that it was taken.
fn start_collector() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}/v1/traces", listener.local_addr().expect("it has an address"));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || accept_post(&stream));
        }
    });
    url
}

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
            if let Some(given) = line.strip_prefix("content-length: ") {
                length = given.trim().parse().ok()?;
            }
        }
        reader.read_exact(&mut vec![0; length]).ok()?;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").ok()?;
    }
}

async fn agent(folder: &Path, server: &ScriptedServer, tracing: &str) -> Agent {
    let home = HomeFolder::locate(Some(folder.join("home").as_os_str())).expect("a home can be named");
    home.create().expect("a home can be made");
    let config =
        format!("[providers.anthropic]\nbase_url = \"{}\"\napi_key = \"bench\"\n{tracing}", server.url());
    std::fs::write(home.config_path(), config).expect("the settings can be written");
    let settings =
        AgentSettings { model: Some("anthropic/instant".to_owned()), ..AgentSettings::new(home, folder) };
    Agent::open(settings).await.expect("the agent opens")
}

impl TracingSetup {
    async fn turn(&self) -> Duration {
        let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
        let begun = Instant::now();
        let message = HumanMessage::text("Which part is next?");
        self.agent
            .runs()
            .send_message(self.thread_id, message, &frames, &cancel)
            .await
            .expect("the turn is done");
        begun.elapsed()
    }

    /// Returns the time that half of the turns took at most.
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
        (0..3).map(|_| tempfile::tempdir().expect("a folder can be made")).collect();
    let sending = format!("[tracing]\nendpoint = \"{}\"\ncontent = true\n", start_collector());
    let mut ways = Vec::new();
    for (name, tracing, folder) in
        [("without", "", &folders[0]), ("counted", "", &folders[1]), ("sent", sending.as_str(), &folders[2])]
    {
        let agent = agent(folder.path(), &server, tracing).await;
        let traces = if name == "without" { None } else { agent.admin().start_trace_export_with_metrics() };
        let thread_id = agent.threads().create(None).await.expect("a thread can be made").thread_id;
        ways.push(TracingSetup { name, agent, thread_id, _traces: traces, durations: Vec::new() });
    }
    for turn in 0..WARM_UP + TURNS {
        for way in &mut ways {
            let took = way.turn().await;
            if turn >= WARM_UP {
                way.durations.push(took);
            }
        }
    }
    let without = ways[0].median();
    println!("{:<10} {:>12} {:>8}", "tracing", "a step", "ratio");
    for way in &mut ways {
        let took = way.median();
        println!(
            "{:<10} {:>9.2} ms {:>8.3}",
            way.name,
            took.as_secs_f64() * 1e3,
            took.as_secs_f64() / without.as_secs_f64()
        );
    }
}
