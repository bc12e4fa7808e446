//! `segue recall` and `/recall`: search in the messages of a thread and its ancestors.

use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::sandbox::TestSandbox;

#[test]
fn m11_the_child_finds_messages_from_before_the_handoff() {
    let sandbox = TestSandbox::new();
    let report = sandbox.json(&["handoff", &sandbox.write_session(), "--apply", "--json"]);
    let (child, parent) =
        (report["child_thread_id"].as_str().unwrap(), report["thread_id"].as_str().unwrap());
    let found = sandbox.json(&["recall", child, "backoff", "clock", "--json"]);
    assert_eq!(found["threads"], json!([child, parent]));
    let said: Vec<&Value> = found["excerpts"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|excerpt| excerpt.as_array().unwrap())
        .collect();
    let backoff = said.iter().find(|one| one["text"].as_str().unwrap().contains("src/backoff.rs")).unwrap();
    assert_eq!((&backoff["thread_id"], &backoff["speaker"]), (&json!(parent), &json!("human")));
    let seq = backoff["seq"].as_u64().unwrap();

    let text = sandbox.run(&["recall", child, "backoff", "clock"]);
    assert!(text.code == 0 && text.stdout.contains(&format!("#{seq} you ")), "{text:?}");
    assert!(text.stdout.lines().all(|line| line.chars().count() <= 80), "{text:?}");

    let limited = sandbox.json(&["recall", child, "retries", "clock", "--limit", "1", "--json"]);
    assert_eq!(limited["excerpts"].as_array().unwrap().len(), 1, "{limited}");
    assert!(limited["more_messages"].as_u64().unwrap() > 0, "{limited}");

    // A range refers to the messages of the named thread.
    let from = seq.to_string();
    let range = sandbox.json(&["recall", parent, "--from", &from, "--to", &from, "--json"]);
    assert_eq!(range["excerpts"][0][0]["text"], backoff["text"]);
    let none = sandbox.run(&["recall", child, "--from", "900"]);
    assert!(none.code == 0 && none.stdout.contains("no messages"), "{none:?}");
    sandbox.run(&["recall", child, "…"]).assert_error(2, "no word");
    sandbox.run(&["recall", child, "--from", "5", "--to", "2"]).assert_error(2, "5 to 2");
    sandbox.run(&["recall", "ffffffff", "clock"]).assert_error(2, "find a thread");
}

#[test]
fn a_child_whose_parent_was_deleted_is_searched_alone_with_a_notice() {
    let server =
        ScriptedServer::start(Script::new([ScriptedReply { always: true, ..ScriptedReply::text("Heard.") }]))
            .unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let report = sandbox.json(&["handoff", &sandbox.write_session(), "--apply", "--json"]);
    let (child, parent) =
        (report["child_thread_id"].as_str().unwrap(), report["thread_id"].as_str().unwrap());
    sandbox.run(&["run", "-t", child, "-p", "The zebra crossing is next."]);
    assert_eq!(sandbox.run(&["threads", "delete", parent, "--yes"]).code, 0);
    let found = sandbox.run(&["recall", child, "zebra"]);
    assert!(found.code == 0 && found.stdout.contains("zebra crossing"), "{found:?}");
    let notice = found.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(notice.contains("was deleted. Only the messages of this thread are searched."), "{found:?}");
    assert_eq!(sandbox.json(&["recall", child, "zebra", "--json"])["threads"], json!([child]));
    // A search of the chat does the same.
    let chat = sandbox.run_with(&["chat", "-t", child], "/recall zebra\n");
    assert!(chat.stdout.contains("zebra crossing") && chat.stderr.contains("was deleted"), "{chat:?}");
}

#[test]
fn m11_the_chat_has_the_recall_command() {
    let server =
        ScriptedServer::start(Script::new([ScriptedReply { always: true, ..ScriptedReply::text("Heard.") }]))
            .unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let report = sandbox.json(&["import", &sandbox.write_session(), "--json"]);
    let thread = report["threads"][0]["thread_id"].as_str().unwrap();
    let chat = sandbox.run_with(&["chat", "-t", thread], "/recall backoff\n/recall\n");
    assert!(chat.stdout.contains("src/backoff.rs") && chat.stdout.contains("#"), "{chat:?}");
    assert!(chat.stderr.contains("no words were given"), "{chat:?}");
}

#[test]
fn a_recall_with_missing_arguments_says_what_is_missing_in_one_line_with_an_example() {
    let sandbox = TestSandbox::new();
    for (args, problem) in [
        (&["recall", "--from", "3", "--limit", "2"][..], "the thread is missing"),
        (&["recall"], "the thread is missing"),
        (&["recall", "last"], "words to search for, or a range, are missing"),
        (&["recall", "last", "--to", "4"], "`--to` needs `--from`"),
        (&["recall", "last", "--from", "3", "--limit", "2"], "`--limit` belongs to words"),
        (&["recall", "last", "clock", "--from", "3"], "not both"),
    ] {
        let output = sandbox.run(args);
        output.assert_error(2, problem);
        assert!(output.stderr.contains("segue recall last --from 3 --to 5"), "{output:?}");
        assert!(!output.stderr.contains("Usage"), "{output:?}");
    }
}
