//! Tests of tiered memory through the agent: which turns leave the context, which requests receive their summaries,
//! which messages stay searchable, and that secrets are never stored.

mod isolation;
mod policy;
mod projects;
mod secrets;
mod undo;
mod with_compaction;

use agent::{Agent, SummarizedTurns};
use memory::TRANSFER_OUTBOX_KIND;
use protocol::{Event, EventType, ThreadId, TurnsArchived};
use test_model::{RecordedRequest, Script, ScriptedReply, ScriptedServer};

use crate::compaction::{RECORD, configure, send_message, without_usage};
use crate::environment::{TEST_MODEL, TestEnvironment, unwatched};

/// A text of the memory summarizer's prompt that identifies its requests.
pub const MEMORY_SUMMARIZER_PROMPT: &str = "You keep the long memory of an AI agent";

/// The summary that the scripted memory summarizer returns.
pub const SUMMARY_TEXT: &str =
    "The person keeps bees in Trento and decided on 2026-03-02 that the exporter writes rows in reverse.";

/// A text of the first turn that no summary contains.
pub const FIRST_TURN_TEXT: &str = "The code word of the hives is walnut-17.";

/// Budget of the short-term tier in these tests, in tokens.
pub const BUDGET_TOKENS: u64 = 3_000;

/// Returns the repeated replies of the memory summarizer and of the compaction summarizer.
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

/// Starts a server whose model answers both summarizers and replies "Done." to every other request.
pub fn summarizing_server() -> ScriptedServer {
    let done = without_usage(ScriptedReply::text("Done.")).with_repeat();
    ScriptedServer::start(Script::new(summarizer_replies().into_iter().chain([done]))).unwrap()
}

/// Returns an agent whose short-term tier has `budget` tokens. `extra_settings` holds further lines of the settings.
pub fn agent_of(
    environment: &TestEnvironment,
    server: &ScriptedServer,
    (budget, extra_settings): (u64, &str),
) -> Agent {
    configure(
        environment,
        server,
        (200_000, &format!("[memory]\nshort_term_tokens = {budget}\n{extra_settings}")),
    );
    environment.agent_over(environment.store(), TEST_MODEL)
}

/// Creates a thread and sends `turns` messages of about 600 tokens each. The first one contains [`FIRST_TURN_TEXT`].
pub async fn talk_turns(agent: &Agent, turns: usize) -> ThreadId {
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    for number in 1..=turns {
        send_message(agent, thread, &turn_text(number)).await;
    }
    thread
}

/// Returns the message of a turn, whose numbers begin with 1.
pub fn turn_text(number: usize) -> String {
    long_turn_text(number, 75)
}

/// Returns the message of a turn with `sentences` filler sentences of about eight tokens each.
pub fn long_turn_text(number: usize, sentences: usize) -> String {
    let fact = if number == 1 { FIRST_TURN_TEXT } else { "Nothing new." };
    format!("Request {number}. {fact} {}", format!("Look at part {number} of it all. ").repeat(sentences))
}

/// Summarizes every queued thread, as the background worker does.
pub async fn settle_memory(agent: &Agent) -> Vec<SummarizedTurns> {
    let (frames, cancel) = unwatched();
    agent.memory().tiering_worker().unwrap().summarize_queue(&frames, &cancel).await.unwrap()
}

/// Returns the ids of the threads that are queued for summarization.
pub async fn queued_threads(agent: &Agent) -> Vec<String> {
    let items = agent.store().outbox(journal::OutboxQuery::for_kind(TRANSFER_OUTBOX_KIND, 10)).await.unwrap();
    items.iter().map(|item| item.payload["thread_id"].as_str().unwrap().to_owned()).collect()
}

/// Returns the `turns_archived` events of the thread.
pub async fn turns_archived(agent: &Agent, thread: ThreadId) -> Vec<TurnsArchived> {
    let events = agent.threads().events(thread).await.unwrap();
    let archived = events.iter().filter(|event| event.kind() == Some(EventType::TurnsArchived));
    archived.map(|event: &Event| serde_json::from_str(event.content.get()).unwrap()).collect()
}

/// Returns the newest request that no summarizer sent.
pub fn newest_request(server: &ScriptedServer) -> RecordedRequest {
    let is_turn_request = |request: &RecordedRequest| {
        let body = request.body.to_string();
        !body.contains(MEMORY_SUMMARIZER_PROMPT) && !body.contains(crate::compaction::SUMMARIZER_PROMPT)
    };
    server.requests().into_iter().rfind(is_turn_request).unwrap()
}

/// Returns the requests of the memory summarizer.
pub fn summarizer_requests(server: &ScriptedServer) -> Vec<RecordedRequest> {
    let mut requests = server.requests();
    requests.retain(|request| request.body.to_string().contains(MEMORY_SUMMARIZER_PROMPT));
    requests
}
