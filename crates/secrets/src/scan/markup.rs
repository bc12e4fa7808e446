//! Words that marks of Markdown interrupt, as in `ghp_**aB3d**7jK9`. A token in such a word is a token, because a program that
//! renders the text shows it whole.

use std::iter;
use std::ops::Range;

use super::invisible::VisibleText;

/// Returns the words of `text` that marks interrupt, without these marks; `None` if there are none. The words end with the
/// white space behind them. The other words are left out, so that a second search reads only the interrupted ones.
pub(crate) fn join_interrupted_words(text: &str) -> Option<VisibleText> {
    let bytes = text.as_bytes();
    let mut joined: Option<VisibleText> = None;
    // The text before `position` is copied or left out. The word that is copied ends at `word_end`.
    let (mut position, mut word_end) = (0, 0);
    for mark in inner_marks(bytes) {
        let joined = joined.get_or_insert_default();
        if mark.start >= word_end {
            joined.text.push_str(&text[position..word_end]);
            let before = bytes[word_end..mark.start].iter().rev();
            let word_start = mark.start - before.take_while(|byte| !byte.is_ascii_whitespace()).count();
            joined.leave_out(word_start - word_end);
            position = word_start;
            let length = bytes[mark.end..].iter().position(u8::is_ascii_whitespace);
            word_end = length.map_or(bytes.len(), |length| mark.end + length + 1);
        }
        joined.text.push_str(&text[position..mark.start]);
        joined.leave_out(mark.len());
        position = mark.end;
    }
    let mut joined = joined?;
    joined.text.push_str(&text[position..word_end]);
    Some(joined)
}

/// Returns the marks inside words: asterisks, backticks, and underscores in pairs.
fn inner_marks(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut position = 0;
    iter::from_fn(move || {
        loop {
            let start = position + memchr::memchr3(b'*', b'_', b'`', bytes.get(position..)?)?;
            let length = bytes[start..].iter().take_while(|byte| **byte == bytes[start]).count();
            position = start + length;
            // A single underscore belongs to the token.
            let mark_length = if bytes[start] == b'_' { length - length % 2 } else { length };
            if mark_length > 0 && is_inside_word(bytes, start..position) {
                return Some(position - mark_length..position);
            }
        }
    })
}

/// The maximum number of marks between a mark and the characters of its word, in bytes.
const MARKS_MAX: usize = 8;

/// Returns whether characters of a token stand before and behind a mark, possibly with other marks between them.
fn is_inside_word(bytes: &[u8], mark: Range<usize>) -> bool {
    let is_token_byte = |byte: &&u8| byte.is_ascii_alphanumeric() || b"-.+/=".contains(byte);
    let is_no_mark = |byte: &&u8| !b"*_`".contains(byte);
    let before = bytes[..mark.start].iter().rev().take(MARKS_MAX).find(is_no_mark);
    let behind = bytes[mark.end..].iter().take(MARKS_MAX).find(is_no_mark);
    before.filter(is_token_byte).is_some() && behind.filter(is_token_byte).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupted_words_are_joined_and_the_others_left_out() {
        for (text, expected) in [
            ("a b**c**d e", "bcd "),
            ("x ghp_**a**b y c`d`e\nz", "ghp_ab cde\n"),
            ("a___b", "a_b"),
            ("a**`b`**c", "abc"),
            ("é**a*b é", "é**ab "),
        ] {
            let joined = join_interrupted_words(text).unwrap();
            assert_eq!(joined.text, expected, "{text:?}");
            for (offset, char) in joined.text.char_indices() {
                let range = joined.original_range(offset..offset + char.len_utf8());
                assert_eq!(&text[range], char.to_string(), "{text:?} at {offset}");
            }
        }
        for text in ["", "a_b", "**bold** text", "__init__(self)", "`a`, `b`", "a ** b", "* a\n* b", "a_"] {
            assert!(join_interrupted_words(text).is_none(), "{text:?}");
        }
    }
}
