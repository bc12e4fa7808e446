//! Tiered memory through the agent: what leaves a conversation, who is told of it, what stays findable, and what never
//! gets in.

mod apart;
mod beside;
mod policy;
mod secrets;
mod undo;

use agent::{Agent, Settled};
use memory::TRANSFER_DUE;
use protocol::{Event, EventType, ThreadId, TurnsArchived};
use test_model::{Recorded, Reply, Script, Server};

use crate::compaction::{RECORD, configure, sent, unreported};
use crate::world::{MODEL, World, quiet};

/// Words of the prompt by which the summariser of old turns is known.
pub const TRANSFER: &str = "You keep the long memory of an AI agent";

/// What that summariser says.
pub const SUMMARY: &str =
    "The person keeps bees in Trento and decided on 2026-03-02 that the exporter writes rows in reverse.";

/// What the first turn of a thread says and no summary does.
pub const FIRST: &str = "The code word of the hives is walnut-17.";

/// Tokens of the short-term tier in these tests.
pub const BUDGET: u64 = 3_000;

/// Replies of the two summarisers, as often as they are asked.
pub fn summarisers() -> Vec<Reply> {
    vec![
        Reply::text(SUMMARY).tokens(900, 40).when_body_contains(TRANSFER).repeated(),
        Reply::text(RECORD).tokens(700, 70).when_body_contains(crate::compaction::PROMPT).repeated(),
    ]
}

/// A server whose model summarises, and otherwise says that it is done.
pub fn keeping_server() -> Server {
    let done = unreported(Reply::text("Done.")).repeated();
    Server::start(Script::new(summarisers().into_iter().chain([done]))).unwrap()
}

/// Returns an agent whose conversations have that budget, with more settings.
pub fn agent_of(world: &World, server: &Server, (budget, more): (u64, &str)) -> Agent {
    configure(world, server, (200_000, &format!("[memory]\nshort_term_tokens = {budget}\n{more}")));
    world.agent_over(world.store(), MODEL)
}

/// Says a number of things of about 600 tokens each, the first one with a fact in it.
pub async fn talked(agent: &Agent, turns: usize) -> ThreadId {
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    for number in 1..=turns {
        sent(agent, thread, &said(number)).await;
    }
    thread
}

/// Returns what is said in the turn of that number.
pub fn said(number: usize) -> String {
    said_at_length(number, 75)
}

/// Returns it with so many sentences of about eight tokens.
pub fn said_at_length(number: usize, sentences: usize) -> String {
    let fact = if number == 1 { FIRST } else { "Nothing new." };
    format!("Request {number}. {fact} {}", format!("Look at part {number} of it all. ").repeat(sentences))
}

/// Does the work that no turn waits for.
pub async fn settled(agent: &Agent) -> Vec<Settled> {
    let (frames, cancel) = quiet();
    agent.memory().tiering().unwrap().settle(&frames, &cancel).await.unwrap()
}

/// Returns the threads whose turns are queued.
pub async fn due(agent: &Agent) -> Vec<String> {
    let items = agent.store().outbox(journal::OutboxQuery::of(TRANSFER_DUE, 10)).await.unwrap();
    items.iter().map(|item| item.payload["thread_id"].as_str().unwrap().to_owned()).collect()
}

/// Returns what the thread was told of summaries of its turns.
pub async fn archives(agent: &Agent, thread: ThreadId) -> Vec<TurnsArchived> {
    let events = agent.threads().events(thread).await.unwrap();
    let archived = events.iter().filter(|event| event.kind() == Some(EventType::TurnsArchived));
    archived.map(|event: &Event| serde_json::from_str(event.content.get()).unwrap()).collect()
}

/// Returns the newest request that was no summariser's.
pub fn newest(server: &Server) -> Recorded {
    let is_own = |request: &Recorded| {
        let body = request.body.to_string();
        !body.contains(TRANSFER) && !body.contains(crate::compaction::PROMPT)
    };
    server.requests().into_iter().rfind(is_own).unwrap()
}

/// Returns the requests that the summariser of old turns was sent.
pub fn transfers(server: &Server) -> Vec<Recorded> {
    let mut requests = server.requests();
    requests.retain(|request| request.body.to_string().contains(TRANSFER));
    requests
}
