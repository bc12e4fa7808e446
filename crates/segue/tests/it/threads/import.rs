//! Importing: what is told of each session, of what was damaged, and of a session that is imported again.

use crate::sandbox::{TestSandbox, sample_session};

#[test]
fn importing_again_adds_only_what_is_new() {
    let sandbox = TestSandbox::new();
    let whole = sample_session();
    let half: String = whole.lines().take(6).map(|line| format!("{line}\n")).collect();
    let path = sandbox.write_file("session.jsonl", &half);
    let first = sandbox.run(&["import", &path]);
    assert!(first.stdout.contains("new, ") && first.stdout.contains("claude"), "{first:?}");
    let again = sandbox.run(&["import", &path]);
    assert!(again.stdout.contains("nothing new"), "{again:?}");
    sandbox.write_session();
    let report = sandbox.json(&["import", &path, "--json"]);
    let thread = &report["threads"][0];
    assert_eq!(thread["is_new"], false);
    let (new, total) = (thread["events_new"].as_u64().unwrap(), thread["events_total"].as_u64().unwrap());
    assert!(0 < new && new < total, "{thread}");
    assert_eq!(sandbox.threads().len(), 1);
}

#[test]
fn damaged_records_are_told_by_file_and_line_and_the_rest_is_kept() {
    let sandbox = TestSandbox::new();
    let mut lines: Vec<String> = sample_session().lines().map(str::to_owned).collect();
    lines.insert(3, "{\"type\":\"user\",\"message\":{\"role\":".to_owned());
    let path = sandbox.write_file("damaged.jsonl", lines.join("\n"));
    let ended = sandbox.run(&["import", &path]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stderr.starts_with(&format!("{path}:4: ")), "{ended:?}");
    assert!(ended.stdout.contains("1 damaged record"), "{ended:?}");
    let whole = TestSandbox::new();
    whole.run(&["import", &whole.write_session()]);
    assert_eq!(sandbox.threads()[0]["message_count"], whole.threads()[0]["message_count"]);
}

#[test]
fn only_the_first_damaged_records_are_told_one_by_one() {
    let sandbox = TestSandbox::new();
    let mut text = sample_session();
    text.extend(std::iter::repeat_n("{broken\n", 30));
    let ended = sandbox.run(&["import", &sandbox.write_file("damaged.jsonl", text)]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let told = ended.stderr.lines().count();
    assert!(told <= 21, "{told} lines: {}", ended.stderr);
}

#[test]
fn a_folder_is_imported_file_by_file_and_other_files_in_it_are_named_as_skipped() {
    let sandbox = TestSandbox::new();
    sandbox.write_session();
    sandbox.write_file("notes.txt", "nothing of interest\n");
    let ended = sandbox.run(&["import", sandbox.work_folder().to_str().unwrap()]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stdout.contains("1 thread ·") && ended.stdout.contains("1 file skipped"), "{ended:?}");
}
