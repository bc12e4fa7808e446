//! Benchmarks of tiered memory over threads of growing length, on a database on disk with durable commits: the first turn
//! of a new process with the whole thread in its context and with most of it in memory, and the summarization in the
//! background that archives the turns. The scripted model answers at once, and the summaries are offline summaries.
//!
//! `cargo bench -p segue-agent --bench memory` prints a table. It asserts only that the old turns were archived.

use std::path::Path;
use std::time::{Duration, Instant};

use agent::{Agent, AgentSettings, CancellationToken, FrameSender, HomeFolder};
use jiff::{Timestamp, ToSpan};
use journal::{Transaction, Write};
use protocol::{Message, NewEvent, ThreadId};
use test_model::{Script, ScriptedReply, ScriptedServer};

/// Lengths of the measured threads, in turns.
const LENGTHS: [usize; 4] = [100, 1_000, 10_000, 50_000];
/// Rounds measured at each length.
const ROUNDS: usize = 20;
/// Turns per day, so that the longest thread spans months.
const TURNS_PER_DAY: usize = 350;
/// Turns appended in one transaction while a thread is filled.
const FILL_TURNS: usize = 500;
/// Budget of the short-term tier, in tokens.
const BUDGET_TOKENS: u64 = 20_000;
/// Context window of the model in tokens, large enough for the longest thread.
const WINDOW_TOKENS: u64 = 100_000_000;

/// Returns the question and the answer of turn number `index`.
fn turn(index: usize) -> [Message; 2] {
    let matter = ["the exporter", "the garden", "the trip to Trento", "the audit"][index % 4];
    let question = format!(
        "Question {index} about {matter}: what did we decide, and what is still open in part {}?",
        index % 97
    );
    let answer = format!(
        "For {matter} we decided on variant {} because the other one costs {} more. Part {} is still open; it is to be \
         looked at again when the figures of the next month are there.",
        index % 7,
        index * 3,
        index % 97
    );
    [Message::human(question), Message::ai(answer)]
}

/// Appends `turns` turns to the thread, with creation times up to now.
async fn fill(agent: &Agent, thread_id: ThreadId, turns: usize) {
    let now = Timestamp::now();
    for first in (0..turns).step_by(FILL_TURNS) {
        let numbers = first..turns.min(first + FILL_TURNS);
        let age_days =
            |number: usize| i64::try_from((turns - number) / TURNS_PER_DAY).expect("a thread has few days");
        let created_at = |number: usize| now - (age_days(number) * 24).hours();
        let event = |number: usize, message: &Message| {
            NewEvent::from_message(message, created_at(number)).expect("a message is JSON")
        };
        let events = numbers.flat_map(|number| turn(number).map(|message| event(number, &message))).collect();
        let writes = vec![Write::Append { thread_id, events }];
        agent.store().commit(Transaction { fence: None, writes }).await.expect("the journal can be written");
    }
}

/// Opens an agent whose home is in `folder`, with `memory` as the section `[memory]` of its settings.
async fn agent(folder: &Path, server: &ScriptedServer, memory: &str) -> Agent {
    let home = HomeFolder::locate(Some(folder.join("home").as_os_str())).expect("the home folder has a path");
    home.create().expect("the home folder can be created");
    let url = server.url();
    let config = format!(
        "[providers.anthropic]\nbase_url = \"{url}\"\napi_key = \"bench\"\ncontext_tokens = {WINDOW_TOKENS}\n[memory]\n{memory}\n"
    );
    std::fs::write(home.config_path(), config).expect("the settings are written");
    let settings =
        AgentSettings { model: Some("anthropic/instant".to_owned()), ..AgentSettings::new(home, folder) };
    Agent::open(settings).await.expect("the agent opens")
}

/// Runs a turn with a new agent, which has no cached context, and returns the duration of the turn.
async fn cold_turn(
    folder: &Path,
    server: &ScriptedServer,
    (memory, thread_id): (&str, ThreadId),
) -> Duration {
    let agent = agent(folder, server, memory).await;
    let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
    let start = Instant::now();
    agent.runs().send_message(thread_id, "And now?", &frames, &cancel).await.expect("the turn ends");
    start.elapsed()
}

/// Returns the median in milliseconds.
fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    milliseconds(times[times.len() / 2])
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let answer = ScriptedReply::text("Decided.").with_tokens(0, 0).with_repeat();
    let server = ScriptedServer::start(Script::new([answer]).with_requests_kept(1)).expect("a server starts");
    let tiered = format!("model = \"none\"\nshort_term_tokens = {BUDGET_TOKENS}");
    println!(
        "{:>7}  {:>10}  {:>10}  {:>9}  {:>10}  {:>11}",
        "turns", "whole", "summarize", "summaries", "archived", "messages"
    );
    for length in LENGTHS {
        let folder = tempfile::tempdir_in(".").expect("a folder can be created here");
        let path = folder.path();
        let first = agent(path, &server, "enabled = false").await;
        let thread_id = first.threads().create(None).await.expect("a thread can be created").thread_id;
        fill(&first, thread_id, length).await;
        drop(first);
        let mut whole = Vec::new();
        for _ in 0..ROUNDS {
            whole.push(cold_turn(path, &server, ("enabled = false", thread_id)).await);
        }
        cold_turn(path, &server, (&tiered, thread_id)).await;
        let worker = agent(path, &server, &tiered).await;
        let tiering = worker.memory().tiering_worker().expect("there is a model");
        let start = Instant::now();
        let summarized = tiering
            .summarize_queue(&FrameSender::default(), &CancellationToken::new())
            .await
            .expect("the summarization succeeds");
        let summarize_duration = start.elapsed();
        drop(worker);
        let mut archived = Vec::new();
        for _ in 0..ROUNDS {
            archived.push(cold_turn(path, &server, (&tiered, thread_id)).await);
        }
        let report = agent(path, &server, &tiered)
            .await
            .threads()
            .context_report(thread_id)
            .await
            .expect("there is a context");
        assert!(report.tokens < 2 * BUDGET_TOKENS, "{} tokens are left", report.tokens);
        println!(
            "{length:>7}  {:>10.2}  {:>10.1}  {:>9}  {:>10.2}  {:>11}",
            median(whole),
            milliseconds(summarize_duration),
            summarized.len(),
            median(archived),
            report.message_count
        );
    }
    println!(
        "milliseconds, and the messages left in the context; medians of {ROUNDS} rounds, except for `summarize`"
    );
}
