//! Ranks the messages of given threads for a question.

use std::collections::HashMap;
use std::ops::Range;

use crate::engines::sql::SqlConnection;
use protocol::ThreadId;

use super::candidates::{CandidateQuery, SearchCandidate, find_candidates};
use super::index::MessageSubset;
use super::ranker::{self, Question};
use super::{check_word_count, compile_words, message_row, row_seq, row_thread_key};
use crate::tables::columns::encode_counter;
use crate::tables::events::rewinds::SupersededRanges;
use crate::tables::{check_page_limit, threads};
use crate::{QuestionMeaning, RankQuery, RankedMessage, Result, WordMatchMode};

/// One more than the highest possible seq.
const SEQ_LIMIT: i64 = 1 << 32;

/// Returns the messages that contain any of the query's words or are close to its meaning, best first.
///
/// # Errors
/// [`Error::InvalidRequest`](crate::Error::InvalidRequest) if the limit is zero or too large, or the query has too
/// many words.
pub(crate) fn rank_messages(
    db: &SqlConnection,
    query: &RankQuery,
    meaning: Option<&QuestionMeaning>,
) -> Result<Vec<RankedMessage>> {
    check_page_limit("search results", query.limit)?;
    check_word_count(query.words.len())?;
    // A word without letters or digits matches nothing. It stays in the list, because hits refer to words by index.
    let phrases = compile_words(db, &query.words);
    let mut searched: HashMap<i64, (ThreadId, SupersededRanges)> = HashMap::new();
    let mut ranges: Vec<Range<i64>> = Vec::new();
    let mut rows = 0;
    for prefix in &query.threads {
        let Some((key, last_seq)) = threads::key_and_last_seq(db, prefix.thread_id)? else { continue };
        if searched.contains_key(&key) {
            continue;
        }
        let before = prefix.before.map_or(SEQ_LIMIT, |seq| encode_counter(seq).min(SEQ_LIMIT));
        ranges.push(message_row(key, 0)..message_row(key, 0) + before);
        rows += last_seq.min(before).unsigned_abs();
        searched.insert(key, (prefix.thread_id, SupersededRanges::load(db, key)?));
    }
    let candidate_query = CandidateQuery {
        phrases: &phrases,
        match_mode: WordMatchMode::Any,
        ranges: &ranges,
        subset: &MessageSubset::All,
        row_count: rows,
        limit: query.limit,
    };
    let mut is_visible = |row: i64| {
        Ok(searched
            .get(&row_thread_key(row))
            .is_some_and(|(_, superseded)| !superseded.contains(row_seq(row))))
    };
    let mut candidates = find_candidates(db, &candidate_query, &mut is_visible)?;
    ranker::add_meaning(db, meaning, &candidate_query, &mut candidates, &mut is_visible)?;
    let question = Question { words: &query.words, text: &query.question, dates: &query.dates };
    ranker::rank_by_text(db, &question, query.limit, &mut candidates)?;
    let to_message = |candidate: &SearchCandidate| {
        let (thread_id, _) = searched.get(&row_thread_key(candidate.row))?;
        Some(RankedMessage {
            thread_id: *thread_id,
            seq: row_seq(candidate.row).unsigned_abs(),
            score: candidate.score.exp(),
            matched_words: candidate.matched_words,
            standard_score: candidate.standard_score,
        })
    };
    Ok(candidates.best.iter().take(query.limit).filter_map(to_message).collect())
}
