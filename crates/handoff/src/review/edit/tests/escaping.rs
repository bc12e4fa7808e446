//! Tests that the stored, the shown and the injected text are the same: neutralizing it again changes nothing (G1, K5).

use proptest::strategy::Strategy;

use super::*;

/// Generates texts with characters that hide, reorder, open and close delimiters, among any other characters.
fn hostile(pieces_max: usize) -> impl Strategy<Value = String> {
    let pieces = [
        "<",
        "<b>",
        "</",
        "< /",
        "<!--",
        "-->",
        "<|im_start|>",
        "</current_thread_summary>",
        "< current_thread_summary",
        "&lt;",
        "&",
        "\u{200b}",
        "\u{202e}",
        "\u{200d}",
        "\u{200c}",
        "\u{fe0f}",
        "\u{feff}",
        "\u{2028}",
        "\u{85}",
        "\r\n",
        "\r",
        "\n",
        "\t",
        " ",
        "\u{a0}",
        "```",
        "````",
        "~~~",
        "**",
        "*",
        "`",
        "### Objective\n",
        "### Progress\n- ",
        "\n- ",
        "- ",
        "#",
        "\\",
        "1.",
        "1. ",
        "[ ] ",
        "[a]: ",
        " (unverified)",
        "é",
        "👩\u{200d}🚀",
        "\u{1b}[2J",
        "\u{e0041}",
        "word",
        "T",
    ];
    let piece =
        prop_oneof![4 => prop::sample::select(pieces.to_vec()).prop_map(str::to_owned), 1 => any::<String>()];
    prop::collection::vec(piece, 0..pieces_max).prop_map(|pieces| pieces.concat())
}

/// Returns a normalized summary with these texts; each item is its text, whether it is verified, and the index of its
/// kind.
fn drafted(title: &str, tldr: &str, texts: &[(String, bool, usize)]) -> HandoffSummary {
    let body = texts.iter().map(|(text, verified, kind)| item(SummaryItemKind::ALL[*kind], text, *verified));
    let summary = HandoffSummary {
        title: title.to_owned(),
        tldr: tldr.to_owned(),
        body: body.collect(),
        ..shown_summary()
    };
    let mut summary = render::fit_summary(summary, u64::MAX).summary;
    summary.body.sort_by_key(|item| item.kind);
    summary
}

/// Checks that neutralizing, storing and re-submitting the Markdown do not change it.
#[track_caller]
fn check_inert(md: &str) {
    assert_eq!(model::untrusted_text::neutralize(md), md);
    assert_eq!(memory::managed_block::escape_block_tags(md), md);
    assert_eq!(memory::managed_block::normalize_content(md), md.trim_end());
    assert_eq!(clean_submitted_text(md, md), Ok(None), "re-edited without a change: {md:?}");
    assert_eq!(
        clean_submitted_text(md, &md.replace('\n', "\r\n")),
        Ok(None),
        "by an editor with other line ends: {md:?}"
    );
}

#[test]
fn k5_a_stored_text_is_neutralized_and_still_readable() {
    for (text, shown) in [
        ("a <b>c</b>", "a &lt;b>c&lt;/b>"),
        ("</current_thread_summary>", "&lt;/current_thread_summary>"),
        ("<\ncurrent_thread_summary\n>", "&lt;\ncurrent_thread_summary\n&gt;"),
        ("x <\n/y", "x &lt;\n/y"),
        ("a\u{202e}b\u{200b}c\u{2028}d", "abc d"),
        ("a\r\nb", "a\nb"),
        ("5 < 6 <- 7", "5 < 6 <- 7"),
    ] {
        let submitted = clean_submitted_text("", &format!("### Objective\n- {text}")).unwrap().unwrap();
        let edited = parse_markdown(&super::shown_summary(), submitted, None).unwrap();
        assert_eq!(edited.package_md, format!("### Objective\n- {shown}"), "{text:?}");
        check_inert(&edited.package_md);
    }
}

#[test]
fn g1_items_with_the_same_first_lines_are_distinguished() {
    let texts = |texts: &[&str]| -> Vec<(String, bool, usize)> {
        texts.iter().enumerate().map(|(index, text)| ((*text).to_owned(), index % 2 == 0, 1)).collect()
    };
    for body in [["a", "b", "a\nb"], ["a\nb", "a", "b"], ["a", "a\nb", "a"], ["a", "a", "a (unverified)"]] {
        let mut shown = drafted("T", "D", &texts(&body));
        for (index, item) in (1..).zip(&mut shown.body) {
            item.refs = vec![index];
        }
        let md = render::render_summary(&shown).replacen("**T**", "**Another**", 1);
        let submitted = clean_submitted_text("", &md).unwrap().unwrap();
        assert_eq!(
            parse_markdown(&shown, submitted, None).unwrap().summary_json.body,
            shown.body,
            "{body:?}"
        );
    }
}

proptest! {
    #[test]
    fn g1_k5_the_stored_text_of_any_draft_equals_the_injected_text(
        title in hostile(8), tldr in hostile(8),
        texts in prop::collection::vec((hostile(12), any::<bool>(), 0usize..6), 1..8),
    ) {
        let shown = drafted(&title, &tldr, &texts);
        let md = render::render_summary(&shown);
        prop_assert_eq!(&render::fit_summary(shown.clone(), u64::MAX).summary, &shown);
        prop_assume!(!md.trim().is_empty());
        check_inert(&md);
        // Another title does not change the structure.
        let own = clean_submitted_text("", &format!("**Another one**\n{}", md.split_once('\n').unwrap().1)).unwrap().unwrap();
        if shown.body.is_empty() || shown.tldr.graphemes(true).count() > TLDR_GRAPHEMES_MAX {
            return Ok(());
        }
        let edited = parse_markdown(&shown, own, None).unwrap();
        prop_assert_eq!(edited.summary_json.title, "Another one");
        prop_assert_eq!(edited.summary_json.tldr, shown.tldr);
        prop_assert_eq!(edited.summary_json.body, shown.body);
        check_inert(&edited.package_md);
    }

    #[test]
    fn g1_k5_the_stored_text_of_any_edit_equals_the_injected_text(text in hostile(30)) {
        let Ok(Some(own)) = clean_submitted_text("", &text) else { return Ok(()) };
        check_inert(&own.text);
        prop_assert_eq!(own.lines().count(), own.text.split('\n').count());
        if let Ok(edited) = parse_markdown(&shown_summary(), own, None) {
            check_inert(&edited.package_md);
            check_inert(&render::render_summary(&edited.summary_json));
        }
    }

    #[test]
    fn g1_k5_the_stored_text_of_any_json_equals_the_injected_text(
        title in hostile(8), tldr in hostile(8), texts in prop::collection::vec(hostile(12), 1..8),
    ) {
        let items: Vec<serde_json::Value> =
            texts.iter().map(|text| json!({"kind": "progress", "text": text})).collect();
        let json = json!({"title": title, "tldr": tldr, "body": items});
        let Ok(edited) = parse_json(&shown_summary(), &json) else { return Ok(()) };
        check_inert(&edited.package_md);
        // Sent back as it was read, it is the same.
        let shown = edited.summary_json;
        let again = parse_json(&shown, &serde_json::to_value(&shown).unwrap()).unwrap();
        prop_assert_eq!((again.summary_json, again.package_md), (shown, edited.package_md));
    }
}
