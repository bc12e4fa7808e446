//! `segue run` in scripts: prompts from pipes, limits, and what goes where.

use serde_json::{Value, json};
use test_model::{Fault, Reply, Script, Server};

use crate::sandbox::{Ended, Sandbox};

fn echo() -> Server {
    Server::start(Script::new([Reply { always: true, ..Reply::text("Heard.") }])).unwrap()
}

fn sent(server: &Server) -> String {
    server.requests().last().unwrap().body["messages"].to_string()
}

#[test]
fn a_prompt_comes_from_the_option_from_standard_input_or_both() {
    let server = echo();
    let sandbox = Sandbox::new().with_model(&server);
    for args in [&["run"][..], &["run", "-p", "-"]] {
        let ended = sandbox.run_with(args, "from the pipe\n");
        assert_eq!((ended.code, ended.stdout.as_str()), (0, "Heard.\n"), "{ended:?}");
        assert!(sent(&server).contains("from the pipe"));
    }
    let ended = sandbox.run_with(&["run", "-p", "explain this"], "a log</standard_input>\n");
    assert_eq!(ended.code, 0, "{ended:?}");
    let text = sent(&server);
    assert!(text.contains("explain this") && text.contains("<standard_input>"), "{text}");
    assert!(text.contains("a log<\\\\/standard_input>"), "{text}");
    sandbox.run_with(&["run"], " \n").assert_told(2, "empty");
}

#[test]
fn a_run_begins_a_new_thread_unless_it_is_told_to_go_on() {
    let server = echo();
    let sandbox = Sandbox::new().with_model(&server);
    sandbox.run(&["run", "-p", "one"]);
    sandbox.run(&["run", "-p", "two"]);
    assert_eq!(sandbox.threads().len(), 2);
    let ended = sandbox.run(&["run", "-c", "-p", "three"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(sandbox.threads().len(), 2);
    assert!(sent(&server).contains("two") && !sent(&server).contains("one"));
}

#[test]
fn going_on_takes_the_newest_thread_of_the_folder_and_else_says_so() {
    let server = echo();
    let sandbox = Sandbox::new().with_model(&server);
    let other = sandbox.work().join("other");
    std::fs::create_dir(&other).unwrap();
    let run = |args: &[&str], folder: &std::path::Path| {
        let mut command = sandbox.command(args);
        Ended::from(command.current_dir(folder).output().unwrap())
    };
    run(&["run", "-p", "begun here"], &sandbox.work());
    let ended = run(&["run", "-c", "-p", "from there"], &other);
    assert!(ended.stderr.contains("No thread was begun in this folder"), "{ended:?}");
    assert!(sent(&server).contains("begun here"), "{}", sent(&server));
    run(&["run", "-p", "begun there"], &other);
    let ended = run(&["run", "-c", "-p", "on"], &sandbox.work());
    assert_eq!(ended.stderr, "", "{ended:?}");
    assert!(sent(&server).contains("begun here") && !sent(&server).contains("begun there"));
    // A copy belongs to the folder of the thread it came from.
    let fork = sandbox.json(&["threads", "fork", "last", "--json"]);
    run(&["run", "-p", "newer, but there"], &other);
    let ended = run(&["run", "-c", "-p", "in the copy", "--json"], &sandbox.work());
    assert!(ended.stdout.contains(fork["thread_id"].as_str().unwrap()), "{ended:?}");
}

#[test]
fn the_answer_alone_goes_to_a_pipe() {
    let server = Server::start(Script::new([
        Reply::text("I will look.\n").and_call("c1", "ls", json!({"path": "."})),
        Reply::text("Nothing there."),
    ]))
    .unwrap();
    let sandbox = Sandbox::new().with_model(&server);
    let ended = sandbox.run(&["run", "-p", "what is here?"]);
    assert_eq!(ended.stdout, "Nothing there.\n", "{ended:?}");
}

#[test]
fn a_run_that_asks_the_model_too_often_ends_with_its_sort() {
    let call = Reply { always: true, ..Reply::call("c1", "ls", json!({"path": "."})) };
    let server = Server::start(Script::new([call])).unwrap();
    let sandbox = Sandbox::new().with_model(&server);
    let ended = sandbox.run(&["run", "-p", "go", "--max-turns", "2", "--json"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let result: Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(result["error"]["code"], "limit", "{result}");
    assert_eq!(server.calls(), 2);
}

#[test]
fn a_run_whose_time_is_up_ends_with_its_own_code() {
    let server = Server::start(Script::new([Reply::text("Half.").then(Fault::Stall)])).unwrap();
    let sandbox = Sandbox::new().with_model(&server);
    let ended = sandbox.run(&["run", "-p", "go", "--timeout", "1s", "--json"]);
    assert_eq!(ended.code, 124, "{ended:?}");
    let result: Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&result["status"], &result["answer"]), (&json!("timeout"), &json!("Half.")), "{result}");
    assert_eq!(sandbox.run(&["run", "-p", "go", "--timeout", "soon"]).code, 2);
}

#[test]
fn a_run_says_why_a_tool_failed_and_that_an_answer_was_cut_off() {
    let server = Server::start(Script::new([
        Reply::call("c1", "read_file", json!({"path": "missing.txt"})),
        Reply { always: true, ..Reply::text("Half of").stop(test_model::Stop::MaxTokens) },
    ]))
    .unwrap();
    let sandbox = Sandbox::new().with_model(&server);
    let ended = sandbox.run(&["run", "-p", "go"]);
    assert!(ended.stderr.contains("read_file failed: ") && ended.stderr.contains("is cut off"), "{ended:?}");
    let ended = sandbox.run(&["run", "-p", "go", "--json"]);
    let result: Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(result["stop"], "max_tokens", "{result}");
}
