//! Approvals through the agent, with its own tools: what the rules say, what a person answers, what is remembered.

use agent::{
    Agent, ApprovalPolicy, CancellationToken, Error, Frame, FrameSender, RuleScope, RunEnd, RunError,
    SubscriptionItem,
};
use protocol::{Decisions, EventType, FailureKind, Interrupt, Message, RunStatus, ThreadId};
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::environment::{TEST_MODEL, TestEnvironment, assert_paired, decisions, messages, unwatched};

/// A thread in which the model has asked for some calls.
struct ToolApprovalFixture {
    world: TestEnvironment,
    server: ScriptedServer,
    agent: Agent,
    thread: ThreadId,
    end: RunEnd,
}

/// Lets the model ask for `calls`, with the ids `c0`, `c1`, …, and say afterwards that it is done.
async fn request_calls(
    calls: &[(&str, Value)],
    (config, approve): (&str, ApprovalPolicy),
) -> ToolApprovalFixture {
    let world = TestEnvironment::new();
    world.write_file("notes.txt", "one\n");
    let mut reply = ScriptedReply::text("I try.");
    for (number, (name, args)) in calls.iter().enumerate() {
        reply = reply.with_call(format!("c{number}"), *name, args.clone());
    }
    let server =
        ScriptedServer::start(Script::new([reply, ScriptedReply::text("Done.").with_repeat()])).unwrap();
    let agent = world.agent_with_policy(&server, (config, approve));
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let (frames, cancel) = unwatched();
    let end = agent.runs().send_message(thread, "Do it.", &frames, &cancel).await.unwrap();
    ToolApprovalFixture { world, server, agent, thread, end }
}

impl ToolApprovalFixture {
    async fn pending(&self) -> Interrupt {
        let mut pending = self.agent.runs().pending_interrupts(self.thread).await.unwrap();
        assert_eq!(pending.len(), 1, "{pending:?}");
        pending.remove(0)
    }

    async fn answer(&self, decisions: Value) -> agent::Result<RunEnd> {
        let (frames, cancel) = unwatched();
        let decisions: Decisions = serde_json::from_value(json!({"decisions": decisions})).unwrap();
        let id = self.pending().await.interrupt_id;
        Ok(self.agent.runs().resume(id, &decisions, &frames, &cancel).await?.unwrap())
    }

    /// Returns the results in the order of the calls.
    async fn call_results(&self) -> Vec<String> {
        let messages = messages(&self.agent, self.thread).await;
        let mut results: Vec<(String, String)> = messages
            .iter()
            .filter_map(|message| match message {
                Message::Tool(result) => Some((result.call_id.clone(), message.text())),
                Message::Human(_) | Message::Ai(_) => None,
            })
            .collect();
        results.sort();
        results.into_iter().map(|(_, text)| text).collect()
    }

    /// Returns what was decided: call, decision, by whom.
    async fn recorded_decisions(&self) -> Vec<[String; 3]> {
        let events = self.agent.threads().events(self.thread).await.unwrap();
        let decided = events.iter().filter(|event| event.kind() == Some(EventType::ToolCallDecided));
        let text = |content: &Value, key: &str| content[key].as_str().unwrap().to_owned();
        decided
            .map(|event| event.content_value())
            .map(|content| ["call_id", "decision", "by"].map(|key| text(&content, key)))
            .collect()
    }
}

fn write(path: &str, content: &str) -> (&'static str, Value) {
    ("write_file", json!({"path": path, "content": content}))
}

const RULES: &str = "[permissions]\nallow = [\"write_file(out/**)\"]\nask = [\"write_file(out/asked/**)\"]\n\
                     deny = [\"write_file(out/denied/**)\"]\n";

#[tokio::test]
async fn every_call_is_allowed_asked_about_or_refused_as_the_rules_say() {
    let calls = [write("out/a", "1"), write("out/asked/b", "2"), write("out/denied/c", "3"), write("d", "4")];
    let asked = request_calls(&calls, (RULES, ApprovalPolicy::Ask)).await;
    assert_eq!(asked.end.status, RunStatus::Interrupted);
    let pending = asked.pending().await;
    let requests = &pending.payload.action_requests;
    let paths: Vec<&Value> = requests.iter().map(|request| &request.args["path"]).collect();
    assert_eq!(
        paths,
        ["out/asked/b", "d"],
        "one question for the calls that need a person, and nothing else"
    );
    let details = requests[0].details.as_ref().unwrap();
    assert_eq!(details["call_id"], "c1");
    assert!(details["diff"].as_str().unwrap().contains("+2"), "{details}");
    assert_eq!(asked.world.read_file("out/a"), "", "nothing is done before the answer");
    let end = asked.answer(json!([{"type": "approve"}, {"type": "approve"}])).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let written = ["out/a", "out/asked/b", "out/denied/c", "d"].map(|name| asked.world.read_file(name));
    assert_eq!(written, ["1", "2", "", "4"]);
    assert!(asked.call_results().await[2].contains("a rule forbids this call"));
    assert_paired(&asked.server.requests()[1].body);
    let expected = [["c2", "deny", "rule"], ["c1", "approve", "person"], ["c3", "approve", "person"]];
    assert_eq!(asked.recorded_decisions().await, expected);
}

#[tokio::test]
async fn g3_each_kind_of_decision_does_what_it_says() {
    let calls = ["a", "b", "c", "d"].map(|name| write(name, "model's"));
    let asked = request_calls(&calls, ("", ApprovalPolicy::Ask)).await;
    let edit = json!({"name": "write_file", "args": {"path": "b", "content": "person's"}});
    let decisions = json!([
        {"type": "approve"},
        {"type": "edit", "edited_action": edit},
        {"type": "reject", "message": "Leave c alone."},
        {"type": "respond", "message": "d is written already."},
    ]);
    let end = asked.answer(decisions).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(["a", "b", "c", "d"].map(|name| asked.world.read_file(name)), ["model's", "person's", "", ""]);
    let results = asked.call_results().await;
    assert!(results[2].contains("Leave c alone."));
    assert_eq!(results[3], "d is written already.");
    let second = &asked.server.requests()[1].body;
    assert_paired(second);
    let said = second.to_string();
    assert!(said.contains("model's") && said.contains("Leave c alone."), "{said}");
    let decided = asked.recorded_decisions().await.into_iter().map(|[_, decision, _]| decision);
    assert_eq!(decided.collect::<Vec<_>>(), ["approve", "edit", "reject", "respond"]);
    assert_eq!(asked.agent.runs().pending_interrupts(asked.thread).await.unwrap(), []);
}

#[tokio::test]
async fn a_rejection_needs_no_model_and_the_turn_fails_where_it_would_ask_one() {
    let asked = request_calls(&[write("a", "1")], ("", ApprovalPolicy::Ask)).await;
    let bare = asked.world.agent();
    let (frames, cancel) = unwatched();
    let rejected = decisions(r#"{"decisions":[{"type":"reject","message":"No."}]}"#);
    let pending = asked.pending().await;
    let end = bare.runs().resume(pending.interrupt_id, &rejected, &frames, &cancel).await.unwrap().unwrap();
    let failure = end.failure.unwrap();
    assert_eq!((end.status, failure.kind), (RunStatus::Error, FailureKind::Config));
    assert!(failure.hint.unwrap().contains("segue models"));
    assert_eq!(asked.recorded_decisions().await, [["c0", "reject", "person"]]);
    assert!(asked.call_results().await[0].contains("No."));
    assert_eq!(bare.runs().pending_interrupts(asked.thread).await.unwrap(), []);
}

#[tokio::test]
async fn g3_an_answer_that_cannot_be_taken_leaves_the_question_waiting() {
    let asked = request_calls(&[write("a", "1"), write("b", "2")], (RULES, ApprovalPolicy::Ask)).await;
    let edit = |name: &str, path: &str| {
        let args = json!({"path": path, "content": "x"});
        json!({"type": "edit", "edited_action": {"name": name, "args": args}})
    };
    let approve = json!({"type": "approve"});
    for decisions in [
        json!([]),
        json!([approve]),
        json!([approve, approve, approve]),
        json!([approve, {"type": "preview"}]),
        json!([approve, {"type": "approve", "args": {"path": "z"}}]),
        json!([approve, edit("execute", "b")]),
        json!([approve, edit("write_file", "out/denied/b")]),
    ] {
        let refused = asked.answer(decisions.clone()).await;
        let is_rejected =
            matches!(refused, Err(Error::Run(RunError::Runtime(runtime::Error::Rejected { .. }))));
        assert!(is_rejected, "{decisions}: {refused:?}");
        assert_eq!(asked.pending().await.status.as_str(), "pending", "{decisions}");
    }
    asked.answer(json!([approve, edit("write_file", "c")])).await.unwrap();
    assert_eq!(["a", "b", "c"].map(|name| asked.world.read_file(name)), ["1", "", "x"]);
}

#[tokio::test]
async fn k6_a_path_outside_the_workspace_is_refused_whoever_allows_it() {
    let world_allows = "[permissions]\nallow = [\"write_file\", \"read_file\", \"edit_file\"]\n";
    for (config, approve) in [(world_allows, ApprovalPolicy::Ask), ("", ApprovalPolicy::Allow)] {
        let link = ("read_file", json!({"path": "link/secret"}));
        let calls = [write("../outside.txt", "x"), write("link/outside.txt", "x"), link];
        let world = TestEnvironment::new();
        std::fs::create_dir_all(world.workspace()).unwrap();
        std::fs::write(world.folder().join("secret"), "hidden").unwrap();
        std::os::unix::fs::symlink(world.folder(), world.workspace().join("link")).unwrap();
        let mut reply = ScriptedReply::default();
        for (number, (name, args)) in calls.into_iter().enumerate() {
            reply = reply.with_call(format!("c{number}"), name, args);
        }
        let server = ScriptedServer::start(Script::new([reply, ScriptedReply::text("Done.")])).unwrap();
        let agent = world.agent_with_policy(&server, (config, approve));
        let thread = agent.threads().create(None).await.unwrap().thread_id;
        let (frames, cancel) = unwatched();
        let end = agent.runs().send_message(thread, "Do it.", &frames, &cancel).await.unwrap();
        assert_eq!(end.status, RunStatus::Success, "{end:?}");
        assert!(!world.folder().join("outside.txt").exists());
        assert!(!server.requests()[1].body.to_string().contains("hidden"));
    }
}

#[tokio::test]
async fn a_policy_answers_in_the_persons_place_but_never_against_a_rule() {
    let calls = [write("a", "1"), write("out/denied/b", "2"), write("out/c", "3")];
    for (policy, files, by) in [
        (ApprovalPolicy::Deny, ["", "", "3"], ["c0", "deny", "policy"]),
        (ApprovalPolicy::Allow, ["1", "", "3"], ["c0", "approve", "policy"]),
    ] {
        let asked = request_calls(&calls, (RULES, policy)).await;
        assert_eq!(asked.end.status, RunStatus::Success, "{:?}", asked.end);
        assert_eq!(["a", "out/denied/b", "out/c"].map(|name| asked.world.read_file(name)), files);
        assert_eq!(asked.recorded_decisions().await, [by, ["c1", "deny", "rule"]]);
    }
}

#[tokio::test]
async fn a_remembered_rule_holds_for_the_session_or_for_the_project_in_the_next_process() {
    let world = TestEnvironment::new();
    let calls = (0..8).map(|number| {
        let (name, args) = write(&format!("file{number}.txt"), "x");
        [ScriptedReply::call(format!("c{number}"), name, args), ScriptedReply::text("Done.")]
    });
    let server = ScriptedServer::start(Script::new(calls.flatten())).unwrap();
    let rule = || "write_file(file*.txt)".parse().unwrap();
    let first = world.agent_with_policy(&server, ("", ApprovalPolicy::Ask));
    let thread = first.threads().create(None).await.unwrap().thread_id;
    let (frames, cancel) = unwatched();
    let send =
        async |agent: &Agent| agent.runs().send_message(thread, "Write.", &frames, &cancel).await.unwrap();

    let end = send(&first).await;
    assert_eq!(end.status, RunStatus::Interrupted);
    first.admin().remember_rule(first.workspace(), rule(), RuleScope::Session).await.unwrap();
    let approve = serde_json::from_value(json!({"decisions": [{"type": "approve"}]})).unwrap();
    first.runs().resume(end.interrupts[0].interrupt_id, &approve, &frames, &cancel).await.unwrap();
    assert_eq!(send(&first).await.status, RunStatus::Success, "the session remembers");

    let second = world.agent_with_policy(&server, ("", ApprovalPolicy::Ask));
    let end = send(&second).await;
    assert_eq!(end.status, RunStatus::Interrupted, "another process does not");
    second.admin().remember_rule(second.workspace(), rule(), RuleScope::Project).await.unwrap();
    second.runs().resume(end.interrupts[0].interrupt_id, &approve, &frames, &cancel).await.unwrap();

    let third = world.agent_with_policy(&server, ("", ApprovalPolicy::Ask));
    assert_eq!(send(&third).await.status, RunStatus::Success, "the project does");
    let elsewhere = agent::AgentSettings {
        workspace: world.folder().join("elsewhere"),
        ..world.settings(crate::environment::TEST_MODEL)
    };
    std::fs::create_dir_all(&elsewhere.workspace).unwrap();
    let elsewhere = Agent::with_store(elsewhere, world.store()).unwrap();
    assert_eq!(send(&elsewhere).await.status, RunStatus::Interrupted, "but only this project");
}

#[tokio::test]
async fn j7_a_question_waits_for_another_process_and_is_answered_once() {
    let asked = request_calls(&[write("a", "1")], ("", ApprovalPolicy::Ask)).await;
    let ToolApprovalFixture { world, server, agent, thread, .. } = asked;
    let shown = agent.runs().pending_interrupts(thread).await.unwrap();
    drop(agent);
    let (one, two) = (world.agent_with(&server), world.agent_with(&server));
    assert_eq!(
        one.runs().pending_interrupts(thread).await.unwrap(),
        shown,
        "what waits is the same after a restart"
    );
    let (frames, cancel) = unwatched();
    let approve: Decisions = serde_json::from_value(json!({"decisions": [{"type": "approve"}]})).unwrap();
    let id = shown[0].interrupt_id;
    let answers = tokio::join!(
        one.runs().resume(id, &approve, &frames, &cancel),
        two.runs().resume(id, &approve, &frames, &cancel)
    );
    let taken = [&answers.0, &answers.1].iter().filter(|answer| matches!(answer, Ok(Some(_)))).count();
    assert_eq!(taken, 1, "{answers:?}");
    assert_eq!(world.read_file("a"), "1");
    assert_eq!(server.call_count(), 2, "the model is asked once with the result");
    let late = one.runs().resume(id, &approve, &frames, &cancel).await;
    assert!(late.is_err(), "{late:?}");
}

#[tokio::test]
async fn k6_what_was_asked_in_one_folder_is_not_done_in_another() {
    let asked =
        request_calls(&[("execute", json!({"command": "touch made"}))], ("", ApprovalPolicy::Ask)).await;
    let (here, there) = (asked.agent.workspace().to_owned(), asked.world.folder().join("elsewhere"));
    std::fs::create_dir_all(&there).unwrap();
    let settings = agent::AgentSettings {
        model: Some(TEST_MODEL.to_owned()),
        ..agent::AgentSettings::new(asked.world.home(), &there)
    };
    let elsewhere = Agent::with_store(settings, asked.world.store()).unwrap();
    let (frames, cancel) = unwatched();
    let yes: Decisions = serde_json::from_value(json!({"decisions": [{"type": "approve"}]})).unwrap();
    let id = asked.pending().await.interrupt_id;
    let end = elsewhere.runs().resume(id, &yes, &frames, &cancel).await.unwrap().unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert!(here.join("made").exists() && !there.join("made").exists());
    // A new message is a turn of its own, wherever it is sent from.
    let end = elsewhere.runs().send_message(asked.thread, "And here?", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
}

#[tokio::test]
async fn the_list_of_tools_says_what_becomes_of_a_call() {
    let world = TestEnvironment::new();
    let server = ScriptedServer::start(Script::new([])).unwrap();
    let agent =
        world.agent_with_policy(&server, ("[permissions]\ndeny = [\"write_file\"]\n", ApprovalPolicy::Ask));
    let tools = agent.admin().tools().await.unwrap();
    let rule = |name: &str| tools.iter().find(|tool| tool.name == name).map(|tool| tool.rule);
    for (name, expected) in [
        ("read_file", "allow"),
        ("task", "allow"),
        ("write_todos", "allow"),
        ("edit_file", "ask"),
        ("execute", "ask"),
    ] {
        assert_eq!(rule(name), Some(expected), "{name}");
    }
    assert_eq!((rule("edit_memory"), rule("write_file")), (Some("ask"), Some("deny")));
}

#[tokio::test]
async fn a_rule_that_names_no_tool_is_told() {
    let world = TestEnvironment::new();
    let server = ScriptedServer::start(Script::new([ScriptedReply::text("Done.").with_repeat()])).unwrap();
    let rules = "[permissions]\nallow = [\"edit_fil(src/**)\", \"read_file\", \"mcp__x__y\"]\n";
    let agent = world.agent_with_policy(&server, (rules, ApprovalPolicy::Ask));
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let (frames, mut stream) = FrameSender::channel();
    agent.runs().send_message(thread, "Go.", &frames, &CancellationToken::new()).await.unwrap();
    drop(frames);
    let mut notices = Vec::new();
    while let Some(SubscriptionItem::Frame(_, frame)) = stream.next().await {
        if let Frame::Notice { text } = &*frame {
            notices.push(text.clone());
        }
    }
    assert_eq!(notices, ["the rule `edit_fil(src/**)` matches no tool"]);
}
