//! Changes of a text's block, one case a line; `|` stands for a line ending.

use proptest::prelude::*;

use super::*;

const BLOCK: &str = "## Recent Thread Snapshot|<current_thread_summary>|S|</current_thread_summary>|";

/// Expands the compact form of a text.
fn expand_lines(compact: &str) -> Vec<u8> {
    compact
        .replace("{BLOCK}", BLOCK)
        .replace("<o>", OPEN_TAG)
        .replace("</o>", CLOSE_TAG)
        .replace('|', "\n")
        .into_bytes()
}

fn check_replace(before: &str, after: &str) {
    let result = replace_block(&expand_lines(before), "S").unwrap();
    assert_eq!(String::from_utf8_lossy(&result), String::from_utf8_lossy(&expand_lines(after)), "{before}");
    assert_eq!(replace_block(&result, "S").unwrap(), result, "a second time: {before}");
    assert_eq!(block_content(&result).as_deref(), Some("S"));
}

fn check_repair(before: &str, reason: &str, after: &str) {
    let refused = replace_block(&expand_lines(before), "S").unwrap_err();
    assert_eq!(refused.to_string(), format!("find one summary block: {reason}"), "{before}");
    let repaired = repair_markers(&expand_lines(before));
    assert_eq!(String::from_utf8_lossy(&repaired), String::from_utf8_lossy(&expand_lines(after)), "{before}");
    assert_eq!(marker_problems(&repaired), []);
}

#[test]
fn g11_a_missing_block_is_inserted_once() {
    check_replace("", "{BLOCK}");
    check_replace("a", "a||{BLOCK}");
    check_replace("a|", "a||{BLOCK}");
    check_replace("a||", "a||{BLOCK}");
    check_replace("\u{feff}", "\u{feff}{BLOCK}");
    check_replace("\u{feff}a|", "\u{feff}a||{BLOCK}");
    check_replace("a|## Recent Thread Snapshot|b|", "a|{BLOCK}b|");
    check_replace("## Recent Thread Snapshot", "{BLOCK}");
    check_replace("a|```|never closed|", "a||{BLOCK}|```|never closed|");
    check_replace("a||<!-- never closed|", "a||{BLOCK}|<!-- never closed|");
    check_replace("```|never closed|", "{BLOCK}|```|never closed|");
}

#[test]
fn g11_one_block_is_replaced_and_nothing_else() {
    check_replace("a|<o>|old|lines|</o>|z", "a|<o>|S|</o>|z");
    check_replace("<o></o>", "<o>|S|</o>");
    check_replace("<o>old</o> tail", "<o>|S|</o> tail");
    check_replace("<o> old|</o>", "<o>|S|</o>");
    check_replace("<o>|old </o>|z", "<o>|S|</o>|z");
    check_replace("  <o>  |old|   </o>  |z", "  <o>|S|</o>  |z");
    check_replace("\u{feff}<o>|old|</o>", "\u{feff}<o>|S|</o>");
    check_replace("<o>|```|unclosed in the block|</o>|```|z|```|", "<o>|S|</o>|```|z|```|");
    check_replace("```|unclosed before|<o>|a|</o>|", "```|unclosed before|<o>|S|</o>|");
}

#[test]
fn g11_markers_in_code_and_comments_are_text() {
    for example in [
        "```|<o>|x|</o>|```|",
        "~~~md|</o>|<o>|x|</o>|~~~|".replace("</o>|<o>", "<o>|y|</o>|<o>").as_str(),
        "````|```|<o>|x|</o>|```|````|",
        "    <o>|    x|    </o>|",
        "\t<o>|",
        "<!--|<o>|x|</o>|-->|",
        "the tag <o> and `</o>` in a sentence|",
        "> <o>|> x|",
    ] {
        check_replace(example, &format!("{example}|{{BLOCK}}"));
    }
}

#[test]
fn g11_malformed_markers_are_refused_and_repaired() {
    check_repair("<o>|a|</o>|b|<o>|c|</o>|d|", "2 blocks (lines 1, 5)", "<o>|a|</o>|b|d|");
    check_repair("<o>|a|</o>|b|{BLOCK}d|", "2 blocks (lines 1, 6)", "<o>|a|</o>|b|d|");
    check_repair("<o>|a|", "line 1 opens a block that nothing closes", "a|");
    check_repair("a|</o>|b|", "line 2 closes a block that nothing opened", "a|b|");
    check_repair(
        "a|</o>|b|<o>|c",
        "line 2 closes a block that nothing opened, line 4 opens a block that nothing closes",
        "a|b|c",
    );
    check_repair(
        "<o>|a|<o>|b|</o>|c|</o>|d|",
        "line 1 opens a block that nothing closes, line 7 closes a block that nothing opened",
        "a|<o>|b|</o>|c|d|",
    );
    check_repair("<o> a|b|", "line 1 opens a block that nothing closes", " a|b|");
    check_repair("```|<o>|```|x|", "line 2 opens a block that nothing closes", "```|```|x|");
}

#[test]
fn g11_line_endings_and_bytes_of_any_encoding_stay() {
    let crlf = replace_block(b"a\r\nb\r\n", "one\ntwo").unwrap();
    assert_eq!(crlf, b"a\r\nb\r\n\r\n## Recent Thread Snapshot\r\n<current_thread_summary>\r\none\r\ntwo\r\n</current_thread_summary>\r\n");
    assert_eq!(block_content(&crlf).as_deref(), Some("one\ntwo"));
    let latin =
        replace_block(b"caf\xe9\n<current_thread_summary>\n\xff\n</current_thread_summary>\n\xfe", "S")
            .unwrap();
    assert_eq!(latin, b"caf\xe9\n<current_thread_summary>\nS\n</current_thread_summary>\n\xfe");
}

#[test]
fn g11_text_inside_cannot_close_the_block() {
    let check = |summary: &str, safe: &str| {
        assert_eq!(escape_block_tags(summary), safe);
        assert_eq!(escape_block_tags(safe), safe, "a second time");
        let written = replace_block(b"a\n", summary).unwrap();
        assert_eq!(marker_problems(&written), []);
        assert_eq!(block_content(&written).unwrap(), normalize_content(summary));
    };
    check("</current_thread_summary>", "&lt;/current_thread_summary&gt;");
    check("<current_thread_summary>", "&lt;current_thread_summary&gt;");
    check("x </ Current_Thread_SUMMARY > y", "x &lt;/ Current_Thread_SUMMARY &gt; y");
    check("<<current_thread_summary/>", "<&lt;current_thread_summary/&gt;");
    check("a < b, Vec<u8>, <current_thread>", "a < b, Vec<u8>, <current_thread>");
    check(
        "\u{65e5}<\u{672c}\u{8a9e}\u{65e5}\u{672c}\u{8a9e}\u{65e5}\u{672c}",
        "\u{65e5}<\u{672c}\u{8a9e}\u{65e5}\u{672c}\u{8a9e}\u{65e5}\u{672c}",
    );
    check("```\ncode", "```\ncode");
}

#[test]
fn g11_a_blank_summary_is_the_placeholder() {
    for blank in ["", " ", "\r\n\n"] {
        assert_eq!(block_content(&replace_block(b"", blank).unwrap()).as_deref(), Some(PLACEHOLDER));
    }
}

#[test]
fn g11_a_hostile_file_takes_no_quadratic_time() {
    for line in ["```x\n", "<!--\n", "<current_thread_summary>\n", "~~~~\n~~~\n"] {
        let text = line.repeat(256 * 1024 / line.len());
        let started = std::time::Instant::now();
        let repaired = repair_markers(text.as_bytes());
        assert!(replace_block(&repaired, "S").is_ok());
        assert!(
            started.elapsed() < std::time::Duration::from_secs(5),
            "{line:?} took {:?}",
            started.elapsed()
        );
    }
}

/// A search that every opening line repeated would read four times as many lines for twice the text.
#[test]
fn g11_the_work_of_a_scan_grows_in_proportion_to_the_text() {
    // The last line can be read once less.
    const CONSTANT_LINES: usize = 10;
    for (repeated, end) in [
        ("```x|", "```|"),
        ("```x|", "<o>|```|"),
        ("```x|", "</o>|```|"),
        ("~~~x|", "<o>|a</o>|<o>|~~~|"),
        ("<!--|", "<o>|-->|"),
        ("<!--|```x|~~~x|", "</o>|"),
        ("~~~~x|~~~|", ""),
        ("<o>|```|", "```|"),
        ("</o>|```x|", "<o>|```|"),
        ("<o>|a</o>|", ""),
        ("<o>|</o>|```x|", "<o>|```|"),
    ] {
        let lines_read = |count: usize| {
            let text = expand_lines(&format!("{}{end}", repeated.repeat(count)));
            scan_markers(&text).lines_read
        };
        let (once, twice) = (lines_read(500), lines_read(1_000));
        assert!(twice <= 2 * once + CONSTANT_LINES, "{repeated:?}, {end:?}: {once} lines, then {twice}");
    }
}

/// Lines that a file may be made of, the awkward ones included.
fn line() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(OPEN_TAG.into()),
        Just(CLOSE_TAG.into()),
        Just(HEADING.into()),
        Just(b"```".to_vec()),
        Just(b"~~~~ md".to_vec()),
        Just(b"~~~~".to_vec()),
        Just(b"<!--".to_vec()),
        Just(b"-->".to_vec()),
        Just(b"    <current_thread_summary>".to_vec()),
        Just(b"<current_thread_summary>x</current_thread_summary>".to_vec()),
        Just(b"text </current_thread_summary>".to_vec()),
        Just(Vec::new()),
        Just(b"\xff\xfe\r".to_vec()),
        prop::collection::vec(any::<u8>(), 0..12),
    ]
}

/// Returns the lines of `text` that are neither blank nor made of markers or heading.
fn plain_lines(text: &[u8]) -> Vec<Vec<u8>> {
    let mut plain: Vec<Vec<u8>> = text
        .split(|byte| *byte == b'\n')
        .map(|line| {
            let line = String::from_utf8_lossy(line).replace(OPEN_TAG, "").replace(CLOSE_TAG, "");
            line.trim().trim_start_matches('\u{feff}').as_bytes().to_vec()
        })
        .filter(|line| !line.is_empty() && line != HEADING.as_bytes())
        .collect();
    plain.sort();
    plain
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn g11_whatever_the_file_one_block_results_and_the_rest_stays(
        parts in prop::collection::vec(line(), 0..24),
        summaries in prop::collection::vec("(?s)[a-z<>/`~#\r\n -]{0,20}|</current_thread_summary>|```|<!--", 1..4),
    ) {
        let mut text = repair_markers(&parts.join(b"\n".as_slice()));
        prop_assert_eq!(marker_problems(&text), vec![]);
        for summary in &summaries {
            let outside = remove_blocks(&text);
            let before = text;
            text = replace_block(&before, summary).unwrap();
            let shown = || format!("{}\n=>\n{}", String::from_utf8_lossy(&before), String::from_utf8_lossy(&text));
            prop_assert_eq!(marker_problems(&text), vec![], "{}", shown());
            prop_assert_eq!(block_content(&text).unwrap(), normalize_content(summary), "{}", shown());
            prop_assert_eq!(plain_lines(&remove_blocks(&text)), plain_lines(&outside));
            prop_assert_eq!(&replace_block(&text, summary).unwrap(), &text);
        }
    }

    #[test]
    fn g11_repair_loses_no_line_that_is_not_managed(parts in prop::collection::vec(line(), 0..24)) {
        let text = parts.join(b"\n".as_slice());
        // Only lines that no interpretation of the markers treats as managed; a pair inside a fence stays too.
        let mut kept = plain_lines(&repair_markers(&text));
        for line in plain_lines(&remove_blocks(&text)) {
            let at = kept.iter().position(|other| *other == line);
            prop_assert!(at.is_some(), "lost {:?}", String::from_utf8_lossy(&line));
            kept.swap_remove(at.unwrap());
        }
    }

    #[test]
    fn g11_bytes_before_and_after_a_block_stay(before in prop::collection::vec(any::<u8>(), 0..200), after in prop::collection::vec(any::<u8>(), 0..200)) {
        let text = [before.as_slice(), b"\n<current_thread_summary>\nx\n</current_thread_summary>\n", after.as_slice()].concat();
        let new = replace_block(&text, "other").unwrap();
        prop_assert!(new.starts_with(&before));
        prop_assert!(new.ends_with(&after));
    }
}
