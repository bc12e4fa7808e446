//! `segue run`: a run without a terminal, the child's first run after a handoff, and resuming after a
//! crash.

mod confinement;
mod headless;
mod hooks;
mod signals;
mod traces;

use serde_json::{Value, json};
use test_model::{Script, ScriptedFault, ScriptedReply, ScriptedServer};

use crate::sandbox::TestSandbox;
use crate::terminal::PtyTerminal;

#[test]
fn an_answer_goes_to_stdout_and_everything_else_to_stderr() {
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::call("c1", "read_file", json!({"path": "note.txt"})),
        ScriptedReply::from_pieces(["The note ", "says hi."]),
    ]))
    .unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    sandbox.write_file("note.txt", "hi\n");
    let output = sandbox.run(&["run", "-p", "what does the note say?"]);
    assert_eq!((output.code, output.stdout.as_str()), (0, "The note says hi.\n"), "{output:?}");
    assert!(output.stderr.contains("read_file note.txt"), "{output:?}");
    let sent = server.requests()[1].body.to_string();
    assert!(sent.contains("tool_result") && sent.contains("hi"), "{sent}");
}

#[test]
fn i4_json_output_is_one_frame_per_line_and_ends_with_the_runs_outcome() {
    let server = ScriptedServer::start(Script::new([ScriptedReply::from_pieces(["a", "b"])])).unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let output = sandbox.run_with(&["run", "-p", "-", "--json"], "from a pipe");
    assert_eq!(output.code, 0, "{output:?}");
    let frames: Vec<Value> = output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let text: String = frames
        .iter()
        .filter(|frame| frame["frame"] == "text")
        .map(|frame| frame["text"].as_str().unwrap())
        .collect();
    assert_eq!(text, "ab");
    let (first, last) = (&frames[0], frames.last().unwrap());
    assert_eq!(first["type"], "start");
    assert_eq!((last["type"].as_str(), last["status"].as_str()), (Some("result"), Some("success")));
    assert_eq!((&last["thread_id"], &last["answer"]), (&first["thread_id"], &json!("ab")));
    let places: Vec<(u64, u64)> = frames[1..frames.len() - 1]
        .iter()
        .map(|frame| (frame["seq"].as_u64().unwrap(), frame["sub"].as_u64().unwrap()))
        .collect();
    assert!(places.is_sorted(), "{places:?}");
    assert_eq!(frames[frames.len() - 2]["frame"], "run_ended");
    assert_eq!(output.stderr, "");
}

#[test]
fn a_prompt_may_begin_with_a_hyphen_and_a_time_limit_may_be_huge() {
    let server = ScriptedServer::start(Script::new([ScriptedReply::text("ok").with_repeat()])).unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    for args in [["-p", "- first point", "--timeout", "60"], ["-p", "x", "--timeout", "18446744073709551615"]]
    {
        let output = sandbox.run(&[&["run"], args.as_slice()].concat());
        assert_eq!((output.code, output.stdout.as_str()), (0, "ok\n"), "{output:?}");
    }
    assert!(server.requests()[0].body.to_string().contains("- first point"));
}

#[test]
fn g12_the_summary_is_in_all_requests_of_the_child_and_the_block_is_cleared_after_the_first_turn() {
    let server =
        ScriptedServer::start(Script::new([ScriptedReply::text("first"), ScriptedReply::text("second")]))
            .unwrap();
    let mut sandbox = TestSandbox::new();
    let report = sandbox.json(&["handoff", &sandbox.write_session(), "--apply", "--json"]);
    let (child, md) = (report["child_thread_id"].as_str().unwrap(), report["summary_md"].as_str().unwrap());
    sandbox.set_variable("ANTHROPIC_BASE_URL", server.url());
    sandbox.set_variable("ANTHROPIC_API_KEY", "test-key");
    let tldr = report["summary_json"]["tldr"].as_str().unwrap();
    assert!(sandbox.read_agent_md().unwrap().contains(md.trim()));
    for answer in ["first\n", "second\n"] {
        let output = sandbox.run(&["run", "-t", child, "-p", "go on"]);
        assert_eq!((output.code, output.stdout.as_str()), (0, answer), "{output:?}");
    }
    let requests: Vec<String> = server.requests().iter().map(|request| request.body.to_string()).collect();
    assert!(requests.iter().all(|request| request.contains(tldr)), "{requests:?}");
    let thread = sandbox.json(&["threads", "show", child, "--json"]);
    assert_eq!(thread["metadata"]["handoff"]["pending"], false);
    assert_eq!(thread["metadata"]["handoff"]["cleanup_required"], false);
    assert!(thread["metadata"]["handoff"]["last_cleanup_at"].is_string());
    assert!(!sandbox.read_agent_md().unwrap().contains(tldr));
}

#[test]
fn a_run_on_a_thread_continues_its_conversation() {
    let server =
        ScriptedServer::start(Script::new([ScriptedReply::text("one"), ScriptedReply::text("two")])).unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    assert_eq!(sandbox.run(&["run", "-p", "count"]).code, 0);
    assert_eq!(sandbox.run(&["run", "-t", "last", "-p", "on"]).stdout, "two\n");
    let messages = server.requests()[1].body["messages"].as_array().unwrap().len();
    assert_eq!(messages, 3);
}

#[test]
fn a17_control_c_ends_with_its_own_exit_code_and_keeps_the_received_part() {
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::text("Half of it").with_fault(ScriptedFault::Stall)
    ]))
    .unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let terminal = PtyTerminal::start(&sandbox, 80, &["run", "-p", "tell me"]);
    terminal.wait_for("Half of it");
    terminal.press_keys("\x03");
    let (code, screen) = terminal.end();
    assert_eq!(code, 130, "{screen}");
    let history = sandbox.json(&["history", "last", "--json"]);
    assert_eq!(history["entries"][1]["incomplete"], true, "{history}");
    assert_eq!(sandbox.threads()[0]["status"], "interrupted");
}
