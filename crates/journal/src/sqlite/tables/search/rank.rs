//! Which messages of some threads hold any of some words, best first. No text is read, only the index; which words
//! matter, and what becomes of the messages, is the asker's matter.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use rusqlite::Connection;

use super::{check_words, index_row, phrase};
use crate::sqlite::tables::columns::integer;
use crate::sqlite::tables::events::rewinds::Superseding;
use crate::sqlite::tables::{page_limit, threads};
use crate::{RankQuery, Ranked, Result};

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
    let found = best.into_sorted();
    let held = words_held(connection, &found, &phrases)?;
    let ranked = |(found, held): (Found, u32)| Ranked {
        thread_id: query.threads[found.place].thread_id,
        seq: seq_of(found.row).unsigned_abs(),
        score: found.score,
        held,
    };
    Ok(found.into_iter().zip(held).map(ranked).collect())
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

/// Returns the words each message holds, as bits. A word is looked for once in all of them: the engine takes longer to
/// begin a search than to pass over a few thousand rows.
fn words_held(connection: &Connection, found: &[Found], phrases: &[Option<String>]) -> Result<Vec<u32>> {
    let mut held = vec![0; found.len()];
    let places: HashMap<i64, usize> = found.iter().enumerate().map(|(at, one)| (one.row, at)).collect();
    let mut ranges: BTreeMap<usize, (i64, i64)> = BTreeMap::new();
    for one in found {
        let (first, last) = ranges.entry(one.place).or_insert((one.row, one.row));
        (*first, *last) = (one.row.min(*first), one.row.max(*last));
    }
    let mut statement = connection.prepare_cached(
        "SELECT rowid FROM search_index WHERE search_index MATCH ?1 AND rowid >= ?2 AND rowid <= ?3",
    )?;
    for (number, phrase) in phrases.iter().enumerate() {
        let Some(phrase) = phrase else { continue };
        for (first, last) in ranges.values() {
            let mut rows = statement.query((phrase, first, last))?;
            while let Some(row) = rows.next()? {
                if let Some(at) = places.get(&row.get(0)?) {
                    held[*at] |= 1 << number;
                }
            }
        }
    }
    Ok(held)
}
