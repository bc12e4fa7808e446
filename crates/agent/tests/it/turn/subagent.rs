//! Tests of sub-agents: they have their own context, run concurrently, stop with their parent and ask through it.

use agent::{Agent, ApprovalPolicy, CancellationToken, FrameSender, SearchRequest, ThreadFilter};
use journal::SubagentVisibility;
use protocol::{Decisions, Event, EventType, Message, ParentKind, RunStatus, Thread, ThreadId, ThreadStatus};
use serde_json::{Value, json};
use test_model::{GatePosition, RecordedRequest, Script, ScriptedFault, ScriptedReply, ScriptedServer};

use crate::environment::{TestEnvironment, assert_paired, messages, unwatched};

/// A text that only a sub-agent's instructions contain.
const SUBAGENT_PROMPT: &str = "You are a sub-agent";

/// Returns the arguments of a `task` call.
fn task(prompt: &str) -> Value {
    json!({"description": "a task", "prompt": prompt})
}

/// A reply to the sub-agent whose prompt contains `prompt`, at that step.
fn subagent_reply(prompt: &str, reply: ScriptedReply, step: usize) -> ScriptedReply {
    reply.when_body_contains(prompt).when_turn_is(1, step)
}

/// A reply to the parent, whose first message is "Plum.", at that turn and step.
fn parent_reply(reply: ScriptedReply, turn: usize, step: usize) -> ScriptedReply {
    reply.when_body_contains("Plum.").when_turn_is(turn, step)
}

/// Returns a server with these replies, an agent with these rules, and an empty thread.
async fn create_parent_thread(
    environment: &TestEnvironment,
    replies: Vec<ScriptedReply>,
    rules: (&str, ApprovalPolicy),
) -> (ScriptedServer, Agent, ThreadId) {
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = environment.agent_with_policy(&server, rules);
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    (server, agent, thread)
}

/// Returns the threads of the parent's sub-agents.
async fn subagent_threads(agent: &Agent, parent: ThreadId) -> Vec<Thread> {
    let filter = ThreadFilter { subagents: SubagentVisibility::Shown, limit: 10, ..ThreadFilter::default() };
    let mut threads = agent.threads().list(filter).await.unwrap();
    threads.retain(|thread| thread.parent_id == Some(parent));
    threads
}

/// Returns the contents of the parent's `subagent_ended` events.
async fn subagent_end_events(agent: &Agent, thread: ThreadId) -> Vec<Value> {
    let events = agent.threads().events(thread).await.unwrap();
    let ended = events.iter().filter(|event| event.kind() == Some(EventType::SubagentEnded));
    ended.map(Event::content_value).collect()
}

/// Returns the requests of sub-agents and those of the parent.
fn split_requests(server: &ScriptedServer) -> (Vec<RecordedRequest>, Vec<RecordedRequest>) {
    server
        .requests()
        .into_iter()
        .partition(|request| request.body["system"].to_string().contains(SUBAGENT_PROMPT))
}

/// Returns the names of the tools that a request offers.
fn names_of_tools(request: &RecordedRequest) -> Vec<String> {
    let tools = request.body["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn g18_a_subagent_shares_nothing_with_its_parent_but_the_prompt_and_the_report() {
    let environment = TestEnvironment::new();
    environment.write_file("notes.txt", "quince\n");
    let replies = vec![
        parent_reply(
            ScriptedReply::text("Mulberry.").with_call("c1", "task", task("Read it.")).with_tokens(100, 10),
            1,
            1,
        ),
        parent_reply(ScriptedReply::text("So it is.").with_tokens(200, 20), 1, 2),
        subagent_reply(
            "Read it.",
            ScriptedReply::call("s1", "read_file", json!({"path": "notes.txt"})).with_tokens(30, 3),
            1,
        ),
        subagent_reply("Read it.", ScriptedReply::text("It is a fruit.").with_tokens(40, 4), 2),
    ];
    let (server, agent, thread) =
        create_parent_thread(&environment, replies, ("", ApprovalPolicy::Ask)).await;
    let (frames, cancel) = unwatched();
    let end = agent.runs().send_message(thread, "Plum.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let (subs, own) = split_requests(&server);
    assert_eq!((subs.len(), own.len()), (2, 2));
    for request in &subs {
        let body = request.body.to_string();
        assert!(!body.contains("Plum.") && !body.contains("Mulberry."), "{body}");
        assert!(!names_of_tools(request).contains(&"task".to_owned()), "a sub-agent cannot start sub-agents");
    }
    assert!(names_of_tools(&own[0]).contains(&"task".to_owned()));
    let last = own[1].body.to_string();
    assert!(last.contains("It is a fruit.") && !last.contains("quince"), "{last}");

    let ended = subagent_end_events(&agent, thread).await;
    let [ended] = ended.as_slice() else { panic!("one end, not {ended:?}") };
    assert_eq!((&ended["call_id"], &ended["status"]), (&json!("c1"), &json!("success")));
    assert_eq!((&ended["usage"]["input_tokens"], &ended["usage"]["output_tokens"]), (&json!(70), &json!(7)));
    let cost = agent.threads().cost_report(thread).await.unwrap();
    assert_eq!(cost.models.iter().map(|model| model.usage.total_tokens()).sum::<u64>(), 330 + 77);

    let listed = agent.threads().list(ThreadFilter { limit: 10, ..ThreadFilter::default() }).await.unwrap();
    assert_eq!(listed.iter().map(|thread| thread.thread_id).collect::<Vec<_>>(), [thread]);
    let own_thread = subagent_threads(&agent, thread).await;
    assert_eq!(own_thread.len(), 1);
    assert_eq!(own_thread[0].parent_kind, Some(ParentKind::Subagent));
    assert_eq!(ended["thread_id"], json!(own_thread[0].thread_id));
}

#[tokio::test]
async fn tasks_of_one_answer_run_concurrently_and_report_in_the_order_of_the_calls() {
    let environment = TestEnvironment::new();
    let calls = ScriptedReply::call("c1", "task", task("Hens.")).with_call("c2", "task", task("Ducks."));
    let replies = vec![
        parent_reply(calls, 1, 1),
        parent_reply(ScriptedReply::text("Counted."), 1, 2),
        subagent_reply("Hens.", ScriptedReply::text("Three.").with_gate("hens", GatePosition::Start), 1),
        subagent_reply("Ducks.", ScriptedReply::text("Five.").with_gate("ducks", GatePosition::Start), 1),
    ];
    let (server, agent, thread) =
        create_parent_thread(&environment, replies, ("", ApprovalPolicy::Ask)).await;
    let (frames, cancel) = unwatched();
    let gates = async {
        // Both sub-agents call the model before either of them gets an answer.
        server.wait_for_calls(3).await;
        server.open_gate("ducks");
        server.open_gate("hens");
    };
    let (end, ()) = tokio::join!(agent.runs().send_message(thread, "Plum.", &frames, &cancel), gates);
    assert_eq!(end.unwrap().status, RunStatus::Success);
    let reports = messages(&agent, thread).await;
    let reports = reports.iter().filter(|message| matches!(message, Message::Tool(_))).map(Message::text);
    assert_eq!(reports.collect::<Vec<_>>(), ["Three.", "Five."]);
    assert_eq!(subagent_end_events(&agent, thread).await.len(), 2);
}

#[tokio::test]
async fn stopping_the_parent_stops_its_subagents_and_the_thread_can_continue() {
    let environment = TestEnvironment::new();
    let calls = ScriptedReply::call("c1", "task", task("Hens.")).with_call("c2", "task", task("Ducks."));
    let replies = vec![
        parent_reply(calls, 1, 1),
        parent_reply(ScriptedReply::text("Still here."), 2, 1),
        subagent_reply("Hens.", ScriptedReply::text("I count").with_fault(ScriptedFault::Stall), 1),
        subagent_reply("Ducks.", ScriptedReply::fault(ScriptedFault::Hang), 1),
    ];
    let (server, agent, thread) =
        create_parent_thread(&environment, replies, ("", ApprovalPolicy::Ask)).await;
    let cancel = CancellationToken::new();
    let stop = async {
        server.wait_for_calls(3).await;
        cancel.cancel();
    };
    let frames = FrameSender::default();
    let (end, ()) = tokio::join!(agent.runs().send_message(thread, "Plum.", &frames, &cancel), stop);
    assert_eq!(end.unwrap().status, RunStatus::Cancelled);
    server.wait_for_disconnects(2).await;
    assert_eq!(agent.store().active_runs(None).await.unwrap(), []);
    for thread in subagent_threads(&agent, thread).await {
        assert_eq!(thread.status, ThreadStatus::Interrupted, "{thread:?}");
    }
    let (frames, cancel) = unwatched();
    let end = agent.runs().send_message(thread, "And now?", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_paired(&server.requests().last().unwrap().body);
}

#[tokio::test]
async fn a_failed_subagent_is_reported_to_the_model_and_the_turn_continues() {
    let environment = TestEnvironment::new();
    let replies = vec![
        parent_reply(ScriptedReply::call("c1", "task", task("Hens.")), 1, 1),
        parent_reply(ScriptedReply::text("A pity."), 1, 2),
        subagent_reply("Hens.", ScriptedReply::status(400, r#"{"error":{"message":"no hens"}}"#), 1),
    ];
    let (server, agent, thread) =
        create_parent_thread(&environment, replies, ("", ApprovalPolicy::Ask)).await;
    let (frames, cancel) = unwatched();
    let end = agent.runs().send_message(thread, "Plum.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let sent = server.requests().last().unwrap().body.to_string();
    assert!(sent.contains("The sub-agent did not finish"), "{sent}");
    assert_eq!(subagent_end_events(&agent, thread).await[0]["status"], "error");
}

#[tokio::test]
async fn a_question_of_a_subagent_is_asked_in_the_parent_and_the_answer_reaches_it() {
    let environment = TestEnvironment::new();
    environment.write_file("notes.txt", "");
    let write = json!({"path": "hens.txt", "content": "three"});
    let replies = vec![
        parent_reply(ScriptedReply::call("c1", "task", task("Hens.")), 1, 1),
        parent_reply(ScriptedReply::text("Noted."), 1, 2),
        subagent_reply("Hens.", ScriptedReply::call("s1", "write_file", write), 1),
        subagent_reply("Hens.", ScriptedReply::text("It is written."), 2),
    ];
    let (server, agent, thread) =
        create_parent_thread(&environment, replies, ("", ApprovalPolicy::Ask)).await;
    let (frames, cancel) = unwatched();
    let end = agent.runs().send_message(thread, "Plum.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Interrupted, "{end:?}");
    drop(agent);
    let agent = environment.agent_with(&server);
    let pending = agent.runs().pending_interrupts(thread).await.unwrap();
    let [asked] = pending.as_slice() else { panic!("one question, not {pending:?}") };
    let request = &asked.payload.action_requests[0];
    let details = request.details.as_ref().unwrap();
    assert_eq!((request.name.as_str(), &details["subagent"]["call_id"]), ("write_file", &json!("c1")));
    assert!(details["diff"].as_str().unwrap().contains("+three"));
    let wrong: Decisions =
        serde_json::from_value(json!({"decisions": [{"type": "approve", "args": {"path": "x"}}]})).unwrap();
    let refused = agent.runs().resume(asked.interrupt_id, &wrong, &frames, &cancel).await;
    assert!(refused.is_err(), "the parent refuses a decision that its sub-agent would refuse: {refused:?}");
    let approve: Decisions = serde_json::from_value(json!({"decisions": [{"type": "approve"}]})).unwrap();
    let end = agent.runs().resume(asked.interrupt_id, &approve, &frames, &cancel).await.unwrap().unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(environment.read_file("hens.txt"), "three");
    assert_eq!(server.call_count(), 4, "no model call is repeated");
    assert_eq!(subagent_threads(&agent, thread).await.len(), 1, "the same sub-agent resumes");
    assert_eq!(subagent_end_events(&agent, thread).await.len(), 1);
}

#[tokio::test]
async fn calls_of_a_subagent_are_decided_one_at_a_time_too() {
    let environment = TestEnvironment::new();
    let write = |path: &str| json!({"path": path, "content": "three"});
    let calls = ScriptedReply::call("s1", "write_file", write("hens.txt")).with_call(
        "s2",
        "write_file",
        write("ducks.txt"),
    );
    let replies = vec![
        parent_reply(ScriptedReply::call("c1", "task", task("Hens.")), 1, 1),
        parent_reply(ScriptedReply::text("Noted."), 1, 2),
        subagent_reply("Hens.", calls, 1),
        subagent_reply("Hens.", ScriptedReply::text("It is written."), 2),
    ];
    let (server, agent, thread) =
        create_parent_thread(&environment, replies, ("", ApprovalPolicy::Ask)).await;
    let (frames, cancel) = unwatched();
    let end = agent.runs().send_message(thread, "Plum.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Interrupted, "{end:?}");
    let mut asked = end.interrupts[0].interrupt_id;
    for (decisions, status) in [
        (json!([{"type": "defer"}, {"type": "approve"}]), RunStatus::Interrupted),
        (json!([{"type": "reject"}]), RunStatus::Success),
    ] {
        assert_eq!(server.call_count(), 2, "the sub-agent waits for all decisions");
        let decisions: Decisions = serde_json::from_value(json!({"decisions": decisions})).unwrap();
        let end = agent.runs().resume(asked, &decisions, &frames, &cancel).await.unwrap().unwrap();
        assert_eq!(end.status, status, "{end:?}");
        if let Some(next) = end.interrupts.first() {
            let requests = &next.payload.action_requests;
            assert_eq!(requests.iter().map(|it| &it.args["path"]).collect::<Vec<_>>(), ["hens.txt"]);
            asked = next.interrupt_id;
        }
    }
    assert_eq!(environment.read_file("ducks.txt"), "three");
    assert_eq!(environment.read_file("hens.txt"), "");
    assert_eq!(subagent_threads(&agent, thread).await.len(), 1, "the same sub-agent resumes");
}

#[tokio::test]
async fn j7_a_subagents_question_is_withdrawn_with_its_parents_question() {
    for by_rewind in [false, true] {
        let environment = TestEnvironment::new();
        let write = json!({"path": "a.txt", "content": "a\n"});
        let replies = vec![
            parent_reply(ScriptedReply::call("c1", "task", task("Write it.")), 1, 1),
            subagent_reply("Write it.", ScriptedReply::call("s1", "write_file", write), 1),
            parent_reply(ScriptedReply::text("As you like."), 2, 1),
        ];
        let (_server, agent, thread) =
            create_parent_thread(&environment, replies, ("", ApprovalPolicy::Ask)).await;
        let (frames, cancel) = unwatched();
        let end = agent.runs().send_message(thread, "Plum.", &frames, &cancel).await.unwrap();
        assert_eq!(end.status, RunStatus::Interrupted, "{end:?}");
        let inner = subagent_threads(&agent, thread).await.remove(0);
        assert_eq!(agent.runs().pending_interrupts(inner.thread_id).await.unwrap().len(), 1);
        if by_rewind {
            agent.threads().rewind(thread, 1).await.unwrap();
        } else {
            let end = agent.runs().send_message(thread, "Never mind.", &frames, &cancel).await.unwrap();
            assert_eq!(end.status, RunStatus::Success, "{end:?}");
        }
        for thread_id in [thread, inner.thread_id] {
            assert_eq!(agent.runs().pending_interrupts(thread_id).await.unwrap(), []);
            let now = agent.threads().find(&thread_id.to_string()).await.unwrap();
            assert_eq!(now.status, ThreadStatus::Idle);
        }
        assert!(!agent.workspace().join("a.txt").exists());
    }
}

#[tokio::test]
async fn k9_deleting_a_thread_deletes_its_subagents_even_an_interrupted_one() {
    let environment = TestEnvironment::new();
    let replies = vec![
        parent_reply(ScriptedReply::call("c1", "task", task("Hens.")), 1, 1),
        parent_reply(ScriptedReply::text("Counted."), 1, 2),
        parent_reply(ScriptedReply::call("c1", "task", task("Ducks.")), 2, 1),
        subagent_reply("Hens.", ScriptedReply::text("A heron."), 1),
        subagent_reply("Ducks.", ScriptedReply::fault(ScriptedFault::Hang), 1),
    ];
    let (server, agent, thread) =
        create_parent_thread(&environment, replies, ("", ApprovalPolicy::Ask)).await;
    let (frames, cancel) = unwatched();
    agent.runs().send_message(thread, "Plum.", &frames, &cancel).await.unwrap();
    tokio::select! {
        end = agent.runs().send_message(thread, "And ducks?", &frames, &cancel) => panic!("the run did not hang: {end:?}"),
        () = server.wait_for_calls(5) => {}
    }
    let subagents = subagent_threads(&agent, thread).await;
    assert_eq!(subagents.len(), 2, "the same call id in another turn starts another sub-agent");
    drop(agent);
    let agent = environment.agent_with(&server);
    agent.threads().delete(thread).await.unwrap();
    for subagent in subagents {
        assert_eq!(agent.store().thread(subagent.thread_id).await.unwrap(), None);
    }
    assert_eq!(agent.memory().search(&SearchRequest::new("heron")).await.unwrap().hits, []);
}
