//! The user's hooks: their input, their vetoes, and the handling of hooks that fail.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::compact::{compacting_server, long_thread};
use crate::handoff::{edit_decision, leave_pending_handoff, summary_draft};
use crate::sandbox::TestSandbox;
use crate::serve::owner_client;
use crate::server::ServeProcess;

/// An API key in a provider's format. No hook may receive it.
const PLANTED_KEY: &str = "sk-ant-api03-aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5z";

/// A command that appends its input to a file, one JSON object per line.
const KEEP_COMMAND: &str = "cat >> told.jsonl; echo >> told.jsonl";

fn with_hooks(sandbox: TestSandbox, hooks: &str) -> TestSandbox {
    std::fs::create_dir_all(sandbox.home()).unwrap();
    std::fs::write(sandbox.home().join("config.toml"), hooks).unwrap();
    sandbox
}

fn hook_config(on: &str, command: &str) -> String {
    format!("[[hooks]]\non = [{on}]\ncommand = '''{command}'''\n")
}

fn hook_payloads(sandbox: &TestSandbox) -> Vec<Value> {
    let kept = std::fs::read_to_string(sandbox.work_folder().join("told.jsonl")).unwrap_or_default();
    kept.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn hooks_receive_proposed_and_accepted_handoffs_and_the_end_of_each_run() {
    let server =
        ScriptedServer::start(Script::new(["Retries", "Retries in a file"].map(summary_draft))).unwrap();
    let events = r#""handoff.proposed", "handoff.accepted", "run.ended""#;
    let sandbox = with_hooks(TestSandbox::new().with_model(&server), &hook_config(events, KEEP_COMMAND));
    let report = leave_pending_handoff(&sandbox);
    let id = report["handoff"]["handoff_id"].as_str().unwrap().to_owned();
    for decision in [edit_decision(json!({"feedback": "name the file"})), json!({"type": "approve"})] {
        let file = sandbox.write_file("decision.json", json!({"decisions": [decision]}).to_string());
        let output = sandbox.run(&["handoff", "--decide", &id, "--decision-file", &file, "--json"]);
        assert!([0, 3].contains(&output.code), "{output:?}");
    }
    let payloads = hook_payloads(&sandbox);
    let names: Vec<&str> = payloads.iter().map(|payload| payload["hook"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["handoff.proposed", "run.ended", "handoff.proposed", "run.ended", "handoff.accepted", "run.ended"]
    );
    let (second, accepted) = (&payloads[2]["handoff"], &payloads[4]["handoff"]);
    assert_eq!((&payloads[0]["handoff"]["iteration"], &second["iteration"]), (&json!(0), &json!(1)));
    assert_eq!(second["title"], "Retries in a file");
    assert_eq!(accepted, second, "what was proposed is what was accepted");
    assert!(accepted["summary_md"].as_str().unwrap().contains("Retries in a file"));
    for payload in &payloads {
        assert_eq!((&payload["schema_version"], &payload["thread_id"]), (&json!(1), &report["thread_id"]));
        assert!(
            payload["seq"].is_u64() && payload["run_id"].is_string() && payload["at"].is_string(),
            "{payload}"
        );
    }
    assert_eq!(payloads[1]["run"]["status"], "interrupted");
    assert_eq!(payloads[1]["run"]["waits_for"], json!(["handoff_summary"]));
    assert_eq!(payloads[1]["run"]["usage"]["input_tokens"], 10);
    assert_eq!(
        (&payloads[5]["run"]["status"], &payloads[5]["run"]["waits_for"]),
        (&json!("success"), &json!([]))
    );
}

#[test]
fn m16_no_hook_payload_contains_an_api_key() {
    let answer = format!("It is {PLANTED_KEY}, and it works.");
    let server = ScriptedServer::start(Script::new([ScriptedReply::text(answer)])).unwrap();
    let sandbox =
        with_hooks(TestSandbox::new().with_model(&server), &hook_config(r#""run.ended""#, KEEP_COMMAND));
    assert_eq!(sandbox.run(&["run", "-p", &format!("remember {PLANTED_KEY}")]).code, 0);
    let payloads = hook_payloads(&sandbox);
    assert!(payloads[0]["run"]["answer"].as_str().unwrap().ends_with("and it works."), "{payloads:?}");
    assert!(!json!(payloads).to_string().contains("aB3dE5f"), "{payloads:?}");
}

#[test]
fn e18_a_hook_can_veto_a_compaction_and_is_called_only_if_one_would_happen() {
    let server = compacting_server();
    let vetoing = format!("{KEEP_COMMAND}; echo '{{\"veto\": \"not while we deploy\"}}'");
    let hooks =
        hook_config(r#""compaction.before""#, &vetoing) + &hook_config(r#""compaction.after""#, KEEP_COMMAND);
    // No hook is called when there is nothing to compact.
    let short = with_hooks(long_thread(TestSandbox::new(), 3).with_model(&server), &hooks);
    assert!(short.run(&["compact", "last"]).stdout.contains("Nothing to compact"));
    assert_eq!(hook_payloads(&short).len(), 0);
    let sandbox = with_hooks(long_thread(TestSandbox::new(), 20).with_model(&server), &hooks);
    assert_eq!(sandbox.run(&["compact", "last", "--preview"]).code, 0);
    assert_eq!(hook_payloads(&sandbox).len(), 0);
    let refused = sandbox.run(&["compact", "last"]);
    refused.assert_error(1, "not while we deploy");
    let payloads = hook_payloads(&sandbox);
    assert_eq!(
        (payloads.len(), &payloads[0]["hook"], &payloads[0]["seq"]),
        (1, &json!("compaction.before"), &Value::Null)
    );
    assert_eq!(payloads[0]["compaction"]["trigger"], "manual");
    assert!(payloads[0]["compaction"]["summary"].as_str().unwrap().contains("retry test"));
    let history = sandbox.run(&["history", "last"]).stdout;
    assert!(!history.contains("messages compacted"), "{history}");
}

#[test]
fn e18_a_hook_that_fails_before_a_compaction_is_reported_and_blocks_nothing() {
    let server = compacting_server();
    let hooks = hook_config(r#""compaction.before""#, "echo 'no such queue' >&2; exit 7")
        + &hook_config(r#""compaction.after""#, KEEP_COMMAND);
    let sandbox = with_hooks(long_thread(TestSandbox::new(), 20).with_model(&server), &hooks);
    let compacted = sandbox.run(&["compact", "last"]);
    assert_eq!(compacted.code, 0, "{compacted:?}");
    assert!(compacted.stderr.contains("no such queue"), "{compacted:?}");
    let payloads = hook_payloads(&sandbox);
    assert_eq!((payloads.len(), &payloads[0]["hook"]), (1, &json!("compaction.after")), "{payloads:?}");
    assert!(payloads[0]["compaction"]["replaced_count"].as_u64().unwrap() > 0);
}

#[test]
fn a_hook_that_hangs_or_fails_is_reported_once_and_changes_nothing() {
    let server = ScriptedServer::start(Script::new([ScriptedReply::text("Done.")])).unwrap();
    let hanging =
        "[[hooks]]\non = [\"run.ended\"]\nname = \"slow\"\ncommand = \"sleep 600\"\ntimeout_seconds = 1\n";
    let hooks = hanging.to_owned()
        + &hook_config(r#""run.ended""#, "exit 4")
        + &hook_config(r#""run.ended""#, KEEP_COMMAND);
    let mut sandbox = with_hooks(TestSandbox::new().with_model(&server), &hooks);
    sandbox.set_variable("SEGUE_LOG", "warn");
    sandbox.set_variable("SEGUE_LOG_FORMAT", "json");
    let log = sandbox.work_folder().join("log");
    sandbox.set_variable("SEGUE_LOG_FILE", log.to_str().unwrap());
    let output = sandbox.run(&["run", "-p", "go"]);
    assert_eq!((output.code, output.stdout.trim()), (0, "Done."));
    assert_eq!(hook_payloads(&sandbox).len(), 1, "a slow hook does not delay the others");
    for reported in
        ["hook `slow` did not get run.ended: failed to finish within its timeout of 1 s", "status 4"]
    {
        assert_eq!(output.stderr.matches(reported).count(), 1, "{output:?}");
    }
    let logged: String = std::fs::read_dir(sandbox.work_folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log")))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let lines: Vec<Value> = logged.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let slow_lines: Vec<&Value> = lines.iter().filter(|line| line["hook"] == "slow").collect();
    assert_eq!(slow_lines.len(), 1, "{lines:?}");
    assert!(slow_lines[0]["thread_id"].is_string() && slow_lines[0]["level"] == "WARN", "{slow_lines:?}");
}

#[test]
fn a_segue_process_started_by_a_hook_calls_no_hooks() {
    let server =
        ScriptedServer::start(Script::new(["Done.", "Done again."].map(ScriptedReply::text))).unwrap();
    let program = crate::sandbox::binary_path().display().to_string();
    let command_with_run = format!("{KEEP_COMMAND}; '{program}' run -p again > again.txt");
    let sandbox =
        with_hooks(TestSandbox::new().with_model(&server), &hook_config(r#""run.ended""#, &command_with_run));
    assert_eq!(sandbox.run(&["run", "-p", "go"]).code, 0);
    assert_eq!(hook_payloads(&sandbox).len(), 1);
    assert_eq!(
        std::fs::read_to_string(sandbox.work_folder().join("again.txt")).unwrap().trim(),
        "Done again."
    );
}

#[test]
fn an_invalid_hook_is_reported_before_the_command_runs() {
    let sandbox = with_hooks(TestSandbox::new(), "[[hooks]]\non = [\"run.begun\"]\ncommand = \"true\"\n");
    let refused = sandbox.run(&["threads", "list"]);
    refused.assert_error(1, "compaction.before");
    let sandbox = with_hooks(TestSandbox::new(), "[[hooks]]\non = [\"run.ended\"]\n");
    sandbox.run(&["threads", "list"]).assert_error(1, "needs a `command` or a `url`");
}

/// A named pipe that a hook keeps open until it exits.
struct HookPipe(std::fs::File);

impl HookPipe {
    fn new(sandbox: &TestSandbox) -> Self {
        let path = sandbox.work_folder().join("held");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap();
        Self(std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path).unwrap())
    }

    /// Waits until the hook has written to the pipe.
    fn wait_for_output(&mut self) {
        let mut byte = [0];
        while self.0.read(&mut byte).ok() != Some(1) {
            std::thread::yield_now();
        }
    }

    /// Waits until no process has the pipe open.
    fn wait_until_closed(mut self) {
        while self.0.read(&mut [0; 64]).ok() != Some(0) {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_signal_stops_the_wait_for_hooks_and_their_child_processes() {
    for signal in [Signal::INT, Signal::TERM] {
        let server = ScriptedServer::start(Script::new([ScriptedReply::text("Done.")])).unwrap();
        let hanging = hook_config(r#""run.ended""#, "exec > held; echo .; sleep 600 & sleep 600");
        let sandbox = with_hooks(TestSandbox::new().with_model(&server), &hanging);
        let mut pipe = HookPipe::new(&sandbox);
        let mut command = sandbox.command(&["run", "-p", "go"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr_lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        stderr_lines.find(|line| line.contains("Waiting for 1 hook. Press Ctrl-C to stop waiting.")).unwrap();
        pipe.wait_for_output();
        kill_process(Pid::from_child(&child), signal).unwrap();
        let stderr_lines: String = stderr_lines.collect();
        let output = child.wait_with_output().unwrap();
        // The requested change was made.
        assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"Done.\n"[..]), "{output:?}");
        assert!(
            stderr_lines
                .contains("did not get run.ended: failed to finish the call before the program ended"),
            "{stderr_lines}"
        );
        pipe.wait_until_closed();
    }
}

#[test]
fn every_event_that_a_slow_hook_missed_is_reported() {
    let server = ScriptedServer::start(Script::new([summary_draft("Retries")])).unwrap();
    let events = r#""handoff.proposed", "handoff.accepted", "run.ended""#;
    let slow = format!(
        "[[hooks]]\non = [{events}]\nname = \"slow\"\ncommand = \"sleep 600\"\ntimeout_seconds = 1\n"
    );
    let sandbox = with_hooks(TestSandbox::new().with_model(&server), &slow);
    let output = sandbox.run(&["handoff", &sandbox.write_session(), "--apply"]);
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(output.stderr.matches("hook `slow` did not get").count(), 4, "{output:?}");
}

#[test]
fn hooks_and_metrics_see_the_end_of_every_run_whose_thread_is_temporary() {
    const RUN_COUNT: usize = 24;
    let server =
        ScriptedServer::start(Script::new([ScriptedReply { always: true, ..ScriptedReply::text("Done.") }]))
            .unwrap();
    let sandbox =
        with_hooks(TestSandbox::new().with_model(&server), &hook_config(r#""run.ended""#, KEEP_COMMAND));
    let serving = ServeProcess::start(&sandbox);
    let input = json!({"messages": [{"role": "user", "content": "go"}]});
    std::thread::scope(|scope| {
        for _ in 0..RUN_COUNT {
            scope.spawn(|| {
                let body = json!({"assistant_id": "agent", "input": input});
                owner_client(&serving).post("/runs/wait", &body).json();
            });
        }
    });
    let counted = format!("segue_runs_total{{status=\"success\"}} {RUN_COUNT}");
    while !owner_client(&serving).get("/metrics").text().contains(&counted) {
        std::thread::yield_now();
    }
    serving.signal(Signal::TERM);
    assert_eq!(serving.wait_for_exit(), Some(0));
    assert_eq!(hook_payloads(&sandbox).len(), RUN_COUNT);
}

/// Returns the keys of an object and of its nested objects.
fn nested_keys(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            object.iter().map(|(key, value)| (key.clone(), nested_keys(value))).collect()
        }
        _ => Value::Null,
    }
}

#[test]
fn the_page_on_hooks_shows_the_actual_payloads() {
    let server = compacting_server();
    let events = TestSandbox::new().with_model(&server);
    let hooks = hook_config(r#""handoff.proposed", "run.ended", "compaction.after""#, KEEP_COMMAND);
    let sandbox = with_hooks(long_thread(events, 20), &hooks);
    assert_eq!(sandbox.run(&["compact", "last"]).code, 0);
    assert_eq!(sandbox.run(&["handoff", "last", "--apply"]).code, 0);
    let page = include_str!("../../../../../docs/src/hooks.md");
    let documented: Vec<Value> = page
        .split("```json\n")
        .skip(1)
        .map(|block| serde_json::from_str(block.split("```").next().unwrap()).unwrap())
        .collect();
    for name in ["handoff.proposed", "compaction.after", "run.ended"] {
        let of = |all: &[Value]| all.iter().find(|payload| payload["hook"] == name).map(nested_keys);
        assert_eq!(of(&documented), of(&hook_payloads(&sandbox)), "{name}");
        assert!(of(&documented).is_some(), "{name}");
    }
}
