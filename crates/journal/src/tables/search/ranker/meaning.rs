//! Adds the meaning of messages to the scores of candidates, and messages that are close in meaning but share no word with the
//! question.

use std::collections::HashSet;

use super::super::MEANING_WORDS_MIN;
use super::super::candidates::similarity::{SimilarityQuery, StandardScores, measure_standard_scores};
use super::super::candidates::{
    CandidateQuery, RowPredicate, SearchCandidate, SearchCandidates, compare_candidates,
};
use super::super::index_update::embeddings;
use super::score_by_index;
use crate::engines::sql::SqlConnection;
use crate::{QuestionMeaning, Result, WordMatchMode};

/// Weight of the standard score of a message, fitted on the five open conversations of LoCoMo with the embeddings of a small
/// static model (wordllama, 256 dimensions). A higher weight finds more passages, and puts fewer exact answers first.
const MEANING_WEIGHT: f64 = 0.6;
/// Highest standard score that counts.
const STANDARD_SCORE_MAX: f64 = 6.0;
/// Minimum standard score of a message that shares no word with the question.
const WORDLESS_SCORE_MIN: f64 = 1.5;
/// The same among few messages, of which many can be about the question. The average then says little.
const FEW_MESSAGES_SCORE_MIN: f64 = 0.5;
/// Number of messages that are more than few.
const FEW_MESSAGES: u64 = 20;

/// Adds the standard scores of messages to the scores of candidates, adds the closest messages, and sorts the candidates again.
///
/// A single word is looked for as such, and so are all words of a phrase: they have too little meaning.
pub(in super::super) fn add_meaning(
    db: &SqlConnection,
    meaning: Option<&QuestionMeaning>,
    query: &CandidateQuery<'_>,
    candidates: &mut SearchCandidates,
    predicate: &mut RowPredicate<'_>,
) -> Result<()> {
    let has_meaning = query.match_mode == WordMatchMode::Any && query.phrases.len() >= MEANING_WORDS_MIN;
    let Some(meaning) = meaning.filter(|_| has_meaning) else {
        return Ok(());
    };
    let Some(model_key) = embeddings::model_key(db, &meaning.model)? else { return Ok(()) };
    let similarity_query = SimilarityQuery {
        question: &meaning.embedding,
        model_key,
        ranges: query.ranges,
        subset: query.subset,
    };
    let rows = candidates.best.iter().map(|candidate| candidate.row);
    let StandardScores { of_candidates, compared, closest } =
        measure_standard_scores(db, &similarity_query, rows, predicate)?;
    let score_min = if compared < FEW_MESSAGES { FEW_MESSAGES_SCORE_MIN } else { WORDLESS_SCORE_MIN };
    let mut known: HashSet<i64> = candidates.best.iter().map(|candidate| candidate.row).collect();
    let mut others = std::mem::take(&mut candidates.others);
    for (row, standard_score) in closest {
        if standard_score < score_min || !known.insert(row) {
            continue;
        }
        let candidate = match others.iter().position(|other| other.row == row) {
            Some(position) => others.remove(position),
            None => {
                let mut added = [SearchCandidate::without_words(row)];
                score_by_index(&mut added, query.phrases.len());
                added[0]
            }
        };
        candidates.best.push(SearchCandidate { standard_score, ..candidate });
    }
    for candidate in &mut candidates.best {
        candidate.standard_score =
            of_candidates.get(&candidate.row).copied().unwrap_or(candidate.standard_score);
        candidate.score += MEANING_WEIGHT * candidate.standard_score.clamp(0.0, STANDARD_SCORE_MAX);
    }
    candidates.best.sort_unstable_by(compare_candidates);
    candidates.others = others;
    Ok(())
}
