//! Tests of handing off a child thread that nobody has used yet: the next package is the one that it began with.

use agent::{HandoffRequestOptions, PendingHandoff, PinRequest};
use protocol::ThreadId;

use crate::environment::{TestEnvironment, answering_server, decisions, drafting_server, unwatched};
use crate::handoff::{accept_handoff, injected_summary, pending_handoff};

/// Requests a handoff of the thread, for this goal if there is one.
async fn request(agent: &agent::Agent, thread: ThreadId, goal: Option<&str>) -> PendingHandoff {
    let (frames, cancel) = unwatched();
    let options = HandoffRequestOptions { goal: goal.map(str::to_owned), ..HandoffRequestOptions::default() };
    agent.handoffs().request(thread, options, &frames, &cancel).await.unwrap()
}

#[tokio::test]
async fn m1_a_child_that_was_not_used_hands_on_the_package_it_began_with() {
    let environment = TestEnvironment::new();
    let server = drafting_server();
    let (agent, first) = pending_handoff(environment.agent_with(&server), &environment).await;
    let child = accept_handoff(&agent, &first).await;
    let calls = server.call_count();
    let (frames, cancel) = unwatched();
    let options = HandoffRequestOptions::default();
    let preview = agent.handoffs().preview(child, options, &frames, &cancel).await.unwrap();
    assert_eq!(preview.proposal.package_md, first.proposal.package_md);
    let second = request(&agent, child, None).await;
    assert_eq!(second.proposal.package_md, first.proposal.package_md, "nothing is lost or said twice");
    assert_eq!(server.call_count(), calls, "a person has accepted this text, so no model is asked");
    let refs = |item: &protocol::SummaryItem| item.refs.len() + item.line_refs.len();
    assert_eq!(second.proposal.summary_json.body.iter().map(refs).sum::<usize>(), 0, "of another thread");
    let grandchild = accept_handoff(&agent, &second).await;
    agent.runs().send_message(grandchild, "Go on.", &frames, &cancel).await.unwrap();
    let sent = injected_summary(&server.requests().last().unwrap().body);
    assert_eq!(protocol::sha256_hex(&sent), second.proposal.summary_sha256);
    // The thread between them still has its package, and is drafted by the model once it was used.
    agent.runs().send_message(child, "Go on.", &frames, &cancel).await.unwrap();
    let sent = injected_summary(&server.requests().last().unwrap().body);
    assert_eq!(protocol::sha256_hex(&sent), first.proposal.summary_sha256);
    request(&agent, child, None).await;
    assert_eq!(server.call_count(), calls + 3);
}

#[tokio::test]
async fn m1_a_pin_and_a_goal_are_added_to_the_package_of_an_unused_child_and_nothing_is_repeated() {
    let environment = TestEnvironment::new();
    let server = answering_server("no draft");
    let (agent, first) = pending_handoff(environment.agent_with(&server), &environment).await;
    let child = accept_handoff(&agent, &first).await;
    let (goal, pin) = ("Ship the importer", "Read the ADR before any change.");
    agent.memory().pin(child, &PinRequest::Text(pin.to_owned())).await.unwrap();
    let second = request(&agent, child, Some(goal)).await;
    let (before, after) = (&first.proposal.summary_json, &second.proposal.summary_json);
    assert_eq!((&after.title, &after.tldr), (&before.title, &before.tldr));
    let texts = |summary: &protocol::HandoffSummary| -> Vec<String> {
        summary.body.iter().map(|item| item.text.clone()).collect()
    };
    assert_eq!(texts(after), texts(before));
    let pinned: Vec<&str> = after.carried.pins.iter().map(|pin| pin.text.as_str()).collect();
    assert_eq!((after.carried.goal.as_deref(), pinned), (Some(goal), vec![pin]));
    assert_eq!(after.carried.files.read, before.carried.files.read);
    assert_eq!(after.carried.last_user_request, before.carried.last_user_request);
}

#[tokio::test]
async fn m6_an_edited_package_of_an_unused_child_keeps_its_words_and_its_marks() {
    let environment = TestEnvironment::new();
    let server = drafting_server();
    let (agent, first) = pending_handoff(environment.agent_with(&server), &environment).await;
    let (frames, cancel) = unwatched();
    let text = first.proposal.package_md.replace("drops the last row", "drops the row in src/other.rs");
    let args = serde_json::json!({"summary_md": text});
    let edit = decisions(&format!(r#"{{"decisions":[{{"type":"approve","args":{args}}}]}}"#));
    let id = first.handoff.handoff_id;
    let accepted = agent.handoffs().decide(id, &edit, &frames, &cancel).await.unwrap();
    let second = request(&agent, accepted.child_thread_id.unwrap(), None).await;
    assert_eq!(second.proposal.package_md.trim(), accepted.proposal.package_md.trim());
    assert!(second.proposal.package_md.contains("src/other.rs"), "{}", second.proposal.package_md);
}
