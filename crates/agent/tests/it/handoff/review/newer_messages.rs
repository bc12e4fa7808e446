//! Tests of drafts that cover the messages after an outdated one: the reviewer's changes are kept, the refinements are not
//! used up, and one model call is made, or none.

use agent::{Agent, Error, HandoffError, PendingHandoff};
use protocol::EventType;
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::environment::{DRAFT, DRAFT_PROMPT, TestEnvironment, approval, decisions, unwatched};
use crate::handoff::pending_handoff;

/// Edits the proposal with these arguments and returns the next one.
async fn edit(agent: &Agent, pending: &PendingHandoff, args: &Value) -> agent::Result<PendingHandoff> {
    let (frames, cancel) = unwatched();
    let action = json!({"name": "handoff_summary", "args": args});
    let answer = json!({"decisions": [{"type": "edit", "edited_action": action}]}).to_string();
    let id = pending.handoff.handoff_id;
    let decided = agent.handoffs().decide(id, &decisions(&answer), &frames, &cancel).await?;
    Ok(decided.next.expect("a proposal waits for a decision again"))
}

/// Returns a server that answers every drafting prompt and every other message.
fn server() -> ScriptedServer {
    let newer = DRAFT.replace("is still to be written", "exists, and passes");
    ScriptedServer::start(Script::new([
        ScriptedReply::text(newer).when_body_contains("The conversation went on").with_repeat(),
        ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT).with_repeat(),
        ScriptedReply::text("The test passes.").with_repeat(),
    ]))
    .unwrap()
}

/// Sends a message in the parent thread of a pending handoff.
async fn send_in_parent(agent: &Agent, pending: &PendingHandoff, text: &str) {
    let (frames, cancel) = unwatched();
    let parent = pending.handoff.parent_thread_id;
    agent.runs().send_message(parent, text, &frames, &cancel).await.unwrap();
}

/// Returns the pending handoff as a client reads it now.
async fn reload(agent: &Agent, pending: &PendingHandoff) -> PendingHandoff {
    agent.handoffs().review(pending.handoff.handoff_id).await.unwrap().pending.unwrap()
}

#[tokio::test]
async fn g4_an_outdated_draft_is_drafted_again_with_the_newer_messages_and_the_reviewers_changes() {
    let environment = TestEnvironment::new();
    let server = server();
    let (agent, first) = pending_handoff(environment.agent_with(&server), &environment).await;
    let refused = edit(&agent, &first, &json!({"redraft": true})).await.unwrap_err();
    assert!(refused.to_string().contains("the draft covers all messages"), "{refused}");
    let mut shown = first.clone();
    for feedback in ["Shorter.", "Longer.", "In English."] {
        shown = edit(&agent, &shown, &json!({"feedback": feedback})).await.unwrap();
    }
    let own = shown.proposal.package_md.replace("**Importer drops the last row**", "**Mine**");
    assert!(own.contains("### Files changed\n- src/import.rs\n"), "{own}");
    let own = own.replace("\n### Files changed\n- src/import.rs\n", "");
    let shown = edit(&agent, &shown, &json!({"summary_md": own, "save_draft": true})).await.unwrap();
    send_in_parent(&agent, &shown, "Never touch the wire format.").await;

    let shown = reload(&agent, &shown).await;
    assert_eq!((shown.uncovered_messages, shown.remaining_refinements), (2, 0));
    let calls = server.call_count();
    let next = edit(&agent, &shown, &json!({"redraft": true})).await.unwrap();
    assert_eq!(server.call_count(), calls + 1, "one model call for one draft");
    let prompt = server.requests().last().unwrap().body.to_string();
    let covered = shown.proposal.summary_json.coverage.last_seq;
    for part in ["**Mine**", "- In English.", "Never touch the wire format.", &format!("above {covered}")] {
        assert!(prompt.contains(part), "{part}: {prompt}");
    }
    assert_eq!((next.proposal.iteration, next.uncovered_messages, next.remaining_refinements), (5, 0, 0));
    assert_ne!(next.interrupt.interrupt_id, shown.interrupt.interrupt_id);
    let summary = &next.proposal.summary_json;
    assert!(
        summary.coverage.last_seq > covered && summary.tldr.contains("exists, and passes"),
        "{summary:?}"
    );
    assert_eq!((summary.title.as_str(), next.proposal.feedback.as_deref()), ("Mine", None));
    assert!(summary.carried.files.changed.is_empty(), "the reviewer dropped the file");
    assert!(summary.carried.rules.iter().any(|rule| rule.text == "Never touch the wire format."));
    let review = agent.handoffs().review(first.handoff.handoff_id).await.unwrap();
    assert_eq!(review.proposals.last(), Some(&next.proposal), "what is shown is stored");

    let events = agent.threads().events(first.handoff.parent_thread_id).await.unwrap();
    let newest = |kind| events.iter().rev().find(|event| event.kind() == Some(kind)).unwrap().content_value();
    assert_eq!(newest(EventType::HandoffRefined)["newer_messages"], 2);
    let trace = &newest(EventType::ModelCalled)["trace"];
    assert_eq!(trace["tags"], json!(["handoff-summary", "iteration-5", "refinement"]));

    let (frames, cancel) = unwatched();
    let id = first.handoff.handoff_id;
    let late = agent.handoffs().decide(id, &approval(&shown), &frames, &cancel).await.unwrap_err();
    assert!(
        matches!(late, Error::Handoff(HandoffError::Superseded { decided: 4, current: 5, .. })),
        "{late:?}"
    );
    agent.handoffs().decide(id, &approval(&next), &frames, &cancel).await.unwrap();
    let block = memory::managed_block::block_content(environment.read_agent_md().as_bytes()).unwrap();
    assert_eq!(block.trim(), next.proposal.package_md.trim());
}

#[tokio::test]
async fn without_a_model_the_offline_summary_covers_the_newer_messages_and_keeps_the_reviewers_items() {
    let environment = TestEnvironment::new();
    let (agent, first) = pending_handoff(environment.agent(), &environment).await;
    let md = &first.proposal.package_md;
    let own = md.replacen("### Objective\n- ", "### Objective\n- Ask Ada first.\n- ", 1);
    let shown = edit(&agent, &first, &json!({"summary_md": own, "save_draft": true})).await.unwrap();
    drop(agent);
    let server = server();
    send_in_parent(&environment.agent_with(&server), &first, "Never touch the wire format.").await;
    let calls = server.call_count();
    let agent = environment.agent();
    let next = edit(&agent, &shown, &json!({"redraft": true})).await.unwrap();
    let summary = &next.proposal.summary_json;
    assert_eq!(
        (summary.model.as_str(), next.uncovered_messages, server.call_count()),
        ("extractive", 0, calls)
    );
    let text = &next.proposal.package_md;
    for part in ["- Ask Ada first.", "Never touch the wire format."] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[tokio::test]
async fn g4_facts_that_the_reviewer_dropped_stay_dropped_until_they_go_back() {
    let environment = TestEnvironment::new();
    let server = server();
    let (agent, first) = pending_handoff(environment.agent_with(&server), &environment).await;
    let mut dropped = serde_json::to_value(&first.proposal.summary_json).unwrap();
    dropped["carried"]["files"]["changed"] = json!([]);
    let own = edit(&agent, &first, &json!({"summary_json": dropped, "save_draft": true})).await.unwrap();
    let refined = edit(&agent, &own, &json!({"feedback": "Shorter."})).await.unwrap();
    let files = |pending: &PendingHandoff| pending.proposal.summary_json.carried.files.changed.clone();
    assert!(files(&refined).is_empty(), "{:?}", files(&refined));
    let back = edit(&agent, &refined, &json!({"revert_to": 0})).await.unwrap();
    let again = edit(&agent, &back, &json!({"feedback": "Longer."})).await.unwrap();
    assert_eq!(files(&again), files(&first));
}
