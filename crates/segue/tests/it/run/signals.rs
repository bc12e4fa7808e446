//! Exit of the program: signals, and pipes whose reader has closed.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use test_model::{Script, ScriptedFault, ScriptedReply, ScriptedServer};

use crate::sandbox::TestSandbox;
use crate::terminal::PtyTerminal;

const PROMPT: &str = "segue> ";

fn stalling_server() -> ScriptedServer {
    ScriptedServer::start(Script::new([
        ScriptedReply::text("Half of it.\n").with_fault(ScriptedFault::Stall),
        ScriptedReply { always: true, ..ScriptedReply::text("Going on.\n") },
    ]))
    .unwrap()
}

fn send_signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn j5_a_signal_stops_a_run_and_keeps_the_received_part() {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let server = stalling_server();
        let sandbox = TestSandbox::new().with_model(&server);
        let mut command = sandbox.command(&["run", "-p", "tell me", "--json"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        lines.find(|line| line.contains("Half of it.")).unwrap();
        send_signal(&child, signal);
        let last: Value = serde_json::from_str(&lines.last().unwrap()).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{signal:?}");
        assert_eq!((&last["status"], &last["exit_code"]), (&json!("cancelled"), &json!(130)), "{last}");
        assert_eq!(last["answer"], "Half of it.\n");
        let history = sandbox.json(&["history", "last", "--json"]);
        assert_eq!(history["entries"][1]["incomplete"], true, "{history}");
        assert_eq!(sandbox.threads()[0]["status"], "interrupted");
    }
}

#[test]
fn j5_a_second_signal_does_not_wait_for_a_call_that_will_not_stop() {
    // The command leaves the process group that a stop kills, and keeps the pipe of its output open.
    let command = "setsid sh -c 'trap \"\" TERM; echo away; exec sleep 20'";
    let server = ScriptedServer::start(Script::new([ScriptedReply::call(
        "c1",
        "execute",
        json!({"command": command}),
    )]))
    .unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let mut command = sandbox.command(&["run", "-p", "go", "--approve", "allow", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    lines.find(|line| line.contains("away")).unwrap();
    for _ in 0..3 {
        send_signal(&child, Signal::TERM);
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn j5_a_signal_ends_a_chat_after_its_run_has_stopped() {
    let server = stalling_server();
    let sandbox = TestSandbox::new().with_model(&server);
    let terminal = PtyTerminal::start(&sandbox, 80, &["chat"]);
    terminal.wait_for(PROMPT);
    terminal.press_keys("tell me\r");
    terminal.wait_for("Half of it.");
    terminal.signal(Signal::TERM);
    let (code, screen) = terminal.end();
    assert_eq!(code, 130, "{screen}");
    assert!(screen.contains("Stopped. Everything that had arrived is kept."), "{screen}");
    let history = sandbox.json(&["history", "last", "--json"]);
    assert_eq!(history["entries"][1]["incomplete"], true, "{history}");
}

#[test]
fn j5_a_signal_ends_a_chat_at_its_prompt() {
    for (signal, dumb) in [(Signal::TERM, false), (Signal::HUP, false), (Signal::TERM, true)] {
        let mut sandbox = TestSandbox::new();
        if dumb {
            sandbox.set_variable("TERM", "dumb");
        }
        let terminal = PtyTerminal::start(&sandbox, 80, &["chat"]);
        terminal.wait_for(PROMPT);
        terminal.signal(signal);
        assert_eq!(terminal.end().0, 130, "{signal:?}");
    }
}

#[test]
fn control_c_twice_ends_a_chat_at_a_plain_prompt() {
    let mut sandbox = TestSandbox::new();
    sandbox.set_variable("TERM", "dumb");
    let terminal = PtyTerminal::start(&sandbox, 80, &["chat"]);
    terminal.wait_for(PROMPT);
    terminal.press_keys("\x03");
    terminal.wait_for("Press Ctrl-C again");
    terminal.press_keys("\x03");
    assert_eq!(terminal.end().0, 130);
}

#[test]
fn a_reader_that_goes_away_ends_the_program_quietly() {
    let server = ScriptedServer::start(Script::new([ScriptedReply {
        always: true,
        ..ScriptedReply::text("Heard.\n")
    }]))
    .unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    for args in [&["run", "-p", "hi", "--json"][..], &["threads", "list"], &["history", "last"], &["models"]]
    {
        let mut command = sandbox.command(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut output = String::new();
        child.stderr.take().unwrap().read_to_string(&mut output).unwrap();
        assert_eq!((child.wait().unwrap().code(), output.as_str()), (Some(0), ""), "{args:?}");
    }
}
