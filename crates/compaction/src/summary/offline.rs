//! The offline summary, which needs no model: the earlier record, extended by the facts of the newly dropped messages.
//!
//! Texts are quoted, not reworded, and every entry of the earlier record that fits is retained.

use facts::formatting::{count_content_words, to_single_line};
use facts::{ConversationFacts, Quote};
use model::sentence_ranking::split_sentences;
use protocol::CondensedSummary;

use super::SummarySource;
use super::record::normalize_entry;

/// The number of newest assistant messages that the progress section quotes.
const STATEMENTS_MAX: usize = 8;
/// The number of content words below which a request is too short to be the goal.
const GOAL_CONTENT_WORDS_MIN: usize = 6;
/// The number of content words below which a sentence is not informative.
const SENTENCE_CONTENT_WORDS_MIN: usize = 3;

/// Returns the earlier record extended by `new`, the facts of the newly dropped messages.
pub(super) fn summarize_offline(source: &SummarySource<'_>, new: &ConversationFacts) -> CondensedSummary {
    let old = source.previous.map(|previous| previous.sections.clone()).unwrap_or_default();
    let mut record = CondensedSummary { goal: goal(source, new), ..old };
    if let Some(earlier) = &new.previous_summary {
        record
            .progress
            .extend(earlier.text.lines().map(normalize_entry).filter(|line| count_content_words(line) > 0));
    }
    record.constraints.extend(new.rules.iter().map(|rule| to_single_line(&rule.quote.text)));
    record.decisions.extend(new.decisions.iter().map(|quote| to_single_line(&quote.text)));
    let first = new.statements.len().saturating_sub(STATEMENTS_MAX);
    let mut about_focus: Vec<&Quote> = new.statements_about_goal.iter().take(STATEMENTS_MAX).collect();
    about_focus.sort_by_key(|quote| quote.seq);
    let statements =
        about_focus.into_iter().chain(&new.statements[first..]).filter_map(first_informative_sentence);
    let statements: Vec<String> = statements.filter(|text| !record.decisions.contains(text)).collect();
    record.progress.extend(statements);
    record.errors.extend(new.errors.iter().rev().map(|quote| to_single_line(&quote.text)));
    record.next_step = next_step(new).unwrap_or_default();
    record
}

/// Returns the goal of the work: that of the earlier record, else the first informative request; empty when neither
/// exists.
pub(super) fn goal(source: &SummarySource<'_>, new: &ConversationFacts) -> String {
    let earlier = source.previous.map(|previous| previous.sections.goal.clone());
    let earlier = earlier.filter(|goal| !goal.trim().is_empty());
    earlier.or_else(|| first_informative_request(new)).map(|text| normalize_entry(&text)).unwrap_or_default()
}

/// Returns the first request with enough content words to be a goal, else the one with the most.
fn first_informative_request(new: &ConversationFacts) -> Option<String> {
    let requests = || new.first_request.iter().chain(&new.requests);
    let informative = requests().find(|quote| count_content_words(&quote.text) >= GOAL_CONTENT_WORDS_MIN);
    informative
        .or_else(|| requests().max_by_key(|quote| count_content_words(&quote.text)))
        .map(|quote| to_single_line(&quote.text))
}

/// Returns the first informative sentence of a statement, else its first sentence.
fn first_informative_sentence(statement: &Quote) -> Option<String> {
    let informative = split_sentences(&statement.text)
        .find(|sentence| count_content_words(sentence) >= SENTENCE_CONTENT_WORDS_MIN);
    informative.or_else(|| split_sentences(&statement.text).next()).map(to_single_line)
}

/// Returns the next step: the answer to an open question of the assistant, else the first open task.
fn next_step(new: &ConversationFacts) -> Option<String> {
    let question = new
        .open_question
        .as_ref()
        .map(|quote| format!("The assistant asked: {}", to_single_line(&quote.text)));
    question.or_else(|| {
        let open = new.todos.iter().find(|todo| todo.status != protocol::TodoStatus::Completed);
        open.map(|todo| format!("Next open task: {}", to_single_line(&todo.text)))
    })
}
