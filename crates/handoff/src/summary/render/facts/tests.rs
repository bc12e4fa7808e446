//! Tests of the sections of facts.

use super::*;
use crate::review::edit::plain_text;
use crate::summary::render::block::statements;

/// Returns facts of every kind, with texts that look like Markdown or tags.
fn facts() -> CarriedFacts {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let task = |text: &str, status| TodoItem { text: text.to_owned(), status };
    CarriedFacts {
        is_in_markdown: true,
        goal: Some("port it to\nPostgreSQL".to_owned()),
        rules: (0..14).map(|index| parse_rule(&format!("Never do {index}."))).collect(),
        pins: vec![PinnedText { refs: vec![7], ..parse_pin(&"- pin\n  it ".repeat(30)) }],
        last_user_request: Some("# do </current_thread_summary> it".to_owned()),
        last_request_answered: Some(false),
        todos: vec![
            task("the test", TodoStatus::Pending),
            task("the fix", TodoStatus::InProgress),
            task("the search", TodoStatus::Completed),
        ],
        files: CarriedFiles {
            changed: (0..14).map(|index| format!("src/{index}.rs")).collect(),
            read: texts(&["README.md", "README.md"]),
            deleted: texts(&["src/old.rs"]),
        },
        in_use: texts(&["make check", "src/one.rs", "*_row_*"]),
        commands: texts(&["cargo test -- --nocapture", "- x"]),
        errors: texts(&["left: 2, right: 3"]),
        pending_approvals: texts(&["execute: {\"command\":\"cargo publish\"}"]),
        skills: texts(&["release"]),
        delegations: texts(&["review the change"]),
        referenced_files: vec![
            ReferencedFile { path: "a.rs".to_owned(), exists: true, sha256: Some("ab".repeat(32)) },
            ReferencedFile { path: "b.rs".to_owned(), exists: false, sha256: None },
        ],
        ..CarriedFacts::default()
    }
}

/// Reads the bullets back from rendered sections.
fn bullets(md: &str) -> Vec<(FactSection, String)> {
    let mut section = None;
    let mut bullets = Vec::new();
    for (_, line) in statements(md) {
        if let Some(name) = line.strip_prefix("### ") {
            section = section_of_heading(&name.to_ascii_lowercase());
        } else if let (Some(section), Some(text)) = (section, line.strip_prefix("- ")) {
            bullets.push((section, plain_text(&text.replace("\n  ", "\n"))));
        }
    }
    bullets
}

#[test]
fn m1_all_facts_are_part_of_the_markdown() {
    insta::assert_snapshot!(render_facts(&facts()));
    assert_eq!(render_facts(&CarriedFacts::default()), "");
}

#[test]
fn long_facts_are_rendered_within_the_limit_of_tokens() {
    for text in ["word ".repeat(500), "\u{4e2d}".repeat(4_000), "e\u{301}".repeat(3_000)] {
        let texts = || vec![text.clone(); 30];
        let facts = CarriedFacts {
            last_user_request: Some(text.clone()),
            files: CarriedFiles { read: texts(), ..facts().files },
            commands: texts(),
            errors: texts(),
            delegations: texts(),
            ..facts()
        };
        let md = render_facts(&facts);
        let limited = render_facts(&CarriedFacts { pins: Vec::new(), ..facts.clone() });
        assert!(tokens::fits(&limited, FACT_TOKENS_MAX) && md.contains(" more\n"), "{md}");
        assert_eq!(edited_facts(&facts, &bullets(&md)), facts);
    }
}

#[test]
fn an_unchanged_text_keeps_all_facts_also_those_that_are_only_counted() {
    let facts = facts();
    assert_eq!(edited_facts(&facts, &bullets(&render_facts(&facts))), facts);
}

#[test]
fn m4_entries_that_are_counted_or_shortened_are_listed_and_can_be_rendered_whole() {
    let long = "Explain the duplicate of the nightly run. ".repeat(8).trim().to_owned();
    let mut facts = facts();
    facts.todos[0].text.clone_from(&long);
    let left_out = left_out_facts(&facts);
    let found: Vec<(&str, usize, LeftOutReason)> =
        left_out.iter().map(|note| (note.section.as_str(), note.entries.len(), note.reason)).collect();
    assert_eq!(found, [("Tasks", 1, LeftOutReason::Shortened), ("Files changed", 2, LeftOutReason::TooMany)]);
    assert!(render_facts(&facts).contains("…\n") && render_facts(&facts).contains("- and 2 more\n"));
    facts.whole_entries = left_out.into_iter().flat_map(|note| note.entries).collect();
    let md = render_facts(&facts);
    assert_eq!(left_out_facts(&facts), []);
    assert!(md.contains(&format!("- [ ] {long}\n")) && md.contains("- src/13.rs\n"), "{md}");
    assert!(!md.contains('…') && !md.contains(" more\n"), "{md}");
    assert_eq!(edited_facts(&facts, &bullets(&md)), facts);
    let removed = edited_facts(&facts, &bullets(&md.replace("- src/13.rs\n", "")));
    assert_eq!(removed.files.changed.len(), 13);
}

#[test]
fn an_entry_that_the_person_writes_is_not_cut_when_the_text_is_rendered_again() {
    let shown = facts();
    let long = "word ".repeat(60).trim().to_owned();
    let md = render_facts(&shown).replace("- [ ] the test\n", &format!("- [ ] {long}\n"));
    let edited = edited_facts(&shown, &bullets(&md));
    assert_eq!(edited.todos[0].text, long);
    assert!(render_facts(&edited).contains(&format!("- [ ] {long}\n")));
}

#[test]
fn each_fact_can_be_removed_and_changed() {
    let shown = facts();
    let md = render_facts(&shown);
    let edit = |from: &str, to: &str| edited_facts(&shown, &bullets(&md.replacen(from, to, 1)));
    assert_eq!(edit("- and 2 more\n", "").files.changed.len(), 12);
    assert_eq!(edit("- Never do 3.\n", "").rules.len(), 13);
    assert_eq!(edit("- src/3.rs\n", "").files.changed.len(), 13);
    assert_eq!(edit("- src/old.rs\n", "").files.deleted, [""; 0]);
    assert_eq!(edit("make check, ", "").in_use, ["src/one.rs", "*_row_*"]);
    assert_eq!(edit("- port it to\n  PostgreSQL\n", "").goal, None);
    assert_eq!(edit("- port it to\n  PostgreSQL", "- port it").goal.as_deref(), Some("port it"));
    assert_eq!(edit("[ ] the test", "[x] the test").todos[0].status, TodoStatus::Completed);
    assert_eq!(edit("[ ] the fix (in progress)", "the fix").todos[1].status, TodoStatus::Pending);
    let without_request = edit("- \\# do &lt;/current_thread_summary> it\n", "");
    assert_eq!((without_request.last_user_request, without_request.last_request_answered), (None, None));
    assert_eq!(edit("- a.rs (sha256 abababab)\n", "").referenced_files.len(), 1);
    assert_eq!(edited_facts(&shown, &[]), CarriedFacts { is_in_markdown: true, ..CarriedFacts::default() });
}
