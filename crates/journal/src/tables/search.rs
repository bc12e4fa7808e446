//! The search index: what its rows are, and how texts and words are made alike for it. Appending never comes here; the
//! index follows when somebody searches, or when somebody has time.

mod belonging;
mod candidates;
mod catch_up;
mod find;
pub(crate) mod index;
mod lengths;
mod passages;
mod places;
mod rank;
mod scope;
pub(crate) mod texts;
mod words;

pub(crate) use catch_up::{CatchUp, Pass, index_batch, is_behind};
pub(crate) use find::find;
pub(crate) use index::purge;
pub(crate) use rank::rank;

use self::index::Expression;
use crate::engines::sql::Connection;
use crate::{Error, QUERY_WORDS_MAX, Result};

/// The part of a message's text that can be found; what follows in a huge tool result cannot.
const SEARCHED_BYTES_MAX: usize = 64 << 10;
/// Stands between characters of scripts without spaces; never part of a word, and removed from passages.
const SEPARATOR: char = '\u{1f}';
/// Begin and end of a word found.
const MARKS: [char; 2] = ['\u{2}', '\u{3}'];

/// Returns the id of a message's row in the index: those of one thread are a range.
const fn index_row(thread_key: i64, seq: i64) -> i64 {
    thread_key << 32 | seq
}

/// Returns the number that the events of a message's thread are stored under.
const fn thread_of(row: i64) -> i64 {
    row >> 32
}

/// Returns the seq of a message.
const fn seq_of(row: i64) -> i64 {
    row & 0xFFFF_FFFF
}

/// Returns what finds each of the words, at its number; `None` for one that cannot be found.
fn phrases(connection: &Connection, words: &[String]) -> Result<Vec<Option<Expression>>> {
    words.iter().map(|word| Expression::word(connection.dialect(), word)).collect()
}

pub(super) fn check_words(count: usize) -> Result<()> {
    if count > QUERY_WORDS_MAX {
        let reason = format!("a query has {QUERY_WORDS_MAX} words at most, not {count}");
        return Err(Error::Invalid { what: "search results", reason });
    }
    Ok(())
}

fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(SEARCHED_BYTES_MAX)]
}

/// Returns `text` with characters of scripts without spaces set apart, so that each is a word of its own and a query
/// of several is a phrase. A trigram index would find nothing for the two characters that most such words have.
fn spaced(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for char in text.chars() {
        if MARKS.contains(&char) || char == '\0' {
            result.push(' ');
        } else if is_unspaced(char) {
            result.extend([SEPARATOR, char, SEPARATOR]);
        } else {
            result.push(char);
        }
    }
    result
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
