//! Tests of thread creation and metadata, and of runs that are queued, cancelled, rolled back or deleted.

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
async fn h2_a_thread_is_created_once_and_a_client_cannot_set_reserved_metadata() {
    let fixture = RequestFixture::new([]).await;
    let agent = &fixture.agent;
    let id = ThreadId::generate();
    let metadata = map(
        json!({"title": "x", "owner": "bob", "temporary": {}, "handoff": {"a": 1}, "workspace": "/", "graph_id": "agent"}),
    );
    let (created, is_new) =
        agent.threads().ensure_thread(Some(id), metadata.clone(), IfExists::Raise).await.unwrap();
    assert!(is_new && created.status == ThreadStatus::Idle);
    let stored = agent.store().thread(id).await.unwrap().unwrap();
    assert_eq!(stored, created, "the returned thread is the stored one");
    assert_eq!((&stored.metadata["title"], &stored.metadata["graph_id"]), (&json!("x"), &json!("agent")));
    assert!(!stored.metadata.contains_key("owner") && !stored.metadata.contains_key("handoff"));
    assert_ne!(stored.metadata["workspace"], "/");
    let patched_by_client =
        agent.threads().patch_metadata(id, map(json!({"user_id": "v", "created_by": "me"}))).await.unwrap();
    assert_eq!(
        (&patched_by_client.metadata["user_id"], &patched_by_client.metadata["created_by"]),
        (&json!("v"), &json!("me"))
    );
    let stored = agent.store().thread(id).await.unwrap().unwrap();
    assert!(!stored.metadata.contains_key("temporary"));
    let again = agent.threads().ensure_thread(Some(id), Map::new(), IfExists::Raise).await;
    assert!(matches!(again, Err(Error::Thread(ThreadError::Exists(_)))), "{again:?}");
    let (existing, is_new) = agent
        .threads()
        .ensure_thread(Some(id), map(json!({"title": "y"})), IfExists::DoNothing)
        .await
        .unwrap();
    assert!(!is_new && existing == stored);
    let patched = agent
        .threads()
        .patch_metadata(id, map(json!({"title": "z", "owner": "bob", "more": 1})))
        .await
        .unwrap();
    assert_eq!((&patched.metadata["title"], &patched.metadata["more"]), (&json!("z"), &json!(1)));
    assert!(!patched.metadata.contains_key("owner"));
    let with_null =
        agent.threads().patch_metadata(id, map(json!({"more": null, "handoff": null}))).await.unwrap();
    assert_eq!(with_null.metadata.get("more"), Some(&json!(null)), "a null value is stored");
    assert_eq!(with_null, agent.store().thread(id).await.unwrap().unwrap());
    assert!(!with_null.metadata.contains_key("handoff"));
    let large = agent.threads().patch_metadata(id, map(json!({"x": "x".repeat(70_000)}))).await;
    assert!(matches!(large, Err(Error::Thread(ThreadError::MetadataTooLarge(_)))), "{large:?}");
    let key = json!({"notes": ["x", {"deep": "AKIAIOSFODNN7EXAMPLE, sk-ant-REDACTED"}]});
    let secret = agent.threads().patch_metadata(id, map(key)).await;
    assert!(matches!(secret, Err(Error::Thread(ThreadError::SecretInMetadata(_)))), "k4: {secret:?}");
    let unknown = agent.threads().patch_metadata(ThreadId::generate(), Map::new()).await;
    assert!(matches!(unknown, Err(Error::Thread(ThreadError::Unknown(_)))), "{unknown:?}");
}

#[tokio::test]
async fn h2_one_of_two_concurrent_creations_of_a_thread_succeeds() {
    let fixture = RequestFixture::new([]).await;
    let id = ThreadId::generate();
    let make = |title: &str| {
        fixture.agent.threads().ensure_thread(Some(id), map(json!({"title": title})), IfExists::DoNothing)
    };
    let (first, second) = tokio::join!(make("one"), make("two"));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert!(first.1 != second.1, "{first:?} {second:?}");
    assert_eq!(first.0.metadata, second.0.metadata);
}

#[tokio::test]
async fn a_queued_run_starts_under_its_id_or_is_cancelled_before() {
    let fixture = RequestFixture::new([done_reply()]).await;
    let (first, second) = (RunId::generate(), RunId::generate());
    for run_id in [first, second] {
        let run = fixture
            .agent
            .runs()
            .enqueue(run_id, fixture.thread, &request(user_request("Hello.")))
            .await
            .unwrap();
        assert_eq!(run.status, RunStatus::Pending);
    }
    assert_eq!(fixture.row().await.status, ThreadStatus::Busy);
    assert_eq!(fixture.row().await.metadata["graph_id"], "agent");
    let end = begin_queued(&fixture.agent, fixture.thread, first, &request(user_request("Hello."))).await;
    assert_eq!((end.run_id, end.status), (first, RunStatus::Success));
    assert!(fixture.agent.runs().cancel_queued_run(second).await.unwrap());
    assert!(!fixture.agent.runs().cancel_queued_run(second).await.unwrap(), "the run is no longer queued");
    assert!(!fixture.agent.runs().cancel_queued_run(first).await.unwrap(), "the run has ended");
    let stopped = fixture.agent.store().run(second).await.unwrap().unwrap();
    assert_eq!(stopped.status, RunStatus::Cancelled);
    assert_eq!(fixture.row().await.status, ThreadStatus::Idle);
    assert_eq!(fixture.transcript_lines().await, ["U: Hello.", "A: Done."]);
    let late = try_run(&fixture.agent, fixture.thread, second, user_request("Hello.")).await;
    assert!(late.is_err(), "{late:?}");
}

#[tokio::test]
async fn a_started_run_cannot_be_cancelled_rolled_back_or_deleted_as_a_queued_one() {
    let fixture =
        RequestFixture::new([ScriptedReply::text("Working").with_fault(ScriptedFault::Stall), done_reply()])
            .await;
    let run_id = RunId::generate();
    fixture.agent.runs().enqueue(run_id, fixture.thread, &request(user_request("Hello."))).await.unwrap();
    let (frames, cancel) = crate::environment::unwatched();
    let run_request = request(user_request("Hello."));
    let started =
        fixture.agent.runs().begin_queued(run_id, fixture.thread, &run_request, &frames).await.unwrap();
    assert!(!fixture.agent.runs().cancel_queued_run(run_id).await.unwrap());
    let refused = fixture.agent.runs().roll_back_run(run_id).await;
    assert!(matches!(refused, Err(Error::Run(RunError::Active(_)))), "{refused:?}");
    let refused = fixture.agent.runs().forget_run(run_id).await;
    assert!(matches!(refused, Err(Error::Run(RunError::Active(_)))), "{refused:?}");
    cancel.cancel();
    let end = fixture.agent.runs().drive_started(started, &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Cancelled);
}

#[tokio::test]
async fn j4_a_thread_becomes_idle_when_its_queued_runs_are_cancelled_concurrently() {
    let fixture = RequestFixture::new([]).await;
    let ids = [RunId::generate(), RunId::generate(), RunId::generate()];
    for run_id in ids {
        fixture.agent.runs().enqueue(run_id, fixture.thread, &request(user_request("Hello."))).await.unwrap();
    }
    let cancel = |id| fixture.agent.runs().cancel_queued_run(id);
    let (first, second, third) = tokio::join!(cancel(ids[0]), cancel(ids[1]), cancel(ids[2]));
    assert!(first.unwrap() && second.unwrap() && third.unwrap());
    assert_eq!(fixture.row().await.status, ThreadStatus::Idle);
}

#[tokio::test]
async fn j4_a_deleted_queued_run_never_starts() {
    let fixture = RequestFixture::new([done_reply()]).await;
    let (run_id, run_request) = (RunId::generate(), request(user_request("Hello.")));
    fixture.agent.runs().enqueue(run_id, fixture.thread, &run_request).await.unwrap();
    fixture.agent.runs().forget_run(run_id).await.unwrap();
    let (frames, _) = crate::environment::unwatched();
    assert!(fixture.agent.runs().begin_queued(run_id, fixture.thread, &run_request, &frames).await.is_err());
    let again = fixture.agent.runs().cancel_queued_run(run_id).await;
    assert!(matches!(again, Err(Error::Run(RunError::Unknown(_)))), "{again:?}");
    assert_eq!(fixture.agent.store().run(run_id).await.unwrap(), None);
    assert_eq!((fixture.row().await.status, fixture.transcript_lines().await.len()), (ThreadStatus::Idle, 0));
}

#[tokio::test]
async fn j1_another_run_of_a_busy_thread_is_refused_and_changes_nothing() {
    let fixture = RequestFixture::new([done_reply()]).await;
    let (frames, cancel) = crate::environment::unwatched();
    let started = fixture
        .agent
        .runs()
        .begin(RunId::generate(), fixture.thread, &request(user_request("One.")), &frames)
        .await
        .unwrap();
    for run_request in [user_request("Two."), json!({"input": null}), json!({"command": {"goto": "__end__"}})]
    {
        let refused =
            try_run(&fixture.agent, fixture.thread, RunId::generate(), run_request).await.unwrap_err();
        assert_eq!(refused.class(), agent::ErrorClass::Conflict, "{refused}");
    }
    fixture.agent.runs().drive_started(started, &frames, &cancel).await.unwrap();
    assert_eq!(fixture.transcript_lines().await, ["U: One.", "A: Done."]);
}

#[tokio::test]
async fn j4_rolling_back_a_run_restores_the_thread() {
    let fixture = RequestFixture::new([
        ScriptedReply::text("One."),
        ScriptedReply::text("Half").with_fault(ScriptedFault::Stall),
        done_reply(),
    ])
    .await;
    fixture.say("First.").await;
    let (before, state) = (
        fixture.transcript_lines().await,
        fixture.agent.threads().state(fixture.thread).await.unwrap().unwrap(),
    );
    let end = run_until_call(&fixture, user_request("Second."), 2).await;
    assert_eq!(end.status, RunStatus::Cancelled, "{end:?}");
    fixture.agent.runs().roll_back_run(end.run_id).await.unwrap();
    assert_eq!((fixture.transcript_lines().await, fixture.row().await.status), (before, ThreadStatus::Idle));
    assert_eq!(fixture.agent.store().run(end.run_id).await.unwrap(), None);
    let after = fixture.agent.threads().state(fixture.thread).await.unwrap().unwrap();
    assert_eq!((after.next, after.channels), (state.next, state.channels));
    let again = fixture.agent.runs().roll_back_run(end.run_id).await;
    assert!(matches!(again, Err(Error::Run(RunError::Unknown(_)))), "{again:?}");
    assert_eq!(fixture.say("Third.").await.status, RunStatus::Success);
    assert_eq!(fixture.transcript_lines().await, ["U: First.", "A: One.", "U: Third.", "A: Done."]);
}

#[tokio::test]
async fn j4_rolling_back_a_run_makes_the_question_that_it_answered_or_withdrew_pending_again() {
    let refuse = json!({"decisions": [{"type": "reject", "message": "no"}]});
    for run_request in [user_request("Never mind."), json!({"command": {"resume": refuse}})] {
        let fixture = RequestFixture::new([
            write_call("c1", "a"),
            ScriptedReply::text("Half").with_fault(ScriptedFault::Stall),
            done_reply(),
        ])
        .await;
        let pending = fixture.say("Write.").await.interrupts;
        let (before, lines) = (
            fixture.agent.threads().state(fixture.thread).await.unwrap().unwrap(),
            fixture.transcript_lines().await,
        );
        let checkpoint_count = fixture.agent.threads().states(fixture.thread, None, 100).await.unwrap().len();
        let end = run_until_call(&fixture, run_request.clone(), 2).await;
        fixture.agent.runs().roll_back_run(end.run_id).await.unwrap();
        assert_eq!(
            (fixture.row().await.status, fixture.transcript_lines().await),
            (ThreadStatus::Interrupted, lines),
            "{run_request}"
        );
        let after = fixture.agent.threads().state(fixture.thread).await.unwrap().unwrap();
        assert_eq!((after.checkpoint_id, after.parent_id), (before.checkpoint_id, before.parent_id));
        assert_eq!((&after.interrupts, &after.next), (&before.interrupts, &before.next), "{run_request}");
        assert_eq!(after.interrupts[0].interrupt_id, pending[0].interrupt_id);
        assert_eq!(
            fixture.agent.threads().states(fixture.thread, None, 100).await.unwrap().len(),
            checkpoint_count,
            "{run_request}"
        );
        let end = fixture.run(json!({"command": {"resume": approve()}})).await;
        assert_eq!(
            (end.status, fixture.environment.read_file("a").as_str()),
            (RunStatus::Success, "a"),
            "{run_request}: {end:?}"
        );
        let states = fixture.agent.threads().states(fixture.thread, None, 100).await.unwrap();
        let next = states.iter().find(|state| state.parent_id == Some(before.checkpoint_id));
        assert!(next.is_some(), "the new run continues from the restored checkpoint");
    }
}

#[tokio::test]
async fn j4_rolling_back_a_run_makes_a_withdrawn_question_of_a_sub_agent_pending_again() {
    let fixture = RequestFixture::new([
        ScriptedReply::call("c1", "task", json!({"description": "a task", "prompt": "Hens."}))
            .when_body_contains("Plum.")
            .when_turn_is(1, 1),
        ScriptedReply::text("Half").with_fault(ScriptedFault::Stall).when_body_contains("Never mind."),
        write_call("s1", "hens").when_body_contains("Hens.").when_turn_is(1, 1),
        ScriptedReply::text("Counted.").with_repeat(),
    ])
    .await;
    let pending = fixture.say("Plum.").await.interrupts;
    assert_eq!(pending.len(), 1);
    let end = run_until_call(&fixture, user_request("Never mind."), 3).await;
    fixture.agent.runs().roll_back_run(end.run_id).await.unwrap();
    assert_eq!(fixture.agent.runs().pending_interrupts(fixture.thread).await.unwrap(), pending);
    let end = fixture.run(json!({"command": {"resume": approve()}})).await;
    assert_eq!(
        (end.status, fixture.environment.read_file("hens").as_str()),
        (RunStatus::Success, "hens"),
        "{end:?}"
    );
}

#[tokio::test]
async fn j4_rolling_back_the_first_run_leaves_an_empty_thread() {
    let fixture = RequestFixture::new([done_reply()]).await;
    let end = fixture.say("Hello.").await;
    fixture.agent.runs().roll_back_run(end.run_id).await.unwrap();
    assert_eq!((fixture.row().await.status, fixture.transcript_lines().await.len()), (ThreadStatus::Idle, 0));
    assert!(fixture.agent.threads().state(fixture.thread).await.unwrap().is_none());
    assert_eq!(fixture.agent.threads().states(fixture.thread, None, 100).await.unwrap().len(), 0);
    assert_eq!(fixture.say("Again.").await.status, RunStatus::Success);
    let states = fixture.agent.threads().states(fixture.thread, None, 100).await.unwrap();
    assert_eq!(states.last().map(|first| (first.number, first.parent_id)), Some((-1, None)));
}

#[tokio::test]
async fn j4_rolling_back_a_run_restores_the_failure_before_it() {
    let fixture =
        RequestFixture::new([ScriptedReply::status(400, r#"{"error":{"message":"no"}}"#), done_reply()])
            .await;
    assert_eq!(fixture.say("Hello.").await.status, RunStatus::Error);
    let before = fixture.agent.threads().state(fixture.thread).await.unwrap().unwrap();
    let end = fixture.say("Again.").await;
    fixture.agent.runs().roll_back_run(end.run_id).await.unwrap();
    let after = fixture.agent.threads().state(fixture.thread).await.unwrap().unwrap();
    assert_eq!(fixture.row().await.status, ThreadStatus::Error);
    assert_eq!((after.next, after.error), (before.next, before.error));
}

#[tokio::test]
async fn deleting_a_run_keeps_its_messages() {
    let fixture = RequestFixture::new([done_reply()]).await;
    let end = fixture.say("Hello.").await;
    fixture.agent.runs().forget_run(end.run_id).await.unwrap();
    assert_eq!(fixture.agent.store().run(end.run_id).await.unwrap(), None);
    assert_eq!(fixture.transcript_lines().await, ["U: Hello.", "A: Done."]);
    let pending = RunId::generate();
    fixture.agent.runs().enqueue(pending, fixture.thread, &request(user_request("x"))).await.unwrap();
    fixture.agent.runs().roll_back_run(pending).await.unwrap();
    assert_eq!(fixture.agent.store().run(pending).await.unwrap(), None);
    assert_eq!(fixture.row().await.status, ThreadStatus::Idle);
}

/// Returns the checkpoint before the first state with the message.
async fn point_before(fixture: &RequestFixture, text: &str) -> String {
    let states = fixture.agent.threads().states(fixture.thread, None, 100).await.unwrap();
    let has =
        |state: &&agent::ThreadSnapshot| state.messages.iter().any(|shown| shown.message.text() == text);
    states.iter().rev().find(has).and_then(|state| state.parent_id).unwrap().to_string()
}

#[tokio::test]
async fn j4_rolling_back_a_run_on_another_branch_restores_the_previous_branch() {
    for (run_request, text) in
        [(user_request("Other."), "Second."), (json!({}), "Two."), (user_request("Fork."), "Two.")]
    {
        let fixture = RequestFixture::new(["One.", "Two.", "Three."].map(ScriptedReply::text)).await;
        fixture.say("First.").await;
        fixture.say("Second.").await;
        let before = fixture.agent.threads().state(fixture.thread).await.unwrap().unwrap();
        let mut run_request = run_request;
        run_request["checkpoint_id"] = point_before(&fixture, text).await.into();
        let end = fixture.run(run_request).await;
        assert_eq!(end.status, RunStatus::Success, "{end:?}");
        assert_ne!(fixture.transcript_lines().await, ["U: First.", "A: One.", "U: Second.", "A: Two."]);
        fixture.agent.runs().roll_back_run(end.run_id).await.unwrap();
        assert_eq!(
            fixture.transcript_lines().await,
            ["U: First.", "A: One.", "U: Second.", "A: Two."],
            "{text}"
        );
        let after = fixture.agent.threads().state(fixture.thread).await.unwrap().unwrap();
        let ids = |state: &agent::ThreadSnapshot| {
            state.messages.iter().map(|message| message.id.clone()).collect::<Vec<_>>()
        };
        assert_eq!((ids(&after), &after.next), (ids(&before), &before.next), "{text}");
        assert_eq!(after.channels, before.channels);
        assert_eq!(fixture.row().await.status, ThreadStatus::Idle);
    }
}

#[tokio::test]
async fn j4_a_run_with_a_later_run_after_it_cannot_be_rolled_back() {
    let fixture = RequestFixture::new([done_reply()]).await;
    let first = fixture.say("First.").await;
    let second = fixture.say("Second.").await;
    let lines = fixture.transcript_lines().await;
    let refused = fixture.agent.runs().roll_back_run(first.run_id).await.unwrap_err();
    assert_eq!(refused.class(), agent::ErrorClass::Conflict, "{refused}");
    assert_eq!(fixture.transcript_lines().await, lines);
    // A cancelled run that never started does not prevent the rollback of an earlier run.
    let pending = RunId::generate();
    fixture.agent.runs().enqueue(pending, fixture.thread, &request(user_request("x"))).await.unwrap();
    fixture.agent.runs().cancel_queued_run(pending).await.unwrap();
    fixture.agent.runs().roll_back_run(second.run_id).await.unwrap();
    fixture.agent.runs().roll_back_run(pending).await.unwrap();
    assert_eq!(fixture.transcript_lines().await, lines[..2]);
}

#[tokio::test]
async fn rolling_back_a_run_restores_the_error_status_of_its_thread() {
    let fixture = RequestFixture::new([done_reply()]).await;
    let end = fixture.run(json!({"input": null})).await;
    assert_eq!((end.status, fixture.row().await.status), (RunStatus::Error, ThreadStatus::Error), "{end:?}");
    let end = fixture.say("Hello.").await;
    assert_eq!(fixture.row().await.status, ThreadStatus::Idle);
    fixture.agent.runs().roll_back_run(end.run_id).await.unwrap();
    assert_eq!(
        (fixture.transcript_lines().await.len(), fixture.row().await.status),
        (0, ThreadStatus::Error)
    );
}

#[tokio::test]
async fn k8_rolling_back_a_failed_run_keeps_the_edited_call() {
    let fixture = RequestFixture::new([write_call("c1", "a"), done_reply()]).await;
    fixture.run(user_request("Write.")).await;
    let edited = json!({"name": "write_file", "args": {"path": "b", "content": "b"}});
    let edit = json!({"decisions": [{"type": "edit", "edited_action": edited}]});
    let end = fixture.run(json!({"command": {"resume": edit}, "interrupt_before": ["tools"]})).await;
    assert_eq!((end.status, fixture.next().await.as_deref()), (RunStatus::Interrupted, Some("tools")));
    let failed = fixture.run(json!({"input": null, "config": {"recursion_limit": 0}})).await;
    assert_eq!(failed.status, RunStatus::Error, "{failed:?}");
    fixture.agent.runs().roll_back_run(failed.run_id).await.unwrap();
    let end = fixture.run(json!({"input": null})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(
        (fixture.environment.read_file("a"), fixture.environment.read_file("b")),
        (String::new(), "b".to_owned())
    );
}
