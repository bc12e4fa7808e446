//! Measuring, shortening and wrapping text by its width in terminal columns. Text must be sanitized already; it may contain only
//! the escape sequences of `style`.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Returns the width of `text` in columns. Escape sequences have no width.
/// East Asian wide characters count as two columns, combining characters as none.
pub fn width(text: &str) -> usize {
    let mut columns = 0;
    let mut remaining = text;
    while let Some(index) = remaining.find("\u{1b}[") {
        columns += remaining[..index].width();
        let sequence = &remaining[index..];
        remaining = sequence.find('m').map_or("", |end| &sequence[end + 1..]);
    }
    columns + remaining.width()
}

/// Returns `text` shortened to at most `columns_max` columns, with `…` in place of the removed end. The text is cut
/// between grapheme clusters, and must not contain escape sequences.
pub fn shorten(text: &str, columns_max: usize) -> Cow<'_, str> {
    if text.width() <= columns_max {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut columns = 0;
    for cluster in text.graphemes(true) {
        columns += cluster.width();
        if columns + 1 > columns_max {
            break;
        }
        out.push_str(cluster);
    }
    let length = out.trim_end().len();
    out.truncate(length);
    if columns_max > 0 {
        out.push('…');
    }
    Cow::Owned(out)
}

/// Returns `text` padded on the right with blanks to `columns`. A wider text is returned unchanged.
pub fn pad(text: &str, columns: usize) -> String {
    let blanks = columns.saturating_sub(width(text));
    format!("{text}{}", " ".repeat(blanks))
}

/// Returns a size in decimal units, such as `120 kB`. Digits are cut, not rounded.
pub fn format_bytes(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}

/// Returns `text` as lines of at most `columns_max` columns, the first with the prefix `first`, the others with the
/// prefix `next`.
///
/// Lines break at blanks, and runs of blanks become one. A word that is wider than a line is broken between grapheme
/// clusters, unless it contains escape sequences. The last line has no newline.
pub fn wrap(text: &str, columns_max: usize, first: &str, next: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut line = first.to_owned();
    let mut columns = width(first);
    let mut is_empty = true;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let word_columns_max = columns_max.saturating_sub(width(next)).max(8);
        for (index, piece) in split_word(word, word_columns_max).into_iter().enumerate() {
            let piece_columns = width(&piece);
            let blank = usize::from(!is_empty && index == 0);
            if !is_empty && columns + blank + piece_columns > columns_max {
                lines.push(std::mem::replace(&mut line, next.to_owned()));
                columns = width(next);
            } else if blank == 1 {
                line.push(' ');
                columns += 1;
            }
            line.push_str(&piece);
            columns += piece_columns;
            is_empty = false;
        }
    }
    lines.push(line);
    lines.join("\n")
}

/// Returns `text` with each of its lines wrapped like [`wrap`] does, all with the prefix `lead`.
pub fn wrap_lines(text: &str, columns_max: usize, lead: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| wrap(line, columns_max, lead, lead)).collect();
    lines.join("\n")
}

/// Returns an entry of one or more lines, each wrapped like [`wrap`] does: the first line with the prefix `first`, all others with
/// the prefix `next` and the indentation that they have in the text.
pub fn wrap_entry(text: &str, columns_max: usize, first: &str, next: &str) -> String {
    let mut lines = text.split('\n');
    let beginning = wrap(lines.next().unwrap_or_default(), columns_max, first, next);
    let following = lines.map(|line| {
        let indent = line.len() - line.trim_start().len();
        // A narrow screen has no room for deep indentation.
        let lead = format!("{next}{}", " ".repeat(indent.min(columns_max / 3)));
        if line.trim().is_empty() { String::new() } else { wrap(line, columns_max, &lead, &lead) }
    });
    std::iter::once(beginning).chain(following).collect::<Vec<_>>().join("\n")
}

/// Returns a word in pieces of at most `columns_max` columns.
/// Grapheme clusters stay whole, so that an emoji or an accented letter is not split.
fn split_word(word: &str, columns_max: usize) -> Vec<Cow<'_, str>> {
    // A word with escape sequences is not broken, because that would need a scanner that keeps the sequences whole.
    if width(word) <= columns_max || word.contains('\u{1b}') {
        return vec![Cow::Borrowed(word)];
    }
    let mut pieces = Vec::new();
    let (mut start, mut columns) = (0, 0);
    for (index, cluster) in word.grapheme_indices(true) {
        if columns + cluster.width() > columns_max && index > start {
            pieces.push(Cow::Borrowed(&word[start..index]));
            (start, columns) = (index, 0);
        }
        columns += cluster.width();
    }
    pieces.push(Cow::Borrowed(&word[start..]));
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases contain wide characters, an emoji of several code points, and escape sequences.
    #[test]
    fn widths_are_columns_and_not_characters() {
        assert_eq!(width("漢字"), 4);
        assert_eq!(width("\u{1b}[1mab\u{1b}[22mc"), 3);
        assert_eq!(shorten("漢字漢字", 5), "漢字…");
        assert_eq!(shorten("a👩‍👩‍👧b", 4), "a👩‍👩‍👧b");
        assert_eq!(shorten("abcdef", 4), "abc…");
        assert_eq!(shorten("abc  def", 6), "abc…");
        assert_eq!(shorten("abc", 0), "");
        assert_eq!(pad("漢", 4), "漢  ");
    }

    #[test]
    fn no_wrapped_line_exceeds_the_width() {
        assert_eq!(wrap_lines("one two\nthree four\n\nx", 9, "  "), "  one two\n  three\n  four\n  \n  x");
        assert_eq!(wrap("one two three", 8, "", ""), "one two\nthree");
        assert_eq!(wrap("one two three", 9, "- ", "  "), "- one two\n  three");
        assert_eq!(wrap("", 9, "- ", "  "), "- ");
        assert_eq!(
            wrap_entry("one two three\n\n    if a:\nend", 12, "- ", "  "),
            "- one two\n  three\n\n      if a:\n  end"
        );
        let text = "漢字".repeat(30) + " https://example.org/" + &"x".repeat(100) + " end";
        for line in wrap(&text, 30, "• ", "  ").lines() {
            assert!(width(line) <= 30, "{line}");
        }
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(
            (format_bytes(12), format_bytes(120_400), format_bytes(1_250_000)),
            ("12 B".into(), "120 kB".into(), "1.2 MB".into())
        );
    }
}
