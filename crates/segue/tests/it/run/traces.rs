//! Traces: the tree that `segue trace` prints, and the spans that an OpenTelemetry collector receives.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::collector::{CollectedSpan, TraceCollector};
use crate::handoff::{edit_decision, leave_pending_handoff, summary_draft};
use crate::sandbox::TestSandbox;

/// An API key in a provider's format. No trace may contain it.
const PLANTED_KEY: &str = "sk-ant-api03-aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5z";

fn decide_handoff(sandbox: &TestSandbox, id: &str, decision: &Value) {
    let file = sandbox.write_file("decision.json", json!({"decisions": [decision]}).to_string());
    let output = sandbox.run(&["handoff", "--decide", id, "--decision-file", &file, "--json"]);
    assert!([0, 3].contains(&output.code), "{output:?}");
}

/// Refines a handoff twice and accepts it, each in its own process with the sandbox's environment.
fn refine_twice_and_accept(sandbox: &TestSandbox) -> Value {
    let report = leave_pending_handoff(sandbox);
    let id = report["handoff"]["handoff_id"].as_str().unwrap().to_owned();
    decide_handoff(sandbox, &id, &edit_decision(json!({"feedback": "name the file"})));
    decide_handoff(
        sandbox,
        &id,
        &edit_decision(json!({"feedback": format!("shorter, and forget {PLANTED_KEY}")})),
    );
    decide_handoff(sandbox, &id, &json!({"type": "approve"}));
    report
}

fn start_with_drafts() -> (TestSandbox, ScriptedServer) {
    let drafts = ["Retries", "Retries in a file", "Retries, shorter"].map(summary_draft);
    let server = ScriptedServer::start(Script::new(drafts)).unwrap();
    (TestSandbox::new().with_model(&server), server)
}

fn spans_named<'s>(spans: &'s [CollectedSpan], name: &str) -> Vec<&'s CollectedSpan> {
    spans.iter().filter(|span| span.name == name).collect()
}

#[test]
fn g4_a_collector_receives_each_draft_of_a_handoff_with_its_name_tags_metadata_and_parent() {
    let collector = TraceCollector::start();
    let (mut sandbox, _server) = start_with_drafts();
    sandbox.set_variable("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url);
    let report = refine_twice_and_accept(&sandbox);
    let spans = collector.wait_for_spans(|spans| {
        !spans_named(spans, "accept_handoff").is_empty() && spans_named(spans, "run").len() == 4
    });
    let runs = spans_named(&spans, "run");
    for iteration in 0..3 {
        let drafts = spans_named(&spans, &format!("generate_handoff_summary_iter_{iteration}"));
        let [draft] = drafts.as_slice() else { panic!("one span a draft: {drafts:?}") };
        let kind = if iteration == 0 { "initial" } else { "refinement" };
        let about = |key: &str| draft.attributes[&format!("langsmith.metadata.{key}")].clone();
        assert_eq!(
            draft.attributes["langsmith.span.tags"],
            format!("handoff-summary,iteration-{iteration},{kind}")
        );
        assert_eq!(about("handoff_iteration"), iteration);
        assert_eq!(about("has_feedback"), iteration > 0);
        assert_eq!(about("summary_type"), kind);
        assert_eq!(about("parent_thread_id"), report["thread_id"]);
        assert_eq!(about("handoff_id"), report["handoff"]["handoff_id"]);
        assert_eq!(about("assistant_id"), "agent");
        let run = runs.iter().find(|run| run.span_id == draft.parent_id).unwrap();
        assert_eq!(run.trace_id, draft.trace_id);
        let calls: Vec<&CollectedSpan> =
            spans.iter().filter(|span| span.parent_id == draft.span_id).collect();
        assert_eq!(calls.len(), 1, "{calls:?}");
        assert_eq!(calls[0].attributes["gen_ai.operation.name"], "chat");
        assert_eq!(calls[0].attributes["openinference.span.kind"], "LLM");
        assert_eq!(calls[0].attributes["gen_ai.usage.input_tokens"], 10);
    }
    let refined = spans_named(&spans, "generate_handoff_summary_iter_1");
    assert_eq!(refined[0].attributes["langsmith.metadata.feedback_preview"], "name the file");
    // The trace id of a run is derived from the run's id.
    let ids: BTreeSet<String> =
        runs.iter().map(|run| run.attributes["segue.run_id"].as_str().unwrap().replace('-', "")).collect();
    assert_eq!(ids, runs.iter().map(|run| run.trace_id.clone()).collect());
    let questions: BTreeSet<(String, String)> = spans_named(&spans, "interrupt")
        .iter()
        .map(|span| (span.trace_id.clone(), span.span_id.clone()))
        .collect();
    let answered: BTreeSet<(String, String)> =
        spans_named(&spans, "resume").iter().map(|span| span.links[0].clone()).collect();
    assert_eq!((questions.len(), &answered), (3, &questions), "each answer is linked to its question");
    assert_eq!(runs[0].resource["service.name"], "segue");
}

#[test]
fn m16_spans_contain_messages_only_on_request_and_secrets_never() {
    for content in [false, true] {
        let collector = TraceCollector::start();
        let reply = format!("The clock is mended; {PLANTED_KEY} is what I used.");
        let missing = json!({"path": format!("the\nescapement\n{PLANTED_KEY}")});
        let server = ScriptedServer::start(Script::new([
            ScriptedReply::call("c1", "ls", json!({"path": "."})),
            ScriptedReply::call("c2", "read_file", missing),
            ScriptedReply::text(reply),
        ]))
        .unwrap();
        let sandbox = TestSandbox::new().with_model(&server);
        std::fs::create_dir_all(sandbox.home()).unwrap();
        std::fs::write(
            sandbox.home().join("config.toml"),
            format!("[tracing]\nendpoint = \"{}/v1/traces\"\ncontent = {content}\nheaders = {{ x-api-key = \"k1\" }}\n", collector.url),
        )
        .unwrap();
        let said = format!("mend the pendulum with {PLANTED_KEY}");
        assert_eq!(sandbox.run(&["run", "-p", &said]).code, 0);
        let spans = collector.wait_for_spans(|spans| !spans_named(spans, "run").is_empty());
        assert_eq!(spans_named(&spans, "execute_tool ls")[0].attributes["gen_ai.tool.call.id"], "c1");
        assert!(collector.headers().contains(&"x-api-key: k1".to_owned()));
        assert!(spans_named(&spans, "execute_tool read_file")[0].failure.is_some());
        for words in ["mend the pendulum", "The clock is mended", "escapement"] {
            assert_eq!(collector.has_received(words), content, "{words}");
        }
        assert!(!collector.has_received(PLANTED_KEY));
        let shown = sandbox.run(&["trace", "last", "--json"]).stdout;
        assert!(!shown.contains(PLANTED_KEY), "{shown}");
    }
}

#[test]
fn an_unreachable_collector_causes_only_a_warning() {
    let (mut sandbox, _server) = start_with_drafts();
    // This port was free a moment ago, so no collector listens on it.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    sandbox.set_variable("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("http://someone:{PLANTED_KEY}@{free}"));
    sandbox.set_variable("SEGUE_LOG", "warn");
    let output = sandbox.run(&["run", "-p", "hello"]);
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(output.stderr.matches("failed to send traces").count(), 1, "{output:?}");
    assert!(!output.stderr.contains(PLANTED_KEY), "{output:?}");
    sandbox
        .set_variable("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("http://someone:{PLANTED_KEY}@not an address"));
    let output = sandbox.run(&["threads", "list"]);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.stderr.contains("no traces are exported"), "{output:?}");
    assert!(!output.stderr.contains(PLANTED_KEY), "{output:?}");
}

#[test]
fn a_server_exports_its_spans_and_flushes_them_on_shutdown() {
    let collector = TraceCollector::start();
    let server = ScriptedServer::start(Script::new([ScriptedReply::text("Done.").with_repeat()])).unwrap();
    let mut sandbox = TestSandbox::new().with_model(&server);
    sandbox.set_variable("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url);
    sandbox.set_variable("OTEL_BSP_SCHEDULE_DELAY", "100");
    let serving = crate::server::ServeProcess::start(&sandbox);
    let api = crate::serve::owner_client(&serving);
    let run = json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "Go."}]}});
    let _ = api.post("/runs/wait", &run);
    let spans = collector.wait_for_spans(|spans| !spans_named(spans, "run").is_empty());
    let (run, step) = (spans_named(&spans, "run"), spans_named(&spans, "step 1"));
    assert_eq!(step[0].parent_id, run[0].span_id);
    assert!(run[0].failure.is_none());
    let output_text = api.get("/metrics").text();
    for line in [
        "segue_runs_total{status=\"success\"} 1",
        "segue_steps_total 1",
        "segue_model_calls_total{model=\"anthropic/claude-sonnet-4-5\",outcome=\"success\"} 1",
        "segue_input_tokens_total{model=\"anthropic/claude-sonnet-4-5\"} 10",
        "segue_run_seconds_count 1",
    ] {
        assert!(output_text.lines().any(|found| found == line), "{line} in\n{output_text}");
    }
}

#[test]
fn a_trace_is_a_tree_of_a_run_a_thread_or_a_handoff() {
    let (mut sandbox, _server) = start_with_drafts();
    // On PostgreSQL the accepted summary would also be exported.
    sandbox.set_variable("SEGUE_MIRROR_URL", "off");
    let report = refine_twice_and_accept(&sandbox);
    let id = report["handoff"]["handoff_id"].as_str().unwrap();
    let output = sandbox.run(&["trace", id]);
    assert_eq!(output.code, 0, "{output:?}");
    let names: Vec<String> = output
        .stdout
        .lines()
        .skip(1)
        .map(|line| {
            let name = line.trim_start_matches(['│', '├', '└', '─', ' ']);
            name.split("  ").next().unwrap().trim().to_owned()
        })
        .collect();
    insta::assert_snapshot!(names.join("\n"), @"
    run
    requested
    generate_handoff_summary_iter_0
    chat claude-sonnet-4-5
    question handoff_summary
    run
    resume
    refined
    generate_handoff_summary_iter_1
    chat claude-sonnet-4-5
    question handoff_summary
    run
    resume
    refined
    generate_handoff_summary_iter_2
    chat claude-sonnet-4-5
    question handoff_summary
    run
    resume
    accept
    write agent.md
    ");
    let spans: Vec<Value> = sandbox
        .run(&["trace", id, "--json"])
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(spans.len(), names.len(), "the same, one a line");
    let calls: Vec<&Value> = spans.iter().filter(|span| span["kind"] == "model").collect();
    assert_eq!(calls.len(), 3);
    assert!(
        calls.iter().all(|call| call["usage"]["input_tokens"] == 10 && call["duration_ms"].is_u64()),
        "{calls:?}"
    );
    assert!(calls.iter().all(|call| call["cost"].as_f64().is_some_and(|cost| cost > 0.0)), "{calls:?}");
    let thread = sandbox.run(&["trace", report["thread_id"].as_str().unwrap()]).stdout;
    assert_eq!(thread.lines().count(), output.stdout.lines().count(), "there is nothing else in it");
    let run_id = spans[0]["run_id"].as_str().unwrap();
    let run = sandbox.run(&["trace", run_id, "--follow", "--json"]);
    assert_eq!(run.code, 0, "the trace of a finished run succeeds: {run:?}");
    assert_eq!(run.stdout.lines().count(), spans.iter().filter(|span| span["run_id"] == run_id).count());
    for unknown in ["0192f0c1", " "] {
        sandbox.run(&["trace", unknown]).assert_error(2, "find a run, a thread or a handoff");
    }
}

#[test]
fn logs_have_the_configured_target_and_format() {
    let (mut sandbox, _server) = start_with_drafts();
    let log = sandbox.work_folder().join("logs/segue.log");
    std::fs::create_dir(log.parent().unwrap()).unwrap();
    let report = leave_pending_handoff(&sandbox);
    let id = report["handoff"]["handoff_id"].as_str().unwrap();
    let file = sandbox.write_file("decision.json", json!({"decisions": [{"type": "approve"}]}).to_string());
    let log_file = log.to_str().unwrap();
    let output = sandbox.run(&[
        "handoff",
        "--decide",
        id,
        "--decision-file",
        &file,
        "--log-file",
        log_file,
        "--log-format",
        "json",
    ]);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output:?}");
    let written: Vec<_> = std::fs::read_dir(log.parent().unwrap()).unwrap().flatten().collect();
    let [day] = written.as_slice() else { panic!("one file a day: {written:?}") };
    let name = day.file_name().into_string().unwrap();
    assert!(name.starts_with("segue.2") && name.ends_with(".log"), "{name}");
    let lines = std::fs::read_to_string(day.path()).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let succeeded: Vec<&Value> = lines
        .iter()
        .filter(|line| line["message"].as_str().is_some_and(|text| text.ends_with("succeeded")))
        .collect();
    let [line] = succeeded.as_slice() else { panic!("one line says so: {lines:?}") };
    assert_eq!((&line["level"], &line["handoff_id"]), (&json!("INFO"), &json!(id)));
    assert!(line["tokens_used"].is_u64() && line["model_run_id"].is_string(), "{line}");
    let below_a_file = format!("{}/segue.log", sandbox.write_session());
    for (args, error_text) in [
        (["--log-level", "handoff=loud", "threads", "list"], "log at `handoff=loud`"),
        (["--log-file", below_a_file.as_str(), "threads", "list"], "log to "),
    ] {
        sandbox.run(&args).assert_error(2, error_text);
    }
    sandbox.set_variable("SEGUE_LOG_FORMAT", "xml");
    sandbox.run(&["threads", "list", "--log-level", "info"]).assert_error(2, "log as `xml`");
}

#[test]
fn the_trace_of_a_subagent_is_below_its_tool_call() {
    let collector = TraceCollector::start();
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::call("c1", "task", json!({"description": "count", "prompt": "Count the hens."})),
        ScriptedReply::text("There are seven."),
        ScriptedReply::text("Seven hens."),
    ]))
    .unwrap();
    let mut sandbox = TestSandbox::new().with_model(&server);
    sandbox.set_variable("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url);
    assert_eq!(sandbox.run(&["run", "-p", "How many hens?", "--approve", "allow"]).code, 0);
    let spans = collector.wait_for_spans(|spans| spans_named(spans, "run").len() == 2);
    let call = spans_named(&spans, "execute_tool task")[0];
    let inner = *spans_named(&spans, "run").iter().find(|run| run.parent_id == call.span_id).unwrap();
    assert_eq!(inner.trace_id, call.trace_id, "one trace");
    let printed_spans: Vec<Value> = sandbox
        .run(&["trace", "last", "--json"])
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(printed_spans.len(), spans.len(), "the same here");
    let ids: Vec<&Value> = printed_spans.iter().map(|span| &span["span_id"]).collect();
    assert!(
        printed_spans.iter().filter_map(|span| span.get("parent_id")).all(|parent| ids.contains(&parent)),
        "{printed_spans:?}"
    );
}
