//! Sub-agents through the agent: a context of their own, at the same time, stopped with their parent, asking through it.

use agent::{Agent, CancellationToken, Frames, Policy, SearchRequest, ThreadFilter};
use journal::Subagents;
use protocol::{Decisions, Event, EventType, Message, ParentKind, RunStatus, Thread, ThreadId, ThreadStatus};
use serde_json::{Value, json};
use test_model::{Fault, Place, Recorded, Reply, Script, Server};

use crate::world::{World, assert_paired, messages, quiet};

/// Words that only a sub-agent's instructions have.
const SUBAGENT: &str = "You are a sub-agent";

fn task(prompt: &str) -> Value {
    json!({"description": "a task", "prompt": prompt})
}

/// A reply to the sub-agent whose prompt has that text, at that step.
fn subagents(prompt: &str, reply: Reply, step: usize) -> Reply {
    reply.when_body_contains(prompt).when_turn_is(1, step)
}

/// A reply to the parent, who was told "Plum." first.
fn own(reply: Reply, turn: usize, step: usize) -> Reply {
    reply.when_body_contains("Plum.").when_turn_is(turn, step)
}

async fn begun(world: &World, replies: Vec<Reply>, rules: (&str, Policy)) -> (Server, Agent, ThreadId) {
    let server = Server::start(Script::new(replies)).unwrap();
    let agent = world.agent_under(&server, rules);
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    (server, agent, thread)
}

async fn subagent_threads(agent: &Agent, parent: ThreadId) -> Vec<Thread> {
    let filter = ThreadFilter { subagents: Subagents::Shown, limit: 10, ..ThreadFilter::default() };
    let mut threads = agent.threads().list(filter).await.unwrap();
    threads.retain(|thread| thread.parent_id == Some(parent));
    threads
}

async fn ends(agent: &Agent, thread: ThreadId) -> Vec<Value> {
    let events = agent.threads().events(thread).await.unwrap();
    let ended = events.iter().filter(|event| event.kind() == Some(EventType::SubagentEnded));
    ended.map(Event::content_value).collect()
}

fn of_subagents(server: &Server) -> (Vec<Recorded>, Vec<Recorded>) {
    server.requests().into_iter().partition(|request| request.body["system"].to_string().contains(SUBAGENT))
}

fn names_of_tools(request: &Recorded) -> Vec<String> {
    let tools = request.body["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn g18_a_subagent_shares_nothing_with_its_parent_but_the_prompt_and_the_report() {
    let world = World::new();
    world.put("notes.txt", "quince\n");
    let replies = vec![
        own(Reply::text("Mulberry.").and_call("c1", "task", task("Read it.")).tokens(100, 10), 1, 1),
        own(Reply::text("So it is.").tokens(200, 20), 1, 2),
        subagents("Read it.", Reply::call("s1", "read_file", json!({"path": "notes.txt"})).tokens(30, 3), 1),
        subagents("Read it.", Reply::text("It is a fruit.").tokens(40, 4), 2),
    ];
    let (server, agent, thread) = begun(&world, replies, ("", Policy::Ask)).await;
    let (frames, cancel) = quiet();
    let end = agent.runs().send(thread, "Plum.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let (subs, own) = of_subagents(&server);
    assert_eq!((subs.len(), own.len()), (2, 2));
    for request in &subs {
        let body = request.body.to_string();
        assert!(!body.contains("Plum.") && !body.contains("Mulberry."), "{body}");
        assert!(!names_of_tools(request).contains(&"task".to_owned()), "a sub-agent has none of its own");
    }
    assert!(names_of_tools(&own[0]).contains(&"task".to_owned()));
    let last = own[1].body.to_string();
    assert!(last.contains("It is a fruit.") && !last.contains("quince"), "{last}");

    let ended = ends(&agent, thread).await;
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
async fn tasks_of_one_answer_run_at_the_same_time_and_report_in_the_order_of_the_calls() {
    let world = World::new();
    let calls = Reply::call("c1", "task", task("Hens.")).and_call("c2", "task", task("Ducks."));
    let replies = vec![
        own(calls, 1, 1),
        own(Reply::text("Counted."), 1, 2),
        subagents("Hens.", Reply::text("Three.").gated("hens", Place::Start), 1),
        subagents("Ducks.", Reply::text("Five.").gated("ducks", Place::Start), 1),
    ];
    let (server, agent, thread) = begun(&world, replies, ("", Policy::Ask)).await;
    let (frames, cancel) = quiet();
    let gates = async {
        // Both are asked before one of them has an answer.
        server.called(3).await;
        server.open("ducks");
        server.open("hens");
    };
    let (end, ()) = tokio::join!(agent.runs().send(thread, "Plum.", &frames, &cancel), gates);
    assert_eq!(end.unwrap().status, RunStatus::Success);
    let reports = messages(&agent, thread).await;
    let reports = reports.iter().filter(|message| matches!(message, Message::Tool(_))).map(Message::text);
    assert_eq!(reports.collect::<Vec<_>>(), ["Three.", "Five."]);
    assert_eq!(ends(&agent, thread).await.len(), 2);
}

#[tokio::test]
async fn a_stop_of_the_parent_stops_its_subagents_and_the_thread_goes_on() {
    let world = World::new();
    let calls = Reply::call("c1", "task", task("Hens.")).and_call("c2", "task", task("Ducks."));
    let replies = vec![
        own(calls, 1, 1),
        own(Reply::text("Still here."), 2, 1),
        subagents("Hens.", Reply::text("I count").then(Fault::Stall), 1),
        subagents("Ducks.", Reply::fault(Fault::Hang), 1),
    ];
    let (server, agent, thread) = begun(&world, replies, ("", Policy::Ask)).await;
    let cancel = CancellationToken::new();
    let stop = async {
        server.called(3).await;
        cancel.cancel();
    };
    let frames = Frames::default();
    let (end, ()) = tokio::join!(agent.runs().send(thread, "Plum.", &frames, &cancel), stop);
    assert_eq!(end.unwrap().status, RunStatus::Cancelled);
    server.clients_gone(2).await;
    assert_eq!(agent.store().active_runs(None).await.unwrap(), []);
    for thread in subagent_threads(&agent, thread).await {
        assert_eq!(thread.status, ThreadStatus::Interrupted, "{thread:?}");
    }
    let (frames, cancel) = quiet();
    let end = agent.runs().send(thread, "And now?", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_paired(&server.requests().last().unwrap().body);
}

#[tokio::test]
async fn a_subagent_that_fails_is_told_to_the_model_and_the_turn_goes_on() {
    let world = World::new();
    let replies = vec![
        own(Reply::call("c1", "task", task("Hens.")), 1, 1),
        own(Reply::text("A pity."), 1, 2),
        subagents("Hens.", Reply::status(400, r#"{"error":{"message":"no hens"}}"#), 1),
    ];
    let (server, agent, thread) = begun(&world, replies, ("", Policy::Ask)).await;
    let (frames, cancel) = quiet();
    let end = agent.runs().send(thread, "Plum.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let told = server.requests().last().unwrap().body.to_string();
    assert!(told.contains("The sub-agent did not finish"), "{told}");
    assert_eq!(ends(&agent, thread).await[0]["status"], "error");
}

#[tokio::test]
async fn a_question_of_a_subagent_is_asked_in_the_parent_and_the_answer_reaches_it() {
    let world = World::new();
    world.put("notes.txt", "");
    let write = json!({"path": "hens.txt", "content": "three"});
    let replies = vec![
        own(Reply::call("c1", "task", task("Hens.")), 1, 1),
        own(Reply::text("Noted."), 1, 2),
        subagents("Hens.", Reply::call("s1", "write_file", write), 1),
        subagents("Hens.", Reply::text("It is written."), 2),
    ];
    let (server, agent, thread) = begun(&world, replies, ("", Policy::Ask)).await;
    let (frames, cancel) = quiet();
    let end = agent.runs().send(thread, "Plum.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Interrupted, "{end:?}");
    drop(agent);
    let agent = world.agent_with(&server);
    let pending = agent.runs().pending_interrupts(thread).await.unwrap();
    let [asked] = pending.as_slice() else { panic!("one question, not {pending:?}") };
    let request = &asked.payload.action_requests[0];
    let details = request.details.as_ref().unwrap();
    assert_eq!((request.name.as_str(), &details["subagent"]["call_id"]), ("write_file", &json!("c1")));
    assert!(details["diff"].as_str().unwrap().contains("+three"));
    let wrong: Decisions =
        serde_json::from_value(json!({"decisions": [{"type": "approve", "args": {"path": "x"}}]})).unwrap();
    let refused = agent.runs().resume(asked.interrupt_id, &wrong, &frames, &cancel).await;
    assert!(refused.is_err(), "what the sub-agent would not take, the parent does not: {refused:?}");
    let approve: Decisions = serde_json::from_value(json!({"decisions": [{"type": "approve"}]})).unwrap();
    let end = agent.runs().resume(asked.interrupt_id, &approve, &frames, &cancel).await.unwrap().unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(world.read("hens.txt"), "three");
    assert_eq!(server.calls(), 4, "no call of a model is repeated");
    assert_eq!(subagent_threads(&agent, thread).await.len(), 1, "the same sub-agent goes on");
    assert_eq!(ends(&agent, thread).await.len(), 1);
}

#[tokio::test]
async fn j7_a_question_of_a_subagent_is_taken_back_with_its_parents() {
    for by_rewind in [false, true] {
        let world = World::new();
        let write = json!({"path": "a.txt", "content": "a\n"});
        let replies = vec![
            own(Reply::call("c1", "task", task("Write it.")), 1, 1),
            subagents("Write it.", Reply::call("s1", "write_file", write), 1),
            own(Reply::text("As you like."), 2, 1),
        ];
        let (_server, agent, thread) = begun(&world, replies, ("", Policy::Ask)).await;
        let (frames, cancel) = quiet();
        let end = agent.runs().send(thread, "Plum.", &frames, &cancel).await.unwrap();
        assert_eq!(end.status, RunStatus::Interrupted, "{end:?}");
        let inner = subagent_threads(&agent, thread).await.remove(0);
        assert_eq!(agent.runs().pending_interrupts(inner.thread_id).await.unwrap().len(), 1);
        if by_rewind {
            agent.threads().rewind(thread, 1).await.unwrap();
        } else {
            let end = agent.runs().send(thread, "Never mind.", &frames, &cancel).await.unwrap();
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
async fn k9_a_deleted_thread_takes_its_subagents_with_it_even_one_that_was_cut_off() {
    let world = World::new();
    let replies = vec![
        own(Reply::call("c1", "task", task("Hens.")), 1, 1),
        own(Reply::text("Counted."), 1, 2),
        own(Reply::call("c1", "task", task("Ducks.")), 2, 1),
        subagents("Hens.", Reply::text("A heron."), 1),
        subagents("Ducks.", Reply::fault(Fault::Hang), 1),
    ];
    let (server, agent, thread) = begun(&world, replies, ("", Policy::Ask)).await;
    let (frames, cancel) = quiet();
    agent.runs().send(thread, "Plum.", &frames, &cancel).await.unwrap();
    tokio::select! {
        end = agent.runs().send(thread, "And ducks?", &frames, &cancel) => panic!("it hangs: {end:?}"),
        () = server.called(5) => {}
    }
    let subagents = subagent_threads(&agent, thread).await;
    assert_eq!(subagents.len(), 2, "the same id of a call in another turn is another sub-agent");
    drop(agent);
    let agent = world.agent_with(&server);
    agent.threads().delete(thread).await.unwrap();
    for subagent in subagents {
        assert_eq!(agent.store().thread(subagent.thread_id).await.unwrap(), None);
    }
    assert_eq!(agent.memory().search(&SearchRequest::of("heron")).await.unwrap().hits, []);
}
