//! The history of a compacted thread: pages, opened and closed markers, and exports.

use serde_json::json;

use super::{GOAL, compacting_server, history_messages, long_thread};
use crate::sandbox::TestSandbox;
use crate::terminal::PtyTerminal;

fn compacted_sandbox() -> TestSandbox {
    let server = compacting_server();
    let sandbox = long_thread(TestSandbox::new().with_model(&server), 12);
    assert_eq!(sandbox.run(&["compact", "last", "--keep", "16"]).code, 0);
    assert_eq!(sandbox.run(&["compact", "last", "--keep", "4"]).code, 0);
    sandbox
}

#[test]
fn c6_two_compactions_are_two_cards_in_order() {
    let sandbox = compacted_sandbox();
    let output = sandbox.run(&["history", "last", "--limit", "500"]).stdout;
    let first = output.find("── 8 messages compacted · #1–#8 · ").unwrap();
    let second = output.find("── 12 messages compacted · #9–#20 · ").unwrap();
    assert!(output.starts_with("you #1 ") && first < second, "{output}");
    assert_eq!(output.matches(" messages compacted · ").count(), 2);
    assert!(!output.contains(GOAL), "they are closed: {output}");
}

#[test]
fn m10_a_marker_opens_to_its_summary_and_its_originals_across_pages() {
    let sandbox = compacted_sandbox();
    let page = sandbox.json(&["history", "last", "--markers", "--json"]);
    let (first, second) = (page["entries"][0]["seq"].clone(), page["entries"][1]["seq"].clone());
    // This page ends long before the markers.
    let output = sandbox.run(&["history", "last", "--expand", "--after", "6", "--limit", "4"]);
    let condensed_in = |seq: u64| {
        let line = output.stdout.lines().find(|line| line.contains(&format!(" #{seq} "))).unwrap();
        line.rsplit_once(" · compacted in #").map(|(_, marker)| marker.to_owned())
    };
    for (seq, marker) in [(7, &first), (8, &first), (9, &second), (10, &second)] {
        assert_eq!(condensed_in(seq), Some(marker.to_string()), "#{seq}: {output:?}");
    }
    assert!(
        output.stderr.contains("--expand --limit 4 --before 7`")
            && output.stderr.contains("--expand --limit 4 --after 10`"),
        "{output:?}"
    );
    let json = sandbox.json(&["history", "last", "--expand", "--after", "8", "--limit", "4", "--json"]);
    assert_eq!(json["markers"], json!([page["entries"][1]]), "only the marker that compacted them");
    // The newest page contains the messages that were not compacted, and the opened markers.
    let output = sandbox.run(&["history", "last", "--expand", "--limit", "6"]);
    let originals = format!("Messages of marker #{second}: `segue history last --after 8 --before 21`");
    assert!(output.stderr.contains(&originals), "{output:?}");
    let output = output.stdout;
    assert_eq!(output.matches(GOAL).count(), 2, "{output}");
    assert!(!output.contains("compacted in #"), "the remaining messages are not compacted: {output}");
    assert!(output.lines().any(|line| line.starts_with("│ ") && line.contains(GOAL)), "{output}");
    // A marker that was undone covers no messages.
    assert_eq!(sandbox.run(&["uncompact", "last"]).code, 0);
    let output = sandbox.run(&["history", "last", "--expand", "--after", "6", "--limit", "4"]).stdout;
    assert_eq!(output.matches(&format!("compacted in #{first}")).count(), 2, "{output}");
    assert!(!output.contains(&format!("compacted in #{second}")), "{output}");
}

#[test]
fn a10_pages_of_markers_have_no_gap_or_overlap() {
    let sandbox = compacted_sandbox();
    let newest = sandbox.json(&["history", "last", "--markers", "--limit", "1", "--json"]);
    assert_eq!((&newest["has_more_before"], &newest["entries"][0]["first_seq"]), (&json!(true), &json!(9)));
    let before = newest["first_seq"].to_string();
    let older =
        sandbox.json(&["history", "last", "--markers", "--limit", "1", "--before", &before, "--json"]);
    assert_eq!((&older["has_more_before"], &older["entries"][0]["first_seq"]), (&json!(false), &json!(1)));
    let after = older["last_seq"].to_string();
    let again = sandbox.json(&["history", "last", "--markers", "--limit", "1", "--after", &after, "--json"]);
    assert_eq!(again["entries"], newest["entries"]);
}

#[test]
fn a9_a_page_of_markers_reports_whether_more_exist_on_each_side() {
    let sandbox = compacted_sandbox();
    let newest = sandbox.json(&["history", "last", "--markers", "--json"]);
    let (first, second) = (newest["first_seq"].to_string(), newest["last_seq"].to_string());
    for (bounds, more) in [
        (&["--before", second.as_str()][..], (false, true)),
        (&["--before", first.as_str()], (false, true)),
        (&["--after", first.as_str()], (true, false)),
        (&["--after", second.as_str()], (true, false)),
        (&["--after", "0", "--limit", "1"], (false, true)),
    ] {
        let args = [&["history", "last", "--markers", "--json"], bounds].concat();
        let page = sandbox.json(&args);
        let reported =
            (page["has_more_before"].as_bool().unwrap(), page["has_more_after"].as_bool().unwrap());
        assert_eq!(reported, more, "{bounds:?}: {page}");
    }
}

#[test]
fn m10_a_page_names_the_range_and_the_size_of_the_next_one() {
    let sandbox = compacted_sandbox();
    let stderr_of = |args: &[&str]| sandbox.run(&[&["history", "last"], args].concat()).stderr;
    let range = stderr_of(&["--after", "8", "--before", "21", "--limit", "5"]);
    assert!(range.contains("Later: `segue history last --limit 5 --after 13 --before 21`"), "{range}");
    let rest = stderr_of(&["--limit", "5", "--after", "13", "--before", "21"]);
    assert!(rest.contains("Later: `segue history last --limit 5 --after 18 --before 21`"), "{rest}");
    let end = stderr_of(&["--limit", "5", "--after", "18", "--before", "21"]);
    assert!(!end.contains("Later: ") && end.contains("Earlier: "), "{end}");
    let back = stderr_of(&["--before", "13", "--limit", "3", "--all"]);
    assert!(back.contains("Earlier: `segue history last --all --limit 3 --before 10`"), "{back}");
    assert!(back.contains("Later: `segue history last --all --limit 3 --after 12`"), "{back}");
    let whole = stderr_of(&["--before", "13"]);
    assert!(whole.contains("Later: `segue history last --after 12`"), "{whole}");
}

#[test]
fn c6_an_export_contains_the_markers() {
    let sandbox = compacted_sandbox();
    let markdown = sandbox.run(&["threads", "export", "last"]).stdout;
    assert!(
        markdown.contains("8 messages compacted") && markdown.contains("12 messages compacted"),
        "{markdown}"
    );
    assert!(markdown.contains("Answer 0: ") && markdown.contains(GOAL), "{markdown}");
    let json = sandbox.run(&["threads", "export", "last", "--format", "json"]).json();
    // The name of the file selects the format, unless an option does.
    for (options, name, is_json) in [
        (&[][..], "a.json", true),
        (&[], "a.md", false),
        (&["--format", "md"], "b.json", false),
        (&["--format", "json"], "b.md", true),
    ] {
        let file = sandbox.write_file(name, "");
        sandbox.run(&[&["threads", "export", "last", "-o", &file], options].concat());
        let written = std::fs::read_to_string(&file).unwrap();
        let expected = if is_json { json.clone() } else { serde_json::Value::String(markdown.clone()) };
        let actual = match is_json {
            true => serde_json::from_str(&written).unwrap(),
            false => serde_json::Value::String(written),
        };
        assert_eq!(actual, expected, "{options:?} {name}");
    }
    let markers: Vec<_> = json["history"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["type"] == "summary_marker")
        .collect();
    assert_eq!((markers.len(), &markers[1]["previous_seq"]), (2, &markers[0]["seq"]));
}

#[test]
fn b9_undone_messages_are_shown_on_request() {
    let sandbox = long_thread(TestSandbox::new(), 4);
    assert_eq!(sandbox.run(&["threads", "rewind", "last", "4"]).code, 0);
    let count = |args: &[&str]| sandbox.json(args)["entries"].as_array().unwrap().len();
    // The rewind itself is an entry too.
    assert_eq!(count(&["history", "last", "--json"]), 4 + 1);
    assert_eq!(count(&["history", "last", "--all", "--json"]), 8 + 1);
    let output = sandbox.run(&["history", "last", "--all"]).stdout;
    let flagged = |seq: u64| {
        let head = output.lines().find(|line| line.contains(&format!(" #{seq} "))).unwrap();
        head.ends_with(" · hidden")
    };
    assert_eq!((1..=8).filter(|seq| flagged(*seq)).collect::<Vec<_>>(), [5, 6, 7, 8], "{output}");
}

#[test]
fn c7_an_opened_card_in_plain_mode_ends_with_a_closing_line() {
    let sandbox = compacted_sandbox();
    let terminal =
        PtyTerminal::start(&sandbox, 100, &["history", "last", "--expand", "--markers", "--plain"]);
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    let lines: Vec<&str> = screen.lines().map(str::trim_end).collect();
    let at = |line: &str| {
        lines.iter().position(|other| other.starts_with(line)).unwrap_or_else(|| panic!("{line}: {screen}"))
    };
    let (head, summary, end) = (at("Marker "), at("Summary, "), at("End of the summary."));
    assert!(head < summary && summary < end, "{screen}");
    assert!(lines[summary + 1..end].iter().all(|line| line.is_empty() || line.starts_with("  ")), "{screen}");
    assert!(lines[summary..end].iter().any(|line| line.contains(GOAL)), "{screen}");
}

#[test]
fn m9_an_undo_that_was_rewound_has_no_effect() {
    let server = compacting_server();
    let sandbox = long_thread(TestSandbox::new().with_model(&server), 12);
    let marker = sandbox.json(&["compact", "last", "--keep", "4", "--json"])["marker"]["seq"].clone();
    assert_eq!(sandbox.run(&["uncompact", "last"]).code, 0);
    assert_eq!(sandbox.run(&["threads", "rewind", "last", &marker.to_string()]).code, 0);
    let compacted = &sandbox.json(&["context", "last", "--json"])["condensed"];
    assert_eq!(compacted["marker_seq"], marker, "it is active again");
    let page = sandbox.json(&["history", "last", "--all", "--markers", "--json"]);
    let flags: Vec<_> =
        page["entries"].as_array().unwrap().iter().map(|entry| entry.get("superseded")).collect();
    assert_eq!(flags, [None, Some(&json!(true))], "{page}");
    let output = sandbox.run(&["history", "last", "--all", "--markers"]).stdout;
    assert!(output.contains("20 messages compacted · ") && !output.contains(", then undone"), "{output}");
    let undone = format!("── undone: the compaction of #{marker}\n   hidden: ");
    assert!(output.contains(&undone), "{output}");
    let opened =
        sandbox.run(&["history", "last", "--all", "--expand", "--after", "0", "--limit", "2"]).stdout;
    assert!(opened.contains(&format!(" · compacted in #{marker}")), "{opened}");
    // Rewinding to before the marker also undoes the compaction.
    assert_eq!(sandbox.run(&["threads", "rewind", "last", "24"]).code, 0);
    assert_eq!(sandbox.json(&["context", "last", "--json"])["condensed"], json!(null));
    let output = sandbox.run(&["history", "last", "--all", "--markers"]).stdout;
    assert!(output.contains("20 messages compacted, then undone · "), "{output}");
    let opened =
        sandbox.run(&["history", "last", "--all", "--expand", "--after", "0", "--limit", "2"]).stdout;
    assert!(!opened.contains("compacted in #"), "{opened}");
}

/// Each command is a process of its own, so every read follows a restart.
#[test]
fn b2_with_default_settings_every_later_process_reads_the_whole_history_of_a_compacted_thread() {
    let server = compacting_server();
    let sandbox = long_thread(TestSandbox::new().with_model(&server), 12);
    for prompt in ["One more.", "And another."] {
        assert_eq!(sandbox.run(&["run", "-c", "-p", prompt]).code, 0);
    }
    let before = history_messages(&sandbox);
    assert_eq!(before.len(), 28);
    assert_eq!(sandbox.run(&["compact", "last", "--keep", "6"]).code, 0);
    assert_eq!(sandbox.run(&["run", "-c", "-p", "The last one."]).code, 0);
    assert!(!sandbox.home().join("config.toml").exists(), "the settings are the default ones");
    let is_on_disk = sandbox.database().is_some() || sandbox.home().join("segue.db").is_file();
    assert!(is_on_disk, "the journal is not in memory");
    for _ in 0..2 {
        let after = history_messages(&sandbox);
        assert_eq!(after[..28], before[..]);
        assert!(after[0]["content"].to_string().contains("Question 0: "), "{}", after[0]);
        let last: Vec<String> = after[28..].iter().map(|entry| entry["content"].to_string()).collect();
        assert!(last.len() == 2 && last[0].contains("The last one."), "{last:?}");
    }
}

#[test]
fn m10_a_fork_has_the_markers_and_the_originals_too() {
    let sandbox = compacted_sandbox();
    let markers = sandbox.json(&["history", "last", "--markers", "--json"])["entries"].clone();
    assert_eq!(sandbox.run(&["threads", "fork", "last"]).code, 0);
    assert_eq!(sandbox.threads().len(), 2);
    let copied = sandbox.json(&["history", "last", "--markers", "--json"])["entries"].clone();
    assert_eq!(copied, markers);
    let output = sandbox.run(&["history", "last", "--expand", "--after", "7", "--limit", "1"]).stdout;
    assert!(output.contains(&format!("compacted in #{}", markers[0]["seq"])), "{output}");
    assert!(output.contains("Answer 3: "), "{output}");
}
