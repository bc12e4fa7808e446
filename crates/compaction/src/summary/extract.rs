//! The record without a model: what the record so far holds, and the ledger's facts of what is new. It rewords nothing
//! and drops nothing of the earlier record that fits.

use facts::phrase::{flat, weight};
use facts::{Facts, Quote};
use model::extractive::sentences;
use protocol::CondensedSummary;

use super::Source;
use super::record::entry;

/// What the assistant said last, so many messages of it.
const STATEMENTS: usize = 8;
/// Words that carry meaning below which a request says too little alone to be the goal.
const GOAL_WEIGHT_MIN: usize = 6;
/// Words that carry meaning below which a sentence tells nothing.
const SENTENCE_WEIGHT_MIN: usize = 3;

/// Returns the record.
pub(super) fn extract(source: &Source<'_>, new: &Facts) -> CondensedSummary {
    let old = source.previous.map(|previous| previous.sections.clone()).unwrap_or_default();
    let mut record = CondensedSummary { goal: goal(source, new), ..old };
    if let Some(earlier) = &new.previous_summary {
        record.progress.extend(earlier.text.lines().map(entry).filter(|line| weight(line) > 0));
    }
    record.constraints.extend(new.rules.iter().map(|rule| flat(&rule.quote.text)));
    record.decisions.extend(new.decisions.iter().map(|quote| flat(&quote.text)));
    let first = new.statements.len().saturating_sub(STATEMENTS);
    let mut about_focus: Vec<&Quote> = new.statements_about_goal.iter().take(STATEMENTS).collect();
    about_focus.sort_by_key(|quote| quote.seq);
    let told = about_focus.into_iter().chain(&new.statements[first..]).filter_map(telling);
    let told: Vec<String> = told.filter(|text| !record.decisions.contains(text)).collect();
    record.progress.extend(told);
    record.errors.extend(new.errors.iter().rev().map(|quote| flat(&quote.text)));
    record.next_step = next_step(new).unwrap_or_default();
    record
}

/// Returns what the work is for, as far as that is known.
pub(super) fn goal(source: &Source<'_>, new: &Facts) -> String {
    let earlier = source.previous.map(|previous| previous.sections.goal.clone());
    let earlier = earlier.filter(|goal| !goal.trim().is_empty());
    earlier.or_else(|| first_telling_request(new)).map(|text| entry(&text)).unwrap_or_default()
}

/// Returns the request that says what the work is for: the first one that says enough.
fn first_telling_request(new: &Facts) -> Option<String> {
    let requests = || new.origin.iter().chain(&new.requests);
    let telling = requests().find(|quote| weight(&quote.text) >= GOAL_WEIGHT_MIN);
    telling.or_else(|| requests().max_by_key(|quote| weight(&quote.text))).map(|quote| flat(&quote.text))
}

/// Returns the first sentence of a statement that tells something.
fn telling(statement: &Quote) -> Option<String> {
    let told = sentences(&statement.text).find(|sentence| weight(sentence) >= SENTENCE_WEIGHT_MIN);
    told.or_else(|| sentences(&statement.text).next()).map(flat)
}

/// Returns what the conversation waits for.
fn next_step(new: &Facts) -> Option<String> {
    let asked = new.awaited.as_ref().map(|quote| format!("The assistant asked: {}", flat(&quote.text)));
    asked.or_else(|| {
        let open = new.todos.iter().find(|todo| todo.status != protocol::TodoStatus::Completed);
        open.map(|todo| format!("Next open task: {}", flat(&todo.text)))
    })
}
