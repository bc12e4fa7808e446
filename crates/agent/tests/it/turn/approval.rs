//! Tests of the approval of tool calls: the permission rules, the user's answers, and remembered rules.

use agent::{
    Agent, ApprovalPolicy, CancellationToken, Error, Frame, FrameSender, RuleScope, RunEnd, RunError,
    SubscriptionItem,
};
use protocol::{Decisions, EventType, FailureKind, Interrupt, Message, RunStatus, ThreadId};
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::environment::{TEST_MODEL, TestEnvironment, assert_paired, decisions, messages, unwatched};

/// A thread in which the model has requested tool calls, and the end of that run.
struct ToolApprovalFixture {
    environment: TestEnvironment,
    server: ScriptedServer,
    agent: Agent,
    thread: ThreadId,
    end: RunEnd,
}

/// Runs a turn in which the model requests `calls`, with the ids `c0`, `c1`, …, and then answers "Done.".
async fn request_calls(
    calls: &[(&str, Value)],
    (config, approve): (&str, ApprovalPolicy),
) -> ToolApprovalFixture {
    let environment = TestEnvironment::new();
    environment.write_file("notes.txt", "one\n");
    let mut reply = ScriptedReply::text("I try.");
    for (number, (name, args)) in calls.iter().enumerate() {
        reply = reply.with_call(format!("c{number}"), *name, args.clone());
    }
    let server =
        ScriptedServer::start(Script::new([reply, ScriptedReply::text("Done.").with_repeat()])).unwrap();
    let agent = environment.agent_with_policy(&server, (config, approve));
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let (frames, cancel) = unwatched();
    let end = agent.runs().send_message(thread, "Do it.", &frames, &cancel).await.unwrap();
    ToolApprovalFixture { environment, server, agent, thread, end }
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

    /// Returns the recorded decisions: call id, decision, and who or what decided.
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

/// Returns a `write_file` call.
fn write(path: &str, content: &str) -> (&'static str, Value) {
    ("write_file", json!({"path": path, "content": content}))
}

/// Permission rules that allow, ask about and refuse calls of `write_file` in three folders.
const RULES: &str = "[permissions]\nallow = [\"write_file(out/**)\"]\nask = [\"write_file(out/asked/**)\"]\n\
                     deny = [\"write_file(out/denied/**)\"]\n";

#[tokio::test]
async fn every_call_is_allowed_asked_about_or_refused_as_the_rules_say() {
    let calls = [write("out/a", "1"), write("out/asked/b", "2"), write("out/denied/c", "3"), write("d", "4")];
    let fixture = request_calls(&calls, (RULES, ApprovalPolicy::Ask)).await;
    assert_eq!(fixture.end.status, RunStatus::Interrupted);
    let pending = fixture.pending().await;
    let requests = &pending.payload.action_requests;
    let paths: Vec<&Value> = requests.iter().map(|request| &request.args["path"]).collect();
    assert_eq!(paths, ["out/asked/b", "d"], "one question has exactly the calls that need an approval");
    let details = requests[0].details.as_ref().unwrap();
    assert_eq!(details["call_id"], "c1");
    assert!(details["diff"].as_str().unwrap().contains("+2"), "{details}");
    assert_eq!(fixture.environment.read_file("out/a"), "", "no call is made before the answer");
    let end = fixture.answer(json!([{"type": "approve"}, {"type": "approve"}])).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let written =
        ["out/a", "out/asked/b", "out/denied/c", "d"].map(|name| fixture.environment.read_file(name));
    assert_eq!(written, ["1", "2", "", "4"]);
    assert!(fixture.call_results().await[2].contains("a rule forbids this call"));
    assert_paired(&fixture.server.requests()[1].body);
    let expected = [["c2", "deny", "rule"], ["c1", "approve", "person"], ["c3", "approve", "person"]];
    assert_eq!(fixture.recorded_decisions().await, expected);
}

#[tokio::test]
async fn g3_each_kind_of_decision_has_its_effect() {
    let calls = ["a", "b", "c", "d"].map(|name| write(name, "model's"));
    let fixture = request_calls(&calls, ("", ApprovalPolicy::Ask)).await;
    let edit = json!({"name": "write_file", "args": {"path": "b", "content": "person's"}});
    let decisions = json!([
        {"type": "approve"},
        {"type": "edit", "edited_action": edit},
        {"type": "reject", "message": "Leave c alone."},
        {"type": "respond", "message": "d is written already."},
    ]);
    let end = fixture.answer(decisions).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(
        ["a", "b", "c", "d"].map(|name| fixture.environment.read_file(name)),
        ["model's", "person's", "", ""]
    );
    let results = fixture.call_results().await;
    assert!(results[2].contains("Leave c alone."));
    assert_eq!(results[3], "d is written already.");
    let second = &fixture.server.requests()[1].body;
    assert_paired(second);
    let sent = second.to_string();
    assert!(sent.contains("model's") && sent.contains("Leave c alone."), "{sent}");
    let decided = fixture.recorded_decisions().await.into_iter().map(|[_, decision, _]| decision);
    assert_eq!(decided.collect::<Vec<_>>(), ["approve", "edit", "reject", "respond"]);
    assert_eq!(fixture.agent.runs().pending_interrupts(fixture.thread).await.unwrap(), []);
}

#[tokio::test]
async fn a_rejection_works_without_a_model_and_the_turn_fails_at_its_next_model_call() {
    let fixture = request_calls(&[write("a", "1")], ("", ApprovalPolicy::Ask)).await;
    let agent_without_model = fixture.environment.agent();
    let (frames, cancel) = unwatched();
    let rejected = decisions(r#"{"decisions":[{"type":"reject","message":"No."}]}"#);
    let pending = fixture.pending().await;
    let end = agent_without_model
        .runs()
        .resume(pending.interrupt_id, &rejected, &frames, &cancel)
        .await
        .unwrap()
        .unwrap();
    let failure = end.failure.unwrap();
    assert_eq!((end.status, failure.kind), (RunStatus::Error, FailureKind::Config));
    assert!(failure.hint.unwrap().contains("segue models"));
    assert_eq!(fixture.recorded_decisions().await, [["c0", "reject", "person"]]);
    assert!(fixture.call_results().await[0].contains("No."));
    assert_eq!(agent_without_model.runs().pending_interrupts(fixture.thread).await.unwrap(), []);
}

#[tokio::test]
async fn g3_an_invalid_answer_leaves_the_question_pending() {
    let fixture = request_calls(&[write("a", "1"), write("b", "2")], (RULES, ApprovalPolicy::Ask)).await;
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
        let refused = fixture.answer(decisions.clone()).await;
        let is_rejected =
            matches!(refused, Err(Error::Run(RunError::Runtime(runtime::Error::Rejected { .. }))));
        assert!(is_rejected, "{decisions}: {refused:?}");
        assert_eq!(fixture.pending().await.status.as_str(), "pending", "{decisions}");
    }
    fixture.answer(json!([approve, edit("write_file", "c")])).await.unwrap();
    assert_eq!(["a", "b", "c"].map(|name| fixture.environment.read_file(name)), ["1", "", "x"]);
}

#[tokio::test]
async fn k6_a_path_outside_the_workspace_is_refused_even_if_a_rule_allows_it() {
    let allow_rules = "[permissions]\nallow = [\"write_file\", \"read_file\", \"edit_file\"]\n";
    for (config, approve) in [(allow_rules, ApprovalPolicy::Ask), ("", ApprovalPolicy::Allow)] {
        let link = ("read_file", json!({"path": "link/secret"}));
        let calls = [write("../outside.txt", "x"), write("link/outside.txt", "x"), link];
        let environment = TestEnvironment::new();
        std::fs::create_dir_all(environment.workspace()).unwrap();
        std::fs::write(environment.folder().join("secret"), "hidden").unwrap();
        std::os::unix::fs::symlink(environment.folder(), environment.workspace().join("link")).unwrap();
        let mut reply = ScriptedReply::default();
        for (number, (name, args)) in calls.into_iter().enumerate() {
            reply = reply.with_call(format!("c{number}"), name, args);
        }
        let server = ScriptedServer::start(Script::new([reply, ScriptedReply::text("Done.")])).unwrap();
        let agent = environment.agent_with_policy(&server, (config, approve));
        let thread = agent.threads().create(None).await.unwrap().thread_id;
        let (frames, cancel) = unwatched();
        let end = agent.runs().send_message(thread, "Do it.", &frames, &cancel).await.unwrap();
        assert_eq!(end.status, RunStatus::Success, "{end:?}");
        assert!(!environment.folder().join("outside.txt").exists());
        assert!(!server.requests()[1].body.to_string().contains("hidden"));
    }
}

#[tokio::test]
async fn a_policy_answers_instead_of_the_user_but_never_against_a_rule() {
    let calls = [write("a", "1"), write("out/denied/b", "2"), write("out/c", "3")];
    for (policy, files, by) in [
        (ApprovalPolicy::Deny, ["", "", "3"], ["c0", "deny", "policy"]),
        (ApprovalPolicy::Allow, ["1", "", "3"], ["c0", "approve", "policy"]),
    ] {
        let fixture = request_calls(&calls, (RULES, policy)).await;
        assert_eq!(fixture.end.status, RunStatus::Success, "{:?}", fixture.end);
        assert_eq!(["a", "out/denied/b", "out/c"].map(|name| fixture.environment.read_file(name)), files);
        assert_eq!(fixture.recorded_decisions().await, [by, ["c1", "deny", "rule"]]);
    }
}

#[tokio::test]
async fn a_remembered_rule_applies_to_the_session_or_to_the_project() {
    let environment = TestEnvironment::new();
    let calls = (0..8).map(|number| {
        let (name, args) = write(&format!("file{number}.txt"), "x");
        [ScriptedReply::call(format!("c{number}"), name, args), ScriptedReply::text("Done.")]
    });
    let server = ScriptedServer::start(Script::new(calls.flatten())).unwrap();
    let rule = || "write_file(file*.txt)".parse().unwrap();
    let first = environment.agent_with_policy(&server, ("", ApprovalPolicy::Ask));
    let thread = first.threads().create(None).await.unwrap().thread_id;
    let (frames, cancel) = unwatched();
    let send =
        async |agent: &Agent| agent.runs().send_message(thread, "Write.", &frames, &cancel).await.unwrap();

    let end = send(&first).await;
    assert_eq!(end.status, RunStatus::Interrupted);
    first.admin().remember_rule(first.workspace(), rule(), RuleScope::Session).await.unwrap();
    let approve = serde_json::from_value(json!({"decisions": [{"type": "approve"}]})).unwrap();
    first.runs().resume(end.interrupts[0].interrupt_id, &approve, &frames, &cancel).await.unwrap();
    assert_eq!(send(&first).await.status, RunStatus::Success, "the session remembers the rule");

    let second = environment.agent_with_policy(&server, ("", ApprovalPolicy::Ask));
    let end = send(&second).await;
    assert_eq!(end.status, RunStatus::Interrupted, "another process does not remember the rule");
    second.admin().remember_rule(second.workspace(), rule(), RuleScope::Project).await.unwrap();
    second.runs().resume(end.interrupts[0].interrupt_id, &approve, &frames, &cancel).await.unwrap();

    let third = environment.agent_with_policy(&server, ("", ApprovalPolicy::Ask));
    assert_eq!(
        send(&third).await.status,
        RunStatus::Success,
        "the project's rule applies in the next process"
    );
    let other_agent = agent::AgentSettings {
        workspace: environment.folder().join("elsewhere"),
        ..environment.settings(crate::environment::TEST_MODEL)
    };
    std::fs::create_dir_all(&other_agent.workspace).unwrap();
    let other_agent = Agent::with_store(other_agent, environment.store()).unwrap();
    assert_eq!(
        send(&other_agent).await.status,
        RunStatus::Interrupted,
        "the rule applies to this project only"
    );
}

#[tokio::test]
async fn j7_a_question_can_be_answered_by_another_process_exactly_once() {
    let fixture = request_calls(&[write("a", "1")], ("", ApprovalPolicy::Ask)).await;
    let ToolApprovalFixture { environment, server, agent, thread, .. } = fixture;
    let pending = agent.runs().pending_interrupts(thread).await.unwrap();
    drop(agent);
    let (one, two) = (environment.agent_with(&server), environment.agent_with(&server));
    assert_eq!(
        one.runs().pending_interrupts(thread).await.unwrap(),
        pending,
        "the pending questions are the same after a restart"
    );
    let (frames, cancel) = unwatched();
    let approve: Decisions = serde_json::from_value(json!({"decisions": [{"type": "approve"}]})).unwrap();
    let id = pending[0].interrupt_id;
    let answers = tokio::join!(
        one.runs().resume(id, &approve, &frames, &cancel),
        two.runs().resume(id, &approve, &frames, &cancel)
    );
    let accepted = [&answers.0, &answers.1].iter().filter(|answer| matches!(answer, Ok(Some(_)))).count();
    assert_eq!(accepted, 1, "{answers:?}");
    assert_eq!(environment.read_file("a"), "1");
    assert_eq!(server.call_count(), 2, "the model is called once with the result");
    let late = one.runs().resume(id, &approve, &frames, &cancel).await;
    assert!(late.is_err(), "{late:?}");
}

#[tokio::test]
async fn k6_an_approved_call_runs_only_in_the_folder_of_its_question() {
    let fixture =
        request_calls(&[("execute", json!({"command": "touch made"}))], ("", ApprovalPolicy::Ask)).await;
    let (here, there) =
        (fixture.agent.workspace().to_owned(), fixture.environment.folder().join("elsewhere"));
    std::fs::create_dir_all(&there).unwrap();
    let settings = agent::AgentSettings {
        model: Some(TEST_MODEL.to_owned()),
        ..agent::AgentSettings::new(fixture.environment.home(), &there)
    };
    let other_agent = Agent::with_store(settings, fixture.environment.store()).unwrap();
    let (frames, cancel) = unwatched();
    let yes: Decisions = serde_json::from_value(json!({"decisions": [{"type": "approve"}]})).unwrap();
    let id = fixture.pending().await.interrupt_id;
    let end = other_agent.runs().resume(id, &yes, &frames, &cancel).await.unwrap().unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert!(here.join("made").exists() && !there.join("made").exists());
    // A new message can be sent from any folder.
    let end = other_agent.runs().send_message(fixture.thread, "And here?", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
}

#[tokio::test]
async fn the_list_of_tools_shows_the_rule_of_each_tool() {
    let environment = TestEnvironment::new();
    let server = ScriptedServer::start(Script::new([])).unwrap();
    let agent = environment
        .agent_with_policy(&server, ("[permissions]\ndeny = [\"write_file\"]\n", ApprovalPolicy::Ask));
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
async fn a_rule_that_matches_no_tool_is_reported() {
    let environment = TestEnvironment::new();
    let server = ScriptedServer::start(Script::new([ScriptedReply::text("Done.").with_repeat()])).unwrap();
    let rules = "[permissions]\nallow = [\"edit_fil(src/**)\", \"read_file\", \"mcp__x__y\"]\n";
    let agent = environment.agent_with_policy(&server, (rules, ApprovalPolicy::Ask));
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
