//! Benchmarks of compaction over threads of growing length, on a database on disk with durable commits: compacting a whole
//! thread, the first and a later turn of a new process, compacting the messages since the last compaction, and undoing a
//! compaction. The scripted model answers at once, so its time does not count.
//!
//! `cargo bench -p segue-agent --bench compaction` prints a table; nothing is asserted.

use std::path::Path;
use std::time::{Duration, Instant};

use agent::{
    Agent, AgentSettings, CancellationToken, CompactionParameters, FrameSender, HomeFolder, KeepPolicy,
};
use jiff::Timestamp;
use journal::{Transaction, Write};
use protocol::{AiMessage, ContentBlock, Message, NewEvent, ThreadId, ToolMessage, ToolStatus};
use serde_json::json;
use test_model::{Script, ScriptedReply, ScriptedServer};

/// Lengths of the measured threads, in messages.
const LENGTHS: [usize; 4] = [100, 1_000, 10_000, 100_000];
/// Rounds measured at each length.
const ROUNDS: usize = 20;
/// Messages appended between two compactions of a round.
const GROWTH: usize = 40;
/// Messages that a compaction keeps.
const KEPT: u64 = 8;
/// Messages appended in one transaction while a thread is filled.
const FILL_ROWS: usize = 1_000;
/// Context window of the model in tokens, large enough for the longest thread.
const WINDOW_TOKENS: u64 = 100_000_000;
/// The summary that the scripted model returns.
const RECORD: &str = r#"{"goal":"Mend the exporter.","constraints":["Never change the file format."],"progress":["Parts are mended."],
"decisions":[],"files":[],"errors":[],"pending":["Add a test."],"next_step":"Add a test."}"#;

/// Returns message number `index` of a debugging session: in turn a request, a call, its result, and an answer.
fn message(index: usize) -> Message {
    let round = index / 4;
    let text = match index % 4 {
        0 => return Message::human(format!("The exporter drops rows in part {round}. Mend it.")),
        1 => {
            let args = json!({"command": format!("cargo test -p export part_{round}")});
            let call = ContentBlock::ToolCall { id: format!("c{index}"), name: "execute".to_owned(), args };
            return Message::Ai(AiMessage { content: vec![call], ..AiMessage::default() });
        }
        2 => "running 12 tests, all fine here\n".repeat(20),
        _ => return Message::ai(format!("Part {round} is mended in src/export/part_{round}.rs.")),
    };
    Message::Tool(ToolMessage {
        id: None,
        call_id: format!("c{}", index - 1),
        name: Some("execute".to_owned()),
        content: vec![ContentBlock::text(text)],
        status: ToolStatus::Success,
    })
}

/// Appends the messages with the numbers `from` to `to` (exclusive) to the thread.
async fn append(agent: &Agent, thread_id: ThreadId, (from, to): (usize, usize)) {
    for first in (from..to).step_by(FILL_ROWS) {
        let numbers = first..to.min(first + FILL_ROWS);
        let events = numbers
            .map(|index| {
                NewEvent::from_message(&message(index), Timestamp::now()).expect("a message is JSON")
            })
            .collect();
        let writes = vec![Write::Append { thread_id, events }];
        agent.store().commit(Transaction { fence: None, writes }).await.expect("the journal can be written");
    }
}

/// Opens an agent whose home is in `folder` and whose model is the scripted server.
async fn agent(folder: &Path, server: &ScriptedServer) -> Agent {
    let home = HomeFolder::locate(Some(folder.join("home").as_os_str())).expect("the home folder has a path");
    home.create().expect("the home folder can be created");
    let url = server.url();
    let config = format!(
        "[providers.anthropic]\nbase_url = \"{url}\"\napi_key = \"bench\"\ncontext_tokens = {WINDOW_TOKENS}\n"
    );
    std::fs::write(home.config_path(), config).expect("the settings are written");
    let settings =
        AgentSettings { model: Some("anthropic/instant".to_owned()), ..AgentSettings::new(home, folder) };
    Agent::open(settings).await.expect("the agent opens")
}

/// Compacts the thread and returns the duration.
async fn compact(agent: &Agent, thread_id: ThreadId) -> Duration {
    let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
    let request = CompactionParameters { focus: None, keep: Some(KeepPolicy::Messages(KEPT)) };
    let start = Instant::now();
    let compaction = agent
        .threads()
        .compact(thread_id, &request, &frames, &cancel)
        .await
        .expect("the compaction succeeds");
    assert!(compaction.is_stored);
    start.elapsed()
}

/// Runs a turn and returns its duration.
async fn turn(agent: &Agent, thread_id: ThreadId) -> Duration {
    let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
    let start = Instant::now();
    agent.runs().send_message(thread_id, "And now?", &frames, &cancel).await.expect("the turn ends");
    start.elapsed()
}

/// Returns the median in milliseconds.
fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e3
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let record =
        ScriptedReply::text(RECORD).with_tokens(0, 0).when_body_contains("You keep the record").with_repeat();
    let answer = ScriptedReply::text("Mended.").with_tokens(0, 0).with_repeat();
    let server =
        ScriptedServer::start(Script::new([record, answer]).with_requests_kept(1)).expect("a server starts");
    println!(
        "{:>9}  {:>10}  {:>12}  {:>12}  {:>10}  {:>10}",
        "messages", "whole", "first turn", "later turn", "new part", "undo"
    );
    for length in LENGTHS {
        let folder = tempfile::tempdir_in(".").expect("a folder can be created here");
        let first = agent(folder.path(), &server).await;
        let thread_id = first.threads().create(None).await.expect("a thread can be created").thread_id;
        append(&first, thread_id, (0, length)).await;
        let whole = compact(&first, thread_id).await;
        let mut times = [const { Vec::new() }; 4];
        for round in 0..ROUNDS {
            let agent = agent(folder.path(), &server).await;
            times[0].push(turn(&agent, thread_id).await);
            times[1].push(turn(&agent, thread_id).await);
            append(&agent, thread_id, (length + round * GROWTH, length + (round + 1) * GROWTH)).await;
            times[2].push(compact(&agent, thread_id).await);
            let start = Instant::now();
            agent.threads().undo_compaction(thread_id).await.expect("the compaction is undone");
            times[3].push(start.elapsed());
            compact(&agent, thread_id).await;
        }
        let [cold, warm, again, undo] = times.map(median);
        let whole = whole.as_secs_f64() * 1e3;
        println!("{length:>9}  {whole:>10.1}  {cold:>12.2}  {warm:>12.2}  {again:>10.2}  {undo:>10.2}");
    }
    println!(
        "milliseconds; medians of {ROUNDS} rounds, except for the column `whole`, which is one measurement"
    );
}
