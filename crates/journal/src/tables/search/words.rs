//! The tokeniser: the words of a text, as the search index of either engine holds them. A word is a run of letters and digits,
//! in lower case, without the diacritics of Latin letters, and stemmed by the rules of English. Scripts that put no spaces
//! between words have one word a character, so that a search for several characters is a search for a phrase: a trigram index
//! would find nothing for the two characters that most such words have.
//!
//! Unicode's own word boundaries (UAX 29) are not used, because they keep `main.rs`, `o'clock` and `snake_case` whole, and a
//! person looks for `main`.

pub(super) mod vector;

use std::borrow::Cow;
use std::ops::Range;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{decompose_canonical, is_combining_mark};

/// The lengths of words, in bytes, that are stemmed: shorter ones have no ending, longer ones are no words of a language.
const STEMMED_BYTES: Range<usize> = 3..65;

/// A word of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word<'a> {
    /// What all its forms have in common; letters and digits only.
    pub(super) term: Cow<'a, str>,
    /// Where it stands, in bytes.
    pub(super) range: Range<usize>,
}

/// Returns the words of a text in their order.
pub(super) fn words_of(text: &str) -> impl Iterator<Item = Word<'_>> {
    let stemmer = Stemmer::create(Algorithm::English);
    let mut end = 0;
    let next = move || {
        let start = end + text[end..].find(char::is_alphanumeric)?;
        end = start + length_of_word(&text[start..]);
        Some(Word { term: term(&stemmer, &text[start..end]), range: start..end })
    };
    // Nothing is left of a mark that stands alone.
    std::iter::from_fn(next).filter(|word| !word.term.is_empty())
}

/// Returns the terms of a text with a space between them, for an index that knows no other rule than that.
pub(super) fn joined(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    for word in words_of(text) {
        if !joined.is_empty() {
            joined.push(' ');
        }
        joined.push_str(&word.term);
    }
    joined
}

/// Returns how many bytes the word has that `text` begins with.
fn length_of_word(text: &str) -> usize {
    let mut chars = text.char_indices();
    match chars.next() {
        Some((_, first)) if is_unspaced(first) => first.len_utf8(),
        Some(_) | None => chars.find(|(_, char)| !continues_word(*char)).map_or(text.len(), |(end, _)| end),
    }
}

fn continues_word(char: char) -> bool {
    char.is_ascii_alphanumeric()
        || !char.is_ascii() && !is_unspaced(char) && (char.is_alphanumeric() || is_combining_mark(char))
}

fn term<'a>(stemmer: &Stemmer, word: &'a str) -> Cow<'a, str> {
    let folded = match word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
        true => Cow::Borrowed(word),
        false if word.is_ascii() => Cow::Owned(word.to_ascii_lowercase()),
        false => Cow::Owned(folded(word)),
    };
    if !STEMMED_BYTES.contains(&folded.len()) || !folded.is_ascii() {
        return folded;
    }
    match folded {
        Cow::Borrowed(word) => stemmer.stem(word),
        Cow::Owned(word) => Cow::Owned(stemmer.stem(&word).into_owned()),
    }
}

/// Returns a word in lower case, with Latin letters as they are without their diacritics. Of other scripts a letter with a
/// mark is another letter (й is not и); marks that no letter has are left out.
fn folded(word: &str) -> String {
    // By way of the upper case, so that the two forms of a sigma are one.
    let lowered = word.nfc().flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    lowered.filter(|char| !matches!(char, '\u{300}'..='\u{36F}')).map(base).collect()
}

/// Returns the ASCII letter that a letter with diacritics is made of, or the letter itself.
fn base(letter: char) -> char {
    let mut first = None;
    decompose_canonical(letter, |part| first = first.or(Some(part)));
    first.filter(char::is_ascii_alphabetic).unwrap_or(letter)
}

const fn is_unspaced(char: char) -> bool {
    matches!(char,
        '\u{0E00}'..='\u{0FFF}'      // Thai, Lao, Tibetan
        | '\u{1000}'..='\u{109F}'    // Myanmar
        | '\u{1780}'..='\u{17FF}'    // Khmer
        | '\u{3040}'..='\u{30FF}' | '\u{31F0}'..='\u{31FF}' | '\u{FF66}'..='\u{FF9F}' // Kana
        | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}'
        | '\u{20000}'..='\u{323AF}'  // Han
        | '\u{AC00}'..='\u{D7AF}') // Hangul: spaced, but particles cling to words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(joined(text), expected, "{text:?}");
    }

    #[test]
    fn forms_of_a_word_are_one_term() {
        check("run Runs RUNNING ran", "run run run ran");
        check("parsers nested connecting connection", "parser nest connect connect");
        check("\u{fc}ber UBER u\u{308}ber \u{1ebf} Caf\u{e9} cafe\u{301}", "uber uber uber e cafe cafe");
        check("Σίσυφος σίσυφος ΣΊΣΥΦΟΣ", "σίσυφοσ σίσυφοσ σίσυφοσ");
        check("Straße STRASSE İi", "strass strass ii");
        check("и\u{306} й и", "й й и");
    }

    #[test]
    fn names_are_cut_into_the_words_they_are_made_of() {
        check("src/parse_table.rs:42", "src pars tabl rs 42");
        check("O'Neil's re-run, v1.5; x2z", "o neil s re run v1 5 x2z");
        check(" ... 🦆👩‍👧 \u{1f}\0 ", "");
    }

    #[test]
    fn each_character_of_a_script_without_spaces_is_a_word() {
        check("日本語のAPIs", "日 本 語 の api");
        check("한국어 test", "한 국 어 test");
        check("हिन्दी शब्द", "हिन्दी शब्द");
    }

    #[test]
    fn a_word_knows_where_it_stands() {
        let text = "– Énormes, 日本";
        let found: Vec<(String, &str)> =
            words_of(text).map(|word| (word.term.into_owned(), &text[word.range])).collect();
        let expected = [("enorm", "Énormes"), ("日", "日"), ("本", "本")];
        assert_eq!(found, expected.map(|(term, word)| (term.to_owned(), word)));
    }
}
