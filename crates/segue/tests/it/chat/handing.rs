//! Handing off in a chat: what the agent asks for, what `/new` asks, what waits when a thread is opened, and where the
//! keys go that are typed meanwhile.

use serde_json::{Value, json};
use test_model::{Fault, Place, Reply, Script, Server};

use crate::sandbox::Sandbox;
use crate::terminal::Terminal;

const PROMPT: &str = "segue> ";
const QUESTION: &str = "[Esc] Decide later";
const DRAFT_PROMPT: &str = "You write the handoff summary";

fn draft() -> Reply {
    let item = |kind: &str, text: &str| json!({"kind": kind, "text": text, "refs": [1]});
    let body = [
        item("objective", "Mend the kettle."),
        item("progress", "The lid is off."),
        item("next_step", "Polish it."),
    ];
    let draft = json!({"title": "Kettle, next part", "tldr": "The kettle is nearly mended.", "body": body});
    Reply::text(draft.to_string()).when_body_contains(DRAFT_PROMPT)
}

/// A draft whose next step is this.
fn draft_of(next: &str) -> Reply {
    let mut draft = draft();
    draft.text = draft.text.iter().map(|text| text.replace("Polish it.", next)).collect();
    draft
}

/// Returns whether some text in `value` holds `text`, byte for byte.
fn holds(value: &Value, text: &str) -> bool {
    match value {
        Value::String(found) => found.contains(text),
        Value::Array(values) => values.iter().any(|value| holds(value, text)),
        Value::Object(fields) => fields.values().any(|value| holds(value, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn serve(replies: impl IntoIterator<Item = Reply>) -> (Sandbox, Server) {
    let server = Server::start(Script::new(replies)).unwrap();
    (Sandbox::new().with_model(&server), server)
}

fn at_prompt(terminal: &Terminal, what: &str) -> String {
    terminal.wait_until(what, |screen| screen.trim_end().ends_with(what))
}

fn said(terminal: &Terminal, text: &str) {
    at_prompt(terminal, PROMPT.trim_end());
    terminal.keys(&format!("{text}\r"));
}

fn asking() -> [Reply; 4] {
    [
        Reply::pieces(["This is getting long.\n"]).and_call(
            "c1",
            "request_handoff",
            json!({"goal": "polish the kettle"}),
        ),
        draft(),
        Reply::text("Then I go on here.\n"),
        Reply::text("In the new thread.\n"),
    ]
}

#[test]
fn g2_what_the_agent_asks_for_is_reviewed_at_once_and_an_acceptance_goes_to_the_child() {
    let (sandbox, server) = serve(asking());
    let terminal = Terminal::start(&sandbox, 100, &["chat"]);
    said(&terminal, "please mend the kettle");
    let screen = terminal.wait_for(QUESTION);
    for part in [
        "The agent asks to hand this thread over",
        "Goal: polish the kettle",
        "Kettle, next part",
        "[r] Refine",
    ] {
        assert!(screen.contains(part), "{part}:\n{screen}");
    }
    terminal.keys("\r\r");
    terminal.keys("a\r");
    terminal.wait_for("You are in the new thread");
    assert_eq!(server.calls(), 2, "an acceptance ends the turn");
    said(&terminal, "go on");
    terminal.wait_until("the child's answer", |screen| {
        screen.contains("Then I go on here.") && screen.trim_end().ends_with(PROMPT.trim_end())
    });
    let body = server.requests()[2].body.clone();
    assert!(body.to_string().contains("The lid is off."), "{body}");
    assert!(!body["messages"].to_string().contains("please mend"), "{body}");
    terminal.keys("\x04");
    assert_eq!(terminal.end().0, 0);
    assert_eq!(sandbox.threads().len(), 2);
}

#[test]
fn g2_an_agent_that_asks_only_for_a_preview_is_told_so_and_preview_stands_first() {
    let (sandbox, server) = serve([
        Reply::call("c1", "request_handoff", json!({"preview_only": true})),
        draft(),
        Reply::text("Then I go on here.\n"),
    ]);
    let terminal = Terminal::start(&sandbox, 100, &["chat"]);
    said(&terminal, "please mend the kettle");
    let screen = terminal.wait_for(QUESTION);
    assert!(screen.contains("The agent asks only for a preview: "), "{screen}");
    let (preview, accept) = (screen.find("[p] Preview only"), screen.find("[a] Accept"));
    assert!(preview.is_some() && preview < accept, "{screen}");
    terminal.keys("\t\r");
    terminal.wait_for("Then I go on here.");
    at_prompt(&terminal, PROMPT.trim_end());
    terminal.keys("\x04");
    assert_eq!(terminal.end().0, 0);
    assert_eq!((sandbox.threads().len(), server.calls()), (1, 3));
}

#[test]
fn g2_a_declined_handoff_gives_the_agent_its_answer_and_the_turn_goes_on() {
    let (sandbox, server) = serve(asking());
    let terminal = Terminal::start(&sandbox, 100, &["chat"]);
    said(&terminal, "please mend the kettle");
    terminal.wait_for(QUESTION);
    terminal.keys("D\r");
    terminal.wait_for("Reason (Enter for none)");
    terminal.keys("finish here first\r");
    terminal.wait_for("Then I go on here.");
    let screen = at_prompt(&terminal, PROMPT.trim_end());
    assert!(screen.contains("Handoff declined"), "{screen}");
    let body = server.requests()[2].body["messages"].to_string();
    assert!(body.contains("finish here first"), "{body}");
    terminal.keys("\x04");
    assert_eq!(terminal.end().0, 0);
    assert_eq!(sandbox.threads().len(), 1);
}

#[test]
fn g12_what_was_refined_reverted_and_edited_reaches_the_childs_first_turn_byte_for_byte_and_no_other() {
    let (mut sandbox, server) = serve([
        Reply::text("Hello.\n"),
        draft_of("Polish it."),
        draft_of("Polish it twice."),
        draft_of("Polish it thrice."),
        Reply::text("One.\n"),
        Reply::text("Two.\n"),
    ]);
    let around = "# Mine\r\n\r\nkeep  this\r\n## Recent Thread Snapshot\n<current_thread_summary>\nNone recorded yet.\n\
                  </current_thread_summary>\nno newline at the end";
    let folder = sandbox.home().join("agents/agent");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("agent.md"), around).unwrap();
    let script = sandbox.file("editor.sh", "#!/bin/sh\nsed -i 's/Polish it\\./Polish it, gently./' \"$1\"\n");
    sandbox.set("EDITOR", &format!("sh {script}"));
    let terminal = Terminal::start(&sandbox, 60, &["chat"]);
    said(&terminal, "please mend the kettle");
    terminal.wait_for("Hello.");
    said(&terminal, "/handoff");
    for (feedback, left) in [("twice", "2 refinements are left."), ("thrice", "1 refinement is left.")] {
        terminal.wait_for(QUESTION);
        terminal.keys("r\r");
        terminal.wait_until("the asking", |screen| screen.trim_end().ends_with("Feedback>"));
        terminal.keys(&format!("{feedback}\r"));
        terminal.wait_until("the next draft", |screen| {
            let after = screen.rsplit(left).next().unwrap_or_default();
            after.len() < screen.len() && after.contains(QUESTION)
        });
    }
    terminal.keys("u\r");
    terminal.wait_for("draft 1 · Kettle, next part");
    terminal.keys("\x1b[B\r");
    terminal.wait_until("the first draft again", |screen| {
        let after = screen.rsplit("draft 4").next().unwrap_or_default();
        after.len() < screen.len() && after.contains(QUESTION)
    });
    terminal.keys("e\r");
    terminal.wait_for("[a] Accept this text");
    terminal.keys("a\r");
    terminal.wait_for("You are in the new thread");
    said(&terminal, "first");
    terminal.wait_for("One.");
    said(&terminal, "second");
    terminal.wait_for("Two.");
    at_prompt(&terminal, PROMPT.trim_end());
    terminal.keys("\x04");
    assert_eq!(terminal.end().0, 0);
    let child = sandbox.json(&["threads", "show", "last", "--json"]);
    let id =
        child["metadata"]["handoff"]["handoff_id"].as_str().unwrap_or_else(|| panic!("{child}")).to_owned();
    let shown = sandbox.json(&["handoff", "--show", &id, "--json"]);
    let accepted = shown["proposals"].as_array().unwrap().last().unwrap()["summary_md"].as_str().unwrap();
    assert!(accepted.contains("- Polish it, gently."), "{accepted}");
    let requests = server.requests();
    assert_eq!(requests.len(), 6, "one call for each draft and each turn");
    assert!(holds(&requests[4].body, accepted), "{}", requests[4].body);
    assert!(!holds(&requests[5].body, "gently"), "{}", requests[5].body);
    assert_eq!(sandbox.agent_md().unwrap(), around);
}

#[test]
fn g2_what_the_agent_asked_before_a_crash_is_offered_again_and_its_turn_goes_on() {
    let (sandbox, server) = serve(asking());
    let terminal = Terminal::start(&sandbox, 100, &["chat"]);
    said(&terminal, "please mend the kettle");
    terminal.wait_for(QUESTION);
    terminal.kill();
    let terminal = Terminal::start(&sandbox, 100, &["chat", "-t", "last"]);
    let screen = terminal.wait_for("[r] Review now");
    assert!(screen.contains("waits for a decision: Kettle, next part"), "{screen}");
    terminal.keys("r\r");
    terminal.wait_for("[D] Decline");
    terminal.keys("D\r");
    terminal.wait_for("Reason (Enter for none)");
    terminal.keys("\r");
    terminal.wait_for("Then I go on here.");
    at_prompt(&terminal, PROMPT.trim_end());
    terminal.keys("\x04");
    assert_eq!(terminal.end().0, 0);
    assert_eq!(server.calls(), 3, "nothing is drafted again");
}

#[test]
fn a_tool_call_after_a_declined_handoff_is_asked_about() {
    let (sandbox, _server) = serve([
        Reply::call("c1", "request_handoff", json!({})),
        draft(),
        Reply::call("c2", "execute", json!({"command": "touch made.txt"})),
        Reply::text("Made.\n"),
    ]);
    let terminal = Terminal::start(&sandbox, 100, &["chat"]);
    said(&terminal, "please mend the kettle");
    terminal.wait_for(QUESTION);
    terminal.keys("p\r");
    terminal.wait_for("[y] Approve");
    terminal.keys("y\r");
    terminal.wait_for("Made.");
    at_prompt(&terminal, PROMPT.trim_end());
    assert!(sandbox.work().join("made.txt").exists());
    terminal.keys("\x04");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn what_is_typed_while_a_draft_is_made_stands_unsent_in_the_thread_one_is_in_then() {
    for (key, there) in [("a", "You are in the new thread"), ("D", "Handoff declined")] {
        let (sandbox, server) =
            serve([Reply::text("Hello.\n"), draft().gated("drafted", Place::Start), Reply::text("Sharp.\n")]);
        let terminal = Terminal::start(&sandbox, 100, &["chat"]);
        said(&terminal, "please mend the kettle");
        terminal.wait_for("Hello.");
        said(&terminal, "/handoff");
        let screen = terminal.wait_for("draft with anthropic/");
        assert!(screen.contains("A bridge of context, not a fork"), "{screen}");
        terminal.keys("and then\rsharpen it");
        terminal.wait_for("> sharpen it");
        server.open("drafted");
        terminal.wait_for("You are typing a message");
        terminal.keys("\r");
        terminal.wait_for("A key marks an answer");
        terminal.keys(&format!("{key}\r"));
        if key == "D" {
            terminal.wait_for("Reason (Enter for none)");
            terminal.keys("\r");
        }
        let screen =
            terminal.wait_until("the first line", |screen| screen.trim_end().ends_with("segue> and then"));
        assert!(screen.contains(there), "{screen}");
        assert_eq!(server.calls(), 2, "nothing is sent before the person looks at it");
        terminal.keys("\r");
        terminal.wait_for("Sharp.");
        let body = server.requests()[2].body["messages"].to_string();
        assert!(body.contains("and then") && !body.contains("sharpen it"), "{body}");
        assert_eq!(body.contains("please mend the kettle"), key == "D", "{body}");
        at_prompt(&terminal, "segue> sharpen it");
        terminal.keys("\x03");
        at_prompt(&terminal, PROMPT.trim_end());
        terminal.keys("\x04");
        assert_eq!(terminal.end().0, 0);
    }
}

#[test]
fn control_c_while_drafting_stays_in_the_thread_and_keeps_what_was_typed() {
    let hanging = Reply { when: draft().when, ..Reply::fault(Fault::Hang) };
    let (sandbox, _server) = serve([Reply::text("Hello.\n"), hanging]);
    let terminal = Terminal::start(&sandbox, 100, &["chat"]);
    said(&terminal, "please mend the kettle");
    terminal.wait_for("Hello.");
    said(&terminal, "/handoff");
    terminal.wait_for("draft with anthropic/");
    terminal.keys("half a thought");
    terminal.wait_for("> half a thought");
    terminal.keys("\x03");
    let screen = at_prompt(&terminal, "segue> half a thought");
    assert!(screen.contains("Stopped: nothing was left behind"), "{screen}");
    terminal.kill();
    assert_eq!(sandbox.json(&["handoff", "--list", "--json"]), json!([]));
}

#[test]
fn a_new_thread_asks_whether_to_carry_context_forward() {
    let (sandbox, server) = serve([Reply::text("Hello.\n"), draft(), draft()]);
    let terminal = Terminal::start(&sandbox, 100, &["chat"]);
    said(&terminal, "please mend the kettle");
    terminal.wait_for("Hello.");
    // Stay.
    said(&terminal, "/new");
    terminal.wait_for("[c] Carry context forward");
    terminal.keys("\r\x1b");
    terminal.wait_for("→ Stay here");
    // Carry forward, and skip the summary after all.
    said(&terminal, "/new");
    terminal.wait_for("[s] Skip: begin blank");
    terminal.keys("c\r");
    terminal.wait_for("[s] Skip the summary");
    terminal.keys("s\r");
    terminal.wait_for("Without a summary: a blank thread begins with your next message.");
    assert_eq!((server.calls(), sandbox.threads().len()), (2, 1));
    // A blank thread has nothing to carry.
    said(&terminal, "/new");
    terminal.wait_for("New thread; it begins with your next message.");
    at_prompt(&terminal, PROMPT.trim_end());
    terminal.keys("\x04");
    assert_eq!(terminal.end().0, 0);
    // Carry forward, and accept.
    let terminal = Terminal::start(&sandbox, 100, &["chat", "-t", "last"]);
    said(&terminal, "/new");
    terminal.wait_for("[c] Carry context forward");
    terminal.keys("c\r");
    terminal.wait_for(QUESTION);
    terminal.keys("a\r");
    terminal.wait_for("You are in the new thread");
    at_prompt(&terminal, PROMPT.trim_end());
    terminal.keys("\x04");
    assert_eq!(terminal.end().0, 0);
    assert_eq!(sandbox.threads().len(), 2);
}

#[test]
fn a_handoff_that_waits_is_offered_when_its_thread_is_opened() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.run(&["handoff", &sandbox.session()]).code, 3);
    let terminal = Terminal::start(&sandbox, 100, &["chat", "-t", "last"]);
    let screen = terminal.wait_for("[r] Review now");
    assert!(screen.contains("A handoff of this thread waits for a decision: "), "{screen}");
    assert!(screen.contains("(asked for just now)"), "{screen}");
    terminal.keys("\r\x1b");
    at_prompt(&terminal, PROMPT.trim_end());
    terminal.keys("/threads last\r");
    terminal.wait_until("the offer again", |screen| screen.matches("[r] Review now").count() == 1);
    terminal.keys("r\r");
    terminal.wait_for("[a] Accept");
    terminal.keys("a\r");
    terminal.wait_for("You are in the new thread");
    at_prompt(&terminal, PROMPT.trim_end());
    terminal.keys("\x04");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn a_chat_in_plain_mode_reviews_without_drawing_over() {
    let (sandbox, _server) = serve([Reply::text("Hello.\n"), draft()]);
    let terminal = Terminal::start(&sandbox, 60, &["chat", "--plain"]);
    said(&terminal, "please mend the kettle");
    terminal.wait_for("Hello.");
    said(&terminal, "/handoff");
    terminal.wait_for("Choose a key, Enter for none>");
    terminal.keys("and thank you\n");
    terminal.wait_for("Kept for your next message: and thank you");
    terminal.keys("a\n");
    terminal.wait_for("You had typed, and it was not sent:");
    at_prompt(&terminal, PROMPT.trim_end());
    terminal.keys("/quit\n");
    let (code, printed) = terminal.end_printed();
    assert_eq!(code, 0, "{printed}");
    assert!(!printed.contains('\u{1b}'), "{printed:?}");
    assert!(printed.contains("You are in the new thread"), "{printed}");
}

#[test]
fn a_line_typed_while_a_draft_is_made_answers_no_question_in_plain_mode() {
    let (mut sandbox, server) = serve([Reply::text("Hello.\n"), draft().gated("drafted", Place::Start)]);
    sandbox.set("SEGUE_PLAIN", "1");
    let terminal = Terminal::start(&sandbox, 80, &["chat"]);
    said(&terminal, "please mend the kettle");
    terminal.wait_for("Hello.");
    said(&terminal, "/handoff");
    terminal.wait_for("draft with anthropic/");
    terminal.keys("a\n");
    terminal.wait_until("the echo", |screen| screen.lines().any(|line| line.trim() == "a"));
    server.open("drafted");
    terminal.wait_for("Choose a key, Enter for none>");
    assert_eq!(sandbox.threads().len(), 1);
    terminal.keys("D\n");
    terminal.wait_for("Reason (Enter for none)>");
    terminal.keys("\n");
    terminal.wait_for("You had typed, and it was not sent:");
    at_prompt(&terminal, PROMPT.trim_end());
    terminal.keys("/quit\n");
    let (code, printed) = terminal.end_printed();
    assert_eq!(code, 0, "{printed}");
    assert!(!printed.contains('\u{1b}') && printed.contains("Handoff declined"), "{printed:?}");
}
