//! Answering a search over everything: the best candidates, each read once, however often it was copied or repeated. How
//! candidates are scored is not decided here, except that a date which the query names speaks for what was said then.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use crate::engines::sql::Connection;

use super::candidates::{Candidate, Candidates, Question, best_first, candidates};
use super::passages::QueryPhrases;
use super::places::{self, Found};
use super::scope::Scope;
use super::{beginning, check_words, phrases};
use crate::tables::page_limit;
use crate::{Hit, Place, Result, SearchQuery};

/// What was said at a date that the query names counts so many times as much.
const DATE_FACTOR: f64 = 1.5;

/// Returns what holds the query's words, best first.
pub(crate) fn find(db: &Connection, query: &SearchQuery) -> Result<Vec<Hit>> {
    page_limit("search results", query.limit)?;
    check_words(query.words.len())?;
    let phrases = phrases(db, &query.words);
    let mut scope = Scope::of(db, query)?;
    let (ranges, among) = scope.ranges()?;
    let rows = scope.rows()?;
    let question = Question {
        phrases: &phrases,
        require: query.require,
        ranges: &ranges,
        among: &among,
        rows,
        limit: query.limit,
    };
    let mut candidates = candidates(db, &question, &mut |row| scope.admits(row))?;
    favour_dates(db, query, &mut candidates.best)?;
    let found = read(db, query, candidates)?;
    let query_phrases = QueryPhrases::of(&query.words);
    Ok(found.into_iter().map(|(candidate, found)| hit(&query_phrases, candidate, found)).collect())
}

fn hit(query_phrases: &QueryPhrases, Candidate { score, held, .. }: Candidate, found: Found) -> Hit {
    let snippet = query_phrases.passage(beginning(&found.text));
    let text = match &found.place {
        Place::Message { .. } | Place::Item { .. } => String::new(),
        Place::Summary { .. } | Place::Handoff { .. } => found.text,
    };
    Hit { place: found.place, score, held, snippet, text, created_at: found.created_at }
}

/// Reads candidates until there are as many as are asked for. Of what a fork copied, and of results in the same words, as
/// tools give that only acknowledge, the best is found and the others would take the places of everything else.
fn read(db: &Connection, query: &SearchQuery, candidates: Candidates) -> Result<Vec<(Candidate, Found)>> {
    let least = candidates.best.last().map_or(0.0, |last| last.score);
    let others = candidates.others.into_iter().map(|one| Candidate { score: one.score.min(least), ..one });
    let hasher = RandomState::new();
    let mut known: HashSet<u64> = HashSet::new();
    let mut found: Vec<(Candidate, Found)> = Vec::new();
    for candidate in candidates.best.into_iter().chain(others) {
        if found.len() == query.limit {
            break;
        }
        let Some(place) = places::read(db, candidate.row, query.since)? else { continue };
        let is_copy = place.event_id.is_some_and(|event_id| !known.insert(hasher.hash_one(event_id)));
        let is_repetition = is_copy || is_result(&place) && !known.insert(hasher.hash_one(&place.text));
        if !is_repetition {
            found.push((candidate, place));
        }
    }
    Ok(found)
}

fn favour_dates(db: &Connection, query: &SearchQuery, candidates: &mut [Candidate]) -> Result<()> {
    if query.dates.is_empty() {
        return Ok(());
    }
    for candidate in candidates.iter_mut() {
        let Some(said_at) = places::said_at(db, candidate.row)? else { continue };
        let fit = query.dates.iter().map(|date| date.fit(said_at)).max().unwrap_or_default();
        candidate.score *= DATE_FACTOR.powi(fit.into());
    }
    candidates.sort_unstable_by(best_first);
    Ok(())
}

fn is_result(found: &Found) -> bool {
    matches!(&found.place, Place::Message { role, .. } if role == "tool")
}
