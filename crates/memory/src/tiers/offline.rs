//! The offline summary of memory: extracts requests, decisions, open questions, the most representative sentences and
//! names from messages without a model. All text is quoted, never reworded.
//!
//! [`OfflineSummaryBuilder`] takes the messages one by one. Its memory is bounded, however many there are.

use std::collections::{HashMap, HashSet};

use facts::formatting::{count_content_words, strip_markdown, to_single_line, truncate_with_ellipsis};
use facts::{ConversationFacts, FactCollector, Quote, TranscriptItem, TranscriptItemKind};
use jiff::Timestamp;
use model::sentence_ranking::{rank_sentences, split_sentences};
use model::tokens;
use protocol::{Message, MessageRole};

use super::turn_text::{SummarizerTurn, role_label};

const DAY_SECONDS: i64 = 86_400;
/// Maximum number of day changes that are recorded. Messages after the last recorded change get its day.
const DAYS_MAX: usize = 20_000;
/// Maximum number of candidate sentences that the builder holds. When it is exceeded, only the best [`SENTENCES_KEPT`]
/// remain.
const SENTENCES_MAX: usize = 4_000;
/// Number of candidate sentences that remain after pruning.
const SENTENCES_KEPT: usize = 500;
/// Maximum length of an entry of the summary in grapheme clusters.
const ENTRY_GRAPHEMES: usize = 220;
/// Minimum number of content words of a sentence in the summary.
const SENTENCE_CONTENT_WORDS_MIN: usize = 3;
/// Maximum length of a proper name in bytes.
const NAME_BYTES_MAX: usize = 80;
/// Maximum number of proper names that are counted at the same time.
const NAMES_MAX: usize = 2_000;
/// Maximum number of common words that are recorded; see [`OfflineSummaryBuilder::common_words`].
const COMMON_WORDS_MAX: usize = 10_000;
/// Maximum length of a recorded common word in bytes.
const COMMON_WORD_BYTES_MAX: usize = 20;
/// Words that are never names, even if the messages contain them only with a capital letter.
const NON_NAMES: [&str; 40] = [
    "about", "all", "and", "are", "but", "can", "could", "did", "does", "for", "from", "had", "has", "have",
    "here", "how", "its", "let", "may", "not", "now", "our", "should", "some", "that", "the", "then",
    "there", "these", "they", "this", "was", "what", "when", "where", "which", "who", "why", "will", "you",
];
/// Maximum number of proper names in the summary.
const NAMES_SHOWN_MAX: usize = 24;
/// Maximum share of the summary's length, in percent, for the section of requests. The constants below are the shares of
/// the sections of decisions, open questions and names. The section of sentences gets the remaining space.
const REQUESTS_PERCENT: u64 = 30;
const DECISIONS_PERCENT: u64 = 20;
const OPEN_QUESTIONS_PERCENT: u64 = 8;
const NAMES_PERCENT: u64 = 15;
/// Number of oldest requests that are selected before the newest ones, because they state the subject.
const FIRST_REQUESTS_KEPT: usize = 2;

/// Builds an offline summary from messages that are pushed in order.
#[derive(Default)]
pub(super) struct OfflineSummaryBuilder {
    /// Collects requests, decisions, open questions, references and identifiers.
    fact_collector: FactCollector,
    /// The days of the messages as `(index of the day's first message, days since 1970)`, in order.
    days: Vec<(u64, i64)>,
    /// The candidates for the section of sentences, in the order of the messages.
    sentences: Vec<TurnSentence>,
    /// Number of occurrences of each possible proper name.
    names: HashMap<String, u32>,
    /// Words that also occur in lower case. A capitalised occurrence of such a word is not counted as a name, because the
    /// word may be capitalised only by its position.
    common_words: HashSet<String>,
    /// Texts that are already part of the summary.
    used_texts: HashSet<String>,
}

/// A sentence of a message.
struct TurnSentence {
    /// The index of its message.
    turn_index: u64,
    role: MessageRole,
    text: String,
}

impl OfflineSummaryBuilder {
    /// Adds the next message. `turn_index` must be higher than that of the previous message.
    pub(super) fn push_turn(&mut self, turn_index: u64, turn: &SummarizerTurn) {
        let day = turn.at.as_second().div_euclid(DAY_SECONDS);
        if self.days.len() < DAYS_MAX && self.days.last().is_none_or(|(_, last)| *last != day) {
            self.days.push((turn_index, day));
        }
        let message = match turn.role {
            MessageRole::User => Message::human(turn.text.as_str()),
            MessageRole::Assistant => Message::ai(turn.text.as_str()),
        };
        // The index is used as the seq, because the messages can belong to several threads, whose seqs overlap.
        self.fact_collector.push(&TranscriptItem {
            seq: turn_index,
            at: turn.at,
            kind: TranscriptItemKind::Message(message),
            is_subagent: false,
            is_injected: false,
            is_imported: true,
        });
        for sentence in split_sentences(&turn.text) {
            self.count_names(sentence);
            let text = strip_markdown(sentence);
            if count_content_words(&text) >= SENTENCE_CONTENT_WORDS_MIN {
                let text = truncate_with_ellipsis(&text, ENTRY_GRAPHEMES);
                self.sentences.push(TurnSentence { turn_index, role: turn.role, text });
            }
        }
        if self.sentences.len() > SENTENCES_MAX {
            self.prune_sentences(SENTENCES_KEPT);
        }
    }

    /// Counts possible proper names: words with a capital letter that are not the first word of a sentence or phrase.
    /// Consecutive such words are one name.
    fn count_names(&mut self, sentence: &str) {
        let mut name = String::new();
        let mut words = sentence.split_whitespace();
        // A word after punctuation, such as a colon or a bullet, begins a phrase and may be capitalised only for that
        // reason.
        let mut begins_phrase = !words.next().is_some_and(is_phrase_continued);
        for word in words {
            let bare = word
                .trim_matches(|c: char| !c.is_alphanumeric())
                .trim_end_matches("'s")
                .trim_end_matches("’s");
            let is_name = is_name_word(bare) && !begins_phrase;
            begins_phrase = !is_phrase_continued(word);
            if is_name {
                if !name.is_empty() {
                    name.push(' ');
                }
                name.push_str(bare);
            }
            self.record_common_word(bare);
            // Punctuation after a word ends the name.
            if !is_name || !word.ends_with(char::is_alphanumeric) {
                self.count_name(std::mem::take(&mut name));
            }
        }
        self.count_name(name);
    }

    /// Records a word that occurs in lower case.
    fn record_common_word(&mut self, word: &str) {
        let is_common = word.len() <= COMMON_WORD_BYTES_MAX && word.chars().all(char::is_lowercase);
        if is_common && self.common_words.len() < COMMON_WORDS_MAX && !self.common_words.contains(word) {
            self.common_words.insert(word.to_owned());
        }
    }

    /// Returns whether at least one word of the name is neither a known common word nor one of [`NON_NAMES`]. A word
    /// with a capital letter inside, such as `LedgerReader`, always counts.
    fn is_proper_name(&self, name: &str) -> bool {
        name.split(' ').any(|word| {
            let lower = word.to_lowercase();
            let is_plain = word.chars().skip(1).all(char::is_lowercase);
            !is_plain || !(NON_NAMES.contains(&lower.as_str()) || self.common_words.contains(&lower))
        })
    }

    /// Counts one occurrence of a name.
    ///
    /// When the table is full, all counts are lowered by one and names without a count are removed, as in the
    /// Misra–Gries algorithm. So names that were frequent long ago make room for newer ones.
    fn count_name(&mut self, name: String) {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return;
        }
        if let Some(count) = self.names.get_mut(&name) {
            *count += 1;
            return;
        }
        if self.names.len() >= NAMES_MAX {
            self.names.values_mut().for_each(|count| *count -= 1);
            self.names.retain(|_, count| *count > 0);
        }
        if self.names.len() < NAMES_MAX {
            self.names.insert(name, 1);
        }
    }

    /// Keeps the `count` most representative sentences according to [`rank_sentences`], in their order, and removes the
    /// others.
    fn prune_sentences(&mut self, count: usize) {
        let texts: Vec<&str> = self.sentences.iter().map(|sentence| sentence.text.as_str()).collect();
        let scores = rank_sentences(&texts);
        let mut best: Vec<usize> = (0..scores.len()).collect();
        best.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
        let mut is_kept = vec![false; scores.len()];
        best.into_iter().take(count).for_each(|index| is_kept[index] = true);
        let mut flags = is_kept.into_iter();
        self.sentences.retain(|_| flags.next().unwrap_or_default());
    }

    /// Returns the summary, at most `tokens_max` tokens by estimate. It is empty when nothing was pushed or nothing
    /// fits.
    ///
    /// The sentences are selected last, because they fill the space that the other sections leave.
    pub(super) fn finish(mut self, tokens_max: u64) -> String {
        let weight_max = tokens_max * tokens::CHARS_PER_TOKEN;
        let share = |percent: u64| weight_max * percent / 100;
        let facts = self.fact_collector.finish();
        let mut text = SectionedText { body: String::new(), weight: 0 };
        text.push_section("Asked", self.request_lines(&facts, share(REQUESTS_PERCENT)));
        text.push_section("Decided", self.newest_quote_lines(&facts.decisions, share(DECISIONS_PERCENT)));
        text.push_section("Open", self.open_question_lines(&facts, share(OPEN_QUESTIONS_PERCENT)));
        let names = self.names_line(&facts, share(NAMES_PERCENT));
        let weight_left = weight_max.saturating_sub(text.weight + tokens::weight(&names) + 8);
        let sentences = self.sentence_lines(&text.body, weight_left);
        text.push_section("Said", sentences);
        text.push_line(&names);
        text.body
    }

    /// Returns the lines of requests: the first [`FIRST_REQUESTS_KEPT`] and as many of the newest as fit.
    fn request_lines(&mut self, facts: &ConversationFacts, weight_max: u64) -> Vec<String> {
        let first = facts.requests.iter().take(FIRST_REQUESTS_KEPT).enumerate();
        let newest = facts.requests.iter().enumerate().skip(FIRST_REQUESTS_KEPT).rev();
        self.select_fitting(first.chain(newest).collect(), weight_max)
    }

    /// Returns the lines of the newest quotes that fit.
    fn newest_quote_lines(&mut self, quotes: &[Quote], weight_max: u64) -> Vec<String> {
        self.select_fitting(quotes.iter().enumerate().rev().collect(), weight_max)
    }

    /// Returns the lines of the last open question and of the last request without an answer.
    fn open_question_lines(&mut self, facts: &ConversationFacts, weight_max: u64) -> Vec<String> {
        let open: Vec<&Quote> = facts.open_question.iter().chain(facts.unanswered_requests.last()).collect();
        self.select_fitting(open.into_iter().enumerate().collect(), weight_max)
    }

    /// Returns lines for the quotes that fit into `weight_max`. Earlier elements of `quotes` are selected first. The
    /// lines are sorted by the number of each quote. A text that the summary already contains is skipped.
    fn select_fitting(&mut self, quotes: Vec<(usize, &Quote)>, weight_max: u64) -> Vec<String> {
        let mut weight_left = weight_max;
        let mut selected: Vec<(usize, String)> = Vec::new();
        for (number, quote) in quotes {
            let text = truncate_with_ellipsis(&to_single_line(&quote.text), ENTRY_GRAPHEMES);
            let line = self.with_date(quote.seq, &text);
            // 3 characters for the bullet and the line break.
            let Some(after) = weight_left.checked_sub(tokens::weight(&line) + 3) else { continue };
            if !self.used_texts.insert(text) {
                continue;
            }
            weight_left = after;
            selected.push((number, line));
        }
        selected.sort_by_key(|(number, _)| *number);
        selected.into_iter().map(|(_, line)| line).collect()
    }

    /// Returns lines for the most representative sentences that `body` does not contain yet, in their original order.
    fn sentence_lines(&mut self, body: &str, weight_max: u64) -> Vec<String> {
        let key = |text: &str| text.trim_end_matches(facts::formatting::ELLIPSIS).to_owned();
        self.sentences.retain(|sentence| !body.contains(&key(&sentence.text)));
        let texts: Vec<&str> = self.sentences.iter().map(|sentence| sentence.text.as_str()).collect();
        let scores = rank_sentences(&texts);
        let mut best: Vec<usize> = (0..scores.len()).collect();
        best.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
        let mut weight_left = weight_max;
        let mut selected: Vec<(usize, String)> = Vec::new();
        for index in best {
            let TurnSentence { turn_index, role, text } = &self.sentences[index];
            if selected.iter().any(|(other, _)| self.sentences[*other].text == *text) {
                continue;
            }
            let line = self.with_date(*turn_index, &format!("{}: {text}", role_label(*role)));
            match weight_left.checked_sub(tokens::weight(&line) + 3) {
                Some(after) => weight_left = after,
                // Shorter sentences are tried as long as an eighth of the space is left. Less space would only admit
                // very short sentences, which say little.
                None if weight_left < weight_max / 8 => break,
                None => continue,
            }
            selected.push((index, line));
        }
        selected.sort_by_key(|(index, _)| *index);
        selected.into_iter().map(|(_, line)| line).collect()
    }

    /// Returns the line of names: the most frequent proper names, then references such as issue numbers, then
    /// identifiers. Names that differ only in case appear once.
    fn names_line(&self, facts: &ConversationFacts, weight_max: u64) -> String {
        let mut proper: Vec<(&String, &u32)> =
            self.names.iter().filter(|(name, _)| self.is_proper_name(name)).collect();
        proper.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        let proper = proper.into_iter().take(NAMES_SHOWN_MAX).map(|(name, _)| name.as_str());
        let other = facts.references.iter().chain(&facts.identifiers).map(|name| name.text.as_str());
        let mut line = String::new();
        let mut shown: Vec<&str> = Vec::new();
        for name in proper.chain(other) {
            let is_new = !shown.iter().any(|shown| shown.eq_ignore_ascii_case(name));
            if is_new && tokens::weight(&line) + tokens::weight(name) + 2 <= weight_max.saturating_sub(8) {
                line.push_str(if shown.is_empty() { "Names: " } else { ", " });
                line.push_str(name);
                shown.push(name);
            }
        }
        line
    }

    /// Returns the line, prefixed with the day of its message. If all messages are of one day, the prefix is omitted,
    /// because the heading of the summary states the day.
    fn with_date(&self, turn_index: u64, line: &str) -> String {
        let next_day = self.days.partition_point(|(first, _)| *first <= turn_index);
        match next_day.checked_sub(1).and_then(|index| self.days.get(index)) {
            Some((_, day)) if self.days.len() > 1 => {
                format!("{}: {line}", format_day(day * DAY_SECONDS))
            }
            Some(_) | None => line.to_owned(),
        }
    }
}

/// A text that is built from sections, with its weight (see [`tokens::weight`]).
struct SectionedText {
    body: String,
    /// The weight of `body` in plain characters.
    weight: u64,
}

impl SectionedText {
    /// Appends a heading and the lines as a list; nothing when there are no lines.
    fn push_section(&mut self, name: &str, lines: Vec<String>) {
        if lines.is_empty() {
            return;
        }
        self.push_line(&format!("{name}:"));
        lines.iter().for_each(|line| self.push_line(&format!("- {line}")));
    }

    /// Appends a line, unless it is empty.
    fn push_line(&mut self, line: &str) {
        if line.is_empty() {
            return;
        }
        if !self.body.is_empty() {
            self.body.push('\n');
        }
        self.body.push_str(line);
        self.weight += tokens::weight(line) + 1;
    }
}

/// Returns whether a word is written like a name: with a capital first letter, a lower-case letter and at least three
/// characters. Contractions such as "I'll" are excluded.
fn is_name_word(word: &str) -> bool {
    let mut letters = word.chars();
    let is_capitalised = letters.next().is_some_and(char::is_uppercase);
    let is_contracted =
        ["'ll", "'m", "'re", "'ve", "'d", "n't"].iter().any(|end| word.replace('’', "'").ends_with(end));
    is_capitalised && letters.any(char::is_lowercase) && word.chars().count() > 2 && !is_contracted
}

/// Returns whether the phrase continues after the word, so that a capital of the next word means a name.
fn is_phrase_continued(word: &str) -> bool {
    word.ends_with(|last: char| last.is_alphanumeric() || matches!(last, ',' | ')' | '\'' | '’'))
}

/// Formats the UTC date of a Unix time in seconds as `YYYY-MM-DD`. Returns an empty string for a time out of range.
pub(super) fn format_day(second: i64) -> String {
    Timestamp::from_second(second).map(|at| at.strftime("%Y-%m-%d").to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
