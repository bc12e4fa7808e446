//! Where the words of a text are, and what each is the same as: cut, lowered and stemmed by the same code of SQLite that cuts
//! them for its own index, so that a search finds the same in every engine. A small database in memory does it, one a thread.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::Write as _;

use rusqlite::Connection;
use sha2::{Digest, Sha256};

use super::spaced;
use crate::Result;

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

thread_local! {
    static CUTTER: RefCell<Option<Connection>> = const { RefCell::new(None) };
}

/// Does something with the database that cuts texts, which has the empty tables `texts`, `words` and `passages`.
pub(super) fn with_cutter<T>(work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
    CUTTER.with_borrow_mut(|cutter| {
        let connection = match cutter.take() {
            Some(connection) => connection,
            None => opened()?,
        };
        // One that failed is not used again.
        let done = work(&connection)?;
        *cutter = Some(connection);
        Ok(done)
    })
}

fn opened() -> rusqlite::Result<Connection> {
    let connection = Connection::open_in_memory()?;
    connection.execute_batch(
        "CREATE VIRTUAL TABLE texts USING fts5 (text, content = '', tokenize = 'porter unicode61');
         CREATE VIRTUAL TABLE words USING fts5vocab (texts, 'instance');
         CREATE VIRTUAL TABLE passages USING fts5 (text, tokenize = 'porter unicode61');",
    )?;
    Ok(connection)
}

/// Returns the words of a spaced text with their places, in the order of the words.
fn words_of(text: &str) -> Result<Vec<(String, i64)>> {
    with_cutter(|connection| {
        connection.prepare_cached("INSERT INTO texts (rowid, text) VALUES (1, ?1)")?.execute([text])?;
        let mut statement = connection.prepare_cached("SELECT term, offset FROM words")?;
        let words = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let words = words.collect::<rusqlite::Result<_>>()?;
        connection.prepare_cached("INSERT INTO texts (texts) VALUES ('delete-all')")?.execute([])?;
        Ok(words)
    })
}

/// Returns the words of a spaced text as PostgreSQL reads a `tsvector`, and how many there are.
pub(super) fn vector(text: &str) -> Result<(String, u64)> {
    let mut words = words_of(text)?;
    let mut vector = String::with_capacity(text.len());
    let mut is_whole = true;
    for places in words.chunk_by(|(one, _), (next, _)| one == next) {
        vector.push_str(&quoted(&kept(&places[0].0)));
        let told = places.iter().map(|(_, place)| place + 1).filter(|place| *place <= PLACE_MAX);
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
        words.sort_by_key(|(_, place)| *place);
        let words: Vec<&str> = words.iter().map(|(word, _)| word.as_str()).collect();
        for run in RUN_WORDS.iter().flat_map(|length| words.windows(*length)) {
            vector.push_str(&quoted(&kept(&run.join(" "))));
            vector.push(' ');
        }
    }
    Ok((vector, words.len() as u64))
}

/// Returns what finds a word as PostgreSQL reads a `tsquery`: its parts one behind the other. `None` when it has none.
pub(super) fn phrase(word: &str) -> Result<Option<String>> {
    let mut parts = words_of(&spaced(word))?;
    parts.sort_by_key(|(_, place)| *place);
    let parts: Vec<&str> = parts.iter().take(PARTS_MAX).map(|(part, _)| part.as_str()).collect();
    let in_order: Vec<String> = parts.iter().map(|part| quoted(&kept(part))).collect();
    // Texts whose places are not all kept have these, and no others.
    let runs = parts.windows(parts.len().min(RUN_WORDS[1]).max(RUN_WORDS[0]));
    let runs: Vec<String> = runs.map(|run| quoted(&kept(&run.join(" ")))).collect();
    Ok(match (&in_order[..], &runs[..]) {
        ([], _) => None,
        (in_order, []) => Some(format!("({})", in_order.join(" <-> "))),
        (in_order, runs) => Some(format!("({} | {})", in_order.join(" <-> "), runs.join(" & "))),
    })
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
    fn words_are_those_of_the_embedded_engine() {
        let (vector, length) = vector("The Runs ran; running ÜBER re-run O'Neil").unwrap();
        assert_eq!(vector, "'neil':9 'o':8 'ran':3 're':6 'run':2,4,7 'the':1 'uber':5 ");
        assert_eq!(length, 9);
        assert_eq!(phrase("running").unwrap().unwrap(), "('run')");
        assert_eq!(phrase("re-running").unwrap().unwrap(), "('re' <-> 'run' | 're run')");
        assert_eq!(phrase("日本語").unwrap().unwrap(), "('日' <-> '本' <-> '語' | '日 本 語')");
        assert_eq!(phrase("...").unwrap(), None);
    }
}
