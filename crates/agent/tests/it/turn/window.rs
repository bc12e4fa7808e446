//! The request of an existing thread: as much as the model accepts, and agent.md as it is on disk.

use agent::{Agent, Frame, FrameSender, SubscriptionItem};
use protocol::RunStatus;
use serde_json::json;
use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::environment::{TEST_MODEL, TestEnvironment, message_texts, unwatched};

/// The model that takes less.
const SMALL_MODEL: &str = "openai-chat/small";

/// Returns an agent whose model has a window of that many tokens, and which never compacts.
fn with_window(world: &TestEnvironment, server: &ScriptedServer, tokens: u64) -> Agent {
    world.configure_with_extra(server, "[compaction]\nenabled = false\n");
    let path = world.home().config_path();
    let text = std::fs::read_to_string(&path).unwrap();
    let section = "[providers.openai-chat]\n";
    std::fs::write(path, text.replace(section, &format!("{section}context_tokens = {tokens}\n"))).unwrap();
    world.agent_over(world.store(), SMALL_MODEL)
}

/// Returns a world with a thread that holds several large results, and the server that played it.
async fn with_large_results() -> (TestEnvironment, ScriptedServer, protocol::ThreadId) {
    let world = TestEnvironment::new();
    let line = "a line that says nothing but is there\n";
    let mut replies = Vec::new();
    for number in 0..8 {
        let name = format!("large{number}.txt");
        world.write_file(&name, &format!("first of {number}\n{}", line.repeat(600)));
        // The provider reports nothing: sizes are estimates.
        replies.push(
            ScriptedReply::call(format!("c{number}"), "read_file", json!({"path": name})).with_tokens(0, 0),
        );
    }
    replies.push(ScriptedReply::text("Read.").with_tokens(0, 0).with_repeat());
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = world.agent_over(
        {
            world.configure(&server);
            world.store()
        },
        TEST_MODEL,
    );
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let (frames, cancel) = unwatched();
    let end = agent.runs().send_message(thread, "Read it all.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    (world, server, thread)
}

#[tokio::test]
async fn l12_a_model_with_a_smaller_window_is_sent_a_shortened_request_and_the_journal_stays() {
    let (world, server, thread) = with_large_results().await;
    let before = world.agent_over(world.store(), TEST_MODEL);
    let stored = message_texts(&before, thread).await;
    let report = before.threads().context_report(thread).await.unwrap();
    let whole = server.requests().last().unwrap().body.to_string().len();
    let agent = with_window(&world, &server, report.tokens * 2 / 3);
    let (frames, mut watched) = FrameSender::channel();
    let (_, cancel) = unwatched();
    let end = agent.runs().send_message(thread, "And now?", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let sent = server.requests().last().unwrap().body.to_string();
    assert!(sent.len() < whole * 2 / 3, "{} of {whole} bytes", sent.len());
    assert!(sent.contains("Read it all.") && sent.contains("And now?"), "nobody's words are shortened");
    let mut told = Vec::new();
    while let Some(SubscriptionItem::Frame(_, frame)) = watched.try_next() {
        if let Frame::Notice { text } = &*frame {
            told.push(text.clone());
        }
    }
    assert!(told.iter().any(|text| text.contains("shortened")), "{told:?}");
    assert_eq!(message_texts(&agent, thread).await[..stored.len()], stored, "the journal is as it was");
}

#[tokio::test]
async fn l12_what_no_shortening_fits_is_a_limit_that_names_the_way_out_before_any_call() {
    let (world, server, thread) = with_large_results().await;
    let agent = with_window(&world, &server, 1_000);
    let called = server.call_count();
    let (frames, cancel) = unwatched();
    let end = agent.runs().send_message(thread, "And now?", &frames, &cancel).await.unwrap();
    assert_eq!(
        (end.status, end.failure.as_ref().map(|failure| failure.kind.as_str())),
        (RunStatus::Error, Some("limit")),
        "{end:?}"
    );
    assert!(end.failure.clone().unwrap().hint.unwrap().contains("/handoff"));
    assert_eq!(server.call_count(), called, "nothing was sent");
    let words = message_texts(&agent, thread).await;
    assert_eq!(words.last().map(String::as_str), Some("And now?"), "what the person said is kept");
}

#[tokio::test]
async fn f1_an_edit_of_agent_md_is_seen_by_the_next_turn_of_a_thread_that_exists() {
    let world = TestEnvironment::new();
    let server = crate::environment::answering_server("Yes.");
    let agent = world.agent_with(&server);
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let (frames, cancel) = unwatched();
    let system = |at: usize| server.requests()[at].body["system"].to_string();
    std::fs::create_dir_all(world.agent_md().parent().unwrap()).unwrap();
    std::fs::write(world.agent_md(), "Measure in fathoms.\n").unwrap();
    agent.runs().send_message(thread, "First.", &frames, &cancel).await.unwrap();
    assert!(system(0).contains("fathoms"));
    std::fs::write(world.agent_md(), "Measure in furlongs.\n").unwrap();
    agent.runs().send_message(thread, "Second.", &frames, &cancel).await.unwrap();
    assert!(system(1).contains("furlongs") && !system(1).contains("fathoms"));
    std::fs::remove_file(world.agent_md()).unwrap();
    agent.runs().send_message(thread, "Third.", &frames, &cancel).await.unwrap();
    assert!(!system(2).contains("furlongs"));
}
