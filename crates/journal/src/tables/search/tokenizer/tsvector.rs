//! Conversion of terms to PostgreSQL's `tsvector` and `tsquery`, within PostgreSQL's limits. The tokenizer decides
//! which terms a text has.

use std::borrow::Cow;
use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::tokenize;

/// Maximum size of a lexeme in bytes. PostgreSQL's limit is 2,046 bytes. A longer term is replaced by its beginning
/// and its hash.
const WORD_BYTES_MAX: usize = 2_000;
/// Number of bytes that are kept of a term that is too long.
const WORD_PREFIX_BYTES: usize = 1_000;
/// Maximum number of positions of one lexeme that PostgreSQL stores.
const POSITIONS_MAX: usize = 255;
/// The last position that is used for phrase searches.
const POSITION_MAX: i64 = 16_381;
/// The position of lexemes that occur only after [`POSITION_MAX`]. No position follows it, so it takes part in no
/// phrase.
const OVERFLOW_POSITION: i64 = 16_383;
/// Lengths of the word sequences that are indexed as additional lexemes of a text whose positions are not all stored,
/// so that phrases are found nevertheless.
const RUN_WORDS: [usize; 2] = [2, 3];
/// Maximum number of terms of a phrase. The server's parser of queries is recursive and limited by its stack.
const PARTS_MAX: usize = 200;

/// Returns a text as a `tsvector` literal, and the number of its terms.
pub(in crate::tables::search) fn to_tsvector(text: &str) -> (String, u64) {
    let terms: Vec<Cow<'_, str>> = tokenize(text).map(|word| word.term).collect();
    let mut words: Vec<(&str, i64)> = terms.iter().map(Cow::as_ref).zip(1..).collect();
    words.sort_unstable();
    let mut vector = String::with_capacity(text.len());
    let mut is_whole = true;
    for occurrences in words.chunk_by(|(left, _), (right, _)| left == right) {
        vector.push_str(&quote_word(&truncate_word(occurrences[0].0)));
        let positions =
            occurrences.iter().map(|(_, position)| *position).filter(|position| *position <= POSITION_MAX);
        let positions: Vec<i64> = positions.take(POSITIONS_MAX).collect();
        is_whole &= positions.len() == occurrences.len();
        for (index, position) in
            positions.iter().chain(positions.is_empty().then_some(&OVERFLOW_POSITION)).enumerate()
        {
            let mark = if index == 0 { ':' } else { ',' };
            // Writing to a string cannot fail.
            let _ = write!(vector, "{mark}{position}");
        }
        vector.push(' ');
    }
    if !is_whole {
        for words in RUN_WORDS.iter().flat_map(|length| terms.windows(*length)) {
            vector.push_str(&quote_word(&truncate_word(&words.join(" "))));
            vector.push(' ');
        }
    }
    (vector, terms.len() as u64)
}

/// Returns a `tsquery` literal that matches a word as a phrase of its terms, or `None` if it has no term.
pub(in crate::tables::search) fn to_tsquery_phrase(word: &str) -> Option<String> {
    let terms: Vec<Cow<'_, str>> = tokenize(word).take(PARTS_MAX).map(|word| word.term).collect();
    let phrase: Vec<String> = terms.iter().map(|term| quote_word(&truncate_word(term))).collect();
    // Texts whose positions are not all stored contain these lexemes; other texts do not.
    let runs = terms.windows(terms.len().min(RUN_WORDS[1]).max(RUN_WORDS[0]));
    let runs: Vec<String> = runs.map(|words| quote_word(&truncate_word(&words.join(" ")))).collect();
    match (&phrase[..], &runs[..]) {
        ([], _) => None,
        (phrase, []) => Some(format!("({})", phrase.join(" <-> "))),
        (phrase, runs) => Some(format!("({} | {})", phrase.join(" <-> "), runs.join(" & "))),
    }
}

/// Returns the lexeme for a term or for a sequence of terms: unchanged if it is short enough, else its beginning and
/// its hash.
fn truncate_word(word: &str) -> Cow<'_, str> {
    if word.len() <= WORD_BYTES_MAX {
        return Cow::Borrowed(word);
    }
    let mut lexeme = word[..word.floor_char_boundary(WORD_PREFIX_BYTES)].to_owned();
    // Two spaces cannot occur in other lexemes, so the result is unambiguous.
    lexeme.push_str("  ");
    for byte in Sha256::digest(word) {
        let _ = write!(lexeme, "{byte:02x}");
    }
    Cow::Owned(lexeme)
}

/// Quotes a lexeme for a `tsvector` or `tsquery` literal.
fn quote_word(word: &str) -> String {
    format!("'{}'", word.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lexemes_have_positions_and_a_query_is_a_phrase() {
        let (vector, length) = to_tsvector("The Runs ran; running ÜBER re-run O'Neil");
        assert_eq!(vector, "'neil':9 'o':8 'ran':3 're':6 'run':2,4,7 'the':1 'uber':5 ");
        assert_eq!(length, 9);
        assert_eq!(to_tsquery_phrase("running").unwrap(), "('run')");
        assert_eq!(to_tsquery_phrase("re-running").unwrap(), "('re' <-> 'run' | 're run')");
        assert_eq!(to_tsquery_phrase("日本語").unwrap(), "('日' <-> '本' <-> '語' | '日 本 語')");
        assert_eq!(to_tsquery_phrase("..."), None);
    }
}
