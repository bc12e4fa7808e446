//! Which messages of some threads hold any of some words, best first. No text is read, only the index; which words
//! matter, and what becomes of the messages, is the asker's matter.

use std::collections::HashMap;
use std::ops::Range;

use crate::engines::sql::Connection;
use protocol::ThreadId;

use super::candidates::{Question, candidates};
use super::index::Among;
use super::{check_words, index_row, phrases, seq_of, thread_of};
use crate::tables::columns::integer;
use crate::tables::events::rewinds::Superseding;
use crate::tables::{page_limit, threads};
use crate::{RankQuery, Ranked, Require, Result};

/// One above the highest seq there can be.
const SEQS: i64 = 1 << 32;

/// Returns the messages that hold any of the query's words, best first.
pub(crate) fn rank(db: &Connection, query: &RankQuery) -> Result<Vec<Ranked>> {
    page_limit("search results", query.limit)?;
    check_words(query.words.len())?;
    // A word without a letter or digit keeps its number and finds nothing.
    let phrases = phrases(db, &query.words);
    let mut parts: HashMap<i64, (ThreadId, Superseding)> = HashMap::new();
    let mut ranges: Vec<Range<i64>> = Vec::new();
    let mut rows = 0;
    for part in &query.threads {
        let Some((key, last_seq)) = threads::end(db, part.thread_id)? else { continue };
        if parts.contains_key(&key) {
            continue;
        }
        let before = part.before.map_or(SEQS, |seq| integer(seq).min(SEQS));
        ranges.push(index_row(key, 0)..index_row(key, 0) + before);
        rows += last_seq.min(before).unsigned_abs();
        parts.insert(key, (part.thread_id, Superseding::of(db, key)?));
    }
    let question = Question {
        phrases: &phrases,
        require: Require::Any,
        ranges: &ranges,
        among: &Among::All,
        rows,
        limit: query.limit,
    };
    let mut is_visible = |row: i64| {
        Ok(parts.get(&thread_of(row)).is_some_and(|(_, superseded)| !superseded.contains(seq_of(row))))
    };
    let found = candidates(db, &question, &mut is_visible)?;
    let ranked = |(row, score, held): (i64, f64, u32)| {
        let (thread_id, _) = parts.get(&thread_of(row))?;
        Some(Ranked { thread_id: *thread_id, seq: seq_of(row).unsigned_abs(), score, held })
    };
    let best = found.best.iter().take(query.limit).map(|one| (one.row, one.score, one.held));
    Ok(best.filter_map(ranked).collect())
}
