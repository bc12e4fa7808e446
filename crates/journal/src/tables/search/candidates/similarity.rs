//! The messages whose meaning is closest to that of a question. All embeddings in the scope are compared, which takes about a
//! microsecond for each; an index of vectors would be faster for millions of messages, and would miss some.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};
use std::ops::{ControlFlow, Range};

use super::super::index::MessageSubset;
use super::super::index_update::embeddings::{first_vector, vector_row};
use super::RowPredicate;
use crate::engines::sql::{SqlConnection, SqlRow};
use crate::{EMBEDDED_PARTS_MAX, Embedding, Result};

/// Maximum number of embeddings that are compared, those of the newest threads first. It bounds the time of a search.
const VECTORS_MAX: usize = 1_000_000;
/// Number of the closest messages that are returned.
const CLOSEST_MAX: usize = 100;
/// Number of messages that are assumed besides those that are compared. Without them, the closest of three messages would look as
/// close as the closest of a thousand.
const ASSUMED_MESSAGES: f64 = 10.0;
/// The standard deviation of the similarities of the assumed messages.
const ASSUMED_DEVIATION: f64 = 0.1;

/// The embeddings that are compared.
pub(in super::super) struct SimilarityQuery<'a> {
    /// The embedding of the question.
    pub(in super::super) question: &'a Embedding,
    /// The key of the model.
    pub(in super::super) model_key: i64,
    /// The ranges of index rows.
    pub(in super::super) ranges: &'a [Range<i64>],
    /// The messages of the ranges.
    pub(in super::super) subset: &'a MessageSubset,
}

/// The standard scores (z-scores) of the similarity of messages to a question: how many standard deviations a message is more similar
/// than the average one.
#[derive(Debug, Default)]
pub(in super::super) struct StandardScores {
    /// The scores of the rows that were asked for, as far as they have embeddings.
    pub(in super::super) of_candidates: HashMap<i64, f64>,
    /// Number of rows that were compared.
    pub(in super::super) compared: u64,
    /// The closest rows, with their scores, in no order.
    pub(in super::super) closest: Vec<(i64, f64)>,
}

/// A row with its similarity.
#[derive(PartialEq)]
struct SimilarRow {
    similarity: f64,
    row: i64,
}

impl Eq for SimilarRow {}

impl PartialOrd for SimilarRow {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SimilarRow {
    fn cmp(&self, other: &Self) -> Ordering {
        self.similarity.total_cmp(&other.similarity).then(self.row.cmp(&other.row))
    }
}

/// Compares the embeddings of a query, and returns the scores of `candidates` and of the closest rows that satisfy the predicate.
pub(in super::super) fn measure_standard_scores(
    db: &SqlConnection,
    query: &SimilarityQuery<'_>,
    candidates: impl Iterator<Item = i64>,
    predicate: &mut RowPredicate<'_>,
) -> Result<StandardScores> {
    let mut comparison = Comparison {
        of_candidates: candidates.map(|row| (row, None)).collect(),
        closest: BinaryHeap::new(),
        statistics: Statistics::default(),
        predicate,
    };
    let mut current: Option<SimilarRow> = None;
    let mut compared = 0;
    for_each_vector(db, query, |row| {
        let (vector_id, similarity) = (row.get::<_, i64>(0)?, query.question.similarity(&row.get_blob(1)?));
        let Some(similarity) = similarity else { return Ok(ControlFlow::Continue(())) };
        let row = vector_row(vector_id);
        match &mut current {
            // The parts of a message follow each other. The closest one counts.
            Some(open) if open.row == row => open.similarity = open.similarity.max(similarity),
            _ => {
                if let Some(finished) = current.replace(SimilarRow { similarity, row }) {
                    comparison.add(finished)?;
                }
            }
        }
        compared += 1;
        Ok(if compared < VECTORS_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    if let Some(finished) = current {
        comparison.add(finished)?;
    }
    Ok(comparison.finish())
}

/// The state of a comparison.
struct Comparison<'a, 'b> {
    /// The rows that were asked for, with their similarities.
    of_candidates: HashMap<i64, Option<f64>>,
    /// The closest rows so far; the least similar one is on top.
    closest: BinaryHeap<Reverse<SimilarRow>>,
    /// The similarities so far.
    statistics: Statistics,
    /// Decides which rows may be returned.
    predicate: &'a mut RowPredicate<'b>,
}

impl Comparison<'_, '_> {
    /// Adds a row of which all parts were compared.
    fn add(&mut self, row: SimilarRow) -> Result<()> {
        self.statistics.add(row.similarity);
        if let Some(similarity) = self.of_candidates.get_mut(&row.row) {
            *similarity = Some(row.similarity);
        }
        let is_close = self.closest.len() < CLOSEST_MAX
            || self.closest.peek().is_some_and(|Reverse(least)| row > *least);
        // The predicate may read the database, so it decides only on the few rows that are close.
        if is_close && (self.predicate)(row.row)? {
            self.closest.push(Reverse(row));
            if self.closest.len() > CLOSEST_MAX {
                self.closest.pop();
            }
        }
        Ok(())
    }

    /// Returns the standard scores.
    fn finish(self) -> StandardScores {
        let statistics = self.statistics;
        let known = self.of_candidates.into_iter();
        StandardScores {
            compared: statistics.count as u64,
            of_candidates: known
                .filter_map(|(row, similarity)| Some((row, statistics.standard_score(similarity?))))
                .collect(),
            closest: self
                .closest
                .into_iter()
                .map(|Reverse(row)| (row.row, statistics.standard_score(row.similarity)))
                .collect(),
        }
    }
}

/// The number, mean and variance of similarities, updated with each of them (Welford).
#[derive(Debug, Clone, Copy, Default)]
struct Statistics {
    count: f64,
    mean: f64,
    /// The sum of the squared differences from the mean.
    squares: f64,
}

impl Statistics {
    /// Adds a similarity.
    fn add(&mut self, similarity: f64) {
        self.count += 1.0;
        let difference = similarity - self.mean;
        self.mean += difference / self.count;
        self.squares += difference * (similarity - self.mean);
    }

    /// Returns how many standard deviations a similarity is above the mean.
    fn standard_score(self, similarity: f64) -> f64 {
        let squares = self.squares + ASSUMED_MESSAGES * ASSUMED_DEVIATION * ASSUMED_DEVIATION;
        (similarity - self.mean) / (squares / (self.count + ASSUMED_MESSAGES)).sqrt()
    }
}

/// Passes the id and the embedding of each vector to `visit`, those of newer threads first, until it breaks.
fn for_each_vector(
    db: &SqlConnection,
    query: &SimilarityQuery<'_>,
    mut visit: impl FnMut(&SqlRow<'_>) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let bounded = "v.model_key = $1 AND v.vector_id >= $2 AND v.vector_id < $3";
    let newest_first = "ORDER BY v.vector_id DESC";
    // Documents have no embeddings.
    for range in query.ranges.iter().filter(|range| range.start >= 0) {
        let end = if range.end == i64::MAX { i64::MAX } else { first_vector(range.end) };
        let bounds = (query.model_key, first_vector(range.start), end);
        match query.subset {
            MessageSubset::All | MessageSubset::Threads(_) => db
                .prepare(&format!("SELECT v.vector_id, v.vector FROM embeddings v WHERE {bounded} {newest_first}"))?
                .stream_rows(bounds, &mut visit)?,
            MessageSubset::Matching { assistant_id, owner } => db
                .prepare(&format!(
                    "SELECT v.vector_id, v.vector FROM embeddings v JOIN thread_heads h ON h.thread_key = v.vector_id >> {THREAD_SHIFT}
                     WHERE {bounded} AND (CAST($4 AS TEXT) IS NULL OR h.assistant_id = $4)
                         AND (CAST($5 AS TEXT) IS NULL OR h.owner = $5) {newest_first}"
                ))?
                .stream_rows(
                    (bounds.0, bounds.1, bounds.2, assistant_id.as_deref(), owner.as_deref()),
                    &mut visit,
                )?,
        }
    }
    Ok(())
}

/// Number of bits of a vector's id below the key of the thread.
const THREAD_SHIFT: u32 = u32::BITS + EMBEDDED_PARTS_MAX.ilog2();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standard_score_counts_standard_deviations_and_trusts_few_messages_less() {
        let standard_score_of_best = |others: usize| {
            let mut statistics = Statistics::default();
            (0..others).for_each(|number| statistics.add(0.3 + 0.01 * (number % 3) as f64));
            statistics.add(0.5);
            statistics.standard_score(0.5)
        };
        assert!(standard_score_of_best(2) < 2.0, "{}", standard_score_of_best(2));
        assert!(standard_score_of_best(1_000) > 9.0, "{}", standard_score_of_best(1_000));
        assert!(standard_score_of_best(10) < standard_score_of_best(100));
    }
}
