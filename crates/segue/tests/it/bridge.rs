//! The whole way in one terminal: a conversation, its handoff refined twice, taken back, edited and accepted, and the
//! child's first two turns.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use scripted::{Reply, Script, Server};
use serde_json::{Value, json};

use crate::sandbox::Sandbox;
use crate::terminal::Terminal;

const QUESTION: &str = "[Esc] Decide later";
/// What the person had written into agent.md, with everything that a careless writer would change.
const NOTES: &str =
    "\u{feff}# Notes\r\n\r\nNever raise the timeout.  \r\n<!-- mine -->\r\nno newline at the end";

/// A draft whose next step is `next`.
fn draft(next: &str) -> Reply {
    let item = |kind: &str, text: &str| json!({"kind": kind, "text": text, "refs": [1]});
    let body = [
        item("objective", "Mend the retry test in src/retry.rs."),
        item("decision", "Never raise the timeout."),
        item("next_step", next),
    ];
    let draft = json!({"title": "Mend the retry test", "tldr": "The clock is passed in.", "body": body});
    Reply::text(draft.to_string()).when_body_contains("You write the handoff summary")
}

fn answer(terminal: &Terminal, key: &str) {
    terminal.wait_for(QUESTION);
    terminal.keys(&format!("{key}\r"));
}

fn refine(terminal: &Terminal, feedback: &str, shows: &str) {
    answer(terminal, "r");
    terminal.wait_for("Feedback");
    terminal.keys(&format!("{feedback}\r"));
    terminal.wait_for(shows);
}

/// Returns the system prompt of a request, as the model reads it.
fn system(body: &Value) -> String {
    let blocks = body["system"].as_array().unwrap().iter();
    blocks.map(|block| block["text"].as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

#[test]
fn m1_g12_what_a_person_accepts_is_what_the_child_reads_once_byte_for_byte() {
    let server = Server::start(Script::new([
        draft("Do the same in src/backoff.rs."),
        draft("Do the same in src/backoff.rs, then run the suite."),
        draft("Run the suite."),
        Reply::text("The clock is passed in, in src/retry.rs.")
            .when_body_contains("Mend the retry test in src/retry.rs and src/backoff.rs"),
        Reply::text("I go on with the suite.").repeated(),
    ]))
    .unwrap();
    let mut sandbox = Sandbox::new().with_model(&server);
    let agent_md = sandbox.home().join("agents/agent/agent.md");
    fs::create_dir_all(agent_md.parent().unwrap()).unwrap();
    fs::write(&agent_md, NOTES).unwrap();
    let editor = sandbox.file("editor.sh", "#!/bin/sh\nsed -i 's/^- Never raise/- Do never raise/' \"$1\"\n");
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o700)).unwrap();
    sandbox.set("EDITOR", &editor);

    let terminal = Terminal::start(&sandbox, 60, &["chat"]);
    terminal.wait_for("New thread.");
    terminal.keys("Mend the retry test in src/retry.rs and src/backoff.rs. Never raise the timeout.\r");
    terminal.wait_for("The clock is passed in, in src/retry.rs.");
    terminal.keys("/handoff\r");
    terminal.wait_for("3 refinements are left.");
    refine(&terminal, "and the suite", "2 refinements are left.");
    refine(&terminal, "only the suite", "1 refinement is left.");
    answer(&terminal, "u");
    terminal.wait_for("Go back to");
    terminal.keys("\x1b[A\r");
    terminal.wait_for("draft 4");
    answer(&terminal, "e");
    terminal.wait_for("You are in the new thread");
    assert_eq!(server.calls(), 1 + 3, "two refinements are three drafts, and going back and editing none");
    let block = sandbox.agent_md().unwrap();
    let shown = sandbox.json(&["handoff", "--list", "--json"]);
    assert_eq!(shown, json!([]), "nothing waits");

    terminal.keys("Go on.\r");
    terminal.wait_for("I go on with the suite.");
    terminal.keys("And then?\r");
    terminal.wait_until("the second answer", |screen| screen.matches("I go on with the suite.").count() == 2);
    terminal.keys("/quit\r");
    assert_eq!(terminal.end().0, 0);

    let requests = server.requests();
    let (first, second) = (system(&requests[4].body), system(&requests[5].body));
    let accepted = block
        .split_once("<current_thread_summary>\r\n")
        .and_then(|(_, rest)| rest.split_once("\r\n</current_thread_summary>"))
        .map(|(summary, _)| summary.replace("\r\n", "\n"))
        .unwrap_or_else(|| panic!("no block:\n{block}"));
    assert!(accepted.contains("- Do never raise the timeout."), "{accepted}");
    assert!(accepted.contains("Do the same in src/backoff.rs"), "{accepted}");
    assert!(first.contains(&format!("\n{accepted}\n")), "the first turn reads it:\n{first}\n---\n{accepted}");
    assert!(!second.contains("Do never raise"), "the second does not:\n{second}");

    let after = fs::read_to_string(&agent_md).unwrap();
    assert!(after.starts_with(NOTES), "what was there stays:\n{after:?}");
    assert_eq!(
        after.replace("None recorded yet.", &accepted.replace('\n', "\r\n")),
        block,
        "only the block changed"
    );
}
