//! Formats text for a line of a summary: one line, without markup, cut between words. It never rewords.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation;

/// The mark at the place where text was cut.
pub const ELLIPSIS: char = '…';

/// Returns `text` on one line, with each run of white space replaced by one space.
pub fn to_single_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(4_096));
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

/// Returns `text` on one line without Markdown that has a meaning only on its own line or block: the markers of headings,
/// quotes and lists, code fences, and bold marks around words.
pub fn strip_markdown(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("```"));
    let words = lines.flat_map(|line| strip_line_marker(line.trim()).split_whitespace());
    // Bold marks are removed only around a word, because two asterisks inside a word are a glob.
    words.map(strip_bold_marks).collect::<Vec<_>>().join(" ")
}

/// Returns a word without the bold marks around it, also before its punctuation.
fn strip_bold_marks(word: &str) -> Cow<'_, str> {
    let word = word.trim_start_matches("**");
    let end = word.trim_end_matches([':', '.', ',', ';', ')', '!', '?', '"']);
    match end.strip_suffix("**") {
        // Two asterisks after a slash are a glob.
        Some(bare) if !bare.is_empty() && !bare.ends_with('/') => match &word[end.len()..] {
            "" => Cow::Borrowed(bare),
            punctuation => Cow::Owned(format!("{bare}{punctuation}")),
        },
        Some(_) | None => Cow::Borrowed(word),
    }
}

/// Returns a line without the marker of a heading, quote, list item or task.
fn strip_line_marker(line: &str) -> &str {
    let text = line.trim_start_matches(['#', '>', '|']).trim_start();
    let text = ["- ", "* ", "+ ", "• "].iter().find_map(|marker| text.strip_prefix(marker)).unwrap_or(text);
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let is_numbered =
        (1..=2).contains(&digits) && (text[digits..].starts_with(". ") || text[digits..].starts_with(") "));
    if is_numbered { text[digits + 2..].trim_start() } else { text }
}

/// Returns `text` with each tag, such as `<b>` or `</div>`, replaced by a line break. An angle bracket that starts no tag
/// stays, and so do the parameters of a type, such as `Vec<T>`, components, such as
/// `<Button>`, and everything in a code span.
pub fn strip_tags(text: &str) -> String {
    let mut stripped = String::with_capacity(text.len());
    let mut remaining = text;
    let mut is_in_code = false;
    while let Some((before, after)) = remaining.split_once('<') {
        stripped.push_str(before);
        is_in_code ^= !before.matches('`').count().is_multiple_of(2);
        let end = after.find('>').filter(|end| {
            let name = after[..*end].trim_start_matches('/');
            let is_parameter = before.ends_with(char::is_alphanumeric)
                && (name.starts_with(|c: char| c.is_ascii_uppercase()) || name.contains(", "));
            // `<Button>` is what the text is about; `<INSTRUCTIONS>` and `<b>` are markup.
            let is_component = name.starts_with(|c: char| c.is_ascii_uppercase())
                && name.contains(|c: char| c.is_ascii_lowercase());
            // Interpreters name what is no file so.
            let is_source =
                ["stdin", "stdout", "stderr", "anonymous", "module", "string", "unknown", "lambda"]
                    .contains(&name);
            let is_parameter = is_parameter || is_component || is_in_code || is_source;
            name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.len() < 60 && !is_parameter
        });
        match end {
            Some(end) => {
                stripped.push('\n');
                remaining = &after[end + 1..];
            }
            None => {
                stripped.push('<');
                remaining = after;
            }
        }
    }
    stripped.push_str(remaining);
    stripped
}

/// Returns at most `graphemes_max` grapheme clusters of the beginning of `text`, cut between words if possible. A cut text
/// ends in [`ELLIPSIS`], which counts toward the maximum. A maximum of 0 gives an empty string.
pub fn truncate_with_ellipsis(text: &str, graphemes_max: usize) -> String {
    if text.len() <= graphemes_max {
        return text.to_owned();
    }
    if text.graphemes(true).nth(graphemes_max).is_none() {
        return text.to_owned();
    }
    let Some((end, _)) = text.grapheme_indices(true).nth(graphemes_max.saturating_sub(2)) else {
        return String::new();
    };
    let cut = &text[..end];
    // The cut moves back to a space only if two thirds of the text remain, because some scripts have no spaces.
    let space = cut.rfind(char::is_whitespace).filter(|index| *index * 3 >= end * 2);
    let head = space.map_or(cut, |index| &cut[..index]).trim_end_matches([' ', ',', ';', ':', '.', '-', '(']);
    // A space separates the mark from a URL or a name that was cut inside, so that the mark does not look like part of it.
    let ends_in_url = head.rsplit(char::is_whitespace).next().is_some_and(|word| word.contains("://"));
    let is_cut_word = space.is_none() && head.ends_with(|c: char| c.is_ascii_graphic());
    let gap = if is_cut_word || ends_in_url { " " } else { "" };
    if graphemes_max == 0 { String::new() } else { format!("{head}{gap}{ELLIPSIS}") }
}

/// Returns an estimate of the number of words that carry meaning: words of at least four bytes, and one for every two
/// characters in scripts that are written without spaces.
pub fn count_content_words(text: &str) -> usize {
    text.split(|c: char| !c.is_alphanumeric())
        .map(|word| {
            if word.starts_with(|c: char| c >= '\u{2e80}') {
                word.chars().count() / 2
            } else {
                usize::from(word.len() > 3)
            }
        })
        .sum()
}

/// Returns a count with its noun: `1 file`, `2 files`.
pub fn pluralize(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_stripped_and_parameters_of_types_stay() {
        for (text, stripped) in [
            ("Replace `<b>` by `Vec<u8>`, not <Button>.", "Replace `<b>` by `Vec<u8>`, not <Button>."),
            ("a<br>b</div>c", "a\nb\nc"),
            ("fix Vec<T> and HashMap<K, V> parsing", "fix Vec<T> and HashMap<K, V> parsing"),
            ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
            ("jq: error (at <stdin>:82): no", "jq: error (at <stdin>:82): no"),
        ] {
            assert_eq!(strip_tags(text), stripped);
        }
    }

    #[test]
    fn l9_text_is_cut_between_words_and_never_inside_a_character() {
        for (text, max, expected) in [
            ("short", 10, "short"),
            ("one two three", 10, "one two…"),
            ("exactly ten", 11, "exactly ten"),
            ("https://x.test/a/long/path", 11, "https://x …"),
            ("日本語日本語", 5, "日本語…"),
            ("👨‍👩‍👧‍👦👨‍👩‍👧‍👦👨‍👩‍👧‍👦👨‍👩‍👧‍👦", 3, "👨‍👩‍👧‍👦…"),
            ("anything", 0, ""),
        ] {
            assert_eq!(truncate_with_ellipsis(text, max), expected, "{text:?} at {max}");
            assert!(truncate_with_ellipsis(text, max).graphemes(true).count() <= max.max(1));
        }
    }

    #[test]
    fn markdown_line_markers_are_removed() {
        assert_eq!(strip_markdown("# A\n\n- **b**\n```\ncode\n```"), "A b code");
        assert_eq!(strip_markdown("**When it exists**: the id **A7**."), "When it exists: the id A7.");
        assert_eq!(strip_markdown("**Read** src/** and src/**."), "Read src/** and src/**.");
    }
}
