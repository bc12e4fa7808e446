//! Tests of pins in handoffs: they are a section of the package, can be dropped and edited, and become pins of the child.

use agent::{Agent, HandoffRequestOptions, PendingHandoff, PinRequest};
use protocol::{MessageRole, Pin, ThreadId};
use serde_json::json;

use super::approve_with;
use crate::environment::{TestEnvironment, approval, drafting_server, import_session, unwatched};
use crate::handoff::{accept_handoff, injected_summary};

/// A pin with two lines.
const RULE: &str = "The release is on the 3rd,\n  not earlier </pins>.";

/// Requests a handoff of the thread.
async fn request_handoff(agent: &Agent, thread: ThreadId) -> PendingHandoff {
    let (frames, cancel) = unwatched();
    agent.handoffs().request(thread, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap()
}

/// Imports a session and pins [`RULE`] and its first message.
async fn thread_with_pins(environment: &TestEnvironment, agent: &Agent) -> (ThreadId, Vec<Pin>) {
    let thread = import_session(environment, agent).await.unwrap();
    agent.memory().pin(thread, &PinRequest::Text(RULE.to_owned())).await.unwrap();
    let first = agent.threads().prompts(thread, 9).await.unwrap().into_iter().map(|prompt| prompt.seq).min();
    let receipt = agent.memory().pin(thread, &PinRequest::Message(first.unwrap())).await.unwrap();
    (thread, receipt.pins)
}

/// Returns the texts of the thread's pins.
async fn pinned(agent: &Agent, thread: ThreadId) -> Vec<String> {
    agent.memory().pins(thread).await.unwrap().into_iter().map(|pin| pin.text).collect()
}

#[tokio::test]
async fn m1_pins_are_part_of_the_accepted_package_and_last_over_three_generations() {
    let environment = TestEnvironment::new();
    let server = drafting_server();
    let (frames, cancel) = unwatched();
    let agent = environment.agent_with(&server);
    let (mut thread, pins) = thread_with_pins(&environment, &agent).await;
    let texts: Vec<String> = pins.iter().map(|pin| pin.text.clone()).collect();
    for generation in 1..=3 {
        let pending = request_handoff(&agent, thread).await;
        let md = &pending.proposal.package_md;
        let line = "### Pins\n- The release is on the 3rd,\n    not earlier &lt;/pins>.\n";
        assert!(md.contains(line), "generation {generation}: {md}");
        thread = accept_handoff(&agent, &pending).await;
        assert_eq!(pinned(&agent, thread).await, texts, "generation {generation}");
        agent.runs().send_message(thread, "Go on.", &frames, &cancel).await.unwrap();
        let request = server.requests().last().unwrap().body.clone();
        let sent = injected_summary(&request);
        let accepted = agent.handoffs().get(pending.handoff.handoff_id).await.unwrap().accepted_sha256;
        assert_eq!(Some(protocol::sha256_hex(&sent)), accepted, "{sent}");
        let system = request["system"].to_string();
        assert!(system.contains("The release is on the 3rd,\\n  not earlier &lt;/pins>."), "{system}");
    }
    let child = agent.memory().pins(thread).await.unwrap();
    let authors: Vec<_> = child.iter().map(|pin| (pin.number, pin.author, pin.message_seq)).collect();
    assert_eq!(authors, [(1, MessageRole::User, None), (2, MessageRole::User, None)]);
}

#[tokio::test]
async fn a_reviewer_drops_and_edits_pins_and_the_child_has_the_accepted_ones() {
    let environment = TestEnvironment::new();
    let (frames, cancel) = unwatched();
    let agent = environment.agent_with(&drafting_server());
    let (thread, pins) = thread_with_pins(&environment, &agent).await;
    let pending = request_handoff(&agent, thread).await;
    let md = &pending.proposal.package_md;
    let (before, section) = md.split_once("### Pins\n").unwrap();
    let mut lines: Vec<&str> = section.lines().collect();
    lines[2] = "- The importer must stay fast.";
    let edited = format!("{before}### Pins\n{}\n", lines[2..].join("\n"));
    let accept = approve_with(&json!({"summary_md": edited}));
    let id = pending.handoff.handoff_id;
    let decided = agent.handoffs().decide(id, &accept, &frames, &cancel).await.unwrap();
    assert!(decided.proposal.package_md.contains("### Pins\n- The importer must stay fast.\n"));
    assert_eq!(pinned(&agent, decided.child_thread_id.unwrap()).await, ["The importer must stay fast."]);
    assert_eq!(pinned(&agent, thread).await.len(), pins.len(), "the parent keeps its pins");
}

#[tokio::test]
async fn a_merged_handoff_adds_its_pins_to_those_of_the_child() {
    let environment = TestEnvironment::new();
    let (frames, cancel) = unwatched();
    let agent = environment.agent_with(&drafting_server());
    let (thread, _) = thread_with_pins(&environment, &agent).await;
    let child = accept_handoff(&agent, &request_handoff(&agent, thread).await).await;
    agent.memory().pin(child, &PinRequest::Text("of the child".to_owned())).await.unwrap();
    let other = agent.threads().create(None).await.unwrap().thread_id;
    agent.runs().send_message(other, "Hello there, look at the tests.", &frames, &cancel).await.unwrap();
    for text in [RULE, "of the other"] {
        agent.memory().pin(other, &PinRequest::Text(text.to_owned())).await.unwrap();
    }
    let options = HandoffRequestOptions { into: Some(child), ..HandoffRequestOptions::default() };
    let pending = agent.handoffs().request(other, options, &frames, &cancel).await.unwrap();
    let id = pending.handoff.handoff_id;
    agent.handoffs().decide(id, &approval(&pending), &frames, &cancel).await.unwrap();
    let texts = pinned(&agent, child).await;
    assert_eq!((texts.len(), texts[0].as_str()), (4, RULE));
    assert_eq!(texts[2..], ["of the child".to_owned(), "of the other".to_owned()]);
}
