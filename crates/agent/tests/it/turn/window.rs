//! Tests of the request of an existing thread: it fits the model's context window and has the current agent.md.

use agent::{Agent, Frame, FrameSender, SubscriptionItem};
use protocol::RunStatus;
use serde_json::json;
use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::environment::{TEST_MODEL, TestEnvironment, message_texts, unwatched};

/// The model with the smaller context window.
const SMALL_MODEL: &str = "openai-chat/small";

/// Returns an agent without compaction whose model has a context window of `tokens`.
fn with_window(environment: &TestEnvironment, server: &ScriptedServer, tokens: u64) -> Agent {
    environment.configure_with_extra(server, "[compaction]\nenabled = false\n");
    let path = environment.home().config_path();
    let text = std::fs::read_to_string(&path).unwrap();
    let section = "[providers.openai-chat]\n";
    std::fs::write(path, text.replace(section, &format!("{section}context_tokens = {tokens}\n"))).unwrap();
    environment.agent_over(environment.store(), SMALL_MODEL)
}

/// Returns an environment with a thread that has several large tool results, its model server, and the thread's id.
async fn with_large_results() -> (TestEnvironment, ScriptedServer, protocol::ThreadId) {
    let environment = TestEnvironment::new();
    let line = "a line that says nothing but is there\n";
    let mut replies = Vec::new();
    for number in 0..8 {
        let name = format!("large{number}.txt");
        environment.write_file(&name, &format!("first of {number}\n{}", line.repeat(600)));
        // The provider reports no usage, so all sizes are estimates.
        replies.push(
            ScriptedReply::call(format!("c{number}"), "read_file", json!({"path": name})).with_tokens(0, 0),
        );
    }
    replies.push(ScriptedReply::text("Read.").with_tokens(0, 0).with_repeat());
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = environment.agent_over(
        {
            environment.configure(&server);
            environment.store()
        },
        TEST_MODEL,
    );
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let (frames, cancel) = unwatched();
    let end = agent.runs().send_message(thread, "Read it all.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    (environment, server, thread)
}

#[tokio::test]
async fn l12_a_smaller_window_gets_a_shortened_request_and_the_journal_is_unchanged() {
    let (environment, server, thread) = with_large_results().await;
    let before = environment.agent_over(environment.store(), TEST_MODEL);
    let stored = message_texts(&before, thread).await;
    let report = before.threads().context_report(thread).await.unwrap();
    let whole = server.requests().last().unwrap().body.to_string().len();
    let agent = with_window(&environment, &server, report.tokens * 2 / 3);
    let (frames, mut watched) = FrameSender::channel();
    let (_, cancel) = unwatched();
    let end = agent.runs().send_message(thread, "And now?", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let sent = server.requests().last().unwrap().body.to_string();
    assert!(sent.len() < whole * 2 / 3, "{} of {whole} bytes", sent.len());
    assert!(sent.contains("Read it all.") && sent.contains("And now?"), "user messages are not shortened");
    let mut notices = Vec::new();
    while let Some(SubscriptionItem::Frame(_, frame)) = watched.try_next() {
        if let Frame::Notice { text } = &*frame {
            notices.push(text.clone());
        }
    }
    assert!(notices.iter().any(|text| text.contains("shortened")), "{notices:?}");
    assert_eq!(message_texts(&agent, thread).await[..stored.len()], stored, "the journal is unchanged");
}

#[tokio::test]
async fn l12_a_request_that_cannot_be_shortened_enough_fails_with_a_hint_before_any_call() {
    let (environment, server, thread) = with_large_results().await;
    let agent = with_window(&environment, &server, 1_000);
    let calls_before = server.call_count();
    let (frames, cancel) = unwatched();
    let end = agent.runs().send_message(thread, "And now?", &frames, &cancel).await.unwrap();
    assert_eq!(
        (end.status, end.failure.as_ref().map(|failure| failure.kind.as_str())),
        (RunStatus::Error, Some("limit")),
        "{end:?}"
    );
    assert!(end.failure.clone().unwrap().hint.unwrap().contains("/handoff"));
    assert_eq!(server.call_count(), calls_before, "nothing was sent");
    let texts = message_texts(&agent, thread).await;
    assert_eq!(texts.last().map(String::as_str), Some("And now?"), "the user's message is stored");
}

#[tokio::test]
async fn f1_the_next_turn_of_an_existing_thread_uses_an_edited_agent_md() {
    let environment = TestEnvironment::new();
    let server = crate::environment::answering_server("Yes.");
    let agent = environment.agent_with(&server);
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let (frames, cancel) = unwatched();
    let system = |index: usize| server.requests()[index].body["system"].to_string();
    std::fs::create_dir_all(environment.agent_md().parent().unwrap()).unwrap();
    std::fs::write(environment.agent_md(), "Measure in fathoms.\n").unwrap();
    agent.runs().send_message(thread, "First.", &frames, &cancel).await.unwrap();
    assert!(system(0).contains("fathoms"));
    std::fs::write(environment.agent_md(), "Measure in furlongs.\n").unwrap();
    agent.runs().send_message(thread, "Second.", &frames, &cancel).await.unwrap();
    assert!(system(1).contains("furlongs") && !system(1).contains("fathoms"));
    std::fs::remove_file(environment.agent_md()).unwrap();
    agent.runs().send_message(thread, "Third.", &frames, &cancel).await.unwrap();
    assert!(!system(2).contains("furlongs"));
}
