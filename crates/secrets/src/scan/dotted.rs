//! Texts of three parts with dots between them, as the tokens of Discord bots are. They have no word by which the automaton
//! could find them.

use std::ops::Range;

/// The length of the second part, in bytes.
pub const DOTTED_PART_BYTES: usize = 6;
/// The maximum length of the first part, in bytes.
const FIRST_PART_BYTES_MAX: usize = 28;

/// Returns the first part of each text of three parts. Each dot of the text costs a bounded time.
pub fn first_parts(text: &str) -> impl Iterator<Item = Range<usize>> {
    let bytes = text.as_bytes();
    memchr::memchr_iter(b'.', bytes).filter_map(move |dot| {
        let second = bytes.get(dot + 1..dot + 1 + DOTTED_PART_BYTES)?;
        if bytes.get(dot + 1 + DOTTED_PART_BYTES) != Some(&b'.') || second.contains(&b'.') {
            return None;
        }
        let before = bytes[..dot].iter().rev().take(FIRST_PART_BYTES_MAX + 1);
        let length = before.take_while(|byte| byte.is_ascii_alphanumeric()).count();
        (1..=FIRST_PART_BYTES_MAX).contains(&length).then(|| dot - length..dot)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_three_parts_is_found() {
        for (text, expected) in [
            ("a.123456.b", &[(0, 1)][..]),
            ("x-ab.123456.b", &[(2, 4)]),
            ("a.123456.b.123456.", &[(0, 1), (9, 10)]),
            ("a.12345.b", &[]),
            ("a.1.3456.b", &[]),
            ("a.123456", &[]),
            (".123456.", &[]),
        ] {
            let found: Vec<_> = first_parts(text).map(|part| (part.start, part.end)).collect();
            assert_eq!(found, expected, "{text:?}");
        }
    }
}
