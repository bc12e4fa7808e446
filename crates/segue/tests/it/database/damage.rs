//! Damaged events: no command serves changed text, the history shows the rest, and `segue db salvage` saves it.

use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::sandbox::TestSandbox;
use crate::serve::owner_client;
use crate::server::ServeProcess;

/// The exit code of a failure of the database.
const STORE: i32 = 1;

/// Changes a word of the answer about the clock, as a defective disk would.
const DAMAGE: &str =
    "UPDATE events SET content = replace(content, 'clock is read twice', 'clock is read thrice')
    WHERE event_type = 'ai_message' AND content LIKE '%clock is read twice%'";

/// Imports the sample session, damages one of its messages, and returns the id of its thread.
fn import_and_damage(sandbox: &TestSandbox) -> String {
    let path = sandbox.write_session();
    assert_eq!(sandbox.run(&["import", &path]).code, 0);
    sandbox.execute_sql(DAMAGE);
    sandbox.threads()[0]["thread_id"].as_str().unwrap().to_owned()
}

fn damaged_entries(page: &Value) -> Vec<u64> {
    let entries = page["entries"].as_array().unwrap().iter();
    entries
        .filter(|entry| entry["type"] == "event_damaged")
        .map(|entry| entry["seq"].as_u64().unwrap())
        .collect()
}

#[test]
fn a4_b14_changed_text_is_served_by_no_command_and_the_rest_is_shown() {
    let sandbox = TestSandbox::new();
    let thread = import_and_damage(&sandbox);
    let events_before = sandbox.threads()[0]["last_seq"].clone();
    let page = sandbox.json(&["history", &thread, "--json"]);
    let [seq] = damaged_entries(&page)[..] else { panic!("{page}") };
    assert!(page["entries"].as_array().unwrap().len() > 5, "{page}");
    let shown = sandbox.run(&["history", &thread]);
    assert!(shown.code == 0 && shown.stdout.contains(&format!("Event {seq} is damaged")), "{shown:?}");
    let what = format!("event {seq} of thread {thread}");
    for args in [
        &["threads", "export", &thread, "--format", "json"][..],
        &["threads", "export", &thread],
        &["handoff", &thread, "--preview"],
        &["compact", &thread],
    ] {
        let output = sandbox.run(args);
        assert_eq!(output.code, STORE, "{args:?}: {output:?}");
        assert!(output.stderr.contains(&what) && output.stderr.contains("hint: "), "{args:?}: {output:?}");
        assert!(!output.stdout.contains("thrice"), "{args:?}: {output:?}");
    }
    let found = sandbox.run(&["search", "clock", "--everywhere"]);
    assert!(found.code == 0 && !found.stdout.contains("thrice"), "{found:?}");
    let recalled = sandbox.run(&["recall", &thread, "clock"]);
    let shown = recalled.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(recalled.code == 0 && shown.contains("still reads the clock twice"), "{recalled:?}");
    assert!(shown.contains("1 message is damaged") && !shown.contains("thrice"), "{recalled:?}");
    let recalled = sandbox.json(&["recall", &thread, "--from", "1", "--to", "99", "--json"]);
    assert_eq!(recalled["damaged_messages"], 1, "{recalled}");
    assert_eq!(sandbox.threads()[0]["last_seq"], events_before, "nothing was appended");
    let until = (seq - 1).to_string();
    assert_eq!(sandbox.run(&["threads", "fork", &thread, "--until", &until]).code, 0);
    let doctor = sandbox.run(&["doctor", "--json"]);
    assert_eq!(doctor.code, STORE, "{doctor:?}");
    assert!(doctor.stdout.contains(&format!("damaged events of thread {thread}: {seq}")), "{doctor:?}");
}

#[test]
fn a4_a_server_reports_damaged_events_among_the_newest_when_it_starts() {
    let sandbox = TestSandbox::new();
    let thread = import_and_damage(&sandbox);
    let [seq] = damaged_entries(&sandbox.json(&["history", &thread, "--json"]))[..] else { panic!() };
    let mut command = sandbox.command(&["serve", "--addr", "127.0.0.1:0", "--json"]);
    command.stderr(Stdio::piped());
    let serving = ServeProcess::spawn(command);
    let metrics = owner_client(&serving).get("/metrics").text();
    assert!(metrics.contains("segue_events_damaged 1\n"), "{metrics}");
    serving.signal(Signal::TERM);
    let (code, stderr) = serving.wait_for_failure();
    assert_eq!(code, Some(0));
    assert!(stderr.contains(&format!("event {seq} of thread {thread} is damaged")), "{stderr}");
}

#[test]
fn a4_a_server_does_not_start_on_a_file_whose_newest_pages_are_damaged() {
    let sandbox = TestSandbox::new().with_file_database();
    let path = sandbox.home().join("segue.db");
    import_and_damage(&sandbox);
    sandbox.execute_sql("PRAGMA wal_checkpoint(TRUNCATE)");
    // The page with the newest event, and pages that are not in use and still contain it.
    let mut bytes = std::fs::read(&path).unwrap();
    let text = b"run the whole suite";
    let is_text = |position: &usize| bytes[*position..].starts_with(text);
    let positions: Vec<usize> = (0..bytes.len()).filter(is_text).collect();
    assert!(!positions.is_empty());
    for position in positions {
        bytes[position / 4_096 * 4_096..][..4_096].fill(0xFF);
    }
    std::fs::write(&path, &bytes).unwrap();
    let output = sandbox.run(&["serve", "--addr", "127.0.0.1:0"]);
    assert_eq!(output.code, STORE, "{output:?}");
    assert!(output.stderr.contains("segue.db") && output.stderr.contains("segue db salvage"), "{output:?}");
    assert!(std::fs::read(&path).unwrap() == bytes, "the damaged file is not changed");
}

#[test]
fn a_salvage_saves_the_rest_into_a_new_file() {
    let sandbox = TestSandbox::new().with_file_database();
    let thread = import_and_damage(&sandbox);
    let page = sandbox.json(&["history", &thread, "--json"]);
    let [seq] = damaged_entries(&page)[..] else { panic!("{page}") };
    let file = sandbox.home().join("segue.db").to_str().unwrap().to_owned();
    let salvaged = sandbox.run(&["db", "salvage", &file, "--to", "saved.db"]);
    assert_eq!(salvaged.code, 0, "{salvaged:?}");
    assert!(salvaged.stdout.contains(&format!("Lost events of thread {thread}: {seq}")), "{salvaged:?}");
    let url = "sqlite:saved.db";
    let saved = sandbox.json(&["history", &thread, "--json", "--database-url", url]);
    assert_eq!(damaged_entries(&saved), Vec::<u64>::new());
    assert_eq!(saved["entries"].as_array().unwrap().len() + 1, page["entries"].as_array().unwrap().len());
    let doctor = sandbox.json(&["doctor", "--json", "--database-url", url]);
    assert!(doctor.as_array().unwrap().iter().all(|check| check["verdict"] != "fail"), "{doctor}");
    let report = sandbox.json(&["db", "salvage", &file, "--to", "again.db", "--json"]);
    assert_eq!(report["lost_events"][0]["ranges"], serde_json::json!([[seq, seq]]), "{report}");
    sandbox
        .run(&["db", "salvage", &file, "--to", "saved.db"])
        .assert_error(2, "a file with this name exists");
    sandbox.run(&["db", "salvage", "none.db", "--to", "other.db"]).assert_error(2, "find the database");
}
