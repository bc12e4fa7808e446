//! What is rendered is one text for one summary, inert, and within its limit.

use insta::assert_snapshot;
use jiff::Timestamp;
use model::tokens;
use proptest::prelude::*;
use protocol::{
    AssistantId, CarryOver, Coverage, HandoffId, HandoffSummary, ItemKind, SummaryItem, ThreadId,
};

use super::{fit, inert, markdown, render};
use crate::limits::{BODY_ITEMS_MIN, SUMMARY_TOKENS_MAX};

fn item(kind: ItemKind, text: &str) -> SummaryItem {
    SummaryItem { kind, text: text.to_owned(), refs: vec![1], verified: true }
}

fn summary(title: &str, tldr: &str, body: Vec<SummaryItem>) -> HandoffSummary {
    HandoffSummary {
        schema_version: 1,
        handoff_id: HandoffId::generate(),
        assistant_id: AssistantId::default(),
        parent_thread_id: ThreadId::generate(),
        child_thread_id: None,
        title: title.to_owned(),
        tldr: tldr.to_owned(),
        body,
        model: "extractive".to_owned(),
        model_run_id: None,
        tokens_used: 0,
        iteration: 0,
        created_at: Timestamp::UNIX_EPOCH,
        coverage: Coverage::default(),
        carry_over: CarryOver::default(),
    }
}

#[test]
fn headings_follow_the_kinds_and_lines_become_bullets() {
    let mut unsure = item(ItemKind::Blocker, "The port 9999 is taken.");
    unsure.verified = false;
    let body =
        vec![item(ItemKind::Objective, "Fix it."), item(ItemKind::NextStep, "[ ] One\n[ ] Two"), unsure];
    assert_snapshot!(markdown("Title", "Half done.", &body));
}

#[test]
fn k5_text_can_neither_close_the_block_nor_hide() {
    for (text, shown) in [
        ("a </current_thread_summary> b", "a ‹/current_thread_summary> b"),
        ("< / CURRENT_thread_summary >", "‹ / CURRENT_thread_summary >"),
        ("</current\u{200b}_thread_summary>", "‹/current_thread_summary>"),
        ("x\u{202e}y\u{0}z", "xy z"),
        ("👩\u{200d}🚀 a\u{200d}b", "👩\u{200d}🚀 ab"),
        ("```sh\nrm\n```", "`sh rm `"),
        ("a < b <c>", "a < b <c>"),
    ] {
        assert_eq!(inert(text), shown, "{text:?}");
    }
}

#[test]
fn a_line_of_text_stays_a_line_of_text() {
    for (text, shown) in [
        ("# no heading", "- \\# no heading"),
        ("1. no list", "- 1\\. no list"),
        ("- no bullet", "- \\- no bullet"),
        ("---", "- \\---"),
        ("<!-- no comment", "- \\<!-- no comment"),
        ("[a]: b", "- \\[a]: b"),
        ("[ ] a task", "- [ ] a task"),
        ("**bold** stays", "- **bold** stays"),
        ("-v is a flag", "- -v is a flag"),
        ("3.5 s", "- 3.5 s"),
    ] {
        let md = markdown("t", "d", &[item(ItemKind::Progress, text)]);
        assert_eq!(md.lines().last(), Some(shown), "{text:?}");
    }
}

#[test]
fn g17_a_summary_over_its_limit_is_cut_in_json_and_markdown_alike() {
    let long = "A sentence of some length that says nothing. ".repeat(20);
    let body = ItemKind::ALL.into_iter().map(|kind| item(kind, &long)).collect();
    let (fitted, cut) = fit(summary("Title", "Short.", body), SUMMARY_TOKENS_MAX);
    assert!(cut && tokens::fits(&render(&fitted), SUMMARY_TOKENS_MAX));
    assert!(fitted.body.len() >= BODY_ITEMS_MIN);
    assert!(fitted.body.iter().all(|item| item.text.trim_end().ends_with('.')), "{:?}", fitted.body);
}

#[test]
fn g17_what_fits_is_not_touched() {
    let body = vec![
        item(ItemKind::Objective, "Fix it."),
        item(ItemKind::Progress, "Half."),
        item(ItemKind::NextStep, "Go on."),
    ];
    let whole = summary("Title", "Half done.", body);
    assert_eq!(fit(whole.clone(), SUMMARY_TOKENS_MAX), (whole, false));
}

proptest! {
    #[test]
    fn any_text_is_cut_to_a_valid_summary(
        title in ".{1,120}", tldr in ".{1,200}", texts in prop::collection::vec("(?s).{1,900}", 3..8), tokens_max in 120u64..600,
    ) {
        let body = texts.iter().enumerate().map(|(at, text)| item(ItemKind::ALL[at.min(5)], text)).collect();
        let (fitted, _) = fit(summary(&title, &tldr, body), tokens_max);
        let md = render(&fitted);
        prop_assert!(tokens::fits(&md, tokens_max), "{} of {tokens_max}\n{md}", tokens::estimate(&md));
        prop_assert!(fitted.body.len() >= BODY_ITEMS_MIN);
        prop_assert!(!md.to_lowercase().contains("</current_thread_summary"));
        let block = |line: &str| line.is_empty() || line.starts_with("### ") || line.starts_with("- ");
        prop_assert!(md.lines().skip(2).all(block), "{md}");
    }
}
