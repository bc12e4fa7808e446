//! Pending tool calls that are answered from another folder than the one they were requested in, or whose
//! folder no longer exists.

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

/// Creates another folder next to the one in which the program runs, and returns it.
fn other_folder(sandbox: &TestSandbox) -> PathBuf {
    let folder = sandbox.work_folder().with_file_name("other");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn run_in(sandbox: &TestSandbox, folder: &Path, args: &[&str]) -> ProgramOutput {
    sandbox.command(args).current_dir(folder).output().unwrap().into()
}

/// Leaves a pending call of `rm -rf build` in another folder than the thread's first one. Both folders
/// contain `build`.
fn ask_in_other_folder(sandbox: &TestSandbox) -> PathBuf {
    let other = other_folder(sandbox);
    assert_eq!(sandbox.run(&["run", "-p", "hello"]).code, 0);
    for folder in [&sandbox.work_folder(), &other] {
        std::fs::create_dir_all(folder.join("build")).unwrap();
    }
    let pending = run_in(sandbox, &other, &["run", "-t", "last", "-p", "clean up"]);
    assert_eq!(pending.code, 3, "{pending:?}");
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
fn k6_a_call_runs_only_in_the_folder_that_was_shown() {
    let server = greeting_then_asking_server();
    let sandbox = TestSandbox::new().with_model(&server);
    let other = ask_in_other_folder(&sandbox);
    let done = sandbox.run(&["decide", "last", "--approve"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(sandbox.work_folder().join("build").exists(), "the call in this folder was not approved");
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
fn k6_a_call_whose_folder_was_deleted_needs_a_new_approval_here() {
    let server = greeting_then_asking_server();
    let sandbox = TestSandbox::new().with_model(&server);
    let other = ask_in_other_folder(&sandbox);
    std::fs::remove_dir_all(&other).unwrap();
    let refused = sandbox.run(&["decide", "last", "--approve"]);
    refused.assert_error(2, "does not exist here");
    assert!(refused.stderr.contains("--here"), "{refused:?}");
    let pending = sandbox.run(&["decide", "last", "--here"]);
    assert_eq!(pending.code, 3, "{pending:?}");
    assert!(sandbox.work_folder().join("build").exists(), "nothing is done before the answer");
    assert_eq!(sandbox.run(&["decide", "last", "--approve"]).code, 0);
    assert!(!sandbox.work_folder().join("build").exists());
}

#[test]
fn k6_the_chat_shows_the_folder_and_offers_to_continue_here() {
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
fn decide_asks_again_after_continue_here() {
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

/// Returns the child of a handoff of the example session, whose folder does not exist on this machine.
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
fn the_steps_of_the_readme_work_with_a_tool_call_that_needs_approval() {
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
fn the_steps_of_the_readme_work_for_programs_and_over_http() {
    for (answer, made) in [("--approve", true), ("--reject", false)] {
        let server = drafting_then_asking_server();
        let sandbox = TestSandbox::new().with_model(&server);
        let child = handoff_child(&sandbox);
        assert_eq!(sandbox.run(&["run", "-t", &child, "-p", "go on"]).code, 3);
        let done = sandbox.run(&["decide", &child, answer]);
        assert_eq!((done.code, done.stdout.as_str()), (0, "Went on.\n"), "{done:?}");
        assert_eq!(sandbox.work_folder().join("made.txt").exists(), made, "{answer}");
        let details = sandbox.json(&["threads", "show", &child, "--json"]);
        assert_eq!(
            details["metadata"]["workspace"],
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
fn k6_a_page_can_move_a_pending_call_to_the_servers_folder() {
    let server = asking_server("touch made.txt");
    let sandbox = TestSandbox::new().with_model(&server);
    let other = other_folder(&sandbox);
    assert_eq!(run_in(&sandbox, &other, &["run", "-p", "do it"]).code, 3);
    std::fs::remove_dir_all(&other).unwrap();
    let thread = sandbox.threads()[0]["thread_id"].as_str().unwrap().to_owned();
    let serving = ServeProcess::start(&sandbox);
    let api = crate::serve::owner_client(&serving);
    let details = api.get(&format!("/api/threads/{thread}")).json();
    assert_eq!(details["workspace"]["exists"], false, "{details}");
    assert_eq!(details["interrupts"][0]["value"]["workspace"], other.to_str().unwrap());
    let moved = api.post(&format!("/api/threads/{thread}/rehome"), &json!({}));
    assert_eq!(moved.status, 200, "{}", moved.text());
    let run = moved.json()["run_id"].as_str().unwrap().to_owned();
    api.get(&format!("/threads/{thread}/runs/{run}/join"));
    let details = api.get(&format!("/api/threads/{thread}")).json();
    assert_eq!(details["workspace"]["path"], sandbox.work_folder().to_str().unwrap(), "{details}");
    let resume =
        json!({"assistant_id": "agent", "command": {"resume": {"decisions": [{"type": "approve"}]}}});
    assert_eq!(api.post(&format!("/threads/{thread}/runs/wait"), &resume).status, 200);
    assert!(sandbox.work_folder().join("made.txt").exists());
}

/// Returns the only pending question.
fn pending_question(sandbox: &TestSandbox) -> serde_json::Value {
    let output = sandbox.run(&["decide", "last", "--json"]);
    assert_eq!(output.code, 3, "{output:?}");
    let result: serde_json::Value = serde_json::from_str(output.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(result["interrupts"].as_array().unwrap().len(), 1, "{result}");
    result["interrupts"][0].clone()
}

fn interrupt_id(question: &serde_json::Value) -> String {
    question["interrupt_id"].as_str().unwrap().to_owned()
}

#[test]
fn k6_a_rule_applies_to_the_folder_of_its_call() {
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
    let second_run = run_in(&sandbox, &other, &["run", "-p", "again"]);
    assert_eq!(second_run.code, 0, "the rule holds there: {second_run:?}");
    assert_eq!(sandbox.run(&["run", "-p", "here"]).code, 3, "and not here");
}

#[test]
fn k6_the_folder_and_the_question_are_named_wherever_the_call_is_shown() {
    let server = greeting_then_asking_server();
    let sandbox = TestSandbox::new().with_model(&server);
    let other = other_folder(&sandbox);
    assert_eq!(sandbox.run(&["run", "-p", "hello"]).code, 0);
    let pending = run_in(&sandbox, &other, &["run", "-t", "last", "-p", "clean up"]);
    let question = pending_question(&sandbox);
    assert_eq!(question["payload"]["workspace"], other.to_str().unwrap());
    let (call, decide) = (
        format!("`execute rm -rf build` in {}", other.display()),
        format!("segue decide {}", interrupt_id(&question)),
    );
    assert!(pending.stderr.contains(&call) && pending.stderr.contains(&decide), "{pending:?}");
    let refused = sandbox.run(&["decide", "last"]);
    assert!(refused.stderr.contains(&call) && refused.stderr.contains(&decide), "{refused:?}");
    let details = sandbox.run(&["threads", "show", "last"]).stdout;
    let details = details.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(details.contains(&call) && details.contains(&decide), "{details}");
    let done = sandbox.run(&["decide", &interrupt_id(&question), "--approve"]);
    assert!(done.code == 0 && done.stderr.contains(&call), "{done:?}");
    let second_run = sandbox.run(&["decide", &interrupt_id(&question), "--reject"]);
    second_run.assert_error(1, "no longer pending (resolved)");
    assert!(
        !second_run.stderr.contains("still waits") && second_run.stderr.contains("segue history"),
        "{second_run:?}"
    );
}

#[test]
fn k6_a_question_that_is_not_pending_moves_no_thread() {
    let server = asking_server("touch made.txt");
    let sandbox = TestSandbox::new().with_model(&server);
    let other = other_folder(&sandbox);
    assert_eq!(run_in(&sandbox, &other, &["run", "-p", "do it"]).code, 3);
    let first = interrupt_id(&pending_question(&sandbox));
    run_in(&sandbox, &other, &["decide", &first, "--here"]).assert_error(2, "already");
    assert_eq!(sandbox.run(&["decide", &first, "--here"]).code, 3);
    let second = interrupt_id(&pending_question(&sandbox));
    run_in(&sandbox, &other, &["decide", &first, "--approve"])
        .assert_error(1, "no longer pending (withdrawn)");
    run_in(&sandbox, &other, &["decide", &first, "--here"]).assert_error(1, "no longer pending (withdrawn)");
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
fn a_folder_whose_path_cannot_be_stored_starts_no_run() {
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
fn commands_that_need_no_folder_work_in_a_deleted_one() {
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
fn k6_a_call_whose_folder_disappears_during_the_question_can_continue_here() {
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
        let pending = screen.rsplit_once("→ Continue here");
        pending.is_some_and(|(_, pending)| pending.contains(&here) && pending.contains(QUESTION))
    });
    terminal.press_keys("y\r");
    terminal.wait_for("Went on.");
    assert!(sandbox.work_folder().join("made.txt").exists());
    terminal.press_keys("\x04");
    terminal.end();
}
