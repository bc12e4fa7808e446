//! Tests of the states of imported threads: the messages that a later import adds are in the current state at once.

use std::path::Path;

use agent::{Agent, HandoffRequestOptions};
use protocol::{HandoffStatus, ThreadId};
use serde_json::{Value, json};

use super::{all_states, message_request, message_texts, run_request, update_state};
use crate::environment::{
    SESSION_JSON, TestEnvironment, answering_server, approval, drafting_server, unwatched,
};

/// Writes a session with these messages after those of [`SESSION_JSON`], and imports it.
async fn import_with(agent: &Agent, path: &Path, added: &[&str]) -> ThreadId {
    let mut messages: Vec<Value> = serde_json::from_str(SESSION_JSON).unwrap();
    messages.extend(added.iter().map(|text| json!({"role": "user", "content": text})));
    std::fs::write(path, Value::from(messages).to_string()).unwrap();
    let (frames, cancel) = unwatched();
    let report = agent.threads().import(&[path.to_owned()], &frames, &cancel).await.unwrap();
    report.threads[0].thread_id
}

#[tokio::test]
async fn b3_messages_of_a_second_import_are_in_the_current_state_at_once() {
    let (environment, server) = (TestEnvironment::new(), answering_server("Done."));
    let agent = environment.agent_with(&server);
    let path = environment.folder().join("session.json");
    let thread = import_with(&agent, &path, &[]).await;
    let before = agent.threads().state(thread).await.unwrap().unwrap();
    let todos = json!({"todos": [{"content": "look", "status": "pending"}]});
    let checkpoint_id = update_state(&agent, thread, todos, None, None).await.unwrap();
    assert_eq!(import_with(&agent, &path, &["One more.", "And another."]).await, thread);

    let state = agent.threads().state(thread).await.unwrap().unwrap();
    let expected = [message_texts(&before), vec!["One more.".to_owned(), "And another.".to_owned()]].concat();
    assert_eq!((state.checkpoint_id, message_texts(&state)), (checkpoint_id, expected.clone()));
    assert_eq!(agent.threads().state_at(thread, checkpoint_id).await.unwrap(), state);
    assert_eq!(all_states(&agent, thread).await[0], state);

    run_request(&agent, thread, &message_request("h1", "Go on.")).await;
    let states = all_states(&agent, thread).await;
    let expected = [expected, vec!["Go on.".to_owned(), "Done.".to_owned()]].concat();
    assert_eq!(message_texts(&states[0]), expected, "the turn continues after the imported messages");
    let past = agent.threads().state_at(thread, checkpoint_id).await.unwrap();
    assert_eq!(message_texts(&past), message_texts(&before), "the past checkpoint is as it was");
}

#[tokio::test]
async fn b3_messages_of_an_import_during_a_handoff_are_in_the_state_and_the_handoff_stays_pending() {
    let (environment, server) = (TestEnvironment::new(), drafting_server());
    let agent = environment.agent_with(&server);
    let path = environment.folder().join("session.json");
    let thread = import_with(&agent, &path, &[]).await;
    let (frames, cancel) = unwatched();
    let pending =
        agent.handoffs().request(thread, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    let asked = agent.threads().state(thread).await.unwrap().unwrap();
    assert_eq!(import_with(&agent, &path, &["One more."]).await, thread);
    let state = agent.threads().state(thread).await.unwrap().unwrap();
    let expected = [message_texts(&asked), vec!["One more.".to_owned()]].concat();
    assert_eq!(message_texts(&state), expected);
    assert_eq!((&state.interrupts, &state.next), (&asked.interrupts, &asked.next));
    let id = pending.handoff.handoff_id;
    agent.handoffs().decide(id, &approval(&pending), &frames, &cancel).await.unwrap();
    assert_eq!(agent.handoffs().get(id).await.unwrap().status, HandoffStatus::Seeded);
}
