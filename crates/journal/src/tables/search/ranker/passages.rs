//! Groups candidates to passages of three consecutive messages that do not overlap. A passage is as probable as its
//! messages together.

use std::collections::{HashMap, HashSet};

use crate::engines::sql::SqlConnection;

use super::super::candidates::{RowPredicate, SearchCandidate, compare_candidates};
use super::message_texts::read_adjacent_rows;
use crate::Result;

/// A message with the rows of the messages directly before and after it, as far as they are near.
struct Passage {
    /// The message in the middle. Its score is that of the passage.
    middle: SearchCandidate,
    /// The rows of the other messages.
    adjacent: [Option<i64>; 2],
}

impl Passage {
    /// Returns the rows of all messages.
    fn rows(&self) -> impl Iterator<Item = i64> {
        self.adjacent.into_iter().flatten().chain([self.middle.row])
    }
}

/// Replaces the candidates by the messages in the middle of the best passages, with the scores of their passages. A
/// message without any word of the query can be in the middle, between two that match. `predicate` decides whether it
/// may be returned. A summary, a handoff or an item is a passage of its own.
pub(in super::super) fn group_passages(
    db: &SqlConnection,
    candidates: &mut Vec<SearchCandidate>,
    predicate: &mut RowPredicate<'_>,
) -> Result<()> {
    let adjacent = read_adjacent_rows(db, candidates)?;
    let probabilities: HashMap<i64, f64> =
        candidates.iter().map(|candidate| (candidate.row, candidate.score.exp())).collect();
    let followers: HashMap<i64, i64> = candidates
        .iter()
        .zip(&adjacent)
        .filter_map(|(candidate, [before, _])| Some(((*before)?, candidate.row)))
        .collect();
    let mut passages = Vec::with_capacity(candidates.len());
    for (candidate, [before, after]) in candidates.drain(..).zip(adjacent) {
        passages.push(Passage { middle: candidate, adjacent: [before, after] });
        let Some(between) = after.filter(|after| !probabilities.contains_key(after)) else { continue };
        if let Some(follower) = followers.get(&between)
            && predicate(between)?
        {
            let adjacent = [Some(candidate.row), Some(*follower)];
            passages.push(Passage { middle: SearchCandidate::without_words(between), adjacent });
        }
    }
    for passage in &mut passages {
        let sum: f64 = passage.rows().filter_map(|row| probabilities.get(&row)).sum();
        passage.middle.score = sum.ln();
    }
    passages.sort_unstable_by(|a, b| compare_candidates(&a.middle, &b.middle));
    let mut used: HashSet<i64> = HashSet::new();
    for passage in passages {
        if passage.rows().all(|row| !used.contains(&row)) {
            used.extend(passage.rows());
            candidates.push(passage.middle);
        }
    }
    Ok(())
}
