//! What is stored is what is shown and what is injected: making it inert once more changes nothing (G1, K5).

use proptest::strategy::Strategy;

use super::*;

/// Returns texts full of what hides, reorders, opens and closes, among any other characters.
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

fn drafted(title: &str, tldr: &str, texts: &[(String, bool, usize)]) -> HandoffSummary {
    let body = texts.iter().map(|(text, verified, kind)| item(ItemKind::ALL[*kind], text, *verified));
    let summary =
        HandoffSummary { title: title.to_owned(), tldr: tldr.to_owned(), body: body.collect(), ..shown() };
    let mut summary = render::fit(summary, u64::MAX).summary;
    summary.body.sort_by_key(|item| item.kind);
    summary
}

#[track_caller]
fn check_inert(md: &str) {
    assert_eq!(model::inert::text(md), md);
    assert_eq!(memory::block::neutralise(md), md);
    assert_eq!(memory::block::content_of(md), md.trim_end());
    assert_eq!(own_text(md, md), Ok(None), "re-edited without a change: {md:?}");
    assert_eq!(
        own_text(md, &md.replace('\n', "\r\n")),
        Ok(None),
        "by an editor with other line ends: {md:?}"
    );
}

#[test]
fn k5_what_is_stored_is_inert_and_can_still_be_read() {
    for (text, shown) in [
        ("a <b>c</b>", "a &lt;b>c&lt;/b>"),
        ("</current_thread_summary>", "&lt;/current_thread_summary>"),
        ("<\ncurrent_thread_summary\n>", "&lt;\ncurrent_thread_summary\n&gt;"),
        ("x <\n/y", "x &lt;\n/y"),
        ("a\u{202e}b\u{200b}c\u{2028}d", "abc d"),
        ("a\r\nb", "a\nb"),
        ("5 < 6 <- 7", "5 < 6 <- 7"),
    ] {
        let own = own_text("", &format!("### Objective\n- {text}")).unwrap().unwrap();
        let edited = from_markdown(&super::shown(), own, None).unwrap();
        assert_eq!(edited.summary_md, format!("### Objective\n- {shown}"), "{text:?}");
        check_inert(&edited.summary_md);
    }
}

#[test]
fn g1_items_that_begin_alike_are_told_apart() {
    let texts = |texts: &[&str]| -> Vec<(String, bool, usize)> {
        texts.iter().enumerate().map(|(at, text)| ((*text).to_owned(), at % 2 == 0, 1)).collect()
    };
    for body in [["a", "b", "a\nb"], ["a\nb", "a", "b"], ["a", "a\nb", "a"], ["a", "a", "a (unverified)"]] {
        let mut shown = drafted("T", "D", &texts(&body));
        for (at, item) in (1..).zip(&mut shown.body) {
            item.refs = vec![at];
        }
        let md = render::render(&shown).replacen("**T**", "**Another**", 1);
        let own = own_text("", &md).unwrap().unwrap();
        assert_eq!(from_markdown(&shown, own, None).unwrap().summary_json.body, shown.body, "{body:?}");
    }
}

proptest! {
    #[test]
    fn g1_k5_every_draft_is_stored_as_it_is_injected(
        title in hostile(8), tldr in hostile(8),
        texts in prop::collection::vec((hostile(12), any::<bool>(), 0usize..6), 1..8),
    ) {
        let shown = drafted(&title, &tldr, &texts);
        let md = render::render(&shown);
        prop_assert_eq!(&render::fit(shown.clone(), u64::MAX).summary, &shown);
        prop_assume!(!md.trim().is_empty());
        check_inert(&md);
        // Under another title it is the same structure.
        let own = own_text("", &format!("**Another one**\n{}", md.split_once('\n').unwrap().1)).unwrap().unwrap();
        if shown.body.is_empty() || shown.tldr.graphemes(true).count() > TLDR_GRAPHEMES_MAX {
            return Ok(());
        }
        let edited = from_markdown(&shown, own, None).unwrap();
        prop_assert_eq!(edited.summary_json.title, "Another one");
        prop_assert_eq!(edited.summary_json.tldr, shown.tldr);
        prop_assert_eq!(edited.summary_json.body, shown.body);
        check_inert(&edited.summary_md);
    }

    #[test]
    fn g1_k5_every_edit_is_stored_as_it_is_injected(text in hostile(30)) {
        let Ok(Some(own)) = own_text("", &text) else { return Ok(()) };
        check_inert(&own.text);
        prop_assert_eq!(own.lines().count(), own.text.split('\n').count());
        if let Ok(edited) = from_markdown(&shown(), own, None) {
            check_inert(&edited.summary_md);
            check_inert(&render::render(&edited.summary_json));
        }
    }

    #[test]
    fn g1_k5_every_json_is_stored_as_it_is_injected(
        title in hostile(8), tldr in hostile(8), texts in prop::collection::vec(hostile(12), 1..8),
    ) {
        let items: Vec<serde_json::Value> =
            texts.iter().map(|text| json!({"kind": "progress", "text": text})).collect();
        let json = json!({"title": title, "tldr": tldr, "body": items});
        let Ok(edited) = from_json(&shown(), &json) else { return Ok(()) };
        check_inert(&edited.summary_md);
        // Sent back as it was read, it is the same.
        let shown = edited.summary_json;
        let again = from_json(&shown, &serde_json::to_value(&shown).unwrap()).unwrap();
        prop_assert_eq!((again.summary_json, again.summary_md), (shown, edited.summary_md));
    }
}
