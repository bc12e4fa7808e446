//! Handoffs in a chat: those that the agent requests, the questions of `/new`, pending handoffs when a
//! thread is opened, and the keys that are typed during a draft.

use serde_json::{Value, json};
use test_model::{GatePosition, Script, ScriptedFault, ScriptedReply, ScriptedServer};

use crate::sandbox::TestSandbox;
use crate::terminal::PtyTerminal;

const PROMPT: &str = "segue> ";
const QUESTION: &str = "[Esc] Decide later";
const DRAFT_PROMPT: &str = "You write the handoff summary";

fn draft_reply() -> ScriptedReply {
    let item = |kind: &str, text: &str| json!({"kind": kind, "text": text, "refs": [1]});
    let body = [
        item("objective", "Mend the kettle."),
        item("progress", "The lid is off."),
        item("next_step", "Polish it."),
    ];
    let draft = json!({"title": "Kettle, next part", "tldr": "The kettle is nearly mended.", "body": body});
    ScriptedReply::text(draft.to_string()).when_body_contains(DRAFT_PROMPT)
}

/// Returns a draft with this next step.
fn draft_reply_with_step(next: &str) -> ScriptedReply {
    let mut draft = draft_reply();
    draft.text = draft.text.iter().map(|text| text.replace("Polish it.", next)).collect();
    draft
}

/// Returns whether any string in `value` contains `text`.
fn contains_text(value: &Value, text: &str) -> bool {
    match value {
        Value::String(found) => found.contains(text),
        Value::Array(values) => values.iter().any(|value| contains_text(value, text)),
        Value::Object(fields) => fields.values().any(|value| contains_text(value, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn start_with_replies(replies: impl IntoIterator<Item = ScriptedReply>) -> (TestSandbox, ScriptedServer) {
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    (TestSandbox::new().with_model(&server), server)
}

/// Waits until the screen ends with this text, or with this text and the suggested message that is announced above it.
fn wait_for_prompt(terminal: &PtyTerminal, what: &str) -> String {
    terminal.wait_until(what, |screen| {
        let screen = screen.split_whitespace().collect::<Vec<_>>().join(" ");
        let announced = screen.rsplit_once("Suggested first message (→ inserts it): ");
        let shown = announced.and_then(|(_, after)| after.rsplit_once(&format!("{what} ")));
        screen.ends_with(what) || shown.is_some_and(|(above, suggestion)| above.starts_with(suggestion))
    })
}

fn send_line(terminal: &PtyTerminal, text: &str) {
    wait_for_prompt(terminal, PROMPT.trim_end());
    terminal.press_keys(&format!("{text}\r"));
}

fn handoff_request_replies() -> [ScriptedReply; 4] {
    [
        ScriptedReply::from_pieces(["This is getting long.\n"]).with_call(
            "c1",
            "request_handoff",
            json!({"goal": "polish the kettle"}),
        ),
        draft_reply(),
        ScriptedReply::text("Then I go on here.\n"),
        ScriptedReply::text("In the new thread.\n"),
    ]
}

#[test]
fn g2_a_handoff_that_the_agent_requests_is_reviewed_at_once_and_acceptance_opens_the_child() {
    let (sandbox, server) = start_with_replies(handoff_request_replies());
    let terminal = PtyTerminal::start(&sandbox, 100, &["chat"]);
    send_line(&terminal, "please mend the kettle");
    let screen = terminal.wait_for(QUESTION);
    for part in [
        "The agent requests a handoff of this thread. Nothing happens unless you accept.",
        "Goal: polish the kettle",
        "Kettle, next part",
        "[r] Refine",
    ] {
        assert!(screen.contains(part), "{part}:\n{screen}");
    }
    terminal.press_keys("\r\r");
    terminal.press_keys("a\r");
    terminal.wait_for("You are in the new thread");
    assert_eq!(server.call_count(), 2, "an acceptance ends the turn");
    send_line(&terminal, "go on");
    terminal.wait_until("the child's answer", |screen| {
        screen.contains("Then I go on here.") && screen.trim_end().ends_with(PROMPT.trim_end())
    });
    let body = server.requests()[2].body.clone();
    assert!(body.to_string().contains("The lid is off."), "{body}");
    assert!(!body["messages"].to_string().contains("please mend"), "{body}");
    terminal.press_keys("\x04");
    assert_eq!(terminal.end().0, 0);
    assert_eq!(sandbox.threads().len(), 2);
}

#[test]
fn g2_an_agents_preview_request_is_labelled_and_preview_is_the_first_choice() {
    let (sandbox, server) = start_with_replies([
        ScriptedReply::call("c1", "request_handoff", json!({"preview_only": true})),
        draft_reply(),
        ScriptedReply::text("Then I go on here.\n"),
    ]);
    let terminal = PtyTerminal::start(&sandbox, 100, &["chat"]);
    send_line(&terminal, "please mend the kettle");
    let screen = terminal.wait_for(QUESTION);
    assert!(screen.contains("The agent requests only a preview: "), "{screen}");
    let (preview, accept) = (screen.find("[p] Preview only"), screen.find("[a] Accept"));
    assert!(preview.is_some() && preview < accept, "{screen}");
    terminal.press_keys("\t\r");
    terminal.wait_for("Then I go on here.");
    wait_for_prompt(&terminal, PROMPT.trim_end());
    terminal.press_keys("\x04");
    assert_eq!(terminal.end().0, 0);
    assert_eq!((sandbox.threads().len(), server.call_count()), (1, 3));
}

#[test]
fn g2_the_run_continues_with_the_refusal_after_a_declined_handoff() {
    let (sandbox, server) = start_with_replies(handoff_request_replies());
    let terminal = PtyTerminal::start(&sandbox, 100, &["chat"]);
    send_line(&terminal, "please mend the kettle");
    terminal.wait_for(QUESTION);
    terminal.press_keys("D\r");
    terminal.wait_for("Reason (Enter for none)");
    terminal.press_keys("finish here first\r");
    terminal.wait_for("Then I go on here.");
    let screen = wait_for_prompt(&terminal, PROMPT.trim_end());
    assert!(screen.contains("Handoff declined"), "{screen}");
    let body = server.requests()[2].body["messages"].to_string();
    assert!(body.contains("finish here first"), "{body}");
    terminal.press_keys("\x04");
    assert_eq!(terminal.end().0, 0);
    assert_eq!(sandbox.threads().len(), 1);
}

#[test]
fn g12_a_refined_reverted_and_edited_summary_reaches_the_childs_runs_byte_for_byte() {
    let (mut sandbox, server) = start_with_replies([
        ScriptedReply::text("Hello.\n"),
        draft_reply_with_step("Polish it."),
        draft_reply_with_step("Polish it twice."),
        draft_reply_with_step("Polish it thrice."),
        ScriptedReply::text("One.\n"),
        ScriptedReply::text("Two.\n"),
    ]);
    let around = "# Mine\r\n\r\nkeep  this\r\n## Recent Thread Snapshot\n<current_thread_summary>\nNone recorded yet.\n\
                  </current_thread_summary>\nno newline at the end";
    let folder = sandbox.home().join("agents/agent");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("agent.md"), around).unwrap();
    let script =
        sandbox.write_file("editor.sh", "#!/bin/sh\nsed -i 's/Polish it\\./Polish it, gently./' \"$1\"\n");
    sandbox.set_variable("EDITOR", &format!("sh {script}"));
    let terminal = PtyTerminal::start(&sandbox, 60, &["chat"]);
    send_line(&terminal, "please mend the kettle");
    terminal.wait_for("Hello.");
    send_line(&terminal, "/handoff");
    for (feedback, refinements_left) in
        [("twice", "2 refinements remain."), ("thrice", "1 refinement remains.")]
    {
        terminal.wait_for(QUESTION);
        terminal.press_keys("r\r");
        terminal.wait_until("the asking", |screen| screen.trim_end().ends_with("Feedback>"));
        terminal.press_keys(&format!("{feedback}\r"));
        terminal.wait_until("the next draft", |screen| {
            let after = screen.rsplit(refinements_left).next().unwrap_or_default();
            after.len() < screen.len() && after.contains(QUESTION)
        });
    }
    terminal.press_keys("u\r");
    terminal.wait_for("draft 1 · Kettle, next part");
    terminal.press_keys("\x1b[B\r");
    terminal.wait_until("the first draft again", |screen| {
        let after = screen.rsplit("draft 4").next().unwrap_or_default();
        after.len() < screen.len() && after.contains(QUESTION)
    });
    terminal.press_keys("e\r");
    terminal.wait_for("[a] Accept this text");
    terminal.press_keys("a\r");
    terminal.wait_for("You are in the new thread");
    send_line(&terminal, "/history");
    terminal.wait_for("Continues thread");
    terminal.wait_for("There are no messages.");
    send_line(&terminal, "first");
    terminal.wait_for("One.");
    send_line(&terminal, "second");
    terminal.wait_for("Two.");
    wait_for_prompt(&terminal, PROMPT.trim_end());
    terminal.press_keys("\x04");
    assert_eq!(terminal.end().0, 0);
    let child = sandbox.json(&["threads", "show", "last", "--json"]);
    let id =
        child["metadata"]["handoff"]["handoff_id"].as_str().unwrap_or_else(|| panic!("{child}")).to_owned();
    let handoff = sandbox.json(&["handoff", "--show", &id, "--json"]);
    let accepted = handoff["proposals"].as_array().unwrap().last().unwrap()["summary_md"].as_str().unwrap();
    assert!(accepted.contains("- Polish it, gently."), "{accepted}");
    let requests = server.requests();
    assert_eq!(requests.len(), 6, "one call for each draft and each turn");
    assert!(contains_text(&requests[4].body, accepted), "{}", requests[4].body);
    assert!(contains_text(&requests[5].body, accepted), "{}", requests[5].body);
    assert_eq!(sandbox.read_agent_md().unwrap(), around);
}

#[test]
fn g2_a_handoff_requested_before_a_crash_is_offered_again_and_its_run_resumes() {
    let (sandbox, server) = start_with_replies(handoff_request_replies());
    let terminal = PtyTerminal::start(&sandbox, 100, &["chat"]);
    send_line(&terminal, "please mend the kettle");
    terminal.wait_for(QUESTION);
    terminal.kill();
    let terminal = PtyTerminal::start(&sandbox, 100, &["chat", "-t", "last"]);
    let screen = terminal.wait_for("[r] Review now");
    assert!(screen.contains("needs a decision: Kettle, next part"), "{screen}");
    terminal.press_keys("r\r");
    terminal.wait_for("[D] Decline");
    terminal.press_keys("D\r");
    terminal.wait_for("Reason (Enter for none)");
    terminal.press_keys("\r");
    terminal.wait_for("Then I go on here.");
    wait_for_prompt(&terminal, PROMPT.trim_end());
    terminal.press_keys("\x04");
    assert_eq!(terminal.end().0, 0);
    assert_eq!(server.call_count(), 3, "nothing is drafted again");
}

#[test]
fn a_tool_call_after_a_declined_handoff_is_asked_about() {
    let (sandbox, _server) = start_with_replies([
        ScriptedReply::call("c1", "request_handoff", json!({})),
        draft_reply(),
        ScriptedReply::call("c2", "execute", json!({"command": "touch made.txt"})),
        ScriptedReply::text("Made.\n"),
    ]);
    let terminal = PtyTerminal::start(&sandbox, 100, &["chat"]);
    send_line(&terminal, "please mend the kettle");
    terminal.wait_for(QUESTION);
    terminal.press_keys("p\r");
    terminal.wait_for("[y] Approve");
    terminal.press_keys("y\r");
    terminal.wait_for("Made.");
    wait_for_prompt(&terminal, PROMPT.trim_end());
    assert!(sandbox.work_folder().join("made.txt").exists());
    terminal.press_keys("\x04");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn input_typed_during_a_draft_stays_unsent_in_the_prompt_of_the_current_thread() {
    for (key, outcome_text) in [("a", "You are in the new thread"), ("D", "Handoff declined")] {
        let (sandbox, server) = start_with_replies([
            ScriptedReply::text("Hello.\n"),
            draft_reply().with_gate("drafted", GatePosition::Start),
            ScriptedReply::text("Sharp.\n"),
        ]);
        let terminal = PtyTerminal::start(&sandbox, 100, &["chat"]);
        send_line(&terminal, "please mend the kettle");
        terminal.wait_for("Hello.");
        send_line(&terminal, "/handoff");
        let screen = terminal.wait_for("draft with anthropic/");
        assert!(screen.contains("A handoff is a bridge of context, not a fork"), "{screen}");
        terminal.press_keys("and then\rsharpen it");
        terminal.wait_for("> sharpen it");
        server.open_gate("drafted");
        terminal.wait_for("You are typing a message");
        terminal.press_keys("\r");
        terminal.wait_for("A key selects an answer");
        terminal.press_keys(&format!("{key}\r"));
        if key == "D" {
            terminal.wait_for("Reason (Enter for none)");
            terminal.press_keys("\r");
        }
        let screen =
            terminal.wait_until("the first line", |screen| screen.trim_end().ends_with("segue> and then"));
        assert!(screen.contains(outcome_text), "{screen}");
        assert_eq!(server.call_count(), 2, "nothing is sent before the person looks at it");
        terminal.press_keys("\r");
        terminal.wait_for("Sharp.");
        let body = server.requests()[2].body["messages"].to_string();
        assert!(body.contains("and then") && !body.contains("sharpen it"), "{body}");
        assert_eq!(body.contains("please mend the kettle"), key == "D", "{body}");
        wait_for_prompt(&terminal, "segue> sharpen it");
        terminal.press_keys("\x03");
        wait_for_prompt(&terminal, PROMPT.trim_end());
        terminal.press_keys("\x04");
        assert_eq!(terminal.end().0, 0);
    }
}

#[test]
fn control_c_during_a_draft_stays_in_the_thread_and_keeps_the_input() {
    let hanging = ScriptedReply { when: draft_reply().when, ..ScriptedReply::fault(ScriptedFault::Hang) };
    let (sandbox, _server) = start_with_replies([ScriptedReply::text("Hello.\n"), hanging]);
    let terminal = PtyTerminal::start(&sandbox, 100, &["chat"]);
    send_line(&terminal, "please mend the kettle");
    terminal.wait_for("Hello.");
    send_line(&terminal, "/handoff");
    terminal.wait_for("draft with anthropic/");
    terminal.press_keys("half a thought");
    terminal.wait_for("> half a thought");
    terminal.press_keys("\x03");
    let screen = wait_for_prompt(&terminal, "segue> half a thought");
    assert!(screen.contains("Stopped. No draft was kept"), "{screen}");
    terminal.kill();
    assert_eq!(sandbox.json(&["handoff", "--list", "--json"]), json!([]));
}

#[test]
fn a_new_thread_asks_whether_to_carry_context_forward() {
    let (sandbox, server) =
        start_with_replies([ScriptedReply::text("Hello.\n"), draft_reply(), draft_reply()]);
    let terminal = PtyTerminal::start(&sandbox, 100, &["chat"]);
    send_line(&terminal, "please mend the kettle");
    terminal.wait_for("Hello.");
    // Stay in this thread.
    send_line(&terminal, "/new");
    terminal.wait_for("[c] Hand off with a summary");
    terminal.press_keys("\r\x1b");
    terminal.wait_for("→ Stay here");
    // Hand off with a summary, then skip the summary.
    send_line(&terminal, "/new");
    terminal.wait_for("[s] Skip: start empty");
    terminal.press_keys("c\r");
    terminal.wait_for("[s] Skip the summary");
    terminal.press_keys("s\r");
    terminal.wait_for("Your next message starts a new thread without a summary.");
    assert_eq!((server.call_count(), sandbox.threads().len()), (2, 1));
    // A blank thread has no context to carry over.
    send_line(&terminal, "/new");
    terminal.wait_for("Your next message starts a new thread.");
    wait_for_prompt(&terminal, PROMPT.trim_end());
    terminal.press_keys("\x04");
    assert_eq!(terminal.end().0, 0);
    // Hand off with a summary, and accept.
    let terminal = PtyTerminal::start(&sandbox, 100, &["chat", "-t", "last"]);
    send_line(&terminal, "/new");
    terminal.wait_for("[c] Hand off with a summary");
    terminal.press_keys("c\r");
    terminal.wait_for(QUESTION);
    terminal.press_keys("a\r");
    terminal.wait_for("You are in the new thread");
    wait_for_prompt(&terminal, PROMPT.trim_end());
    terminal.press_keys("\x04");
    assert_eq!(terminal.end().0, 0);
    assert_eq!(sandbox.threads().len(), 2);
}

#[test]
fn a_pending_handoff_is_offered_when_its_thread_is_opened() {
    let sandbox = TestSandbox::new();
    assert_eq!(sandbox.run(&["handoff", &sandbox.write_session()]).code, 3);
    let terminal = PtyTerminal::start(&sandbox, 100, &["chat", "-t", "last"]);
    let screen = terminal.wait_for("[r] Review now");
    assert!(screen.contains("A handoff of this thread needs a decision: "), "{screen}");
    assert!(screen.contains("(requested just now)"), "{screen}");
    terminal.press_keys("\r\x1b");
    wait_for_prompt(&terminal, PROMPT.trim_end());
    terminal.press_keys("/threads last\r");
    terminal.wait_until("the offer again", |screen| screen.matches("[r] Review now").count() == 1);
    terminal.press_keys("r\r");
    terminal.wait_for("[a] Accept");
    terminal.press_keys("a\r");
    terminal.wait_for("You are in the new thread");
    wait_for_prompt(&terminal, PROMPT.trim_end());
    terminal.press_keys("\x04");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn a_chat_in_plain_mode_reviews_without_drawing_over() {
    let (sandbox, _server) = start_with_replies([ScriptedReply::text("Hello.\n"), draft_reply()]);
    let terminal = PtyTerminal::start(&sandbox, 60, &["chat", "--plain"]);
    send_line(&terminal, "please mend the kettle");
    terminal.wait_for("Hello.");
    send_line(&terminal, "/handoff");
    terminal.wait_for("Choose a key, Enter for none>");
    terminal.press_keys("and thank you\n");
    terminal.wait_for("Kept for your next message: and thank you");
    terminal.press_keys("a\n");
    terminal.wait_for("You typed this at a question, so it was not sent:");
    wait_for_prompt(&terminal, PROMPT.trim_end());
    terminal.press_keys("/quit\n");
    let (code, printed) = terminal.end_printed();
    assert_eq!(code, 0, "{printed}");
    assert!(!printed.contains('\u{1b}'), "{printed:?}");
    assert!(printed.contains("You are in the new thread"), "{printed}");
}

#[test]
fn a_line_typed_while_a_draft_is_made_answers_no_question_in_plain_mode() {
    let (mut sandbox, server) = start_with_replies([
        ScriptedReply::text("Hello.\n"),
        draft_reply().with_gate("drafted", GatePosition::Start),
    ]);
    sandbox.set_variable("SEGUE_PLAIN", "1");
    let terminal = PtyTerminal::start(&sandbox, 80, &["chat"]);
    send_line(&terminal, "please mend the kettle");
    terminal.wait_for("Hello.");
    send_line(&terminal, "/handoff");
    terminal.wait_for("draft with anthropic/");
    terminal.press_keys("a\n");
    terminal.wait_until("the echo", |screen| screen.lines().any(|line| line.trim() == "a"));
    server.open_gate("drafted");
    terminal.wait_for("Choose a key, Enter for none>");
    assert_eq!(sandbox.threads().len(), 1);
    terminal.press_keys("D\n");
    terminal.wait_for("Reason (Enter for none)>");
    terminal.press_keys("\n");
    terminal.wait_for("You typed this at a question, so it was not sent:");
    wait_for_prompt(&terminal, PROMPT.trim_end());
    terminal.press_keys("/quit\n");
    let (code, printed) = terminal.end_printed();
    assert_eq!(code, 0, "{printed}");
    assert!(!printed.contains('\u{1b}') && printed.contains("Handoff declined"), "{printed:?}");
}
