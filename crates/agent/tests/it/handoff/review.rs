//! Tests of the user's decisions about a proposal, and of empty model answers, through the agent's public interface.

mod continuity;
mod newer_messages;
mod pins;
mod unused_child;
mod waiting_calls;

use agent::{Error, HandoffRequestOptions, PendingHandoff, RunError};
use protocol::{HandoffStatus, Message, RunStatus, StopReason};
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer, ScriptedStop};

use crate::environment::{
    DRAFT, DRAFT_PROMPT, TestEnvironment, approval, decisions, import_session, unwatched,
};

/// Returns a decision of type `approve` with these arguments.
fn approve_with(args: &Value) -> protocol::Decisions {
    decisions(&json!({"decisions": [{"type": "approve", "args": args}]}).to_string())
}

/// Returns an agent with a pending handoff whose draft has an unverified last item, and its server.
async fn pending_unverified(environment: &TestEnvironment) -> (agent::Agent, PendingHandoff, ScriptedServer) {
    let draft = DRAFT.replace("one row only.", "one row only in src/invented_file.rs.");
    let server = ScriptedServer::start(Script::new([ScriptedReply::text(draft)])).unwrap();
    let (frames, cancel) = unwatched();
    let agent = environment.agent_with(&server);
    let parent = import_session(environment, &agent).await.unwrap();
    let pending =
        agent.handoffs().request(parent, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    assert!(pending.proposal.package_md.contains("(unverified)"));
    (agent, pending, server)
}

#[tokio::test]
async fn g1_an_approval_without_changes_accepts_the_shown_proposal() {
    for case in ["no text", "the same text", "the same title"] {
        let environment = TestEnvironment::new();
        let (frames, cancel) = unwatched();
        let (agent, shown, _server) = pending_unverified(&environment).await;
        let args = match case {
            "no text" => json!({"handoff_id": shown.handoff.handoff_id, "iteration": 0}),
            "the same text" => json!({"summary_md": shown.proposal.package_md.trim()}),
            _ => json!({"title": shown.proposal.summary_json.title}),
        };
        let decided = agent
            .handoffs()
            .decide(shown.handoff.handoff_id, &approve_with(&args), &frames, &cancel)
            .await
            .unwrap();
        assert_eq!(decided.proposal, shown.proposal, "{case}");
        assert_eq!(
            decided.handoff.accepted_sha256.as_deref(),
            Some(shown.proposal.summary_sha256.as_str()),
            "{case}"
        );
    }
}

#[tokio::test]
async fn g3_an_approval_with_invalid_arguments_is_refused_and_the_handoff_stays_pending() {
    let environment = TestEnvironment::new();
    let (frames, cancel) = unwatched();
    let (agent, shown, _server) = pending_unverified(&environment).await;
    let id = shown.handoff.handoff_id;
    for args in [
        json!({"title": 5}),
        json!({"title": null}),
        json!({"title": " "}),
        json!({"summary_md": []}),
        json!({"summary_md": "**T**\nd\n\n### Objective\n- Go.", "title": {}}),
    ] {
        let refused = agent.handoffs().decide(id, &approve_with(&args), &frames, &cancel).await;
        let rejected = matches!(refused, Err(Error::Run(RunError::Runtime(runtime::Error::Rejected { .. }))));
        assert!(rejected, "{args}: {refused:?}");
        assert_eq!(agent.handoffs().get(id).await.unwrap().status, HandoffStatus::AwaitingDecision);
    }
}

#[tokio::test]
async fn g1_a_new_title_changes_nothing_but_the_title() {
    let environment = TestEnvironment::new();
    let (frames, cancel) = unwatched();
    let (agent, shown, _server) = pending_unverified(&environment).await;
    let args = json!({"title": "Mine"});
    let decided = agent
        .handoffs()
        .decide(shown.handoff.handoff_id, &approve_with(&args), &frames, &cancel)
        .await
        .unwrap();
    let (old, new) = (&shown.proposal, &decided.proposal);
    assert_eq!((new.summary_json.title.as_str(), new.summary_json.model.as_str()), ("Mine", "user"));
    assert_eq!(new.summary_json.body, old.summary_json.body, "items, references and flags");
    assert_eq!(new.summary_json.tldr, old.summary_json.tldr);
    assert_eq!(new.package_md, old.package_md.replace(&old.summary_json.title, "Mine"));
    let child = agent.store().thread(decided.child_thread_id.unwrap()).await.unwrap().unwrap();
    assert_eq!(child.name.as_deref(), Some("Mine"));
}

#[tokio::test]
async fn m6_an_edit_of_one_item_does_not_verify_another_item() {
    let environment = TestEnvironment::new();
    let (frames, cancel) = unwatched();
    let (agent, shown, _server) = pending_unverified(&environment).await;
    let text = shown.proposal.package_md.replace("Never change the file format.", "The format stays.");
    let decided = agent
        .handoffs()
        .decide(shown.handoff.handoff_id, &approve_with(&json!({"summary_md": text})), &frames, &cancel)
        .await
        .unwrap();
    let (old, new) = (&shown.proposal.summary_json.body, &decided.proposal.summary_json.body);
    assert_eq!((&new[0], &new[2]), (&old[0], &old[2]));
    assert_eq!((new[1].text.as_str(), new[1].verified), ("The format stays.", true));
    assert_eq!(decided.proposal.package_md, text.trim());
}

#[tokio::test]
async fn a17_an_empty_answer_fails_the_run_with_a_reason_and_the_thread_accepts_messages() {
    for (stop, reason) in [
        (ScriptedStop::EndTurn, "it is empty"),
        (ScriptedStop::Refusal, "the model declined to answer"),
        (ScriptedStop::MaxTokens, "it reached its limit before it said anything"),
    ] {
        let environment = TestEnvironment::new();
        let empty = ScriptedReply::default().with_stop(stop).with_tokens(11, 1);
        let server = ScriptedServer::start(Script::new([empty, ScriptedReply::text("Here.")])).unwrap();
        let (frames, cancel) = unwatched();
        let agent = environment.agent_with(&server);
        let thread = agent.threads().create(None).await.unwrap().thread_id;
        let end = agent.runs().send_message(thread, "Hello.", &frames, &cancel).await.unwrap();
        assert_eq!(
            (end.status, end.failure.as_ref().map(|failure| failure.kind.as_str())),
            (RunStatus::Error, Some("model")),
            "{end:?}"
        );
        let text = format!("{end:?}");
        assert!(text.contains("read the answer of anthropic/claude-test") && text.contains(reason), "{text}");
        assert!(end.failure.as_ref().is_some_and(|failure| failure.hint.is_some()));
        let end = agent.runs().send_message(thread, "Are you there?", &frames, &cancel).await.unwrap();
        assert_eq!(end.status, RunStatus::Success, "{end:?}");
    }
}

#[tokio::test]
async fn g13_an_empty_first_answer_does_not_clear_the_summary() {
    let environment = TestEnvironment::new();
    let draft = ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT);
    let server = ScriptedServer::start(Script::new([
        draft,
        ScriptedReply::default().with_stop(ScriptedStop::EndTurn),
        ScriptedReply::text("Done."),
    ]))
    .unwrap();
    let (frames, cancel) = unwatched();
    let agent = environment.agent_with(&server);
    let parent = import_session(&environment, &agent).await.unwrap();
    let shown =
        agent.handoffs().request(parent, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    let id = shown.handoff.handoff_id;
    let decided = agent.handoffs().decide(id, &approval(&shown), &frames, &cancel).await.unwrap();
    let child = decided.child_thread_id.unwrap();
    agent.runs().send_message(child, "Go on.", &frames, &cancel).await.unwrap();
    assert_eq!(agent.handoffs().get(id).await.unwrap().status, HandoffStatus::Seeded);
    agent.runs().send_message(child, "Again.", &frames, &cancel).await.unwrap();
    assert_eq!(agent.handoffs().get(id).await.unwrap().status, HandoffStatus::Cleaned);
}

#[tokio::test]
async fn an_answer_cut_at_the_token_limit_is_stored_with_its_stop_reason() {
    let environment = TestEnvironment::new();
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::text("One two").with_stop(ScriptedStop::MaxTokens)
    ]))
    .unwrap();
    let (frames, cancel) = unwatched();
    let agent = environment.agent_with(&server);
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let end = agent.runs().send_message(thread, "Count.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let events = agent.threads().events(thread).await.unwrap();
    let answer = events.iter().filter_map(protocol::Event::message).next_back();
    let Some(Message::Ai(answer)) = answer else { panic!("{answer:?}") };
    assert_eq!(answer.stop, Some(StopReason::MaxTokens));
}
