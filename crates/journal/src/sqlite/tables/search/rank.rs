//! Which messages of some threads hold any of some words, best first. No text is read, only the index; which words
//! matter, and what becomes of the messages, is the asker's matter.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rusqlite::{Connection, OptionalExtension};

use super::{check_words, index_row, phrase};
use crate::sqlite::tables::columns::integer;
use crate::sqlite::tables::events::rewinds::Superseding;
use crate::sqlite::tables::{page_limit, threads};
use crate::{RankQuery, Ranked, Result, ThreadPart};

/// One above the highest seq there can be.
const SEQS: i64 = 1 << 32;

/// Returns the messages that hold any of the query's words, best first.
pub(crate) fn rank(connection: &Connection, query: &RankQuery) -> Result<Vec<Ranked>> {
    page_limit("search results", query.limit)?;
    check_words(query.words.len())?;
    // A word without a letter or digit keeps its number and finds nothing.
    let phrases: Vec<Option<String>> = query.words.iter().map(|word| phrase(word)).collect();
    let any = phrases.iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" OR ");
    if any.is_empty() {
        return Ok(Vec::new());
    }
    let mut best = Best { heap: BinaryHeap::new(), limit: query.limit };
    for (place, part) in query.threads.iter().enumerate() {
        let is_first = query.threads[..place].iter().all(|earlier| earlier.thread_id != part.thread_id);
        if is_first && let Some(key) = threads::key(connection, part.thread_id)? {
            let before = part.before.map_or(SEQS, |seq| integer(seq).min(SEQS));
            add_thread(connection, &any, (place, key, before), &mut best)?;
        }
    }
    best.into_sorted()
        .into_iter()
        .map(|found| ranked(connection, found, (&query.threads, &phrases)))
        .collect()
}

/// A message found, in the order of being kept: by score, then by its place in its thread.
#[derive(PartialEq)]
struct Found {
    score: f64,
    row: i64,
    /// The thread's place in the query.
    place: usize,
}

impl Eq for Found {}

impl Ord for Found {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.score.total_cmp(&other.score).then(self.row.cmp(&other.row))
    }
}

impl PartialOrd for Found {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The best so far. The engine would sort every match to return a few.
struct Best {
    heap: BinaryHeap<Reverse<Found>>,
    limit: usize,
}

impl Best {
    fn add(&mut self, found: Found) {
        if self.heap.len() == self.limit {
            match self.heap.peek() {
                Some(Reverse(worst)) if *worst >= found => return,
                Some(_) | None => self.heap.pop(),
            };
        }
        self.heap.push(Reverse(found));
    }

    fn into_sorted(self) -> Vec<Found> {
        self.heap.into_sorted_vec().into_iter().map(|Reverse(found)| found).collect()
    }
}

fn add_thread(
    connection: &Connection,
    any: &str,
    (place, key, before): (usize, i64, i64),
    best: &mut Best,
) -> Result<()> {
    let superseded = Superseding::of(connection, key)?;
    let mut statement = connection.prepare_cached(
        "SELECT rowid, rank FROM search_index WHERE search_index MATCH ?1 AND rowid >= ?2 AND rowid < ?3",
    )?;
    let mut rows = statement.query((any, index_row(key, 0), index_row(key, 0) + before))?;
    while let Some(row) = rows.next()? {
        let found = Found { row: row.get(0)?, score: -row.get::<_, f64>(1)?, place };
        if !superseded.contains(seq_of(found.row)) {
            best.add(found);
        }
    }
    Ok(())
}

const fn seq_of(row: i64) -> i64 {
    row & 0xFFFF_FFFF
}

/// Returns the message with the words it holds, each looked up in the index.
fn ranked(
    connection: &Connection,
    found: Found,
    (threads, phrases): (&[ThreadPart], &[Option<String>]),
) -> Result<Ranked> {
    let mut holds =
        connection.prepare_cached("SELECT 1 FROM search_index WHERE search_index MATCH ?1 AND rowid = ?2")?;
    let mut held = 0;
    for (number, phrase) in phrases.iter().enumerate() {
        if let Some(phrase) = phrase
            && holds.query_row((phrase, found.row), |_| Ok(())).optional()?.is_some()
        {
            held |= 1 << number;
        }
    }
    let seq = seq_of(found.row).unsigned_abs();
    Ok(Ranked { thread_id: threads[found.place].thread_id, seq, score: found.score, held })
}
