//! Answering a search over everything: the best candidates, each read and asked whether it may be found. How candidates
//! are scored is not decided here, except that a date which the query names speaks for what was said then.

use rusqlite::Connection;

use super::candidates::{Candidate, Question, best_first, candidates};
use super::places::{self, Found};
use super::scope::Scope;
use super::{beginning, check_words, passages, phrase, spaced};
use crate::sqlite::tables::page_limit;
use crate::{Hit, Result, SearchQuery};

/// What was said at a date that the query names counts so many times as much.
const DATE_FACTOR: f64 = 1.5;

/// Returns what holds the query's words, best first.
pub(crate) fn find(connection: &Connection, query: &SearchQuery) -> Result<Vec<Hit>> {
    page_limit("search results", query.limit)?;
    check_words(query.words.len())?;
    let phrases: Vec<Option<String>> = query.words.iter().map(|word| phrase(word)).collect();
    let mut scope = Scope::of(connection, query)?;
    let ranges = scope.ranges()?;
    let rows = scope.rows()?;
    let question =
        Question { phrases: &phrases, require: query.require, ranges: &ranges, rows, limit: query.limit };
    let mut candidates = candidates(connection, &question, &mut |row| scope.admits(row))?;
    favour_dates(connection, query, &mut candidates)?;
    let mut found: Vec<(Candidate, Found)> = Vec::new();
    for candidate in candidates {
        if found.len() == query.limit {
            break;
        }
        found.extend(places::read(connection, candidate.row, query)?.map(|place| (candidate, place)));
    }
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let any = phrases.iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" OR ");
    let texts: Vec<String> = found.iter().map(|(_, found)| spaced(beginning(&found.text))).collect();
    let passages = passages::cut(connection, &any, &texts)?;
    let hit = |((candidate, found), snippet): ((Candidate, Found), String)| Hit {
        place: found.place,
        score: candidate.score,
        held: candidate.held,
        snippet,
        created_at: found.created_at,
    };
    Ok(found.into_iter().zip(passages).map(hit).collect())
}

fn favour_dates(connection: &Connection, query: &SearchQuery, candidates: &mut [Candidate]) -> Result<()> {
    if query.dates.is_empty() {
        return Ok(());
    }
    for candidate in candidates.iter_mut() {
        let Some(said_at) = places::said_at(connection, candidate.row)? else { continue };
        let fit = query.dates.iter().map(|date| date.fit(said_at)).max().unwrap_or_default();
        candidate.score *= DATE_FACTOR.powi(fit.into());
    }
    candidates.sort_unstable_by(best_first);
    Ok(())
}
