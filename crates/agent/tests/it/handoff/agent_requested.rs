//! Tests of handoffs that the agent requests with a tool call: the review is that of any handoff, and the call always gets a
//! result.

use agent::{Agent, ApprovalPolicy};
use protocol::{HandoffStatus, Message, RunStatus, ThreadId, ToolStatus};
use serde_json::{Value, json};
use test_model::{Script, ScriptedFault, ScriptedReply, ScriptedServer};

use crate::environment::{
    CrashingStore, DRAFT, DRAFT_PROMPT, TestEnvironment, approval, assert_paired, decisions, messages,
    unwatched,
};

/// Returns a server whose model requests a handoff in its first turn and drafts it. It answers all other requests with a
/// text.
fn handoff_requesting_server(args: Value) -> ScriptedServer {
    let draft = ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT).with_repeat();
    let handoff_call = ScriptedReply::call("h1", "request_handoff", args);
    ScriptedServer::start(Script::new([draft, handoff_call, ScriptedReply::text("I go on.").with_repeat()]))
        .unwrap()
}

/// Sends the first message in a new thread and asserts that the turn waits for the handoff's decision. Returns the thread.
async fn send_request(agent: &Agent) -> ThreadId {
    let (frames, cancel) = unwatched();
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let request = "The importer drops the last row of every file. Fix src/import.rs, then a test.";
    let end = agent.runs().send_message(thread, request, &frames, &cancel).await.unwrap();
    assert_eq!((end.status, end.interrupts.len()), (RunStatus::Interrupted, 1), "{end:?}");
    thread
}

/// Returns the results of the call `h1`.
async fn call_results(agent: &Agent, thread: ThreadId) -> Vec<(ToolStatus, String)> {
    let results = messages(agent, thread).await.into_iter().filter_map(|message| match &message {
        Message::Tool(result) if result.call_id == "h1" => Some((result.status, message.text())),
        _ => None,
    });
    results.collect()
}

#[tokio::test]
async fn g2_an_accepted_request_ends_the_turn_and_its_result_names_the_child() {
    let environment = TestEnvironment::new();
    let server = handoff_requesting_server(json!({"goal": "the test for one row"}));
    let agent = environment.agent_with(&server);
    let parent = send_request(&agent).await;
    let pending = agent.handoffs().pending(Some(parent)).await.unwrap().remove(0);
    let args = &pending.interrupt.payload.action_requests[0].args;
    assert_eq!((&args["initiated_by"], &args["tool_call_id"]), (&json!("agent"), &json!("h1")));
    assert_eq!(args["goal"], "the test for one row");
    assert_eq!(call_results(&agent, parent).await, [], "there is no result before the decision");
    let (frames, cancel) = unwatched();
    let id = pending.handoff.handoff_id;
    let decided = agent.handoffs().decide(id, &approval(&pending), &frames, &cancel).await.unwrap();
    let child = decided.child_thread_id.unwrap();
    let (status, text) = call_results(&agent, parent).await.remove(0);
    assert!(status == ToolStatus::Success && text.contains(&child.to_string()), "{text}");
    assert_eq!(
        (decided.end.status, server.call_count()),
        (RunStatus::Success, 2),
        "the parent's turn is over"
    );
    agent.runs().send_message(child, "Go on.", &frames, &cancel).await.unwrap();
    assert!(server.requests()[2].body["system"].to_string().contains("Importer drops the last row"));
    // The parent thread accepts messages afterwards.
    agent.runs().send_message(parent, "One more thing.", &frames, &cancel).await.unwrap();
    assert_paired(&server.requests()[3].body);
}

#[tokio::test]
async fn g2_after_a_declined_request_or_a_preview_the_agent_continues() {
    for (decision, result_text) in [
        (json!({"type": "reject", "message": "Not yet: write the test first."}), "write the test first"),
        (json!({"type": "preview"}), "nothing was changed"),
    ] {
        let environment = TestEnvironment::new();
        let server = handoff_requesting_server(json!({"preview_only": true}));
        let agent = environment.agent_with(&server);
        let parent = send_request(&agent).await;
        let pending = agent.handoffs().pending(Some(parent)).await.unwrap().remove(0);
        assert_eq!(pending.interrupt.payload.action_requests[0].args["preview_only"], true);
        let (frames, cancel) = unwatched();
        let decisions = decisions(&json!({"decisions": [decision]}).to_string());
        let decided =
            agent.handoffs().decide(pending.handoff.handoff_id, &decisions, &frames, &cancel).await.unwrap();
        assert_eq!((decided.end.status, decided.child_thread_id), (RunStatus::Success, None));
        let results = call_results(&agent, parent).await;
        assert!(results.len() == 1 && results[0].1.contains(result_text), "{results:?}");
        assert_eq!(messages(&agent, parent).await.last().unwrap().text(), "I go on.");
        assert_paired(&server.requests()[2].body);
        assert!(!environment.agent_md().exists(), "g15");
    }
}

#[tokio::test]
async fn k8_a_handoff_waits_for_the_user_even_if_the_policy_allows_all_calls() {
    let environment = TestEnvironment::new();
    let server = handoff_requesting_server(json!({}));
    let agent = environment.agent_with_policy(&server, ("", ApprovalPolicy::Allow));
    let parent = send_request(&agent).await;
    let pending = agent.handoffs().pending(Some(parent)).await.unwrap();
    assert_eq!(pending.len(), 1);
    assert_eq!(pending[0].handoff.status, HandoffStatus::AwaitingDecision);
}

#[tokio::test]
async fn g2_a_message_instead_of_a_decision_gives_the_call_a_result_and_the_handoff_stays_pending() {
    let environment = TestEnvironment::new();
    let server = handoff_requesting_server(json!({}));
    let agent = environment.agent_with(&server);
    let parent = send_request(&agent).await;
    let (frames, cancel) = unwatched();
    for text in ["First the docs.", "And the changelog."] {
        assert_eq!(
            agent.runs().send_message(parent, text, &frames, &cancel).await.unwrap().status,
            RunStatus::Success
        );
        assert_paired(&server.requests().last().unwrap().body);
    }
    let pending = agent.handoffs().pending(Some(parent)).await.unwrap().remove(0);
    assert_eq!(pending.uncovered_messages, 5, "the result, two messages and two answers");
    let before = server.call_count();
    let id = pending.handoff.handoff_id;
    let decided = agent.handoffs().decide(id, &approval(&pending), &frames, &cancel).await.unwrap();
    assert!(decided.child_thread_id.is_some());
    assert_eq!(
        (call_results(&agent, parent).await.len(), server.call_count()),
        (1, before),
        "the decision starts no run of the agent"
    );
}

#[tokio::test]
async fn g2_other_calls_of_the_same_answer_are_executed_and_a_second_request_is_refused() {
    let environment = TestEnvironment::new();
    environment.write_file("notes.txt", "three rows");
    let draft = ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT).with_repeat();
    let calls = ScriptedReply::call("h1", "request_handoff", json!({}))
        .with_call("r1", "read_file", json!({"path": "notes.txt"}))
        .with_call("h2", "request_handoff", json!({}));
    let server =
        ScriptedServer::start(Script::new([draft, calls, ScriptedReply::text("I go on.").with_repeat()]))
            .unwrap();
    let agent = environment.agent_with(&server);
    let parent = send_request(&agent).await;
    let results: Vec<String> = messages(&agent, parent).await.iter().skip(2).map(Message::text).collect();
    assert!(
        results.len() == 2 && results[0].contains("three rows") && results[1].contains("Not done"),
        "{results:?}"
    );
    let (frames, cancel) = unwatched();
    let pending = agent.handoffs().pending(Some(parent)).await.unwrap().remove(0);
    let reject = decisions(r#"{"decisions":[{"type":"reject"}]}"#);
    agent.handoffs().decide(pending.handoff.handoff_id, &reject, &frames, &cancel).await.unwrap();
    assert_paired(&server.requests()[2].body);
}

#[tokio::test]
async fn g2_cancelling_the_draft_gives_the_call_its_result() {
    let environment = TestEnvironment::new();
    let draft = ScriptedReply::text("{").with_fault(ScriptedFault::Stall).when_body_contains(DRAFT_PROMPT);
    let handoff_call = ScriptedReply::call("h1", "request_handoff", json!({}));
    let server =
        ScriptedServer::start(Script::new([draft, handoff_call, ScriptedReply::text("Fine.").with_repeat()]))
            .unwrap();
    let agent = environment.agent_with(&server);
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let (frames, cancel) = unwatched();
    let stop = async {
        server.wait_for_calls(2).await;
        cancel.cancel();
    };
    let (end, ()) =
        tokio::join!(agent.runs().send_message(thread, "Fix the importer.", &frames, &cancel), stop);
    assert_eq!(end.unwrap().status, RunStatus::Cancelled);
    let results = call_results(&agent, thread).await;
    assert!(results.len() == 1 && results[0].1.contains("stopped the draft"), "{results:?}");
    assert_eq!(agent.store().handoffs(journal::HandoffFilter::default()).await.unwrap(), []);
    let (frames, cancel) = unwatched();
    agent.runs().send_message(thread, "Go on here.", &frames, &cancel).await.unwrap();
    assert_paired(&server.requests()[2].body);
}

#[tokio::test]
async fn g2_a_request_while_a_handoff_is_pending_is_refused_with_a_reason() {
    let environment = TestEnvironment::new();
    let draft = ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT).with_repeat();
    let first_call = ScriptedReply::call("h1", "request_handoff", json!({}));
    let second_call = ScriptedReply::call("h2", "request_handoff", json!({}));
    let server = ScriptedServer::start(Script::new([
        draft,
        first_call,
        second_call,
        ScriptedReply::text("Then I wait.").with_repeat(),
    ]))
    .unwrap();
    let agent = environment.agent_with(&server);
    let parent = send_request(&agent).await;
    let (frames, cancel) = unwatched();
    let end = agent.runs().send_message(parent, "Ask again.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success);
    let messages = messages(&agent, parent).await;
    assert!(
        messages
            .iter()
            .any(|message| message.text().contains("is already waiting for the person's decision"))
    );
    assert_eq!(agent.handoffs().pending(Some(parent)).await.unwrap().len(), 1);
}

#[tokio::test]
async fn g2_cancelling_between_the_request_and_its_draft_leaves_no_handoff_and_no_open_call() {
    let environment = TestEnvironment::new();
    let server = handoff_requesting_server(json!({}));
    let agent = environment.agent_with(&server);
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let (frames, mut subscription) = agent::FrameSender::channel();
    let cancel = agent::CancellationToken::new();
    let stop = async {
        while let Some(agent::SubscriptionItem::Frame(_, frame)) = subscription.next().await {
            if matches!(&*frame, agent::Frame::ToolStarted { name, .. } if name == "request_handoff") {
                cancel.cancel();
                return;
            }
        }
    };
    let (end, ()) =
        tokio::join!(agent.runs().send_message(thread, "Fix the importer.", &frames, &cancel), stop);
    assert_eq!(end.unwrap().status, RunStatus::Cancelled);
    assert_eq!(agent.store().handoffs(journal::HandoffFilter::default()).await.unwrap(), []);
    let results = call_results(&agent, thread).await;
    assert!(results.len() <= 1, "{results:?}");
    let (frames, cancel) = unwatched();
    let end = agent.runs().send_message(thread, "Go on here.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success);
    assert_paired(&server.requests().last().unwrap().body);
}

#[tokio::test]
async fn g2_after_a_declined_request_the_agent_continues_in_a_thread_whose_folder_was_deleted() {
    let environment = TestEnvironment::new();
    let server = handoff_requesting_server(json!({}));
    let agent = environment.agent_with(&server);
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let elsewhere = environment.folder().join("elsewhere");
    std::fs::create_dir_all(&elsewhere).unwrap();
    let settings =
        agent::AgentSettings { workspace: elsewhere, ..environment.settings(crate::environment::TEST_MODEL) };
    std::fs::remove_dir_all(environment.workspace()).unwrap();
    let agent = Agent::with_store(settings, environment.store()).unwrap();
    let (frames, cancel) = unwatched();
    let end = agent
        .runs()
        .send_message(thread, "The importer drops the last row. Fix it.", &frames, &cancel)
        .await
        .unwrap();
    assert_eq!(end.status, RunStatus::Interrupted, "{end:?}");
    let pending = agent.handoffs().pending(Some(thread)).await.unwrap().remove(0);
    let reject = decisions(r#"{"decisions": [{"type": "reject"}]}"#);
    let decided =
        agent.handoffs().decide(pending.handoff.handoff_id, &reject, &frames, &cancel).await.unwrap();
    assert_eq!(decided.end.status, RunStatus::Success, "{:?}", decided.end);
    assert_eq!(messages(&agent, thread).await.last().unwrap().text(), "I go on.");
}

#[tokio::test]
async fn j1_an_admission_that_conflicts_with_another_commit_is_computed_again() {
    let environment = TestEnvironment::new();
    let server = handoff_requesting_server(json!({}));
    let agent = environment.agent_with(&server);
    let parent = send_request(&agent).await;
    let store = CrashingStore::never_crash(environment.store());
    let second = environment.agent_over(store.clone(), crate::environment::TEST_MODEL);
    let first = agent.clone();
    store.before_next_commit(async move {
        let (frames, cancel) = unwatched();
        let end = first.runs().send_message(parent, "First the docs.", &frames, &cancel).await.unwrap();
        assert_eq!(end.status, RunStatus::Success, "{end:?}");
    });
    let (frames, cancel) = unwatched();
    let end = second.runs().send_message(parent, "Then the changelog.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(call_results(&agent, parent).await.len(), 1, "only the first message gave the call a result");
    assert_paired(&server.requests().last().unwrap().body);
}
