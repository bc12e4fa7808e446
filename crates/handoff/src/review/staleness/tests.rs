//! Tests of the rules and of the change of one line.

use facts::shell::{CheckKind, CheckOutcome};
use facts::{CheckRun, ConversationFacts, FileUse, Quote};
use protocol::{
    CarriedFacts, HandoffSummary, Proposal, SummaryItem, SummaryItemKind, ThreadId, TodoItem, TodoStatus,
};

use super::rules::LaterFacts;
use super::update::change_lines;
use super::{PackageLine, StaleLine, StaleReason, add_other_changes, update_package};
use crate::review::edit::tests::shown_summary;

const PACKAGE: &str = "**Cache**\nHalf done.\n\n### Next steps\n- [ ] Write the docs\n- [ ] Explain the duplicate of the…\n\n\
    ### Last request (still open)\n- Make it faster.\n\n### Files changed\n- src/cache.rs\n- src/old.rs\n\n\
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
fn a_rule_or_decision_that_a_later_message_contradicts_is_stale() {
    let (child_id, parent_id) = (ThreadId::generate(), ThreadId::generate());
    let package = "**Queue**\nS.\n\n### Decisions\n- Use a fake clock in the tests.\n- One worker is enough.\n\n### Rules\n\
        - Never sleep in tests, not even a millisecond.\n- Don't touch the public API of wharf-queue.\n- Don't bump the version.\n";
    let message = |seq, text: &str| Quote { seq, text: text.to_owned(), is_cut: false };
    let with_requests = |requests| ConversationFacts { requests, ..ConversationFacts::default() };
    let child = with_requests(vec![
        message(2, "Sleeping is allowed in tests from now on; you may change the public API of wharf-queue."),
        message(9, "Go on."),
    ]);
    let parent = with_requests(vec![
        message(8, "Bump the version."),
        message(40, "Do not use a fake clock in the tests."),
    ]);
    let later = LaterFacts { child: (child_id, &child), parent: Some((parent_id, &parent)), covered: 30 };
    let found: Vec<_> = later
        .stale_lines(package)
        .into_iter()
        .map(|stale| (stale.line, stale.reason, stale.thread_id, stale.seq, stale.replacement))
        .collect();
    let stale = |line: &str, thread_id, seq| {
        (line.to_owned(), StaleReason::Contradicted, thread_id, seq, None::<String>)
    };
    assert_eq!(
        found,
        [
            stale("- Use a fake clock in the tests.", parent_id, 40),
            stale("- Never sleep in tests, not even a millisecond.", child_id, 2),
            stale("- Don't touch the public API of wharf-queue.", child_id, 2),
        ],
        "what the package covers and what agrees with it is not listed"
    );
}

#[test]
fn a_rule_is_stale_that_a_later_message_changes_permits_or_replaces() {
    let child_id = ThreadId::generate();
    for (rule, message, is_stale) in [
        ("No new dependencies.", "Dependencies are fine now.", true),
        ("Indent with tabs.", "Use spaces, not tabs.", true),
        ("Indent with tabs.", "Please use spaces instead of tabs.", true),
        ("The timeout must be 30 seconds.", "Change the timeout to 60 seconds.", true),
        ("Never push to main.", "Forget the rule about main.", true),
        ("Indent with tabs.", "Use tabs, not spaces.", false),
        ("Indent with tabs.", "Should we use spaces, not tabs?", false),
        ("Indent with tabs.", "The tests do not use tabs yet.", false),
        ("No tabs.", "Use spaces, not tabs.", false),
        ("No new dependencies.", "The tests are fine now.", false),
    ] {
        let package = format!("**Queue**\nS.\n\n### Rules\n- {rule}\n");
        let request = Quote { seq: 2, text: message.to_owned(), is_cut: false };
        let child = ConversationFacts { requests: vec![request], ..ConversationFacts::default() };
        let later = LaterFacts { child: (child_id, &child), parent: None, covered: 30 };
        assert_eq!(later.stale_lines(&package).len(), usize::from(is_stale), "{rule} {message}");
    }
}

#[test]
fn of_several_rules_on_a_line_only_the_contradicted_one_goes() {
    let child_id = ThreadId::generate();
    let package = "**Queue**\nS.\n\n### Rules\n- Two rules: don't touch the public API of wharf-queue, other services depend \
        on it. And never sleep in tests, not even a millisecond.\n- Always use tabs in Makefiles and don't touch the public API \
        of wharf-queue.\n";
    let message = "You may touch the public API of wharf-queue now.".to_owned();
    let requests = vec![Quote { seq: 2, text: message, is_cut: false }];
    let child = ConversationFacts { requests, ..ConversationFacts::default() };
    let later = LaterFacts { child: (child_id, &child), parent: None, covered: 30 };
    let replacements: Vec<_> =
        later.stale_lines(package).into_iter().map(|stale| stale.replacement).collect();
    let kept = |text: &str| Some(format!("- {text}"));
    assert_eq!(
        replacements,
        [kept("And never sleep in tests, not even a millisecond."), kept("Always use tabs in Makefiles.")]
    );
}

#[test]
fn a_request_that_the_parent_has_answered_is_no_newer_one() {
    let (child_id, parent_id) = (ThreadId::generate(), ThreadId::generate());
    let requests = vec![Quote { seq: 40, text: "Which version is it?".to_owned(), is_cut: false }];
    let nothing = ConversationFacts::default();
    for (request_answered, count) in [(Some(true), 0), (None, 1), (Some(false), 1)] {
        let parent = ConversationFacts {
            requests: requests.clone(),
            request_answered,
            ..ConversationFacts::default()
        };
        let later =
            LaterFacts { child: (child_id, &nothing), parent: Some((parent_id, &parent)), covered: 30 };
        assert_eq!(later.stale_lines(PACKAGE).len(), count, "{request_answered:?}");
    }
}

#[test]
fn m1_a_stale_line_says_what_else_its_change_changes() {
    let package = package();
    let mut stale = StaleLine {
        line: "- [ ] Write the docs".to_owned(),
        number: package.package_md.lines().position(|line| line == "- [ ] Write the docs").unwrap() + 1,
        reason: StaleReason::TaskDone,
        thread_id: ThreadId::generate(),
        seq: 7,
        replacement: Some("- [x] Write the docs".to_owned()),
        also_removed: Vec::new(),
        also_added: Vec::new(),
    };
    add_other_changes(&package, &mut stale);
    assert_eq!(stale.also_removed, ["1 file changed, 2 of 2 tasks open, the last request is pending."]);
    assert_eq!(stale.also_added, ["1 file changed, 1 of 2 tasks open, the last request is pending."]);
}

/// Returns the text with a line changed.
#[track_caller]
fn change(text: &str, line: PackageLine<'_>, replacement: Option<&str>) -> Option<String> {
    change_lines(text, line, replacement).unwrap()
}

#[test]
fn one_line_changes_and_an_empty_section_goes_with_it() {
    let line = |text| PackageLine { text, number: None };
    let changed = change(PACKAGE, line("- [ ] Write the docs"), Some("- [x] Write the docs")).unwrap();
    assert_eq!(changed, PACKAGE.trim_end().replace("- [ ] Write the docs", "- [x] Write the docs"));
    let removed = change(PACKAGE, line("- cargo test: 2 failed"), None).unwrap();
    assert!(!removed.contains("Unresolved errors") && removed.contains("- src/old.rs"), "{removed}");
    let removed = change(PACKAGE, line("- src/old.rs"), None).unwrap();
    assert!(removed.contains("### Files changed\n- src/cache.rs\n"), "{removed}");
    assert_eq!(change(PACKAGE, line("- absent"), None), None);
    let other = "- a\n- b\n- c\n";
    assert_eq!(change(other, PackageLine { text: "- a", number: Some(2) }, None), None);
    assert_eq!(change(other, PackageLine { text: "-\u{2028}b", number: Some(2) }, None).unwrap(), "- a\n- c");
}

#[test]
fn m1_a_statement_changes_in_all_its_places() {
    let text = "**Cache**\nHalf done.\n\n### Next steps\n- [ ] Explain the duplicate of the…\n- Pending request: \"Make it \
        faster.\"\n\n### Last request (still open)\n- Make it faster.\n\n### Tasks\n- [ ] Explain the duplicate of the \
        nightly run (in progress)\n- [ ] Ship\n";
    let done = "- [x] Explain the duplicate of the nightly run";
    let line =
        PackageLine { text: "- [ ] Explain the duplicate of the nightly run (in progress)", number: None };
    let changed = change(text, line, Some(done)).unwrap();
    assert!(changed.contains("- [x] Explain the duplicate of the…\n") && changed.contains(done), "{changed}");
    let request = PackageLine { text: "- Make it faster.", number: None };
    let changed = change(text, request, Some("- Use less memory.")).unwrap();
    // The newer request does not say that the older one is done.
    assert!(changed.contains("- Before it: \"Make it faster.\"\n"), "{changed}");
    assert!(changed.contains("\n### Last request\n- Use less memory.\n"), "{changed}");
    let removed = change(text, request, None).unwrap();
    assert!(!removed.contains("faster") && !removed.contains("Last request"), "{removed}");
}

/// Returns an accepted package with tasks and an open request.
fn package() -> Proposal {
    let summary = HandoffSummary {
        tldr: "1 file changed, 2 of 2 tasks open, the last request is pending.".to_owned(),
        carried: CarriedFacts {
            is_in_markdown: true,
            last_user_request: Some("Make it faster.".to_owned()),
            last_request_answered: Some(false),
            todos: vec![todo("Write the docs", TodoStatus::Pending), todo("Ship", TodoStatus::Pending)],
            ..CarriedFacts::default()
        },
        ..shown_summary()
    };
    let package_md = crate::render_summary(&summary);
    Proposal {
        handoff_id: summary.handoff_id,
        iteration: 0,
        summary_sha256: protocol::sha256_hex(&package_md),
        package_md,
        feedback: None,
        created_at: summary.created_at,
        summary_json: summary,
    }
}

#[test]
fn m1_the_tldr_and_the_heading_follow_a_changed_task_and_request() {
    let line = |text| PackageLine { text, number: None };
    let update = |package: &Proposal, text: &'static str, replacement: &str| {
        update_package(package, line(text), Some(replacement)).unwrap().unwrap()
    };
    let done = update(&package(), "- [ ] Write the docs", "- [x] Write the docs");
    assert_eq!(done.summary_json.tldr, "1 file changed, 1 of 2 tasks open, the last request is pending.");
    let newer = update(&done, "- Make it faster.", "- Use less memory.");
    assert_eq!(newer.summary_json.tldr, "1 file changed, 1 of 2 tasks open, a newer request was made.");
    assert_eq!(newer.summary_json.carried.last_request_answered, None);
    assert!(newer.package_md.contains(&newer.summary_json.tldr), "{}", newer.package_md);
    assert_eq!(newer.package_md.trim(), crate::render_summary(&newer.summary_json).trim());
    assert_eq!((newer.iteration, newer.summary_sha256), (2, protocol::sha256_hex(&newer.package_md)));
}

#[test]
fn m1_a_rule_or_goal_with_the_words_of_the_request_stays() {
    let text = "**T**\nS.\n\n### Goal\n- Never push to main.\n\n### Rules\n- Never push to main.\n\n### Last request\n- Never push to main.\n";
    for (number, heading) in [(5, "Goal"), (8, "Rules"), (11, "Last request")] {
        let line = PackageLine { text: "- Never push to main.", number: Some(number) };
        let changed = change(text, line, Some("- Ask first.")).unwrap();
        assert_eq!(changed.matches("Never push to main.").count(), 2, "{changed}");
        assert!(changed.contains(&format!("### {heading}\n- Ask first.")), "{changed}");
        let removed = change(text, line, None).unwrap();
        assert!(
            removed.matches("Never push").count() == 2 && !removed.contains(&format!("### {heading}")),
            "{removed}"
        );
    }
}

#[test]
fn m1_the_tldr_follows_a_removed_task_and_request() {
    let remove = |package: &Proposal, text: &'static str| {
        update_package(package, PackageLine { text, number: None }, None).unwrap().unwrap()
    };
    let one = remove(&package(), "- [ ] Write the docs");
    assert_eq!(one.summary_json.tldr, "1 file changed, 1 of 1 task open, the last request is pending.");
    let none = remove(&one, "- [ ] Ship");
    assert_eq!(none.summary_json.tldr, "1 file changed, no task is listed, the last request is pending.");
    let silent = remove(&none, "- Make it faster.");
    assert_eq!(silent.summary_json.tldr, "1 file changed, no task is listed, no last request is listed.");
    assert!(silent.package_md.contains(&silent.summary_json.tldr), "{}", silent.package_md);
}

#[test]
fn an_update_changes_no_structure() {
    let package = package();
    let title = package.package_md.lines().next().unwrap().to_owned();
    for (line, replacement, reason) in [
        (title.as_str(), Some("- x"), "only the lines of items and facts"),
        (title.as_str(), None, "only the lines of items and facts"),
        ("### Tasks", None, "only the lines of items and facts"),
        ("### Tasks", Some("### Rules"), "is a heading"),
        ("- [ ] Ship", Some("### Tasks"), "is a heading"),
        ("- [ ] Ship", Some("**Tasks**"), "is a heading"),
        ("- [ ] Ship", Some(""), "is empty"),
        ("- [ ] Ship", Some(" - "), "is empty"),
        ("- [ ] Ship", Some("- \u{200b}"), "is empty"),
        ("- [ ] Ship", Some("- a\0b"), "control character: U+0000"),
        ("- [ ] Ship", Some("- a\nb"), "must be one line"),
        ("- [ ] Ship", Some("- a\u{2028}- b"), "must be one line"),
    ] {
        let updated = update_package(&package, PackageLine { text: line, number: None }, replacement);
        let error = updated.expect_err(line).to_string();
        assert!(error.contains(reason), "{line} / {replacement:?}: {error}");
    }
    let line = PackageLine { text: "- [ ] Ship", number: None };
    let updated = update_package(&package, line, Some("- [ ] # Ship </now>")).unwrap().unwrap();
    assert_eq!(updated.summary_json.carried.todos[1].text, "# Ship </now>");
    assert_eq!(updated.package_md.trim(), crate::render_summary(&updated.summary_json).trim());
}

#[test]
fn m1_a_done_task_is_no_next_step_any_more_and_no_sentence_counts_it() {
    let mut package = package();
    let item = |kind, text: &str| SummaryItem {
        kind,
        text: text.to_owned(),
        ..package.summary_json.body[0].clone()
    };
    let body = vec![
        item(SummaryItemKind::Progress, "Write the docs"),
        item(SummaryItemKind::NextStep, "Write the `docs`."),
        item(SummaryItemKind::NextStep, "Ship"),
    ];
    package.summary_json.body = body;
    package.summary_json.tldr = "The cache works. Two tasks are open.".to_owned();
    package.package_md = crate::render_summary(&package.summary_json);
    let line = PackageLine { text: "- [ ] Write the docs", number: None };
    let updated = update_package(&package, line, Some("- [x] Write the docs")).unwrap().unwrap();
    assert_eq!(updated.summary_json.tldr, "The cache works. One task is open.");
    let text = &updated.package_md;
    assert!(text.contains("### Next steps\n- [x] Write the `docs`.\n- Ship\n"), "{text}");
    assert!(text.contains("### Progress\n- Write the docs\n") && !text.contains("Two tasks"), "{text}");
}
