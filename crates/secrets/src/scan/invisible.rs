//! Characters that display nothing. A secret with such characters between its own is a secret, because a reader of the
//! text, or a program that removes them, has the secret whole.

use std::ops::Range;

/// A text from which characters were removed, such as those that are invisible.
#[derive(Debug, Default)]
pub(crate) struct VisibleText {
    /// The characters that remain.
    pub(crate) text: String,
    /// For each place where something was removed: the offset in `text`, and the number of bytes removed up to there.
    removed: Vec<(usize, usize)>,
}

impl VisibleText {
    /// Returns the range of the original text for a range of the visible text. It begins and ends with a visible character.
    pub(crate) fn original_range(&self, range: Range<usize>) -> Range<usize> {
        let start = range.start + self.removed_up_to(|offset| offset <= range.start);
        let end = range.end + self.removed_up_to(|offset| offset < range.end);
        start..end
    }

    /// Returns whether something was removed between the first and the last character of a range of the visible text.
    pub(crate) fn is_interrupted(&self, range: Range<usize>) -> bool {
        let first = self.removed.partition_point(|(offset, _)| *offset <= range.start);
        self.removed.get(first).is_some_and(|(offset, _)| *offset < range.end)
    }

    /// Records that the next `length` bytes of the original text are removed.
    pub(crate) fn leave_out(&mut self, length: usize) {
        let before = self.removed.last().map_or(0, |(_, before)| *before);
        if length > 0 {
            self.removed.push((self.text.len(), before + length));
        }
    }

    /// Returns the number of bytes removed at the places with these offsets, which are the first ones.
    fn removed_up_to(&self, is_before: impl Fn(usize) -> bool) -> usize {
        let places = self.removed.partition_point(|(offset, _)| is_before(*offset));
        places.checked_sub(1).map_or(0, |last| self.removed[last].1)
    }
}

/// Returns the text without its invisible characters, or `None` if it has none.
pub(crate) fn remove_invisible(text: &str) -> Option<VisibleText> {
    // Almost every text is decided here, without decoding it.
    let is_plain = |byte: u8| matches!(byte, b' '..=b'[' | b']'..=b'~' | b'\n' | b'\r' | b'\t');
    let first = text.bytes().position(|byte| !is_plain(byte))?;
    let mut rest = &text[first..];
    let mut visible: Option<VisibleText> = None;
    while let Some(char) = rest.chars().next() {
        let length = invisible_length(rest);
        let position = text.len() - rest.len();
        match (length, &mut visible) {
            (0, None) => {}
            (0, Some(visible)) => visible.text.push(char),
            (removed, None) => {
                let removed = vec![(position, removed)];
                visible = Some(VisibleText { text: text[..position].to_owned(), removed });
            }
            (removed, Some(visible)) => visible.leave_out(removed),
        }
        rest = &rest[length.max(char.len_utf8())..];
    }
    visible
}

/// Returns the number of bytes of the invisible character, or of the escape sequence of a terminal, with which the text
/// begins; 0 if it begins with a visible one. A character may be escaped as in a string of JSON.
fn invisible_length(text: &str) -> usize {
    let Some((char, length)) = first_char(text) else { return 0 };
    if char == '\u{1b}' {
        let parameters = text[length..].strip_prefix('[').map(|rest| {
            let is_parameter = |char: char| ('\u{20}'..='\u{3f}').contains(&char);
            rest.find(|char| !is_parameter(char)).filter(|end| matches!(rest.as_bytes()[*end], b'@'..=b'~'))
        });
        return parameters.flatten().map_or(length, |end| length + end + 2);
    }
    if is_invisible(char) { length } else { 0 }
}

/// Returns the first character of the text, whose escape `\uXXXX` is decoded, and the number of bytes that it takes.
fn first_char(text: &str) -> Option<(char, usize)> {
    let escaped = text.strip_prefix("\\u").and_then(|rest| rest.get(..4)).and_then(|digits| {
        let code = u32::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?;
        Some((char::from_u32(code)?, 6))
    });
    escaped.or_else(|| text.chars().next().map(|char| (char, char.len_utf8())))
}

/// Returns whether a character displays nothing, or only changes how others are displayed.
fn is_invisible(char: char) -> bool {
    match char {
        '\n' | '\r' | '\t' => false,
        // Soft hyphens, joiners, fillers, separators of lines, marks and overrides of the writing direction, variation
        // selectors, annotations, tag characters, and the other characters of the Unicode category "format".
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}'
        | '\u{feff}' | '\u{ffa0}' => true,
        '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => true,
        '\u{600}'..='\u{605}'
        | '\u{6dd}'
        | '\u{70f}'
        | '\u{890}'
        | '\u{891}'
        | '\u{8e2}'
        | '\u{110bd}'
        | '\u{110cd}' => true,
        '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' => true,
        '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{fff0}'..='\u{fffb}' => true,
        '\u{e0000}'..='\u{e0fff}' => true,
        char => char.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_the_visible_text_are_those_of_the_original() {
        assert!(remove_invisible("plain text\r\n\tand ümläuts").is_none());
        for original in
            ["a\u{200b}bc", "\u{feff}ab\u{200d}\u{2060}c", "a\u{1b}[31mb\u{1b}[0mc\u{7f}", "abc\u{e0041}"]
        {
            let visible = remove_invisible(original).unwrap();
            assert_eq!(visible.text, "abc", "{original:?}");
            let whole = &original[visible.original_range(0..3)];
            assert!(whole.starts_with('a') && whole.ends_with('c'), "{original:?}: {whole:?}");
            assert_eq!(&original[visible.original_range(1..2)], "b", "{original:?}");
        }
        for original in ["a\\u001b[0mbc", "ab\\u200bc", "a\u{1d173}b\u{605}c", "a\u{2028}bc"] {
            assert_eq!(remove_invisible(original).unwrap().text, "abc", "{original:?}");
        }
        assert!(remove_invisible("a\\nb \\u00e4 \\u12 \\u+123 C:\\users").is_none());
        // An escape sequence without an end is one character.
        assert_eq!(remove_invisible("\u{1b}[12").unwrap().text, "[12");
        assert_eq!(remove_invisible("\u{1b}[é").unwrap().text, "[é");
        assert_eq!(remove_invisible("\u{1b}[1\nx").unwrap().text, "[1\nx");
        assert_eq!(remove_invisible("\u{1b}").unwrap().text, "");
    }
}
