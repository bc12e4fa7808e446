//! Tests of state updates by a client: the stored values, the next node, and refused updates, which change nothing.

use agent::{
    Agent, ApprovalPolicy, Error, HandoffRequestOptions, RunError, StateChange, StateOrigin, ThreadError,
    ThreadSnapshot,
};
use protocol::{CheckpointId, Decision, Decisions, RunId, RunRequest, RunStatus, ThreadId, ThreadStatus};
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use super::{all_states, message_ids_and_texts, message_request, message_texts, run_request, update_state};
use crate::environment::{TestEnvironment, answering_server, drafting_server, import_session, unwatched};

/// Updates the newest state with `values` and returns the new state.
async fn put_values(agent: &Agent, thread: ThreadId, values: Value) -> ThreadSnapshot {
    let id = update_state(agent, thread, values, None, None).await.unwrap();
    let state = agent.threads().state(thread).await.unwrap().unwrap();
    assert_eq!((state.checkpoint_id, state.origin), (id, StateOrigin::Change));
    state
}

/// Returns the stored status of the thread.
async fn status(agent: &Agent, thread: ThreadId) -> ThreadStatus {
    agent.store().thread(thread).await.unwrap().unwrap().status
}

/// Returns an agent with a thread of one turn.
async fn greeted_thread(environment: &TestEnvironment, server: &ScriptedServer) -> (Agent, ThreadId) {
    let agent = environment.agent_with(server);
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    run_request(&agent, thread, &message_request("h1", "Hi.")).await;
    (agent, thread)
}

#[tokio::test]
async fn an_update_adds_replaces_and_removes_messages_by_their_ids() {
    let (environment, server) = (TestEnvironment::new(), answering_server("Hello."));
    let (agent, thread) = greeted_thread(&environment, &server).await;
    let before = agent.threads().state(thread).await.unwrap().unwrap();
    let answer = before.messages[1].id.clone();
    let state =
        put_values(&agent, thread, json!({"messages": {"role": "user", "content": "Also this."}})).await;
    assert_eq!(message_texts(&state), ["Hi.", "Hello.", "Also this."]);
    assert_eq!(state.messages[..2], before.messages, "unchanged messages keep their content and position");
    assert_eq!((state.parent_id.as_ref(), state.number), (Some(&before.checkpoint_id), before.number + 1));
    assert_eq!((state.next.len(), status(&agent, thread).await), (0, ThreadStatus::Idle));
    let edit =
        json!([{"type": "ai", "id": answer, "content": "Good day."}, {"type": "human", "content": "More."}]);
    let state = put_values(&agent, thread, json!({"messages": edit})).await;
    assert_eq!(message_texts(&state), ["Hi.", "Good day.", "Also this.", "More."]);
    assert_eq!((&state.messages[1].id, state.messages[1].run_id), (&answer, before.messages[1].run_id));
    assert!(state.messages.is_sorted_by_key(|message| message.seq));
    // An unchanged message adds a checkpoint and nothing else.
    let same = json!([{"type": "human", "id": "h1", "content": "Hi."}]);
    assert_eq!(put_values(&agent, thread, json!({"messages": same})).await.messages, state.messages);
    let state = put_values(&agent, thread, json!({"messages": [{"type": "remove", "id": "h1"}]})).await;
    assert_eq!(message_texts(&state), ["Good day.", "Also this.", "More."]);
    let anew = json!([{"type": "human", "content": "lost"}, {"type": "remove", "id": "__remove_all__"},
                      {"type": "human", "id": "h9", "content": "Anew."}]);
    let state = put_values(&agent, thread, json!({"messages": anew})).await;
    assert_eq!(message_ids_and_texts(&state), [("h9".to_owned(), "Anew.".to_owned())]);
    // The next model request has exactly the messages of the state.
    run_request(&agent, thread, &message_request("h10", "Go on.")).await;
    let sent = server.requests().last().unwrap().body["messages"].to_string();
    assert!(sent.contains("Anew.") && !sent.contains("Hi."), "{sent}");
    assert_eq!(
        all_states(&agent, thread).await.iter().filter(|state| state.origin == StateOrigin::Change).count(),
        5
    );
    assert_eq!(
        agent.threads().cost_report(thread).await.unwrap().models[0].calls,
        2,
        "copied messages add no cost"
    );
}

#[tokio::test]
async fn an_update_stores_files_and_the_title_and_no_other_channels() {
    let (environment, server) = (TestEnvironment::new(), answering_server("Hello."));
    let (agent, thread) = greeted_thread(&environment, &server).await;
    let first = json!({"files": {"a.md": "one", "b.md": "two"}, "title": "A talk", "unknown": 1, "_start": "handoff",
                       "tools_wanted": true, "handoff_approved": true});
    let state = put_values(&agent, thread, first).await;
    assert_eq!(
        Value::Object(state.channels),
        json!({"files": {"a.md": "one", "b.md": "two"}, "title": "A talk"})
    );
    let state =
        put_values(&agent, thread, json!({"files": {"a.md": null, "c.md": "three"}, "title": null})).await;
    assert_eq!(Value::Object(state.channels.clone()), json!({"files": {"b.md": "two", "c.md": "three"}}));
    run_request(&agent, thread, &message_request("h2", "Still there?")).await;
    assert_eq!(
        agent.threads().state(thread).await.unwrap().unwrap().channels,
        state.channels,
        "a turn keeps these channels"
    );
    let large = json!({"files": {"large": "x".repeat(300 << 10)}});
    let refused = update_state(&agent, thread, large, None, None).await;
    assert!(matches!(refused, Err(Error::Thread(ThreadError::InvalidStateChange { .. }))), "{refused:?}");
    // An earlier checkpoint keeps its own channels.
    let states = all_states(&agent, thread).await;
    assert!(states.last().unwrap().channels.is_empty());
    assert_eq!(states.iter().filter(|state| state.channels.contains_key("title")).count(), 1);
}

#[tokio::test]
async fn the_next_node_of_an_update_follows_from_its_as_node() {
    let (environment, server) = (TestEnvironment::new(), answering_server("Hello."));
    let (agent, thread) = greeted_thread(&environment, &server).await;
    let call = json!([{"type": "ai", "id": "a1", "content": "", "tool_calls": [{"id": "c1", "name": "ls", "args": {}}]}]);
    let first = all_states(&agent, thread).await.into_iter().rev().nth(1).unwrap().next;
    for (as_node, messages, expected) in [
        (Some("__start__"), json!([{"type": "human", "content": "x"}]), first.as_slice()),
        (Some("model"), json!([{"type": "human", "content": "x"}]), &[]),
        (Some("after_model"), call.clone(), &["tools".to_owned()]),
        (None, json!([]), &["tools".to_owned()]),
        (
            Some("tools"),
            json!([{"type": "tool", "tool_call_id": "c1", "content": "done"}]),
            &["model".to_owned()],
        ),
        (Some("__end__"), json!(null), &[]),
    ] {
        let values = if messages.is_null() { Value::Null } else { json!({"messages": messages}) };
        update_state(&agent, thread, values, as_node, None).await.unwrap();
        let state = agent.threads().state(thread).await.unwrap().unwrap();
        // Nodes that have no work are ignored.
        let next: Vec<String> = state
            .next
            .iter()
            .filter(|next| *next != "after_agent" && *next != "after_model")
            .cloned()
            .collect();
        assert_eq!(next, expected, "{as_node:?} {messages}");
        let expected_status =
            if state.next.is_empty() { ThreadStatus::Idle } else { ThreadStatus::Interrupted };
        assert_eq!(status(&agent, thread).await, expected_status, "{as_node:?}");
    }
}

#[tokio::test]
async fn a_run_without_input_answers_a_first_message_added_by_an_update() {
    let (environment, server) = (TestEnvironment::new(), answering_server("Hello."));
    let agent = environment.agent_with(&server);
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let state = put_values(&agent, thread, json!({"messages": [{"type": "human", "content": "Hi."}]})).await;
    assert!(!state.next.is_empty());
    assert_eq!(state.parent_id, None);
    let end = run_request(&agent, thread, &RunRequest::default()).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(message_texts(&agent.threads().state(thread).await.unwrap().unwrap()), ["Hi.", "Hello."]);
}

#[tokio::test]
async fn an_imported_thread_can_be_updated_before_its_first_run() {
    let (environment, server) = (TestEnvironment::new(), answering_server("Hello."));
    let agent = environment.agent_with(&server);
    let thread = import_session(&environment, &agent).await.unwrap();
    let imported = agent.threads().state(thread).await.unwrap().unwrap();
    let state =
        put_values(&agent, thread, json!({"messages": [{"type": "human", "content": "One more."}]})).await;
    assert_eq!(
        (state.messages.len(), state.parent_id.as_ref()),
        (imported.messages.len() + 1, Some(&imported.checkpoint_id))
    );
    assert_eq!(all_states(&agent, thread).await, [state, imported]);
}

/// Returns a thread with a pending question about a tool call.
async fn pending_call_thread(environment: &TestEnvironment) -> (ScriptedServer, Agent, ThreadId) {
    let call = ScriptedReply::call("c1", "write_file", json!({"path": "a", "content": "x"}));
    let server =
        ScriptedServer::start(Script::new([call, ScriptedReply::text("Done.").with_repeat()])).unwrap();
    let agent = environment.agent_with_policy(&server, ("", ApprovalPolicy::Ask));
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let end = run_request(&agent, thread, &message_request("h1", "Write it.")).await;
    assert_eq!(end.status, RunStatus::Interrupted);
    (server, agent, thread)
}

#[tokio::test]
async fn an_update_withdraws_a_question_and_the_next_run_asks_it_again() {
    let environment = TestEnvironment::new();
    let (_server, agent, thread) = pending_call_thread(&environment).await;
    let before = agent.threads().state(thread).await.unwrap().unwrap();
    let state = put_values(&agent, thread, json!({"files": {"a": "b"}})).await;
    assert_eq!((&state.next, state.interrupts.len()), (&before.next, 0));
    assert_eq!(agent.runs().pending_interrupts(thread).await.unwrap(), []);
    assert_eq!(status(&agent, thread).await, ThreadStatus::Interrupted);
    assert_eq!(agent.threads().state_at(thread, before.checkpoint_id).await.unwrap().interrupts.len(), 1);
    let end = run_request(&agent, thread, &RunRequest::default()).await;
    assert_eq!((end.status, end.interrupts.len()), (RunStatus::Interrupted, 1), "{end:?}");
    assert_ne!(end.interrupts[0].interrupt_id, before.interrupts[0].interrupt_id);
    assert_eq!(environment.read_file("a"), "");
}

#[tokio::test]
async fn an_update_as_the_end_withdraws_questions_and_declines_a_handoff() {
    let environment = TestEnvironment::new();
    let (_server, agent, thread) = pending_call_thread(&environment).await;
    update_state(&agent, thread, Value::Null, Some("__end__"), None).await.unwrap();
    let state = agent.threads().state(thread).await.unwrap().unwrap();
    assert_eq!((state.next.len(), state.interrupts.len()), (0, 0));
    assert_eq!(status(&agent, thread).await, ThreadStatus::Idle);
    let done = run_request(&agent, thread, &message_request("h2", "Never mind.")).await;
    assert_eq!(done.status, RunStatus::Success, "{done:?}");
    assert_eq!(environment.read_file("a"), "");
    // Only an update as `__end__` declines a pending handoff; other updates keep it.
    let server = drafting_server();
    let other = TestEnvironment::new();
    let agent = other.agent_with(&server);
    let parent = import_session(&other, &agent).await.unwrap();
    let (frames, cancel) = unwatched();
    let pending =
        agent.handoffs().request(parent, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    let state = put_values(&agent, parent, json!({"files": {"a": "b"}})).await;
    assert_eq!(
        (state.interrupts.len(), state.next.as_slice()),
        (1, ["handoff_approval".to_owned()].as_slice())
    );
    update_state(&agent, parent, Value::Null, Some("__end__"), None).await.unwrap();
    let state = agent.threads().state(parent).await.unwrap().unwrap();
    assert_eq!((state.interrupts.len(), state.next.len()), (0, 0));
    assert_eq!(status(&agent, parent).await, ThreadStatus::Idle);
    let handoff = agent.handoffs().get(pending.handoff.handoff_id).await.unwrap();
    assert!(!handoff.status.is_pending(), "{handoff:?}");
    assert!(
        agent
            .handoffs()
            .request(parent, HandoffRequestOptions::default(), &frames, &cancel)
            .await
            .unwrap()
            .is_new
    );
}

#[tokio::test]
async fn removing_an_earlier_message_ends_a_pending_handoff() {
    let (environment, server) = (TestEnvironment::new(), drafting_server());
    let agent = environment.agent_with(&server);
    let parent = import_session(&environment, &agent).await.unwrap();
    let (frames, cancel) = unwatched();
    let pending =
        agent.handoffs().request(parent, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    let first = agent.threads().state(parent).await.unwrap().unwrap().messages[0].id.clone();
    let state = put_values(&agent, parent, json!({"messages": [{"type": "remove", "id": first}]})).await;
    assert_eq!((state.interrupts.len(), state.next.len()), (0, 0));
    assert!(!state.channels.keys().any(|name| name.starts_with("handoff")), "{:?}", state.channels);
    assert_eq!(status(&agent, parent).await, ThreadStatus::Idle);
    assert!(!agent.handoffs().get(pending.handoff.handoff_id).await.unwrap().status.is_pending());
    assert!(
        agent
            .handoffs()
            .request(parent, HandoffRequestOptions::default(), &frames, &cancel)
            .await
            .unwrap()
            .is_new
    );
}

#[tokio::test]
async fn an_update_works_without_a_model() {
    let environment = TestEnvironment::new();
    let agent = environment.agent();
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let state = put_values(&agent, thread, json!({"messages": [{"type": "human", "content": "Hi."}]})).await;
    assert_eq!((message_texts(&state), state.next.len()), (vec!["Hi.".to_owned()], 0));
    let started = update_state(&agent, thread, Value::Null, Some("__start__"), None).await;
    assert!(matches!(started, Err(Error::Run(RunError::NoModel(_)))));
}

/// The id of a checkpoint that does not exist.
const UNKNOWN_CHECKPOINT: &str = "0192f0c1-2d3e-7a4b-8c5d-6e7f80910a1b";

#[tokio::test]
async fn an_invalid_update_changes_nothing() {
    let (environment, server) = (TestEnvironment::new(), answering_server("Hello."));
    let (agent, thread) = greeted_thread(&environment, &server).await;
    let before = all_states(&agent, thread).await;
    let unknown_checkpoint: CheckpointId = UNKNOWN_CHECKPOINT.parse().unwrap();
    for (values, as_node, point, expected) in [
        (json!({}), Some("nowhere"), None, "there is no node `nowhere`"),
        (json!({"messages": 3}), None, None, "change the state"),
        (json!({"messages": [{"content": "x"}]}), None, None, "neither `role` nor `type`"),
        (json!({"messages": [{"type": "remove", "id": "none"}]}), None, None, "no message `none`"),
        (json!({"title": "x"}), Some("__end__"), None, "`as_node` is `__end__`"),
        (json!({"title": "x"}), Some("__copy__"), None, "`as_node` is `__copy__`"),
        (json!({}), None, Some(unknown_checkpoint), "find checkpoint `0192f0c1"),
    ] {
        let refused = update_state(&agent, thread, values.clone(), as_node, point).await.unwrap_err();
        assert!(refused.to_string().contains(expected), "{values} as {as_node:?}: {refused}");
        assert_eq!(refused.class(), agent::ErrorClass::User, "{refused}");
        assert_eq!(all_states(&agent, thread).await, before);
    }
    let unknown = agent.threads().update_state(ThreadId::generate(), StateChange::default()).await;
    assert!(matches!(unknown, Err(Error::Thread(ThreadError::Unknown(_)))));
    // The state cannot be updated while a run is active.
    let (frames, cancel) = unwatched();
    let started = agent
        .runs()
        .begin(RunId::generate(), thread, &message_request("h2", "Wait."), &frames)
        .await
        .unwrap();
    let busy = agent.threads().update_state(thread, StateChange::default()).await.unwrap_err();
    assert_eq!(busy.class(), agent::ErrorClass::Conflict, "{busy}");
    let end = agent.runs().drive_started(started, &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success);
    agent.threads().update_state(thread, StateChange::default()).await.unwrap();
}

#[tokio::test]
async fn an_update_of_an_earlier_checkpoint_starts_a_branch() {
    let (environment, server) = (TestEnvironment::new(), answering_server("Hello."));
    let (agent, thread) = greeted_thread(&environment, &server).await;
    let first = agent.threads().state(thread).await.unwrap().unwrap();
    run_request(&agent, thread, &message_request("h2", "Two.")).await;
    let second = agent.threads().state(thread).await.unwrap().unwrap();
    let other = json!({"messages": [{"type": "human", "id": "h3", "content": "Other."}]});
    update_state(&agent, thread, other, None, Some(first.checkpoint_id)).await.unwrap();
    let head = agent.threads().state(thread).await.unwrap().unwrap();
    assert_eq!(message_texts(&head), ["Hi.", "Hello.", "Other."]);
    assert_eq!(head.parent_id.as_ref(), Some(&first.checkpoint_id));
    assert_eq!(head.number, first.number + 1);
    assert_eq!(
        agent.threads().state_at(thread, second.checkpoint_id).await.unwrap().messages,
        second.messages
    );
    // A copy is a sibling of the checkpoint that it copies.
    update_state(&agent, thread, Value::Null, Some("__copy__"), Some(second.checkpoint_id)).await.unwrap();
    let copied = agent.threads().state(thread).await.unwrap().unwrap();
    assert_eq!(
        (message_ids_and_texts(&copied), &copied.next),
        (message_ids_and_texts(&second), &second.next)
    );
    assert_eq!(copied.parent_id, second.parent_id);
}

#[tokio::test]
async fn b3_a_removed_message_can_be_added_again_under_its_id() {
    let environment = TestEnvironment::new();
    let agent = environment.agent();
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    for (messages, expected) in [
        (json!([{"type": "human", "id": "m", "content": "One."}]), vec!["One."]),
        (json!([{"type": "remove", "id": "m"}]), vec![]),
        (json!([{"type": "human", "id": "m", "content": "Two."}]), vec!["Two."]),
        (json!([{"type": "human", "id": "m", "content": "Three."}]), vec!["Three."]),
    ] {
        update_state(&agent, thread, json!({"messages": messages}), None, None).await.unwrap();
        assert_eq!(message_texts(&agent.threads().state(thread).await.unwrap().unwrap()), expected);
    }
}

#[tokio::test]
async fn every_first_write_to_a_thread_records_its_assistant() {
    let environment = TestEnvironment::new();
    let server = answering_server("An answer.");
    let agent = environment.agent_with(&server);
    let has_assistant = async |thread_id| {
        let thread = agent.store().thread(thread_id).await.unwrap().unwrap();
        let wire_id = thread.assistant_id.wire_id().to_string();
        thread.metadata.get("graph_id") == Some(&json!("agent"))
            && thread.metadata.get("assistant_id") == Some(&json!(wire_id))
    };
    let (frames, cancel) = unwatched();
    let from_terminal = agent.threads().create(None).await.unwrap().thread_id;
    agent.runs().send_message(from_terminal, "Hello.", &frames, &cancel).await.unwrap();
    assert!(has_assistant(from_terminal).await);
    let fork = agent.threads().fork(from_terminal, None).await.unwrap().thread_id;
    assert!(has_assistant(fork).await);
    let updated = agent.threads().create(None).await.unwrap().thread_id;
    assert!(!has_assistant(updated).await, "the thread is empty");
    let values = json!({"messages": [{"role": "user", "content": "Hello."}]});
    update_state(&agent, updated, values, None, None).await.unwrap();
    assert!(has_assistant(updated).await);
    let (offline, request) = (environment.agent(), HandoffRequestOptions::default());
    let handoff = offline.handoffs().request(from_terminal, request, &frames, &cancel).await.unwrap().handoff;
    let accepted = Decisions { decisions: vec![Decision::Approve { args: None, summary_sha256: None }] };
    offline.handoffs().decide(handoff.handoff_id, &accepted, &frames, &cancel).await.unwrap();
    assert!(has_assistant(handoff.child_thread_id).await);
}
