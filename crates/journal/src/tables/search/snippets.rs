//! Snippets of search hits, with the matched words highlighted. Words are matched with the same tokenizer as in the
//! index.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;

use super::tokenizer::{WordToken, tokenize};

/// The characters before and after a highlighted word.
const HIGHLIGHT_MARKS: [char; 2] = ['\u{2}', '\u{3}'];
/// Number of words of a snippet.
const SNIPPET_WORDS: usize = 24;
/// Maximum number of characters of a snippet, because single words can be very long.
const SNIPPET_CHARS_MAX: usize = 400;
/// Number of characters kept before the first highlight when a snippet is shortened.
const SNIPPET_LEAD_CHARS: usize = 80;
/// Marks an omission.
const ELLIPSIS: char = '…';
/// Score of a snippet for each distinct word of the query.
const WORD_SCORE: u32 = 1_000;
/// Score for each repetition of a word.
const REPEATED_SCORE: u32 = 1;
/// Score for starting at the beginning of the text.
const TEXT_BEGIN_SCORE: u32 = 120;
/// Score for starting at the beginning of a sentence.
const SENTENCE_BEGIN_SCORE: u32 = 100;

/// The words of a query as phrases of consecutive terms, indexed by their first term.
pub(super) struct QueryPhrases(HashMap<String, Vec<QueryPhrase>>);

/// A word of a query as a sequence of terms.
struct QueryPhrase {
    /// The index of the word in the query.
    word_number: usize,
    /// The terms, which must be consecutive in a text.
    terms: Vec<String>,
}

/// An occurrence of a query word in a text.
struct PhraseMatch {
    /// The index of the word in the query.
    word_number: usize,
    /// The range of matching word tokens in the text.
    words: Range<usize>,
}

impl QueryPhrases {
    /// Returns the phrases of the words of a query.
    pub(super) fn from_words(words: &[String]) -> Self {
        let mut phrases: HashMap<String, Vec<QueryPhrase>> = HashMap::new();
        for (number, word) in words.iter().enumerate() {
            let terms: Vec<String> = tokenize(word).map(|word| word.term.into_owned()).collect();
            if let Some(first) = terms.first() {
                phrases.entry(first.clone()).or_default().push(QueryPhrase { word_number: number, terms });
            }
        }
        Self(phrases)
    }

    /// Returns the snippet of a text with the highest score, or the beginning of the text if it contains no word of
    /// the query.
    pub(super) fn snippet(&self, text: &str) -> String {
        let words: Vec<WordToken<'_>> = tokenize(text).collect();
        let matches = self.find_matches(&words);
        if matches.is_empty() {
            return shorten(&single_line(text));
        }
        let start = best_start(text, &words, &matches);
        shorten(&highlight(text, &words, &matches, start))
    }

    /// Returns the occurrences of query words in a text, in order.
    fn find_matches(&self, words: &[WordToken<'_>]) -> Vec<PhraseMatch> {
        let mut matches = Vec::new();
        for (index, word) in words.iter().enumerate() {
            for QueryPhrase { word_number: number, terms } in self.0.get(&*word.term).into_iter().flatten() {
                let end = index + terms.len();
                let candidates = words.get(index..end);
                if candidates.is_some_and(|candidates| candidates.iter().map(|word| &word.term).eq(terms)) {
                    matches.push(PhraseMatch { word_number: *number, words: index..end });
                }
            }
        }
        matches
    }
}

/// Returns the index of the word token at which the best snippet starts: either so that the matches are in its
/// middle, or at the beginning of a sentence.
fn best_start(text: &str, words: &[WordToken<'_>], matches: &[PhraseMatch]) -> usize {
    let mut best = (0, Reverse(0));
    let mut sentence = 0;
    let mut passed = 0;
    for (index, first_match) in matches.iter().enumerate() {
        let first = first_match.words.start;
        let within = matches_within(&matches[index..], first);
        let last = within.last().map_or(first, |last| last.words.end);
        let lead = SNIPPET_WORDS.saturating_sub(last - first) / 2;
        let start = first.saturating_sub(lead).min(words.len().saturating_sub(SNIPPET_WORDS));
        best = best.max((score_matches(within), Reverse(start)));
        for word in passed + 1..=first {
            if begins_sentence(text, words, word) {
                sentence = word;
            }
        }
        passed = passed.max(first);
        if words.len() > SNIPPET_WORDS && sentence < first {
            let first_in_sentence = matches.partition_point(|other| other.words.start < sentence);
            let bonus = if sentence == 0 { TEXT_BEGIN_SCORE } else { SENTENCE_BEGIN_SCORE };
            best = best.max((
                score_matches(self::matches_within(&matches[first_in_sentence..], sentence)) + bonus,
                Reverse(sentence),
            ));
        }
    }
    best.1.0
}

/// Returns the matches of a snippet that starts at the word token `start`. `matches` begins with the first match at
/// or after it.
fn matches_within(matches: &[PhraseMatch], start: usize) -> &[PhraseMatch] {
    &matches[..matches.partition_point(|occurrence| occurrence.words.start < start + SNIPPET_WORDS)]
}

/// Returns the score of a snippet with these matches.
fn score_matches(matches: &[PhraseMatch]) -> u32 {
    let mut seen = 0_u64;
    let mut score = 0;
    for PhraseMatch { word_number: number, .. } in matches {
        let bit = 1 << (number % 64);
        score += if seen & bit == 0 { WORD_SCORE } else { REPEATED_SCORE };
        seen |= bit;
    }
    score
}

/// Returns whether a word is the first of a sentence: it follows a period or colon and a space.
fn begins_sentence(text: &str, words: &[WordToken<'_>], word: usize) -> bool {
    let before = &text[..words[word].range.start];
    let trimmed = before.trim_end();
    trimmed.len() < before.len() && trimmed.ends_with(['.', ':'])
}

/// Returns the snippet that starts at a word token, with its matches highlighted.
fn highlight(text: &str, words: &[WordToken<'_>], matches: &[PhraseMatch], start: usize) -> String {
    let end = words.len().min(start + SNIPPET_WORDS);
    let mut passage = String::new();
    let mut copied_to = if start == 0 { 0 } else { words[start].range.start };
    if start > 0 {
        passage.push(ELLIPSIS);
    }
    let mut remaining =
        matches.iter().filter(|occurrence| (start..end).contains(&occurrence.words.start)).peekable();
    while let Some(PhraseMatch { words: first, .. }) = remaining.next() {
        let mut last = first.end;
        // Overlapping matches are highlighted as one.
        while let Some(next) = remaining.next_if(|next| next.words.start < last) {
            last = last.max(next.words.end);
        }
        let (from, to) = (words[first.start].range.start, words[last.min(end) - 1].range.end);
        passage.push_str(&single_line(&text[copied_to..from]));
        passage.push(HIGHLIGHT_MARKS[0]);
        passage.push_str(&single_line(&text[from..to]));
        passage.push(HIGHLIGHT_MARKS[1]);
        copied_to = to;
    }
    if end == words.len() {
        passage.push_str(&single_line(&text[copied_to..]));
    } else {
        passage.push_str(&single_line(&text[copied_to..words[end - 1].range.end]));
        passage.push(ELLIPSIS);
    }
    passage
}

/// Returns the text on one line. Control characters, which include the highlight marks, become spaces.
fn single_line(text: &str) -> String {
    let is_blank = |char: char| char.is_whitespace() || char.is_control();
    text.chars().map(|char| if is_blank(char) { ' ' } else { char }).collect()
}

/// Shortens a snippet to [`SNIPPET_CHARS_MAX`], keeping the first highlight.
fn shorten(passage: &str) -> String {
    let chars: Vec<char> = passage.chars().collect();
    if chars.len() <= SNIPPET_CHARS_MAX {
        return chars.into_iter().collect();
    }
    let first = chars.iter().position(|char| *char == HIGHLIGHT_MARKS[0]).unwrap_or(0);
    let start = first.saturating_sub(SNIPPET_LEAD_CHARS);
    let window = &chars[start..chars.len().min(start + SNIPPET_CHARS_MAX)];
    let mut text: String = window.iter().collect();
    let count = |mark| window.iter().filter(|char| **char == mark).count();
    if count(HIGHLIGHT_MARKS[0]) > count(HIGHLIGHT_MARKS[1]) {
        text.push(HIGHLIGHT_MARKS[1]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(query: &str, text: &str, expected: &str) {
        let words: Vec<String> = query.split(' ').map(str::to_owned).collect();
        let snippet = QueryPhrases::from_words(&words).snippet(text);
        assert_eq!(
            snippet.replace(HIGHLIGHT_MARKS[0], "[").replace(HIGHLIGHT_MARKS[1], "]"),
            expected,
            "{query} in {text}"
        );
    }

    fn numbered_words(from: usize, to: usize) -> String {
        (from..=to).map(|number| format!("w{number}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn matched_words_are_highlighted() {
        check("herons", "Two herons,\nno heron\u{2}.", "Two [herons], no [heron] .");
        check("src/a.rs", "see src/a.rs:42", "see [src/a.rs]:42");
        check("日本 本語", "、日本語だ。", "、[日本語]だ。");
        check("absent", "a\nb", "a b");
        check("...", "a", "a");
    }

    #[test]
    fn matches_are_in_the_middle_of_a_snippet() {
        let text = format!("{} heron {}", numbered_words(1, 40), numbered_words(41, 80));
        check("heron", &text, &format!("…{} [heron] {}…", numbered_words(30, 40), numbered_words(41, 52)));
        let text = format!("{} heron", numbered_words(1, 40));
        check("heron", &text, &format!("…{} [heron]", numbered_words(18, 40)));
    }

    #[test]
    fn a_snippet_starts_at_a_sentence_if_it_contains_the_same_matches() {
        let text = format!(
            "{}. See {} heron {}",
            numbered_words(1, 30),
            numbered_words(31, 35),
            numbered_words(36, 80)
        );
        check(
            "heron",
            &text,
            &format!("…See {} [heron] {}…", numbered_words(31, 35), numbered_words(36, 52)),
        );
    }

    #[test]
    fn a_snippet_contains_as_many_query_words_as_possible() {
        let text = format!(
            "heron heron heron {} egret {} heron {}",
            numbered_words(1, 60),
            numbered_words(61, 70),
            numbered_words(71, 99)
        );
        let expected = format!(
            "…{} [egret] {} [heron] {}…",
            numbered_words(55, 60),
            numbered_words(61, 70),
            numbered_words(71, 76)
        );
        check("heron egret", &text, &expected);
    }
}
