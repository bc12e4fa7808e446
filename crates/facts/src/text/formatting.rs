//! Shapes text for a line of a summary: one line, cut between words. It never rewords.

use unicode_segmentation::UnicodeSegmentation;

/// Stands where text was cut.
pub const ELLIPSIS: char = '…';

/// Returns `text` on one line, runs of white space as one space.
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

/// Returns `text` without the Markdown that only makes sense at the start of its own line or block.
pub fn strip_markdown(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("```"));
    let words = lines.flat_map(|line| strip_line_marker(line.trim()).split_whitespace());
    // Only around words: inside one, two asterisks are a glob.
    words.map(|word| word.trim_start_matches("**").trim_end_matches("**")).collect::<Vec<_>>().join(" ")
}

/// Returns a line without the marker of a heading, quote, list item or task.
fn strip_line_marker(line: &str) -> &str {
    let bare = line.trim_start_matches(['#', '>', '|']).trim_start();
    let bare = ["- ", "* ", "+ ", "• "].iter().find_map(|marker| bare.strip_prefix(marker)).unwrap_or(bare);
    let digits = bare.bytes().take_while(u8::is_ascii_digit).count();
    let numbered =
        (1..=2).contains(&digits) && (bare[digits..].starts_with(". ") || bare[digits..].starts_with(") "));
    if numbered { bare[digits + 2..].trim_start() } else { bare }
}

/// Returns `text` without what stands between angle brackets like a tag.
pub fn strip_tags(text: &str) -> String {
    let mut bare = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        bare.push_str(before);
        let end = after.find('>').filter(|end| {
            let name = after[..*end].trim_start_matches('/');
            name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.len() < 60
        });
        match end {
            Some(end) => {
                bare.push('\n');
                rest = &after[end + 1..];
            }
            None => {
                bare.push('<');
                rest = after;
            }
        }
    }
    bare.push_str(rest);
    bare
}

/// Returns the beginning of `text` in at most `graphemes_max` grapheme clusters, cut between words where it has any,
/// with [`ELLIPSIS`] at the end when something is missing.
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
    // A word is given up for a clean end only when most of the text remains: some scripts have no spaces.
    let space = cut.rfind(char::is_whitespace).filter(|at| *at * 3 >= end * 2);
    let kept = space.map_or(cut, |at| &cut[..at]).trim_end_matches([' ', ',', ';', ':', '.', '-', '(']);
    // The beginning of a long name is set apart, so that the mark is not read as a part of it.
    let gap = if space.is_none() && kept.ends_with(|c: char| c.is_ascii_graphic()) { " " } else { "" };
    if graphemes_max == 0 { String::new() } else { format!("{kept}{gap}{ELLIPSIS}") }
}

/// Returns about how many words of `text` carry meaning: those of four letters and more, and characters of scripts
/// that write without spaces.
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
    fn l9_a_clip_ends_between_words_and_never_inside_a_character() {
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
    fn markdown_of_its_own_line_goes() {
        assert_eq!(strip_markdown("# A\n\n- **b**\n```\ncode\n```"), "A b code");
    }
}
