//! `/history` in a chat: pages, and markers opened to their summary and their original messages.

use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::compact::{MEMORY_INSTRUCTIONS, compaction_reply, long_thread};
use crate::sandbox::TestSandbox;
use crate::terminal::PtyTerminal;

/// Returns a thread of 60 messages of which all but the last four are compacted and summarized. Pending
/// summaries would be retried by each chat after it opens, and the chat would print their cost.
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

/// Runs the command in a chat. Returns the numbers of the listed messages, and the whole output.
fn run_history_command(sandbox: &TestSandbox, command: &str) -> (Vec<u64>, String) {
    let opening = sandbox.run_with(&["chat", "-c"], "/quit\n").stdout;
    let output = sandbox.run_with(&["chat", "-c"], &format!("{command}\n/quit\n"));
    assert!(output.code == 0 && output.stderr.is_empty(), "{output:?}");
    let listing =
        output.stdout.strip_prefix(opening.as_str()).unwrap_or_else(|| panic!("{opening}\n{output:?}"));
    let number = |line: &str| {
        let rest = line.strip_prefix("you #").or_else(|| line.strip_prefix("assistant #"))?;
        rest.split(' ').next()?.parse().ok()
    };
    (listing.lines().filter_map(number).collect(), listing.to_owned())
}

#[test]
fn m10_in_a_chat_a_marker_opens_to_its_originals_and_pages_have_no_gap() {
    let (_server, sandbox) = compacted_thread();
    let page = sandbox.json(&["history", "last", "--markers", "--json"]);
    let marker = page["entries"][0]["seq"].as_u64().unwrap();

    let (newest, listing) = run_history_command(&sandbox, "/history");
    assert_eq!(newest, (22..=60).collect::<Vec<_>>(), "{listing}");
    assert!(listing.contains("── 56 messages compacted · #1–#56 · "), "{listing}");
    assert!(!listing.contains("compacted in #"), "{listing}");
    for note in ["With summaries: /history --expand\n", "Earlier: /history --before 22\n"] {
        assert!(listing.contains(note), "{note}: {listing}");
    }

    let (opened, listing) = run_history_command(&sandbox, "/history --expand");
    assert_eq!(opened, newest);
    assert!(listing.lines().any(|line| line.starts_with("│ ")), "{listing}");
    assert_eq!(listing.matches(&format!(" · compacted in #{marker}")).count(), 35, "{listing}");
    let originals = format!("Messages of marker #{marker}: /history --after 0 --before 57\n");
    for note in [originals.as_str(), "Earlier: /history --expand --before 22\n"] {
        assert!(listing.contains(note), "{note}: {listing}");
    }

    let (before, listing) = run_history_command(&sandbox, "/history --expand --before 22");
    assert_eq!(before, (1..=21).collect::<Vec<_>>(), "{listing}");
    assert_eq!(listing.matches(&format!(" · compacted in #{marker}")).count(), 21, "{listing}");
    assert!(
        !listing.contains("Earlier: ") && listing.contains("Later: /history --expand --after 21\n"),
        "{listing}"
    );

    let (range, listing) = run_history_command(&sandbox, "/history --after 0 --before 57");
    assert_eq!(range, (1..=40).collect::<Vec<_>>(), "{listing}");
    assert!(listing.contains("Later: /history --after 40 --before 57\n"), "{listing}");
    let (rest, listing) = run_history_command(&sandbox, "/history --after 40 --before 57");
    assert_eq!(rest, (41..=56).collect::<Vec<_>>(), "{listing}");

    let (none, listing) = run_history_command(&sandbox, "/history --before 1");
    assert!(none.is_empty() && listing.contains("There are no messages."), "{listing}");
}

#[test]
fn c6_c7_an_opened_card_has_a_count_a_start_and_an_end_for_screen_readers() {
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
