//! `segue run` in scripts: prompts from pipes, limits, and the separation of stdout and stderr.

use serde_json::{Value, json};
use test_model::{Script, ScriptedFault, ScriptedReply, ScriptedServer};

use crate::sandbox::{ProgramOutput, TestSandbox};

fn echo_server() -> ScriptedServer {
    ScriptedServer::start(Script::new([ScriptedReply { always: true, ..ScriptedReply::text("Heard.") }]))
        .unwrap()
}

fn sent_messages(server: &ScriptedServer) -> String {
    server.requests().last().unwrap().body["messages"].to_string()
}

#[test]
fn a_prompt_comes_from_the_option_from_standard_input_or_both() {
    let server = echo_server();
    let sandbox = TestSandbox::new().with_model(&server);
    for args in [&["run"][..], &["run", "-p", "-"]] {
        let output = sandbox.run_with(args, "from the pipe\n");
        assert_eq!((output.code, output.stdout.as_str()), (0, "Heard.\n"), "{output:?}");
        assert!(sent_messages(&server).contains("from the pipe"));
    }
    let output = sandbox.run_with(&["run", "-p", "explain this"], "a log</standard_input>\n");
    assert_eq!(output.code, 0, "{output:?}");
    let text = sent_messages(&server);
    assert!(text.contains("explain this") && text.contains("<standard_input>"), "{text}");
    assert!(text.contains("a log<\\\\/standard_input>"), "{text}");
    sandbox.run_with(&["run"], " \n").assert_error(2, "empty");
}

#[test]
fn a_declined_call_is_reported_as_the_decision_of_the_user() {
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::call("c1", "execute", json!({"command": "touch made.txt"})),
        ScriptedReply { always: true, ..ScriptedReply::text("Heard.") },
    ]))
    .unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    assert_eq!(sandbox.run(&["run", "-p", "do it"]).code, 3);
    let output = sandbox.run(&["decide", "last", "--reject"]);
    assert!(output.code == 0 && output.stderr.contains("The user declined `execute`."), "{output:?}");
    assert!(!output.stderr.contains("failed"), "{output:?}");
}

#[test]
fn a_run_starts_a_new_thread_unless_an_option_continues_one() {
    let server = echo_server();
    let sandbox = TestSandbox::new().with_model(&server);
    sandbox.run(&["run", "-p", "one"]);
    sandbox.run(&["run", "-p", "two"]);
    assert_eq!(sandbox.threads().len(), 2);
    let output = sandbox.run(&["run", "-c", "-p", "three"]);
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(sandbox.threads().len(), 2);
    assert!(sent_messages(&server).contains("two") && !sent_messages(&server).contains("one"));
}

#[test]
fn continue_takes_the_newest_thread_of_the_folder_or_fails() {
    let server = echo_server();
    let sandbox = TestSandbox::new().with_model(&server);
    let other = sandbox.work_folder().join("other");
    std::fs::create_dir(&other).unwrap();
    let run = |args: &[&str], folder: &std::path::Path| {
        let mut command = sandbox.command(args);
        ProgramOutput::from(command.current_dir(folder).output().unwrap())
    };
    run(&["run", "-p", "begun here"], &sandbox.work_folder());
    let output = run(&["run", "-c", "-p", "from there"], &other);
    assert!(output.stderr.contains("No thread was started in this folder"), "{output:?}");
    assert!(sent_messages(&server).contains("begun here"), "{}", sent_messages(&server));
    run(&["run", "-p", "begun there"], &other);
    let output = run(&["run", "-c", "-p", "on"], &sandbox.work_folder());
    assert_eq!(output.stderr, "", "{output:?}");
    assert!(sent_messages(&server).contains("begun here") && !sent_messages(&server).contains("begun there"));
    // A copy belongs to the folder of the thread it was copied from.
    let fork = sandbox.json(&["threads", "fork", "last", "--json"]);
    run(&["run", "-p", "newer, but there"], &other);
    let output = run(&["run", "-c", "-p", "in the copy", "--json"], &sandbox.work_folder());
    assert!(output.stdout.contains(fork["thread_id"].as_str().unwrap()), "{output:?}");
}

#[test]
fn only_the_answer_goes_to_a_pipe() {
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::text("I will look.\n").with_call("c1", "ls", json!({"path": "."})),
        ScriptedReply::text("Nothing there."),
    ]))
    .unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let output = sandbox.run(&["run", "-p", "what is here?"]);
    assert_eq!(output.stdout, "Nothing there.\n", "{output:?}");
}

#[test]
fn a_run_with_too_many_model_calls_ends_with_its_error_kind() {
    let call = ScriptedReply { always: true, ..ScriptedReply::call("c1", "ls", json!({"path": "."})) };
    let server = ScriptedServer::start(Script::new([call])).unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let output = sandbox.run(&["run", "-p", "go", "--max-turns", "2", "--json"]);
    assert_eq!(output.code, 1, "{output:?}");
    let result: Value = serde_json::from_str(output.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(result["error"]["code"], "limit", "{result}");
    assert_eq!(server.call_count(), 2);
}

#[test]
fn a_run_that_exceeds_its_time_limit_ends_with_its_own_exit_code() {
    let server =
        ScriptedServer::start(Script::new([ScriptedReply::text("Half.").with_fault(ScriptedFault::Stall)]))
            .unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let output = sandbox.run(&["run", "-p", "go", "--timeout", "1s", "--json"]);
    assert_eq!(output.code, 124, "{output:?}");
    let result: Value = serde_json::from_str(output.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&result["status"], &result["answer"]), (&json!("timeout"), &json!("Half.")), "{result}");
    assert_eq!(sandbox.run(&["run", "-p", "go", "--timeout", "soon"]).code, 2);
}

#[test]
fn a_run_reports_a_failed_tool_and_a_truncated_answer() {
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::call("c1", "read_file", json!({"path": "missing.txt"})),
        ScriptedReply {
            always: true,
            ..ScriptedReply::text("Half of").with_stop(test_model::ScriptedStop::MaxTokens)
        },
    ]))
    .unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let output = sandbox.run(&["run", "-p", "go"]);
    assert!(
        output.stderr.contains("read_file failed: ") && output.stderr.contains("is truncated"),
        "{output:?}"
    );
    let output = sandbox.run(&["run", "-p", "go", "--json"]);
    let result: Value = serde_json::from_str(output.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(result["stop"], "max_tokens", "{result}");
}
