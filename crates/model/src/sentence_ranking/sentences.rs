//! Splitting of text into sentences: prose by the Unicode rules, Markdown by its lines, fenced code not at all.
//! Sentences are neither rated nor changed.

use unicode_segmentation::UnicodeSegmentation;

/// Abbreviations whose final period does not end a sentence. Unicode's rule already handles `e.g.` before a
/// lowercase word.
const ABBREVIATIONS: [&str; 28] = [
    "e.g", "i.e", "cf", "vs", "dr", "mr", "mrs", "ms", "prof", "st", "no", "nr", "fig", "eq", "sec", "ch",
    "vol", "approx", "incl", "dept", "est", "inc", "ltd", "resp", "bzw", "z.b", "d.h", "u.a",
];

/// Returns the sentences of `text` in order. They are trimmed, and none is empty.
///
/// A fenced code block is one sentence. Headings, lines of list items and table rows are never joined with other
/// lines. A line break inside a paragraph does not end a sentence.
pub fn split_sentences(text: &str) -> impl Iterator<Item = &str> {
    SentenceBlocks { remaining: text }.flat_map(|block| match block {
        SentenceBlock::Whole(text) => BlockSentences { remaining: text, is_whole: true },
        SentenceBlock::Prose(text) => BlockSentences { remaining: text, is_whole: false },
    })
}

/// A part of the text that is split on its own.
enum SentenceBlock<'a> {
    /// A part that is one sentence.
    Whole(&'a str),
    /// Prose to be split by the sentence rules.
    Prose(&'a str),
}

/// An iterator over the blocks of a text.
struct SentenceBlocks<'a> {
    /// The text that is not split yet.
    remaining: &'a str,
}

impl<'a> SentenceBlocks<'a> {
    /// Removes and returns the first `length` bytes of the remaining text.
    fn take_block(&mut self, length: usize) -> &'a str {
        let (block, remaining) = self.remaining.split_at(length);
        self.remaining = remaining;
        block
    }
}

impl<'a> Iterator for SentenceBlocks<'a> {
    type Item = SentenceBlock<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.remaining.split_inclusive('\n').next()?;
        if let Some(fence) = opening_fence(first) {
            let length = fenced_block_length(self.remaining, fence);
            return Some(SentenceBlock::Whole(self.take_block(length)));
        }
        let mut length = first.len();
        for line in self.remaining[length..].split_inclusive('\n') {
            if line.trim().is_empty()
                || opening_fence(line).is_some()
                || is_item_start(line)
                || is_heading(first)
            {
                break;
            }
            length += line.len();
        }
        Some(SentenceBlock::Prose(self.take_block(length)))
    }
}

/// Returns the fence that the line opens, if it opens one.
fn opening_fence(line: &str) -> Option<&'static str> {
    let line = line.trim_start();
    ["```", "~~~"].into_iter().find(|fence| line.starts_with(fence))
}

/// Returns the length of the fenced block at the start of `text`. An unclosed block extends to the end of the
/// text.
fn fenced_block_length(text: &str, fence: &str) -> usize {
    let mut length = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        length += line.len();
        if index > 0 && line.trim_start().starts_with(fence) {
            break;
        }
    }
    length
}

/// Returns whether the line is a heading.
fn is_heading(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

/// Returns whether the line starts an item of its own: a list item, a heading, a quote or a table row.
fn is_item_start(line: &str) -> bool {
    let line = line.trim_start();
    let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let numbered = digits > 0 && [". ", ") "].iter().any(|end| line[digits..].starts_with(end));
    numbered || ["- ", "* ", "+ ", "• ", "#", ">", "|"].iter().any(|mark| line.starts_with(mark))
}

/// An iterator over the sentences of one block.
struct BlockSentences<'a> {
    /// The text that is not split yet.
    remaining: &'a str,
    /// True if the block is a single sentence.
    is_whole: bool,
}

impl<'a> Iterator for BlockSentences<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.remaining.is_empty() {
                return None;
            }
            let length = if self.is_whole { self.remaining.len() } else { sentence_length(self.remaining) };
            let (sentence, remaining) = self.remaining.split_at(length);
            self.remaining = remaining;
            let sentence = sentence.trim();
            if !sentence.is_empty() {
                return Some(sentence);
            }
        }
    }
}

/// Returns the length in bytes of the first sentence of a non-empty paragraph.
fn sentence_length(paragraph: &str) -> usize {
    let mut length = 0;
    for piece in paragraph.split_sentence_bounds() {
        length += piece.len();
        // Without a space after it, the sign is part of code or of a name: "a != b", "main…fix".
        let after = paragraph[length..].trim_start_matches(CLOSING_SIGNS);
        let is_separated = after.is_empty()
            || after.starts_with(char::is_whitespace)
            || piece.ends_with(char::is_whitespace)
            || piece.ends_with(|c: char| !c.is_ascii() && c != '…');
        if is_separated && is_sentence_end(piece) {
            break;
        }
    }
    length
}

/// The signs that may stand between the end of a sentence and the space after it.
const CLOSING_SIGNS: [char; 10] = ['"', '\'', ')', ']', '”', '’', '»', '*', '_', '`'];

/// Returns whether a sentence really ends with this piece. Unicode's rule also ends one at each line break and at
/// the period of most abbreviations.
fn is_sentence_end(piece: &str) -> bool {
    let piece = piece.trim_end().trim_end_matches(CLOSING_SIGNS);
    match piece.chars().next_back() {
        Some('.') => !is_abbreviation_end(piece),
        Some('!' | '?' | '…' | '。' | '！' | '？' | '｡' | '।' | '؟' | ':') => true,
        Some(_) | None => false,
    }
}

/// Returns whether the period at the end of the piece belongs to an abbreviation, an initial or the number of a
/// list item.
fn is_abbreviation_end(piece: &str) -> bool {
    let word = piece.rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or_default();
    let word = word.trim_end_matches('.');
    let is_initial = word.chars().count() == 1 && word.chars().all(char::is_uppercase);
    let numbers_an_item = piece.trim_end_matches('.').chars().all(|c| c.is_ascii_digit());
    is_initial || numbers_an_item || ABBREVIATIONS.iter().any(|known| known.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::split_sentences;

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(split_sentences(text).collect::<Vec<_>>(), expected, "{text:?}");
    }

    #[test]
    fn prose_is_split_at_sentence_ends() {
        check("", &[]);
        check(" \n\t\n", &[]);
        check("One. Two! Three? Four", &["One.", "Two!", "Three?", "Four"]);
        check("It broke (badly). Then it worked.", &["It broke (badly).", "Then it worked."]);
        check("Use e.g. Tokio or vs. Async. Done.", &["Use e.g. Tokio or vs. Async.", "Done."]);
        check("Ask Dr. Smith or J. Doe. Done.", &["Ask Dr. Smith or J. Doe.", "Done."]);
        check("Edit src/lib.rs at v1.2.3 now. Done.", &["Edit src/lib.rs at v1.2.3 now.", "Done."]);
        check("He said “stop.” Then left.", &["He said “stop.”", "Then left."]);
        check("Wait... what? Yes.", &["Wait... what?", "Yes."]);
        check("Check a != b and main…fix... now. Done.", &["Check a != b and main…fix... now.", "Done."]);
    }

    #[test]
    fn a_wrapped_line_is_not_an_end_and_a_blank_line_is() {
        check("A line\nthat goes on. Next.", &["A line\nthat goes on.", "Next."]);
        check("First\r\n\r\nSecond", &["First", "Second"]);
    }

    #[test]
    fn markdown_lines_are_separate_sentences() {
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
