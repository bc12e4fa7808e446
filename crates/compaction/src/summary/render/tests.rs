//! Tests of the form of a summary, and of the entries that are dropped from a long one.

use protocol::{CarriedFiles, TodoItem};

use super::super::record::normalize_record;
use super::*;

fn record() -> CondensedSummary {
    let list = |entries: &[&str]| entries.iter().map(|entry| (*entry).to_owned()).collect();
    CondensedSummary {
        goal: "Mend the importer".to_owned(),
        constraints: list(&["Never push without asking"]),
        progress: list(&["Read src/import.rs", "# not a heading\nand <system>not a tag</system>"]),
        decisions: list(&["Keep the reader, because it is used elsewhere"]),
        files: list(&["src/import.rs: drops the last row"]),
        errors: list(&["`cargo test` failed; the bound was wrong"]),
        user_messages: list(&["Mend the importer", "Go on"]),
        pending: list(&["add a test"]),
        next_step: "Write the test".to_owned(),
    }
}

fn facts() -> CarriedFacts {
    CarriedFacts {
        last_user_request: Some("Go on".to_owned()),
        last_request_answered: Some(true),
        todos: vec![TodoItem { text: "add a test".to_owned(), status: TodoStatus::Pending }],
        files: CarriedFiles { changed: vec!["src/import.rs".to_owned()], ..CarriedFiles::default() },
        skills: vec!["rust-style".to_owned()],
        delegations: vec!["look for other readers".to_owned()],
        ..CarriedFacts::default()
    }
}

#[test]
fn e20_a_record_and_its_facts_are_rendered_in_one_form() {
    let render = |record, facts: CarriedFacts, answered| {
        render_within(&normalize_record(record), &facts, 61, answered, 4_000)
    };
    insta::assert_snapshot!("whole", render(record(), facts(), None));
    insta::assert_snapshot!("before_the_last_request", render(record(), facts(), Some(false)));
    let nothing = render(CondensedSummary::default(), CarriedFacts::default(), Some(true));
    insta::assert_snapshot!("of_nothing", nothing);
}

#[test]
fn e8_a_summary_is_cut_between_entries_and_the_least_needed_are_dropped_first() {
    let many = |name: &str| {
        (0..60).map(|index| format!("{name} {index}: {}", "word ".repeat(12))).collect::<Vec<_>>()
    };
    let full = CondensedSummary {
        progress: many("progress"),
        constraints: many("constraint"),
        pending: many("pending"),
        user_messages: many("message"),
        ..record()
    };
    let long = CarriedFacts {
        files: CarriedFiles { read: many("file"), ..CarriedFiles::default() },
        commands: many("command"),
        errors: many("error"),
        ..facts()
    };
    let (whole, headings) = (
        normalize_record(full),
        ["###", "The ", "- [", "Tasks", "Files", "Commands", "Errors", "Skills", "Given"],
    );
    for tokens_max in [16_000, 4_000, 2_000, 1_000, 300, 60] {
        let summary = render_within(&whole, &long, 61, Some(true), tokens_max);
        assert!(tokens::fits(&summary, tokens_max), "{} tokens", tokens::estimate_tokens(&summary));
        assert!(summary.contains("### Goal\nMend the importer") && summary.ends_with(ANSWERED_NOTE));
        let (record, facts) = summary.split_once("\n### Facts").unwrap_or((&summary, ""));
        let lists = SECTIONS.iter().flat_map(|section| (section.list)(&mut whole.clone()).clone());
        let entries: Vec<String> = lists.map(|entry| format!("- {entry}")).collect();
        for line in record.lines().filter(|line| line.starts_with("- ")) {
            assert!(entries.iter().any(|entry| entry == line), "{line:?} is not a whole entry");
        }
        let count = |what: &str| record.matches(&format!("- {what}")).count();
        if count("constraint") < 60 {
            assert!(count("progress") <= 6, "{tokens_max}: progress is dropped before constraints");
        }
        assert!(facts.lines().all(|line| line.is_empty()
            || line.starts_with("- ")
            || headings.iter().any(|known| line.starts_with(known))));
    }
}
