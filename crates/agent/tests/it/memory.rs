//! Tiered memory through the agent: what leaves a conversation, who is told of it, what stays findable, and what never
//! gets in.

mod isolation;
mod policy;
mod secrets;
mod undo;
mod with_compaction;

use agent::{Agent, SummarizedTurns};
use memory::TRANSFER_OUTBOX_KIND;
use protocol::{Event, EventType, ThreadId, TurnsArchived};
use test_model::{RecordedRequest, Script, ScriptedReply, ScriptedServer};

use crate::compaction::{RECORD, configure, send_message, without_usage};
use crate::environment::{TEST_MODEL, TestEnvironment, unwatched};

/// Words of the prompt by which the summariser of old turns is known.
pub const MEMORY_SUMMARIZER_PROMPT: &str = "You keep the long memory of an AI agent";

/// The text of that summarizer.
pub const SUMMARY_TEXT: &str =
    "The person keeps bees in Trento and decided on 2026-03-02 that the exporter writes rows in reverse.";

/// A text of the first turn that no summary contains.
pub const FIRST_TURN_TEXT: &str = "The code word of the hives is walnut-17.";

/// Tokens of the short-term tier in these tests.
pub const BUDGET_TOKENS: u64 = 3_000;

/// Replies of the two summarisers, as often as they are asked.
pub fn summarizer_replies() -> Vec<ScriptedReply> {
    vec![
        ScriptedReply::text(SUMMARY_TEXT)
            .with_tokens(900, 40)
            .when_body_contains(MEMORY_SUMMARIZER_PROMPT)
            .with_repeat(),
        ScriptedReply::text(RECORD)
            .with_tokens(700, 70)
            .when_body_contains(crate::compaction::SUMMARIZER_PROMPT)
            .with_repeat(),
    ]
}

/// A server whose model summarises, and otherwise says that it is done.
pub fn summarizing_server() -> ScriptedServer {
    let done = without_usage(ScriptedReply::text("Done.")).with_repeat();
    ScriptedServer::start(Script::new(summarizer_replies().into_iter().chain([done]))).unwrap()
}

/// Returns an agent whose conversations have that budget, with more settings.
pub fn agent_of(world: &TestEnvironment, server: &ScriptedServer, (budget, more): (u64, &str)) -> Agent {
    configure(world, server, (200_000, &format!("[memory]\nshort_term_tokens = {budget}\n{more}")));
    world.agent_over(world.store(), TEST_MODEL)
}

/// Says a number of things of about 600 tokens each, the first one with a fact in it.
pub async fn talk_turns(agent: &Agent, turns: usize) -> ThreadId {
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    for number in 1..=turns {
        send_message(agent, thread, &turn_text(number)).await;
    }
    thread
}

/// Returns what is said in the turn of that number.
pub fn turn_text(number: usize) -> String {
    long_turn_text(number, 75)
}

/// Returns it with so many sentences of about eight tokens.
pub fn long_turn_text(number: usize, sentences: usize) -> String {
    let fact = if number == 1 { FIRST_TURN_TEXT } else { "Nothing new." };
    format!("Request {number}. {fact} {}", format!("Look at part {number} of it all. ").repeat(sentences))
}

/// Does the work that no turn waits for.
pub async fn settle_memory(agent: &Agent) -> Vec<SummarizedTurns> {
    let (frames, cancel) = unwatched();
    agent.memory().tiering_worker().unwrap().summarize_queue(&frames, &cancel).await.unwrap()
}

/// Returns the threads whose turns are queued.
pub async fn queued_threads(agent: &Agent) -> Vec<String> {
    let items = agent.store().outbox(journal::OutboxQuery::for_kind(TRANSFER_OUTBOX_KIND, 10)).await.unwrap();
    items.iter().map(|item| item.payload["thread_id"].as_str().unwrap().to_owned()).collect()
}

/// Returns what the thread was told of summaries of its turns.
pub async fn turns_archived(agent: &Agent, thread: ThreadId) -> Vec<TurnsArchived> {
    let events = agent.threads().events(thread).await.unwrap();
    let archived = events.iter().filter(|event| event.kind() == Some(EventType::TurnsArchived));
    archived.map(|event: &Event| serde_json::from_str(event.content.get()).unwrap()).collect()
}

/// Returns the newest request that was no summariser's.
pub fn newest_request(server: &ScriptedServer) -> RecordedRequest {
    let is_own = |request: &RecordedRequest| {
        let body = request.body.to_string();
        !body.contains(MEMORY_SUMMARIZER_PROMPT) && !body.contains(crate::compaction::SUMMARIZER_PROMPT)
    };
    server.requests().into_iter().rfind(is_own).unwrap()
}

/// Returns the requests that the summariser of old turns was sent.
pub fn summarizer_requests(server: &ScriptedServer) -> Vec<RecordedRequest> {
    let mut requests = server.requests();
    requests.retain(|request| request.body.to_string().contains(MEMORY_SUMMARIZER_PROMPT));
    requests
}
