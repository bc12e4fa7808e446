//! Which rows of the index answer some words, best first. A message says more when the words stand in it or near it, and
//! when few messages hold them; no text is read for that, only where words are.
//!
//! A word that very many messages hold tells little, and reading all its places would take as long as everything else
//! together. Such a word finds nothing by itself: it only counts where the telling ones are. What the rows stand for, and
//! who may see them, is the asker's matter.

use std::ops::{ControlFlow, Range};

use crate::engines::sql::Connection;

use super::index::{self, Among, Expression, Order, RowScope};
use super::lengths;
use crate::{Require, Result};

/// Rows that the telling words together may have; it bounds what one search reads and holds.
const ROWS_MAX: usize = 5_000;
/// Rows that are read of the words of a question in which all words are usual.
const USUAL_ROWS_MAX: usize = 1_000;
/// The best rows, whose lengths are looked at, when few are asked for.
const POOL_ROWS_MIN: usize = 512;
/// A word said so many seqs before or after a message counts for it too, …
const NEAR_SEQS: i64 = 6;
/// … by this part, once for every seq in between.
const NEAR_SHARE: f64 = 0.6;

/// What is asked.
pub(super) struct Question<'a> {
    /// The words in the engine's language, at their numbers; `None` for one that cannot be found.
    pub(super) phrases: &'a [Option<Expression>],
    /// How many of them must be there.
    pub(super) require: Require,
    /// The rows that are looked through.
    pub(super) ranges: &'a [Range<i64>],
    /// Which messages of them.
    pub(super) among: &'a Among,
    /// How many rows there are in these ranges, about.
    pub(super) rows: u64,
    /// How many candidates are needed.
    pub(super) limit: usize,
}

/// A row that answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub(super) row: i64,
    /// The words it holds, as bits.
    pub(super) held: u32,
    /// How well it answers, above 0.
    pub(super) score: f64,
}

/// The rows that answer.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// At least twice as many as are needed, where there are so many: best first, and of equally good ones the later.
    pub(super) best: Vec<Candidate>,
    /// All others, in the same order, for who finds that too many of the best are one and the same. Their lengths were not
    /// looked at.
    pub(super) others: Vec<Candidate>,
}

/// Tells whether a row may be found.
pub(super) type Admits<'a> = dyn FnMut(i64) -> Result<bool> + 'a;

/// Returns the rows that answer.
pub(super) fn candidates(
    db: &Connection,
    question: &Question<'_>,
    admits: &mut Admits<'_>,
) -> Result<Candidates> {
    let mut reading = Reading { db, ranges: question.ranges, among: question.among, admits };
    let said: Vec<(usize, &Expression)> = question
        .phrases
        .iter()
        .enumerate()
        .filter_map(|(word, phrase)| Some((word, phrase.as_ref()?)))
        .collect();
    let (entries, counts) = match (question.require, &said[..]) {
        (_, []) => return Ok(Candidates::default()),
        (Require::Every, _) => reading.all_of(&said)?,
        (Require::Any, _) => reading.any_of(&said)?,
    };
    let weights = weights(&entries, &counts, question.rows);
    let mut scored = scored(&entries, &weights);
    let pool = POOL_ROWS_MIN.max(question.limit * 2);
    let mut others = Vec::new();
    if scored.len() > pool {
        scored.select_nth_unstable_by(pool, |(a, _), (b, _)| best_first(a, b));
        others = scored.split_off(pool).into_iter().map(|(one, _)| one).collect();
        others.sort_unstable_by(best_first);
    }
    let factors = lengths::factors(db, scored.iter().map(|(one, _)| one.row))?;
    let mut best: Vec<Candidate> = scored
        .into_iter()
        .zip(factors)
        .map(|((one, own), factor)| Candidate { score: one.score - own + own * factor, ..one })
        .collect();
    best.sort_unstable_by(best_first);
    Ok(Candidates { best, others })
}

/// The order of an answer.
pub(super) fn best_first(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    b.score.total_cmp(&a.score).then(b.row.cmp(&a.row))
}

/// A row with the words it holds.
type Entry = (i64, u32);

/// Of each word in how many rows it is; `None` when there are too many to count.
type Counts = Vec<(usize, Option<usize>)>;

/// Reads where words are.
struct Reading<'a, 'b> {
    db: &'a Connection<'a>,
    ranges: &'a [Range<i64>],
    among: &'a Among,
    admits: &'a mut Admits<'b>,
}

impl Reading<'_, '_> {
    /// Returns the rows that hold all the words, the later ones when there are very many.
    fn all_of(&mut self, said: &[(usize, &Expression)]) -> Result<(Vec<Entry>, Counts)> {
        let phrases: Vec<&Expression> = said.iter().map(|(_, phrase)| *phrase).collect();
        let held = said.iter().fold(0, |held, (word, _)| held | 1 << word);
        let rows = self.rows(&self.all(&phrases), Order::Descending, ROWS_MAX)?;
        let count = Some(rows.len());
        let mut entries: Vec<Entry> = rows.into_iter().map(|row| (row, held)).collect();
        entries.sort_unstable();
        Ok((entries, said.iter().map(|(word, _)| (*word, count)).collect()))
    }

    /// Returns the rows that hold any of the words that tell something, each with all its words.
    fn any_of(&mut self, said: &[(usize, &Expression)]) -> Result<(Vec<Entry>, Counts)> {
        let mut words = Vec::with_capacity(said.len());
        for (word, phrase) in said {
            let rows = self.rows(phrase, Order::Ascending, ROWS_MAX + 1)?;
            if !rows.is_empty() {
                words.push((*word, *phrase, rows));
            }
        }
        // The rarest first: of those that are cut off it is the one whose rows reach furthest.
        words.sort_by_key(|(_, _, rows)| (rows.len(), std::cmp::Reverse(rows.last().copied())));
        let mut left = ROWS_MAX;
        let telling = words
            .iter()
            .take_while(|(_, _, rows)| {
                let fits = rows.len() <= left;
                left = left.saturating_sub(rows.len());
                fits
            })
            .count();
        if telling == 0 {
            let usual: Vec<(usize, &Expression)> =
                words.iter().map(|(word, phrase, _)| (*word, *phrase)).collect();
            return self.any_of_usual(&usual);
        }
        let (telling, usual) = words.split_at(telling);
        let places = telling.iter().flat_map(|(word, _, rows)| rows.iter().map(|row| (*row, 1 << *word)));
        let mut entries = merged(places.collect());
        let phrases: Vec<&Expression> = telling.iter().map(|(_, phrase, _)| *phrase).collect();
        let places = Expression::any(self.db.dialect(), &phrases);
        let mut counts: Counts = telling.iter().map(|(word, _, rows)| (*word, Some(rows.len()))).collect();
        for (word, phrase, _) in usual {
            let rows = self.rows(&self.all(&[phrase, &places]), Order::Ascending, ROWS_MAX)?;
            hold(&mut entries, *word, &rows);
            counts.push((*word, None));
        }
        Ok((entries, counts))
    }

    /// Returns some of the rows that hold words of which every one is in very many, the rarest word first: those that
    /// hold the first two, and where these are few those that hold the first.
    fn any_of_usual(&mut self, words: &[(usize, &Expression)]) -> Result<(Vec<Entry>, Counts)> {
        let Some((_, first)) = words.first() else { return Ok((Vec::new(), Counts::new())) };
        let second = words.get(1).map(|(_, phrase)| *phrase);
        let mut rows = match second {
            Some(second) => self.rows(&self.all(&[first, second]), Order::Descending, USUAL_ROWS_MAX)?,
            None => Vec::new(),
        };
        if rows.len() < USUAL_ROWS_MAX / 2 {
            rows.extend(self.rows(first, Order::Descending, USUAL_ROWS_MAX)?);
        }
        let mut entries = merged(rows.into_iter().map(|row| (row, 0)).collect());
        let ranges = reached(self.ranges, &entries);
        let mut narrowed =
            Reading { db: self.db, ranges: &ranges, among: self.among, admits: &mut *self.admits };
        for (word, phrase) in words {
            let rows = narrowed.rows(&narrowed.all(&[phrase, first]), Order::Ascending, usize::MAX)?;
            hold(&mut entries, *word, &rows);
        }
        Ok((entries, words.iter().map(|(word, _)| (*word, None)).collect()))
    }

    fn all(&self, of: &[&Expression]) -> Expression {
        Expression::all(self.db.dialect(), of)
    }

    /// Returns the rows that an expression finds and that may be found, at most so many of each range.
    fn rows(&mut self, expression: &Expression, order: Order, limit: usize) -> Result<Vec<i64>> {
        let mut found = Vec::new();
        for range in self.ranges {
            let most = found.len().saturating_add(limit);
            index::each_row(self.db, expression, RowScope { range, among: self.among }, order, |row| {
                if (self.admits)(row)? {
                    found.push(row);
                }
                Ok(match found.len() < most {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                })
            })?;
        }
        Ok(found)
    }
}

/// Returns one entry for each row, in order, with all its words.
fn merged(mut places: Vec<Entry>) -> Vec<Entry> {
    places.sort_unstable();
    places.dedup_by(|later, first| {
        let is_same = later.0 == first.0;
        if is_same {
            first.1 |= later.1;
        }
        is_same
    });
    places
}

/// Notes that the entries of these rows hold the word.
fn hold(entries: &mut [Entry], word: usize, rows: &[i64]) {
    for row in rows {
        if let Ok(at) = entries.binary_search_by_key(row, |entry| entry.0) {
            entries[at].1 |= 1 << word;
        }
    }
}

/// Returns of each range the part that the entries reach from.
fn reached(ranges: &[Range<i64>], entries: &[Entry]) -> Vec<Range<i64>> {
    let narrowed = |range: &Range<i64>| {
        let first = entries[entries.partition_point(|entry| entry.0 < range.start)..].first()?;
        (first.0 < range.end).then_some(first.0..range.end)
    };
    ranges.iter().filter_map(narrowed).collect()
}

/// Returns how much each word says, at its number: the fewer rows hold it, the more.
fn weights(entries: &[Entry], counts: &Counts, rows: u64) -> [f64; u32::BITS as usize] {
    let all = (rows as f64).max(entries.len() as f64).max(1.0);
    let mut weights = [0.0; u32::BITS as usize];
    for (word, count) in counts {
        let share = match count {
            Some(count) => (*count).max(1) as f64 / all,
            // Where the telling words are it is about as frequent as elsewhere.
            None => {
                let holding = entries.iter().filter(|(_, held)| held & (1 << word) != 0).count();
                (holding.max(1) as f64 / entries.len().max(1) as f64).max(ROWS_MAX as f64 / all)
            }
        };
        weights[*word] = (1.0 + 1.0 / share.min(1.0)).ln();
    }
    weights
}

/// Returns the entries with their scores, and the part of each score that the row's own words make up.
fn scored(entries: &[Entry], weights: &[f64]) -> Vec<(Candidate, f64)> {
    let weight = |held: u32| -> f64 {
        weights.iter().enumerate().filter(|(word, _)| held & (1 << word) != 0).map(|(_, weight)| weight).sum()
    };
    let near = |at: usize, lacking: u32| {
        let (row, _) = entries[at];
        let mut lacking = lacking;
        let (mut before, mut after) = (at, at + 1);
        let mut sum = 0.0;
        let mut share = 1.0;
        for distance in 1..=NEAR_SEQS {
            share *= NEAR_SHARE;
            let mut held = 0;
            if before > 0 && is_near(row, entries[before - 1].0, distance) {
                before -= 1;
                held |= entries[before].1;
            }
            if after < entries.len() && is_near(row, entries[after].0, distance) {
                held |= entries[after].1;
                after += 1;
            }
            sum += weight(held & lacking) * share;
            lacking &= !held;
            if lacking == 0 {
                break;
            }
        }
        sum
    };
    let score = |(at, (row, held)): (usize, &Entry)| {
        let own = weight(*held);
        (Candidate { row: *row, held: *held, score: own + near(at, !held) }, own)
    };
    entries.iter().enumerate().map(score).collect()
}

/// Returns whether two rows are messages of one thread that are exactly so many seqs apart.
const fn is_near(one: i64, other: i64, distance: i64) -> bool {
    one >= 0 && one >> 32 == other >> 32 && (one - other).abs() == distance
}
