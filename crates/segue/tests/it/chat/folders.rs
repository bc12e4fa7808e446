//! Tool calls that wait in one folder and are answered from another one, and where their folder is gone.

use std::path::{Path, PathBuf};

use serde_json::json;
use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::handoff::summary_draft;
use crate::sandbox::{ProgramOutput, TestSandbox};
use crate::server::ServeProcess;
use crate::terminal::PtyTerminal;

const PROMPT: &str = "segue> ";
const QUESTION: &str = "[Esc] Decide later";

fn asking_server(command: &str) -> ScriptedServer {
    ScriptedServer::start(Script::new([
        ScriptedReply::call("c1", "execute", json!({"command": command})),
        ScriptedReply { always: true, ..ScriptedReply::text("Went on.\n") },
    ]))
    .unwrap()
}

/// Returns another folder beside the one the program is started in.
fn other_folder(sandbox: &TestSandbox) -> PathBuf {
    let folder = sandbox.work_folder().with_file_name("other");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn run_in(sandbox: &TestSandbox, folder: &Path, args: &[&str]) -> ProgramOutput {
    sandbox.command(args).current_dir(folder).output().unwrap().into()
}

/// Asks about `rm -rf build` in another folder than the one in which the thread was begun; both have such a folder.
fn ask_in_other_folder(sandbox: &TestSandbox) -> PathBuf {
    let other = other_folder(sandbox);
    assert_eq!(sandbox.run(&["run", "-p", "hello"]).code, 0);
    for folder in [&sandbox.work_folder(), &other] {
        std::fs::create_dir_all(folder.join("build")).unwrap();
    }
    let asked = run_in(sandbox, &other, &["run", "-t", "last", "-p", "clean up"]);
    assert_eq!(asked.code, 3, "{asked:?}");
    other
}

fn greeting_then_asking_server() -> ScriptedServer {
    ScriptedServer::start(Script::new([
        ScriptedReply::text("Hello.\n"),
        ScriptedReply::call("c1", "execute", json!({"command": "rm -rf build"})),
        ScriptedReply { always: true, ..ScriptedReply::text("Went on.\n") },
    ]))
    .unwrap()
}

#[test]
fn k6_a_call_is_made_in_the_folder_it_was_shown_for_and_in_no_other() {
    let server = greeting_then_asking_server();
    let sandbox = TestSandbox::new().with_model(&server);
    let other = ask_in_other_folder(&sandbox);
    let done = sandbox.run(&["decide", "last", "--approve"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(sandbox.work_folder().join("build").exists(), "nobody was asked about this one");
    assert!(!other.join("build").exists());
}

#[test]
fn k6_a_call_is_rejected_from_anywhere() {
    let server = greeting_then_asking_server();
    let sandbox = TestSandbox::new().with_model(&server);
    let other = ask_in_other_folder(&sandbox);
    std::fs::remove_dir_all(&other).unwrap();
    let done = sandbox.run(&["decide", "last", "--reject", "keep it"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "Went on.\n"), "{done:?}");
    assert!(sandbox.work_folder().join("build").exists());
}

#[test]
fn k6_where_the_folder_is_gone_the_call_is_asked_about_again_here() {
    let server = greeting_then_asking_server();
    let sandbox = TestSandbox::new().with_model(&server);
    let other = ask_in_other_folder(&sandbox);
    std::fs::remove_dir_all(&other).unwrap();
    let refused = sandbox.run(&["decide", "last", "--approve"]);
    refused.assert_error(2, "does not exist here");
    assert!(refused.stderr.contains("--here"), "{refused:?}");
    let asked = sandbox.run(&["decide", "last", "--here"]);
    assert_eq!(asked.code, 3, "{asked:?}");
    assert!(sandbox.work_folder().join("build").exists(), "nothing is done before the answer");
    assert_eq!(sandbox.run(&["decide", "last", "--approve"]).code, 0);
    assert!(!sandbox.work_folder().join("build").exists());
}

#[test]
fn k6_the_chat_shows_the_folder_and_offers_to_go_on_here() {
    let server = asking_server("touch made.txt");
    let sandbox = TestSandbox::new().with_model(&server);
    let other = other_folder(&sandbox);
    assert_eq!(run_in(&sandbox, &other, &["run", "-p", "do it"]).code, 3);
    std::fs::remove_dir_all(&other).unwrap();
    let terminal = PtyTerminal::start(&sandbox, 100, &["chat", "-t", "last"]);
    terminal.wait_for("/approve shows it.");
    terminal.press_keys("/approve\r");
    let screen = terminal.wait_for(QUESTION);
    assert!(screen.contains("does not exist here") && screen.contains("Continue here"), "{screen}");
    assert!(!screen.contains("Approve"), "{screen}");
    terminal.press_keys("h\r");
    let screen = terminal.wait_until("the question for this folder", |screen| {
        screen.contains("→ Continue here") && screen.contains("Approve")
    });
    assert!(screen.contains(&format!("in {}", sandbox.work_folder().display())), "{screen}");
    terminal.press_keys("y\r");
    terminal.wait_until("the end of the turn", |screen| {
        screen.contains("Went on.") && screen.trim_end().ends_with("segue>")
    });
    assert!(sandbox.work_folder().join("made.txt").exists());
    terminal.press_keys("\x04");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn decide_asks_again_after_going_on_here() {
    let server = asking_server("touch made.txt");
    let sandbox = TestSandbox::new().with_model(&server);
    let other = other_folder(&sandbox);
    assert_eq!(run_in(&sandbox, &other, &["run", "-p", "do it"]).code, 3);
    std::fs::remove_dir_all(&other).unwrap();
    let terminal = PtyTerminal::start(&sandbox, 100, &["decide", "last"]);
    terminal.wait_for(QUESTION);
    terminal.press_keys("h\r");
    terminal.wait_until("the question for this folder", |screen| {
        screen.contains("→ Continue here") && screen.contains("Approve")
    });
    terminal.press_keys("y\r");
    assert_eq!(terminal.end().0, 0);
    assert!(sandbox.work_folder().join("made.txt").exists());
}

/// Returns the child of a handoff of the example, whose folder does not exist on this machine.
fn handoff_child(sandbox: &TestSandbox) -> String {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/flaky-test.jsonl");
    let imported = sandbox.json(&["import", example, "--json"]);
    let thread = imported["threads"][0]["thread_id"].as_str().unwrap().to_owned();
    let accepted = sandbox.json(&["handoff", &thread, "--apply", "--json"]);
    accepted["child_thread_id"].as_str().unwrap().to_owned()
}

fn drafting_then_asking_server() -> ScriptedServer {
    ScriptedServer::start(Script::new([
        summary_draft("Flaky test"),
        ScriptedReply::call("c1", "execute", json!({"command": "touch made.txt"})),
        ScriptedReply { always: true, ..ScriptedReply::text("Went on.\n") },
    ]))
    .unwrap()
}

#[test]
fn the_readmes_own_way_leads_through_the_first_call_that_asks() {
    for (answer, made) in [("y", true), ("n", false)] {
        let server = drafting_then_asking_server();
        let sandbox = TestSandbox::new().with_model(&server);
        let child = handoff_child(&sandbox);
        let terminal = PtyTerminal::start(&sandbox, 100, &["chat", "-t", &child]);
        terminal.wait_for(PROMPT);
        terminal.press_keys("go on\r");
        terminal.wait_for(QUESTION);
        terminal.press_keys(&format!("{answer}\r"));
        if !made {
            terminal.wait_for("Reason (Enter for none)");
            terminal.press_keys("\r");
        }
        terminal.wait_until("the end of the turn", |screen| {
            screen.contains("Went on.") && screen.trim_end().ends_with("segue>")
        });
        assert_eq!(sandbox.work_folder().join("made.txt").exists(), made, "{answer}");
        terminal.press_keys("\x04");
        terminal.end();
    }
}

#[test]
fn the_readmes_own_way_leads_through_it_for_programs_and_over_http() {
    for (answer, made) in [("--approve", true), ("--reject", false)] {
        let server = drafting_then_asking_server();
        let sandbox = TestSandbox::new().with_model(&server);
        let child = handoff_child(&sandbox);
        assert_eq!(sandbox.run(&["run", "-t", &child, "-p", "go on"]).code, 3);
        let done = sandbox.run(&["decide", &child, answer]);
        assert_eq!((done.code, done.stdout.as_str()), (0, "Went on.\n"), "{done:?}");
        assert_eq!(sandbox.work_folder().join("made.txt").exists(), made, "{answer}");
        let shown = sandbox.json(&["threads", "show", &child, "--json"]);
        assert_eq!(
            shown["metadata"]["workspace"],
            sandbox.work_folder().to_str().unwrap(),
            "it has a home now"
        );
    }
    let server = drafting_then_asking_server();
    let sandbox = TestSandbox::new().with_model(&server);
    let child = handoff_child(&sandbox);
    let serving = ServeProcess::start(&sandbox);
    let api = crate::serve::owner_client(&serving);
    let wait = |body: &serde_json::Value| {
        let body = json!({"assistant_id": "agent"})
            .as_object()
            .unwrap()
            .iter()
            .chain(body.as_object().unwrap())
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect::<serde_json::Map<_, _>>();
        let answer = api.post(&format!("/threads/{child}/runs/wait"), &body.into());
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    };
    wait(&json!({"input": {"messages": [{"role": "user", "content": "go on"}]}}));
    let thread = api.get(&format!("/api/threads/{child}")).json();
    assert_eq!(thread["workspace"]["exists"], true, "{thread}");
    assert_eq!(thread["workspace"]["path"], thread["workspace"]["server_path"]);
    wait(&json!({"command": {"resume": {"decisions": [{"type": "approve"}]}}}));
    assert!(sandbox.work_folder().join("made.txt").exists());
}

#[test]
fn k6_a_page_can_have_a_call_asked_about_again_in_the_servers_folder() {
    let server = asking_server("touch made.txt");
    let sandbox = TestSandbox::new().with_model(&server);
    let other = other_folder(&sandbox);
    assert_eq!(run_in(&sandbox, &other, &["run", "-p", "do it"]).code, 3);
    std::fs::remove_dir_all(&other).unwrap();
    let thread = sandbox.threads()[0]["thread_id"].as_str().unwrap().to_owned();
    let serving = ServeProcess::start(&sandbox);
    let api = crate::serve::owner_client(&serving);
    let shown = api.get(&format!("/api/threads/{thread}")).json();
    assert_eq!(shown["workspace"]["exists"], false, "{shown}");
    assert_eq!(shown["interrupts"][0]["value"]["workspace"], other.to_str().unwrap());
    let moved = api.post(&format!("/api/threads/{thread}/rehome"), &json!({}));
    assert_eq!(moved.status, 200, "{}", moved.text());
    let run = moved.json()["run_id"].as_str().unwrap().to_owned();
    api.get(&format!("/threads/{thread}/runs/{run}/join"));
    let shown = api.get(&format!("/api/threads/{thread}")).json();
    assert_eq!(shown["workspace"]["path"], sandbox.work_folder().to_str().unwrap(), "{shown}");
    let resume =
        json!({"assistant_id": "agent", "command": {"resume": {"decisions": [{"type": "approve"}]}}});
    assert_eq!(api.post(&format!("/threads/{thread}/runs/wait"), &resume).status, 200);
    assert!(sandbox.work_folder().join("made.txt").exists());
}

/// Returns the only question that waits.
fn pending_question(sandbox: &TestSandbox) -> serde_json::Value {
    let shown = sandbox.run(&["decide", "last", "--json"]);
    assert_eq!(shown.code, 3, "{shown:?}");
    let result: serde_json::Value = serde_json::from_str(shown.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(result["interrupts"].as_array().unwrap().len(), 1, "{result}");
    result["interrupts"][0].clone()
}

fn interrupt_id(question: &serde_json::Value) -> String {
    question["interrupt_id"].as_str().unwrap().to_owned()
}

#[test]
fn k6_a_rule_holds_in_the_folder_of_the_call_it_was_made_about() {
    let call = |id: &str| ScriptedReply::call(id, "execute", json!({"command": "touch made.txt"}));
    let answers = ["c1", "c2", "c3"].into_iter().flat_map(|id| [call(id), ScriptedReply::text("Went on.\n")]);
    let server = ScriptedServer::start(Script::new(answers)).unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let other = other_folder(&sandbox);
    assert_eq!(run_in(&sandbox, &other, &["run", "-p", "do it"]).code, 3);
    let terminal = PtyTerminal::start(&sandbox, 100, &["chat", "-t", "last"]);
    terminal.wait_for("/approve shows it.");
    terminal.press_keys("/approve\r");
    let screen = terminal.wait_for(QUESTION);
    assert!(screen.contains("which is not this folder"), "{screen}");
    terminal.press_keys("p\r");
    terminal.wait_for("Went on.");
    terminal.press_keys("\x04");
    terminal.end();
    let again = run_in(&sandbox, &other, &["run", "-p", "again"]);
    assert_eq!(again.code, 0, "the rule holds there: {again:?}");
    assert_eq!(sandbox.run(&["run", "-p", "here"]).code, 3, "and not here");
}

#[test]
fn k6_the_folder_and_the_question_are_named_wherever_the_call_is_shown() {
    let server = greeting_then_asking_server();
    let sandbox = TestSandbox::new().with_model(&server);
    let other = other_folder(&sandbox);
    assert_eq!(sandbox.run(&["run", "-p", "hello"]).code, 0);
    let asked = run_in(&sandbox, &other, &["run", "-t", "last", "-p", "clean up"]);
    let question = pending_question(&sandbox);
    assert_eq!(question["payload"]["workspace"], other.to_str().unwrap());
    let (call, decide) = (
        format!("`execute rm -rf build` in {}", other.display()),
        format!("segue decide {}", interrupt_id(&question)),
    );
    assert!(asked.stderr.contains(&call) && asked.stderr.contains(&decide), "{asked:?}");
    let refused = sandbox.run(&["decide", "last"]);
    assert!(refused.stderr.contains(&call) && refused.stderr.contains(&decide), "{refused:?}");
    let shown = sandbox.run(&["threads", "show", "last"]).stdout;
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains(&call) && shown.contains(&decide), "{shown}");
    let done = sandbox.run(&["decide", &interrupt_id(&question), "--approve"]);
    assert!(done.code == 0 && done.stderr.contains(&call), "{done:?}");
    let again = sandbox.run(&["decide", &interrupt_id(&question), "--reject"]);
    again.assert_error(1, "resolved already");
    assert!(!again.stderr.contains("still waits") && again.stderr.contains("segue history"), "{again:?}");
}

#[test]
fn k6_a_question_that_does_not_wait_moves_no_thread() {
    let server = asking_server("touch made.txt");
    let sandbox = TestSandbox::new().with_model(&server);
    let other = other_folder(&sandbox);
    assert_eq!(run_in(&sandbox, &other, &["run", "-p", "do it"]).code, 3);
    let first = interrupt_id(&pending_question(&sandbox));
    run_in(&sandbox, &other, &["decide", &first, "--here"]).assert_error(2, "already");
    assert_eq!(sandbox.run(&["decide", &first, "--here"]).code, 3);
    let second = interrupt_id(&pending_question(&sandbox));
    run_in(&sandbox, &other, &["decide", &first, "--approve"]).assert_error(1, "withdrawn already");
    run_in(&sandbox, &other, &["decide", &first, "--here"]).assert_error(1, "withdrawn already");
    assert_eq!(interrupt_id(&pending_question(&sandbox)), second);

    let thread = sandbox.threads()[0]["thread_id"].as_str().unwrap().to_owned();
    let serving = ServeProcess::start(&sandbox);
    let api = crate::serve::owner_client(&serving);
    let move_it = |body: &serde_json::Value| api.post(&format!("/api/threads/{thread}/rehome"), body);
    assert_eq!(move_it(&json!({"interrupt_id": first})).status, 409);
    let already = move_it(&json!({"interrupt_id": second}));
    assert!(already.status == 409 && already.text().contains("already"), "{}", already.text());
    assert_eq!(move_it(&json!({"interrupt": second})).status, 422);
    assert_eq!(move_it(&json!({"interrupt_id": "x"})).status, 422);
    let resume = json!({"assistant_id": "agent", "command": {"resume": {"decisions": [{"type": "reject"}]}}});
    assert_eq!(api.post(&format!("/threads/{thread}/runs/wait"), &resume).status, 200);
    assert_eq!(move_it(&json!({})).status, 409, "nothing is pending");
}

#[cfg(unix)]
#[test]
fn k6_a_link_in_place_of_the_folder_is_another_folder() {
    let server = greeting_then_asking_server();
    let sandbox = TestSandbox::new().with_model(&server);
    let other = ask_in_other_folder(&sandbox);
    std::fs::rename(&other, other.with_file_name("away")).unwrap();
    std::os::unix::fs::symlink(sandbox.work_folder(), &other).unwrap();
    let first = interrupt_id(&pending_question(&sandbox));
    sandbox.run(&["decide", &first, "--approve"]).assert_error(2, "does not exist here");
    assert!(sandbox.work_folder().join("build").exists());
    assert_eq!(sandbox.run(&["decide", &first, "--here"]).code, 3);
    assert_eq!(sandbox.run(&["decide", "last", "--approve"]).code, 0);
    assert!(!sandbox.work_folder().join("build").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_whose_path_cannot_be_stored_begins_no_run() {
    use std::os::unix::ffi::OsStrExt;
    let server = asking_server("touch made.txt");
    let sandbox = TestSandbox::new().with_model(&server);
    let folder = sandbox.work_folder().join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    std::fs::create_dir(&folder).unwrap();
    run_in(&sandbox, &folder, &["run", "-p", "do it"]).assert_error(2, "not UTF-8");
    assert!(sandbox.threads().is_empty());
    assert_eq!(sandbox.run(&["run", "-p", "do it"]).code, 3);
    run_in(&sandbox, &folder, &["run", "-t", "last", "-p", "more"]).assert_error(2, "not UTF-8");
    let done = run_in(&sandbox, &folder, &["decide", "last", "--approve"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(sandbox.work_folder().join("made.txt").exists());
}

#[cfg(unix)]
#[test]
fn a_folder_that_was_deleted_stops_no_command_that_needs_none() {
    let server = asking_server("touch made.txt");
    let sandbox = TestSandbox::new().with_model(&server);
    let gone = sandbox.work_folder().join("gone");
    let from_there = |args: &[&str]| -> ProgramOutput {
        std::fs::create_dir_all(&gone).unwrap();
        let program = sandbox.command(args);
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "rmdir ../gone && exec \"$0\" \"$@\""]).arg(program.get_program()).args(args);
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        shell.env("PWD", &gone).current_dir(&gone).output().unwrap().into()
    };
    assert_eq!(run_in(&sandbox, &sandbox.work_folder(), &["run", "-p", "do it"]).code, 3);
    let listed = from_there(&["threads", "list"]);
    assert_eq!(listed.code, 0, "{listed:?}");
    from_there(&["run", "-p", "do it"]).assert_error(2, "use the current folder");
    from_there(&["decide", "last", "--here"]).assert_error(2, "use the current folder");
    let done = from_there(&["decide", "last", "--reject"]);
    assert_eq!(done.code, 0, "{done:?}");
}

#[test]
fn k6_a_folder_that_disappears_while_the_question_is_open_can_be_left_there() {
    let server = asking_server("touch made.txt");
    let sandbox = TestSandbox::new().with_model(&server);
    let other = other_folder(&sandbox);
    assert_eq!(run_in(&sandbox, &other, &["run", "-p", "do it"]).code, 3);
    let terminal = PtyTerminal::start(&sandbox, 100, &["chat", "-t", "last"]);
    terminal.wait_for("/approve shows it.");
    terminal.press_keys("/approve\r");
    terminal.wait_for(QUESTION);
    std::fs::remove_dir_all(&other).unwrap();
    terminal.press_keys("y\r");
    terminal.wait_for("[h] Continue here");
    terminal.press_keys("h\r");
    let here = format!("in {}", sandbox.work_folder().display());
    terminal.wait_until("the question for this folder", |screen| {
        let asked = screen.rsplit_once("→ Continue here");
        asked.is_some_and(|(_, asked)| asked.contains(&here) && asked.contains(QUESTION))
    });
    terminal.press_keys("y\r");
    terminal.wait_for("Went on.");
    assert!(sandbox.work_folder().join("made.txt").exists());
    terminal.press_keys("\x04");
    terminal.end();
}
