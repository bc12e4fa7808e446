//! The first commands of the README, run in an empty home folder, print the output that the README shows.

use std::path::Path;

use crate::sandbox::TestSandbox;

const README: &str = include_str!("../../../../../README.md");

/// Returns the lines that the README shows below the command with this prefix, up to the end of the block.
fn lines_shown_below(command: &str) -> Vec<&'static str> {
    let below = README.lines().skip_while(|line| !line.starts_with(&format!("$ {command}"))).skip(1);
    let lines: Vec<&str> = below.take_while(|line| *line != "```").collect();
    assert!(!lines.is_empty(), "{command}");
    lines
}

/// Returns a line without its first word if that word is an id.
fn without_id(line: &str) -> &str {
    let (first, remaining) = line.split_once(' ').unwrap_or_default();
    let is_id = first.len() >= 8 && first.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    if is_id { remaining } else { line }
}

#[test]
fn the_three_commands_of_the_readme_print_what_it_shows() {
    let sandbox = TestSandbox::new();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/flaky-test.jsonl");
    let report = sandbox.json(&["handoff", examples.to_str().unwrap(), "--apply", "--json"]);
    let shown_lines = lines_shown_below("segue handoff examples/flaky-test.jsonl");
    assert!(shown_lines.contains(&report["summary_json"]["title"].as_str().unwrap()), "{report}");

    let parent = report["thread_id"].as_str().unwrap();
    let compacted = sandbox.run(&["compact", parent]);
    for line in lines_shown_below("segue compact ").into_iter().filter(|line| *line != "…") {
        assert!(compacted.stdout.lines().any(|printed| printed == line), "{line}: {compacted:?}");
    }

    let question = "which seed did the nightly stress run use";
    let shown_lines = lines_shown_below(&format!("segue search \"{question}\" --kind message --limit 1"));
    let output = sandbox.run(&["search", question, "--kind", "message", "--limit", "1", "--everywhere"]);
    let printed: Vec<&str> = output.stdout.lines().map(without_id).collect();
    // The title is shortened to the columns that remain after the id.
    for line in shown_lines.iter().map(|line| without_id(line).trim_end_matches('…')) {
        let is_printed = printed
            .iter()
            .any(|printed| printed.starts_with(line) || line.starts_with(printed.trim_end_matches('…')));
        assert!(is_printed, "{line}: {output:?}");
    }
}
