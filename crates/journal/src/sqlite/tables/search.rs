//! Finding messages by their words: catching up the index, asking it, cutting passages. Appending never comes here;
//! the index follows when somebody searches.

mod rank;
pub(crate) mod texts;

pub(crate) use rank::rank;

use protocol::{Seq, ThreadId};
use rusqlite::{Connection, Row};

use super::columns::{integer, stored};
use super::events::rewinds;
use super::page_limit;
use super::turns::text_of;
use crate::{Error, QUERY_WORDS_MAX, Result, SearchHit};

/// Messages one batch of catching up reads, so that appends wait no longer than for one batch.
const BATCH_ROWS_MAX: usize = 500;
/// Bytes of content one batch reads before it ends.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// Threads one batch looks at.
const BATCH_THREADS_MAX: usize = 100;
/// The part of a message's text that can be found; what follows in a huge tool result cannot.
const SEARCHED_BYTES_MAX: usize = 64 << 10;
/// Words of a passage.
const PASSAGE_WORDS: u32 = 24;
/// Characters of a passage; words can be very long.
const PASSAGE_CHARS_MAX: usize = 400;
/// Characters kept before the first word found, when a passage is cut.
const PASSAGE_LEAD_CHARS: usize = 80;
/// Stands between characters of scripts without spaces; never part of a word, and removed from passages.
const SEPARATOR: char = '\u{1f}';
/// Begin and end of a word found.
const MARKS: [char; 2] = ['\u{2}', '\u{3}'];

/// Whether a batch left anything to index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CatchUp {
    /// There is more.
    Unfinished,
    /// The index has every message committed so far.
    Finished,
}

/// Indexes one bounded batch of messages; the caller commits.
pub(crate) fn index_batch(connection: &Connection) -> Result<CatchUp> {
    let heads = connection
        .prepare_cached(
            "SELECT thread_key, indexed_seq, last_seq FROM thread_heads
             WHERE indexed_seq < last_seq AND updated_at IS NOT NULL LIMIT ?1",
        )?
        .query_map([integer(BATCH_THREADS_MAX as u64)], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<rusqlite::Result<Vec<(i64, i64, i64)>>>()?;
    let mut budget = Budget { rows: BATCH_ROWS_MAX, bytes: BATCH_BYTES_MAX };
    for (key, indexed_seq, last_seq) in &heads {
        let reached = index_thread(connection, *key, (*indexed_seq, *last_seq), &mut budget)?;
        connection
            .prepare_cached("UPDATE thread_heads SET indexed_seq = ?2 WHERE thread_key = ?1")?
            .execute((key, reached))?;
        if budget.is_spent() {
            return Ok(CatchUp::Unfinished);
        }
    }
    Ok(if heads.len() == BATCH_THREADS_MAX { CatchUp::Unfinished } else { CatchUp::Finished })
}

struct Budget {
    rows: usize,
    bytes: usize,
}

impl Budget {
    fn is_spent(&self) -> bool {
        self.rows == 0 || self.bytes == 0
    }
}

/// Returns the seq up to which the thread is indexed.
fn index_thread(
    connection: &Connection,
    key: i64,
    (indexed_seq, last_seq): (i64, i64),
    budget: &mut Budget,
) -> Result<i64> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, content FROM events
         WHERE thread_key = ?1 AND seq > ?2 AND seq <= ?3 AND category = 'message' ORDER BY seq",
    )?;
    let mut rows = statement.query((key, indexed_seq, last_seq))?;
    while let Some(row) = rows.next()? {
        let seq: i64 = row.get(0)?;
        let content = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
        if let Some(text) = text_of(content) {
            connection
                .prepare_cached("INSERT INTO search_index (rowid, text) VALUES (?1, ?2)")?
                .execute((index_row(key, seq), spaced(beginning(&text))))?;
        }
        budget.rows -= 1;
        budget.bytes = budget.bytes.saturating_sub(content.len());
        if budget.is_spent() {
            return Ok(seq);
        }
    }
    Ok(last_seq)
}

/// Returns the id of a message's row in the index: those of one thread are a range.
const fn index_row(thread_key: i64, seq: i64) -> i64 {
    thread_key << 32 | seq
}

/// Returns passages that hold every word of `text`, best first.
pub(crate) fn find(connection: &Connection, text: &str, limit: usize) -> Result<Vec<SearchHit>> {
    let limit = page_limit("search results", limit)?;
    let Some(query) = match_expression(text)? else { return Ok(Vec::new()) };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT h.thread_id, e.seq, e.event_type, e.created_at, e.content
         FROM search_index i CROSS JOIN events e ON e.thread_key = i.rowid >> 32 AND e.seq = i.rowid & 0xFFFFFFFF
         CROSS JOIN thread_heads h ON h.thread_key = e.thread_key
         WHERE search_index MATCH ?1 AND {} ORDER BY i.rank, i.rowid DESC LIMIT ?2",
        rewinds::is_visible("e.seq")
    ))?;
    let found = statement.query_map((&query, limit), Found::read)?.collect::<rusqlite::Result<Vec<_>>>()?;
    cut_passages(connection, &query, found)
}

struct Found {
    hit: SearchHit,
    text: String,
}

impl Found {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let event_type: String = row.get("event_type")?;
        let content = row.get_ref("content")?.as_str()?;
        let hit = SearchHit {
            thread_id: stored::<ThreadId>(row, "thread_id")?,
            seq: Seq::from(row.get::<_, u32>("seq")?),
            role: event_type.trim_end_matches("_message").to_owned(),
            snippet: String::new(),
            created_at: stored(row, "created_at")?,
        };
        Ok(Self { hit, text: text_of(content).map(|text| spaced(beginning(&text))).unwrap_or_default() })
    }
}

/// Sets the passages. The engine cuts and marks them, by the same rules by which it found the messages, from a table
/// of this connection that is emptied at the end: the index itself holds no text.
fn cut_passages(connection: &Connection, query: &str, found: Vec<Found>) -> Result<Vec<SearchHit>> {
    connection.execute_batch(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.passages USING fts5 (text, tokenize = 'porter unicode61')",
    )?;
    let mut hits = Vec::with_capacity(found.len());
    for (number, Found { hit, text }) in (0_i64..).zip(found) {
        connection
            .prepare_cached("INSERT INTO temp.passages (rowid, text) VALUES (?1, ?2)")?
            .execute((number, text))?;
        hits.push(hit);
    }
    let mut statement = connection.prepare_cached(
        "SELECT rowid, snippet(passages, 0, char(2), char(3), '…', ?2) FROM temp.passages WHERE passages MATCH ?1",
    )?;
    let mut rows = statement.query((query, PASSAGE_WORDS))?;
    while let Some(row) = rows.next()? {
        let passage: String = row.get(1)?;
        if let Some(hit) = hits.get_mut(row.get::<_, u32>(0)? as usize) {
            hit.snippet = shortened(&passage);
        }
    }
    drop(rows);
    connection.prepare_cached("DELETE FROM temp.passages")?.execute([])?;
    Ok(hits)
}

/// Returns the passage without separators and line breaks, cut around the first word found.
fn shortened(passage: &str) -> String {
    let chars: Vec<char> = passage
        .chars()
        .filter(|char| *char != SEPARATOR)
        .map(|char| if char.is_whitespace() { ' ' } else { char })
        .collect();
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

/// Returns the query in the engine's language; `None` when it holds no word. Every word is quoted, so that no text
/// is a syntax error.
fn match_expression(text: &str) -> Result<Option<String>> {
    let words: Vec<String> =
        text.split(|char: char| char.is_whitespace() || char.is_control()).filter_map(phrase).collect();
    check_words(words.len())?;
    Ok((!words.is_empty()).then(|| words.join(" ")))
}

/// Returns the word in the engine's language; `None` when it has no letter or digit.
fn phrase(word: &str) -> Option<String> {
    word.chars().any(char::is_alphanumeric).then(|| format!("\"{}\"", spaced(word).replace('"', "\"\"")))
}

fn check_words(count: usize) -> Result<()> {
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
