//! The words of a text and of a query as PostgreSQL takes them, `tsvector` and `tsquery`, within the limits that it has. Which
//! words a text has is not decided here.

use std::borrow::Cow;
use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::words_of;

/// Bytes of a word that PostgreSQL keeps; of a longer one the beginning is kept, and its hash.
const WORD_BYTES_MAX: usize = 2_000;
const WORD_BEGINNING_BYTES: usize = 1_000;
/// Places of one word that it keeps.
const PLACES_MAX: usize = 255;
/// The last place that is told from others; behind it is where all later ones are, which nothing follows.
const PLACE_MAX: i64 = 16_381;
const LATER: i64 = 16_383;
/// Words of a text some of whose places are not kept that are looked for where they follow each other, at a time.
const RUN_WORDS: [usize; 2] = [2, 3];
/// Parts of a word that must follow each other: the server takes no more of a query than its stack does.
const PARTS_MAX: usize = 200;

/// Returns the words of a text as PostgreSQL reads a `tsvector`, and how many there are.
pub(in crate::tables::search) fn vector(text: &str) -> (String, u64) {
    let terms: Vec<Cow<'_, str>> = words_of(text).map(|word| word.term).collect();
    let mut words: Vec<(&str, i64)> = terms.iter().map(Cow::as_ref).zip(1..).collect();
    words.sort_unstable();
    let mut vector = String::with_capacity(text.len());
    let mut is_whole = true;
    for places in words.chunk_by(|(one, _), (next, _)| one == next) {
        vector.push_str(&quoted(&kept(places[0].0)));
        let told = places.iter().map(|(_, place)| *place).filter(|place| *place <= PLACE_MAX);
        let told: Vec<i64> = told.take(PLACES_MAX).collect();
        is_whole &= told.len() == places.len();
        for (at, place) in told.iter().chain(told.is_empty().then_some(&LATER)).enumerate() {
            let mark = if at == 0 { ':' } else { ',' };
            // Writing to a string does not fail.
            let _ = write!(vector, "{mark}{place}");
        }
        vector.push(' ');
    }
    if !is_whole {
        for run in RUN_WORDS.iter().flat_map(|length| terms.windows(*length)) {
            vector.push_str(&quoted(&kept(&run.join(" "))));
            vector.push(' ');
        }
    }
    (vector, terms.len() as u64)
}

/// Returns what finds a word as PostgreSQL reads a `tsquery`: its parts one behind the other. `None` when it has none.
pub(in crate::tables::search) fn phrase(word: &str) -> Option<String> {
    let parts: Vec<Cow<'_, str>> = words_of(word).take(PARTS_MAX).map(|word| word.term).collect();
    let in_order: Vec<String> = parts.iter().map(|part| quoted(&kept(part))).collect();
    // Texts whose places are not all kept have these, and no others.
    let runs = parts.windows(parts.len().min(RUN_WORDS[1]).max(RUN_WORDS[0]));
    let runs: Vec<String> = runs.map(|run| quoted(&kept(&run.join(" ")))).collect();
    match (&in_order[..], &runs[..]) {
        ([], _) => None,
        (in_order, []) => Some(format!("({})", in_order.join(" <-> "))),
        (in_order, runs) => Some(format!("({} | {})", in_order.join(" <-> "), runs.join(" & "))),
    }
}

/// Returns what is kept of a word, or of some that follow each other.
fn kept(word: &str) -> Cow<'_, str> {
    if word.len() <= WORD_BYTES_MAX {
        return Cow::Borrowed(word);
    }
    let mut kept = word[..word.floor_char_boundary(WORD_BEGINNING_BYTES)].to_owned();
    // No two blanks follow each other in anything else.
    kept.push_str("  ");
    for byte in Sha256::digest(word) {
        let _ = write!(kept, "{byte:02x}");
    }
    Cow::Owned(kept)
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_their_places_and_a_query_its_order() {
        let (vector, length) = vector("The Runs ran; running ÜBER re-run O'Neil");
        assert_eq!(vector, "'neil':9 'o':8 'ran':3 're':6 'run':2,4,7 'the':1 'uber':5 ");
        assert_eq!(length, 9);
        assert_eq!(phrase("running").unwrap(), "('run')");
        assert_eq!(phrase("re-running").unwrap(), "('re' <-> 'run' | 're run')");
        assert_eq!(phrase("日本語").unwrap(), "('日' <-> '本' <-> '語' | '日 本 語')");
        assert_eq!(phrase("..."), None);
    }
}
