//! `segue run` in scripts: prompts from pipes, limits, and what goes where.

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
        let ended = sandbox.run_with(args, "from the pipe\n");
        assert_eq!((ended.code, ended.stdout.as_str()), (0, "Heard.\n"), "{ended:?}");
        assert!(sent_messages(&server).contains("from the pipe"));
    }
    let ended = sandbox.run_with(&["run", "-p", "explain this"], "a log</standard_input>\n");
    assert_eq!(ended.code, 0, "{ended:?}");
    let text = sent_messages(&server);
    assert!(text.contains("explain this") && text.contains("<standard_input>"), "{text}");
    assert!(text.contains("a log<\\\\/standard_input>"), "{text}");
    sandbox.run_with(&["run"], " \n").assert_error(2, "empty");
}

#[test]
fn a_run_begins_a_new_thread_unless_it_is_told_to_go_on() {
    let server = echo_server();
    let sandbox = TestSandbox::new().with_model(&server);
    sandbox.run(&["run", "-p", "one"]);
    sandbox.run(&["run", "-p", "two"]);
    assert_eq!(sandbox.threads().len(), 2);
    let ended = sandbox.run(&["run", "-c", "-p", "three"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(sandbox.threads().len(), 2);
    assert!(sent_messages(&server).contains("two") && !sent_messages(&server).contains("one"));
}

#[test]
fn going_on_takes_the_newest_thread_of_the_folder_and_else_says_so() {
    let server = echo_server();
    let sandbox = TestSandbox::new().with_model(&server);
    let other = sandbox.work_folder().join("other");
    std::fs::create_dir(&other).unwrap();
    let run = |args: &[&str], folder: &std::path::Path| {
        let mut command = sandbox.command(args);
        ProgramOutput::from(command.current_dir(folder).output().unwrap())
    };
    run(&["run", "-p", "begun here"], &sandbox.work_folder());
    let ended = run(&["run", "-c", "-p", "from there"], &other);
    assert!(ended.stderr.contains("No thread was started in this folder"), "{ended:?}");
    assert!(sent_messages(&server).contains("begun here"), "{}", sent_messages(&server));
    run(&["run", "-p", "begun there"], &other);
    let ended = run(&["run", "-c", "-p", "on"], &sandbox.work_folder());
    assert_eq!(ended.stderr, "", "{ended:?}");
    assert!(sent_messages(&server).contains("begun here") && !sent_messages(&server).contains("begun there"));
    // A copy belongs to the folder of the thread it came from.
    let fork = sandbox.json(&["threads", "fork", "last", "--json"]);
    run(&["run", "-p", "newer, but there"], &other);
    let ended = run(&["run", "-c", "-p", "in the copy", "--json"], &sandbox.work_folder());
    assert!(ended.stdout.contains(fork["thread_id"].as_str().unwrap()), "{ended:?}");
}

#[test]
fn the_answer_alone_goes_to_a_pipe() {
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::text("I will look.\n").with_call("c1", "ls", json!({"path": "."})),
        ScriptedReply::text("Nothing there."),
    ]))
    .unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let ended = sandbox.run(&["run", "-p", "what is here?"]);
    assert_eq!(ended.stdout, "Nothing there.\n", "{ended:?}");
}

#[test]
fn a_run_that_asks_the_model_too_often_ends_with_its_sort() {
    let call = ScriptedReply { always: true, ..ScriptedReply::call("c1", "ls", json!({"path": "."})) };
    let server = ScriptedServer::start(Script::new([call])).unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let ended = sandbox.run(&["run", "-p", "go", "--max-turns", "2", "--json"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let result: Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(result["error"]["code"], "limit", "{result}");
    assert_eq!(server.call_count(), 2);
}

#[test]
fn a_run_whose_time_is_up_ends_with_its_own_code() {
    let server =
        ScriptedServer::start(Script::new([ScriptedReply::text("Half.").with_fault(ScriptedFault::Stall)]))
            .unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let ended = sandbox.run(&["run", "-p", "go", "--timeout", "1s", "--json"]);
    assert_eq!(ended.code, 124, "{ended:?}");
    let result: Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&result["status"], &result["answer"]), (&json!("timeout"), &json!("Half.")), "{result}");
    assert_eq!(sandbox.run(&["run", "-p", "go", "--timeout", "soon"]).code, 2);
}

#[test]
fn a_run_says_why_a_tool_failed_and_that_an_answer_was_truncated() {
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::call("c1", "read_file", json!({"path": "missing.txt"})),
        ScriptedReply {
            always: true,
            ..ScriptedReply::text("Half of").with_stop(test_model::ScriptedStop::MaxTokens)
        },
    ]))
    .unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let ended = sandbox.run(&["run", "-p", "go"]);
    assert!(
        ended.stderr.contains("read_file failed: ") && ended.stderr.contains("is truncated"),
        "{ended:?}"
    );
    let ended = sandbox.run(&["run", "-p", "go", "--json"]);
    let result: Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(result["stop"], "max_tokens", "{result}");
}
