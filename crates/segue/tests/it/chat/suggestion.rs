//! The first message that is suggested after an accepted handoff.

use serde_json::Value;
use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::handoff::summary_draft;
use crate::sandbox::TestSandbox;
use crate::terminal::PtyTerminal;

const SUGGESTION: &str = "Continue with: Do the same in src/backoff.rs.";

/// Returns the last message of the person in the newest thread.
fn last_request(server: &ScriptedServer) -> String {
    let body = server.requests().pop().unwrap().body;
    let messages = body["messages"].as_array().unwrap();
    let mut users = messages.iter().filter(|message| message["role"] == "user");
    users.next_back().map(Value::to_string).unwrap_or_default()
}

#[test]
fn an_accepted_handoff_suggests_the_next_step_which_a_key_takes_and_nothing_sends() {
    let replies = [summary_draft("one"), ScriptedReply::text("Mended.")];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    sandbox.json(&["import", &sandbox.write_session(), "--json"]);
    let terminal = PtyTerminal::start(&sandbox, 100, &["chat", "-t", "last"]);
    terminal.wait_for("segue>");
    terminal.press_keys("/handoff --apply\r");
    terminal.wait_for(&format!("Suggested first message (→ inserts it): {SUGGESTION}"));
    terminal.wait_for(&format!("segue> {SUGGESTION}"));
    assert_eq!(server.call_count(), 1, "nothing is sent by itself");
    terminal.press_keys("\x1b[C");
    terminal.press_keys("\r");
    terminal.wait_for("Mended.");
    assert!(last_request(&server).contains(SUGGESTION), "{}", last_request(&server));
    terminal.press_keys("\x04");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
}

#[test]
fn the_report_of_an_accepted_handoff_contains_the_suggestion() {
    let server = ScriptedServer::start(Script::new([summary_draft("one"), summary_draft("two")])).unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let session = sandbox.write_session();
    let report = sandbox.json(&["handoff", &session, "--apply", "--json"]);
    assert_eq!(report["suggested_message"], SUGGESTION);
    let text = sandbox.run(&["handoff", &session, "--apply"]).stdout;
    assert!(text.contains(&format!("Suggested first message: {SUGGESTION}")), "{text}");
}
