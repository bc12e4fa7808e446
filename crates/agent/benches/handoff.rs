//! Benchmarks of a handoff: preview, refine and accept over threads of growing length, on a database on disk with durable
//! commits. The scripted model answers at once. Its HTTP round trip is measured separately and subtracted.
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

/// Lengths of the measured threads, in messages.
const LENGTHS: [usize; 4] = [120, 1_000, 5_000, 50_000];
/// Handoffs measured at each length.
const ROUNDS: usize = 40;
/// Messages appended in one transaction while a thread is filled.
const FILL_ROWS: usize = 1_000;
/// The draft that the scripted model returns.
const DRAFT: &str = r#"{"title":"The exporter drops rows","tldr":"The loop is mended; a test is still to be written.",
"body":[{"kind":"objective","text":"Find out why the exporter drops rows.","refs":[1]},
{"kind":"decision","text":"Never change the file format.","refs":[1]},
{"kind":"next_step","text":"Add a test for one row only.","refs":[3]}]}"#;

/// Returns message number `index` of a debugging session: in turn a request, a call, its result, and an answer.
fn message(index: usize) -> Message {
    let round = index / 4;
    match index % 4 {
        0 => {
            Message::human(format!("The exporter drops rows in part {round}. Never change the file format."))
        }
        1 => Message::Ai(AiMessage {
            content: vec![ContentBlock::ToolCall {
                id: format!("c{index}"),
                name: "execute".to_owned(),
                args: json!({"command": format!("cargo test -p export part_{round}")}),
            }],
            ..AiMessage::default()
        }),
        2 => Message::Tool(ToolMessage {
            id: None,
            call_id: format!("c{}", index - 1),
            name: Some("execute".to_owned()),
            content: vec![ContentBlock::text("running 12 tests, all fine here\n".repeat(20))],
            status: protocol::ToolStatus::Success,
        }),
        _ => Message::ai(format!(
            "Part {round} is mended in src/export/part_{round}.rs; a test for one row only is next."
        )),
    }
}

/// Creates a thread with that many messages.
async fn filled_thread(agent: &Agent, messages: usize) -> ThreadId {
    let thread_id = agent.threads().create(None).await.expect("a thread can be created").thread_id;
    for first in (0..messages).step_by(FILL_ROWS) {
        let events = (first..messages.min(first + FILL_ROWS))
            .map(|index| {
                NewEvent::from_message(&message(index), Timestamp::now()).expect("a message is JSON")
            })
            .collect();
        let writes = vec![Write::Append { thread_id, events }];
        agent.store().commit(Transaction { fence: None, writes }).await.expect("the journal can be written");
    }
    thread_id
}

/// Opens an agent whose home is in `folder` and whose model is the scripted server.
async fn agent(folder: &Path, server: &ScriptedServer) -> Agent {
    let home = HomeFolder::locate(Some(folder.join("home").as_os_str())).expect("the home folder has a path");
    home.create().expect("the home folder can be created");
    let url = server.url();
    let config = format!(
        "[providers.anthropic]\nbase_url = \"{url}\"\napi_key = \"bench\"\n[handoff]\nmax_refinements = 1000\n"
    );
    std::fs::write(home.config_path(), config).expect("the settings are written");
    let settings =
        AgentSettings { model: Some("anthropic/instant".to_owned()), ..AgentSettings::new(home, folder) };
    Agent::open(settings).await.expect("the agent opens")
}

/// Wraps one decision, as a client sends it, in a list.
fn decisions(decision: &Value) -> Decisions {
    serde_json::from_value(json!({"decisions": [decision]})).expect("a decision is well formed")
}

/// The durations of the parts of one handoff.
struct HandoffTimings {
    preview: Duration,
    refine: Duration,
    accept: Duration,
}

/// Requests, refines and accepts a handoff, deletes its child, and returns the durations.
async fn measure_handoff(agent: &Agent, thread_id: ThreadId) -> HandoffTimings {
    let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
    let start = Instant::now();
    let pending =
        agent.handoffs().request(thread_id, HandoffRequestOptions::default(), &frames, &cancel).await;
    let pending = pending.expect("a draft is made");
    let preview = start.elapsed();
    assert_eq!(pending.problem, None);
    let feedback = json!({"name": "handoff_summary", "args": {"feedback": "Shorter."}});
    let start = Instant::now();
    let refined = decide(agent, &pending, &json!({"type": "edit", "edited_action": feedback})).await;
    let refine = start.elapsed();
    let refined = refined.next.expect("another draft is made");
    assert_eq!(refined.problem, None);
    let start = Instant::now();
    let accepted = decide(agent, &refined, &json!({"type": "approve"})).await;
    let accept = start.elapsed();
    agent
        .threads()
        .delete(accepted.child_thread_id.expect("the handoff has a child thread"))
        .await
        .expect("the child thread can be deleted");
    HandoffTimings { preview, refine, accept }
}

/// Decides the pending handoff.
async fn decide(agent: &Agent, pending: &PendingHandoff, decision: &Value) -> agent::HandoffOutcome {
    let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
    let answer = decisions(decision);
    let outcome = agent.handoffs().decide(pending.handoff.handoff_id, &answer, &frames, &cancel).await;
    outcome.expect("the decision is accepted")
}

/// Returns the median round trip of a request of a draft's size to the model.
async fn model_round_trip(server: &ScriptedServer) -> Duration {
    let settings = model::ProviderSettings {
        base_url: Some(server.url().to_owned()),
        api_key: Some("bench".to_owned().into()),
        ..model::ProviderSettings::default()
    };
    let name = "anthropic/instant".parse().expect("the name is well formed");
    let connected = model::connect(name, settings).expect("a client can be created");
    let text = "word ".repeat(12_000);
    let request = model::ChatRequest {
        messages: Arc::new(vec![Message::human(text)]),
        ..model::ChatRequest::default()
    };
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let mut parts = connected.stream(&request).await.expect("the model answers");
        while let Some(part) = futures::StreamExt::next(&mut parts).await {
            part.expect("the answer is whole");
        }
        times.push(start.elapsed());
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
    let round_trip = model_round_trip(&server).await;
    println!("model round trip: {:.3} ms, subtracted from preview and refine", milliseconds(round_trip));
    println!(
        "{:>9}  {:>10}  {:>11}  {:>10}  {:>10}",
        "messages", "first ms", "preview ms", "refine ms", "accept ms"
    );
    for length in LENGTHS {
        let folder = tempfile::tempdir_in(".").expect("a folder can be created here");
        let agent = agent(folder.path(), &server).await;
        let thread_id = filled_thread(&agent, length).await;
        let first = measure_handoff(&agent, thread_id).await.preview.saturating_sub(round_trip);
        let mut all = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let times = measure_handoff(&agent, thread_id).await;
            all.0.push(times.preview.saturating_sub(round_trip));
            all.1.push(times.refine.saturating_sub(round_trip));
            all.2.push(times.accept);
        }
        let [preview, refine, accept] = [median(all.0), median(all.1), median(all.2)].map(milliseconds);
        println!(
            "{length:>9}  {:>10.2}  {preview:>11.3}  {refine:>10.3}  {accept:>10.3}",
            milliseconds(first)
        );
    }
}
