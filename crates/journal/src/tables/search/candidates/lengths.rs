//! Length normalization of scores: a word in a short text is more significant than in a long one. Lengths are counted
//! in terms.

use super::super::index;
use crate::Result;
use crate::engines::sql::SqlConnection;

/// Share of a score that depends on the length of the row, from 0 to 1.
const LENGTH_WEIGHT: f64 = 0.1;

/// Returns a factor for the score of each row: 1 for a row of the average length of these rows, less for longer ones
/// and more for shorter ones.
pub(super) fn length_factors(db: &SqlConnection, rows: impl Iterator<Item = i64>) -> Result<Vec<f64>> {
    let rows: Vec<i64> = rows.collect();
    let lengths: Vec<f64> = index::row_lengths(db, &rows)?.into_iter().map(|length| length as f64).collect();
    let average = (lengths.iter().sum::<f64>() / lengths.len().max(1) as f64).max(1.0);
    Ok(lengths
        .into_iter()
        .map(|length| 1.0 / (1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * length / average))
        .collect())
}
