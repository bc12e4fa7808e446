//! Going back and copying: the next request holds what was there then, and nothing of what came after.

use agent::{Agent, ApprovalPolicy, HandoffRequestOptions, SearchRequest};
use journal::{EventQuery, SupersededVisibility};
use protocol::{Decisions, Event, EventType, HandoffStatus, Message, RunStatus, Seq, ThreadId, ThreadStatus};
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};
use tools::TODOS_CHANNEL;

use crate::environment::{
    TestEnvironment, assert_paired, drafting_server, import_session, message_texts, unwatched,
};

fn todos(what: &str) -> Value {
    json!({"todos": [{"content": what, "status": "pending"}]})
}

/// Two turns, each with a list of tasks of its own; afterwards the model only answers.
async fn after_two_turns(world: &TestEnvironment) -> (ScriptedServer, Agent, ThreadId) {
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::call("c1", "write_todos", todos("one")).with_call("c2", "ls", json!({})),
        ScriptedReply::text("First answer."),
        ScriptedReply::call("c3", "write_todos", todos("two")).with_call("c4", "ls", json!({})),
        ScriptedReply::text("Second answer, with a walnut."),
        ScriptedReply::text("Third answer.").with_repeat(),
    ]));
    let server = server.unwrap();
    world.write_file("notes.txt", "");
    let agent = world.agent_with(&server);
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let (frames, cancel) = unwatched();
    for text in ["First.", "Second."] {
        let end = agent.runs().send_message(thread, text, &frames, &cancel).await.unwrap();
        assert_eq!(end.status, RunStatus::Success, "{end:?}");
    }
    (server, agent, thread)
}

async fn seq_of(agent: &Agent, thread: ThreadId, is_it: impl Fn(&Event) -> bool) -> Seq {
    agent.threads().events(thread).await.unwrap().iter().find(|event| is_it(event)).unwrap().seq
}

async fn seq_of_text(agent: &Agent, thread: ThreadId, text: &str) -> Seq {
    seq_of(agent, thread, |event| event.message().is_some_and(|message| message.text() == text)).await
}

async fn todo_now(agent: &Agent, thread: ThreadId) -> Value {
    agent.store().checkpoint(thread).await.unwrap().unwrap().channels[TODOS_CHANNEL.key()][0]["content"]
        .clone()
}

#[tokio::test]
async fn b9_after_a_rewind_the_request_is_the_one_of_then() {
    let world = TestEnvironment::new();
    let (server, agent, thread) = after_two_turns(&world).await;
    assert_eq!(todo_now(&agent, thread).await, "two");
    let until = seq_of_text(&agent, thread, "Second.").await - 1;
    let rewound = agent.threads().rewind(thread, until).await.unwrap();
    assert_eq!(rewound.superseded, 5, "the message, an answer, two results, an answer");
    assert_eq!(todo_now(&agent, thread).await, "one", "the state is that of then");
    let (frames, cancel) = unwatched();
    agent.runs().send_message(thread, "Second.", &frames, &cancel).await.unwrap();
    let requests = server.requests();
    assert_eq!(requests[4].body, requests[2].body, "byte for byte what was sent then");
    // Another process, which has kept nothing, sends the same.
    let until = seq_of_text(&agent, thread, "Second.").await - 1;
    agent.threads().rewind(thread, until).await.unwrap();
    drop(agent);
    world.agent_with(&server).runs().send_message(thread, "Second.", &frames, &cancel).await.unwrap();
    assert_eq!(server.requests()[5].body, requests[2].body);
}

#[tokio::test]
async fn b9_what_was_taken_back_is_out_of_sight_and_not_gone() {
    let world = TestEnvironment::new();
    let (_server, agent, thread) = after_two_turns(&world).await;
    let found = agent.memory().search(&SearchRequest::new("walnut")).await.unwrap().hits;
    assert_eq!(found.len(), 1);
    let until = seq_of_text(&agent, thread, "Second.").await - 1;
    agent.threads().rewind(thread, until).await.unwrap();
    assert_eq!(
        agent.memory().search(&SearchRequest::new("walnut")).await.unwrap().hits,
        [],
        "a search does not find it"
    );
    let history = serde_json::to_string(&agent.threads().history(thread).await.unwrap()).unwrap();
    assert!(history.contains("First answer.") && !history.contains("walnut"), "{history}");
    assert_eq!(message_texts(&agent, thread).await.len(), 5);
    let all = EventQuery { superseded: SupersededVisibility::Shown, ..EventQuery::after(0, 100) };
    let all = agent.store().events(thread, all).await.unwrap();
    assert!(all.iter().any(|event| event.content.get().contains("walnut")), "the journal keeps it");
    let prompts = agent.threads().prompts(thread, 10).await.unwrap();
    assert_eq!(prompts.iter().map(|prompt| prompt.text.as_str()).collect::<Vec<_>>(), ["First."]);
    let cost = agent.threads().cost_report(thread).await.unwrap();
    assert_eq!(cost.models[0].calls, 4, "what was paid stays paid");
}

#[tokio::test]
async fn a_question_behind_the_point_is_withdrawn() {
    let world = TestEnvironment::new();
    let write = json!({"path": "a", "content": "x"});
    let replies = [
        ScriptedReply::text("Hello."),
        ScriptedReply::call("c1", "write_file", write),
        ScriptedReply::text("Again."),
    ];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = world.agent_with_policy(&server, ("", ApprovalPolicy::Ask));
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let (frames, cancel) = unwatched();
    agent.runs().send_message(thread, "First.", &frames, &cancel).await.unwrap();
    let end = agent.runs().send_message(thread, "Second.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Interrupted);
    let until = seq_of_text(&agent, thread, "Second.").await - 1;
    agent.threads().rewind(thread, until).await.unwrap();
    assert_eq!(agent.runs().pending_interrupts(thread).await.unwrap(), []);
    let now = agent.store().thread(thread).await.unwrap().unwrap();
    assert_eq!(now.status, ThreadStatus::Idle);
    let approve: Decisions = serde_json::from_value(json!({"decisions": [{"type": "approve"}]})).unwrap();
    let late = agent.runs().resume(end.interrupts[0].interrupt_id, &approve, &frames, &cancel).await;
    assert!(late.is_err(), "{late:?}");
    assert_eq!(world.read_file("a"), "", "what was not approved is not done");
    let end = agent.runs().send_message(thread, "Other.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let sent = server.requests().last().unwrap().body.clone();
    assert_paired(&sent);
    assert!(!sent["messages"].to_string().contains("Second."));
}

#[tokio::test]
async fn a_handoff_behind_the_point_is_given_up_and_another_can_be_asked_for() {
    let world = TestEnvironment::new();
    let server = drafting_server();
    let agent = world.agent_with(&server);
    let parent = import_session(&world, &agent).await.unwrap();
    let (frames, cancel) = unwatched();
    let asked =
        agent.handoffs().request(parent, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    let requested = seq_of(&agent, parent, |event| event.kind() == Some(EventType::HandoffRequested)).await;
    agent.threads().rewind(parent, requested - 1).await.unwrap();
    assert_eq!(agent.handoffs().get(asked.handoff.handoff_id).await.unwrap().status, HandoffStatus::Expired);
    assert_eq!(agent.runs().pending_interrupts(parent).await.unwrap(), []);
    let again =
        agent.handoffs().request(parent, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    assert!(again.is_new);
    assert_ne!(again.handoff.handoff_id, asked.handoff.handoff_id);
}

#[tokio::test]
async fn l3_a_thread_taken_back_or_copied_anywhere_sends_a_legal_request() {
    let world = TestEnvironment::new();
    let (server, agent, thread) = after_two_turns(&world).await;
    let (frames, cancel) = unwatched();
    let events = agent.threads().events(thread).await.unwrap();
    let until = events.iter().filter(|event| event.message().is_some()).map(|event| event.seq);
    let until: Vec<Seq> = until.collect();
    let inside = events.iter().find(|event| event.kind() == Some(EventType::ToolMessage)).unwrap().seq;
    assert!(until.contains(&inside), "one point lies in the middle of a batch");
    for seq in &until {
        let fork = agent.threads().fork(thread, Some(*seq)).await.unwrap();
        let end = agent.runs().send_message(fork.thread_id, "Go on.", &frames, &cancel).await.unwrap();
        assert_eq!(end.status, RunStatus::Success, "fork at {seq}: {end:?}");
        assert_paired(&server.requests().last().unwrap().body);
    }
    assert_eq!(message_texts(&agent, thread).await.len(), 10, "the source stays as it was");
    for seq in until.iter().rev() {
        agent.threads().rewind(thread, *seq).await.unwrap();
        let end = agent.runs().send_message(thread, "Go on.", &frames, &cancel).await.unwrap();
        assert_eq!(end.status, RunStatus::Success, "rewind to {seq}: {end:?}");
        let sent = server.requests().last().unwrap().body.clone();
        assert_paired(&sent);
        agent.threads().rewind(thread, *seq).await.unwrap();
    }
    assert_eq!(message_texts(&agent, thread).await, ["First."]);
    let first = agent.threads().events(thread).await.unwrap();
    assert!(matches!(first.iter().find_map(Event::message), Some(Message::Human(_))));
}
