//! Tests of rendering: the Markdown is neutralized, its structure is safe, and a cut keeps it within its budget.

use insta::assert_snapshot;
use jiff::Timestamp;
use model::tokens;
use proptest::prelude::*;
use protocol::{
    AssistantId, CarriedFacts, Coverage, HandoffId, HandoffSummary, SummaryItem, SummaryItemKind, ThreadId,
};

use super::{
    FittedSummary, SummaryCut, escape_block_start, escape_tags, fit_summary, normalize_line, normalize_lines,
    render_markdown, render_summary, unescape_block_start,
};
use crate::limits::{BODY_ITEMS_MIN, SUMMARY_TOKENS_MAX};

fn item(kind: SummaryItemKind, text: &str) -> SummaryItem {
    SummaryItem {
        kind,
        text: text.to_owned(),
        refs: vec![1],
        verified: true,
        unfound: Vec::new(),
        line_refs: Vec::new(),
        false_refs: Vec::new(),
    }
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
        run_id: None,
        notes: protocol::ReviewNotes::default(),
        tokens_used: 0,
        iteration: 0,
        created_at: Timestamp::UNIX_EPOCH,
        coverage: Coverage::default(),
        carried: CarriedFacts::default(),
    }
}

#[test]
fn headings_follow_the_kinds_and_lines_become_bullets() {
    let mut unsure = item(SummaryItemKind::Blocker, "The port 9999 is taken.");
    unsure.verified = false;
    let body = vec![
        item(SummaryItemKind::Objective, "Fix it."),
        item(SummaryItemKind::NextStep, "[ ] One\n[ ] Two"),
        unsure,
    ];
    assert_snapshot!(render_markdown("Title", "Half done.", &body));
}

#[test]
fn k5_a_text_can_neither_close_the_block_nor_hide_characters() {
    for (text, shown) in [
        ("a </current_thread_summary> b", "a &lt;/current_thread_summary> b"),
        ("< / CURRENT_thread_summary >", "&lt; / CURRENT_thread_summary >"),
        ("</current\u{200b}_thread_summary>", "&lt;/current_thread_summary>"),
        ("< current_thread_summary", "&lt; current_thread_summary"),
        ("<\u{e9}> <!-- <|im_start|>", "&lt;\u{e9}> &lt;!-- &lt;|im_start|>"),
        ("a\r\nb\u{2028}c\td", "a b c d"),
        ("x\u{202e}y\u{0}z", "xy z"),
        ("👩\u{200d}🚀 a\u{200d}b", "👩\u{200d}🚀 ab"),
        ("```sh\nrm\n```", "`sh rm `"),
        ("```````` ````", "`` ``"),
        ("a < b <c>", "a < b &lt;c>"),
    ] {
        assert_eq!(escape_tags(text), shown, "{text:?}");
        assert_eq!(escape_tags(shown), shown, "{text:?} a second time");
    }
}

#[test]
fn a_line_of_text_never_becomes_a_markdown_block() {
    for (text, shown) in [
        ("# no heading", "- \\# no heading"),
        ("1. no list", "- 1\\. no list"),
        ("- no bullet", "- \\- no bullet"),
        ("---", "- \\---"),
        ("<!-- no comment", "- &lt;!-- no comment"),
        ("< no tag", "- \\< no tag"),
        ("\\# as it is", "- \\\\# as it is"),
        ("1\\. as it is", "- 1\\\\. as it is"),
        ("\\server", "- \\server"),
        ("[a]: b", "- \\[a]: b"),
        ("[ ] a task", "- [ ] a task"),
        ("**bold** stays", "- **bold** stays"),
        ("-v is a flag", "- -v is a flag"),
        ("~/.config/app.toml", "- ~/.config/app.toml"),
        ("~~~ no fence", "- \\~~~ no fence"),
        ("3.5 s", "- 3.5 s"),
    ] {
        let md = render_markdown("t", "d", &[item(SummaryItemKind::Progress, text)]);
        assert_eq!(md.lines().last(), Some(shown), "{text:?}");
        assert_eq!(unescape_block_start(&escape_block_start(text)), text);
    }
}

#[test]
fn k5_a_title_stays_on_its_line() {
    for (title, shown) in [
        ("a **b** c", "**a b c**"),
        ("<**b>", "**&lt;b>**"),
        ("a\n### Progress\n- b", "**a ### Progress - b**"),
        ("*\u{200b}*a", "**a**"),
        ("**", "****"),
    ] {
        assert_eq!(render_markdown(title, "d", &[]).lines().next(), Some(shown), "{title:?}");
    }
}

#[test]
fn an_item_without_visible_text_is_not_rendered() {
    let body =
        [item(SummaryItemKind::Progress, "\u{200b}\n "), item(SummaryItemKind::Blocker, "b\n\n \u{ad}\r\nc")];
    assert_eq!(render_markdown("T", "D", &body), "**T**\nD\n\n### Blockers\n- b\n- c\n");
}

/// Cuts a summary with these items to a limit, and returns the texts of the remaining items and the tokens before and
/// after.
fn cut_to(tokens_max: u64, texts: &[(SummaryItemKind, &str)]) -> (Vec<String>, Option<(u64, u64)>) {
    let body = texts.iter().map(|(kind, text)| item(*kind, text)).collect();
    let FittedSummary { summary, cut } = fit_summary(summary("Title", "Short.", body), tokens_max);
    (
        summary.body.into_iter().map(|item| item.text).collect(),
        cut.map(|cut| (cut.tokens_before, cut.tokens_after)),
    )
}

#[test]
fn g17_a_cut_is_at_an_item_then_at_a_line_then_at_a_sentence() {
    use SummaryItemKind::{Artifact, Decision, NextStep, Objective, Progress};
    let texts = [
        (Objective, "Fix it. It is broken."),
        (Progress, "Half of it is done. The rest is not."),
        (Progress, "The tests pass."),
        (Decision, "Keep the format."),
        (NextStep, "[ ] Write it\n[ ] Test it"),
        (Artifact, "src/a.rs"),
    ];
    let check = |tokens_max: u64, items: &[&str], cut: Option<(u64, u64)>| {
        assert_eq!(
            cut_to(tokens_max, &texts),
            (items.iter().map(ToString::to_string).collect(), cut),
            "{tokens_max}"
        );
    };
    let (fix, half, keep) = (texts[0].1, texts[1].1, texts[3].1);
    let tasks = texts[4].1;
    check(u64::MAX, &texts.map(|(_, text)| text), None);
    check(58, &texts.map(|(_, text)| text), None);
    check(57, &[fix, half, keep, tasks, "src/a.rs"], Some((58, 54)));
    check(53, &[fix, half, keep, tasks], Some((58, 47)));
    check(46, &[fix, keep, tasks], Some((58, 34)));
    check(33, &[fix, keep, "[ ] Write it"], Some((58, 31)));
    check(30, &["Fix it.", keep, "[ ] Write it"], Some((58, 27)));
    // A summary keeps at least three items, whatever the limit.
    check(26, &["Fix it.", keep, "[ ] Write it"], Some((58, 27)));
    check(1, &["Fix it.", keep, "[ ] Write it"], Some((58, 27)));
    check(0, &["Fix it.", keep, "[ ] Write it"], Some((58, 27)));
}

#[test]
fn g17_an_unusual_text_does_not_prevent_shortening_the_others() {
    let piled = format!("e{}", "\u{301}".repeat(4_000));
    let long = "A sentence of some length that says nothing. ".repeat(20);
    let many = "So it is. ".repeat(4_000);
    for text in [
        many.as_str(),
        &"a\n".repeat(9_000),
        piled.as_str(),
        &format!("{piled}{piled}"),
        &piled.repeat(9),
        "👩\u{200d}👩\u{200d}👧 ".repeat(90).as_str(),
    ] {
        let (items, cut) = cut_to(
            120,
            &[
                (SummaryItemKind::Objective, text),
                (SummaryItemKind::Progress, &long),
                (SummaryItemKind::Blocker, &long),
            ],
        );
        let (before, after) = cut.expect("the summary is too long");
        assert!(before > after && after <= 120 && items.len() == 3, "{after} of 120: {items:?}");
    }
}

#[test]
fn g17_names_in_cut_text_are_no_longer_listed_as_unfound() {
    let long = "A sentence of some length that says nothing. ".repeat(8);
    let mut unsure = item(SummaryItemKind::Blocker, &format!("Look at `a.rs`. {long} Look at `b.rs`."));
    (unsure.verified, unsure.unfound) = (false, vec!["a.rs".to_owned(), "b.rs".to_owned()]);
    let body = vec![item(SummaryItemKind::Objective, "a"), item(SummaryItemKind::Progress, "b"), unsure];
    let FittedSummary { summary, cut } = fit_summary(summary("Title", "Short.", body), 60);
    assert!(cut.is_some());
    assert_eq!(
        (summary.body[2].verified, summary.body[2].unfound.as_slice()),
        (false, ["a.rs".to_owned()].as_slice())
    );
}

#[test]
fn g17_a_summary_that_fits_is_not_changed() {
    let body = vec![
        item(SummaryItemKind::Objective, "Fix it."),
        item(SummaryItemKind::Progress, "Half."),
        item(SummaryItemKind::NextStep, "Go on."),
    ];
    let whole = summary("Title", "Half done.", body);
    assert_eq!(fit_summary(whole.clone(), SUMMARY_TOKENS_MAX), FittedSummary { summary: whole, cut: None });
}

#[test]
fn k5_texts_in_json_have_no_hidden_or_reordering_characters() {
    let body = vec![item(SummaryItemKind::Objective, " a\u{202e}\r\n\r\n<b>\u{200b} ")];
    let fitted = fit_summary(summary("T\u{200b}\nt", "D\u{0}d", body), SUMMARY_TOKENS_MAX).summary;
    assert_eq!(
        (fitted.title.as_str(), fitted.tldr.as_str(), fitted.body[0].text.as_str()),
        ("T t", "D d", "a\n<b>")
    );
}

proptest! {
    #[test]
    fn g6_g17_any_text_is_cut_to_a_valid_summary(
        title in ".{1,120}", tldr in ".{1,200}", texts in prop::collection::vec("(?s).{1,900}", 3..8), tokens_max in 0u64..900,
    ) {
        let body: Vec<SummaryItem> =
            texts.iter().enumerate().map(|(at, text)| item(SummaryItemKind::ALL[at.min(5)], text)).collect();
        let items_min = body.iter().filter(|item| !normalize_lines(&item.text).is_empty()).count().min(BODY_ITEMS_MIN);
        let whole = fit_summary(summary(&title, &tldr, body), u64::MAX).summary;
        let FittedSummary { summary: fitted, cut } = fit_summary(whole.clone(), tokens_max);
        let md = render_summary(&fitted);
        // The shortest summary of three items with a title has about a hundred tokens, or about 150 if every character
        // takes more than one token.
        prop_assert!(tokens::fits(&md, tokens_max.max(160)), "{} of {tokens_max}\n{md}", tokens::estimate_tokens(&md));
        prop_assert!(fitted.body.len() >= items_min);
        let expected = SummaryCut { tokens_before: tokens::estimate_tokens(&render_summary(&whole)), tokens_after: tokens::estimate_tokens(&md) };
        prop_assert_eq!(cut, (fitted != whole).then_some(expected));
        prop_assert!(cut.is_none_or(|cut| cut.tokens_after < cut.tokens_before));
        prop_assert_eq!(&fit_summary(fitted.clone(), tokens_max).summary, &fitted, "cutting again");
        // Each remaining line is a line of the whole summary or the beginning of one.
        for item in &fitted.body {
            let line = item.text.trim_end_matches('…').trim_end();
            prop_assert!(whole.body.iter().any(|original| original.kind == item.kind && original.text.starts_with(line)), "{line:?}");
        }
        prop_assert_eq!(model::untrusted_text::neutralize(&md), md.as_str());
        let block = |line: &str| line.is_empty() || line.starts_with("### ") || line.starts_with("- ");
        prop_assert!(md.lines().skip(2).all(block), "{md}");
    }

    #[test]
    fn unescaping_restores_any_line(text in "[-#>|~*+_=<\\[\\]x: 0-9.)\\\\]{0,12}") {
        let line = normalize_line(&text);
        let shown = escape_block_start(&line);
        prop_assert_eq!(unescape_block_start(&shown).into_owned(), line.clone());
        prop_assert_eq!(super::normalize_line(&line), line.as_str());
    }
}
