//! Threads made and noted about; runs that wait, are taken back, or forgotten.

use agent::{Error, IfExists, RunError, ThreadError};
use protocol::{RunId, RunStatus, ThreadId, ThreadStatus};
use serde_json::{Map, Value, json};
use test_model::{ScriptedFault, ScriptedReply};

use super::{
    RequestFixture, approve, begin_queued, done_reply, request, run_until_call, try_run, user_request,
    write_call,
};

fn map(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

#[tokio::test]
async fn h2_a_thread_is_made_once_and_a_client_sets_no_reserved_notes() {
    let desk = RequestFixture::new([]).await;
    let agent = &desk.agent;
    let id = ThreadId::generate();
    let notes = map(
        json!({"title": "x", "owner": "bob", "temporary": {}, "handoff": {"a": 1}, "workspace": "/", "graph_id": "agent"}),
    );
    let (made, is_new) =
        agent.threads().ensure_thread(Some(id), notes.clone(), IfExists::Raise).await.unwrap();
    assert!(is_new && made.status == ThreadStatus::Idle);
    let stored = agent.store().thread(id).await.unwrap().unwrap();
    assert_eq!(stored, made, "what is returned is what is stored");
    assert_eq!((&stored.metadata["title"], &stored.metadata["graph_id"]), (&json!("x"), &json!("agent")));
    assert!(!stored.metadata.contains_key("owner") && !stored.metadata.contains_key("handoff"));
    assert_ne!(stored.metadata["workspace"], "/");
    let theirs =
        agent.threads().patch_metadata(id, map(json!({"user_id": "v", "created_by": "me"}))).await.unwrap();
    assert_eq!((&theirs.metadata["user_id"], &theirs.metadata["created_by"]), (&json!("v"), &json!("me")));
    let stored = agent.store().thread(id).await.unwrap().unwrap();
    assert!(!stored.metadata.contains_key("temporary"));
    let again = agent.threads().ensure_thread(Some(id), Map::new(), IfExists::Raise).await;
    assert!(matches!(again, Err(Error::Thread(ThreadError::Exists(_)))), "{again:?}");
    let (there, is_new) = agent
        .threads()
        .ensure_thread(Some(id), map(json!({"title": "y"})), IfExists::DoNothing)
        .await
        .unwrap();
    assert!(!is_new && there == stored);
    let patched = agent
        .threads()
        .patch_metadata(id, map(json!({"title": "z", "owner": "bob", "more": 1})))
        .await
        .unwrap();
    assert_eq!((&patched.metadata["title"], &patched.metadata["more"]), (&json!("z"), &json!(1)));
    assert!(!patched.metadata.contains_key("owner"));
    let nothing =
        agent.threads().patch_metadata(id, map(json!({"more": null, "handoff": null}))).await.unwrap();
    assert_eq!(nothing.metadata.get("more"), Some(&json!(null)), "a null is noted as one");
    assert_eq!(nothing, agent.store().thread(id).await.unwrap().unwrap());
    assert!(!nothing.metadata.contains_key("handoff"));
    let large = agent.threads().patch_metadata(id, map(json!({"x": "x".repeat(70_000)}))).await;
    assert!(matches!(large, Err(Error::Thread(ThreadError::MetadataTooLarge(_)))), "{large:?}");
    let key = json!({"notes": ["x", {"deep": "AKIAIOSFODNN7EXAMPLE, sk-ant-REDACTED"}]});
    let secret = agent.threads().patch_metadata(id, map(key)).await;
    assert!(matches!(secret, Err(Error::Thread(ThreadError::SecretInMetadata(_)))), "k4: {secret:?}");
    let unknown = agent.threads().patch_metadata(ThreadId::generate(), Map::new()).await;
    assert!(matches!(unknown, Err(Error::Thread(ThreadError::Unknown(_)))), "{unknown:?}");
}

#[tokio::test]
async fn h2_of_two_that_make_a_thread_at_the_same_time_one_does() {
    let desk = RequestFixture::new([]).await;
    let id = ThreadId::generate();
    let make = |title: &str| {
        desk.agent.threads().ensure_thread(Some(id), map(json!({"title": title})), IfExists::DoNothing)
    };
    let (one, two) = tokio::join!(make("one"), make("two"));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert!(one.1 != two.1, "{one:?} {two:?}");
    assert_eq!(one.0.metadata, two.0.metadata);
}

#[tokio::test]
async fn a_run_that_waits_begins_under_its_id_or_is_stopped_before_it_does() {
    let desk = RequestFixture::new([done_reply()]).await;
    let (one, two) = (RunId::generate(), RunId::generate());
    for run_id in [one, two] {
        let run =
            desk.agent.runs().enqueue(run_id, desk.thread, &request(user_request("Hello."))).await.unwrap();
        assert_eq!(run.status, RunStatus::Pending);
    }
    assert_eq!(desk.row().await.status, ThreadStatus::Busy);
    assert_eq!(desk.row().await.metadata["graph_id"], "agent");
    let end = begin_queued(&desk.agent, desk.thread, one, &request(user_request("Hello."))).await;
    assert_eq!((end.run_id, end.status), (one, RunStatus::Success));
    assert!(desk.agent.runs().cancel_queued_run(two).await.unwrap());
    assert!(!desk.agent.runs().cancel_queued_run(two).await.unwrap(), "it waits no more");
    assert!(!desk.agent.runs().cancel_queued_run(one).await.unwrap(), "it has ended");
    let stopped = desk.agent.store().run(two).await.unwrap().unwrap();
    assert_eq!(stopped.status, RunStatus::Cancelled);
    assert_eq!(desk.row().await.status, ThreadStatus::Idle);
    assert_eq!(desk.transcript_lines().await, ["U: Hello.", "A: Done."]);
    let late = try_run(&desk.agent, desk.thread, two, user_request("Hello.")).await;
    assert!(late.is_err(), "{late:?}");
}

#[tokio::test]
async fn a_run_that_has_begun_is_not_ended_as_one_that_waits() {
    let desk =
        RequestFixture::new([ScriptedReply::text("Working").with_fault(ScriptedFault::Stall), done_reply()])
            .await;
    let run_id = RunId::generate();
    desk.agent.runs().enqueue(run_id, desk.thread, &request(user_request("Hello."))).await.unwrap();
    let (frames, cancel) = crate::environment::unwatched();
    let asked = request(user_request("Hello."));
    let begun = desk.agent.runs().begin_queued(run_id, desk.thread, &asked, &frames).await.unwrap();
    assert!(!desk.agent.runs().cancel_queued_run(run_id).await.unwrap());
    let refused = desk.agent.runs().roll_back_run(run_id).await;
    assert!(matches!(refused, Err(Error::Run(RunError::Active(_)))), "{refused:?}");
    let refused = desk.agent.runs().forget_run(run_id).await;
    assert!(matches!(refused, Err(Error::Run(RunError::Active(_)))), "{refused:?}");
    cancel.cancel();
    let end = desk.agent.runs().drive_started(begun, &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Cancelled);
}

#[tokio::test]
async fn j4_a_thread_rests_when_the_last_of_the_runs_that_wait_are_stopped_at_the_same_time() {
    let desk = RequestFixture::new([]).await;
    let ids = [RunId::generate(), RunId::generate(), RunId::generate()];
    for run_id in ids {
        desk.agent.runs().enqueue(run_id, desk.thread, &request(user_request("Hello."))).await.unwrap();
    }
    let cancel = |id| desk.agent.runs().cancel_queued_run(id);
    let (one, two, three) = tokio::join!(cancel(ids[0]), cancel(ids[1]), cancel(ids[2]));
    assert!(one.unwrap() && two.unwrap() && three.unwrap());
    assert_eq!(desk.row().await.status, ThreadStatus::Idle);
}

#[tokio::test]
async fn j4_a_run_that_was_forgotten_while_it_waited_never_begins() {
    let desk = RequestFixture::new([done_reply()]).await;
    let (run_id, asked) = (RunId::generate(), request(user_request("Hello.")));
    desk.agent.runs().enqueue(run_id, desk.thread, &asked).await.unwrap();
    desk.agent.runs().forget_run(run_id).await.unwrap();
    let (frames, _) = crate::environment::unwatched();
    assert!(desk.agent.runs().begin_queued(run_id, desk.thread, &asked, &frames).await.is_err());
    let again = desk.agent.runs().cancel_queued_run(run_id).await;
    assert!(matches!(again, Err(Error::Run(RunError::Unknown(_)))), "{again:?}");
    assert_eq!(desk.agent.store().run(run_id).await.unwrap(), None);
    assert_eq!((desk.row().await.status, desk.transcript_lines().await.len()), (ThreadStatus::Idle, 0));
}

#[tokio::test]
async fn j1_another_run_of_a_busy_thread_is_refused_and_changes_nothing() {
    let desk = RequestFixture::new([done_reply()]).await;
    let (frames, cancel) = crate::environment::unwatched();
    let begun = desk
        .agent
        .runs()
        .begin(RunId::generate(), desk.thread, &request(user_request("One.")), &frames)
        .await
        .unwrap();
    for asked in [user_request("Two."), json!({"input": null}), json!({"command": {"goto": "__end__"}})] {
        let refused = try_run(&desk.agent, desk.thread, RunId::generate(), asked).await.unwrap_err();
        assert_eq!(refused.class(), agent::ErrorClass::Conflict, "{refused}");
    }
    desk.agent.runs().drive_started(begun, &frames, &cancel).await.unwrap();
    assert_eq!(desk.transcript_lines().await, ["U: One.", "A: Done."]);
}

#[tokio::test]
async fn j4_a_run_that_is_taken_back_leaves_the_thread_as_it_was() {
    let desk = RequestFixture::new([
        ScriptedReply::text("One."),
        ScriptedReply::text("Half").with_fault(ScriptedFault::Stall),
        done_reply(),
    ])
    .await;
    desk.say("First.").await;
    let (before, state) =
        (desk.transcript_lines().await, desk.agent.threads().state(desk.thread).await.unwrap().unwrap());
    let end = run_until_call(&desk, user_request("Second."), 2).await;
    assert_eq!(end.status, RunStatus::Cancelled, "{end:?}");
    desk.agent.runs().roll_back_run(end.run_id).await.unwrap();
    assert_eq!((desk.transcript_lines().await, desk.row().await.status), (before, ThreadStatus::Idle));
    assert_eq!(desk.agent.store().run(end.run_id).await.unwrap(), None);
    let after = desk.agent.threads().state(desk.thread).await.unwrap().unwrap();
    assert_eq!((after.next, after.channels), (state.next, state.channels));
    let again = desk.agent.runs().roll_back_run(end.run_id).await;
    assert!(matches!(again, Err(Error::Run(RunError::Unknown(_)))), "{again:?}");
    assert_eq!(desk.say("Third.").await.status, RunStatus::Success);
    assert_eq!(desk.transcript_lines().await, ["U: First.", "A: One.", "U: Third.", "A: Done."]);
}

#[tokio::test]
async fn j4_a_question_waits_again_when_the_run_is_taken_back_that_passed_over_it_or_answered_it() {
    let refuse = json!({"decisions": [{"type": "reject", "message": "no"}]});
    for asked in [user_request("Never mind."), json!({"command": {"resume": refuse}})] {
        let desk = RequestFixture::new([
            write_call("c1", "a"),
            ScriptedReply::text("Half").with_fault(ScriptedFault::Stall),
            done_reply(),
        ])
        .await;
        let waiting = desk.say("Write.").await.interrupts;
        let (before, told) =
            (desk.agent.threads().state(desk.thread).await.unwrap().unwrap(), desk.transcript_lines().await);
        let points = desk.agent.threads().states(desk.thread, None, 100).await.unwrap().len();
        let end = run_until_call(&desk, asked.clone(), 2).await;
        desk.agent.runs().roll_back_run(end.run_id).await.unwrap();
        assert_eq!(
            (desk.row().await.status, desk.transcript_lines().await),
            (ThreadStatus::Interrupted, told),
            "{asked}"
        );
        let after = desk.agent.threads().state(desk.thread).await.unwrap().unwrap();
        assert_eq!((after.checkpoint_id, after.parent_id), (before.checkpoint_id, before.parent_id));
        assert_eq!((&after.interrupts, &after.next), (&before.interrupts, &before.next), "{asked}");
        assert_eq!(after.interrupts[0].interrupt_id, waiting[0].interrupt_id);
        assert_eq!(
            desk.agent.threads().states(desk.thread, None, 100).await.unwrap().len(),
            points,
            "{asked}"
        );
        let end = desk.run(json!({"command": {"resume": approve()}})).await;
        assert_eq!(
            (end.status, desk.world.read_file("a").as_str()),
            (RunStatus::Success, "a"),
            "{asked}: {end:?}"
        );
        let states = desk.agent.threads().states(desk.thread, None, 100).await.unwrap();
        let next = states.iter().find(|state| state.parent_id == Some(before.checkpoint_id));
        assert!(next.is_some(), "what goes on goes on from there");
    }
}

#[tokio::test]
async fn j4_what_a_sub_agent_asked_waits_again_when_the_run_is_taken_back_that_passed_over_it() {
    let desk = RequestFixture::new([
        ScriptedReply::call("c1", "task", json!({"description": "a task", "prompt": "Hens."}))
            .when_body_contains("Plum.")
            .when_turn_is(1, 1),
        ScriptedReply::text("Half").with_fault(ScriptedFault::Stall).when_body_contains("Never mind."),
        write_call("s1", "hens").when_body_contains("Hens.").when_turn_is(1, 1),
        ScriptedReply::text("Counted.").with_repeat(),
    ])
    .await;
    let waiting = desk.say("Plum.").await.interrupts;
    assert_eq!(waiting.len(), 1);
    let end = run_until_call(&desk, user_request("Never mind."), 3).await;
    desk.agent.runs().roll_back_run(end.run_id).await.unwrap();
    assert_eq!(desk.agent.runs().pending_interrupts(desk.thread).await.unwrap(), waiting);
    let end = desk.run(json!({"command": {"resume": approve()}})).await;
    assert_eq!((end.status, desk.world.read_file("hens").as_str()), (RunStatus::Success, "hens"), "{end:?}");
}

#[tokio::test]
async fn j4_the_first_run_of_a_thread_leaves_nothing_when_it_is_taken_back() {
    let desk = RequestFixture::new([done_reply()]).await;
    let end = desk.say("Hello.").await;
    desk.agent.runs().roll_back_run(end.run_id).await.unwrap();
    assert_eq!((desk.row().await.status, desk.transcript_lines().await.len()), (ThreadStatus::Idle, 0));
    assert!(desk.agent.threads().state(desk.thread).await.unwrap().is_none());
    assert_eq!(desk.agent.threads().states(desk.thread, None, 100).await.unwrap().len(), 0);
    assert_eq!(desk.say("Again.").await.status, RunStatus::Success);
    let states = desk.agent.threads().states(desk.thread, None, 100).await.unwrap();
    assert_eq!(states.last().map(|first| (first.number, first.parent_id)), Some((-1, None)));
}

#[tokio::test]
async fn j4_a_thread_that_had_failed_in_the_middle_has_failed_again_when_a_run_is_taken_back() {
    let desk =
        RequestFixture::new([ScriptedReply::status(400, r#"{"error":{"message":"no"}}"#), done_reply()])
            .await;
    assert_eq!(desk.say("Hello.").await.status, RunStatus::Error);
    let before = desk.agent.threads().state(desk.thread).await.unwrap().unwrap();
    let end = desk.say("Again.").await;
    desk.agent.runs().roll_back_run(end.run_id).await.unwrap();
    let after = desk.agent.threads().state(desk.thread).await.unwrap().unwrap();
    assert_eq!(desk.row().await.status, ThreadStatus::Error);
    assert_eq!((after.next, after.error), (before.next, before.error));
}

#[tokio::test]
async fn a_run_that_is_forgotten_leaves_what_it_said() {
    let desk = RequestFixture::new([done_reply()]).await;
    let end = desk.say("Hello.").await;
    desk.agent.runs().forget_run(end.run_id).await.unwrap();
    assert_eq!(desk.agent.store().run(end.run_id).await.unwrap(), None);
    assert_eq!(desk.transcript_lines().await, ["U: Hello.", "A: Done."]);
    let waiting = RunId::generate();
    desk.agent.runs().enqueue(waiting, desk.thread, &request(user_request("x"))).await.unwrap();
    desk.agent.runs().roll_back_run(waiting).await.unwrap();
    assert_eq!(desk.agent.store().run(waiting).await.unwrap(), None);
    assert_eq!(desk.row().await.status, ThreadStatus::Idle);
}

/// Returns the point before the first state that has the message.
async fn point_before(desk: &RequestFixture, text: &str) -> String {
    let states = desk.agent.threads().states(desk.thread, None, 100).await.unwrap();
    let has =
        |state: &&agent::ThreadSnapshot| state.messages.iter().any(|shown| shown.message.text() == text);
    states.iter().rev().find(has).and_then(|state| state.parent_id).unwrap().to_string()
}

#[tokio::test]
async fn j4_a_run_on_another_branch_that_is_taken_back_leaves_the_branch_there_was() {
    for (asked, text) in
        [(user_request("Other."), "Second."), (json!({}), "Two."), (user_request("Fork."), "Two.")]
    {
        let desk = RequestFixture::new(["One.", "Two.", "Three."].map(ScriptedReply::text)).await;
        desk.say("First.").await;
        desk.say("Second.").await;
        let before = desk.agent.threads().state(desk.thread).await.unwrap().unwrap();
        let mut asked = asked;
        asked["checkpoint_id"] = point_before(&desk, text).await.into();
        let end = desk.run(asked).await;
        assert_eq!(end.status, RunStatus::Success, "{end:?}");
        assert_ne!(desk.transcript_lines().await, ["U: First.", "A: One.", "U: Second.", "A: Two."]);
        desk.agent.runs().roll_back_run(end.run_id).await.unwrap();
        assert_eq!(
            desk.transcript_lines().await,
            ["U: First.", "A: One.", "U: Second.", "A: Two."],
            "{text}"
        );
        let after = desk.agent.threads().state(desk.thread).await.unwrap().unwrap();
        let ids = |state: &agent::ThreadSnapshot| {
            state.messages.iter().map(|message| message.id.clone()).collect::<Vec<_>>()
        };
        assert_eq!((ids(&after), &after.next), (ids(&before), &before.next), "{text}");
        assert_eq!(after.channels, before.channels);
        assert_eq!(desk.row().await.status, ThreadStatus::Idle);
    }
}

#[tokio::test]
async fn j4_a_run_is_not_taken_back_from_under_another_that_came_after_it() {
    let desk = RequestFixture::new([done_reply()]).await;
    let first = desk.say("First.").await;
    let second = desk.say("Second.").await;
    let told = desk.transcript_lines().await;
    let refused = desk.agent.runs().roll_back_run(first.run_id).await.unwrap_err();
    assert_eq!(refused.class(), agent::ErrorClass::Conflict, "{refused}");
    assert_eq!(desk.transcript_lines().await, told);
    // One that never began is in nobody's way.
    let waiting = RunId::generate();
    desk.agent.runs().enqueue(waiting, desk.thread, &request(user_request("x"))).await.unwrap();
    desk.agent.runs().cancel_queued_run(waiting).await.unwrap();
    desk.agent.runs().roll_back_run(second.run_id).await.unwrap();
    desk.agent.runs().roll_back_run(waiting).await.unwrap();
    assert_eq!(desk.transcript_lines().await, told[..2]);
}

#[tokio::test]
async fn a_thread_that_rested_after_a_failure_does_so_when_the_next_run_is_taken_back() {
    let desk = RequestFixture::new([done_reply()]).await;
    let end = desk.run(json!({"input": null})).await;
    assert_eq!((end.status, desk.row().await.status), (RunStatus::Error, ThreadStatus::Error), "{end:?}");
    let end = desk.say("Hello.").await;
    assert_eq!(desk.row().await.status, ThreadStatus::Idle);
    desk.agent.runs().roll_back_run(end.run_id).await.unwrap();
    assert_eq!((desk.transcript_lines().await.len(), desk.row().await.status), (0, ThreadStatus::Error));
}

#[tokio::test]
async fn k8_a_run_that_did_nothing_is_taken_back_and_what_a_person_changed_still_holds() {
    let desk = RequestFixture::new([write_call("c1", "a"), done_reply()]).await;
    desk.run(user_request("Write.")).await;
    let edited = json!({"name": "write_file", "args": {"path": "b", "content": "b"}});
    let edit = json!({"decisions": [{"type": "edit", "edited_action": edited}]});
    let end = desk.run(json!({"command": {"resume": edit}, "interrupt_before": ["tools"]})).await;
    assert_eq!((end.status, desk.next().await.as_deref()), (RunStatus::Interrupted, Some("tools")));
    let failed = desk.run(json!({"input": null, "config": {"recursion_limit": 0}})).await;
    assert_eq!(failed.status, RunStatus::Error, "{failed:?}");
    desk.agent.runs().roll_back_run(failed.run_id).await.unwrap();
    let end = desk.run(json!({"input": null})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!((desk.world.read_file("a"), desk.world.read_file("b")), (String::new(), "b".to_owned()));
}
