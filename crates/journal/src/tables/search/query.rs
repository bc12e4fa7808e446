//! Execution of a search over all documents: the best candidates are read until enough distinct hits are found.
//! Scores come from `ranker`.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use crate::engines::sql::SqlConnection;

use super::candidates::{CandidateQuery, SearchCandidate, SearchCandidates, find_candidates};
use super::documents::{self, SearchDocument};
use super::ranker::{self, Question};
use super::search_scope::SearchScope;
use super::snippets::QueryPhrases;
use super::{check_word_count, compile_words, searchable_prefix};
use crate::tables::check_page_limit;
use crate::{HitLocation, IndexHit, QuestionMeaning, Result, SearchQuery, SearchUnit};

/// Number of messages of a passage.
const PASSAGE_MESSAGES: usize = 3;

/// Returns the documents that contain the words of a query or are close to its meaning, best first.
///
/// # Errors
/// [`Error::InvalidRequest`](crate::Error::InvalidRequest) if the limit is zero or too large, or the query has too
/// many words.
pub(crate) fn search(
    db: &SqlConnection,
    query: &SearchQuery,
    meaning: Option<&QuestionMeaning>,
) -> Result<Vec<IndexHit>> {
    check_page_limit("search results", query.limit)?;
    check_word_count(query.words.len())?;
    let phrases = compile_words(db, &query.words);
    let mut scope = SearchScope::new(db, query)?;
    let (ranges, subset) = scope.row_ranges()?;
    let rows = scope.row_count()?;
    let candidate_query = CandidateQuery {
        phrases: &phrases,
        match_mode: query.match_mode,
        ranges: &ranges,
        subset: &subset,
        row_count: rows,
        limit: query.limit,
    };
    let mut candidates = find_candidates(db, &candidate_query, &mut |row| scope.contains_row(row))?;
    ranker::add_meaning(db, meaning, &candidate_query, &mut candidates, &mut |row| scope.contains_row(row))?;
    let question = Question { words: &query.words, text: &query.question, dates: &query.dates };
    match query.unit {
        SearchUnit::Message => ranker::rank_by_text(db, &question, query.limit, &mut candidates)?,
        SearchUnit::Passage => {
            ranker::rank_by_text(db, &question, query.limit * PASSAGE_MESSAGES, &mut candidates)?;
            ranker::group_passages(db, &mut candidates.best, &mut |row| scope.contains_row(row))?;
            candidates.others.clear();
        }
    }
    let hits = read_hits(db, query, candidates)?;
    let query_phrases = QueryPhrases::from_words(&query.words);
    Ok(hits.into_iter().map(|(candidate, document)| to_hit(&query_phrases, candidate, document)).collect())
}

/// Returns the hit for a document. Summaries and handoffs are returned with their whole text, because they are short.
fn to_hit(
    query_phrases: &QueryPhrases,
    SearchCandidate { score, matched_words, standard_score, .. }: SearchCandidate,
    document: SearchDocument,
) -> IndexHit {
    let snippet = query_phrases.snippet(searchable_prefix(&document.text));
    let text = match &document.location {
        HitLocation::Message { .. } | HitLocation::Item { .. } => String::new(),
        HitLocation::Summary { .. } | HitLocation::Handoff { .. } => document.text,
    };
    IndexHit {
        location: document.location,
        score: score.exp(),
        matched_words,
        standard_score,
        snippet,
        text,
        created_at: document.created_at,
    }
}

/// Reads candidates until there are as many hits as requested. Copies of a message by forks, and tool results with
/// identical text, such as bare acknowledgements, are returned once, because repetitions would displace other hits.
fn read_hits(
    db: &SqlConnection,
    query: &SearchQuery,
    candidates: SearchCandidates,
) -> Result<Vec<(SearchCandidate, SearchDocument)>> {
    let lowest_best = candidates.best.last().map_or(0.0, |last| last.score);
    let others = candidates
        .others
        .into_iter()
        .map(|other| SearchCandidate { score: other.score.min(lowest_best), ..other });
    let hasher = RandomState::new();
    let mut seen: HashSet<u64> = HashSet::new();
    let mut hits: Vec<(SearchCandidate, SearchDocument)> = Vec::new();
    for candidate in candidates.best.into_iter().chain(others) {
        if hits.len() == query.limit {
            break;
        }
        let Some(document) = documents::read_document(db, candidate.row, query.since)? else { continue };
        let is_copy = document.event_id.is_some_and(|event_id| !seen.insert(hasher.hash_one(event_id)));
        let is_repetition =
            is_copy || is_tool_result(&document) && !seen.insert(hasher.hash_one(&document.text));
        if !is_repetition {
            hits.push((candidate, document));
        }
    }
    Ok(hits)
}

/// Returns whether a document is the result of a tool call.
fn is_tool_result(document: &SearchDocument) -> bool {
    matches!(&document.location, HitLocation::Message { role, .. } if role == "tool")
}
