//! Benchmarks of a handoff without the model: preview, refine and accept over threads of growing length, on a
//! database on disk with every commit durable. The model answers at once; the way to it over HTTP is measured by itself
//! and taken off.
//!
//! `cargo bench -p segue-agent --bench handoff` prints a table; nothing is asserted.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::{
    Agent, AgentSettings, CancellationToken, FrameSender, HandoffRequestOptions, HomeFolder, PendingHandoff,
};
use jiff::Timestamp;
use journal::{Transaction, Write};
use protocol::{AiMessage, ContentBlock, Decisions, Message, NewEvent, ThreadId, ToolMessage};
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

/// Lengths of the threads, in messages.
const LENGTHS: [usize; 4] = [120, 1_000, 5_000, 50_000];
/// Handoffs measured at each length.
const ROUNDS: usize = 40;
/// Messages appended in one transaction while a thread is filled.
const FILL_ROWS: usize = 1_000;
/// A draft as a model answers it.
const DRAFT: &str = r#"{"title":"The exporter drops rows","tldr":"The loop is mended; a test is still to be written.",
"body":[{"kind":"objective","text":"Find out why the exporter drops rows.","refs":[1]},
{"kind":"decision","text":"Never change the file format.","refs":[1]},
{"kind":"next_step","text":"Add a test for one row only.","refs":[3]}]}"#;

/// One message of a debugging session: a request, an answer, a call, its result.
fn message(at: usize) -> Message {
    let round = at / 4;
    match at % 4 {
        0 => {
            Message::human(format!("The exporter drops rows in part {round}. Never change the file format."))
        }
        1 => Message::Ai(AiMessage {
            content: vec![ContentBlock::ToolCall {
                id: format!("c{at}"),
                name: "execute".to_owned(),
                args: json!({"command": format!("cargo test -p export part_{round}")}),
            }],
            ..AiMessage::default()
        }),
        2 => Message::Tool(ToolMessage {
            id: None,
            call_id: format!("c{}", at - 1),
            name: Some("execute".to_owned()),
            content: vec![ContentBlock::text("running 12 tests, all fine here\n".repeat(20))],
            status: protocol::ToolStatus::Success,
        }),
        _ => Message::ai(format!(
            "Part {round} is mended in src/export/part_{round}.rs; a test for one row only is next."
        )),
    }
}

async fn filled_thread(agent: &Agent, messages: usize) -> ThreadId {
    let thread_id = agent.threads().create(None).await.expect("a thread can be made").thread_id;
    for first in (0..messages).step_by(FILL_ROWS) {
        let events = (first..messages.min(first + FILL_ROWS))
            .map(|at| NewEvent::from_message(&message(at), Timestamp::now()).expect("a message is JSON"))
            .collect();
        let writes = vec![Write::Append { thread_id, events }];
        agent.store().commit(Transaction { fence: None, writes }).await.expect("the journal can be written");
    }
    thread_id
}

async fn agent(folder: &Path, server: &ScriptedServer) -> Agent {
    let home = HomeFolder::locate(Some(folder.join("home").as_os_str())).expect("a home can be named");
    home.create().expect("a home can be made");
    let url = server.url();
    let config = format!(
        "[providers.anthropic]\nbase_url = \"{url}\"\napi_key = \"bench\"\n[handoff]\nmax_refinements = 1000\n"
    );
    std::fs::write(home.config_path(), config).expect("the settings can be written");
    let settings =
        AgentSettings { model: Some("anthropic/instant".to_owned()), ..AgentSettings::new(home, folder) };
    Agent::open(settings).await.expect("the agent opens")
}

fn decisions(decision: &Value) -> Decisions {
    serde_json::from_value(json!({"decisions": [decision]})).expect("a decision is well formed")
}

/// The times of one handoff.
struct HandoffTimings {
    preview: Duration,
    refine: Duration,
    accept: Duration,
}

async fn measure_handoff(agent: &Agent, thread_id: ThreadId) -> HandoffTimings {
    let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
    let began = Instant::now();
    let pending =
        agent.handoffs().request(thread_id, HandoffRequestOptions::default(), &frames, &cancel).await;
    let pending = pending.expect("a draft is made");
    let preview = began.elapsed();
    assert_eq!(pending.problem, None);
    let feedback = json!({"name": "handoff_summary", "args": {"feedback": "Shorter."}});
    let began = Instant::now();
    let refined = decide(agent, &pending, &json!({"type": "edit", "edited_action": feedback})).await;
    let refine = began.elapsed();
    let refined = refined.next.expect("another draft is made");
    assert_eq!(refined.problem, None);
    let began = Instant::now();
    let accepted = decide(agent, &refined, &json!({"type": "approve"})).await;
    let accept = began.elapsed();
    agent
        .threads()
        .delete(accepted.child_thread_id.expect("there is a child"))
        .await
        .expect("it can be deleted");
    HandoffTimings { preview, refine, accept }
}

async fn decide(agent: &Agent, pending: &PendingHandoff, decision: &Value) -> agent::HandoffOutcome {
    let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
    let answer = decisions(decision);
    let decided = agent.handoffs().decide(pending.handoff.handoff_id, &answer, &frames, &cancel).await;
    decided.expect("the decision is taken")
}

/// Returns how long a request of a draft's size takes to the model and back.
async fn model_round_trip(server: &ScriptedServer) -> Duration {
    let settings = model::ProviderSettings {
        base_url: Some(server.url().to_owned()),
        api_key: Some("bench".to_owned().into()),
        ..model::ProviderSettings::default()
    };
    let name = "anthropic/instant".parse().expect("the name is well formed");
    let connected = model::connect(name, settings).expect("a client can be made");
    let text = "word ".repeat(12_000);
    let request = model::ChatRequest {
        messages: Arc::new(vec![Message::human(text)]),
        ..model::ChatRequest::default()
    };
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let mut parts = connected.stream(&request).await.expect("the model answers");
        while let Some(part) = futures::StreamExt::next(&mut parts).await {
            part.expect("the answer is whole");
        }
        times.push(began.elapsed());
    }
    median(times)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let server =
        ScriptedServer::start(Script::new([ScriptedReply::text(DRAFT).with_repeat()]).with_requests_kept(1))
            .expect("a server starts");
    let way = model_round_trip(&server).await;
    println!("the way to the model and back: {:.3} ms, taken off preview and refine", milliseconds(way));
    println!(
        "{:>9}  {:>10}  {:>11}  {:>10}  {:>10}",
        "messages", "first ms", "preview ms", "refine ms", "accept ms"
    );
    for length in LENGTHS {
        let folder = tempfile::tempdir_in(".").expect("a folder can be made here");
        let agent = agent(folder.path(), &server).await;
        let thread_id = filled_thread(&agent, length).await;
        let first = measure_handoff(&agent, thread_id).await.preview.saturating_sub(way);
        let mut all = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let times = measure_handoff(&agent, thread_id).await;
            all.0.push(times.preview.saturating_sub(way));
            all.1.push(times.refine.saturating_sub(way));
            all.2.push(times.accept);
        }
        let [preview, refine, accept] = [median(all.0), median(all.1), median(all.2)].map(milliseconds);
        println!(
            "{length:>9}  {:>10.2}  {preview:>11.3}  {refine:>10.3}  {accept:>10.3}",
            milliseconds(first)
        );
    }
}
