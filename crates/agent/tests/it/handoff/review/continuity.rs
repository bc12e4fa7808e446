//! Tests of the check of what the next agent would know: its calls at the wire, its report, and what it leaves behind.

use agent::{Agent, PendingHandoff, ProbeMethod};
use protocol::event::body::ModelCalled;
use protocol::{ContinuityReport, EventType, ProbeJudge, ProbeKind};
use serde_json::{Value, json};
use test_model::{GatePosition, Script, ScriptedFault, ScriptedReply, ScriptedServer};

use crate::environment::{DRAFT, DRAFT_PROMPT, TestEnvironment, message_texts, unwatched};
use crate::handoff::pending_handoff;

/// A phrase of the instructions for the answers.
const ANSWER_PROMPT: &str = "You are about to continue work";
/// A phrase of the instructions for the judgement.
const JUDGE_PROMPT: &str = "You compare answers";

/// Returns a server that drafts, and gives these replies after it.
fn server_with(replies: impl IntoIterator<Item = ScriptedReply>) -> ScriptedServer {
    let draft = ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT);
    ScriptedServer::start(Script::new([draft].into_iter().chain(replies))).unwrap()
}

/// Returns the reply with these answers, numbered from 1.
fn answers(texts: &[&str]) -> ScriptedReply {
    let numbered = texts.iter().enumerate();
    let list: Vec<Value> =
        numbered.map(|(index, text)| json!({"number": index + 1, "answer": text})).collect();
    ScriptedReply::text(json!({"answers": list}).to_string()).when_body_contains(ANSWER_PROMPT)
}

/// Checks the proposal and returns the report.
async fn probe(agent: &Agent, pending: &PendingHandoff, method: ProbeMethod) -> ContinuityReport {
    let (frames, cancel) = unwatched();
    agent.handoffs().probe(pending, method, &frames, &cancel).await.unwrap().expect("nobody stopped it")
}

/// Returns each subject with the result.
fn results(report: &ContinuityReport) -> Vec<(ProbeKind, bool, ProbeJudge)> {
    report.probes.iter().map(|probe| (probe.kind, probe.passed, probe.judged_by)).collect()
}

#[tokio::test]
async fn a19_the_model_answers_from_the_package_alone_and_words_and_the_model_judge() {
    let environment = TestEnvironment::new();
    let verdicts = json!({"verdicts": [{"number": 1, "agrees": true}]}).to_string();
    let server = server_with([
        answers(&["Einen Test für eine Zeile", "Never change the file format.", "src/import.rs"])
            .with_tokens(700, 30),
        ScriptedReply::text(verdicts).when_body_contains(JUDGE_PROMPT).with_tokens(200, 10),
    ]);
    let (agent, pending) = pending_handoff(environment.agent_with(&server), &environment).await;
    let thread_id = pending.handoff.parent_thread_id;
    let before =
        (message_texts(&agent, thread_id).await, agent.threads().find(&thread_id.to_string()).await.unwrap());
    let report = probe(&agent, &pending, ProbeMethod::Model).await;
    assert_eq!(
        results(&report),
        [
            (ProbeKind::LastRequest, true, ProbeJudge::Model),
            (ProbeKind::Rule, true, ProbeJudge::Rules),
            (ProbeKind::File, true, ProbeJudge::Rules),
        ]
    );
    assert_eq!((report.model.as_deref(), report.usage.total_tokens()), (Some("anthropic/claude-test"), 940));
    let requests = server.requests();
    assert_eq!(requests.len(), 3, "the draft, the answers and the judgement");
    let asked = &requests[1].body;
    let system = asked["system"].to_string();
    let section =
        serde_json::to_string(&model::untrusted_text::neutralize(&pending.proposal.package_md)).unwrap();
    assert!(system.contains(section.trim_matches('"')), "the child's section: {system}");
    assert_eq!(
        asked["messages"].as_array().unwrap().len(),
        1,
        "nothing of the conversation is sent: {asked}"
    );
    assert!(asked.get("tools").is_none_or(|tools| tools.as_array().is_none_or(Vec::is_empty)));
    // The second call is answered from the record, and no thread has another message.
    assert_eq!(probe(&agent, &pending, ProbeMethod::Model).await, report);
    assert_eq!(server.call_count(), 3);
    let after = agent.threads().find(&thread_id.to_string()).await.unwrap();
    assert_eq!((&before.0, before.1.updated_at), (&message_texts(&agent, thread_id).await, after.updated_at));
    let events = agent.threads().events(thread_id).await.unwrap();
    let calls = events.iter().filter(|event| event.kind() == Some(EventType::ModelCalled));
    assert_eq!(calls.count(), 2, "the draft and the check are recorded with their cost");
    let cost = agent.threads().cost_report(thread_id).await.unwrap();
    assert!(cost.models.iter().map(|model| model.usage.total_tokens()).sum::<u64>() >= 940);
}

#[tokio::test]
async fn a_failed_probe_becomes_feedback_that_names_the_missing_fact() {
    let environment = TestEnvironment::new();
    let server = server_with([answers(&["unknown"])]);
    let (agent, pending) = pending_handoff(environment.agent_with(&server), &environment).await;
    let report = probe(&agent, &pending, ProbeMethod::Model).await;
    assert_eq!(report.passed_count(), 0, "a question without an answer fails too");
    let feedback = report.feedback().unwrap();
    for probe in &report.probes {
        assert!(feedback.contains(&format!("- {}: {}", probe.kind.label(), probe.expected)), "{feedback}");
    }
    assert_eq!(server.call_count(), 2, "no judgement is needed");
}

#[tokio::test]
async fn without_a_usable_answer_the_text_is_searched_and_the_report_says_so() {
    for (reply, problem) in [
        (ScriptedReply::text("I cannot do that."), "the reply did not have the requested form"),
        (ScriptedReply::status(500, "broken"), "anthropic"),
        (ScriptedReply::text("").with_fault(ScriptedFault::Half), ""),
    ] {
        let environment = TestEnvironment::new();
        let server = server_with([reply.with_repeat()]);
        let (agent, pending) = pending_handoff(environment.agent_with(&server), &environment).await;
        let report = probe(&agent, &pending, ProbeMethod::Model).await;
        let text = report.problem.clone().expect("the model failed");
        assert!(text.contains(problem), "{text}");
        assert!(!text.contains("line 1 column 1"), "{text}");
        assert_eq!(report.model, None);
        let searched = probe(&agent, &pending, ProbeMethod::Text).await;
        assert_eq!((results(&report), &searched.problem), (results(&searched), &None));
    }
}

#[tokio::test]
async fn answers_that_could_not_be_compared_do_not_pass_and_the_next_check_asks_again() {
    let environment = TestEnvironment::new();
    let unread = |text: &str| ScriptedReply::text(text).when_body_contains(JUDGE_PROMPT);
    let paraphrase = ["Einen Test für eine Zeile", "Never change the file format.", "src/import.rs"];
    let agreed = json!({"verdicts": [{"number": 1, "agrees": true}]}).to_string();
    let server = server_with([
        answers(&paraphrase),
        unread(r#"{"verdicts": [{"number": 99, "agrees": true}]}"#),
        answers(&paraphrase),
        unread(&agreed),
    ]);
    let (agent, pending) = pending_handoff(environment.agent_with(&server), &environment).await;
    let report = probe(&agent, &pending, ProbeMethod::Model).await;
    let problem = report.problem.as_deref().unwrap_or_default();
    assert!(problem.starts_with("the reply with the judgement") && !report.probes[0].passed, "{report:?}");
    let again = probe(&agent, &pending, ProbeMethod::Model).await;
    assert_eq!((again.problem, again.probes[0].passed, server.call_count()), (None, true, 5));
}

#[tokio::test]
async fn a_stopped_check_and_a_check_of_a_preview_leave_nothing_behind() {
    let environment = TestEnvironment::new();
    let server = server_with([answers(&["a", "b"])]);
    let (agent, pending) = pending_handoff(environment.agent_with(&server), &environment).await;
    let thread_id = pending.handoff.parent_thread_id;
    let events = agent.threads().events(thread_id).await.unwrap();
    let (frames, cancel) = unwatched();
    cancel.cancel();
    let stopped = agent.handoffs().probe(&pending, ProbeMethod::Model, &frames, &cancel).await.unwrap();
    assert_eq!(stopped, None);
    let mut preview = pending.clone();
    preview.draft_usage = Some(protocol::Usage::default());
    probe(&agent, &preview, ProbeMethod::Text).await;
    probe(&agent, &preview, ProbeMethod::Model).await;
    assert_eq!(agent.threads().events(thread_id).await.unwrap(), events);
}

#[tokio::test]
async fn clients_that_check_the_same_text_at_once_share_one_check() {
    let environment = TestEnvironment::new();
    let reply = answers(&["a", "Never change the file format.", "src/import.rs"]).with_repeat();
    let verdicts = json!({"verdicts": [{"number": 1, "agrees": true}]}).to_string();
    let judged = ScriptedReply::text(verdicts).when_body_contains(JUDGE_PROMPT).with_repeat();
    let server = server_with([reply, judged]);
    let (agent, pending) = pending_handoff(environment.agent_with(&server), &environment).await;
    let check = || probe(&agent, &pending, ProbeMethod::Model);
    let (one, two, three) = tokio::join!(check(), check(), check());
    assert!(one == two && two == three, "{one:?}");
    let asked =
        server.requests().iter().filter(|request| request.body.to_string().contains(ANSWER_PROMPT)).count();
    assert_eq!(asked, 1);
}

#[tokio::test]
async fn the_tokens_of_a_stopped_check_are_recorded() {
    let environment = TestEnvironment::new();
    let server = server_with([
        answers(&["unclear", "Never change the file format.", "src/import.rs"]).with_tokens(700, 30),
        ScriptedReply::text("{}").when_body_contains(JUDGE_PROMPT).with_gate("judge", GatePosition::Start),
    ]);
    let (agent, pending) = pending_handoff(environment.agent_with(&server), &environment).await;
    let (frames, cancel) = unwatched();
    let stop = async {
        server.wait_for_calls(3).await;
        cancel.cancel();
    };
    let handoffs = agent.handoffs();
    let (report, ()) = tokio::join!(handoffs.probe(&pending, ProbeMethod::Model, &frames, &cancel), stop);
    assert_eq!(report.unwrap(), None);
    let events = agent.threads().events(pending.handoff.parent_thread_id).await.unwrap();
    let called = events.iter().rev().find_map(|event| event.body::<ModelCalled>().ok()).unwrap();
    assert_eq!((called.usage.unwrap().total_tokens(), called.continuity), (730, None));
    assert_eq!(called.problem.as_deref(), Some("the check was stopped"));
    server.open_gate("judge");
}
