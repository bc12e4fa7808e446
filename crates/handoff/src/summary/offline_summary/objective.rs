//! The lines of the objective: what the thread is about.

use super::current_task::current_task;
use super::quotes::{QuotePartKind, quote_parts, whole_sentences};
use super::section::{BEGINNING_BYTES, SectionRequest};
use super::title::{is_preparation, strip_opening};
use super::topic::{names_topic, states_no_task, states_task};
use super::{REQUEST_WEIGHT_MIN, SummaryLine, objective_request};
use facts::Quote;
use facts::formatting::{ELLIPSIS, count_content_words, to_single_line};
use facts::tool_use::head;

/// Words with which a clause begins that cannot stand alone.
const DEPENDENT_OPENERS: &[&str] =
    &["but", "and", "or", "because", "which", "so", "if", "when", "while", "where", "instead", "as", "since"];
/// The beginning of the line of the first request, if the thread is about another task at its end.
const BEGINNING_LABEL: &str = "The thread began with: ";

/// Returns the objective: the recent requests up to the first that states enough; without any, the objective request or an
/// earlier summary. If the thread is about another task at its end, that task comes first, and the others are what it began
/// with. The goal of the child thread is the title, and no line repeats it.
pub(super) fn objective_lines(request: &SectionRequest<'_>) -> Vec<SummaryLine> {
    let facts = request.facts;
    let mut lines = Vec::new();
    let mut remaining = request.chars_max;
    let recent = facts.requests.iter().filter(|quote| quote.seq >= facts.recent_from);
    let mut sources: Vec<&Quote> = recent.take(4).collect();
    // After a compaction the first request may be older than the recent ones.
    let objective = objective_request(facts);
    let current = objective.and_then(|objective| current_task(facts, objective));
    let older = objective.filter(|quote| quote.seq < facts.recent_from);
    match older {
        Some(older) => sources.insert(0, older),
        None if sources.is_empty() => sources.extend(objective.or(facts.grounded_summary.as_ref())),
        None => {}
    }
    if current.is_some() {
        sources = objective.into_iter().collect();
    }
    let mut words = 0;
    for quote in current.into_iter().chain(sources) {
        if remaining < 24 || words >= REQUEST_WEIGHT_MIN + 2 {
            break;
        }
        // The last request is quoted in its own section.
        let beginning = to_single_line(head(&quote.text, BEGINNING_BYTES));
        if request.shown.contains(&beginning) || !states_task(&quote.text) && !names_topic(&quote.text) {
            continue;
        }
        let is_current = current.is_none_or(|current| current.seq == quote.seq);
        let label = if is_current { "" } else { BEGINNING_LABEL };
        let text = whole_sentences(
            &objective_text(&quote.text, request.source.title),
            remaining.saturating_sub(label.len()),
        );
        if text.is_empty() || text.ends_with(ELLIPSIS) && !lines.is_empty() {
            continue;
        }
        // What the thread is about now is no reason to leave out what it began with.
        words += if current.is_some() && is_current { 0 } else { count_content_words(&quote.text) };
        let text = format!("{label}{text}");
        remaining = remaining.saturating_sub(text.chars().count() + 3);
        lines.push(SummaryLine { text, refs: vec![quote.seq] });
    }
    // A summary states its objective even if another section quotes it, unless the title is all of it.
    if lines.is_empty()
        && let Some(quote) = current.or(objective)
        && facts.requests.last().is_none_or(|last| last.seq != quote.seq)
    {
        let text = whole_sentences(&objective_text(&quote.text, request.source.title), request.chars_max);
        lines.push(SummaryLine { text, refs: vec![quote.seq] });
    }
    lines
}

/// Lowercase words that deny what follows them.
const NEGATIONS: &[&str] = &[
    "never", "don't", "don’t", "dont", "not", "no", "avoid", "stop", "without", "cannot", "can't", "can’t",
    "nor", "refrain", "nie", "nicht", "kein", "keine",
];

/// Returns whether a lowercase text contains a word that denies what follows it.
fn is_negated(text: &str) -> bool {
    text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '\'' | '’')))
        .any(|word| NEGATIONS.contains(&word))
}

/// Returns a request without Markdown, code, headings, greetings, and the sentences and clauses that the title has already
/// stated; an empty text if nothing is left.
fn objective_text(request: &str, title: &str) -> String {
    let title = title.trim_end_matches(['…', ' ', '?']).to_lowercase();
    let sentences = quote_parts(request).into_iter().filter(|part| part.kind == QuotePartKind::Sentence);
    let sentences = sentences.map(|part| part.text).filter(|sentence| {
        let is_greeting = facts::is_conversational(sentence) && sentence.split(' ').count() <= 4;
        // A preparation tells what the work needs, and stays.
        let states_no_task = states_no_task(sentence) && !is_preparation(sentence);
        count_content_words(strip_opening(sentence)) >= 1 && !states_no_task && !is_greeting
    });
    let stated = sentences.map(|sentence| {
        let unopened = strip_opening(&sentence);
        let lower = unopened.to_lowercase();
        let is_same_length = lower.len() == unopened.len();
        let stated = lower.find(&title).filter(|_| is_same_length && !title.is_empty());
        // A letter and its lowercase form can have different lengths, so the title may end inside a letter.
        match stated.and_then(|start| unopened.get(start + title.len()..)) {
            Some(after) => {
                let rest = after.trim_start_matches([' ', ':', ';', ',', '—', '–']);
                let first = rest.split(' ').next().unwrap_or_default().to_lowercase();
                // A negation in the title denies what is listed behind it too.
                let is_clause = after.trim_start().starts_with([':', ';', ',', '(', '—', '–'])
                    && !DEPENDENT_OPENERS.contains(&first.as_str())
                    && !is_negated(&title);
                match (count_content_words(after) == 0, is_clause) {
                    (true, _) => String::new(),
                    (false, true) => rest.to_owned(),
                    (false, false) => sentence.clone(),
                }
            }
            None => sentence.clone(),
        }
    });
    let rest = stated.filter(|sentence| !sentence.is_empty()).collect::<Vec<_>>().join(" ");
    rest.trim_end_matches(';').to_owned()
}
