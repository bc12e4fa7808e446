//! Tests of resuming with answers: to a single question, to named questions, and to none; refused answers; and withdrawn
//! questions.

use agent::{ApprovalPolicy, HandoffRequestOptions};
use protocol::{Interrupt, RunId, RunStatus, ThreadStatus};
use serde_json::{Value, json};
use test_model::ScriptedReply;

use super::{RequestFixture, approve, assert_fault, done_reply, try_run, write_call};
use crate::environment::unwatched;

/// Returns a fixture whose thread has a pending question about the calls of `reply`, and the question.
async fn pending_interrupt(reply: ScriptedReply) -> (RequestFixture, Interrupt) {
    let fixture = RequestFixture::new([reply, done_reply()]).await;
    let end = fixture.say("Write.").await;
    assert_eq!(end.status, RunStatus::Interrupted, "{end:?}");
    let pending = end.interrupts.into_iter().next().unwrap();
    (fixture, pending)
}

fn resume_request(answer: Value) -> Value {
    json!({"input": {}, "command": {"resume": answer}})
}

fn strict_resume_request(answer: Value) -> Value {
    json!({"command": {"resume": answer}, "strict_resume": true})
}

#[tokio::test]
async fn an_answer_resolves_the_only_question_or_the_named_one() {
    for name_it in [false, true] {
        let (fixture, pending) = pending_interrupt(write_call("c1", "a")).await;
        let answer = match name_it {
            true => json!({pending.interrupt_id.to_string(): approve()}),
            false => approve(),
        };
        let head = fixture.head().await;
        let end =
            fixture.run(json!({"input": {}, "checkpoint_id": head, "command": {"resume": answer}})).await;
        assert_eq!(end.status, RunStatus::Success, "{end:?}");
        assert_eq!((fixture.environment.read_file("a").as_str(), fixture.server.call_count()), ("a", 2));
        assert_eq!(fixture.row().await.status, ThreadStatus::Idle);
        let run = fixture.agent.store().run(end.run_id).await.unwrap().unwrap();
        assert_eq!(run.status, RunStatus::Success);
        assert_eq!(fixture.agent.store().run_requests(&[end.run_id]).await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn an_answer_without_a_pending_question_does_nothing() {
    let fixture = RequestFixture::new([done_reply()]).await;
    fixture.say("Hello.").await;
    let unknown_question = json!({"0123456789abcdef0123456789abcdef": approve()});
    for answer in [approve(), unknown_question.clone(), json!({})] {
        let end = fixture.run(resume_request(answer.clone())).await;
        assert_eq!((end.status, fixture.server.call_count()), (RunStatus::Success, 1), "{answer}: {end:?}");
    }
    let before = fixture.row().await;
    for answer in [approve(), unknown_question, json!({})] {
        let end = fixture.run(strict_resume_request(answer.clone())).await;
        assert_fault(&end, "UnknownInterruptError");
        let after = fixture.row().await;
        assert_eq!((after.status, after.message_count), (before.status, before.message_count), "{answer}");
    }
}

#[tokio::test]
async fn g3_an_invalid_answer_leaves_the_question_pending() {
    let (fixture, pending) = pending_interrupt(write_call("c1", "a").with_call(
        "c2",
        "write_file",
        json!({"path": "b", "content": "b"}),
    ))
    .await;
    for bad in [
        json!("yes"),
        approve(),
        json!({"decisions": [{"type": "approve"}, {"type": "preview"}]}),
        json!({"decisions": []}),
    ] {
        let end = fixture.run(resume_request(bad.clone())).await;
        assert_fault(&end, "InvalidDecisionError");
        assert_eq!(fixture.row().await.status, ThreadStatus::Interrupted, "{bad}");
        assert_eq!(
            fixture.agent.runs().pending_interrupts(fixture.thread).await.unwrap(),
            std::slice::from_ref(&pending),
            "{bad}"
        );
    }
    let end = fixture
        .run(resume_request(json!({"decisions": [{"type": "approve"}, {"type": "reject", "message": "no"}]})))
        .await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(
        (fixture.environment.read_file("a"), fixture.environment.read_file("b")),
        ("a".to_owned(), String::new())
    );
}

#[tokio::test]
async fn a_strict_answer_that_names_another_question_changes_nothing() {
    let (fixture, pending) = pending_interrupt(write_call("c1", "a")).await;
    let both = json!({
        pending.interrupt_id.to_string(): approve(), "0123456789abcdef0123456789abcdef": approve(),
    });
    let end = fixture.run(strict_resume_request(both.clone())).await;
    assert_fault(&end, "UnknownInterruptError");
    assert_eq!(fixture.agent.runs().pending_interrupts(fixture.thread).await.unwrap().len(), 1);
    let end = fixture.run(resume_request(both)).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
}

#[tokio::test]
async fn a_run_without_an_answer_leaves_the_question_pending() {
    let (fixture, pending) = pending_interrupt(write_call("c1", "a")).await;
    for no_answer in [
        json!({"input": null}),
        resume_request(json!({})),
        json!({"command": {"resume": null}, "input": null}),
    ] {
        let end = fixture.run(no_answer.clone()).await;
        assert_eq!(end.status, RunStatus::Interrupted, "{no_answer}: {end:?}");
        assert_eq!(end.interrupts, std::slice::from_ref(&pending), "{no_answer}");
        assert_eq!(fixture.row().await.status, ThreadStatus::Interrupted);
    }
    assert_eq!(fixture.server.call_count(), 1);
    let end = fixture.run(resume_request(approve())).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
}

#[tokio::test]
async fn each_of_several_questions_is_answered_by_its_id() {
    let task = |prompt: &str| json!({"description": "a task", "prompt": prompt});
    let fixture = RequestFixture::new([
        ScriptedReply::call("c1", "task", task("Hens."))
            .with_call("c2", "task", task("Ducks."))
            .when_body_contains("Plum.")
            .when_turn_is(1, 1),
        ScriptedReply::text("Both.").when_body_contains("Plum.").when_turn_is(1, 2),
        write_call("s1", "hens").when_body_contains("Hens.").when_turn_is(1, 1),
        write_call("s2", "ducks").when_body_contains("Ducks.").when_turn_is(1, 1),
        ScriptedReply::text("Counted.").with_repeat(),
    ])
    .await;
    let end = fixture.say("Plum.").await;
    assert_eq!(end.interrupts.len(), 2, "{end:?}");
    let end_plain = fixture.run(resume_request(approve())).await;
    assert_fault(&end_plain, "AmbiguousResumeError");
    assert!(end_plain.failure.unwrap().message.contains("you must specify the interrupt id"));
    let end_plain = fixture.run(strict_resume_request(approve())).await;
    assert_fault(&end_plain, "UnknownInterruptError");
    assert_eq!(
        fixture.agent.runs().pending_interrupts(fixture.thread).await.unwrap().len(),
        2,
        "no question is answered"
    );
    let ids: Vec<String> =
        end.interrupts.iter().map(|interrupt| interrupt.interrupt_id.to_string()).collect();
    let end = fixture.run(resume_request(json!({ids[0].as_str(): approve()}))).await;
    assert_eq!(end.status, RunStatus::Interrupted, "{end:?}");
    assert_eq!(
        end.interrupts.iter().map(|interrupt| interrupt.interrupt_id.to_string()).collect::<Vec<_>>(),
        ids[1..]
    );
    assert_eq!(fixture.row().await.status, ThreadStatus::Interrupted);
    let end = fixture.run(resume_request(json!({ids[1].as_str(): approve()}))).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(
        (fixture.environment.read_file("hens").as_str(), fixture.environment.read_file("ducks").as_str()),
        ("hens", "ducks")
    );
}

#[tokio::test]
async fn several_questions_can_be_answered_in_one_run() {
    let task = |prompt: &str| json!({"description": "a task", "prompt": prompt});
    let fixture = RequestFixture::new([
        ScriptedReply::call("c1", "task", task("Hens."))
            .with_call("c2", "task", task("Ducks."))
            .when_body_contains("Plum.")
            .when_turn_is(1, 1),
        ScriptedReply::text("Both.").when_body_contains("Plum.").when_turn_is(1, 2),
        write_call("s1", "hens").when_body_contains("Hens.").when_turn_is(1, 1),
        write_call("s2", "ducks").when_body_contains("Ducks.").when_turn_is(1, 1),
        ScriptedReply::text("Counted.").with_repeat(),
    ])
    .await;
    let end = fixture.say("Plum.").await;
    let answers: serde_json::Map<String, Value> =
        end.interrupts.iter().map(|interrupt| (interrupt.interrupt_id.to_string(), approve())).collect();
    let end = fixture.run(resume_request(Value::Object(answers))).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(
        (fixture.environment.read_file("hens").as_str(), fixture.environment.read_file("ducks").as_str()),
        ("hens", "ducks")
    );
}

#[tokio::test]
async fn a_handoff_before_a_later_question_is_answered_by_its_id() {
    let fixture =
        RequestFixture::new([ScriptedReply::text("Hello."), write_call("c1", "a"), done_reply()]).await;
    let (frames, cancel) = unwatched();
    fixture.say("Hello.").await;
    // An agent without a model drafts it, so that no scripted reply is used up.
    let offline = fixture.environment.agent();
    let pending = offline
        .handoffs()
        .request(fixture.thread, HandoffRequestOptions::default(), &frames, &cancel)
        .await
        .unwrap();
    let end = fixture.say("Write.").await;
    assert_eq!(end.status, RunStatus::Interrupted, "{end:?}");
    assert_eq!(fixture.agent.runs().pending_interrupts(fixture.thread).await.unwrap().len(), 2);
    let end = fixture.run(resume_request(approve())).await;
    assert_eq!(
        end.status,
        RunStatus::Success,
        "an answer without an id goes to the question of the next node: {end:?}"
    );
    assert_eq!(fixture.environment.read_file("a"), "a");
    assert_eq!(
        fixture.agent.handoffs().get(pending.handoff.handoff_id).await.unwrap().status.as_str(),
        "awaiting_decision"
    );
    assert_eq!(fixture.row().await.status, ThreadStatus::Interrupted);
    let named = json!({pending.interrupt.interrupt_id.to_string(): approve()});
    let end = fixture.run(resume_request(named)).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let handoff = fixture.agent.handoffs().get(pending.handoff.handoff_id).await.unwrap();
    assert!(fixture.agent.store().thread(handoff.child_thread_id).await.unwrap().is_some(), "{handoff:?}");
}

#[tokio::test]
async fn an_answer_can_include_a_state_update() {
    let (fixture, _) = pending_interrupt(write_call("c1", "a")).await;
    let update = json!({"messages": [{"role": "user", "content": "And be quick."}]});
    let end = fixture.run(json!({"command": {"resume": approve(), "update": update}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert!(
        fixture.transcript_lines().await.contains(&"U: And be quick.".to_owned()),
        "{:?}",
        fixture.transcript_lines().await
    );
    assert_eq!(fixture.environment.read_file("a"), "a", "the approved call is made");
    crate::environment::assert_paired(&fixture.server.requests()[1].body);
}

#[tokio::test]
async fn j4_one_of_two_concurrent_answers_is_accepted() {
    let (fixture, _) = pending_interrupt(write_call("c1", "a")).await;
    let other = fixture.environment.agent_with_policy(&fixture.server, ("", ApprovalPolicy::Ask));
    let answer = |agent| try_run(agent, fixture.thread, RunId::generate(), resume_request(approve()));
    let (first, second) = tokio::join!(answer(&fixture.agent), answer(&other));
    let is_accepted = |end: &agent::Result<agent::RunEnd>| matches!(end, Ok(end) if end.status == RunStatus::Success && end.usage.total_tokens() > 0);
    assert!(is_accepted(&first) != is_accepted(&second), "{first:?} {second:?}");
    assert_eq!((fixture.environment.read_file("a").as_str(), fixture.server.call_count()), ("a", 2));
}

#[tokio::test]
async fn an_answer_cannot_change_an_existing_message() {
    let (fixture, _) = pending_interrupt(write_call("c1", "a")).await;
    let message_id =
        fixture.agent.threads().state(fixture.thread).await.unwrap().unwrap().messages[0].id.clone();
    let update = json!({"messages": [{"role": "user", "id": message_id, "content": "Read."}]});
    let end = fixture.run(json!({"command": {"resume": approve(), "update": update}})).await;
    assert_fault(&end, "InvalidUpdateError");
    assert_eq!(fixture.transcript_lines().await.len(), 2, "{:?}", fixture.transcript_lines().await);
    assert_eq!(
        (fixture.row().await.status, fixture.environment.read_file("a").as_str()),
        (ThreadStatus::Interrupted, "")
    );
}

#[tokio::test]
async fn an_update_with_an_answer_to_no_question_is_applied() {
    let fixture = RequestFixture::new([done_reply()]).await;
    fixture.say("Hello.").await;
    let update = json!({"messages": [{"role": "user", "content": "By the way."}]});
    let end = fixture.run(json!({"command": {"resume": approve(), "update": update}})).await;
    assert_eq!((end.status, fixture.server.call_count()), (RunStatus::Success, 1), "{end:?}");
    assert_eq!(fixture.transcript_lines().await, ["U: Hello.", "A: Done.", "U: By the way."]);
}

#[tokio::test]
async fn an_update_is_refused_while_questions_stay_pending() {
    let (fixture, _) = pending_interrupt(write_call("c1", "a")).await;
    let update = json!({"messages": [{"role": "user", "content": "By the way."}]});
    let end = fixture.run(json!({"command": {"resume": {}, "update": update}})).await;
    assert_fault(&end, "InvalidUpdateError");
    assert_eq!(
        (fixture.row().await.status, fixture.transcript_lines().await.len()),
        (ThreadStatus::Interrupted, 2)
    );
    let end = fixture.run(resume_request(approve())).await;
    assert_eq!(
        (end.status, fixture.environment.read_file("a").as_str()),
        (RunStatus::Success, "a"),
        "{end:?}"
    );
}

#[tokio::test]
async fn an_approved_call_is_made_after_later_messages_too() {
    let more = json!({"messages": [{"role": "user", "content": "And be quick."}]});
    // The state is changed by a run, which asks again, or by an update outside of any run.
    for by_a_run in [true, false] {
        let (fixture, _) = pending_interrupt(write_call("c1", "a")).await;
        match by_a_run {
            true => {
                let again = fixture.run(json!({"command": {"update": more}})).await;
                assert_eq!((again.status, again.interrupts.len()), (RunStatus::Interrupted, 1), "{again:?}");
                let end = fixture.run(resume_request(approve())).await;
                assert_eq!(end.status, RunStatus::Success, "{end:?}");
            }
            false => {
                let stop = json!({"command": {"resume": approve()}, "interrupt_before": ["tools"]});
                assert_eq!(fixture.run(stop).await.status, RunStatus::Interrupted);
                let values = more.as_object().cloned();
                let change = langgraph::read_state_update(fixture.thread, values, None, None).unwrap();
                fixture.agent.threads().update_state(fixture.thread, change).await.unwrap();
                assert_eq!(fixture.next().await.as_deref(), Some("tools"));
                assert_eq!(fixture.run(json!({"input": null})).await.status, RunStatus::Success);
            }
        }
        assert_eq!(fixture.environment.read_file("a"), "a", "by a run: {by_a_run}");
        crate::environment::assert_paired(&fixture.server.requests().last().unwrap().body);
    }
    // The update belongs to the run that stops before the call, not to the later run that makes the call.
    let (fixture, _) = pending_interrupt(write_call("c1", "a")).await;
    let command = json!({"resume": approve(), "update": more});
    let end = fixture.run(json!({"command": command, "interrupt_before": ["tools"]})).await;
    assert_eq!((end.status, fixture.next().await.as_deref()), (RunStatus::Interrupted, Some("tools")));
    assert_eq!(fixture.run(json!({"input": null})).await.status, RunStatus::Success);
    assert_eq!(fixture.environment.read_file("a"), "a");
}

#[tokio::test]
async fn g2_a_call_gets_a_result_when_its_repeated_question_is_withdrawn() {
    let (fixture, _) = pending_interrupt(write_call("c1", "a")).await;
    let more = json!({"messages": [{"role": "user", "content": "And be quick."}]});
    assert_eq!(fixture.run(json!({"command": {"update": more}})).await.status, RunStatus::Interrupted);
    assert_eq!(fixture.say("Never mind.").await.status, RunStatus::Success);
    assert!(
        fixture.transcript_lines().await.iter().any(|line| line.starts_with("T: Not done")),
        "{:?}",
        fixture.transcript_lines().await
    );
    crate::environment::assert_paired(&fixture.server.requests().last().unwrap().body);
}

#[tokio::test]
async fn j4_one_of_two_concurrent_last_answers_resumes_the_turn() {
    let task = |prompt: &str| json!({"description": "a task", "prompt": prompt});
    let fixture = RequestFixture::new([
        ScriptedReply::call("c1", "task", task("Hens."))
            .with_call("c2", "task", task("Ducks."))
            .when_body_contains("Plum.")
            .when_turn_is(1, 1),
        ScriptedReply::text("Both.").when_body_contains("Plum.").when_turn_is(1, 2),
        write_call("s1", "hens").when_body_contains("Hens.").when_turn_is(1, 1),
        write_call("s2", "ducks").when_body_contains("Ducks.").when_turn_is(1, 1),
        ScriptedReply::text("Counted.").with_repeat(),
    ])
    .await;
    let end = fixture.say("Plum.").await;
    let other = fixture.environment.agent_with_policy(&fixture.server, ("", ApprovalPolicy::Ask));
    let answer = |agent, index: usize| {
        let named = json!({end.interrupts[index].interrupt_id.to_string(): approve()});
        try_run(agent, fixture.thread, RunId::generate(), resume_request(named))
    };
    let (first, second) = tokio::join!(answer(&fixture.agent, 0), answer(&other, 1));
    let mut ends = [first.unwrap().status, second.unwrap().status];
    ends.sort_by_key(|status| status.as_str());
    assert_eq!(ends, [RunStatus::Interrupted, RunStatus::Success]);
    assert_eq!(
        (fixture.environment.read_file("hens").as_str(), fixture.environment.read_file("ducks").as_str()),
        ("hens", "ducks")
    );
    assert_eq!((fixture.row().await.status, fixture.next().await), (ThreadStatus::Idle, None));
}

#[tokio::test]
async fn a_pending_handoff_can_be_answered_after_a_failed_run() {
    let fixture = RequestFixture::new([ScriptedReply::text("Hello."), done_reply()]).await;
    let (frames, cancel) = unwatched();
    fixture.say("Hello.").await;
    let offline = fixture.environment.agent();
    let pending = offline
        .handoffs()
        .request(fixture.thread, HandoffRequestOptions::default(), &frames, &cancel)
        .await
        .unwrap();
    let run_id = RunId::generate();
    let run_request = super::request(super::user_request("More."));
    drop(fixture.agent.runs().begin(run_id, fixture.thread, &run_request, &frames).await.unwrap());
    fixture.agent.runs().fail_run(run_id, "it panicked").await.unwrap();
    assert_eq!(fixture.row().await.status, ThreadStatus::Interrupted);
    let state = fixture.agent.threads().state(fixture.thread).await.unwrap().unwrap();
    assert_eq!(state.interrupts.len(), 1, "{:?}", state.interrupts);
    let named = json!({pending.interrupt.interrupt_id.to_string(): approve()});
    let end = fixture.run(resume_request(named)).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let handoff = fixture.agent.handoffs().get(pending.handoff.handoff_id).await.unwrap();
    assert!(fixture.agent.store().thread(handoff.child_thread_id).await.unwrap().is_some(), "{handoff:?}");
}
