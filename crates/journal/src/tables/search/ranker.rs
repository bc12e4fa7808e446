//! The score of a candidate: a weighted sum of features of the index and of the text.
//!
//! The weights, except those marked as set by hand, are fitted on the five open conversations of LoCoMo, as the
//! logarithm of the odds that a message holds the evidence for a question. The exponential of a score is therefore
//! proportional to that probability. Matching words and deciding which rows are visible are not done here.

mod cues;
mod meaning;
mod message_texts;
mod passages;

use std::collections::HashSet;

use crate::engines::sql::SqlConnection;

use self::cues::{CueText, QuestionCues};
pub(super) use self::meaning::add_meaning;
use self::message_texts::{MessageText, read_message_texts};
pub(super) use self::passages::group_passages;
use super::candidates::{IndexFeatures, SearchCandidate, SearchCandidates, compare_candidates};
use super::documents;
use super::row_seq;
use crate::{PartialDate, Result};

/// Minimum number of best candidates whose texts are read.
const TEXTS_READ_MIN: usize = 250;
/// Minimum number of words of a sentence that is searched for word for word.
const SENTENCE_WORDS_MIN: usize = 3;

/// Weight of the words of a message.
const OWN_WEIGHT: f64 = 0.5;
/// Weight of the words of a message and of the messages around it.
const WINDOW_WEIGHT: f64 = 7.5;
/// Weight of the words of the thread.
const THREAD_WEIGHT: f64 = 2.0;
/// Weight of the words of a message for a query of one word. Only they count then, so that messages with the word are
/// ordered by age. Set by hand.
const SINGLE_WORD_WEIGHT: f64 = 1.0;
/// Weight of a month or year that the question names.
const MONTH_WEIGHT: f64 = 5.8;
/// Weight of a day that the question names, in addition to the month.
const DAY_WEIGHT: f64 = 13.2;
/// Weight of the share of a message that consists of questions.
const QUESTION_WEIGHT: f64 = -2.0;
/// Weight of the words of the question that a message answers.
const ANSWER_WEIGHT: f64 = 1.7;
/// Weight of a time in the message, if the question asks for one.
const TIME_WEIGHT: f64 = 2.5;
/// Weight of a number in the message, if the question asks for one.
const NUMBER_WEIGHT: f64 = 1.0;
/// Weight of a name in the message, if the question asks for a person, a place or a choice.
const NAME_WEIGHT: f64 = 1.1;
/// Weight of a message whose speaker the question names.
const SPEAKER_WEIGHT: f64 = 3.6;
/// Share of [`SPEAKER_WEIGHT`] if the question names several speakers, for the first of them.
const FIRST_SPEAKER_SHARE: f64 = 1.0 / 3.0;
/// Weight of a message whose role the question names. A role is a speaker too.
const ROLE_WEIGHT: f64 = SPEAKER_WEIGHT;
/// Weight of a message that contains the text of the query word for word. Set by hand: more than all others together.
const SENTENCE_WEIGHT: f64 = 40.0;
/// Weight of a tool result, unless the question asks for tool output. Set by hand.
const TOOL_WEIGHT: f64 = -6.0;
/// Weight of a summary, a handoff or an item. Set by hand: it ranks below the message that it repeats, even if that
/// message is a question.
const DOCUMENT_WEIGHT: f64 = -2.5;

/// Number of hits before the best document, if it contains the words of the first hit. Without this limit, many
/// messages about the same thing would hide the summary of all of them.
const HITS_BEFORE_DOCUMENT: usize = 7;

/// The question that candidates are ranked for.
pub(super) struct Question<'a> {
    /// The words that are searched for, in order.
    pub(super) words: &'a [String],
    /// The whole text; empty if only the words are known.
    pub(super) text: &'a str,
    /// The dates that it names.
    pub(super) dates: &'a [PartialDate],
}

/// Sets the scores of candidates by the features of the index alone.
pub(super) fn score_by_index(candidates: &mut [SearchCandidate], word_count: usize) {
    for candidate in candidates {
        let IndexFeatures { own, window, thread } = candidate.features;
        candidate.score = match word_count {
            0 | 1 => SINGLE_WORD_WEIGHT * own,
            _ => OWN_WEIGHT * own + WINDOW_WEIGHT * window + THREAD_WEIGHT * thread,
        };
        if candidate.row < 0 {
            candidate.score += DOCUMENT_WEIGHT;
        }
    }
}

/// Completes the scores of the best candidates with the features of their texts, and sorts them again. At least
/// `limit` candidates are scored so; the others follow them in their order.
pub(super) fn rank_by_text(
    db: &SqlConnection,
    question: &Question<'_>,
    limit: usize,
    candidates: &mut SearchCandidates,
) -> Result<()> {
    let best = &mut candidates.best;
    add_date_scores(db, question.dates, best)?;
    let unread = best.split_off(best.len().min(limit.max(TEXTS_READ_MIN)));
    let texts = read_message_texts(db, best)?;
    let scorer = TextScorer::new(question, &texts);
    for (candidate, text) in best.iter_mut().zip(&texts) {
        candidate.score += text.as_ref().map_or(0.0, |text| scorer.score(candidate, text));
    }
    best.sort_unstable_by(compare_candidates);
    promote_best_document(best);
    candidates.others.splice(0..0, unread);
    Ok(())
}

/// Moves the best summary, handoff or item that contains the words of the first candidate behind the first
/// [`HITS_BEFORE_DOCUMENT`] candidates, if it ranks lower.
fn promote_best_document(candidates: &mut Vec<SearchCandidate>) {
    let Some(words) = candidates.first().map(|first| first.matched_words).filter(|words| *words != 0) else {
        return;
    };
    let is_about_same =
        |candidate: &SearchCandidate| candidate.row < 0 && candidate.matched_words & words == words;
    let Some(rank) = candidates.iter().position(is_about_same) else { return };
    if rank > HITS_BEFORE_DOCUMENT {
        let document = candidates.remove(rank);
        let score = candidates[HITS_BEFORE_DOCUMENT - 1].score;
        candidates.insert(HITS_BEFORE_DOCUMENT, SearchCandidate { score, ..document });
    }
}

/// Adds to the scores of messages from the dates that the question names, and sorts the candidates again.
fn add_date_scores(
    db: &SqlConnection,
    dates: &[PartialDate],
    candidates: &mut [SearchCandidate],
) -> Result<()> {
    if dates.is_empty() {
        return Ok(());
    }
    for candidate in candidates.iter_mut() {
        let Some(created_at) = documents::message_time(db, candidate.row)? else { continue };
        let matching_parts = dates.iter().map(|date| date.match_score(created_at)).max().unwrap_or_default();
        candidate.score += match matching_parts {
            0 => 0.0,
            1 => MONTH_WEIGHT,
            _ => MONTH_WEIGHT + DAY_WEIGHT,
        };
    }
    candidates.sort_unstable_by(compare_candidates);
    Ok(())
}

/// Computes the part of a score that depends on the text of a message.
struct TextScorer {
    /// The kinds of answers that the question asks for.
    cues: QuestionCues,
    /// The text of the query in normal form, if it is a sentence; see [`cues::normalize`].
    sentence: Option<String>,
    /// Number of words of the query.
    word_count: usize,
    /// The speakers that the question names, in its order.
    speakers: Vec<String>,
}

impl TextScorer {
    /// Returns the scorer for a question. A word of it is the name of a speaker if a message of `texts` begins with it
    /// and a colon. The case must be the same, because `Error: …` names no speaker for the word "error".
    fn new(question: &Question<'_>, texts: &[Option<MessageText>]) -> Self {
        let names: HashSet<&str> =
            texts.iter().flatten().filter_map(|message| message.cue_text().speaker_name()).collect();
        let mut speakers: Vec<String> = Vec::new();
        for word in cues::words(question.text) {
            if names.contains(word) && !speakers.iter().any(|known| known == word) {
                speakers.push(word.to_owned());
            }
        }
        let sentence = cues::normalize(question.text);
        Self {
            cues: QuestionCues::from_question(question.text),
            sentence: (sentence.split(' ').count() >= SENTENCE_WORDS_MIN).then_some(sentence),
            word_count: question.words.len(),
            speakers,
        }
    }

    /// Returns the sum of the weighted features of a text.
    fn score(&self, candidate: &SearchCandidate, message: &MessageText) -> f64 {
        let role_score = self.role_score(message);
        if self.word_count < 2 || message.is_tool_result() {
            return role_score;
        }
        let text = message.cue_text();
        let QuestionCues { asks_time, asks_number, asks_name, .. } = self.cues;
        let weight_if = |has_cue: bool, weight: f64| if has_cue { weight } else { 0.0 };
        role_score
            + QUESTION_WEIGHT * text.question_share()
            + ANSWER_WEIGHT * answered_weight(candidate, message)
            + weight_if(asks_time && text.has_time(), TIME_WEIGHT)
            + weight_if(asks_number && text.has_number(), NUMBER_WEIGHT)
            + weight_if(asks_name && text.has_name(), NAME_WEIGHT)
            + self.speaker_score(text)
            + self.sentence_score(message.visible_text())
    }

    /// Returns the score of the role of a message.
    fn role_score(&self, message: &MessageText) -> f64 {
        match self.cues.role {
            Some(role) if role == message.role => ROLE_WEIGHT,
            Some(_) | None if message.is_tool_result() => TOOL_WEIGHT,
            Some(_) | None => 0.0,
        }
    }

    /// Returns the score of the speaker that a text begins with.
    fn speaker_score(&self, text: CueText<'_>) -> f64 {
        let Some(name) = text.speaker_name() else { return 0.0 };
        match &self.speakers[..] {
            [only] if *only == name => SPEAKER_WEIGHT,
            [first, _, ..] if *first == name => SPEAKER_WEIGHT * FIRST_SPEAKER_SHARE,
            _ => 0.0,
        }
    }

    /// Returns the score of a text that contains the query word for word.
    fn sentence_score(&self, text: &str) -> f64 {
        let contains = |sentence: &String| cues::normalize(text).contains(&**sentence);
        if self.sentence.as_ref().is_some_and(contains) { SENTENCE_WEIGHT } else { 0.0 }
    }
}

/// Returns the weight of the words of the question that a message answers: 0 if the message before it does not match,
/// or is not a question.
fn answered_weight(candidate: &SearchCandidate, message: &MessageText) -> f64 {
    let (Some(matched), Some(previous)) = (candidate.preceding, &message.previous) else { return 0.0 };
    let is_question = || CueText::new(&previous.text).is_question();
    if row_seq(matched.row) == previous.seq && is_question() { matched.own } else { 0.0 }
}
