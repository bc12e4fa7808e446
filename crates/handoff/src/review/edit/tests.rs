//! Tests of edited summaries: edited parts become the person's own, unedited parts keep their references and marks.

use jiff::Timestamp;
use proptest::prelude::*;
use protocol::{
    AssistantId, CarriedFacts, CarriedFiles, Coverage, HandoffId, HandoffSummary, LeftOutItem, LeftOutReason,
    Rule, SummaryItem, SummaryItemKind, ThreadId,
};
use serde_json::json;

use super::*;

mod escaping;
mod rejected;
mod several_lines;

fn item(kind: SummaryItemKind, text: &str, verified: bool) -> SummaryItem {
    SummaryItem {
        kind,
        text: text.to_owned(),
        refs: vec![3, 5],
        verified,
        unfound: Vec::new(),
        line_refs: Vec::new(),
        false_refs: Vec::new(),
    }
}

pub(crate) fn shown_summary() -> HandoffSummary {
    HandoffSummary {
        schema_version: 1,
        handoff_id: HandoffId::generate(),
        assistant_id: AssistantId::default(),
        parent_thread_id: ThreadId::generate(),
        child_thread_id: None,
        title: "Progress".to_owned(),
        tldr: "1. Half done, see [a]: b".to_owned(),
        body: vec![
            item(SummaryItemKind::Objective, "Fix <!-- this 👩\u{200d}🚀.", true),
            item(SummaryItemKind::Decision, "1. Keep the format.", true),
            item(SummaryItemKind::NextStep, "[ ] One\n[x] Two\n[ ] Three", true),
            item(SummaryItemKind::Blocker, "The port 9999 is taken.", false),
            item(SummaryItemKind::Artifact, "# src/a.rs", false),
        ],
        model: "anthropic/one".to_owned(),
        model_run_id: None,
        run_id: None,
        notes: protocol::ReviewNotes::default(),
        tokens_used: 7,
        iteration: 0,
        created_at: Timestamp::UNIX_EPOCH,
        coverage: Coverage::default(),
        carried: CarriedFacts::default(),
    }
}

/// Returns the shown summary, and the summary parsed from its Markdown with `from` replaced by `to`.
#[track_caller]
fn edit_text(from: &str, to: &str) -> (HandoffSummary, EditedSummary) {
    let shown = shown_summary();
    let md = render::render_summary(&shown);
    assert!(md.contains(from), "{from:?} is not in\n{md}");
    let text = clean_submitted_text(&md, &md.replace(from, to)).unwrap().expect("the text differs");
    let edited = parse_markdown(&shown, text, None).unwrap();
    (shown, edited)
}

#[test]
fn an_added_last_answer_repeats_no_line_of_the_text() {
    let mut shown = shown_summary();
    shown.body = vec![item(SummaryItemKind::Progress, "Ported it.", true)];
    let answer = item(SummaryItemKind::Progress, "Ported it.\nThe old flag is gone.", true);
    shown.notes.left_out = vec![LeftOutItem { item: answer, reason: LeftOutReason::LastAnswer }];
    let added = AddedItems { left_out: vec![0], ..AddedItems::default() };
    let edited = add_items(&shown, &added).unwrap();
    assert_eq!(edited.package_md.matches("Ported it.").count(), 1, "{}", edited.package_md);
    assert!(edited.package_md.contains("- The old flag is gone."), "{}", edited.package_md);
    assert!(edited.summary_json.notes.left_out.is_empty());
}

#[test]
fn an_unchanged_text_is_not_an_edit() {
    let md = render::render_summary(&shown_summary());
    for text in
        [md.clone(), md.trim().to_owned(), md.replace('\n', "\r\n"), format!("<!--\nhow to\n-->\n{md}\n\n")]
    {
        assert_eq!(clean_submitted_text(&md, &text), Ok(None), "{text:?}");
    }
    assert!(clean_submitted_text(&md, &md.replace("port 9999", "port 9998")).unwrap().is_some());
}

#[test]
fn m6_unedited_items_keep_their_refs_and_marks() {
    let (shown, edited) = edit_text("Keep the format.", "Keep every format.");
    let mut expected = shown.body.clone();
    expected[1] = SummaryItem {
        kind: SummaryItemKind::Decision,
        text: "1. Keep every format.".to_owned(),
        refs: Vec::new(),
        verified: true,
        unfound: Vec::new(),
        line_refs: Vec::new(),
        false_refs: Vec::new(),
    };
    assert_eq!(edited.summary_json.body, expected);
    assert_eq!((edited.summary_json.title, edited.summary_json.tldr), (shown.title, shown.tldr));
    assert_eq!((edited.summary_json.model.as_str(), edited.summary_json.tokens_used), ("user", 0));
}

#[test]
fn m6_submitted_facts_have_no_empty_pins_and_no_false_refs() {
    let mut shown = shown_summary();
    shown.carried.is_in_markdown = true;
    (shown.coverage.first_seq, shown.coverage.last_seq) = (1, 9);
    let json = json!({"title": "T", "tldr": "D", "body": [{"kind": "progress", "text": "x"}], "carried": {
        "rules": [{"text": "Never sleep.", "refs": [3, 99_999]}, {"text": " ", "refs": [4]}],
        "pins": [{"text": "", "author": "user", "refs": []}, {"text": "Keep it.", "author": "user", "refs": [77]}],
    }});
    let facts = parse_json(&shown, &json).unwrap().summary_json.carried;
    let rules: Vec<_> = facts.rules.iter().map(|rule| (rule.text.as_str(), rule.refs.as_slice())).collect();
    let pins: Vec<_> = facts.pins.iter().map(|pin| (pin.text.as_str(), pin.refs.as_slice())).collect();
    assert_eq!(rules, [("Never sleep.", &[3][..])]);
    assert_eq!(pins, [("Keep it.", &[][..])]);
}

#[test]
fn m6_the_unchanged_lines_of_an_edited_item_keep_their_refs() {
    let mut shown = shown_summary();
    let lines = "Read the log.\nBuilt it.\nTested it.";
    let progress = SummaryItem {
        refs: vec![3, 5, 8],
        line_refs: vec![vec![3], vec![5], vec![8]],
        ..item(SummaryItemKind::Progress, lines, true)
    };
    let steps = SummaryItem {
        refs: vec![11, 12, 13],
        line_refs: vec![vec![11], vec![12], vec![13]],
        ..item(SummaryItemKind::NextStep, "[ ] One\n[ ] Two\n[ ] Three", true)
    };
    shown.body = vec![progress, steps];
    let md = render::render_summary(&shown);
    let text = md.replace("Built it.", "Built the server.").replace("[ ] Two", "[ ] Two twice");
    let text = clean_submitted_text(&md, &text).unwrap().expect("the text differs");
    let edited = parse_markdown(&shown, text, None).unwrap().summary_json;
    let refs: Vec<(&str, Vec<Seq>)> = edited.body.iter().flat_map(|item| item.lines_with_refs()).collect();
    let expected = [
        ("Read the log.", vec![3]),
        ("Built the server.", vec![]),
        ("Tested it.", vec![8]),
        ("[ ] One", vec![11]),
        ("[ ] Two twice", vec![]),
        ("[ ] Three", vec![13]),
    ];
    assert_eq!(refs, expected);
}

#[test]
fn m6_a_name_mended_in_an_unverified_item_is_unverified_until_its_mark_is_removed() {
    let (_, edited) = edit_text("9999", "9998");
    let blocker = &edited.summary_json.body[3];
    assert_eq!((blocker.text.as_str(), blocker.verified), ("The port 9998 is taken.", false));
    assert_eq!(blocker.unfound, ["9998"]);
    assert!(edited.package_md.contains("The port 9998 is taken. (unverified)"));
    let (_, edited) = edit_text("The port 9999 is taken. (unverified)", "The port 9998 is taken.");
    let blocker = &edited.summary_json.body[3];
    assert_eq!((blocker.verified, blocker.unfound.len()), (true, 0), "the person removed the mark");
    let (_, edited) = edit_text("port 9999", "lid");
    assert!(edited.summary_json.body[3].verified, "no name is left");
}

#[test]
fn m6_a_name_mended_in_an_unverified_title_or_tldr_is_unverified() {
    let mut shown = shown_summary();
    (shown.title, shown.tldr) = ("Mend src/one.rs".to_owned(), "src/two.rs leaks.".to_owned());
    shown.notes.title_unfound = vec!["src/one.rs".to_owned()];
    shown.notes.tldr_unfound = vec!["src/two.rs".to_owned()];
    let mut json = serde_json::to_value(&shown).unwrap();
    (json["title"], json["tldr"]) = (json!("Mend src/three.rs"), json!("src/four.rs leaks."));
    let edited = parse_json(&shown, &json).unwrap();
    let notes = &edited.summary_json.notes;
    assert_eq!(
        (&notes.title_unfound[..], &notes.tldr_unfound[..]),
        (&["src/three.rs".to_owned()][..], &["src/four.rs".to_owned()][..])
    );
    assert!(
        edited
            .package_md
            .starts_with("**Mend src/three.rs** (unverified)\nsrc/four.rs leaks. (unverified)\n")
    );
    (json["title"], json["tldr"]) = (json!("Mend the lid"), json!("It leaks."));
    let notes = parse_json(&shown, &json).unwrap().summary_json.notes;
    assert_eq!((notes.title_unfound.len(), notes.tldr_unfound.len()), (0, 0));
}

#[test]
fn a_task_list_stays_one_item_when_one_of_its_lines_is_edited() {
    let (_, edited) = edit_text("- [ ] One\n", "- [x] One\n- [ ] One and a half\n");
    let tasks = &edited.summary_json.body[2];
    assert_eq!(tasks.text, "[x] One\n[ ] One and a half\n[x] Two\n[ ] Three");
    assert_eq!(edited.summary_json.body.len(), 5);
}

#[test]
fn m6_an_item_moved_under_another_heading_is_a_new_item() {
    let (_, edited) = edit_text("### Blockers", "### Progress");
    let moved = &edited.summary_json.body[1];
    assert_eq!((moved.kind, moved.verified, moved.refs.len()), (SummaryItemKind::Progress, false, 0));
}

/// Checks the result of parsing a text: title, TL;DR, and each item as its heading and its lines.
#[track_caller]
fn check_read(text: &str, expected: &[&str]) {
    let submitted = clean_submitted_text("", text).unwrap().expect("the text is not empty");
    let summary = parse_markdown(&shown_summary(), submitted, None).unwrap().summary_json;
    let items = summary.body.iter().map(|item| format!("{}: {}", render::heading(item.kind), item.text));
    let parts: Vec<String> = [summary.title.clone(), summary.tldr.clone()].into_iter().chain(items).collect();
    assert_eq!(parts, expected, "{text:?}");
}

#[test]
fn texts_of_many_shapes_are_parsed() {
    let (title, tldr) = ("Progress", "1. Half done, see [a]: b");
    check_read(
        "# Mine\nIt\nstands.\n## Objective\nGo\n- on\n  slowly\n-\n* \\\\server\n",
        &["Mine", "It stands.", "Objective: Go", "Objective: on\nslowly", "Objective: \\\\server"],
    );
    check_read("**Objective**\n- x", &[title, tldr, "Objective: x"]);
    check_read("### next step:\n- x", &[title, tldr, "Next steps: x"]);
    check_read("### Decision\n-\u{a0}x\n+\ty", &[title, tldr, "Decisions: x", "Decisions: y"]);
    check_read("### Blockers\n- b\n### Objective\n- a", &[title, tldr, "Objective: a", "Blockers: b"]);
    check_read("### Objective\r- a\r- b\r", &[title, tldr, "Objective: a", "Objective: b"]);
    check_read("\u{feff}<!-- how -->\n### Objective\n- a", &[title, tldr, "Objective: a"]);
    check_read("### Objective\n- a <!-- b", &[title, tldr, "Objective: a <!-- b"]);
    check_read("### Objective\n- a\n<!-- x --> b", &[title, tldr, "Objective: a\nb"]);
    check_read("### Objective\n- a &lt;b> <c>", &[title, tldr, "Objective: a <b> <c>"]);
    check_read("### Objective\n- #7 is open\n#8 too", &[title, tldr, "Objective: #7 is open\n#8 too"]);
    check_read("### Objective\n- a\n  ## b\n  **c**", &[title, tldr, "Objective: a\n## b\n**c**"]);
    check_read("### Objective\n- \\# a\n- 1\\. b", &[title, tldr, "Objective: # a", "Objective: 1. b"]);
    check_read(
        "T\n\n### Objective\n- ```sh\n# c\n### Progress\n```\n- d",
        &[title, "T", "Objective: ```sh\n# c\n### Progress\n```", "Objective: d"],
    );
    check_read(
        "### Objective\n- ```a``` is code\n- b",
        &[title, tldr, "Objective: ```a``` is code", "Objective: b"],
    );
    check_read("**T**\n**so far**\n### Objective\n- a", &["T", "**so far**", "Objective: a"]);
    check_read("Only this\n### Objective\n- a", &[title, "Only this", "Objective: a"]);
}

#[test]
fn g1_another_title_changes_nothing_else() {
    let shown = shown_summary();
    let edited = replace_title(&shown, parse_title(" A\nnew  title ").unwrap()).unwrap();
    assert_eq!(edited.summary_json.title, "A new title");
    assert_eq!(
        (edited.summary_json.body, edited.summary_json.tldr),
        (shown.body.clone(), shown.tldr.clone())
    );
    assert_eq!(edited.package_md, render::render_summary(&shown).replacen("Progress", "A new title", 1));
    assert!(parse_title(" \u{200b}\n").is_err());
    assert!(replace_title(&shown, "x".repeat(121)).is_err());
}

/// An edit of the facts used to be accepted and ignored.
#[test]
fn m1_json_replaces_keeps_and_drops_the_facts() {
    let carried = CarriedFacts {
        is_in_markdown: true,
        goal: Some("port it".to_owned()),
        commands: vec!["make".to_owned(), "make test".to_owned()],
        ..CarriedFacts::default()
    };
    let shown = HandoffSummary { carried: carried.clone(), ..shown_summary() };
    let mut json = serde_json::to_value(&shown).unwrap();
    let edit = |json: &Value| parse_json(&shown, json).map(|edited| edited.summary_json.carried);
    assert_eq!(edit(&json), Ok(carried.clone()));
    json["carried"]["commands"] = json!(["make"]);
    let edited = parse_json(&shown, &json).unwrap();
    assert!(edited.package_md.contains("- make\n") && !edited.package_md.contains("make test"));
    json["carried"] = json!({});
    assert_eq!(edit(&json), Ok(CarriedFacts { is_in_markdown: true, ..CarriedFacts::default() }));
    json["carried"] = json!({"commands": 7});
    assert!(edit(&json).is_err());
    json["carried"] = json!({"rulez": []});
    assert!(edit(&json).is_err(), "a misspelled field would drop every fact");
    json["carried"] = json!({"files": {"chnged": []}});
    assert!(edit(&json).is_err());
    json["carried"] = json!({"files": {"deleted": ["", "a.rs"]}});
    assert_eq!(edit(&json).unwrap().files.deleted, ["a.rs"]);
    json.as_object_mut().unwrap().remove("carried");
    assert_eq!(edit(&json), Ok(carried));
}

/// Version 1 has no field for a rule or a goal, so an edit by its client erased them.
#[test]
fn m7_an_edit_of_version_1_replaces_only_the_facts_of_version_1() {
    let shown = HandoffSummary {
        carried: CarriedFacts {
            is_in_markdown: true,
            goal: Some("port it".to_owned()),
            rules: vec![Rule { text: "Never sleep.".to_owned(), refs: vec![1] }],
            commands: vec!["make".to_owned()],
            files: CarriedFiles {
                changed: vec!["a.rs".to_owned()],
                deleted: vec!["b.rs".to_owned()],
                ..CarriedFiles::default()
            },
            ..CarriedFacts::default()
        },
        ..shown_summary()
    };
    let mut json = serde_json::to_value(&shown).unwrap();
    json["schema_version"] = json!(1);
    let object = json.as_object_mut().unwrap();
    object.remove("carried");
    object.insert(
        "carry_over".to_owned(),
        json!({"files_modified": ["a.rs", "c.rs"], "files_read": [], "commands": []}),
    );
    let edited = parse_json(&shown, &json).unwrap().summary_json.carried;
    assert_eq!(
        (edited.goal, edited.rules, edited.files.deleted.len()),
        (shown.carried.goal.clone(), shown.carried.rules.clone(), 1)
    );
    assert_eq!((edited.files.changed.len(), edited.commands.len()), (2, 0));
    json["carried"] = json!({});
    assert!(parse_json(&shown, &json).is_err(), "the facts are given twice");
    json.as_object_mut().unwrap().remove("carried");
    json["carry_over"] = json!({"todos": vec![json!({"text": "x".repeat(60), "status": "pending"}); 4_000]});
    assert!(parse_json(&shown, &json).is_err(), "a very long edit is refused before it is read");
    json["carry_over"] = json!({});
    json["schema_version"] = json!("2");
    assert!(parse_json(&shown, &json).is_err());
}

#[test]
fn m1_the_summary_says_what_the_edited_text_says() {
    let shown = HandoffSummary {
        carried: CarriedFacts {
            is_in_markdown: true,
            last_user_request: Some("Go on.".to_owned()),
            last_request_answered: Some(false),
            ..CarriedFacts::default()
        },
        ..shown_summary()
    };
    let md = render::render_summary(&shown);
    let edit = |text: &str| {
        let text = SubmittedText::new(text).unwrap();
        parse_markdown(&shown, text, None).unwrap().summary_json
    };
    for (state, answered) in
        [(" (answered)", Some(true)), (" (answered; not to be done again)", Some(true)), ("", None)]
    {
        let edited = edit(&md.replace(" (still open)", state));
        assert_eq!(edited.carried.last_request_answered, answered, "{state}");
    }
    assert_eq!(edit("**A**\n\n### Objective\n- x\n").tldr, "", "the person removed it");
    assert_eq!(edit("### Objective\n- x\n").tldr, shown.tldr, "a text without a head keeps it");
}

#[test]
fn m6_json_cannot_declare_an_unverified_item_verified() {
    let shown = shown_summary();
    let mut json = serde_json::to_value(&shown).unwrap();
    json["body"][3]["verified"] = json!(true);
    json["body"][3]["refs"] = json!([99]);
    assert_eq!(parse_json(&shown, &json).unwrap().summary_json.body, shown.body);
    assert_eq!(parse_json(&shown, &json).unwrap().package_md, render::render_summary(&shown));
    json["body"][3]["text"] = json!("The port 9998 is taken. (unverified)");
    json["body"][3]["verified"] = json!(false);
    let item = &parse_json(&shown, &json).unwrap().summary_json.body[3];
    assert_eq!((item.text.as_str(), item.verified), ("The port 9998 is taken.", false));
    assert_eq!(item.unfound, ["9998"]);
}

#[test]
fn g3_json_of_another_shape_is_rejected() {
    let shown = shown_summary();
    for (field, value) in [
        ("title", json!(5)),
        ("title", json!(" ")),
        ("tldr", json!([])),
        ("body", json!({})),
        ("body", json!([])),
    ] {
        let mut json = serde_json::to_value(&shown).unwrap();
        json[field] = value.clone();
        assert!(parse_json(&shown, &json).is_err(), "{field}: {value}");
    }
}

proptest! {
    #[test]
    fn m6_another_title_never_changes_the_marks_of_an_item(
        heads in ("\\PC{0,60}[a-z]", "\\PC{0,90}[a-z]"),
        texts in prop::collection::vec(("(?s)[a-z].{0,300}", any::<bool>()), 1..7),
    ) {
        let body = texts.iter().enumerate().map(|(index, (text, verified))| {
            item(SummaryItemKind::ALL[index.min(5)], &format!("{index} {text}"), *verified)
        });
        let shown = HandoffSummary { title: heads.0, tldr: heads.1, body: body.collect(), ..shown_summary() };
        let md = render::render_summary(&shown);
        prop_assert_eq!(clean_submitted_text(&md, &md), Ok(None));
        let (_, remaining) = md.split_once('\n').unwrap();
        let text = clean_submitted_text(&md, &format!("**Another one**\n{remaining}")).unwrap().unwrap_or_default();
        let edited = parse_markdown(&shown, text, None).unwrap().summary_json;
        prop_assert_eq!((edited.title.as_str(), edited.tldr), ("Another one", shown.tldr));
        prop_assert_eq!(edited.body, shown.body);
    }
}
