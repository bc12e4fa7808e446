//! Tests of the calls that wait for an approval when a handoff is accepted: they are handed over, cancelled or left, and the
//! child reads exactly the accepted text.

use agent::{Agent, Error, HandoffRequestOptions, PendingHandoff, RunError};
use protocol::{Message, RunStatus, ThreadId, ThreadStatus};
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::environment::{DRAFT, DRAFT_PROMPT, TestEnvironment, assert_paired, decisions, unwatched};
use crate::handoff::injected_summary;

/// The heading of the section that lists the calls.
const HEADING: &str = "### Calls that wait for approval\n- write_file: {";

/// Returns a server that makes a call which needs an approval, and then answers with texts.
fn server() -> ScriptedServer {
    ScriptedServer::start(Script::new([
        ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT).with_repeat(),
        ScriptedReply::call("w1", "write_file", json!({"path": "new.txt", "content": "words"})),
        ScriptedReply::text("Very well.").with_repeat(),
    ]))
    .unwrap()
}

/// Returns the pending handoff of a thread whose call waits for an approval.
async fn handoff_with_waiting_call(agent: &Agent) -> PendingHandoff {
    let (frames, cancel) = unwatched();
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let end = agent.runs().send_message(thread, "Write it.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Interrupted, "{end:?}");
    let pending =
        agent.handoffs().request(thread, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    assert!(pending.proposal.package_md.contains(HEADING), "{}", pending.proposal.package_md);
    pending
}

/// Returns a decision that accepts the proposal with these arguments.
fn accept_with(pending: &PendingHandoff, args: &Value) -> protocol::Decisions {
    let approve = json!({"type": "approve", "args": args, "summary_sha256": pending.proposal.summary_sha256});
    decisions(&json!({"decisions": [approve]}).to_string())
}

/// Returns the texts of the tool results in a thread.
async fn tool_results(agent: &Agent, thread_id: ThreadId) -> Vec<String> {
    let events = agent.threads().events(thread_id).await.unwrap();
    let messages = events.iter().filter_map(protocol::Event::message);
    messages.filter(|message| matches!(message, Message::Tool(_))).map(|message| message.text()).collect()
}

#[tokio::test]
async fn calls_that_wait_are_copied_handed_over_cancelled_or_left_and_the_child_reads_the_accepted_text() {
    for (args, is_listed, result) in [
        (json!({}), true, None),
        (json!({"pending_approvals": "copy"}), true, None),
        (json!({"pending_approvals": "transfer"}), true, Some("this call moved to thread CHILD")),
        (json!({"pending_approvals": "cancel"}), false, Some("the person cancelled this call")),
        (json!({"pending_approvals": "leave"}), false, None),
        (json!({"pending_approvals": "transfer", "title": "Mine"}), true, Some("moved to thread CHILD")),
        (json!({"pending_approvals": "cancel", "title": "Mine"}), false, Some("cancelled this call")),
    ] {
        let (environment, server) = (TestEnvironment::new(), server());
        let agent = environment.agent_with(&server);
        let pending = handoff_with_waiting_call(&agent).await;
        let (frames, cancel) = unwatched();
        let parent = pending.handoff.parent_thread_id;
        let id = pending.handoff.handoff_id;
        let decided =
            agent.handoffs().decide(id, &accept_with(&pending, &args), &frames, &cancel).await.unwrap();
        let child = decided.child_thread_id.unwrap();
        let results = tool_results(&agent, parent).await;
        let expected = result.map(|text| text.replace("CHILD", &child.to_string()));
        assert_eq!(results.len(), usize::from(result.is_some()), "{args}: {results:?}");
        assert!(expected.is_none_or(|expected| results[0].contains(&expected)), "{args}: {results:?}");
        let waiting = agent.runs().pending_interrupts(parent).await.unwrap();
        assert_eq!(waiting.len(), usize::from(result.is_none()), "{args}");
        let status = agent.store().thread(parent).await.unwrap().unwrap().status;
        let idle = if result.is_some() { ThreadStatus::Idle } else { ThreadStatus::Interrupted };
        assert_eq!(status, idle, "{args}");

        // What the child reads is what was accepted.
        agent.runs().send_message(child, "Go on.", &frames, &cancel).await.unwrap();
        let sent = injected_summary(&server.requests().last().unwrap().body);
        assert_eq!(Some(protocol::sha256_hex(&sent)), decided.handoff.accepted_sha256, "{args}");
        assert_eq!(sent.contains(HEADING), is_listed, "{args}: {sent}");
        // The parent goes on with what it has: the result, or the call that still waits and is withdrawn.
        agent.runs().send_message(parent, "And here?", &frames, &cancel).await.unwrap();
        assert_paired(&server.requests().last().unwrap().body);
        assert_eq!(tool_results(&agent, parent).await.len(), 1, "{args}: one result for one call");
    }
}

#[tokio::test]
async fn a_call_that_waits_since_the_draft_is_not_closed_unseen() {
    let (environment, server) = (TestEnvironment::new(), server());
    let agent = environment.agent_with(&server);
    let (frames, cancel) = unwatched();
    let thread = crate::environment::import_session(&environment, &agent).await.unwrap();
    let pending =
        agent.handoffs().request(thread, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    agent.runs().send_message(thread, "Write it.", &frames, &cancel).await.unwrap();
    let id = pending.handoff.handoff_id;
    for choice in ["transfer", "cancel"] {
        let decision = accept_with(&pending, &json!({"pending_approvals": choice}));
        let refused = agent.handoffs().decide(id, &decision, &frames, &cancel).await.unwrap_err();
        assert!(
            matches!(refused, Error::Run(RunError::Runtime(runtime::Error::Rejected { .. })))
                && refused.to_string().contains("that the draft does not list: write_file"),
            "{refused}"
        );
    }
    let decision = accept_with(&pending, &json!({"pending_approvals": "leave"}));
    let decided = agent.handoffs().decide(id, &decision, &frames, &cancel).await.unwrap();
    assert_eq!(decided.handoff.accepted_sha256.as_ref(), Some(&pending.proposal.summary_sha256));
    assert_eq!(agent.runs().pending_interrupts(thread).await.unwrap().len(), 1, "it still waits");
}

#[tokio::test]
async fn all_calls_of_a_step_are_listed_and_one_choice_covers_them() {
    for (choice, result) in [
        ("copy", None),
        ("transfer", Some("this call moved to thread")),
        ("cancel", Some("the person cancelled this call")),
        ("leave", None),
    ] {
        let environment = TestEnvironment::new();
        let calls = ScriptedReply::call("w1", "write_file", json!({"path": "new.txt", "content": "words"}))
            .with_call("w2", "write_file", json!({"path": "other.txt", "content": "more"}));
        let server = ScriptedServer::start(Script::new([
            ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT).with_repeat(),
            calls,
            ScriptedReply::text("Very well.").with_repeat(),
        ]))
        .unwrap();
        let agent = environment.agent_with(&server);
        let pending = handoff_with_waiting_call(&agent).await;
        let listed = &pending.proposal.summary_json.carried.pending_approvals;
        let expected = [
            r#"write_file: {"path":"new.txt","content":"words"}"#,
            r#"write_file: {"path":"other.txt","content":"more"}"#,
        ];
        assert_eq!(listed, &expected, "{choice}");
        let (frames, cancel) = unwatched();
        let decision = accept_with(&pending, &json!({"pending_approvals": choice}));
        let parent = pending.handoff.parent_thread_id;
        agent.handoffs().decide(pending.handoff.handoff_id, &decision, &frames, &cancel).await.unwrap();
        let results = tool_results(&agent, parent).await;
        let count = if result.is_some() { 2 } else { 0 };
        assert!(
            results.len() == count && results.iter().all(|text| text.contains(result.unwrap_or_default())),
            "{choice}: {results:?}"
        );
        let waiting = agent.runs().pending_interrupts(parent).await.unwrap();
        let waiting: usize = waiting.iter().map(|question| question.payload.action_requests.len()).sum();
        assert_eq!(waiting, 2 - count, "{choice}");
        agent.runs().send_message(parent, "And here?", &frames, &cancel).await.unwrap();
        assert_paired(&server.requests().last().unwrap().body);
    }
}
