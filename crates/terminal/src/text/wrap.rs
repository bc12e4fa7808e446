//! Widths: measuring, shortening and wrapping text by the columns it takes on a terminal. Text must be safe already;
//! the only escape sequences it may hold are those of `style`.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Returns the columns `text` takes; emphasis takes none.
pub fn width(text: &str) -> usize {
    let mut columns = 0;
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        columns += rest[..at].width();
        let sequence = &rest[at..];
        rest = sequence.find('m').map_or("", |end| &sequence[end + 1..]);
    }
    columns + rest.width()
}

/// Returns `text` in at most `columns_max` columns; what is cut off is shown by `…`. For text without emphasis.
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
    let kept = out.trim_end().len();
    out.truncate(kept);
    if columns_max > 0 {
        out.push('…');
    }
    Cow::Owned(out)
}

/// Returns `text` followed by blanks up to `columns`.
pub fn pad(text: &str, columns: usize) -> String {
    let blanks = columns.saturating_sub(width(text));
    format!("{text}{}", " ".repeat(blanks))
}

/// Returns a size in a few characters.
pub fn format_bytes(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}

/// Returns `text` as lines of at most `columns_max` columns, the first led by `first` and the others by `next`.
///
/// Lines break at blanks; a word that is wider than a line breaks within.
pub fn wrap(text: &str, columns_max: usize, first: &str, next: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut line = first.to_owned();
    let mut columns = width(first);
    let mut is_empty = true;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        for (at, piece) in
            split_word(word, columns_max.saturating_sub(width(next)).max(8)).into_iter().enumerate()
        {
            let wide = width(&piece);
            let blank = usize::from(!is_empty && at == 0);
            if !is_empty && columns + blank + wide > columns_max {
                lines.push(std::mem::replace(&mut line, next.to_owned()));
                columns = width(next);
            } else if blank == 1 {
                line.push(' ');
                columns += 1;
            }
            line.push_str(&piece);
            columns += wide;
            is_empty = false;
        }
    }
    lines.push(line);
    lines.join("\n")
}

/// Returns each line of `text` as [`wrap`] does, all led by `lead`.
pub fn wrap_lines(text: &str, columns_max: usize, lead: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| wrap(line, columns_max, lead, lead)).collect();
    lines.join("\n")
}

/// Returns a word as it is, or in pieces of at most `columns_max` columns.
fn split_word(word: &str, columns_max: usize) -> Vec<Cow<'_, str>> {
    // Emphasis within a word that must be broken would need its own scanner; such a word stays whole.
    if width(word) <= columns_max || word.contains('\u{1b}') {
        return vec![Cow::Borrowed(word)];
    }
    let mut pieces = Vec::new();
    let (mut start, mut columns) = (0, 0);
    for (at, cluster) in word.grapheme_indices(true) {
        if columns + cluster.width() > columns_max && at > start {
            pieces.push(Cow::Borrowed(&word[start..at]));
            (start, columns) = (at, 0);
        }
        columns += cluster.width();
    }
    pieces.push(Cow::Borrowed(&word[start..]));
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_columns_not_characters() {
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
    fn no_line_is_wider_than_it_may_be() {
        assert_eq!(wrap_lines("one two\nthree four\n\nx", 9, "  "), "  one two\n  three\n  four\n  \n  x");
        assert_eq!(wrap("one two three", 8, "", ""), "one two\nthree");
        assert_eq!(wrap("one two three", 9, "- ", "  "), "- one two\n  three");
        assert_eq!(wrap("", 9, "- ", "  "), "- ");
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
