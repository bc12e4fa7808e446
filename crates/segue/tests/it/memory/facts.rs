//! Durable facts: proposed with a summary, reviewed by a person, and part of the next request; and the history of agent.md.

use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use super::{INSTRUCTIONS, answer_reply, over_budget_sandbox};
use crate::compact::conversation_requests;
use crate::terminal::PtyTerminal;

/// Starts a server whose summaries propose two facts.
fn proposing_server() -> ScriptedServer {
    let facts = json!([
        {"kind": "preference", "text": "Parses line by line.", "quote": "Question 0:", "scope": "personal"},
        {"kind": "environment", "text": "Has modules.", "quote": "Question 1:", "scope": "project"},
        {"kind": "name", "text": "Is root.", "quote": "words that nobody wrote", "scope": "project"},
    ]);
    let text = format!("The person asked about modules.\n<durable_facts>{facts}</durable_facts>");
    let summary =
        ScriptedReply { always: true, ..ScriptedReply::text(text).when_body_contains(INSTRUCTIONS) };
    ScriptedServer::start(Script::new([summary, answer_reply()])).unwrap()
}

#[test]
fn a_reviewed_fact_is_part_of_the_next_request() {
    let server = proposing_server();
    let sandbox = over_budget_sandbox(&server);
    let ran = sandbox.run(&["run", "-c", "-p", "and now?"]);
    let notice = ran.stderr.replace('\n', " ");
    assert!(notice.contains("2 facts to review: `segue memory review`"), "{ran:?}");
    assert_eq!(sandbox.json(&["memory", "stats", "--json"])["facts_to_review"], 2);
    let shown = sandbox.run(&["memory", "show"]).stdout;
    assert!(shown.contains("2 facts to review: `segue memory review`"), "{shown}");
    assert_eq!(sandbox.read_agent_md(), None, "nothing enters the file without a review");

    let listed = sandbox.json(&["memory", "review", "--json"]);
    let facts = listed["facts"].as_array().unwrap();
    assert_eq!(facts.len(), 2, "{listed}");
    let (first, second) = (&facts[0], &facts[1]);
    assert_eq!((&first["text"], &first["project"]), (&json!("Parses line by line."), &Value::Null));
    let output = sandbox.run(&["memory", "review"]);
    let id = |fact: &Value| fact["fact_id"].as_str().unwrap()[..8].to_owned();
    let text = output.stdout;
    assert!(text.contains(&id(first)) && text.contains("“Question 0:” (you in "), "{text}");

    for twice in
        [["--accept", &id(first), "--decline", &id(first)], ["--accept", &id(first), &id(first), "--list"]]
    {
        let twice = if twice[3] == "--list" { &twice[..3] } else { &twice[..] };
        let refused = sandbox.run(&[&["memory", "review"], twice].concat());
        assert!(refused.code == 2 && refused.stderr.contains("is named twice"), "{refused:?}");
    }
    let no_words = sandbox.run(&["memory", "review", "--edit", &id(second), "--text", "---"]);
    no_words.assert_error(2, "the text has no letter and no digit");
    assert_eq!(sandbox.read_agent_md(), None, "nothing was decided");
    let accepted = sandbox.run(&["memory", "review", "--accept", &id(first)]);
    assert!(accepted.stdout.contains("- Parses line by line."), "{accepted:?}");
    let note = "- Has twelve modules.";
    let edited = sandbox.json(&["memory", "review", "--edit", &id(second), "--text", note, "--json"]);
    assert_eq!(edited["facts"][0]["state"], "edited", "{edited}");
    let again = sandbox.run(&["memory", "review", "--decline", &id(first)]);
    again.assert_error(1, "it is already accepted");
    let agent_md = sandbox.read_agent_md().unwrap();
    assert!(agent_md.contains("- Parses line by line.\n") && agent_md.contains("- Has twelve modules.\n"));
    assert_eq!(sandbox.run(&["memory", "review"]).stdout, "No fact awaits review.\n");
    let all = sandbox.json(&["memory", "review", "--all", "--json"]);
    assert_eq!(
        (&all["facts"][0]["state"], &all["facts"][1]["state"]),
        (&json!("accepted"), &json!("edited"))
    );
    let listed = sandbox.run(&["memory", "review", "--all"]).stdout;
    assert!(listed.contains("accepted: preference, personal"), "{listed}");

    assert_eq!(sandbox.run(&["run", "-c", "-p", "and then?"]).code, 0);
    let sent = conversation_requests(&server).pop().unwrap().to_string();
    assert!(sent.contains("- Parses line by line.") && sent.contains(note), "{sent}");
}

#[test]
fn facts_are_reviewed_one_by_one_in_a_terminal() {
    let server = proposing_server();
    let sandbox = over_budget_sandbox(&server);
    assert_eq!(sandbox.run(&["run", "-c", "-p", "and now?"]).code, 0);
    let terminal = PtyTerminal::start(&sandbox, 80, &["memory", "review", "--plain"]);
    let questions = |count| move |screen: &str| screen.matches("Choose a key").count() == count;
    terminal.wait_until("the first question", questions(1));
    terminal.press_keys("a\r");
    terminal.wait_until("the second question", questions(2));
    terminal.press_keys("d\r");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("Declined: Has modules."), "{screen}");
    assert_eq!(sandbox.read_agent_md().as_deref(), Some("- Parses line by line.\n"));
}

#[test]
fn earlier_states_of_agent_md_are_listed_shown_and_restored() {
    let sandbox = crate::sandbox::TestSandbox::new();
    assert_eq!(sandbox.run(&["memory", "history"]).stdout, "agent.md has no notes and no history yet.\n");
    for note in ["one", "two"] {
        assert_eq!(sandbox.run(&["remember", "--everywhere", note]).code, 0);
    }
    let path = sandbox.json(&["memory", "path", "--json"])["path"].as_str().unwrap().to_owned();
    std::fs::write(&path, "- three\n").unwrap();
    let listed = sandbox.run(&["memory", "history"]).stdout;
    let lines: Vec<&str> = listed.lines().map(str::trim_end).collect();
    assert_eq!(lines.len(), 4, "{listed}");
    assert!(lines[1].contains("3 ") && lines[1].ends_with("another program or an editor  +1 −2"), "{listed}");
    assert_eq!(sandbox.run(&["memory", "history", "2"]).stdout, "- one\n- two\n");
    let diff = sandbox.run(&["memory", "history", "2", "--diff"]).stdout;
    assert!(diff.ends_with(" - one\n+- two\n"), "{diff}");
    assert_eq!(sandbox.run(&["memory", "restore", "2"]).code, 0);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "- one\n- two\n");
    let revisions = sandbox.json(&["memory", "history", "--json"]);
    assert_eq!(
        (&revisions["revisions"][0]["revision"], &revisions["revisions"][0]["cause"]),
        (&json!(4), &json!("restore"))
    );
    sandbox.run(&["memory", "restore", "9"]).assert_error(2, "revision 9");
}
