//! Answers: to the only question, to named ones, to none; refused ones; and what becomes of a question that is passed over.

use agent::{ApprovalPolicy, HandoffRequestOptions};
use protocol::{Interrupt, RunId, RunStatus, ThreadStatus};
use serde_json::{Value, json};
use test_model::ScriptedReply;

use super::{RequestFixture, approve, assert_fault, done_reply, try_run, write_call};
use crate::environment::unwatched;

async fn pending_interrupt(reply: ScriptedReply) -> (RequestFixture, Interrupt) {
    let desk = RequestFixture::new([reply, done_reply()]).await;
    let end = desk.say("Write.").await;
    assert_eq!(end.status, RunStatus::Interrupted, "{end:?}");
    let waiting = end.interrupts.into_iter().next().unwrap();
    (desk, waiting)
}

fn resume_request(answer: Value) -> Value {
    json!({"input": {}, "command": {"resume": answer}})
}

fn strict_resume_request(answer: Value) -> Value {
    json!({"command": {"resume": answer}, "strict_resume": true})
}

#[tokio::test]
async fn an_answer_goes_to_the_only_question_or_to_the_one_it_names() {
    for name_it in [false, true] {
        let (desk, waiting) = pending_interrupt(write_call("c1", "a")).await;
        let answer = match name_it {
            true => json!({waiting.interrupt_id.to_string(): approve()}),
            false => approve(),
        };
        let head = desk.head().await;
        let end = desk.run(json!({"input": {}, "checkpoint_id": head, "command": {"resume": answer}})).await;
        assert_eq!(end.status, RunStatus::Success, "{end:?}");
        assert_eq!((desk.world.read_file("a").as_str(), desk.server.call_count()), ("a", 2));
        assert_eq!(desk.row().await.status, ThreadStatus::Idle);
        let run = desk.agent.store().run(end.run_id).await.unwrap().unwrap();
        assert_eq!(run.status, RunStatus::Success);
        assert_eq!(desk.agent.store().run_requests(&[end.run_id]).await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn an_answer_to_nothing_does_nothing() {
    let desk = RequestFixture::new([done_reply()]).await;
    desk.say("Hello.").await;
    let gone = json!({"0123456789abcdef0123456789abcdef": approve()});
    for answer in [approve(), gone.clone(), json!({})] {
        let end = desk.run(resume_request(answer.clone())).await;
        assert_eq!((end.status, desk.server.call_count()), (RunStatus::Success, 1), "{answer}: {end:?}");
    }
    let before = desk.row().await;
    for answer in [approve(), gone, json!({})] {
        let end = desk.run(strict_resume_request(answer.clone())).await;
        assert_fault(&end, "UnknownInterruptError");
        let after = desk.row().await;
        assert_eq!((after.status, after.message_count), (before.status, before.message_count), "{answer}");
    }
}

#[tokio::test]
async fn g3_an_answer_that_cannot_be_taken_leaves_the_question_and_can_be_given_again() {
    let (desk, waiting) = pending_interrupt(write_call("c1", "a").with_call(
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
        let end = desk.run(resume_request(bad.clone())).await;
        assert_fault(&end, "InvalidDecisionError");
        assert_eq!(desk.row().await.status, ThreadStatus::Interrupted, "{bad}");
        assert_eq!(
            desk.agent.runs().pending_interrupts(desk.thread).await.unwrap(),
            std::slice::from_ref(&waiting),
            "{bad}"
        );
    }
    let end = desk
        .run(resume_request(json!({"decisions": [{"type": "approve"}, {"type": "reject", "message": "no"}]})))
        .await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!((desk.world.read_file("a"), desk.world.read_file("b")), ("a".to_owned(), String::new()));
}

#[tokio::test]
async fn a_strict_answer_that_names_another_question_changes_nothing() {
    let (desk, waiting) = pending_interrupt(write_call("c1", "a")).await;
    let both = json!({
        waiting.interrupt_id.to_string(): approve(), "0123456789abcdef0123456789abcdef": approve(),
    });
    let end = desk.run(strict_resume_request(both.clone())).await;
    assert_fault(&end, "UnknownInterruptError");
    assert_eq!(desk.agent.runs().pending_interrupts(desk.thread).await.unwrap().len(), 1);
    let end = desk.run(resume_request(both)).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
}

#[tokio::test]
async fn without_an_answer_the_same_question_waits_on() {
    let (desk, waiting) = pending_interrupt(write_call("c1", "a")).await;
    for nothing in [
        json!({"input": null}),
        resume_request(json!({})),
        json!({"command": {"resume": null}, "input": null}),
    ] {
        let end = desk.run(nothing.clone()).await;
        assert_eq!(end.status, RunStatus::Interrupted, "{nothing}: {end:?}");
        assert_eq!(end.interrupts, std::slice::from_ref(&waiting), "{nothing}");
        assert_eq!(desk.row().await.status, ThreadStatus::Interrupted);
    }
    assert_eq!(desk.server.call_count(), 1);
    let end = desk.run(resume_request(approve())).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
}

#[tokio::test]
async fn of_several_questions_each_is_answered_by_its_name() {
    let task = |prompt: &str| json!({"description": "a task", "prompt": prompt});
    let desk = RequestFixture::new([
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
    let end = desk.say("Plum.").await;
    assert_eq!(end.interrupts.len(), 2, "{end:?}");
    let end_plain = desk.run(resume_request(approve())).await;
    assert_fault(&end_plain, "AmbiguousResumeError");
    assert!(end_plain.failure.unwrap().message.contains("you must specify the interrupt id"));
    let end_plain = desk.run(strict_resume_request(approve())).await;
    assert_fault(&end_plain, "UnknownInterruptError");
    assert_eq!(
        desk.agent.runs().pending_interrupts(desk.thread).await.unwrap().len(),
        2,
        "nothing is consumed"
    );
    let ids: Vec<String> =
        end.interrupts.iter().map(|interrupt| interrupt.interrupt_id.to_string()).collect();
    let end = desk.run(resume_request(json!({ids[0].as_str(): approve()}))).await;
    assert_eq!(end.status, RunStatus::Interrupted, "{end:?}");
    assert_eq!(
        end.interrupts.iter().map(|waits| waits.interrupt_id.to_string()).collect::<Vec<_>>(),
        ids[1..]
    );
    assert_eq!(desk.row().await.status, ThreadStatus::Interrupted);
    let end = desk.run(resume_request(json!({ids[1].as_str(): approve()}))).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(
        (desk.world.read_file("hens").as_str(), desk.world.read_file("ducks").as_str()),
        ("hens", "ducks")
    );
}

#[tokio::test]
async fn several_questions_can_be_answered_in_one_run() {
    let task = |prompt: &str| json!({"description": "a task", "prompt": prompt});
    let desk = RequestFixture::new([
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
    let end = desk.say("Plum.").await;
    let answers: serde_json::Map<String, Value> =
        end.interrupts.iter().map(|interrupt| (interrupt.interrupt_id.to_string(), approve())).collect();
    let end = desk.run(resume_request(Value::Object(answers))).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(
        (desk.world.read_file("hens").as_str(), desk.world.read_file("ducks").as_str()),
        ("hens", "ducks")
    );
}

#[tokio::test]
async fn a_handoff_that_was_passed_over_is_answered_by_its_name() {
    let desk =
        RequestFixture::new([ScriptedReply::text("Hello."), write_call("c1", "a"), done_reply()]).await;
    let (frames, cancel) = unwatched();
    desk.say("Hello.").await;
    // Drafted offline: the model has other things to say.
    let offline = desk.world.agent();
    let pending = offline
        .handoffs()
        .request(desk.thread, HandoffRequestOptions::default(), &frames, &cancel)
        .await
        .unwrap();
    let end = desk.say("Write.").await;
    assert_eq!(end.status, RunStatus::Interrupted, "{end:?}");
    assert_eq!(desk.agent.runs().pending_interrupts(desk.thread).await.unwrap().len(), 2);
    let end = desk.run(resume_request(approve())).await;
    assert_eq!(
        end.status,
        RunStatus::Success,
        "the answer is for the step at which the thread stands: {end:?}"
    );
    assert_eq!(desk.world.read_file("a"), "a");
    assert_eq!(
        desk.agent.handoffs().get(pending.handoff.handoff_id).await.unwrap().status.as_str(),
        "awaiting_decision"
    );
    assert_eq!(desk.row().await.status, ThreadStatus::Interrupted);
    let named = json!({pending.interrupt.interrupt_id.to_string(): approve()});
    let end = desk.run(resume_request(named)).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let handoff = desk.agent.handoffs().get(pending.handoff.handoff_id).await.unwrap();
    assert!(desk.agent.store().thread(handoff.child_thread_id).await.unwrap().is_some(), "{handoff:?}");
}

#[tokio::test]
async fn a_change_of_the_state_comes_with_the_answer() {
    let (desk, _) = pending_interrupt(write_call("c1", "a")).await;
    let update = json!({"messages": [{"role": "user", "content": "And be quick."}]});
    let end = desk.run(json!({"command": {"resume": approve(), "update": update}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert!(
        desk.transcript_lines().await.contains(&"U: And be quick.".to_owned()),
        "{:?}",
        desk.transcript_lines().await
    );
    assert_eq!(desk.world.read_file("a"), "a", "the call that was approved was made");
    crate::environment::assert_paired(&desk.server.requests()[1].body);
}

#[tokio::test]
async fn j4_of_two_answers_at_the_same_time_one_is_taken() {
    let (desk, _) = pending_interrupt(write_call("c1", "a")).await;
    let other = desk.world.agent_with_policy(&desk.server, ("", ApprovalPolicy::Ask));
    let answer = |agent| try_run(agent, desk.thread, RunId::generate(), resume_request(approve()));
    let (one, two) = tokio::join!(answer(&desk.agent), answer(&other));
    let taken = |end: &agent::Result<agent::RunEnd>| matches!(end, Ok(end) if end.status == RunStatus::Success && end.usage.total_tokens() > 0);
    assert!(taken(&one) != taken(&two), "{one:?} {two:?}");
    assert_eq!((desk.world.read_file("a").as_str(), desk.server.call_count()), ("a", 2));
}

#[tokio::test]
async fn a_change_of_what_was_said_does_not_come_with_an_answer() {
    let (desk, _) = pending_interrupt(write_call("c1", "a")).await;
    let held = desk.agent.threads().state(desk.thread).await.unwrap().unwrap().messages[0].id.clone();
    let update = json!({"messages": [{"role": "user", "id": held, "content": "Read."}]});
    let end = desk.run(json!({"command": {"resume": approve(), "update": update}})).await;
    assert_fault(&end, "InvalidUpdateError");
    assert_eq!(desk.transcript_lines().await.len(), 2, "{:?}", desk.transcript_lines().await);
    assert_eq!(
        (desk.row().await.status, desk.world.read_file("a").as_str()),
        (ThreadStatus::Interrupted, "")
    );
}

#[tokio::test]
async fn what_comes_with_an_answer_to_nothing_is_put_in() {
    let desk = RequestFixture::new([done_reply()]).await;
    desk.say("Hello.").await;
    let update = json!({"messages": [{"role": "user", "content": "By the way."}]});
    let end = desk.run(json!({"command": {"resume": approve(), "update": update}})).await;
    assert_eq!((end.status, desk.server.call_count()), (RunStatus::Success, 1), "{end:?}");
    assert_eq!(desk.transcript_lines().await, ["U: Hello.", "A: Done.", "U: By the way."]);
}

#[tokio::test]
async fn what_comes_while_questions_stay_open_is_refused_and_they_can_be_answered() {
    let (desk, _) = pending_interrupt(write_call("c1", "a")).await;
    let update = json!({"messages": [{"role": "user", "content": "By the way."}]});
    let end = desk.run(json!({"command": {"resume": {}, "update": update}})).await;
    assert_fault(&end, "InvalidUpdateError");
    assert_eq!(
        (desk.row().await.status, desk.transcript_lines().await.len()),
        (ThreadStatus::Interrupted, 2)
    );
    let end = desk.run(resume_request(approve())).await;
    assert_eq!((end.status, desk.world.read_file("a").as_str()), (RunStatus::Success, "a"), "{end:?}");
}

#[tokio::test]
async fn what_was_approved_is_done_whatever_was_said_since_it_was_asked() {
    let more = json!({"messages": [{"role": "user", "content": "And be quick."}]});
    // The state is changed by a run, which asks again, or beside runs.
    for by_a_run in [true, false] {
        let (desk, _) = pending_interrupt(write_call("c1", "a")).await;
        match by_a_run {
            true => {
                let again = desk.run(json!({"command": {"update": more}})).await;
                assert_eq!((again.status, again.interrupts.len()), (RunStatus::Interrupted, 1), "{again:?}");
                let end = desk.run(resume_request(approve())).await;
                assert_eq!(end.status, RunStatus::Success, "{end:?}");
            }
            false => {
                let stop = json!({"command": {"resume": approve()}, "interrupt_before": ["tools"]});
                assert_eq!(desk.run(stop).await.status, RunStatus::Interrupted);
                let values = more.as_object().cloned();
                let change = langgraph::read_state_update(desk.thread, values, None, None).unwrap();
                desk.agent.threads().update_state(desk.thread, change).await.unwrap();
                assert_eq!(desk.next().await.as_deref(), Some("tools"));
                assert_eq!(desk.run(json!({"input": null})).await.status, RunStatus::Success);
            }
        }
        assert_eq!(desk.world.read_file("a"), "a", "by a run: {by_a_run}");
        crate::environment::assert_paired(&desk.server.requests().last().unwrap().body);
    }
    // What comes with the answer is of the run that stops before the call, and not of the one that makes it.
    let (desk, _) = pending_interrupt(write_call("c1", "a")).await;
    let command = json!({"resume": approve(), "update": more});
    let end = desk.run(json!({"command": command, "interrupt_before": ["tools"]})).await;
    assert_eq!((end.status, desk.next().await.as_deref()), (RunStatus::Interrupted, Some("tools")));
    assert_eq!(desk.run(json!({"input": null})).await.status, RunStatus::Success);
    assert_eq!(desk.world.read_file("a"), "a");
}

#[tokio::test]
async fn g2_a_call_has_a_result_when_a_question_is_passed_over_that_was_asked_again() {
    let (desk, _) = pending_interrupt(write_call("c1", "a")).await;
    let more = json!({"messages": [{"role": "user", "content": "And be quick."}]});
    assert_eq!(desk.run(json!({"command": {"update": more}})).await.status, RunStatus::Interrupted);
    assert_eq!(desk.say("Never mind.").await.status, RunStatus::Success);
    assert!(
        desk.transcript_lines().await.iter().any(|line| line.starts_with("T: Not done")),
        "{:?}",
        desk.transcript_lines().await
    );
    crate::environment::assert_paired(&desk.server.requests().last().unwrap().body);
}

#[tokio::test]
async fn j4_of_two_last_answers_that_come_at_the_same_time_one_goes_on() {
    let task = |prompt: &str| json!({"description": "a task", "prompt": prompt});
    let desk = RequestFixture::new([
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
    let end = desk.say("Plum.").await;
    let other = desk.world.agent_with_policy(&desk.server, ("", ApprovalPolicy::Ask));
    let answer = |agent, at: usize| {
        let named = json!({end.interrupts[at].interrupt_id.to_string(): approve()});
        try_run(agent, desk.thread, RunId::generate(), resume_request(named))
    };
    let (one, two) = tokio::join!(answer(&desk.agent, 0), answer(&other, 1));
    let mut ends = [one.unwrap().status, two.unwrap().status];
    ends.sort_by_key(|status| status.as_str());
    assert_eq!(ends, [RunStatus::Interrupted, RunStatus::Success]);
    assert_eq!(
        (desk.world.read_file("hens").as_str(), desk.world.read_file("ducks").as_str()),
        ("hens", "ducks")
    );
    assert_eq!((desk.row().await.status, desk.next().await), (ThreadStatus::Idle, None));
}

#[tokio::test]
async fn a_handoff_that_was_passed_over_is_answered_after_a_run_that_broke_off() {
    let desk = RequestFixture::new([ScriptedReply::text("Hello."), done_reply()]).await;
    let (frames, cancel) = unwatched();
    desk.say("Hello.").await;
    let offline = desk.world.agent();
    let pending = offline
        .handoffs()
        .request(desk.thread, HandoffRequestOptions::default(), &frames, &cancel)
        .await
        .unwrap();
    let run_id = RunId::generate();
    let asked = super::request(super::user_request("More."));
    drop(desk.agent.runs().begin(run_id, desk.thread, &asked, &frames).await.unwrap());
    desk.agent.runs().fail_run(run_id, "it panicked").await.unwrap();
    assert_eq!(desk.row().await.status, ThreadStatus::Interrupted);
    let state = desk.agent.threads().state(desk.thread).await.unwrap().unwrap();
    assert_eq!(state.interrupts.len(), 1, "{:?}", state.interrupts);
    let named = json!({pending.interrupt.interrupt_id.to_string(): approve()});
    let end = desk.run(resume_request(named)).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let handoff = desk.agent.handoffs().get(pending.handoff.handoff_id).await.unwrap();
    assert!(desk.agent.store().thread(handoff.child_thread_id).await.unwrap().is_some(), "{handoff:?}");
}
