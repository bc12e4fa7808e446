//! Tests of the rules and of the change of one line.

use facts::shell::{CheckKind, CheckOutcome};
use facts::{CheckRun, ConversationFacts, FileUse, Quote};
use protocol::{ThreadId, TodoItem, TodoStatus};

use super::rules::LaterFacts;
use super::{PackageLine, StaleReason, replace_line};

const PACKAGE: &str = "**Cache**\nHalf done.\n\n### Next steps\n- [ ] Write the docs\n- [ ] Explain the duplicate of the…\n\n\
    ### Last request (not answered yet)\n- Make it faster.\n\n### Files changed\n- src/cache.rs\n- src/old.rs\n\n\
    ### Unresolved errors\n- cargo test: 2 failed\n";

fn todo(text: &str, status: TodoStatus) -> TodoItem {
    TodoItem { text: text.to_owned(), status }
}

#[test]
fn only_what_later_work_contradicts_is_stale() {
    let (child_id, parent_id) = (ThreadId::generate(), ThreadId::generate());
    let child = ConversationFacts {
        todos: vec![
            todo("Write the docs", TodoStatus::Completed),
            todo("Explain the duplicate of the nightly run", TodoStatus::Completed),
        ],
        todos_seq: 7,
        files: vec![FileUse {
            path: "/srv/kettle/src/old.rs".to_owned(),
            last_write_seq: 3,
            deleted_seq: 5,
            ..FileUse::default()
        }],
        checks: vec![CheckRun {
            name: "cargo test".to_owned(),
            seq: 9,
            detail: None,
            kind: CheckKind::Test,
            outcome: CheckOutcome::Passed,
        }],
        ..ConversationFacts::default()
    };
    let request = |seq, text: &str| Quote { seq, text: text.to_owned(), is_cut: false };
    let parent = ConversationFacts {
        requests: vec![request(1, "Make it faster."), request(40, "Stop:\nuse less memory.")],
        ..ConversationFacts::default()
    };
    let later = LaterFacts { child: (child_id, &child), parent: Some((parent_id, &parent)), covered: 30 };
    let found: Vec<_> = later
        .stale_lines(PACKAGE)
        .into_iter()
        .map(|stale| (stale.line, stale.reason, stale.thread_id, stale.seq, stale.replacement))
        .collect();
    let line = |text: &str| text.to_owned();
    assert_eq!(
        found,
        [
            (
                line("- [ ] Write the docs"),
                StaleReason::TaskDone,
                child_id,
                7,
                Some(line("- [x] Write the docs"))
            ),
            (
                line("- [ ] Explain the duplicate of the…"),
                StaleReason::TaskDone,
                child_id,
                7,
                Some(line("- [x] Explain the duplicate of the…")),
            ),
            (
                line("- Make it faster."),
                StaleReason::NewerRequest,
                parent_id,
                40,
                Some(line("- Stop: use less memory.")),
            ),
            (line("- src/old.rs"), StaleReason::FileDeleted, child_id, 5, None),
            (line("- cargo test: 2 failed"), StaleReason::ErrorResolved, child_id, 9, None),
        ]
    );
    let nothing = ConversationFacts::default();
    let later = LaterFacts { child: (child_id, &nothing), parent: Some((parent_id, &nothing)), covered: 30 };
    assert_eq!(later.stale_lines(PACKAGE), []);
}

#[test]
fn one_line_changes_and_an_empty_section_goes_with_it() {
    let line = |text| PackageLine { text, number: None };
    let changed = replace_line(PACKAGE, line("- [ ] Write the docs"), Some("- [x] Write the docs")).unwrap();
    assert_eq!(changed, PACKAGE.trim_end().replace("- [ ] Write the docs", "- [x] Write the docs"));
    let removed = replace_line(PACKAGE, line("- cargo test: 2 failed"), None).unwrap();
    assert!(!removed.contains("Unresolved errors") && removed.contains("- src/old.rs"), "{removed}");
    let removed = replace_line(PACKAGE, line("- src/old.rs"), None).unwrap();
    assert!(removed.contains("### Files changed\n- src/cache.rs\n"), "{removed}");
    assert_eq!(replace_line(PACKAGE, line("- absent"), None), None);
    let twice = "- a\n- b\n- a\n";
    let second = PackageLine { text: "- a", number: Some(3) };
    assert_eq!(replace_line(twice, second, Some("- c")).unwrap(), "- a\n- b\n- c");
    assert_eq!(replace_line(twice, PackageLine { text: "- a", number: Some(2) }, None), None);
}
