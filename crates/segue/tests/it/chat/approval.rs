//! Tool calls that wait for approval: the panel in the chat, and `segue decide` for runs without a
//! terminal.

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
fn a_call_runs_only_after_approval_and_enter_alone_does_not_approve() {
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
    assert!(
        screen.contains("✗ execute touch made.txt · declined by the user: not in this folder"),
        "{screen}"
    );
    assert!(sent_messages(&server).contains("not in this folder"), "{}", sent_messages(&server));
    assert!(!sandbox.work_folder().join("made.txt").exists());
    terminal.press_keys("\x04");
    terminal.end();
}

#[test]
fn an_answer_instead_of_the_tool_is_the_calls_result() {
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
fn hidden_characters_in_a_command_are_shown_with_a_warning() {
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
fn a_project_rule_applies_in_the_next_process() {
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
    let output = sandbox.run(&["run", "-p", "again"]);
    assert_eq!((output.code, output.stdout.as_str()), (0, "Went on.\n"), "{output:?}");
}

#[test]
fn a_run_without_a_terminal_stops_with_its_own_exit_code_and_resumes_with_the_decision() {
    let server = asking_server("touch made.txt");
    let sandbox = TestSandbox::new().with_model(&server);
    let output = sandbox.run(&["run", "-p", "do it"]);
    assert_eq!(output.code, 3, "{output:?}");
    assert!(
        output.stderr.contains("execute touch made.txt") && output.stderr.contains("segue decide"),
        "{output:?}"
    );
    assert_eq!(sandbox.threads()[0]["status"], "interrupted");
    let work = sandbox.work_folder();
    let about =
        format!("decide on `execute touch made.txt` in {}: there is no terminal to ask on", work.display());
    sandbox.run(&["decide", "last"]).assert_error(2, &about);
    let piped = sandbox.run_with(&["chat", "-t", "last"], "/approve\n");
    let decide = "A tool call needs a decision: `segue decide ";
    assert_eq!(piped.stdout.matches(decide).count() + piped.stderr.matches(decide).count(), 2, "{piped:?}");
    let output = sandbox.run(&["decide", "last", "--approve"]);
    assert_eq!((output.code, output.stdout.as_str()), (0, "Went on.\n"), "{output:?}");
    assert!(sandbox.work_folder().join("made.txt").exists());
    sandbox.run(&["decide", "last", "--approve"]).assert_error(2, "nothing is pending");
}

#[test]
fn a_program_answers_by_interrupt_id_with_a_file() {
    let server = asking_server("touch made.txt");
    let sandbox = TestSandbox::new().with_model(&server);
    let output = sandbox.run(&["run", "-p", "do it", "--json"]);
    assert_eq!(output.code, 3, "{output:?}");
    let result: Value = serde_json::from_str(output.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(result["status"], "interrupted");
    let id = result["interrupts"][0]["interrupt_id"].as_str().unwrap();
    let name = &result["interrupts"][0]["payload"]["action_requests"][0]["name"];
    let edit =
        json!({"type": "edit", "edited_action": {"name": name, "args": {"command": "touch other.txt"}}});
    let file = sandbox.write_file("decision.json", json!({"decisions": [edit]}).to_string());
    let output = sandbox.run(&["decide", id, "--decision-file", &file, "--json"]);
    assert_eq!(output.code, 0, "{output:?}");
    let result: Value = serde_json::from_str(output.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(result["answer"], "Went on.\n");
    assert!(
        sandbox.work_folder().join("other.txt").exists() && !sandbox.work_folder().join("made.txt").exists()
    );
}

#[test]
fn policies_decide_where_no_question_is_possible() {
    for (policy, made) in [("deny", false), ("allow", true)] {
        let server = asking_server("touch made.txt");
        let sandbox = TestSandbox::new().with_model(&server);
        let output = sandbox.run(&["run", "-p", "do it", "--approve", policy]);
        assert_eq!((output.code, output.stdout.as_str()), (0, "Went on.\n"), "{policy}: {output:?}");
        assert_eq!(sandbox.work_folder().join("made.txt").exists(), made, "{policy}");
    }
}

#[test]
fn keys_typed_or_pasted_before_the_question_appears_do_not_answer_it() {
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
fn invalid_decisions_are_reported_and_the_question_stays_pending() {
    let server = asking_server("touch made.txt");
    let sandbox = TestSandbox::new().with_model(&server);
    assert_eq!(sandbox.run(&["run", "-p", "do it"]).code, 3);
    for (decisions, error_text) in [
        (json!([{"type": "approve"}, {"type": "approve"}]), "2 decisions were given for 1 action"),
        (json!([{"type": "preview"}]), "cannot be previewed"),
    ] {
        let file = sandbox.write_file("decision.json", json!({"decisions": decisions}).to_string());
        sandbox.run(&["decide", "last", "--decision-file", &file]).assert_error(2, error_text);
    }
    let output = sandbox.run(&["run", "-t", "last", "-p", "something else"]);
    assert!(
        output.code == 0 && output.stderr.contains("Your message cancels 1 pending tool call"),
        "{output:?}"
    );
    assert!(!sandbox.work_folder().join("made.txt").exists());
}

#[test]
fn the_text_of_an_answer_is_restored_after_esc() {
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
    let output = sandbox.run_with(&["chat", "--plain", "-t", "last"], "/approve\ny\n/quit\n");
    assert!(output.stdout.contains("Went on."), "{output:?}");
    assert!(sandbox.work_folder().join("made.txt").exists());
}
