//! `segue import`: the report on each session and on damaged records, and importing a session again.

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
fn an_incomplete_import_is_marked_wherever_its_thread_is_shown_until_the_next_import() {
    let sandbox = TestSandbox::new();
    let path = sandbox.write_session();
    sandbox.run(&["import", &path]);
    let mark = format!(r#"{{"incomplete_import":{{"path":"{path}","messages":3,"messages_total":9}}}}"#);
    sandbox.execute_sql(&format!("UPDATE threads SET metadata = '{mark}'"));
    let notice = "import incomplete: 3 of 9 messages; run `segue import";
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let list = sandbox.run(&["threads", "list"]);
    assert!(list.stdout.contains("[import incomplete] "), "{list:?}");
    let shown = sandbox.run(&["threads", "show", "last"]);
    assert!(words(&shown.stdout).contains(notice), "{shown:?}");
    for args in [
        &["history", "last"][..],
        &["handoff", "last", "--preview"],
        &["handoff", "last", "--preview", "--json"],
        &["run", "-t", "last", "-p", "And now?"],
    ] {
        let output = sandbox.run(args);
        assert!(words(&output.stderr).contains(notice), "{args:?}: {output:?}");
    }
    let history = sandbox.json(&["history", "last", "--json"]);
    assert_eq!(history["incomplete_import"]["messages_total"], 9);
    let again = sandbox.run(&["import", &path]);
    assert!(again.stdout.contains("nothing new"), "{again:?}");
    let list = sandbox.run(&["threads", "list"]);
    assert!(!list.stdout.contains("import incomplete"), "{list:?}");
    assert_eq!(sandbox.json(&["history", "last", "--json"]).get("incomplete_import"), None);
}

#[test]
fn damaged_records_are_reported_by_file_and_line_and_the_others_are_imported() {
    let sandbox = TestSandbox::new();
    let mut lines: Vec<String> = sample_session().lines().map(str::to_owned).collect();
    lines.insert(3, "{\"type\":\"user\",\"message\":{\"role\":".to_owned());
    let path = sandbox.write_file("damaged.jsonl", lines.join("\n"));
    let output = sandbox.run(&["import", &path]);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.stderr.starts_with(&format!("{path}:4: ")), "{output:?}");
    assert!(output.stdout.contains("1 damaged record"), "{output:?}");
    let whole = TestSandbox::new();
    whole.run(&["import", &whole.write_session()]);
    assert_eq!(sandbox.threads()[0]["message_count"], whole.threads()[0]["message_count"]);
}

#[test]
fn only_the_first_damaged_records_are_listed_individually() {
    let sandbox = TestSandbox::new();
    let mut text = sample_session();
    text.extend(std::iter::repeat_n("{broken\n", 30));
    let output = sandbox.run(&["import", &sandbox.write_file("damaged.jsonl", text)]);
    assert_eq!(output.code, 0, "{output:?}");
    // At most 20 records, the number of the others, and the next command.
    let lines = output.stderr.lines().count();
    assert!(lines <= 22, "{lines} lines: {}", output.stderr);
    let hint = output.stderr.lines().last().unwrap();
    assert!(hint.starts_with("Hand it off with `segue handoff "), "{hint}");
}

#[test]
fn a_folder_is_imported_file_by_file_and_other_files_in_it_are_named_as_skipped() {
    let sandbox = TestSandbox::new();
    sandbox.write_session();
    sandbox.write_file("notes.txt", "nothing of interest\n");
    let output = sandbox.run(&["import", sandbox.work_folder().to_str().unwrap()]);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.stdout.contains("1 thread ·") && output.stdout.contains("1 file skipped"), "{output:?}");
}

#[test]
fn m16_lists_and_reports_name_no_secret_of_a_first_message() {
    let sandbox = TestSandbox::new();
    let secret = format!("ghp_{}0123456789", "aB".repeat(13));
    let session = sample_session().replace("Never raise the timeout", &format!("The key is {secret}"));
    let file = sandbox.write_file("session.jsonl", session);
    let mut outputs = vec![sandbox.run(&["import", &file, "--json"])];
    let thread = outputs[0].json()["threads"][0]["thread_id"].as_str().unwrap().to_owned();
    for args in [
        vec!["threads", "list", "--json"],
        vec!["threads", "tree", "--json"],
        vec!["threads", "show", &thread],
        vec!["threads", "show", &thread, "--json"],
        vec!["handoff", &thread, "--goal", &format!("use {secret}"), "--json"],
        vec!["handoff", "--list", "--json"],
        vec!["handoff", "--list"],
        vec!["handoff", &file, "--json"],
    ] {
        outputs.push(sandbox.run(&args));
    }
    for output in outputs {
        assert!(!output.stdout.contains(&secret), "{output:?}");
    }
}
