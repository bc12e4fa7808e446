//! How long the texts of rows are, in words: a word in a short text says more about it than in a long one. What else makes
//! a row good is not known here.

use super::index;
use crate::Result;
use crate::engines::sql::Connection;

/// The part of a row's score that its length changes.
const SHARE: f64 = 0.1;

/// Returns by how much what a row holds counts: 1 for a row of usual length among these, less for longer ones.
pub(super) fn factors(db: &Connection, rows: impl Iterator<Item = i64>) -> Result<Vec<f64>> {
    let rows: Vec<i64> = rows.collect();
    let lengths: Vec<f64> = index::lengths(db, &rows)?.into_iter().map(|length| length as f64).collect();
    let usual = (lengths.iter().sum::<f64>() / lengths.len().max(1) as f64).max(1.0);
    Ok(lengths.into_iter().map(|length| 1.0 / (1.0 - SHARE + SHARE * length / usual)).collect())
}
