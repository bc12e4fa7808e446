//! Candidates of a search: the index rows that match some words, ranked. A message scores higher if it or its
//! neighbors contain the words, and if few messages contain them. Only the index is read, and no text.
//!
//! A word that very many messages contain says little, and reading all its rows would take as long as everything else
//! together. Such a common word selects no rows; it only raises the score of rows that rarer words have selected. The
//! visibility of rows is decided by the caller.

mod lengths;
pub(super) mod similarity;

use std::ops::{ControlFlow, Range};

use crate::engines::sql::SqlConnection;

use super::index::{self, MessageSubset, RowOrder, RowScope, SearchExpression};
use super::ranker;
use crate::{Result, WordMatchMode};

/// Maximum number of rows that the rare words of a query select together. It bounds the time and memory of a search.
const ROWS_MAX: usize = 5_000;
/// Maximum number of rows that are read per step if all words of a query are common.
const COMMON_WORD_ROWS_MAX: usize = 1_000;
/// Minimum number of best rows that are kept before length normalization.
const POOL_ROWS_MIN: usize = 512;
/// Maximum distance in seqs at which a word in a neighboring message still counts for a message.
pub(super) const PROXIMITY_SEQS: i64 = 6;
/// Number of messages of a thread with a word at which the word counts half in the feature of the thread.
const THREAD_SATURATION: f64 = 1.5;
/// Factor for each seq of distance, applied to the weight of a word in a neighboring message.
const PROXIMITY_WEIGHT: f64 = 0.6;

/// A query for candidates.
pub(super) struct CandidateQuery<'a> {
    /// The search expressions of the words, by word index; `None` for a word that cannot be searched.
    pub(super) phrases: &'a [Option<SearchExpression>],
    /// The match mode: all words, or any of them.
    pub(super) match_mode: WordMatchMode,
    /// The ranges of index rows to search.
    pub(super) ranges: &'a [Range<i64>],
    /// The messages of the ranges to search.
    pub(super) subset: &'a MessageSubset,
    /// Approximate number of rows in the ranges.
    pub(super) row_count: u64,
    /// Number of candidates that the caller needs.
    pub(super) limit: usize,
}

/// A matching index row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SearchCandidate {
    /// The row id.
    pub(super) row: i64,
    /// The words that it contains, as a bit set of word indexes.
    pub(super) matched_words: u32,
    /// The features that the index gives.
    pub(super) features: IndexFeatures,
    /// The nearest earlier match of the same thread, if there is one within [`PROXIMITY_SEQS`].
    pub(super) preceding: Option<PrecedingMatch>,
    /// The standard score of its similarity to the question; 0 if it is not known. See [`similarity::StandardScores`].
    pub(super) standard_score: f64,
    /// The score: the sum of the weighted features. `ranker` computes it; it may be negative.
    pub(super) score: f64,
}

impl SearchCandidate {
    /// Returns a candidate that contains no word of the query.
    pub(super) fn without_words(row: i64) -> Self {
        Self {
            row,
            matched_words: 0,
            features: IndexFeatures::default(),
            preceding: None,
            standard_score: 0.0,
            score: 0.0,
        }
    }
}

/// The features of a candidate that the index gives, as shares of the weight of all words of the query.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct IndexFeatures {
    /// The words that it contains, from 0 to 1.
    pub(super) own: f64,
    /// The words that it or the messages around it contain, from 0 to 2.
    pub(super) window: f64,
    /// The words of its thread, from 0 to 1.
    pub(super) thread: f64,
}

/// A match shortly before another match.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PrecedingMatch {
    /// The row id.
    pub(super) row: i64,
    /// The words that it contains; see [`IndexFeatures::own`].
    pub(super) own: f64,
}

/// The matching rows of a query.
#[derive(Debug, Default)]
pub(super) struct SearchCandidates {
    /// The best candidates by the index alone in descending order of score; of equal scores the newer row first. At
    /// least twice as many as needed, if there are so many.
    pub(super) best: Vec<SearchCandidate>,
    /// All other candidates in the same order, without length normalization. Used if too many of the best candidates
    /// are copies of each other.
    pub(super) others: Vec<SearchCandidate>,
}

/// A predicate that decides whether a row may be returned.
pub(super) type RowPredicate<'a> = dyn FnMut(i64) -> Result<bool> + 'a;

/// Returns the rows that match a query, ranked.
pub(super) fn find_candidates(
    db: &SqlConnection,
    query: &CandidateQuery<'_>,
    predicate: &mut RowPredicate<'_>,
) -> Result<SearchCandidates> {
    let mut reader = PostingReader { db, ranges: query.ranges, subset: query.subset, predicate };
    let words: Vec<(usize, &SearchExpression)> = query
        .phrases
        .iter()
        .enumerate()
        .filter_map(|(word, phrase)| Some((word, phrase.as_ref()?)))
        .collect();
    let (postings, counts) = match (query.match_mode, &words[..]) {
        (_, []) => return Ok(SearchCandidates::default()),
        (WordMatchMode::All, _) => reader.rows_with_all(&words)?,
        (WordMatchMode::Any, _) => reader.rows_with_any(&words)?,
    };
    let weights = word_weights(&postings, &counts, query.row_count);
    let mut best = measure_postings(&postings, &weights);
    ranker::score_by_index(&mut best, words.len());
    let pool = POOL_ROWS_MIN.max(query.limit * 2);
    let mut others = Vec::new();
    if best.len() > pool {
        best.select_nth_unstable_by(pool, compare_candidates);
        others = best.split_off(pool);
        others.sort_unstable_by(compare_candidates);
    }
    let factors = lengths::length_factors(db, best.iter().map(|candidate| candidate.row))?;
    for (candidate, factor) in best.iter_mut().zip(factors) {
        candidate.features.own *= factor;
    }
    ranker::score_by_index(&mut best, words.len());
    best.sort_unstable_by(compare_candidates);
    Ok(SearchCandidates { best, others })
}

/// Orders candidates by descending score, and by descending row id for equal scores.
pub(super) fn compare_candidates(a: &SearchCandidate, b: &SearchCandidate) -> std::cmp::Ordering {
    b.score.total_cmp(&a.score).then(b.row.cmp(&a.row))
}

/// A row id with the words that the row contains, as a bit set.
type Posting = (i64, u32);

/// The number of rows of each word; `None` if there are too many to count.
type WordRowCounts = Vec<(usize, Option<usize>)>;

/// Reads the rows of words from the index.
struct PostingReader<'a, 'b> {
    /// The connection.
    db: &'a SqlConnection<'a>,
    /// The ranges of rows to search.
    ranges: &'a [Range<i64>],
    /// The messages of the ranges to search.
    subset: &'a MessageSubset,
    /// Decides which rows may be returned.
    predicate: &'a mut RowPredicate<'b>,
}

impl PostingReader<'_, '_> {
    /// Returns the rows that contain all words. If there are too many, the newest are returned.
    fn rows_with_all(
        &mut self,
        words: &[(usize, &SearchExpression)],
    ) -> Result<(Vec<Posting>, WordRowCounts)> {
        let phrases: Vec<&SearchExpression> = words.iter().map(|(_, phrase)| *phrase).collect();
        let mask = words.iter().fold(0, |mask, (word, _)| mask | 1 << word);
        let rows = self.matching_rows(&self.all_expression(&phrases), RowOrder::Descending, ROWS_MAX)?;
        let count = Some(rows.len());
        let mut postings: Vec<Posting> = rows.into_iter().map(|row| (row, mask)).collect();
        postings.sort_unstable();
        Ok((postings, words.iter().map(|(word, _)| (*word, count)).collect()))
    }

    /// Returns the rows that contain any of the rare words, each with all its words. If all words are common, returns
    /// some rows that contain several of them.
    fn rows_with_any(
        &mut self,
        query_words: &[(usize, &SearchExpression)],
    ) -> Result<(Vec<Posting>, WordRowCounts)> {
        let mut words = Vec::with_capacity(query_words.len());
        for (word, phrase) in query_words {
            let rows = self.matching_rows(phrase, RowOrder::Ascending, ROWS_MAX + 1)?;
            if !rows.is_empty() {
                words.push((*word, *phrase, rows));
            }
        }
        // Rarest word first. Reading a word stops at a limit; of words that reached it, the one whose rows extend
        // furthest is the rarest.
        words.sort_by_key(|(_, _, rows)| (rows.len(), std::cmp::Reverse(rows.last().copied())));
        let mut remaining = ROWS_MAX;
        let rare = words
            .iter()
            .take_while(|(_, _, rows)| {
                let fits = rows.len() <= remaining;
                remaining = remaining.saturating_sub(rows.len());
                fits
            })
            .count();
        if rare == 0 {
            let common: Vec<(usize, &SearchExpression)> =
                words.iter().map(|(word, phrase, _)| (*word, *phrase)).collect();
            return self.rows_with_common_words(&common);
        }
        let (rare, common) = words.split_at(rare);
        let rare_postings = rare.iter().flat_map(|(word, _, rows)| rows.iter().map(|row| (*row, 1 << *word)));
        let mut postings = merge_postings(rare_postings.collect());
        let phrases: Vec<&SearchExpression> = rare.iter().map(|(_, phrase, _)| *phrase).collect();
        let any_rare = SearchExpression::any(self.db.dialect(), &phrases);
        let mut counts: WordRowCounts =
            rare.iter().map(|(word, _, rows)| (*word, Some(rows.len()))).collect();
        for (word, phrase, _) in common {
            let rows = self.matching_rows(
                &self.all_expression(&[phrase, &any_rare]),
                RowOrder::Ascending,
                ROWS_MAX,
            )?;
            mark_word(&mut postings, *word, &rows);
            counts.push((*word, None));
        }
        Ok((postings, counts))
    }

    /// Returns some of the rows that contain common words, for a query without rare words. `words` is ordered by
    /// frequency, rarest first. The rows contain the first two words; if there are few of these, the first word.
    fn rows_with_common_words(
        &mut self,
        words: &[(usize, &SearchExpression)],
    ) -> Result<(Vec<Posting>, WordRowCounts)> {
        let Some((_, first)) = words.first() else { return Ok((Vec::new(), WordRowCounts::new())) };
        let second = words.get(1).map(|(_, phrase)| *phrase);
        let mut rows = match second {
            Some(second) => self.matching_rows(
                &self.all_expression(&[first, second]),
                RowOrder::Descending,
                COMMON_WORD_ROWS_MAX,
            )?,
            None => Vec::new(),
        };
        if rows.len() < COMMON_WORD_ROWS_MAX / 2 {
            rows.extend(self.matching_rows(first, RowOrder::Descending, COMMON_WORD_ROWS_MAX)?);
        }
        let mut postings = merge_postings(rows.into_iter().map(|row| (row, 0)).collect());
        let ranges = restrict_ranges(self.ranges, &postings);
        let mut restricted = PostingReader {
            db: self.db,
            ranges: &ranges,
            subset: self.subset,
            predicate: &mut *self.predicate,
        };
        for (word, phrase) in words {
            let rows = restricted.matching_rows(
                &restricted.all_expression(&[phrase, first]),
                RowOrder::Ascending,
                usize::MAX,
            )?;
            mark_word(&mut postings, *word, &rows);
        }
        Ok((postings, words.iter().map(|(word, _)| (*word, None)).collect()))
    }

    /// Returns the expression for rows that match all given expressions.
    fn all_expression(&self, expressions: &[&SearchExpression]) -> SearchExpression {
        SearchExpression::all(self.db.dialect(), expressions)
    }

    /// Returns the rows that match an expression and satisfy the predicate, at most `limit` of each range.
    fn matching_rows(
        &mut self,
        expression: &SearchExpression,
        order: RowOrder,
        limit: usize,
    ) -> Result<Vec<i64>> {
        let mut matches = Vec::new();
        for range in self.ranges {
            let target = matches.len().saturating_add(limit);
            index::for_each_row(
                self.db,
                expression,
                RowScope { range, subset: self.subset },
                order,
                |row| {
                    if (self.predicate)(row)? {
                        matches.push(row);
                    }
                    Ok(match matches.len() < target {
                        true => ControlFlow::Continue(()),
                        false => ControlFlow::Break(()),
                    })
                },
            )?;
        }
        Ok(matches)
    }
}

/// Merges postings of the same row. Returns them in ascending order of rows.
fn merge_postings(mut postings: Vec<Posting>) -> Vec<Posting> {
    postings.sort_unstable();
    postings.dedup_by(|later, first| {
        let is_same = later.0 == first.0;
        if is_same {
            first.1 |= later.1;
        }
        is_same
    });
    postings
}

/// Adds a word to the postings of these rows.
fn mark_word(postings: &mut [Posting], word: usize, rows: &[i64]) {
    for row in rows {
        if let Ok(index) = postings.binary_search_by_key(row, |posting| posting.0) {
            postings[index].1 |= 1 << word;
        }
    }
}

/// Restricts each range to the part from its first posting on. Ranges without postings are left out.
fn restrict_ranges(ranges: &[Range<i64>], postings: &[Posting]) -> Vec<Range<i64>> {
    let restrict = |range: &Range<i64>| {
        let first = postings[postings.partition_point(|posting| posting.0 < range.start)..].first()?;
        (first.0 < range.end).then_some(first.0..range.end)
    };
    ranges.iter().filter_map(restrict).collect()
}

/// Returns the weight of each word, by word index: the fewer rows contain a word, the higher its weight. It is the
/// logarithm of an inverse document frequency.
fn word_weights(postings: &[Posting], counts: &WordRowCounts, rows: u64) -> [f64; u32::BITS as usize] {
    let row_count = (rows as f64).max(postings.len() as f64).max(1.0);
    let mut weights = [0.0; u32::BITS as usize];
    for (word, count) in counts {
        let share = match count {
            Some(count) => (*count).max(1) as f64 / row_count,
            // A common word is assumed to be as frequent in other rows as in the selected ones.
            None => {
                let matching = postings.iter().filter(|(_, mask)| mask & (1 << word) != 0).count();
                (matching.max(1) as f64 / postings.len().max(1) as f64).max(ROWS_MAX as f64 / row_count)
            }
        };
        weights[*word] = (1.0 + 1.0 / share.min(1.0)).ln();
    }
    weights
}

/// Returns the candidates of the postings, which are in ascending order of rows, with the features that the index
/// gives. Each feature is divided by the weight of all words, so that queries of any length are comparable.
fn measure_postings(postings: &[Posting], weights: &[f64]) -> Vec<SearchCandidate> {
    let total = weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let own_weights: Vec<f64> =
        postings.iter().map(|(_, words)| weight_of(weights, *words) / total).collect();
    let mut candidates = Vec::with_capacity(postings.len());
    let mut thread_weight = 0.0;
    let mut thread_end = 0;
    for (index, (row, words)) in postings.iter().enumerate() {
        if index >= thread_end {
            thread_end = index + thread_length(&postings[index..]);
            thread_weight = saturated_thread_weight(&postings[index..thread_end], weights) / total;
        }
        let features = IndexFeatures {
            own: own_weights[index],
            window: window_weight(postings, index, weights) / total,
            thread: thread_weight,
        };
        let preceding = index
            .checked_sub(1)
            .filter(|before| is_near(postings[*before].0, *row))
            .map(|before| PrecedingMatch { row: postings[before].0, own: own_weights[before] });
        candidates.push(SearchCandidate {
            row: *row,
            matched_words: *words,
            features,
            preceding,
            standard_score: 0.0,
            score: 0.0,
        });
    }
    candidates
}

/// Returns the total weight of a set of words.
fn weight_of(weights: &[f64], words: u32) -> f64 {
    weights.iter().enumerate().filter(|(word, _)| words & (1 << word) != 0).map(|(_, weight)| weight).sum()
}

/// Returns the number of postings at the beginning that belong to one thread. A document is a thread of its own.
fn thread_length(postings: &[Posting]) -> usize {
    let Some((first, _)) = postings.first() else { return 0 };
    match *first < 0 {
        true => 1,
        false => postings.partition_point(|(row, _)| row >> 32 <= first >> 32),
    }
}

/// Returns the weight of the words of a thread. A word counts more if more messages of the thread contain it, up to
/// its whole weight.
fn saturated_thread_weight(postings: &[Posting], weights: &[f64]) -> f64 {
    let counted = weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0).map(|(word, weight)| {
        let count = postings.iter().filter(|(_, words)| words & (1 << word) != 0).count() as f64;
        weight * count / (count + THREAD_SATURATION)
    });
    counted.sum()
}

/// Returns the weight of the words in a message and in the messages around it. A word counts less the further away it
/// is, and repetitions add less and less.
fn window_weight(postings: &[Posting], index: usize, weights: &[f64]) -> f64 {
    let (row, own) = postings[index];
    let mut counts = [0.0; u32::BITS as usize];
    add_words(&mut counts, own, 1.0);
    let before = postings[..index].iter().rev();
    for (neighbor, words) in before.take_while(|(neighbor, _)| is_near(*neighbor, row)) {
        add_words(&mut counts, *words, proximity_share(row - neighbor));
    }
    let after = postings[index + 1..].iter();
    for (neighbor, words) in after.take_while(|(neighbor, _)| is_near(row, *neighbor)) {
        add_words(&mut counts, *words, proximity_share(neighbor - row));
    }
    weights.iter().zip(counts).map(|(weight, count)| weight * 2.0 * count / (count + 1.0)).sum()
}

/// Adds a share of one occurrence to the counts of a set of words.
fn add_words(counts: &mut [f64; u32::BITS as usize], words: u32, share: f64) {
    let mut remaining = words;
    while remaining != 0 {
        counts[remaining.trailing_zeros() as usize] += share;
        remaining &= remaining - 1;
    }
}

/// Returns the share at which a word counts at a distance of seqs.
fn proximity_share(distance: i64) -> f64 {
    PROXIMITY_WEIGHT.powi(i32::try_from(distance).unwrap_or(i32::MAX))
}

/// Returns whether `later` is a message of the same thread as `earlier` that follows within [`PROXIMITY_SEQS`].
const fn is_near(earlier: i64, later: i64) -> bool {
    earlier >= 0 && earlier >> 32 == later >> 32 && later - earlier <= PROXIMITY_SEQS
}
