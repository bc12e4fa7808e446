//! Tests of a child's package that later work contradicts: the line is found, a person changes it, and the child is sent the
//! changed package from its next request on.

use agent::{Error, HandoffError, HandoffRequestOptions, LineUpdate, StaleReason};
use protocol::EventType;
use test_model::{Script, ScriptedReply, ScriptedServer};

use super::{accept_handoff, injected_summary, pending_handoff};
use crate::environment::{DRAFT, DRAFT_PROMPT, TestEnvironment, decisions, drafting_server, unwatched};

#[tokio::test]
async fn m1_an_updated_line_reaches_the_child_and_the_accepted_package_stays() {
    let environment = TestEnvironment::new();
    // A request that the parent has answered would not be a newer one.
    let draft = ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT).with_repeat();
    let question = ScriptedReply::text("Which one do you mean?").with_repeat();
    let server = ScriptedServer::start(Script::new([draft, question])).unwrap();
    let (agent, pending) = pending_handoff(environment.agent_with(&server), &environment).await;
    let (parent, handoff_id) = (pending.handoff.parent_thread_id, pending.handoff.handoff_id);
    let child = accept_handoff(&agent, &pending).await;
    let packages = agent.handoffs().packages(child).await.unwrap();
    assert_eq!((packages.len(), &packages[0].stale), (1, &Vec::new()), "nothing has happened since");
    let (frames, cancel) = unwatched();
    agent
        .runs()
        .send_message(parent, "Leave the test, and use less memory.", &frames, &cancel)
        .await
        .unwrap();
    let package = agent.handoffs().packages(child).await.unwrap().remove(0);
    let [stale] = package.stale.as_slice() else { panic!("{:?}", package.stale) };
    assert_eq!((stale.reason, stale.thread_id), (StaleReason::NewerRequest, parent));
    assert_eq!(stale.replacement.as_deref(), Some("- Leave the test, and use less memory."));
    let update = LineUpdate {
        summary_sha256: package.package.summary_sha256.clone(),
        line: stale.line.clone(),
        number: Some(stale.number),
        replacement: stale.replacement.clone(),
    };
    let updated = agent.handoffs().update_package(handoff_id, &update).await.unwrap();
    let block = || agent.memory().agent_md().unwrap().block.clone().unwrap_or_default();
    assert_eq!(block().trim(), updated.package_md.trim(), "agent.md shows what the child is sent");
    agent.runs().send_message(child, "Go on.", &frames, &cancel).await.unwrap();
    let sent = injected_summary(&server.requests().last().unwrap().body);
    assert_eq!(protocol::sha256_hex(&sent), updated.summary_sha256);
    assert_eq!(block().trim(), memory::managed_block::PLACEHOLDER, "the first turn clears the block");
    let changed = pending.proposal.package_md.replace(&stale.line, "- Leave the test, and use less memory.");
    let changed = changed.replace("### Last request (still open)\n", "### Last request\n");
    assert_eq!(sent.trim(), changed.trim(), "only that line and the state of the request have changed");
    assert_eq!(agent.handoffs().packages(child).await.unwrap()[0].stale, []);
    // The accepted package is what the history shows, and the child's journal has the update.
    let thread = agent.threads().find(&child.to_string()).await.unwrap();
    let origins = agent.handoffs().origins(&thread).await.unwrap();
    assert_eq!(origins[0].proposal.package_md, pending.proposal.package_md);
    let events = agent.threads().events(child).await.unwrap();
    assert!(events.iter().any(|event| event.kind() == Some(EventType::HandoffEdited)));
    // A second client that saw the package before the update changes nothing.
    let repeated = agent.handoffs().update_package(handoff_id, &update).await;
    assert!(matches!(repeated, Err(Error::Handoff(HandoffError::PackageChanged(_)))), "{repeated:?}");
}

#[tokio::test]
async fn an_update_that_leaves_no_valid_package_or_has_no_child_is_refused() {
    let environment = TestEnvironment::new();
    let server = drafting_server();
    let (agent, pending) = pending_handoff(environment.agent_with(&server), &environment).await;
    let handoff_id = pending.handoff.handoff_id;
    let update = |line: &str, replacement: Option<String>| LineUpdate {
        summary_sha256: pending.proposal.summary_sha256.clone(),
        line: line.to_owned(),
        number: None,
        replacement,
    };
    let early = agent.handoffs().update_package(handoff_id, &update("- x", None)).await;
    assert!(matches!(early, Err(Error::Handoff(HandoffError::NotAccepted(_)))), "{early:?}");
    accept_handoff(&agent, &pending).await;
    let absent = agent.handoffs().update_package(handoff_id, &update("- absent", None)).await;
    assert!(matches!(absent, Err(Error::Handoff(HandoffError::PackageChanged(_)))), "{absent:?}");
    let long = update("- Never change the file format.", Some(format!("- {}", "word ".repeat(9_000))));
    let refused = agent.handoffs().update_package(handoff_id, &long).await;
    assert!(matches!(refused, Err(Error::Handoff(HandoffError::InvalidPackage { .. }))), "{refused:?}");
    let proposals = agent.handoffs().review(handoff_id).await.unwrap().proposals;
    assert_eq!(proposals.len(), 1, "nothing was stored");
}

#[tokio::test]
async fn m1_an_updated_line_is_in_the_next_draft_of_a_child_that_was_drafted_before() {
    let environment = TestEnvironment::new();
    let draft = ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT).with_repeat();
    let server =
        ScriptedServer::start(Script::new([draft, ScriptedReply::text("Done.").with_repeat()])).unwrap();
    let (agent, pending) = pending_handoff(environment.agent_with(&server), &environment).await;
    let child = accept_handoff(&agent, &pending).await;
    let (frames, cancel) = unwatched();
    agent.runs().send_message(child, "Go on.", &frames, &cancel).await.unwrap();
    let request = || agent.handoffs().request(child, HandoffRequestOptions::default(), &frames, &cancel);
    let rules = |pending: &agent::PendingHandoff| -> Vec<String> {
        pending.proposal.summary_json.carried.rules.iter().map(|rule| rule.text.clone()).collect()
    };
    let before = request().await.unwrap();
    let rule = rules(&before)[0].clone();
    let decline = decisions(r#"{"decisions":[{"type":"reject"}]}"#);
    agent.handoffs().decide(before.handoff.handoff_id, &decline, &frames, &cancel).await.unwrap();
    let line = format!("- {rule}");
    // A decision of the draft has the same words above the rules.
    let number = pending.proposal.package_md.lines().collect::<Vec<_>>();
    let number = number.iter().rposition(|known| *known == line).map(|at| at + 1);
    let update = LineUpdate {
        summary_sha256: pending.proposal.summary_sha256.clone(),
        line,
        number,
        replacement: Some("- Never change the layout of the file.".to_owned()),
    };
    agent.handoffs().update_package(pending.handoff.handoff_id, &update).await.unwrap();
    let after = rules(&request().await.unwrap());
    assert_eq!(after, ["Never change the layout of the file."]);
}
