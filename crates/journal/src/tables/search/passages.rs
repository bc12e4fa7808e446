//! Passages of what was found, with the words marked. Words are recognised by the rules by which they were found; where the
//! texts come from is not known here.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;

use super::words::{Word, words_of};

/// Begin and end of a word found.
const MARKS: [char; 2] = ['\u{2}', '\u{3}'];
const PASSAGE_WORDS: usize = 24;
/// Characters of a passage; words can be very long.
const PASSAGE_CHARS_MAX: usize = 400;
/// Characters kept before the first word found, when a passage is cut.
const PASSAGE_LEAD_CHARS: usize = 80;
/// Stands where something was cut.
const CUT: char = '…';
/// What a passage scores for a word of the query, and for each time that it says the word again.
const WORD_SCORE: u32 = 1_000;
const REPEATED_SCORE: u32 = 1;
/// What it scores for the beginning of the text, and of another sentence.
const TEXT_BEGIN_SCORE: u32 = 120;
const SENTENCE_BEGIN_SCORE: u32 = 100;

/// The words of a query, each as the terms that must follow each other, by the first of these.
pub(super) struct QueryPhrases(HashMap<String, Vec<QueryPhrase>>);

struct QueryPhrase {
    /// The number of the word in the query.
    number: usize,
    terms: Vec<String>,
}

/// A place where a word of the query stands.
struct PhraseMatch {
    /// The number of the word in the query.
    number: usize,
    /// The words of the text that it is.
    words: Range<usize>,
}

impl QueryPhrases {
    /// Returns the phrases of a query's words.
    pub(super) fn of(words: &[String]) -> Self {
        let mut phrases: HashMap<String, Vec<QueryPhrase>> = HashMap::new();
        for (number, word) in words.iter().enumerate() {
            let terms: Vec<String> = words_of(word).map(|word| word.term.into_owned()).collect();
            if let Some(first) = terms.first() {
                phrases.entry(first.clone()).or_default().push(QueryPhrase { number, terms });
            }
        }
        Self(phrases)
    }

    /// Returns the passage of a text that holds most of the words; its beginning when it holds none.
    pub(super) fn passage(&self, text: &str) -> String {
        let words: Vec<Word<'_>> = words_of(text).collect();
        let matches = self.matches(&words);
        if matches.is_empty() {
            return shortened(&plain(text));
        }
        let start = best_start(text, &words, &matches);
        shortened(&marked(text, &words, &matches, start))
    }

    /// Returns where words of the query stand, in order.
    fn matches(&self, words: &[Word<'_>]) -> Vec<PhraseMatch> {
        let mut matches = Vec::new();
        for (at, word) in words.iter().enumerate() {
            for QueryPhrase { number, terms } in self.0.get(&*word.term).into_iter().flatten() {
                let end = at + terms.len();
                let found = words.get(at..end);
                if found.is_some_and(|found| found.iter().map(|word| &word.term).eq(terms)) {
                    matches.push(PhraseMatch { number: *number, words: at..end });
                }
            }
        }
        matches
    }
}

/// Returns the number of the word that the best passage begins with: one that has the words found in its middle, or that begins
/// with a sentence.
fn best_start(text: &str, words: &[Word<'_>], matches: &[PhraseMatch]) -> usize {
    let mut best = (0, Reverse(0));
    let mut sentence = 0;
    let mut passed = 0;
    for (number, found) in matches.iter().enumerate() {
        let first = found.words.start;
        let within = within(&matches[number..], first);
        let last = within.last().map_or(first, |last| last.words.end);
        let lead = PASSAGE_WORDS.saturating_sub(last - first) / 2;
        let start = first.saturating_sub(lead).min(words.len().saturating_sub(PASSAGE_WORDS));
        best = best.max((score(within), Reverse(start)));
        for word in passed + 1..=first {
            if begins_sentence(text, words, word) {
                sentence = word;
            }
        }
        passed = passed.max(first);
        if words.len() > PASSAGE_WORDS && sentence < first {
            let from = matches.partition_point(|one| one.words.start < sentence);
            let bonus = if sentence == 0 { TEXT_BEGIN_SCORE } else { SENTENCE_BEGIN_SCORE };
            best = best.max((score(self::within(&matches[from..], sentence)) + bonus, Reverse(sentence)));
        }
    }
    best.1.0
}

/// Returns the matches that a passage holds which begins with that word, of those that begin there or later.
fn within(matches: &[PhraseMatch], start: usize) -> &[PhraseMatch] {
    &matches[..matches.partition_point(|one| one.words.start < start + PASSAGE_WORDS)]
}

fn score(matches: &[PhraseMatch]) -> u32 {
    let mut seen = 0_u64;
    let mut score = 0;
    for PhraseMatch { number, .. } in matches {
        let bit = 1 << (number % 64);
        score += if seen & bit == 0 { WORD_SCORE } else { REPEATED_SCORE };
        seen |= bit;
    }
    score
}

/// Returns whether a sentence begins with a word: behind a period or a colon and a space.
fn begins_sentence(text: &str, words: &[Word<'_>], word: usize) -> bool {
    let before = &text[..words[word].range.start];
    let trimmed = before.trim_end();
    trimmed.len() < before.len() && trimmed.ends_with(['.', ':'])
}

/// Returns the passage that begins with a word, with what was found in it marked.
fn marked(text: &str, words: &[Word<'_>], matches: &[PhraseMatch], start: usize) -> String {
    let end = words.len().min(start + PASSAGE_WORDS);
    let mut passage = String::new();
    let mut at = if start == 0 { 0 } else { words[start].range.start };
    if start > 0 {
        passage.push(CUT);
    }
    let mut found = matches.iter().filter(|one| (start..end).contains(&one.words.start)).peekable();
    while let Some(PhraseMatch { words: first, .. }) = found.next() {
        let mut last = first.end;
        // What overlaps is marked as one.
        while let Some(next) = found.next_if(|next| next.words.start < last) {
            last = last.max(next.words.end);
        }
        let (from, to) = (words[first.start].range.start, words[last.min(end) - 1].range.end);
        passage.push_str(&plain(&text[at..from]));
        passage.push(MARKS[0]);
        passage.push_str(&plain(&text[from..to]));
        passage.push(MARKS[1]);
        at = to;
    }
    if end == words.len() {
        passage.push_str(&plain(&text[at..]));
    } else {
        passage.push_str(&plain(&text[at..words[end - 1].range.end]));
        passage.push(CUT);
    }
    passage
}

/// Returns the text on one line and without the characters that mark what was found.
fn plain(text: &str) -> String {
    let is_blank = |char: char| char.is_whitespace() || char.is_control();
    text.chars().map(|char| if is_blank(char) { ' ' } else { char }).collect()
}

/// Returns the passage cut around the first word found.
fn shortened(passage: &str) -> String {
    let chars: Vec<char> = passage.chars().collect();
    if chars.len() <= PASSAGE_CHARS_MAX {
        return chars.into_iter().collect();
    }
    let first = chars.iter().position(|char| *char == MARKS[0]).unwrap_or(0);
    let start = first.saturating_sub(PASSAGE_LEAD_CHARS);
    let window = &chars[start..chars.len().min(start + PASSAGE_CHARS_MAX)];
    let mut text: String = window.iter().collect();
    let count = |mark| window.iter().filter(|char| **char == mark).count();
    if count(MARKS[0]) > count(MARKS[1]) {
        text.push(MARKS[1]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(query: &str, text: &str, expected: &str) {
        let words: Vec<String> = query.split(' ').map(str::to_owned).collect();
        let found = QueryPhrases::of(&words).passage(text);
        assert_eq!(found.replace(MARKS[0], "[").replace(MARKS[1], "]"), expected, "{query} in {text}");
    }

    fn counted(from: usize, to: usize) -> String {
        (from..=to).map(|number| format!("w{number}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn words_are_marked_where_they_stand() {
        check("herons", "Two herons,\nno heron\u{2}.", "Two [herons], no [heron] .");
        check("src/a.rs", "see src/a.rs:42", "see [src/a.rs]:42");
        check("日本 本語", "、日本語だ。", "、[日本語]だ。");
        check("absent", "a\nb", "a b");
        check("...", "a", "a");
    }

    #[test]
    fn a_passage_has_the_words_in_its_middle() {
        let text = format!("{} heron {}", counted(1, 40), counted(41, 80));
        check("heron", &text, &format!("…{} [heron] {}…", counted(30, 40), counted(41, 52)));
        let text = format!("{} heron", counted(1, 40));
        check("heron", &text, &format!("…{} [heron]", counted(18, 40)));
    }

    #[test]
    fn a_passage_begins_with_a_sentence_where_it_holds_as_much() {
        let text = format!("{}. See {} heron {}", counted(1, 30), counted(31, 35), counted(36, 80));
        check("heron", &text, &format!("…See {} [heron] {}…", counted(31, 35), counted(36, 52)));
    }

    #[test]
    fn a_passage_holds_as_many_words_of_the_query_as_one_can() {
        let text = format!(
            "heron heron heron {} egret {} heron {}",
            counted(1, 60),
            counted(61, 70),
            counted(71, 99)
        );
        let expected =
            format!("…{} [egret] {} [heron] {}…", counted(55, 60), counted(61, 70), counted(71, 76));
        check("heron egret", &text, &expected);
    }
}
