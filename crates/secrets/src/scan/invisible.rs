//! Characters that display nothing. A secret with such characters between its own is a secret, because a reader of the
//! text, or a program that removes them, has the secret whole.

use std::ops::Range;

/// A text without its invisible characters.
pub(crate) struct VisibleText {
    /// The visible characters.
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

    /// Returns the number of bytes removed at the places with these offsets, which are the first ones.
    fn removed_up_to(&self, is_before: impl Fn(usize) -> bool) -> usize {
        let places = self.removed.partition_point(|(offset, _)| is_before(*offset));
        places.checked_sub(1).map_or(0, |last| self.removed[last].1)
    }
}

/// Returns the text without its invisible characters, or `None` if it has none.
pub(crate) fn remove_invisible(text: &str) -> Option<VisibleText> {
    // Almost every text is decided here, without decoding it.
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t');
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
            (removed, Some(visible)) => {
                let before = visible.removed.last().map_or(0, |(_, before)| *before);
                visible.removed.push((visible.text.len(), before + removed));
            }
        }
        rest = &rest[length.max(char.len_utf8())..];
    }
    visible
}

/// Returns the number of bytes of the invisible character, or of the escape sequence of a terminal, with which the text
/// begins; 0 if it begins with a visible one.
fn invisible_length(text: &str) -> usize {
    let Some(char) = text.chars().next() else { return 0 };
    if char == '\u{1b}' {
        let parameters = text[1..].strip_prefix('[').map(|rest| {
            let is_parameter = |char: char| ('\u{20}'..='\u{3f}').contains(&char);
            rest.find(|char| !is_parameter(char)).filter(|end| matches!(rest.as_bytes()[*end], b'@'..=b'~'))
        });
        return parameters.flatten().map_or(1, |end| end + 3);
    }
    if is_invisible(char) { char.len_utf8() } else { 0 }
}

/// Returns whether a character displays nothing, or only changes how others are displayed.
fn is_invisible(char: char) -> bool {
    match char {
        '\n' | '\r' | '\t' => false,
        // Soft hyphens, joiners, fillers, marks and overrides of the writing direction, variation selectors, annotations
        // and tag characters.
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}'
        | '\u{feff}' | '\u{ffa0}' => true,
        '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' => true,
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
        // An escape sequence without an end is one character.
        assert_eq!(remove_invisible("\u{1b}[12").unwrap().text, "[12");
        assert_eq!(remove_invisible("\u{1b}[é").unwrap().text, "[é");
        assert_eq!(remove_invisible("\u{1b}[1\nx").unwrap().text, "[1\nx");
        assert_eq!(remove_invisible("\u{1b}").unwrap().text, "");
    }
}
