//! Tests of the loop between draft and decision: refinements, reverts and redrafts are stored before the user is asked, and
//! each draft costs one model call.

use agent::{Agent, Error, HandoffError, HandoffRequestOptions, PendingHandoff, RunError};
use protocol::{Category, Event, EventType, HandoffStatus};
use serde_json::{Value, json};
use test_model::{Script, ScriptedFault, ScriptedReply, ScriptedServer};

use super::pending_handoff;
use crate::environment::{DRAFT, DRAFT_PROMPT, TestEnvironment, approval, decisions, unwatched};

/// Returns a decision of type `edit` with these arguments.
fn edit_decision(args: &Value) -> protocol::Decisions {
    let action = json!({"name": "handoff_summary", "args": args});
    decisions(&json!({"decisions": [{"type": "edit", "edited_action": action}]}).to_string())
}

/// Returns a server with `count` drafts, each with its number, counted from 0, in the title.
fn numbering_server(count: usize) -> ScriptedServer {
    let drafts = (0..count)
        .map(|n| ScriptedReply::text(DRAFT.replace("last row\"", &format!("last row, draft {n}\""))));
    ScriptedServer::start(Script::new(drafts.collect::<Vec<_>>())).unwrap()
}

/// Edits the proposal with these arguments and returns the next one.
async fn decide(agent: &Agent, pending: &PendingHandoff, args: &Value) -> agent::Result<PendingHandoff> {
    let (frames, cancel) = unwatched();
    let decided =
        agent.handoffs().decide(pending.handoff.handoff_id, &edit_decision(args), &frames, &cancel).await?;
    Ok(decided.next.expect("a proposal waits for a decision again"))
}

/// Returns the arguments of the interrupt's action request.
fn proposal_args(pending: &PendingHandoff) -> &Value {
    &pending.interrupt.payload.action_requests[0].args
}

/// Returns the parent's events of a type.
async fn events(agent: &Agent, pending: &PendingHandoff, kind: EventType) -> Vec<Event> {
    let events = agent.threads().events(pending.handoff.parent_thread_id).await.unwrap();
    events.into_iter().filter(|event| event.kind() == Some(kind)).collect()
}

#[tokio::test]
async fn g4_each_refinement_makes_one_model_call_one_proposal_and_one_new_interrupt() {
    let environment = TestEnvironment::new();
    let server = numbering_server(4);
    let (agent, first) = pending_handoff(environment.agent_with(&server), &environment).await;
    assert_eq!(
        (proposal_args(&first).get("feedback"), proposal_args(&first)["remaining_refinements"].as_u64()),
        (None, Some(3))
    );
    let mut shown = first.clone();
    for (n, feedback) in ["Shorter.", "Name the file.", "In English."].into_iter().enumerate() {
        // A new agent handles each iteration. A repeated request calls no model.
        let agent = environment.agent_with(&server);
        let (frames, cancel) = unwatched();
        let parent = first.handoff.parent_thread_id;
        let again = agent
            .handoffs()
            .request(parent, HandoffRequestOptions::default(), &frames, &cancel)
            .await
            .unwrap();
        assert_eq!(again.proposal, shown.proposal);
        let next = decide(&agent, &shown, &json!({"feedback": feedback})).await.unwrap();
        assert_ne!(next.interrupt.interrupt_id, shown.interrupt.interrupt_id);
        assert_eq!(next.proposal.iteration as usize, n + 1);
        assert_eq!(next.handoff.handoff_id, first.handoff.handoff_id);
        assert_eq!(next.proposal.summary_json.created_at, first.proposal.summary_json.created_at);
        assert_eq!(proposal_args(&next)["feedback"], feedback);
        assert_eq!(proposal_args(&next)["feedback_history"].as_array().unwrap().len(), n + 1);
        assert_eq!(next.remaining_refinements as usize, 2 - n);
        assert_eq!(server.call_count(), n + 2);
        shown = next;
    }
    let prompt = server.requests()[3].body.to_string();
    for part in
        ["draft 2", "<feedback>", "In English.", "<earlier_feedback>", "- Shorter.", "- Name the file."]
    {
        assert!(prompt.contains(part), "{part}: {prompt}");
    }
    let allowed = &shown.interrupt.payload.review_configs[0].allowed_decisions;
    assert_eq!(allowed, &["approve", "reject", "preview"], "no refinement is left");
    let refused = decide(&agent, &shown, &json!({"feedback": "Once more."})).await.unwrap_err();
    assert!(refused.to_string().contains("no refinement is left"), "{refused}");
    let (frames, cancel) = unwatched();
    agent.handoffs().decide(shown.handoff.handoff_id, &approval(&shown), &frames, &cancel).await.unwrap();
    assert!(environment.read_agent_md().contains("draft 3"));
    assert_eq!(server.call_count(), 4);
}

#[tokio::test]
async fn g4_each_iteration_is_traced() {
    let environment = TestEnvironment::new();
    let server = numbering_server(2);
    let (agent, first) = pending_handoff(environment.agent_with(&server), &environment).await;
    decide(&agent, &first, &json!({"feedback": "Shorter, and without password=hunter2hunter2."}))
        .await
        .unwrap();
    let calls = events(&agent, &first, EventType::ModelCalled).await;
    let traces: Vec<Value> = calls.iter().map(|event| event.content_value()["trace"].clone()).collect();
    assert_eq!(traces[0]["name"], "generate_handoff_summary_iter_0");
    assert_eq!(traces[1]["name"], "generate_handoff_summary_iter_1");
    assert_eq!(traces[1]["tags"], json!(["handoff-summary", "iteration-1", "refinement"]));
    assert_eq!(traces[1]["metadata"]["handoff_id"], json!(first.handoff.handoff_id));
    let preview = traces[1]["metadata"]["feedback_preview"].as_str().unwrap();
    assert!(preview.starts_with("Shorter") && !preview.contains("hunter2"), "m16: {preview}");
    assert!(calls.iter().all(|event| event.category == Category::Trace.as_str()), "a19");
}

#[tokio::test]
async fn m8_a_revert_to_an_earlier_iteration_needs_no_draft() {
    let environment = TestEnvironment::new();
    let server = numbering_server(3);
    let (agent, first) = pending_handoff(environment.agent_with(&server), &environment).await;
    let second = decide(&agent, &first, &json!({"feedback": "Shorter."})).await.unwrap();
    let reverted = decide(&agent, &second, &json!({"revert_to": 0})).await.unwrap();
    assert_eq!(server.call_count(), 2);
    assert_eq!(reverted.proposal.package_md, first.proposal.package_md);
    assert_eq!((reverted.proposal.iteration, reverted.remaining_refinements), (2, 2));
    assert_ne!(reverted.interrupt.interrupt_id, second.interrupt.interrupt_id);
    let review = agent.handoffs().review(first.handoff.handoff_id).await.unwrap();
    let iterations: Vec<u32> = review.proposals.iter().map(|proposal| proposal.iteration).collect();
    assert_eq!(iterations, [0, 1, 2], "every proposal is still readable");
    // A refinement starts from the shown proposal.
    let third = decide(&agent, &reverted, &json!({"feedback": "Longer."})).await.unwrap();
    assert!(server.requests()[2].body.to_string().contains("draft 0"));
    assert_eq!(third.proposal.iteration, 3);
    let (frames, cancel) = unwatched();
    // A decision about the proposal before the revert is stale.
    let stale = agent.handoffs().decide(first.handoff.handoff_id, &approval(&second), &frames, &cancel).await;
    assert!(stale.unwrap_err().to_string().contains("summary_sha256"));
    agent.handoffs().decide(first.handoff.handoff_id, &approval(&third), &frames, &cancel).await.unwrap();
    assert!(environment.read_agent_md().contains("draft 2"));
}

#[tokio::test]
async fn m4_a_failed_draft_reports_its_reason_and_can_be_repeated() {
    let environment = TestEnvironment::new();
    let refused = ScriptedReply::status(
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"no such model"}}"#,
    );
    let replies =
        [refused, ScriptedReply::text("{ half"), ScriptedReply::text(DRAFT), ScriptedReply::text(" ")];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let (agent, first) = pending_handoff(environment.agent_with(&server), &environment).await;
    let problem = |pending: &PendingHandoff| pending.problem.clone().unwrap_or_default();
    assert_eq!(first.proposal.summary_json.model, "extractive");
    assert!(
        problem(&first).starts_with("summarization failed: ") && problem(&first).contains("no such model"),
        "{first:?}"
    );
    let again = decide(&agent, &first, &json!({"redraft": {}})).await.unwrap();
    assert_eq!(again.proposal, first.proposal, "the last good proposal waits for a decision");
    assert!(problem(&again).contains("not the JSON asked for"), "{}", problem(&again));
    let good = decide(&agent, &again, &json!({"redraft": {}})).await.unwrap();
    assert_eq!((good.proposal.iteration, good.problem.clone()), (1, None));
    assert!(good.proposal.package_md.contains("Importer drops the last row"));
    let failed = decide(&agent, &good, &json!({"feedback": "Shorter."})).await.unwrap();
    assert_eq!(
        (problem(&failed).as_str(), failed.unused_feedback.as_deref()),
        ("summarization failed: read the draft: it is empty", Some("Shorter."))
    );
    assert_eq!(failed.proposal, good.proposal);
    let extract = decide(&agent, &failed, &json!({"redraft": {"model": "extractive"}})).await.unwrap();
    assert_eq!((extract.proposal.summary_json.model.as_str(), extract.problem), ("extractive", None));
    assert_eq!(server.call_count(), 4, "one model call for each draft");
}

#[tokio::test]
async fn a_model_that_the_user_names_makes_the_draft_and_later_refinements() {
    let environment = TestEnvironment::new();
    let server = numbering_server(3);
    let (agent, first) = pending_handoff(environment.agent_with(&server), &environment).await;
    let other = decide(&agent, &first, &json!({"redraft": {"model": "openai-chat/other"}})).await.unwrap();
    assert_eq!(other.proposal.summary_json.model, "openai-chat/other");
    let refined = decide(&agent, &other, &json!({"feedback": "Shorter."})).await.unwrap();
    assert_eq!(refined.proposal.summary_json.model, "openai-chat/other");
    assert!(server.requests()[2].path.ends_with("/chat/completions"));
    for model in ["unknown/model", "anthropic", "x"] {
        let refused = decide(&agent, &refined, &json!({"redraft": {"model": model}})).await.unwrap_err();
        assert!(
            matches!(refused, Error::Run(RunError::Runtime(runtime::Error::Rejected { .. }))),
            "{model}: {refused}"
        );
    }
    assert_eq!(
        agent.handoffs().get(first.handoff.handoff_id).await.unwrap().status,
        HandoffStatus::AwaitingDecision
    );
}

#[tokio::test]
async fn g3_without_a_model_a_redraft_is_refused_and_other_decisions_work() {
    let environment = TestEnvironment::new();
    let (agent, first) = pending_handoff(environment.agent(), &environment).await;
    assert_eq!(first.remaining_refinements, 0);
    for args in [json!({"feedback": "Shorter."}), json!({"redraft": {}})] {
        let refused = decide(&agent, &first, &args).await.unwrap_err();
        assert!(refused.to_string().contains("no model is configured"), "{args}: {refused}");
    }
    let again = decide(&agent, &first, &json!({"redraft": {"model": "extractive"}})).await.unwrap();
    assert_eq!(again.proposal.iteration, 1);
    let reverted = decide(&agent, &again, &json!({"revert_to": 0})).await.unwrap();
    assert_eq!(reverted.proposal.package_md, first.proposal.package_md);
}

#[tokio::test]
async fn g3_a_draft_without_a_model_is_refined_by_a_model_that_is_configured_later() {
    let environment = TestEnvironment::new();
    let (_, first) = pending_handoff(environment.agent(), &environment).await;
    assert_eq!(first.remaining_refinements, 0);
    let server = ScriptedServer::start(Script::new([ScriptedReply::text(DRAFT)])).unwrap();
    let agent = environment.agent_with(&server);
    let shown = agent.handoffs().review(first.handoff.handoff_id).await.unwrap().pending.unwrap();
    assert_eq!(shown.remaining_refinements, 3);
    let refined = decide(&agent, &shown, &json!({"feedback": "Shorter."})).await.unwrap();
    assert_eq!((refined.proposal.iteration, refined.remaining_refinements), (1, 2));
}

#[tokio::test]
async fn a_cancelled_first_draft_leaves_no_stored_handoff() {
    let environment = TestEnvironment::new();
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::text("{").with_fault(ScriptedFault::Stall),
        ScriptedReply::text(DRAFT),
    ]))
    .unwrap();
    let agent = environment.agent_with(&server);
    let parent = crate::environment::import_session(&environment, &agent).await.unwrap();
    let (frames, cancel) = unwatched();
    let stop = async {
        server.wait_for_calls(1).await;
        cancel.cancel();
    };
    let request = agent.handoffs().request(parent, HandoffRequestOptions::default(), &frames, &cancel);
    let (stopped, ()) = tokio::join!(request, stop);
    assert!(matches!(stopped, Err(Error::Handoff(HandoffError::Stopped(_)))), "{stopped:?}");
    let all = agent.store().handoffs(journal::HandoffFilter::default()).await.unwrap();
    assert_eq!(all, []);
    let (frames, cancel) = unwatched();
    let pending =
        agent.handoffs().request(parent, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    assert_eq!((pending.proposal.iteration, server.call_count()), (0, 2));
    assert!(server.requests().iter().all(|request| request.body.to_string().contains(DRAFT_PROMPT)));
}

#[tokio::test]
async fn a_thread_without_messages_cannot_be_handed_off() {
    let environment = TestEnvironment::new();
    let agent = environment.agent();
    let (frames, cancel) = unwatched();
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let refused = agent.handoffs().request(thread, HandoffRequestOptions::default(), &frames, &cancel).await;
    assert!(matches!(refused, Err(Error::Handoff(HandoffError::EmptyThread(_)))), "{refused:?}");
    assert_eq!(agent.store().active_runs(Some(thread)).await.unwrap(), []);
}

#[tokio::test]
async fn j7_a_handoff_without_a_decision_expires_and_a_late_decision_is_refused() {
    let environment = TestEnvironment::new();
    let (agent, old) = pending_handoff(environment.agent(), &environment).await;
    let id = old.handoff.handoff_id;
    drop(agent);
    environment.execute_sql("UPDATE handoffs SET updated_at = '2020' || substr(updated_at, 5)");
    let agent = environment.agent();
    let (frames, cancel) = unwatched();
    let late = agent.handoffs().decide(id, &approval(&old), &frames, &cancel).await;
    assert!(matches!(late, Err(Error::Handoff(HandoffError::Expired { .. }))), "{late:?}");
    assert_eq!(agent.handoffs().get(id).await.unwrap().status, HandoffStatus::Expired);
    assert_eq!(events(&agent, &old, EventType::HandoffExpired).await.len(), 1);
    assert_eq!(agent.runs().pending_interrupts(old.handoff.parent_thread_id).await.unwrap(), []);
    let parent = old.handoff.parent_thread_id;
    let next =
        agent.handoffs().request(parent, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    assert_ne!(next.handoff.handoff_id, id);
}

#[tokio::test]
async fn j7_overdue_handoffs_expire_without_a_decision() {
    let environment = TestEnvironment::new();
    let (agent, old) = pending_handoff(environment.agent(), &environment).await;
    assert_eq!(agent.handoffs().expire_overdue().await.unwrap(), 0);
    environment.execute_sql("UPDATE handoffs SET updated_at = '2020' || substr(updated_at, 5)");
    assert_eq!(agent.handoffs().expire_overdue().await.unwrap(), 1);
    let handoff = agent.handoffs().get(old.handoff.handoff_id).await.unwrap();
    assert_eq!(handoff.status, HandoffStatus::Expired);
    assert_eq!(agent.runs().pending_interrupts(handoff.parent_thread_id).await.unwrap(), []);
    assert_eq!(agent.handoffs().expire_overdue().await.unwrap(), 0);
}

#[tokio::test]
async fn g5_a_cancellation_before_the_draft_calls_no_model_and_keeps_the_last_good_proposal() {
    let environment = TestEnvironment::new();
    let server = numbering_server(2);
    let (agent, first) = pending_handoff(environment.agent_with(&server), &environment).await;
    let (frames, cancel) = unwatched();
    cancel.cancel();
    let feedback = edit_decision(&json!({"feedback": "Shorter."}));
    let stopped =
        agent.handoffs().decide(first.handoff.handoff_id, &feedback, &frames, &cancel).await.unwrap();
    let next = stopped.next.expect("the proposal waits for a decision again");
    assert_eq!((next.proposal, next.problem, server.call_count()), (first.proposal.clone(), None, 1));
    let (frames, cancel) = unwatched();
    let decided =
        agent.handoffs().decide(first.handoff.handoff_id, &approval(&first), &frames, &cancel).await;
    assert!(decided.unwrap().child_thread_id.is_some());
    assert_eq!(server.call_count(), 1);
}
