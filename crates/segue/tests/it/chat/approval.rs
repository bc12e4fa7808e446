//! Tool calls that wait for a person: the panel in the chat, and `segue decide` for runs without a terminal.

use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::sandbox::TestSandbox;
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

fn start_and_ask(sandbox: &TestSandbox) -> (PtyTerminal, String) {
    let terminal = PtyTerminal::start(sandbox, 80, &["chat"]);
    terminal.wait_for(PROMPT);
    terminal.press_keys("do it\r");
    let screen = terminal.wait_for(QUESTION);
    (terminal, screen)
}

fn wait_for_continuation(terminal: &PtyTerminal) -> String {
    terminal.wait_until("the end of the turn", |screen| {
        screen.contains("Went on.") && screen.trim_end().ends_with("segue>")
    })
}

fn sent_messages(server: &ScriptedServer) -> String {
    server.requests().last().unwrap().body["messages"].to_string()
}

#[test]
fn a_call_is_shown_and_made_when_a_person_approves_it_and_not_by_enter_alone() {
    let server = asking_server("touch made.txt");
    let sandbox = TestSandbox::new().with_model(&server);
    let (terminal, screen) = start_and_ask(&sandbox);
    assert!(screen.contains("$ touch made.txt"), "{screen}");
    terminal.press_keys("\r\r ");
    terminal.press_keys("v\r");
    terminal.wait_until("the question again", |screen| {
        screen.contains("→ View all") && screen.contains(QUESTION)
    });
    assert!(!sandbox.work_folder().join("made.txt").exists());
    terminal.press_keys("y\r");
    let screen = wait_for_continuation(&terminal);
    assert!(screen.contains("✓ execute touch made.txt"), "{screen}");
    assert!(sandbox.work_folder().join("made.txt").exists());
    terminal.press_keys("\x04");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn a_rejection_goes_to_the_agent_with_its_reason() {
    let server = asking_server("touch made.txt");
    let sandbox = TestSandbox::new().with_model(&server);
    let (terminal, _) = start_and_ask(&sandbox);
    terminal.press_keys("n\r");
    terminal.wait_for("Reason (Enter for none)");
    terminal.press_keys("not in this folder\r");
    let screen = wait_for_continuation(&terminal);
    assert!(screen.contains("✗ execute touch made.txt · failed: The person declined"), "{screen}");
    assert!(sent_messages(&server).contains("not in this folder"), "{}", sent_messages(&server));
    assert!(!sandbox.work_folder().join("made.txt").exists());
    terminal.press_keys("\x04");
    terminal.end();
}

#[test]
fn an_answer_in_the_place_of_the_tool_is_its_result() {
    let server = asking_server("touch made.txt");
    let sandbox = TestSandbox::new().with_model(&server);
    let (terminal, _) = start_and_ask(&sandbox);
    terminal.press_keys("r\r");
    terminal.wait_for("Result to use instead of the call");
    terminal.press_keys("it is there already\r");
    let screen = wait_for_continuation(&terminal);
    assert!(screen.contains("↩ execute touch made.txt · answered by you"), "{screen}");
    assert!(sent_messages(&server).contains("it is there already"), "{}", sent_messages(&server));
    terminal.press_keys("\x04");
    terminal.end();
}

#[test]
fn what_hides_in_a_command_is_shown_and_warned_about() {
    let server = asking_server("touch a\u{202e}txt.b");
    let sandbox = TestSandbox::new().with_model(&server);
    let (terminal, screen) = start_and_ask(&sandbox);
    assert!(screen.contains("U+202E") && screen.contains("⚠"), "{screen}");
    terminal.press_keys("\x1b");
    terminal.wait_for("A tool call needs a decision: /approve shows it.");
    terminal.press_keys("/approve\r");
    terminal.wait_until("the question again", |screen| {
        screen.contains("→ Decide later") && screen.contains(QUESTION)
    });
    terminal.press_keys("n\r");
    terminal.wait_for("Reason (Enter for none)");
    terminal.press_keys("\r");
    wait_for_continuation(&terminal);
    terminal.press_keys("\x04");
    terminal.end();
}

#[test]
fn a_rule_made_for_the_project_holds_in_the_next_process() {
    let script = || {
        Script::new([
            ScriptedReply::call("c1", "write_file", json!({"path": "a.txt", "content": "one\ntwo\n"})),
            ScriptedReply { always: true, ..ScriptedReply::text("Went on.\n") },
        ])
    };
    let server = ScriptedServer::start(script()).unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let (terminal, screen) = start_and_ask(&sandbox);
    assert!(screen.contains("+one") && screen.contains("[p] Always in this project"), "{screen}");
    terminal.press_keys("p\r");
    let screen = wait_for_continuation(&terminal);
    assert!(screen.contains("✓ write_file a.txt"), "{screen}");
    terminal.press_keys("\x04");
    terminal.end();
    let server = ScriptedServer::start(script()).unwrap();
    let mut sandbox = sandbox;
    sandbox.set_variable("ANTHROPIC_BASE_URL", server.url());
    std::fs::remove_file(sandbox.work_folder().join("a.txt")).unwrap();
    let ended = sandbox.run(&["run", "-p", "again"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "Went on.\n"), "{ended:?}");
}

#[test]
fn a_run_without_a_terminal_stops_with_its_own_code_and_goes_on_with_the_decision() {
    let server = asking_server("touch made.txt");
    let sandbox = TestSandbox::new().with_model(&server);
    let ended = sandbox.run(&["run", "-p", "do it"]);
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(
        ended.stderr.contains("execute touch made.txt") && ended.stderr.contains("segue decide"),
        "{ended:?}"
    );
    assert_eq!(sandbox.threads()[0]["status"], "interrupted");
    let work = sandbox.work_folder();
    let about =
        format!("decide on `execute touch made.txt` in {}: there is no terminal to ask on", work.display());
    sandbox.run(&["decide", "last"]).assert_error(2, &about);
    let piped = sandbox.run_with(&["chat", "-t", "last"], "/approve\n");
    let decide = "A tool call needs a decision: `segue decide ";
    assert_eq!(piped.stdout.matches(decide).count() + piped.stderr.matches(decide).count(), 2, "{piped:?}");
    let ended = sandbox.run(&["decide", "last", "--approve"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "Went on.\n"), "{ended:?}");
    assert!(sandbox.work_folder().join("made.txt").exists());
    sandbox.run(&["decide", "last", "--approve"]).assert_error(2, "nothing is pending");
}

#[test]
fn a_program_answers_by_interrupt_id_with_a_file() {
    let server = asking_server("touch made.txt");
    let sandbox = TestSandbox::new().with_model(&server);
    let ended = sandbox.run(&["run", "-p", "do it", "--json"]);
    assert_eq!(ended.code, 3, "{ended:?}");
    let result: Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(result["status"], "interrupted");
    let id = result["interrupts"][0]["interrupt_id"].as_str().unwrap();
    let name = &result["interrupts"][0]["payload"]["action_requests"][0]["name"];
    let edit =
        json!({"type": "edit", "edited_action": {"name": name, "args": {"command": "touch other.txt"}}});
    let file = sandbox.write_file("decision.json", json!({"decisions": [edit]}).to_string());
    let ended = sandbox.run(&["decide", id, "--decision-file", &file, "--json"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let result: Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(result["answer"], "Went on.\n");
    assert!(
        sandbox.work_folder().join("other.txt").exists() && !sandbox.work_folder().join("made.txt").exists()
    );
}

#[test]
fn policies_decide_where_nobody_is_asked() {
    for (policy, made) in [("deny", false), ("allow", true)] {
        let server = asking_server("touch made.txt");
        let sandbox = TestSandbox::new().with_model(&server);
        let ended = sandbox.run(&["run", "-p", "do it", "--approve", policy]);
        assert_eq!((ended.code, ended.stdout.as_str()), (0, "Went on.\n"), "{policy}: {ended:?}");
        assert_eq!(sandbox.work_folder().join("made.txt").exists(), made, "{policy}");
    }
}

#[test]
fn what_is_typed_or_pasted_while_the_question_appears_does_not_answer_it() {
    let server = asking_server("touch made.txt");
    let sandbox = TestSandbox::new().with_model(&server);
    let (terminal, _) = start_and_ask(&sandbox);
    terminal.press_keys("anyway please");
    terminal.wait_for("> anyway please");
    terminal.press_keys("\r");
    terminal.wait_for("A key selects an answer, Enter confirms it.");
    terminal.press_keys("\x1b[200~y\r\x1b[201~");
    terminal.wait_for("paste ignored");
    assert!(!sandbox.work_folder().join("made.txt").exists());
    terminal.press_keys("\x1b");
    let screen = terminal.wait_for("segue> anyway please");
    assert!(screen.contains("→ Decide later"), "{screen}");
    assert_eq!(server.requests().len(), 1);
    terminal.press_keys("\r");
    let screen = wait_for_continuation(&terminal);
    assert!(screen.contains("Your message cancels 1 pending tool call"), "{screen}");
    assert!(!sandbox.work_folder().join("made.txt").exists());
    terminal.press_keys("\x04");
    terminal.end();
}

#[test]
fn decisions_that_do_not_fit_the_question_are_told_and_it_still_waits() {
    let server = asking_server("touch made.txt");
    let sandbox = TestSandbox::new().with_model(&server);
    assert_eq!(sandbox.run(&["run", "-p", "do it"]).code, 3);
    for (decisions, told) in [
        (json!([{"type": "approve"}, {"type": "approve"}]), "the question needs 1, the file has 2"),
        (json!([{"type": "preview"}]), "cannot be previewed"),
    ] {
        let file = sandbox.write_file("decision.json", json!({"decisions": decisions}).to_string());
        sandbox.run(&["decide", "last", "--decision-file", &file]).assert_error(2, told);
    }
    let ended = sandbox.run(&["run", "-t", "last", "-p", "something else"]);
    assert!(
        ended.code == 0 && ended.stderr.contains("Your message cancels 1 pending tool call"),
        "{ended:?}"
    );
    assert!(!sandbox.work_folder().join("made.txt").exists());
}

#[test]
fn what_was_typed_for_an_answer_is_there_again_after_esc() {
    let server = asking_server("touch made.txt");
    let sandbox = TestSandbox::new().with_model(&server);
    let (terminal, _) = start_and_ask(&sandbox);
    for again in ["The file ", "is there."] {
        terminal.press_keys("r\r");
        terminal.wait_for("Result to use instead of the call");
        terminal.press_keys(again);
        terminal.wait_for(again.trim());
        if again == "The file " {
            terminal.press_keys("\x1b");
            terminal.wait_until("the question again", |screen| screen.trim_end().contains("Decide later"));
        }
    }
    terminal.press_keys("\r");
    wait_for_continuation(&terminal);
    assert!(sent_messages(&server).contains("The file is there."), "{}", sent_messages(&server));
    terminal.press_keys("\x04");
    terminal.end();
}

#[test]
fn a_piped_line_after_approve_answers_the_call() {
    let server = asking_server("touch made.txt");
    let sandbox = TestSandbox::new().with_model(&server);
    assert_eq!(sandbox.run(&["run", "-p", "do it"]).code, 3);
    let ended = sandbox.run_with(&["chat", "--plain", "-t", "last"], "/approve\ny\n/quit\n");
    assert!(ended.stdout.contains("Went on."), "{ended:?}");
    assert!(sandbox.work_folder().join("made.txt").exists());
}
