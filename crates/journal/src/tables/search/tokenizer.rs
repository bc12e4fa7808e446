//! The tokenizer of the search index, used for both engines. A word is a sequence of letters and digits. Its term is
//! the word in lower case, without the diacritics of Latin letters, and stemmed by the rules of English. In scripts
//! without spaces between words, each character is a word, so that a search for several characters is a phrase
//! search. A trigram index would not find words of two characters, which are the most frequent in such scripts.
//!
//! The word boundaries of Unicode (UAX 29) are not used, because they keep `main.rs`, `o'clock` and `snake_case` in
//! one piece, while people search for `main`.

pub(super) mod tsvector;

use std::borrow::Cow;
use std::ops::Range;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{decompose_canonical, is_combining_mark};

/// Lengths in bytes of the words that are stemmed. Shorter words have no suffix, and longer ones are not words of a
/// natural language.
const STEMMED_WORD_BYTES: Range<usize> = 3..65;

/// A word of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WordToken<'a> {
    /// The normalized form that is indexed: letters and digits only.
    pub(super) term: Cow<'a, str>,
    /// The byte range of the word in the text.
    pub(super) range: Range<usize>,
}

/// Returns the words of a text in order. O(n) in the length of the text.
pub(super) fn tokenize(text: &str) -> impl Iterator<Item = WordToken<'_>> {
    let stemmer = Stemmer::create(Algorithm::English);
    let mut end = 0;
    let next = move || {
        let start = end + text[end..].find(char::is_alphanumeric)?;
        end = start + word_length(&text[start..]);
        Some(WordToken { term: stem_term(&stemmer, &text[start..end]), range: start..end })
    };
    // A combining mark that follows no letter leaves an empty term.
    std::iter::from_fn(next).filter(|word| !word.term.is_empty())
}

/// Returns the terms of a text, separated by spaces, for an index that splits at spaces only.
pub(super) fn join_terms(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    for word in tokenize(text) {
        if !joined.is_empty() {
            joined.push(' ');
        }
        joined.push_str(&word.term);
    }
    joined
}

/// Returns the length in bytes of the word at the beginning of `text`.
fn word_length(text: &str) -> usize {
    let mut chars = text.char_indices();
    match chars.next() {
        Some((_, first)) if is_unspaced(first) => first.len_utf8(),
        Some(_) | None => chars.find(|(_, char)| !continues_word(*char)).map_or(text.len(), |(end, _)| end),
    }
}

/// Returns whether a character continues a word.
fn continues_word(char: char) -> bool {
    char.is_ascii_alphanumeric()
        || !char.is_ascii() && !is_unspaced(char) && (char.is_alphanumeric() || is_combining_mark(char))
}

/// Returns the term of a word.
fn stem_term<'a>(stemmer: &Stemmer, word: &'a str) -> Cow<'a, str> {
    let folded = match word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
        true => Cow::Borrowed(word),
        false if word.is_ascii() => Cow::Owned(word.to_ascii_lowercase()),
        false => Cow::Owned(fold_word(word)),
    };
    if !STEMMED_WORD_BYTES.contains(&folded.len()) || !folded.is_ascii() {
        return folded;
    }
    match folded {
        Cow::Borrowed(word) => stemmer.stem(word),
        Cow::Owned(word) => Cow::Owned(stemmer.stem(&word).into_owned()),
    }
}

/// Returns a word in lower case, with Latin letters reduced to their base letters. In other scripts a letter with a
/// mark is a different letter (й is not и). Marks that do not combine with a letter are removed.
fn fold_word(word: &str) -> String {
    // Convert to upper case first, so that both lower-case forms of sigma become one.
    let lowered = word.nfc().flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    lowered.filter(|char| !matches!(char, '\u{300}'..='\u{36F}')).map(base_letter).collect()
}

/// Returns the ASCII letter that a letter with diacritics is based on, or the letter itself.
fn base_letter(letter: char) -> char {
    let mut first = None;
    decompose_canonical(letter, |char| first = first.or(Some(char)));
    first.filter(char::is_ascii_alphabetic).unwrap_or(letter)
}

/// Returns whether a character belongs to a script that is written without spaces between words.
const fn is_unspaced(char: char) -> bool {
    matches!(char,
        '\u{0E00}'..='\u{0FFF}'      // Thai, Lao, Tibetan
        | '\u{1000}'..='\u{109F}'    // Myanmar
        | '\u{1780}'..='\u{17FF}'    // Khmer
        | '\u{3040}'..='\u{30FF}' | '\u{31F0}'..='\u{31FF}' | '\u{FF66}'..='\u{FF9F}' // Kana
        | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}'
        | '\u{20000}'..='\u{323AF}'  // Han
        | '\u{AC00}'..='\u{D7AF}') // Hangul: it has spaces, but particles are attached to words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(join_terms(text), expected, "{text:?}");
    }

    #[test]
    fn inflected_forms_have_the_same_term() {
        check("run Runs RUNNING ran", "run run run ran");
        check("parsers nested connecting connection", "parser nest connect connect");
        check("\u{fc}ber UBER u\u{308}ber \u{1ebf} Caf\u{e9} cafe\u{301}", "uber uber uber e cafe cafe");
        check("Σίσυφος σίσυφος ΣΊΣΥΦΟΣ", "σίσυφοσ σίσυφοσ σίσυφοσ");
        check("Straße STRASSE İi", "strass strass ii");
        check("и\u{306} й и", "й й и");
    }

    #[test]
    fn identifiers_are_split_into_their_words() {
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
    fn a_token_has_the_byte_range_of_its_word() {
        let text = "– Énormes, 日本";
        let tokens: Vec<(String, &str)> =
            tokenize(text).map(|word| (word.term.into_owned(), &text[word.range])).collect();
        let expected = [("enorm", "Énormes"), ("日", "日"), ("本", "本")];
        assert_eq!(tokens, expected.map(|(term, word)| (term.to_owned(), word)));
    }
}
