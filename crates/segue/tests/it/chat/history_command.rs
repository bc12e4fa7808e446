//! `/history` in a chat: pages, and markers opened to their summary and their originals.

use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::compact::{MEMORY_INSTRUCTIONS, compaction_reply, long_thread};
use crate::sandbox::TestSandbox;
use crate::terminal::PtyTerminal;

/// A thread of 60 messages, all but the last four of them condensed, and gone to memory: what were still due would be tried by
/// every chat behind its opening, which tells what the thread has cost.
fn compacted_thread() -> (ScriptedServer, TestSandbox) {
    let summary =
        ScriptedReply::text("The person asked about modules, one after the other; each parses line by line.");
    let summary = summary.when_body_contains(MEMORY_INSTRUCTIONS);
    let server =
        ScriptedServer::start(Script::new([compaction_reply().with_repeat(), summary.with_repeat()]))
            .unwrap();
    let sandbox = long_thread(TestSandbox::new().with_model(&server), 30);
    assert_eq!(sandbox.run(&["compact", "last", "--keep", "4"]).code, 0);
    assert_eq!(sandbox.run(&["memory", "summarize"]).stdout, "Nothing is due.\n");
    (server, sandbox)
}

/// Returns the output of the command in a chat: the numbers of the messages, and all of its text.
fn run_history_command(sandbox: &TestSandbox, command: &str) -> (Vec<u64>, String) {
    let opening = sandbox.run_with(&["chat", "-c"], "/quit\n").stdout;
    let ended = sandbox.run_with(&["chat", "-c"], &format!("{command}\n/quit\n"));
    assert!(ended.code == 0 && ended.stderr.is_empty(), "{ended:?}");
    let shown = ended.stdout.strip_prefix(opening.as_str()).unwrap_or_else(|| panic!("{opening}\n{ended:?}"));
    let number = |line: &str| {
        let rest = line.strip_prefix("you #").or_else(|| line.strip_prefix("assistant #"))?;
        rest.split(' ').next()?.parse().ok()
    };
    (shown.lines().filter_map(number).collect(), shown.to_owned())
}

#[test]
fn m10_in_a_chat_a_marker_opens_to_its_originals_and_pages_meet() {
    let (_server, sandbox) = compacted_thread();
    let page = sandbox.json(&["history", "last", "--markers", "--json"]);
    let marker = page["entries"][0]["seq"].as_u64().unwrap();

    let (newest, shown) = run_history_command(&sandbox, "/history");
    assert_eq!(newest, (22..=60).collect::<Vec<_>>(), "{shown}");
    assert!(shown.contains("── 56 messages compacted · #1–#56 · "), "{shown}");
    assert!(!shown.contains("compacted in #"), "{shown}");
    for note in ["With summaries: /history --expand\n", "Earlier: /history --before 22\n"] {
        assert!(shown.contains(note), "{note}: {shown}");
    }

    let (opened, shown) = run_history_command(&sandbox, "/history --expand");
    assert_eq!(opened, newest);
    assert!(shown.lines().any(|line| line.starts_with("│ ")), "{shown}");
    assert_eq!(shown.matches(&format!(" · compacted in #{marker}")).count(), 35, "{shown}");
    let originals = format!("Messages of marker #{marker}: /history --after 0 --before 57\n");
    for note in [originals.as_str(), "Earlier: /history --expand --before 22\n"] {
        assert!(shown.contains(note), "{note}: {shown}");
    }

    let (before, shown) = run_history_command(&sandbox, "/history --expand --before 22");
    assert_eq!(before, (1..=21).collect::<Vec<_>>(), "{shown}");
    assert_eq!(shown.matches(&format!(" · compacted in #{marker}")).count(), 21, "{shown}");
    assert!(
        !shown.contains("Earlier: ") && shown.contains("Later: /history --expand --after 21\n"),
        "{shown}"
    );

    let (range, shown) = run_history_command(&sandbox, "/history --after 0 --before 57");
    assert_eq!(range, (1..=40).collect::<Vec<_>>(), "{shown}");
    assert!(shown.contains("Later: /history --after 40 --before 57\n"), "{shown}");
    let (rest, shown) = run_history_command(&sandbox, "/history --after 40 --before 57");
    assert_eq!(rest, (41..=56).collect::<Vec<_>>(), "{shown}");

    let (none, shown) = run_history_command(&sandbox, "/history --before 1");
    assert!(none.is_empty() && shown.contains("There are no messages."), "{shown}");
}

#[test]
fn c6_c7_an_opened_card_is_counted_led_and_ended_where_it_is_read_out() {
    let (_server, sandbox) = compacted_thread();
    let terminal = PtyTerminal::start(&sandbox, 100, &["chat", "-c", "--plain"]);
    terminal.wait_for("segue> ");
    terminal.press_keys("/history --expand\n");
    let screen = terminal.wait_for("Earlier: /history --expand --before 22");
    let (_, card) = screen.rsplit_once("Summary, ").unwrap();
    let (card, _) = card.split_once("End of the summary.").unwrap();
    let (count, lines) = card.split_once(" lines:").unwrap();
    let lines: Vec<&str> = lines.trim_start_matches([' ', '\r']).trim_start_matches('\n').lines().collect();
    assert_eq!(count.parse(), Ok(lines.len()), "{screen}");
    assert!(lines.iter().all(|line| line.trim().is_empty() || line.starts_with("  ")), "{screen}");
    assert!(!screen.contains('│'), "{screen}");
    terminal.press_keys("/quit\n");
    assert_eq!(terminal.end().0, 0);
}
