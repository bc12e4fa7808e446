//! Tests of rewinding and forking: the next request has the messages up to that point and none of the later ones.

use agent::{Agent, ApprovalPolicy, HandoffRequestOptions, SearchRequest};
use journal::{EventQuery, SupersededVisibility};
use protocol::{Decisions, Event, EventType, HandoffStatus, Message, RunStatus, Seq, ThreadId, ThreadStatus};
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};
use tools::TODOS_CHANNEL;

use crate::environment::{
    TestEnvironment, answering_server, assert_paired, drafting_server, import_session, message_texts,
    unwatched,
};

/// Returns the arguments of `write_todos` for one pending task.
fn todos(content: &str) -> Value {
    json!({"todos": [{"content": content, "status": "pending"}]})
}

/// Runs two turns, each with its own task list. Afterwards the model only answers.
async fn after_two_turns(environment: &TestEnvironment) -> (ScriptedServer, Agent, ThreadId) {
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::call("c1", "write_todos", todos("one")).with_call("c2", "ls", json!({})),
        ScriptedReply::text("First answer."),
        ScriptedReply::call("c3", "write_todos", todos("two")).with_call("c4", "ls", json!({})),
        ScriptedReply::text("Second answer, with a walnut."),
        ScriptedReply::text("Third answer.").with_repeat(),
    ]));
    let server = server.unwrap();
    environment.write_file("notes.txt", "");
    let agent = environment.agent_with(&server);
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let (frames, cancel) = unwatched();
    for text in ["First.", "Second."] {
        let end = agent.runs().send_message(thread, text, &frames, &cancel).await.unwrap();
        assert_eq!(end.status, RunStatus::Success, "{end:?}");
    }
    (server, agent, thread)
}

/// Returns the sequence number of the first matching event.
async fn seq_of(agent: &Agent, thread: ThreadId, matches: impl Fn(&Event) -> bool) -> Seq {
    agent.threads().events(thread).await.unwrap().iter().find(|event| matches(event)).unwrap().seq
}

/// Returns the sequence number of the message with this text.
async fn seq_of_text(agent: &Agent, thread: ThreadId, text: &str) -> Seq {
    seq_of(agent, thread, |event| event.message().is_some_and(|message| message.text() == text)).await
}

/// Returns the first task of the current task list.
async fn todo_now(agent: &Agent, thread: ThreadId) -> Value {
    agent.store().checkpoint(thread).await.unwrap().unwrap().channels[TODOS_CHANNEL.key()][0]["content"]
        .clone()
}

#[tokio::test]
async fn b9_the_request_after_a_rewind_equals_the_original_one() {
    let environment = TestEnvironment::new();
    let (server, agent, thread) = after_two_turns(&environment).await;
    assert_eq!(todo_now(&agent, thread).await, "two");
    let seqs = seq_of_text(&agent, thread, "Second.").await - 1;
    let rewound = agent.threads().rewind(thread, seqs).await.unwrap();
    assert_eq!(rewound.superseded, 5, "the message, an answer, two results, an answer");
    assert_eq!(todo_now(&agent, thread).await, "one", "the task list is the one of that point");
    let (frames, cancel) = unwatched();
    agent.runs().send_message(thread, "Second.", &frames, &cancel).await.unwrap();
    let requests = server.requests();
    assert_eq!(requests[4].body, requests[2].body, "the request equals the original one byte for byte");
    // An agent without cached contexts sends the same request.
    let seqs = seq_of_text(&agent, thread, "Second.").await - 1;
    agent.threads().rewind(thread, seqs).await.unwrap();
    drop(agent);
    environment.agent_with(&server).runs().send_message(thread, "Second.", &frames, &cancel).await.unwrap();
    assert_eq!(server.requests()[5].body, requests[2].body);
}

#[tokio::test]
async fn b9_rewound_messages_are_hidden_and_stay_in_the_journal() {
    let environment = TestEnvironment::new();
    let (_server, agent, thread) = after_two_turns(&environment).await;
    let hits = agent.memory().search(&SearchRequest::new("walnut")).await.unwrap().hits;
    assert_eq!(hits.len(), 1);
    let seqs = seq_of_text(&agent, thread, "Second.").await - 1;
    agent.threads().rewind(thread, seqs).await.unwrap();
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
    assert_eq!(cost.models[0].calls, 4, "the cost of rewound calls is still counted");
}

#[tokio::test]
async fn a_rewind_withdraws_later_questions() {
    let environment = TestEnvironment::new();
    let write = json!({"path": "a", "content": "x"});
    let replies = [
        ScriptedReply::text("Hello."),
        ScriptedReply::call("c1", "write_file", write),
        ScriptedReply::text("Again."),
    ];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = environment.agent_with_policy(&server, ("", ApprovalPolicy::Ask));
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let (frames, cancel) = unwatched();
    agent.runs().send_message(thread, "First.", &frames, &cancel).await.unwrap();
    let end = agent.runs().send_message(thread, "Second.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Interrupted);
    let seqs = seq_of_text(&agent, thread, "Second.").await - 1;
    agent.threads().rewind(thread, seqs).await.unwrap();
    assert_eq!(agent.runs().pending_interrupts(thread).await.unwrap(), []);
    let now = agent.store().thread(thread).await.unwrap().unwrap();
    assert_eq!(now.status, ThreadStatus::Idle);
    let approve: Decisions = serde_json::from_value(json!({"decisions": [{"type": "approve"}]})).unwrap();
    let late = agent.runs().resume(end.interrupts[0].interrupt_id, &approve, &frames, &cancel).await;
    assert!(late.is_err(), "{late:?}");
    assert_eq!(environment.read_file("a"), "", "a call without approval is not made");
    let end = agent.runs().send_message(thread, "Other.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let sent = server.requests().last().unwrap().body.clone();
    assert_paired(&sent);
    assert!(!sent["messages"].to_string().contains("Second."));
}

#[tokio::test]
async fn a_rewind_expires_a_later_handoff_and_another_can_be_requested() {
    let environment = TestEnvironment::new();
    let server = drafting_server();
    let agent = environment.agent_with(&server);
    let parent = import_session(&environment, &agent).await.unwrap();
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
async fn l3_a_thread_rewound_or_forked_at_any_message_sends_a_legal_request() {
    let environment = TestEnvironment::new();
    let (server, agent, thread) = after_two_turns(&environment).await;
    let (frames, cancel) = unwatched();
    let events = agent.threads().events(thread).await.unwrap();
    let seqs = events.iter().filter(|event| event.message().is_some()).map(|event| event.seq);
    let seqs: Vec<Seq> = seqs.collect();
    let seq_in_batch = events.iter().find(|event| event.kind() == Some(EventType::ToolMessage)).unwrap().seq;
    assert!(seqs.contains(&seq_in_batch), "one of the positions is in the middle of a batch of calls");
    for seq in &seqs {
        let fork = agent.threads().fork(thread, Some(*seq)).await.unwrap();
        let end = agent.runs().send_message(fork.thread_id, "Go on.", &frames, &cancel).await.unwrap();
        assert_eq!(end.status, RunStatus::Success, "fork at {seq}: {end:?}");
        assert_paired(&server.requests().last().unwrap().body);
    }
    assert_eq!(message_texts(&agent, thread).await.len(), 10, "the source stays as it was");
    for seq in seqs.iter().rev() {
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

#[tokio::test(flavor = "multi_thread")]
async fn rewinds_of_two_processes_at_the_same_time_both_take_effect() {
    let environment = TestEnvironment::new();
    let server = answering_server("Heard.");
    let (one, two) = (environment.agent_with(&server), environment.agent_with(&server));
    let thread = one.threads().create(None).await.unwrap().thread_id;
    let (frames, cancel) = unwatched();
    for text in ["First.", "Second.", "Third."] {
        one.runs().send_message(thread, text, &frames, &cancel).await.unwrap();
    }
    let prompts = one.threads().prompts(thread, 10).await.unwrap();
    let [second, first] = [1, 2].map(|index: usize| prompts[index].seq);
    for _ in 0..20 {
        let (first, second) =
            tokio::join!(one.threads().rewind(thread, first), two.threads().rewind(thread, second));
        first.unwrap();
        second.unwrap();
    }
    assert_eq!(message_texts(&one, thread).await, ["First."]);
    assert_eq!(message_texts(&two, thread).await, ["First."]);
}
