//! Benchmarks of tiered memory without the model, over threads of growing length, on a database on disk with every commit
//! durable: a turn in a process that has just begun, with all of the thread in its context and with most of it in
//! memory, and the work behind the turn that brings it there. The model answers at once, and summaries are extracted.
//!
//! `cargo bench -p segue-agent --bench memory` prints a table; nothing is asserted but that the turns have left.

use std::path::Path;
use std::time::{Duration, Instant};

use agent::{Agent, AgentSettings, CancellationToken, FrameSender, HomeFolder};
use jiff::{Timestamp, ToSpan};
use journal::{Transaction, Write};
use protocol::{Message, NewEvent, ThreadId};
use test_model::{Script, ScriptedReply, ScriptedServer};

/// Lengths of the threads, in turns.
const LENGTHS: [usize; 4] = [100, 1_000, 10_000, 50_000];
/// Rounds measured at each length.
const ROUNDS: usize = 20;
/// Turns of a day: the longest thread is of months.
const TURNS_PER_DAY: usize = 350;
/// Turns appended in one transaction while a thread is filled.
const FILL_TURNS: usize = 500;
/// Tokens of the short-term tier.
const BUDGET_TOKENS: u64 = 20_000;
/// Tokens of the model's window, in which the longest thread fits.
const WINDOW_TOKENS: u64 = 100_000_000;

/// A question and its answer.
fn turn(at: usize) -> [Message; 2] {
    let matter = ["the exporter", "the garden", "the trip to Trento", "the audit"][at % 4];
    let question = format!(
        "Question {at} about {matter}: what did we decide, and what is still open in part {}?",
        at % 97
    );
    let answer = format!(
        "For {matter} we decided on variant {} because the other one costs {} more. Part {} is still open; it is to be \
         looked at again when the figures of the next month are there.",
        at % 7,
        at * 3,
        at % 97
    );
    [Message::human(question), Message::ai(answer)]
}

async fn fill(agent: &Agent, thread_id: ThreadId, turns: usize) {
    let now = Timestamp::now();
    for first in (0..turns).step_by(FILL_TURNS) {
        let numbers = first..turns.min(first + FILL_TURNS);
        let day = |at: usize| i64::try_from((turns - at) / TURNS_PER_DAY).expect("a thread has few days");
        let at = |number: usize| now - (day(number) * 24).hours();
        let event = |number: usize, message: &Message| {
            NewEvent::from_message(message, at(number)).expect("a message is JSON")
        };
        let events = numbers.flat_map(|number| turn(number).map(|message| event(number, &message))).collect();
        let writes = vec![Write::Append { thread_id, events }];
        agent.store().commit(Transaction { fence: None, writes }).await.expect("the journal can be written");
    }
}

async fn agent(folder: &Path, server: &ScriptedServer, memory: &str) -> Agent {
    let home = HomeFolder::locate(Some(folder.join("home").as_os_str())).expect("a home can be named");
    home.create().expect("a home can be made");
    let url = server.url();
    let config = format!(
        "[providers.anthropic]\nbase_url = \"{url}\"\napi_key = \"bench\"\ncontext_tokens = {WINDOW_TOKENS}\n[memory]\n{memory}\n"
    );
    std::fs::write(home.config_path(), config).expect("the settings can be written");
    let settings =
        AgentSettings { model: Some("anthropic/instant".to_owned()), ..AgentSettings::new(home, folder) };
    Agent::open(settings).await.expect("the agent opens")
}

async fn cold_turn(
    folder: &Path,
    server: &ScriptedServer,
    (memory, thread_id): (&str, ThreadId),
) -> Duration {
    let agent = agent(folder, server, memory).await;
    let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
    let began = Instant::now();
    agent.runs().send_message(thread_id, "And now?", &frames, &cancel).await.expect("the turn ends");
    began.elapsed()
}

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
        "turns", "all in it", "transfer", "summaries", "in memory", "begins with"
    );
    for length in LENGTHS {
        let folder = tempfile::tempdir_in(".").expect("a folder can be made here");
        let path = folder.path();
        let first = agent(path, &server, "enabled = false").await;
        let thread_id = first.threads().create(None).await.expect("a thread can be made").thread_id;
        fill(&first, thread_id, length).await;
        drop(first);
        let mut whole = Vec::new();
        for _ in 0..ROUNDS {
            whole.push(cold_turn(path, &server, ("enabled = false", thread_id)).await);
        }
        cold_turn(path, &server, (&tiered, thread_id)).await;
        let worker = agent(path, &server, &tiered).await;
        let tiering = worker.memory().tiering_worker().expect("there is a model");
        let began = Instant::now();
        let settled = tiering
            .summarize_queue(&FrameSender::default(), &CancellationToken::new())
            .await
            .expect("it is done");
        let transfer = began.elapsed();
        drop(worker);
        let mut left = Vec::new();
        for _ in 0..ROUNDS {
            left.push(cold_turn(path, &server, (&tiered, thread_id)).await);
        }
        let begun = agent(path, &server, &tiered)
            .await
            .threads()
            .context_report(thread_id)
            .await
            .expect("there is a context");
        assert!(begun.tokens < 2 * BUDGET_TOKENS, "{} tokens are left", begun.tokens);
        println!(
            "{length:>7}  {:>10.2}  {:>10.1}  {:>9}  {:>10.2}  {:>11}",
            median(whole),
            milliseconds(transfer),
            settled.len(),
            median(left),
            begun.message_count
        );
    }
    println!("milliseconds, and the messages that are left; medians of {ROUNDS} rounds but for the transfer");
}
