//! `segue search`: plain questions, filters, and the link from a hit to its position in the history.

use serde_json::{Value, json};

use super::{over_budget_sandbox, summarizing_server};
use crate::compact::long_thread;
use crate::sandbox::TestSandbox;

fn search_hits(sandbox: &TestSandbox, args: &[&str]) -> Vec<Value> {
    let args = [&["search", "--everywhere"], args, &["--json"]].concat();
    sandbox.json(&args)["hits"].as_array().unwrap().clone()
}

#[test]
fn m11_a_plain_question_finds_the_original_words_and_their_position() {
    let sandbox = long_thread(TestSandbox::new(), 12);
    let best = &search_hits(&sandbox, &["what", "did", "I", "ask", "about", "module", "7?"])[0];
    assert_eq!((&best["kind"], &best["speaker"]), (&json!("message"), &json!("human")), "{best}");
    assert!(best["snippet"].as_str().unwrap().contains("module 7"), "{best}");
    let (seq, thread) = (best["seq"].as_u64().unwrap(), best["thread_id"].as_str().unwrap());
    assert_eq!(
        (seq, best["before"]["seq"].as_u64(), best["after"]["seq"].as_u64()),
        (15, Some(14), Some(16))
    );

    let output = sandbox.run(&["search", "what is in module 7?"]);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.stdout.lines().all(|line| line.chars().count() <= 80), "{output:?}");
    assert!(!output.stdout.contains(['\u{1b}', '\u{2}', '\u{3}']), "{output:?}");
    let head = output.stdout.lines().next().unwrap();
    assert!(head.contains(" #15 you 2026-11-20 10:14 · "), "{output:?}");
    // The suggested command shows the history around that position.
    let command = output.stderr.split('`').nth(1).unwrap();
    assert_eq!(command, format!("segue history {} --around 15", &thread[..13]));
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    let page = sandbox.run(&words).stdout;
    let requested_entries: Vec<&str> = page.lines().filter(|line| line.contains("requested")).collect();
    assert_eq!(requested_entries, ["you #15 2026-11-20 10:14 · requested"], "{page}");
    assert!(page.contains("#11 ") && page.contains("#19 ") && !page.contains("#10 "), "{page}");
}

#[test]
fn m11_a_page_around_an_event_does_not_exceed_the_thread() {
    let sandbox = long_thread(TestSandbox::new(), 12);
    let seqs = |args: &[&str]| -> Vec<u64> {
        let page = sandbox.json(&[&["history", "last", "--json"], args].concat());
        page["entries"].as_array().unwrap().iter().map(|entry| entry["seq"].as_u64().unwrap()).collect()
    };
    assert_eq!(seqs(&["--around", "12"]), (8..=16).collect::<Vec<_>>());
    assert_eq!(seqs(&["--around", "2"]), (1..=9).collect::<Vec<_>>());
    assert_eq!(seqs(&["--around", "24", "--limit", "4"]), [23, 24]);
    assert_eq!(seqs(&["--around", "999", "--limit", "4"]), [23, 24]);
    assert_eq!(sandbox.run(&["history", "last", "--around", "3", "--before", "9"]).code, 2);
}

/// A large import that was stopped leaves messages without an index.
#[test]
fn a_search_answers_before_everything_is_indexed_and_counts_the_rest() {
    // A search indexes 2,000 messages before it answers.
    let sandbox = long_thread(TestSandbox::new().with_file_database(), 1_500);
    let clear_index = || {
        sandbox.execute_sql("INSERT INTO search_index (search_index) VALUES ('delete-all')");
        sandbox.execute_sql("UPDATE thread_heads SET indexed_seq = 0");
    };
    let rest = json!({"messages": 1_000, "threads": 1});
    let search = ["search", "module", "--everywhere", "--limit", "1"];
    clear_index();
    let output = sandbox.run(&search);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.stdout.contains("module"), "what is indexed is found: {output:?}");
    let note = "1000 messages of 1 thread are not indexed yet and were not searched. Each search indexes more of them.";
    assert_eq!(
        output.stderr.split_whitespace().collect::<Vec<_>>().join(" ").matches(note).count(),
        1,
        "{output:?}"
    );
    clear_index();
    assert_eq!(sandbox.json(&[&search[..], &["--json"]].concat())["not_indexed"], rest);
    let later = sandbox.json(&[&search[..], &["--json"]].concat());
    assert_eq!(
        later["not_indexed"],
        json!({"messages": 0, "threads": 0}),
        "the next search has indexed the rest"
    );
    clear_index();
    let output = sandbox.run(&["recall", "last", "module"]);
    assert!(output.stdout.replace('\n', " ").contains(note), "{output:?}");
    clear_index();
    assert_eq!(sandbox.json(&["recall", "last", "module", "--json"])["not_indexed"], rest);
    let nothing = ["search", "zyzzyva", "--everywhere"];
    clear_index();
    let output = sandbox.run(&nothing);
    assert!(output.stdout.contains("No matches") && output.stdout.contains("not indexed yet"), "{output:?}");
}

#[test]
fn a_search_is_narrowed_by_thread_time_kind_and_assistant() {
    let server = summarizing_server();
    let sandbox = over_budget_sandbox(&server);
    assert_eq!(sandbox.run(&["run", "-c", "-p", "and now?"]).code, 0);
    sandbox.run(&["import", &sandbox.write_session()]);
    let threads = sandbox.threads();
    let long = threads.iter().find(|thread| thread["message_count"] == 26).unwrap();
    let long = long["thread_id"].as_str().unwrap();
    let kinds = |args: &[&str]| -> Vec<String> {
        search_hits(&sandbox, args).iter().map(|hit| hit["kind"].as_str().unwrap().to_owned()).collect()
    };
    assert!(kinds(&["parses line by line"]).contains(&"summary".to_owned()));
    assert_eq!(kinds(&["parses line by line", "--kind", "summary"]), ["summary"]);
    assert!(!kinds(&["parses line", "--kind", "message"]).contains(&"summary".to_owned()));
    let hit_count = |args: &[&str]| search_hits(&sandbox, args).len();
    assert!(hit_count(&["clock", "test"]) > 0 && hit_count(&["clock", "test", "--thread", long]) == 0);
    assert!(hit_count(&["module", "--since", "2026-11-20T10:22"]) < hit_count(&["module", "--limit", "100"]));
    assert_eq!(hit_count(&["module", "--since", "2126-01-01"]), 0);
    assert_eq!(hit_count(&["module", "--agent", "nobody"]), 0);
    assert_eq!(hit_count(&["module", "--limit", "2"]), 2);
    let output = sandbox.run(&["search", "parses line by line", "--kind", "summary"]);
    assert!(output.stdout.contains("summary of messages 1–"), "{output:?}");
    let command = output.stderr.split('`').nth(1).unwrap();
    assert!(command.starts_with("segue memory trace ") && command.ends_with(" --after 0"), "{output:?}");
    assert_eq!(sandbox.run(&command.split(' ').skip(1).collect::<Vec<_>>()).code, 0);
}

#[test]
fn passages_of_a_search_do_not_overlap() {
    let sandbox = long_thread(TestSandbox::new(), 12);
    let seqs = |args: &[&str]| -> Vec<u64> {
        let args = [&["--kind", "message", "--limit", "100"], args].concat();
        search_hits(&sandbox, &args).iter().map(|hit| hit["seq"].as_u64().unwrap()).collect()
    };
    let word = "question";
    let (messages, mut passages) = (seqs(&[word]), seqs(&[word, "--passages"]));
    passages.sort_unstable();
    assert!(messages.len() > passages.len() && !passages.is_empty(), "{messages:?} {passages:?}");
    assert!(passages.is_sorted_by(|a, b| b - a >= 3), "{passages:?}");
}

#[test]
fn m11_a_search_finds_the_summary_of_a_handoff() {
    let sandbox = TestSandbox::new();
    let report = sandbox.json(&["handoff", &sandbox.write_session(), "--apply", "--json"]);
    let hit = &search_hits(&sandbox, &["retries_after_timeout", "--kind", "handoff"])[0];
    for (field, report_field) in [("parent_thread_id", "thread_id"), ("child_thread_id", "child_thread_id")] {
        assert_eq!(hit[field], report[report_field], "{field}: {hit}");
    }
    let output = sandbox.run(&["search", "retries_after_timeout", "--kind", "handoff", "--everywhere"]);
    let command = output.stderr.split('`').nth(1).unwrap();
    assert!(command.starts_with("segue handoff --show "), "{output:?}");
    assert_eq!(sandbox.run(&command.split(' ').skip(1).collect::<Vec<_>>()).code, 0);
}

#[test]
fn no_hits_are_a_success_and_an_empty_query_is_an_error() {
    let sandbox = long_thread(TestSandbox::new(), 2);
    let none = sandbox.run(&["search", "xylophone", "--everywhere"]);
    assert_eq!((none.code, none.stdout.as_str()), (0, "No matches for `xylophone`.\n"), "{none:?}");
    assert_eq!(sandbox.json(&["search", "xylophone", "--json"])["hits"], json!([]));
    sandbox.run(&["search", " "]).assert_error(2, "no words were given");
    sandbox.run(&["search", "…"]).assert_error(2, "no word");
    sandbox.run(&["search", "x", "--thread", "ffffffff"]).assert_error(2, "find a thread");
    let since = sandbox.run(&["search", "x", "--since", "yesterday"]);
    assert!(since.code == 2 && since.stderr.contains("write 2026-03-01, "), "{since:?}");
    for args in [&["search"][..], &["search", "x", "--kind", "thing"], &["search", "x", "--limit", "0"]] {
        assert_eq!(sandbox.run(args).code, 2, "{args:?}");
    }
    assert_eq!(sandbox.run(&["threads", "search", "x"]).code, 2, "`segue search` replaced this command");
}

#[test]
fn matched_words_are_highlighted_on_a_terminal() {
    let sandbox = long_thread(TestSandbox::new(), 2);
    let output = sandbox.run(&["search", "module", "--color", "always"]).stdout;
    assert!(output.contains("\u{1b}[1mmodule\u{1b}[22m") && output.contains("\u{1b}[2m  #"), "{output:?}");
}

#[test]
fn an_empty_result_says_that_other_projects_were_not_searched() {
    let sandbox = long_thread(TestSandbox::new(), 2);
    let folder = sandbox.work_folder().join("../other");
    std::fs::create_dir_all(&folder).unwrap();
    let run_elsewhere = |args: &[&str]| -> crate::sandbox::ProgramOutput {
        sandbox.command(args).current_dir(&folder).output().unwrap().into()
    };
    for args in [&["search", "module"][..], &["memory", "search", "xylophone"]] {
        let output = run_elsewhere(args);
        let text = output.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            text.ends_with("Other projects were not searched: `--everywhere` searches all projects."),
            "{output:?}"
        );
    }
    let report = run_elsewhere(&["search", "module", "--json"]).json();
    assert!(report["project"].as_str().unwrap().ends_with("other"), "{report}");
    let report = run_elsewhere(&["search", "module", "--json", "--everywhere"]).json();
    assert!(report["project"].is_null() && report["hits"] != json!([]), "{report}");
    let recalled = run_elsewhere(&["recall", "last", "xylophone"]).stdout;
    let recalled = recalled.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(
        recalled,
        "No matches in this thread. Other threads were not searched: `segue search` searches the project, and with \
         `--everywhere` all projects."
    );
}
