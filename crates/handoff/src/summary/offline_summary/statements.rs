//! The assistant's sentences about the state of the work: which of them are shown, ranked without a model.

use facts::formatting::{count_content_words, strip_markdown};
use facts::shell::CheckKind;
use facts::{ConversationFacts, GoalMatcher, Quote};
use protocol::{Seq, TodoStatus};

use super::SummaryLine;
use super::open_tasks::tells_as_done;
use super::section::SectionRequest;
use super::superseded::superseded_sentences;

/// The maximum length of a statement, in characters. A longer one is left out.
const STATEMENT_CHARS: usize = 400;
/// The number of remaining characters below which no further statement is tried.
const STATEMENT_CHARS_MIN: usize = 12;
/// The weight of the goal in the score of a statement.
const GOAL_FACTOR: f32 = 1.0;
/// The weight of a result in the score of a statement.
const RESULT_BONUS: f32 = 1.0;
/// The weight of a conclusion in the score of a statement.
const CONCLUSION_BONUS: f32 = 1.0;
/// The weight of the last answer in the score of a statement.
const LAST_ANSWER_BONUS: f32 = 0.5;

/// A sentence of the assistant.
pub(super) struct RankedStatement {
    /// Its index among all candidate sentences, in the order of the thread.
    position: usize,
    /// The seq of its message.
    seq: Seq,
    /// The sentence without Markdown.
    text: String,
}

/// Returns the assistant's sentences about the state of the work, best first.
///
/// The score of a sentence is its centrality among all of them (see [`model::sentence_ranking`]), plus a bonus for
/// newer sentences, plus its score for the goal. Sentences that are not prose, contradict newer facts, or are contradicted later are
/// left out.
pub(super) fn ranked_statements(
    facts: &ConversationFacts,
    goal: Option<&GoalMatcher>,
) -> Vec<RankedStatement> {
    let recent = facts.statements.iter().filter(|quote| quote.seq >= facts.recent_from);
    let mut quotes: Vec<&Quote> = facts.statements_about_goal.iter().chain(recent).collect();
    quotes.sort_by_key(|quote| quote.seq);
    let all: Vec<(Seq, &str)> = quotes
        .into_iter()
        .flat_map(|quote| {
            model::sentence_ranking::split_sentences(&quote.text).map(move |sentence| (quote.seq, sentence))
        })
        .collect();
    let superseded = superseded_sentences(facts, &all);
    let proposal_seq = proposal_seq(facts);
    let valid = all.into_iter().zip(superseded).filter(|((seq, _), is_superseded)| {
        // The parts of a proposal are not done yet.
        !is_superseded && proposal_seq != Some(*seq)
    });
    let sentences: Vec<(Seq, &str)> = valid
        .map(|(sentence, _)| sentence)
        .filter(|(_, sentence)| is_statement(sentence) && !is_misleading(facts, sentence))
        .collect();
    let texts: Vec<&str> = sentences.iter().map(|(_, sentence)| *sentence).collect();
    let mut scores = model::sentence_ranking::rank_sentences(&texts);
    let total = sentences.len().max(1) as f32;
    for (index, score) in scores.iter_mut().enumerate() {
        *score += 1.5 * index as f32 / total;
        let (seq, sentence) = sentences[index];
        if facts::reports_result(sentence) {
            *score += RESULT_BONUS;
        }
        if states_conclusion(sentence) {
            *score += CONCLUSION_BONUS;
        }
        if facts.statements.last().is_some_and(|quote| quote.seq == seq) {
            *score += LAST_ANSWER_BONUS;
        }
    }
    if let Some(goal) = goal {
        for (score, text) in scores.iter_mut().zip(&texts) {
            *score += GOAL_FACTOR * goal.score(goal.matching_terms(text), &facts.term_frequencies);
        }
    }
    let mut order: Vec<usize> = (0..sentences.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(b.cmp(a)));
    let ranked = order.into_iter().map(|index| (index, sentences[index]));
    let statements = ranked.map(|(index, (seq, sentence))| RankedStatement {
        position: index,
        seq,
        text: strip_markdown(sentence),
    });
    // A part of a statement may say something else than the statement.
    statements.filter(|statement| statement.text.chars().count() <= STATEMENT_CHARS).collect()
}

/// Returns whether a sentence says what the assistant concludes, such as "So it is most likely the second lock".
fn states_conclusion(sentence: &str) -> bool {
    let lower = strip_markdown(sentence).to_lowercase();
    let begins = ["so it is", "so it's", "so the", "therefore", "in short", "conclusion"];
    let contains =
        ["most likely", "root cause is", "the cause is", "the reason is", "is caused by", "was caused by"];
    begins.iter().any(|beginning| lower.starts_with(beginning))
        || contains.iter().any(|cue| lower.contains(cue))
}

/// Lowercase words of a text that proposes alternatives.
const PROPOSAL_WORDS: &[&str] = &[
    "alternatives",
    "alternative",
    "options",
    "option",
    "proposal",
    "proposals",
    "suggestion",
    "suggestions",
    "variants",
];

/// Returns the seq of the assistant's last message if it proposes alternatives and asks the person to choose; `None` otherwise.
fn proposal_seq(facts: &ConversationFacts) -> Option<Seq> {
    let question = facts.open_question.as_ref()?;
    let message = facts.statements.last().filter(|message| message.seq == question.seq)?;
    let lower = message.text.to_lowercase();
    let is_proposal = lower.split(|c: char| !c.is_alphabetic()).any(|word| PROPOSAL_WORDS.contains(&word));
    is_proposal.then_some(message.seq)
}

/// Returns whether a sentence of the assistant tells about the work: it is a whole sentence in prose, and no question, no
/// announcement, no introduction of a list and no phrase of a conversation.
pub(super) fn is_statement(sentence: &str) -> bool {
    let text = strip_markdown(sentence);
    let is_whole =
        text.matches('`').count().is_multiple_of(2) && !text.ends_with(':') && !text.ends_with("...");
    // A line without a full stop may be a heading. With a colon or a number it states a value.
    let is_finished = !text.ends_with(|c: char| c.is_ascii_alphanumeric())
        || text.contains(|c: char| c == ':' || c.is_ascii_digit())
        || facts::reports_result(&text);
    count_content_words(&text) >= 4
        && is_finished
        && is_prose(sentence)
        && is_whole
        && !text.trim_end_matches('"').ends_with('?')
        && !facts::is_pasted(&text)
        && !is_trace(&text)
        && !facts::announces_work(&text)
        && !facts::is_conversational(&text)
}

/// Returns whether a sentence is a line of code, of a test report or of a stack trace: it begins with a call or the mark of a
/// failed line, or many of its words are not made of letters.
fn is_trace(sentence: &str) -> bool {
    let words = sentence.split_whitespace().count();
    let is_plain = |word: &str| {
        let word = word.trim_matches(|c: char| c.is_ascii_punctuation());
        !word.is_empty() && word.chars().all(|c| c.is_alphabetic() || "'’-".contains(c))
    };
    let plain = sentence.split_whitespace().filter(|word| is_plain(word)).count();
    let is_report =
        sentence.starts_with("E ") || sentence.starts_with("at ") || sentence.contains(" object at 0x");
    is_report || sentence.is_ascii() && plain * 2 <= words
}

/// Returns the best statements that fit, in the order of the thread.
pub(super) fn statements(request: &SectionRequest<'_>) -> Vec<SummaryLine> {
    let mut remaining = request.chars_max;
    let mut chosen: Vec<&RankedStatement> = Vec::new();
    for statement in request.source.statements {
        if remaining < STATEMENT_CHARS_MIN {
            break;
        }
        let length = statement.text.chars().count() + 3;
        let is_known = || chosen.iter().any(|known| known.text == statement.text);
        if length <= remaining && !is_known() && !request.shown.contains(&statement.text) {
            remaining -= length;
            chosen.push(statement);
        }
    }
    chosen.sort_by_key(|statement| statement.position);
    chosen
        .into_iter()
        .map(|statement| SummaryLine { text: statement.text.clone(), refs: vec![statement.seq] })
        .collect()
}

/// Returns whether a sentence is prose and not code: it starts with a word, has at least four words, and few symbols
/// outside code spans.
pub(super) fn is_prose(sentence: &str) -> bool {
    let outside: String = sentence.split('`').step_by(2).collect();
    let symbols = outside.chars().filter(|c| "=(){}[];<>|_/\\\"$".contains(*c)).count();
    let starts_well = sentence.starts_with(|c: char| c.is_alphabetic() || matches!(c, '-' | '*' | '"' | '`'))
        || !sentence.is_ascii();
    let words =
        if sentence.is_ascii() { sentence.split_whitespace().count() } else { count_content_words(sentence) };
    starts_well && !sentence.starts_with("```") && words >= 4 && symbols * 100 <= 7 * outside.len().max(1)
}

/// Returns whether a sentence contradicts the facts: it claims that tests pass or fail although their last run had the
/// opposite result, or that an open task is done. A claim that all tests pass is not quoted either: the recorded runs say how the
/// tests ended, and a claim does not tell when it was true. The task list and the last run are newer than the sentence.
pub(super) fn is_misleading(facts: &ConversationFacts, sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    if let Some(run) = facts.checks.iter().find(|run| run.kind == CheckKind::Test)
        && lower.contains("test")
    {
        let stale: &[&str] = if run.has_failed() { &["pass", "green", "ok"] } else { &["fail", "red"] };
        if lower
            .split(|c: char| !c.is_alphanumeric())
            .any(|word| stale.iter().any(|stale| word.starts_with(stale)))
        {
            return true;
        }
        if claims_all_tests(&lower) {
            return true;
        }
    }
    let mut open = facts.todos.iter().filter(|todo| todo.status != TodoStatus::Completed);
    open.any(|todo| tells_as_done(sentence, &todo.text))
}

/// The most words between "all" and "tests", or between "tests" and "pass".
const CLAIM_GAP_MAX: usize = 3;

/// Returns whether a lowercase sentence claims that all tests pass, such as "all 1,274 tests pass".
fn claims_all_tests(lower: &str) -> bool {
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let is_all = |word: &&str| matches!(*word, "all" | "every") || word.bytes().all(|c| c.is_ascii_digit());
    let is_passed = |word: &&str| word.starts_with("pass") || *word == "green";
    (0..words.len()).filter(|index| matches!(words[*index], "test" | "tests")).any(|index| {
        words[index.saturating_sub(CLAIM_GAP_MAX)..index].iter().any(is_all)
            && words[index + 1..].iter().take(CLAIM_GAP_MAX).any(is_passed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conclusion_is_preferred_to_an_explanation() {
        let facts = facts::notation::parse_facts(
            "U: Why is the job delivered twice?\nA: In the log worker 17 holds the job again by then, as delivery 2. The sweep did nothing wrong in this log, nobody had renewed it. So it is most likely the ack grace, not the race from before.",
        );
        let ranked = ranked_statements(&facts, None);
        assert_eq!(ranked[0].text, "So it is most likely the ack grace, not the race from before.");
    }

    #[test]
    fn a_claim_that_all_tests_pass_is_recognised() {
        for (sentence, expected) in [
            ("verification: all 1274 tests pass, lint clean.", true),
            ("all tests are passing now.", true),
            ("43 tests passed.", true),
            ("every test is green.", true),
            ("the test passes because the clock is passed in.", false),
            ("all handlers pass the token to the tests.", false),
        ] {
            assert_eq!(claims_all_tests(sentence), expected, "{sentence}");
        }
    }
}
