//! What a person changed is theirs; what they left alone stays what it was.

use jiff::Timestamp;
use proptest::prelude::*;
use protocol::{
    AssistantId, CarryOver, Coverage, HandoffId, HandoffSummary, ItemKind, SummaryItem, ThreadId,
};
use serde_json::json;

use super::*;

mod inert;
mod refused;

fn item(kind: ItemKind, text: &str, verified: bool) -> SummaryItem {
    SummaryItem { kind, text: text.to_owned(), refs: vec![3, 5], verified, unfound: Vec::new() }
}

pub(crate) fn shown() -> HandoffSummary {
    HandoffSummary {
        schema_version: 1,
        handoff_id: HandoffId::generate(),
        assistant_id: AssistantId::default(),
        parent_thread_id: ThreadId::generate(),
        child_thread_id: None,
        title: "Progress".to_owned(),
        tldr: "1. Half done, see [a]: b".to_owned(),
        body: vec![
            item(ItemKind::Objective, "Fix <!-- this 👩\u{200d}🚀.", true),
            item(ItemKind::Decision, "1. Keep the format.", true),
            item(ItemKind::NextStep, "[ ] One\n[x] Two\n[ ] Three", true),
            item(ItemKind::Blocker, "The port 9999 is taken.", false),
            item(ItemKind::Artifact, "# src/a.rs", false),
        ],
        model: "anthropic/one".to_owned(),
        model_run_id: None,
        tokens_used: 7,
        iteration: 0,
        created_at: Timestamp::UNIX_EPOCH,
        coverage: Coverage::default(),
        carry_over: CarryOver::default(),
    }
}

/// Returns what was shown with `from` replaced by `to` in its Markdown, as it is read back.
#[track_caller]
fn changed(from: &str, to: &str) -> (HandoffSummary, Edited) {
    let shown = shown();
    let md = render::render(&shown);
    assert!(md.contains(from), "{from:?} is not in\n{md}");
    let text = own_text(&md, &md.replace(from, to)).unwrap().expect("it differs");
    let edited = from_markdown(&shown, text, None).unwrap();
    (shown, edited)
}

#[test]
fn a_text_that_was_handed_back_as_it_was_shown_is_no_edit() {
    let md = render::render(&shown());
    for text in
        [md.clone(), md.trim().to_owned(), md.replace('\n', "\r\n"), format!("<!--\nhow to\n-->\n{md}\n\n")]
    {
        assert_eq!(own_text(&md, &text), Ok(None), "{text:?}");
    }
    assert!(own_text(&md, &md.replace("port 9999", "port 9998")).unwrap().is_some());
}

#[test]
fn m6_items_that_were_left_alone_keep_their_refs_and_flags() {
    let (shown, edited) = changed("Keep the format.", "Keep every format.");
    let mut expected = shown.body.clone();
    expected[1] = SummaryItem {
        kind: ItemKind::Decision,
        text: "1. Keep every format.".to_owned(),
        refs: Vec::new(),
        verified: true,
        unfound: Vec::new(),
    };
    assert_eq!(edited.summary_json.body, expected);
    assert_eq!((edited.summary_json.title, edited.summary_json.tldr), (shown.title, shown.tldr));
    assert_eq!((edited.summary_json.model.as_str(), edited.summary_json.tokens_used), ("user", 0));
}

#[test]
fn m6_a_changed_item_is_the_persons_own_and_without_the_marker() {
    let (_, edited) = changed("9999", "9998");
    let blocker = &edited.summary_json.body[3];
    assert_eq!((blocker.text.as_str(), blocker.verified), ("The port 9998 is taken.", true));
    assert!(edited.summary_md.contains("The port 9998 is taken. (unverified)"), "their text stays exact");
}

#[test]
fn a_task_list_stays_one_item_when_one_of_its_lines_is_changed() {
    let (_, edited) = changed("- [ ] One\n", "- [x] One\n- [ ] One and a half\n");
    let tasks = &edited.summary_json.body[2];
    assert_eq!(tasks.text, "[x] One\n[ ] One and a half\n[x] Two\n[ ] Three");
    assert_eq!(edited.summary_json.body.len(), 5);
}

#[test]
fn m6_an_item_moved_under_another_heading_is_not_the_one_that_was_shown() {
    let (_, edited) = changed("### Blockers", "### Progress");
    let moved = &edited.summary_json.body[1];
    assert_eq!((moved.kind, moved.verified, moved.refs.len()), (ItemKind::Progress, true, 0));
}

/// Checks what a text is read as: title, TL;DR, and each item as its kind and its lines.
#[track_caller]
fn check_read(text: &str, expected: &[&str]) {
    let own = own_text("", text).unwrap().expect("it says something");
    let summary = from_markdown(&shown(), own, None).unwrap().summary_json;
    let items = summary.body.iter().map(|item| format!("{}: {}", render::heading(item.kind), item.text));
    let told: Vec<String> = [summary.title.clone(), summary.tldr.clone()].into_iter().chain(items).collect();
    assert_eq!(told, expected, "{text:?}");
}

#[test]
fn a_text_of_any_shape_is_read() {
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
fn g1_another_title_leaves_everything_else() {
    let shown = shown();
    let edited = with_title(&shown, title(" A\nnew  title ").unwrap()).unwrap();
    assert_eq!(edited.summary_json.title, "A new title");
    assert_eq!(
        (edited.summary_json.body, edited.summary_json.tldr),
        (shown.body.clone(), shown.tldr.clone())
    );
    assert_eq!(edited.summary_md, render::render(&shown).replacen("Progress", "A new title", 1));
    assert!(title(" \u{200b}\n").is_err());
    assert!(with_title(&shown, "x".repeat(121)).is_err());
}

#[test]
fn m6_json_cannot_declare_an_item_verified_that_was_not() {
    let shown = shown();
    let mut json = serde_json::to_value(&shown).unwrap();
    json["body"][3]["verified"] = json!(true);
    json["body"][3]["refs"] = json!([99]);
    assert_eq!(from_json(&shown, &json).unwrap().summary_json.body, shown.body);
    assert_eq!(from_json(&shown, &json).unwrap().summary_md, render::render(&shown));
    json["body"][3]["text"] = json!("The port 9998 is taken. (unverified)");
    json["body"][3]["verified"] = json!(false);
    let own = &from_json(&shown, &json).unwrap().summary_json.body[3];
    assert_eq!((own.text.as_str(), own.verified), ("The port 9998 is taken.", true));
}

#[test]
fn g3_json_of_another_shape_is_refused() {
    let shown = shown();
    for (field, value) in [
        ("title", json!(5)),
        ("title", json!(" ")),
        ("tldr", json!([])),
        ("body", json!({})),
        ("body", json!([])),
    ] {
        let mut json = serde_json::to_value(&shown).unwrap();
        json[field] = value.clone();
        assert!(from_json(&shown, &json).is_err(), "{field}: {value}");
    }
}

proptest! {
    #[test]
    fn m6_no_text_loses_its_flags_by_another_title(
        heads in ("\\PC{0,60}[a-z]", "\\PC{0,90}[a-z]"),
        texts in prop::collection::vec(("(?s)[a-z].{0,300}", any::<bool>()), 1..7),
    ) {
        let body = texts.iter().enumerate().map(|(at, (text, verified))| {
            item(ItemKind::ALL[at.min(5)], &format!("{at} {text}"), *verified)
        });
        let shown = HandoffSummary { title: heads.0, tldr: heads.1, body: body.collect(), ..shown() };
        let md = render::render(&shown);
        prop_assert_eq!(own_text(&md, &md), Ok(None));
        let (_, rest) = md.split_once('\n').unwrap();
        let text = own_text(&md, &format!("**Another one**\n{rest}")).unwrap().unwrap_or_default();
        let edited = from_markdown(&shown, text, None).unwrap().summary_json;
        prop_assert_eq!((edited.title.as_str(), edited.tldr), ("Another one", shown.tldr));
        prop_assert_eq!(edited.body, shown.body);
    }
}
