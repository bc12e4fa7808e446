//! The search index: what its rows are, and how they are found. Appending never comes here; the index follows when somebody
//! searches, or when somebody has time.

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
fn phrases(db: &Connection, words: &[String]) -> Vec<Option<Expression>> {
    words.iter().map(|word| Expression::word(db.dialect(), word)).collect()
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
