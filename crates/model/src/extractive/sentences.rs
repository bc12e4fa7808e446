//! Splits text into sentences: prose by the Unicode rules, Markdown by its lines, fenced code not at all. It neither
//! judges nor changes a sentence.

use unicode_segmentation::UnicodeSegmentation;

/// Words whose final period does not end a sentence. Unicode's own rule already keeps `e.g. lowercase` together.
const ABBREVIATIONS: [&str; 28] = [
    "e.g", "i.e", "cf", "vs", "dr", "mr", "mrs", "ms", "prof", "st", "no", "nr", "fig", "eq", "sec", "ch",
    "vol", "approx", "incl", "dept", "est", "inc", "ltd", "resp", "bzw", "z.b", "d.h", "u.a",
];

/// Returns the sentences of `text` in order, trimmed, none of them empty.
///
/// A fenced code block is one sentence, and so is a heading, a list item's line or a table row; a line break inside
/// a paragraph is not an end.
pub fn sentences(text: &str) -> impl Iterator<Item = &str> {
    Blocks { rest: text }.flat_map(|block| match block {
        Block::Whole(text) => Sentences { rest: text, whole: true },
        Block::Prose(text) => Sentences { rest: text, whole: false },
    })
}

/// A stretch of text that ends where a sentence must end.
enum Block<'a> {
    /// Not to be split.
    Whole(&'a str),
    /// To be split by sentence rules.
    Prose(&'a str),
}

/// Iterates over the blocks of a text.
struct Blocks<'a> {
    rest: &'a str,
}

impl<'a> Blocks<'a> {
    fn take(&mut self, length: usize) -> &'a str {
        let (block, rest) = self.rest.split_at(length);
        self.rest = rest;
        block
    }
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Block<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.rest.split_inclusive('\n').next()?;
        if let Some(fence) = fence(first) {
            let length = fenced_length(self.rest, fence);
            return Some(Block::Whole(self.take(length)));
        }
        let mut length = first.len();
        for line in self.rest[length..].split_inclusive('\n') {
            if line.trim().is_empty() || fence(line).is_some() || begins_item(line) || is_heading(first) {
                break;
            }
            length += line.len();
        }
        Some(Block::Prose(self.take(length)))
    }
}

/// Returns the fence a line opens.
fn fence(line: &str) -> Option<&'static str> {
    let line = line.trim_start();
    ["```", "~~~"].into_iter().find(|fence| line.starts_with(fence))
}

/// Returns the length of the fenced block at the start of `text`; an unclosed one reaches to the end.
fn fenced_length(text: &str, fence: &str) -> usize {
    let mut length = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        length += line.len();
        if index > 0 && line.trim_start().starts_with(fence) {
            break;
        }
    }
    length
}

fn is_heading(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

/// Returns whether a line begins something of its own: a list item, a heading, a quote or a table row.
fn begins_item(line: &str) -> bool {
    let line = line.trim_start();
    let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let numbered = digits > 0 && [". ", ") "].iter().any(|end| line[digits..].starts_with(end));
    numbered || ["- ", "* ", "+ ", "• ", "#", ">", "|"].iter().any(|mark| line.starts_with(mark))
}

/// Iterates over the sentences of one block.
struct Sentences<'a> {
    rest: &'a str,
    whole: bool,
}

impl<'a> Iterator for Sentences<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.rest.is_empty() {
                return None;
            }
            let length = if self.whole { self.rest.len() } else { sentence_length(self.rest) };
            let (sentence, rest) = self.rest.split_at(length);
            self.rest = rest;
            let sentence = sentence.trim();
            if !sentence.is_empty() {
                return Some(sentence);
            }
        }
    }
}

/// Returns the length of the first sentence of a paragraph that is not empty.
fn sentence_length(paragraph: &str) -> usize {
    let mut length = 0;
    for piece in paragraph.split_sentence_bounds() {
        length += piece.len();
        if ends_sentence(piece) {
            break;
        }
    }
    length
}

/// Returns whether a sentence really ends with this piece. Unicode's rule also ends one at every line break and at
/// the period of most abbreviations.
fn ends_sentence(piece: &str) -> bool {
    let piece = piece.trim_end().trim_end_matches(['"', '\'', ')', ']', '”', '’', '»', '*', '_', '`']);
    match piece.chars().next_back() {
        Some('.') => !ends_in_abbreviation(piece),
        Some('!' | '?' | '…' | '。' | '！' | '？' | '｡' | '।' | '؟' | ':') => true,
        Some(_) | None => false,
    }
}

fn ends_in_abbreviation(piece: &str) -> bool {
    let word = piece.rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or_default();
    let word = word.trim_end_matches('.');
    let is_initial = word.chars().count() == 1 && word.chars().all(char::is_uppercase);
    let numbers_an_item = piece.trim_end_matches('.').chars().all(|c| c.is_ascii_digit());
    is_initial || numbers_an_item || ABBREVIATIONS.iter().any(|known| known.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::sentences;

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(sentences(text).collect::<Vec<_>>(), expected, "{text:?}");
    }

    #[test]
    fn prose_ends_where_a_reader_would_stop() {
        check("", &[]);
        check(" \n\t\n", &[]);
        check("One. Two! Three? Four", &["One.", "Two!", "Three?", "Four"]);
        check("It broke (badly). Then it worked.", &["It broke (badly).", "Then it worked."]);
        check("Use e.g. Tokio or vs. Async. Done.", &["Use e.g. Tokio or vs. Async.", "Done."]);
        check("Ask Dr. Smith or J. Doe. Done.", &["Ask Dr. Smith or J. Doe.", "Done."]);
        check("Edit src/lib.rs at v1.2.3 now. Done.", &["Edit src/lib.rs at v1.2.3 now.", "Done."]);
        check("He said “stop.” Then left.", &["He said “stop.”", "Then left."]);
        check("Wait... what? Yes.", &["Wait... what?", "Yes."]);
    }

    #[test]
    fn a_wrapped_line_is_not_an_end_and_a_blank_line_is() {
        check("A line\nthat goes on. Next.", &["A line\nthat goes on.", "Next."]);
        check("First\r\n\r\nSecond", &["First", "Second"]);
    }

    #[test]
    fn markdown_lines_stand_alone() {
        check("# Title\nText here.", &["# Title", "Text here."]);
        check("Do:\n- one\n- two. And more.\n1. three", &["Do:", "- one", "- two.", "And more.", "1. three"]);
        check("| a | b |\n| c | d |", &["| a | b |", "| c | d |"]);
    }

    #[test]
    fn code_is_never_split() {
        check("Run:\n```sh\na. B. C.\n\nx\n```\nDone.", &["Run:", "```sh\na. B. C.\n\nx\n```", "Done."]);
        check("~~~\nopen. End. ", &["~~~\nopen. End."]);
    }

    #[test]
    fn scripts_without_spaces_are_split_too() {
        check("今天修复了错误。测试通过了！下一步？", &["今天修复了错误。", "测试通过了！", "下一步？"]);
    }
}
