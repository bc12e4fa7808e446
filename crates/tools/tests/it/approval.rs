//! The approval hook in whole runs: a scripted model makes calls, rules and a user decide, and every call gets a result.

mod deferred;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use journal::{EventQuery, Store};
use protocol::{
    AssistantId, Decisions, Event, EventType, Interrupt, Message, NewEvent, RunId, RunStatus, ThreadId,
};
use runtime::{
    AFTER_MODEL_NODE, ActivityRegistry, AdmittedRun, Breakpoints, Channels, ContextCache, DecisionRejection,
    Driver, DriverLimits, Edge, FrameSender, Graph, GraphUpdate, Hook, HookPoint, HooksNode, MODEL_NODE,
    ModelNode, RunAdmission, RunEnd, RunStart, TOOLS_NODE, ToolsNode, has_tool_calls,
};
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};
use tokio_util::sync::CancellationToken;
use tools::ToolApproval;
use tools::permission::{ApprovalPolicy, Permissions, RuleBook, RuleScope};

use crate::bench::ToolFixture;

/// A thread whose runs use the approval hook.
struct ApprovalFixture {
    bench: ToolFixture,
    rule_book: Arc<RuleBook>,
    driver: Driver,
    server: ScriptedServer,
}

impl ApprovalFixture {
    async fn new(replies: Vec<ScriptedReply>, (permissions, policy): (&str, ApprovalPolicy)) -> Self {
        let bench = ToolFixture::new().await;
        let permissions: Permissions = toml_edit::de::from_str(permissions).unwrap();
        let book = Arc::new(RuleBook::open(&permissions, Vec::new(), None).unwrap());
        let server = ScriptedServer::start(Script::new(replies)).unwrap();
        let driver = driver(&bench, &server, (&book, policy));
        Self { bench, rule_book: book, driver, server }
    }

    fn thread_id(&self) -> ThreadId {
        self.bench.context.thread_id
    }

    fn store(&self) -> &Arc<dyn Store> {
        &self.bench.context.store
    }

    fn file(&self, path: &str) -> PathBuf {
        self.bench.workspace().join(path)
    }

    async fn send_message(&self, text: &str) -> RunEnd {
        let message = NewEvent::from_message(&Message::human(text), Timestamp::now()).unwrap();
        let update = GraphUpdate { events: vec![message], ..GraphUpdate::default() };
        let start = RunStart { update, ..RunStart::default() };
        let point =
            runtime::admit_run(&**self.store(), &self.driver.graph, &self.admission(), start).await.unwrap();
        self.drive(point).await
    }

    async fn resume(&self, interrupt: &Interrupt, decisions: Value) -> RunEnd {
        let decisions = self::decisions(decisions);
        assert_eq!(self.check(interrupt, &decisions).await, Ok(()));
        self.resume_decided(interrupt, &decisions).await
    }

    /// Resumes with decisions without checking them first.
    async fn resume_decided(&self, interrupt: &Interrupt, decisions: &Decisions) -> RunEnd {
        let resumed = runtime::resume_run(
            &**self.store(),
            &self.driver.graph,
            &self.admission(),
            &[(interrupt, decisions)],
            GraphUpdate::default(),
        )
        .await
        .unwrap();
        self.drive(resumed.unwrap()).await
    }

    async fn check(&self, interrupt: &Interrupt, decisions: &Decisions) -> Result<(), DecisionRejection> {
        let node = self.driver.graph.get(&interrupt.node).unwrap();
        node.validate_decisions(interrupt, decisions, self.store()).await
    }

    async fn drive(&self, admitted: AdmittedRun) -> RunEnd {
        let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
        self.driver.drive(admitted, &frames, &cancel).await.unwrap()
    }

    fn admission(&self) -> RunAdmission {
        RunAdmission {
            run_id: RunId::generate(),
            thread_id: self.thread_id(),
            assistant_id: AssistantId::default(),
            model: None,
            lease: "test".into(),
            now: Timestamp::now(),
            origin: runtime::AdmissionSource::New,
            durability: Default::default(),
        }
    }

    async fn events(&self) -> Vec<Event> {
        self.store().events(self.thread_id(), EventQuery::after(0, 500)).await.unwrap()
    }

    /// Returns the results of the calls, in the order in which they were stored.
    async fn results(&self) -> Vec<String> {
        let messages = self.events().await.iter().filter_map(Event::message).collect::<Vec<_>>();
        let results = messages.iter().filter_map(|message| match message {
            Message::Tool(result) => Some(format!("{}: {}", result.call_id, message.text())),
            Message::Human(_) | Message::Ai(_) => None,
        });
        results.collect()
    }

    /// Returns the decision events as `call tool decision by`.
    async fn decision_events(&self) -> Vec<String> {
        let events = self.events().await;
        let decided = events.iter().filter(|event| event.kind() == Some(EventType::ToolCallDecided));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        decided
            .map(|event| event.content_value())
            .map(|c| [&c["call_id"], &c["tool"], &c["decision"], &c["by"]].map(text).join(" "))
            .collect()
    }
}

fn driver(
    bench: &ToolFixture,
    server: &ScriptedServer,
    (book, policy): (&Arc<RuleBook>, ApprovalPolicy),
) -> Driver {
    let settings = model::ProviderSettings {
        api_key: Some("test".into()),
        base_url: Some(server.url().to_owned()),
        retries_max: 0,
        ..model::ProviderSettings::default()
    };
    let approval = ToolApproval::new(&bench.tools, bench.workspace(), Arc::clone(book), policy);
    let hooks: Vec<Arc<dyn Hook>> = vec![Arc::new(approval)];
    let model_node = ModelNode {
        model: model::connect("anthropic/test".parse().unwrap(), settings).unwrap(),
        tools: bench.tools.iter().map(|tool| tool.spec()).collect(),
        hooks: hooks.clone(),
        contexts: Arc::new(ContextCache::default()),
        too_large_hint: "begin again".into(),
    };
    let after_model = |channels: &Channels| Ok(has_tool_calls(channels)?.then_some(TOOLS_NODE));
    let graph = Graph::new(Edge::To(MODEL_NODE))
        .with_node(Arc::new(model_node), Edge::To(AFTER_MODEL_NODE))
        .with_node(
            Arc::new(HooksNode { point: HookPoint::AfterModel, hooks: hooks.clone() }),
            Edge::Conditional(after_model),
        )
        .with_node(
            Arc::new(ToolsNode::new(bench.tools.clone(), bench.workspace(), hooks)),
            Edge::To(MODEL_NODE),
        );
    Driver {
        store: Arc::clone(&bench.context.store),
        graph: Arc::new(graph),
        activities: ActivityRegistry::default(),
        lease: "test".into(),
        limits: DriverLimits::default(),
        breakpoints: Breakpoints::default(),
        shutdown: Default::default(),
    }
}

fn decisions(decisions: Value) -> Decisions {
    serde_json::from_value(json!({"decisions": decisions})).unwrap()
}

fn write(id: &str, path: &str) -> ScriptedReply {
    ScriptedReply::call(id, "write_file", json!({"path": path, "content": "x\n"}))
}

#[tokio::test]
async fn allowed_calls_run_without_an_interrupt_and_without_an_event() {
    let read = ScriptedReply::call("c1", "read_file", json!({"path": "src/a.rs"}))
        .with_call("c2", "execute", json!({"command": "cat src/deep/b.rs"}))
        .with_call("c3", "write_file", json!({"path": "src/new", "content": "x"}));
    let fixture = ApprovalFixture::new(
        vec![read, ScriptedReply::text("Done.")],
        ("allow = [\"edit_file(src/**)\"]", ApprovalPolicy::Ask),
    )
    .await;
    assert_eq!(fixture.send_message("Go.").await.status, RunStatus::Success);
    assert!(fixture.file("src/new").exists());
    assert_eq!((fixture.results().await.len(), fixture.decision_events().await.len()), (3, 0));
}

/// Three calls that need approval, one that is read-only, and one that a rule forbids.
fn five_calls() -> ScriptedReply {
    ScriptedReply::call("c1", "execute", json!({"command": "make \u{202e}all", "description": "builds"}))
        .with_call("c2", "read_file", json!({"path": "src/a.rs"}))
        .with_call("c3", "write_file", json!({"path": "new/a", "content": "x\n"}))
        .with_call("c4", "write_file", json!({"path": ".env", "content": "x\n"}))
        .with_call("c5", "write_file", json!({"path": "new/b", "content": "y\n"}))
}

#[tokio::test]
async fn all_calls_of_an_answer_that_need_approval_share_one_interrupt() {
    let fixture = ApprovalFixture::new(
        vec![five_calls(), ScriptedReply::text("Done.")],
        ("deny = [\"edit_file(.env*)\"]", ApprovalPolicy::Ask),
    )
    .await;
    let interrupted = fixture.send_message("Go.").await;
    assert_eq!((interrupted.status, interrupted.interrupts.len()), (RunStatus::Interrupted, 1));
    let payload = &interrupted.interrupts[0].payload;
    assert_eq!(payload.middleware_source, "ToolApprovalMiddleware");
    let configs: Vec<&str> =
        payload.review_configs.iter().map(|config| config.action_name.as_str()).collect();
    assert_eq!(configs, ["execute", "write_file", "write_file"], "one for each request, in the same order");
    assert_eq!(
        payload.review_configs[0].allowed_decisions,
        ["approve", "edit", "reject", "respond", "defer"]
    );
    let [command, change, _] = payload.action_requests.as_slice() else { unreachable!("{payload:?}") };
    assert_eq!(command.description, "Run: make ⟨U+202E⟩all");
    assert_eq!(command.args, json!({"command": "make \u{202e}all", "description": "builds"}));
    let details = command.details.as_ref().unwrap();
    assert_eq!(details["command"], "make ⟨U+202E⟩all");
    assert_eq!((&details["call_id"], &details["rule"]), (&json!("c1"), &json!("no rule allows it")));
    assert_eq!(
        details["warnings"],
        json!([{
            "kind": "bidi", "place": "command", "line": 1, "column": 6, "code_point": "U+202E",
            "text": "U+202E at 1:6 of the command: a control that changes the order in which the text is shown"
        }])
    );
    assert_eq!(
        change.details,
        Some(json!({
            "call_id": "c3", "subjects": [{"path": "new/a"}],
            "diff": "--- /dev/null\n+++ b/new/a\n@@ -0,0 +1 @@\n+x\n",
            "warnings": [], "rule": "no rule allows it", "remember": ["write_file(new/**)"]
        }))
    );
    // The denied call has its result before the user decides.
    assert_eq!(fixture.decision_events().await, ["c4 write_file deny rule"]);
    assert!(
        fixture.results().await[0]
            .starts_with("c4: Not done: a rule forbids this call (deny edit_file(.env*))")
    );

    let respond = json!({"type": "respond", "message": "It is built already."});
    let end = fixture
        .resume(&interrupted.interrupts[0], json!([respond, {"type": "approve"}, {"type": "reject"}]))
        .await;
    assert_eq!(end.status, RunStatus::Success);
    let results = fixture.results().await;
    assert_eq!(results.len(), 5, "g2: every call has one result: {results:?}");
    assert_eq!(results[1], "c1: It is built already.");
    assert!(
        fixture.file("new/a").exists() && !fixture.file("new/b").exists() && !fixture.file(".env").exists()
    );
    assert_eq!(
        fixture.decision_events().await,
        [
            "c4 write_file deny rule",
            "c1 execute respond person",
            "c3 write_file approve person",
            "c5 write_file reject person",
        ]
    );
    assert_eq!(fixture.server.requests().len(), 2, "j2: no model call is repeated");
}

#[tokio::test]
async fn a_user_edits_and_declines() {
    let calls = write("c1", "a").with_call("c2", "write_file", json!({"path": "b", "content": "x\n"}));
    let fixture =
        ApprovalFixture::new(vec![calls, ScriptedReply::text("Done.")], ("", ApprovalPolicy::Ask)).await;
    let interrupted = fixture.send_message("Go.").await;
    let edited = json!({"type": "edit", "edited_action": {
        "name": "write_file", "args": {"path": "elsewhere", "content": "y\n"}
    }});
    let declined = json!({"type": "reject", "message": "not this one"});
    assert_eq!(
        fixture.resume(&interrupted.interrupts[0], json!([edited, declined])).await.status,
        RunStatus::Success
    );
    assert_eq!(fs::read_to_string(fixture.file("elsewhere")).unwrap(), "y\n");
    assert!(!fixture.file("a").exists() && !fixture.file("b").exists());
    let results = ["c2: The person declined this call: not this one", "c1: created elsewhere (1 lines)"];
    assert_eq!(fixture.results().await, results);
    assert_eq!(fixture.decision_events().await, ["c1 write_file edit person", "c2 write_file reject person"]);
}

#[tokio::test]
async fn an_edit_with_invalid_arguments_leaves_the_interrupt_pending() {
    let run = ScriptedReply::call("c2", "execute", json!({"command": "touch b"}));
    let fixture = ApprovalFixture::new(
        vec![write("c1", "a"), run, ScriptedReply::text("Done.")],
        ("", ApprovalPolicy::Ask),
    )
    .await;
    let edit =
        |name: &str, args: Value| json!([{"type": "edit", "edited_action": {"name": name, "args": args}}]);
    let interrupted = fixture.send_message("Go.").await;
    for (args, reason) in [
        (json!({"path": 5, "content": "y\n"}), "invalid type"),
        (json!({"path": "a"}), "missing field `content`"),
        (json!({}), "missing field `path`"),
    ] {
        let refused =
            fixture.check(&interrupted.interrupts[0], &decisions(edit("write_file", args.clone()))).await;
        assert!(
            matches!(&refused, Err(DecisionRejection::Invalid(text)) if text.contains(reason)),
            "{args}: {refused:?}"
        );
    }
    let interrupted = fixture
        .resume(&interrupted.interrupts[0], edit("write_file", json!({"path": "a", "content": "y\n"})))
        .await;
    let empty = decisions(edit("execute", json!({"command": " "})));
    let refused = fixture.check(&interrupted.interrupts[0], &empty).await;
    assert!(
        matches!(&refused, Err(DecisionRejection::Invalid(text)) if text.contains("the command is empty"))
    );
    let end =
        fixture.resume(&interrupted.interrupts[0], edit("execute", json!({"command": "touch c"}))).await;
    assert_eq!(end.status, RunStatus::Success);
    assert!(fixture.file("c").exists() && !fixture.file("b").exists());
}

#[tokio::test]
async fn an_edited_call_is_judged_by_the_rules_too() {
    let rules = "deny = [\"edit_file(.env*)\"]";
    let fixture = ApprovalFixture::new(
        vec![write("c1", "a"), ScriptedReply::text("Done.")],
        (rules, ApprovalPolicy::Ask),
    )
    .await;
    let interrupted = fixture.send_message("Go.").await;
    let edited = json!({"type": "edit", "edited_action": {
        "name": "write_file", "args": {"path": "sub/.env", "content": "y\n"}
    }});
    let refused = fixture.check(&interrupted.interrupts[0], &decisions(json!([edited.clone()]))).await;
    assert!(
        matches!(&refused, Err(DecisionRejection::Invalid(text)) if text.contains("deny edit_file(.env*)"))
    );
    // A decision that was stored before the rule existed is refused when it is applied.
    assert_eq!(
        fixture.resume_decided(&interrupted.interrupts[0], &decisions(json!([edited]))).await.status,
        RunStatus::Success
    );
    assert!(!fixture.file("sub").exists());
    assert!(fixture.results().await[0].contains("deny edit_file(.env*)"));
    assert_eq!(fixture.decision_events().await, ["c1 write_file deny rule"]);
}

#[tokio::test]
async fn a_remembered_rule_is_not_asked_about_again() {
    let script = vec![write("c1", "src/x"), write("c2", "src/y"), ScriptedReply::text("Done.")];
    let fixture = ApprovalFixture::new(script, ("", ApprovalPolicy::Ask)).await;
    let interrupted = fixture.send_message("Go.").await;
    let details = interrupted.interrupts[0].payload.action_requests[0].details.clone().unwrap();
    let rule = details["remember"][0].as_str().unwrap().parse().unwrap();
    fixture.rule_book.remember(rule, RuleScope::Session).unwrap();
    // The rules have changed since the request. The decision still applies to the call that was shown.
    let end = fixture.resume(&interrupted.interrupts[0], json!([{"type": "approve"}])).await;
    assert_eq!(end.status, RunStatus::Success);
    assert!(fixture.file("src/x").exists() && fixture.file("src/y").exists());
}

#[tokio::test]
async fn k8_a_policy_replaces_the_user_but_not_a_deny_rule() {
    let rules = "deny = [\"edit_file(.env*)\"]";
    let calls = || write("c1", "a").with_call("c2", "write_file", json!({"path": ".env", "content": "x"}));
    let allowed =
        ApprovalFixture::new(vec![calls(), ScriptedReply::text("Done.")], (rules, ApprovalPolicy::Allow))
            .await;
    assert_eq!(allowed.send_message("Go.").await.status, RunStatus::Success);
    assert!(allowed.file("a").exists() && !allowed.file(".env").exists());
    assert_eq!(allowed.decision_events().await, ["c1 write_file approve policy", "c2 write_file deny rule"]);

    let denied =
        ApprovalFixture::new(vec![calls(), ScriptedReply::text("Done.")], (rules, ApprovalPolicy::Deny))
            .await;
    assert_eq!(denied.send_message("Go.").await.status, RunStatus::Success);
    assert!(!denied.file("a").exists());
    assert!(denied.results().await[0].contains("no user is available"));
    assert_eq!(denied.decision_events().await, ["c1 write_file deny policy", "c2 write_file deny rule"]);
}

#[tokio::test]
async fn a_call_whose_effect_changed_since_it_was_allowed_is_not_made() {
    let calls = write("c1", "a").with_call("c2", "execute", json!({"command": "cat b"}));
    let fixture =
        ApprovalFixture::new(vec![calls, ScriptedReply::text("Done.")], ("", ApprovalPolicy::Ask)).await;
    let interrupted = fixture.send_message("Go.").await;
    assert_eq!(interrupted.interrupts[0].payload.action_requests.len(), 1, "reading is allowed");
    std::os::unix::fs::symlink("../secret", fixture.file("b")).unwrap();
    let end = fixture.resume(&interrupted.interrupts[0], json!([{"type": "approve"}])).await;
    assert_eq!(end.status, RunStatus::Success);
    let mut results = fixture.results().await;
    results.sort();
    assert_eq!(results[0], "c1: created a (1 lines)");
    assert!(results[1].starts_with("c2: Not done: the effect of this call has changed"), "{results:?}");
}

#[tokio::test]
async fn an_approval_is_valid_for_one_answer_even_if_call_ids_repeat() {
    let script = vec![write("c1", "a"), write("c1", "b"), ScriptedReply::text("Done.")];
    let fixture = ApprovalFixture::new(script, ("", ApprovalPolicy::Ask)).await;
    let interrupted = fixture.send_message("Go.").await;
    let again = fixture.resume(&interrupted.interrupts[0], json!([{"type": "approve"}])).await;
    assert_eq!(again.status, RunStatus::Interrupted, "{:?}", fixture.results().await);
    assert!(fixture.file("a").exists() && !fixture.file("b").exists());
}

#[tokio::test]
async fn a_new_message_instead_of_a_decision_clears_the_pending_calls() {
    let script = vec![
        write("c1", "a"),
        ScriptedReply::text("Very well."),
        write("c1", "b"),
        ScriptedReply::text("Done."),
    ];
    let fixture = ApprovalFixture::new(script, ("", ApprovalPolicy::Ask)).await;
    assert_eq!(fixture.send_message("Go.").await.status, RunStatus::Interrupted);
    assert_eq!(fixture.send_message("Never mind.").await.status, RunStatus::Success);
    let interrupted = fixture.send_message("Now the other.").await;
    assert_eq!(interrupted.interrupts[0].payload.action_requests[0].description, "Create b");
    fixture.resume(&interrupted.interrupts[0], json!([{"type": "approve"}])).await;
    assert!(fixture.file("b").exists() && !fixture.file("a").exists());
}

#[tokio::test]
async fn j7_a_decision_after_a_restart_is_applied() {
    let mut fixture =
        ApprovalFixture::new(vec![write("c1", "a"), ScriptedReply::text("Done.")], ("", ApprovalPolicy::Ask))
            .await;
    let interrupted = fixture.send_message("Go.").await;
    fixture.bench.tools = tools::builtin_tools(tools::ToolSettings::default());
    fixture.driver = driver(&fixture.bench, &fixture.server, (&fixture.rule_book, ApprovalPolicy::Ask));
    let end = fixture.resume(&interrupted.interrupts[0], json!([{"type": "approve"}])).await;
    assert_eq!(end.status, RunStatus::Success);
    assert!(fixture.file("a").exists());
}

#[tokio::test]
async fn k6_an_approval_covers_only_the_reviewed_subjects() {
    let calls =
        ScriptedReply::call("c1", "write_file", json!({"path": "src/h/pre-commit", "content": "x\n"}));
    let fixture =
        ApprovalFixture::new(vec![calls, ScriptedReply::text("Done.")], ("", ApprovalPolicy::Ask)).await;
    fs::create_dir_all(fixture.file(".git/hooks")).unwrap();
    let interrupted = fixture.send_message("Go.").await;
    // Another call of the same answer could create this link.
    std::os::unix::fs::symlink("../.git/hooks", fixture.file("src/h")).unwrap();
    fixture.resume(&interrupted.interrupts[0], json!([{"type": "approve"}])).await;
    assert!(!fixture.file(".git/hooks/pre-commit").exists());
    let results = fixture.results().await;
    assert!(results[0].contains("has changed since it was reviewed"), "{results:?}");
    assert!(results[0].contains("one of git's own files"), "{results:?}");
}

/// Reads a file and asks for approval of a change, and then simulates a restart with new tools.
async fn start_change_approval() -> (ApprovalFixture, Interrupt) {
    let read = ScriptedReply::call("c1", "read_file", json!({"path": "src/a.rs"}));
    let edit = json!({"path": "src/a.rs", "old_string": "needle", "new_string": "thread"});
    let again = json!({"path": "src/a.rs", "old_string": "last", "new_string": "end"});
    let script = vec![
        read,
        ScriptedReply::call("c2", "edit_file", edit).with_call("c3", "edit_file", again),
        ScriptedReply::text("Done."),
    ];
    let mut fixture = ApprovalFixture::new(script, ("", ApprovalPolicy::Ask)).await;
    let mut interrupted = fixture.send_message("Go.").await;
    fixture.bench.tools = tools::builtin_tools(tools::ToolSettings::default());
    fixture.driver = driver(&fixture.bench, &fixture.server, (&fixture.rule_book, ApprovalPolicy::Ask));
    (fixture, interrupted.interrupts.remove(0))
}

#[tokio::test]
async fn j7_an_approved_edit_can_be_made_by_another_process() {
    let (fixture, interrupt) = start_change_approval().await;
    let approve = json!({"type": "approve"});
    let end = fixture.resume(&interrupt, json!([approve, approve])).await;
    assert_eq!(end.status, RunStatus::Success);
    let text = fs::read_to_string(fixture.file("src/a.rs")).unwrap();
    assert_eq!(text, "fn a() {}\r\n// thread\nend", "{:?}", fixture.results().await);
}

#[tokio::test]
async fn k6_an_approved_edit_is_not_made_if_the_file_has_changed() {
    let (fixture, interrupt) = start_change_approval().await;
    fs::write(fixture.file("src/a.rs"), "// needle of another\nlast").unwrap();
    let approve = json!({"type": "approve"});
    fixture.resume(&interrupt, json!([approve, approve])).await;
    assert_eq!(fs::read_to_string(fixture.file("src/a.rs")).unwrap(), "// needle of another\nlast");
    let results = fixture.results().await;
    assert!(results[1].contains("has changed since you read it"), "{results:?}");
}

#[tokio::test]
async fn k4_a_search_leaves_out_files_that_rules_deny_or_ask_about() {
    let calls = ScriptedReply::call("c1", "grep", json!({"pattern": "k"}))
        .with_call("c2", "glob", json!({"pattern": "*.txt"}))
        .with_call("c3", "ls", json!({"path": "private"}))
        .with_call("c4", "execute", json!({"command": "grep -r k ."}))
        .with_call("c5", "execute", json!({"command": "cat open.txt"}));
    let rules = "deny = [\"read_file(private/**)\"]\nask = [\"read_file(drafts/**)\"]";
    let fixture =
        ApprovalFixture::new(vec![calls, ScriptedReply::text("Done.")], (rules, ApprovalPolicy::Deny)).await;
    for path in ["private/x.txt", "drafts/y.txt", "open.txt"] {
        fs::create_dir_all(fixture.file(path).parent().unwrap()).unwrap();
        fs::write(fixture.file(path), "k\n").unwrap();
    }
    assert_eq!(fixture.send_message("Go.").await.status, RunStatus::Success);
    let mut results = fixture.results().await;
    results.sort();
    assert_eq!(results[0], "c1: open.txt:1:k\n[2 files left out by rules]");
    assert_eq!(results[1], "c2: open.txt\n[2 files left out by rules]");
    assert_eq!(results[2], "c3: (nothing to show)\n[1 file left out by rules]");
    assert!(results[3].contains("it searches folders, and rules restrict"), "{results:?}");
    assert_eq!(results[4], "c5: k");
}

#[tokio::test]
async fn a_search_of_an_approved_folder_includes_its_files() {
    let calls = ScriptedReply::call("c1", "grep", json!({"pattern": "k", "path": "drafts"}));
    let fixture = ApprovalFixture::new(
        vec![calls, ScriptedReply::text("Done.")],
        ("ask = [\"read_file(drafts)\"]", ApprovalPolicy::Ask),
    )
    .await;
    fs::create_dir_all(fixture.file("drafts")).unwrap();
    fs::write(fixture.file("drafts/y.txt"), "k\n").unwrap();
    let interrupted = fixture.send_message("Go.").await;
    fixture.resume(&interrupted.interrupts[0], json!([{"type": "approve"}])).await;
    assert_eq!(fixture.results().await, ["c1: drafts/y.txt:1:k"]);
}

#[tokio::test]
async fn g3_a_decision_that_would_not_be_carried_out_is_refused() {
    let fixture = ApprovalFixture::new(vec![write("c1", "a")], ("", ApprovalPolicy::Ask)).await;
    let interrupted = fixture.send_message("Go.").await;
    let check = async |decision: Value| {
        fixture.check(&interrupted.interrupts[0], &decisions(json!([decision]))).await
    };
    assert_eq!(check(json!({"type": "approve"})).await, Ok(()));
    for refused in [
        json!({"type": "approve", "args": {"path": "b"}}),
        json!({"type": "approve", "summary_sha256": "ab"}),
        json!({"type": "edit", "edited_action": {"name": "execute", "args": {"command": "ls"}}}),
    ] {
        assert!(matches!(check(refused).await, Err(DecisionRejection::Invalid(_))));
    }
}
