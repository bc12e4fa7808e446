//! A summary without a model: what was asked, said, decided and left open, in the words it was said in, and the names it was
//! about. It sees each turn once and keeps a bounded part, however many there are; it rewords nothing.

use std::collections::{HashMap, HashSet};

use facts::formatting::{count_content_words, strip_markdown, to_single_line, truncate_with_ellipsis};
use facts::{ConversationFacts, FactCollector, Quote, TranscriptItem, TranscriptItemKind};
use jiff::Timestamp;
use model::sentence_ranking::{rank_sentences, split_sentences};
use model::tokens;
use protocol::{Message, MessageRole};

use super::turn_text::{SummarizerTurn, role_label};

const DAY_SECONDS: i64 = 86_400;
/// Changes of the day that are remembered; what was said after more of them is not dated.
const DAYS_MAX: usize = 20_000;
/// Sentences that are kept until the most telling of them are found, and how many of those stay.
const SENTENCES_MAX: usize = 4_000;
const SENTENCES_KEPT: usize = 500;
const ENTRY_GRAPHEMES: usize = 220;
/// Words that carry meaning below which a sentence tells nothing.
const SENTENCE_CONTENT_WORDS_MIN: usize = 3;
/// Bytes of a name of a person, a place or a thing.
const NAME_BYTES_MAX: usize = 80;
/// Such names that are counted at a time, and how many are told.
const NAMES_MAX: usize = 2_000;
/// Words that were seen without a capital and are remembered, and the bytes of such a word.
const COMMON_WORDS_MAX: usize = 10_000;
const COMMON_WORD_BYTES_MAX: usize = 20;
/// Words that are no names where they have a capital, whether or not they are seen without one.
const NON_NAMES: [&str; 40] = [
    "about", "all", "and", "are", "but", "can", "could", "did", "does", "for", "from", "had", "has", "have",
    "here", "how", "its", "let", "may", "not", "now", "our", "should", "some", "that", "the", "then",
    "there", "these", "they", "this", "was", "what", "when", "where", "which", "who", "why", "will", "you",
];
const NAMES_SHOWN_MAX: usize = 24;
/// Of every hundred plain characters, those that what was asked may take, what was decided, what is open, and names.
const REQUESTS_PERCENT: u64 = 30;
const DECISIONS_PERCENT: u64 = 20;
const OPEN_QUESTIONS_PERCENT: u64 = 8;
const NAMES_PERCENT: u64 = 15;
/// The first requests that are told before the newest ones: they say what it was about.
const FIRST_REQUESTS_KEPT: usize = 2;

/// The fold.
#[derive(Default)]
pub(super) struct OfflineSummaryBuilder {
    fact_collector: FactCollector,
    /// The day from a turn on, where it differs from the one before.
    days: Vec<(u64, i64)>,
    sentences: Vec<TurnSentence>,
    names: HashMap<String, u32>,
    /// Words that were seen without a capital.
    common_words: HashSet<String>,
    /// Texts that are already part of the summary.
    used_texts: HashSet<String>,
}

/// Something that was said.
struct TurnSentence {
    turn_index: u64,
    role: MessageRole,
    text: String,
}

impl OfflineSummaryBuilder {
    /// Takes the next turn.
    pub(super) fn push_turn(&mut self, turn_index: u64, said: &SummarizerTurn) {
        let day = said.at.as_second().div_euclid(DAY_SECONDS);
        if self.days.len() < DAYS_MAX && self.days.last().is_none_or(|(_, last)| *last != day) {
            self.days.push((turn_index, day));
        }
        let message = match said.role {
            MessageRole::User => Message::human(said.text.as_str()),
            MessageRole::Assistant => Message::ai(said.text.as_str()),
        };
        let what = TranscriptItemKind::Message(message);
        self.fact_collector.push(&TranscriptItem {
            seq: turn_index,
            at: said.at,
            kind: what,
            is_subagent: false,
            is_injected: false,
            is_imported: true,
        });
        for sentence in split_sentences(&said.text) {
            self.count_names(sentence);
            let text = strip_markdown(sentence);
            if count_content_words(&text) >= SENTENCE_CONTENT_WORDS_MIN {
                let text = truncate_with_ellipsis(&text, ENTRY_GRAPHEMES);
                self.sentences.push(TurnSentence { turn_index, role: said.role, text });
            }
        }
        if self.sentences.len() > SENTENCES_MAX {
            self.prune_sentences(SENTENCES_KEPT);
        }
    }

    /// Counts the words that begin with a capital where a sentence does not; those that follow each other are one name.
    fn count_names(&mut self, sentence: &str) {
        let mut name = String::new();
        let mut words = sentence.split_whitespace();
        // What follows a mark, such as a colon or a bullet, begins another phrase.
        let mut begins = !words.next().is_some_and(is_phrase_continued);
        for word in words {
            let bare = word
                .trim_matches(|c: char| !c.is_alphanumeric())
                .trim_end_matches("'s")
                .trim_end_matches("’s");
            let is_name = is_name_word(bare) && !begins;
            begins = !is_phrase_continued(word);
            if is_name {
                if !name.is_empty() {
                    name.push(' ');
                }
                name.push_str(bare);
            }
            self.record_common_word(bare);
            // What stands behind a word ends the name.
            if !is_name || !word.ends_with(char::is_alphanumeric) {
                self.count_name(std::mem::take(&mut name));
            }
        }
        self.count_name(name);
    }

    fn record_common_word(&mut self, word: &str) {
        let is_common = word.len() <= COMMON_WORD_BYTES_MAX && word.chars().all(char::is_lowercase);
        if is_common && self.common_words.len() < COMMON_WORDS_MAX && !self.common_words.contains(word) {
            self.common_words.insert(word.to_owned());
        }
    }

    /// Returns whether any word of a name is more than a common one that has a capital for another reason.
    fn is_proper_name(&self, name: &str) -> bool {
        name.split(' ').any(|word| {
            let lower = word.to_lowercase();
            let is_plain = word.chars().skip(1).all(char::is_lowercase);
            !is_plain || !(NON_NAMES.contains(&lower.as_str()) || self.common_words.contains(&lower))
        })
    }

    fn count_name(&mut self, name: String) {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return;
        }
        if let Some(count) = self.names.get_mut(&name) {
            *count += 1;
            return;
        }
        if self.names.len() >= NAMES_MAX {
            // The rarest are given up, and the others count less: what was frequent long ago does not stay for ever.
            self.names.values_mut().for_each(|count| *count -= 1);
            self.names.retain(|_, count| *count > 0);
        }
        if self.names.len() < NAMES_MAX {
            self.names.insert(name, 1);
        }
    }

    /// Keeps the sentences that tell most of what all of them are about, in their order.
    fn prune_sentences(&mut self, count: usize) {
        let texts: Vec<&str> = self.sentences.iter().map(|sentence| sentence.text.as_str()).collect();
        let scores = rank_sentences(&texts);
        let mut best: Vec<usize> = (0..scores.len()).collect();
        best.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
        let mut is_kept = vec![false; scores.len()];
        best.into_iter().take(count).for_each(|at| is_kept[at] = true);
        let mut kept = is_kept.into_iter();
        self.sentences.retain(|_| kept.next().unwrap_or_default());
    }

    /// Returns what is told of the turns in so many tokens.
    pub(super) fn finish(mut self, tokens_max: u64) -> String {
        let weight_max = tokens_max * tokens::CHARS_PER_TOKEN;
        let share = |percent: u64| weight_max * percent / 100;
        let facts = self.fact_collector.finish();
        let mut text = SectionedText { body: String::new(), weight: 0 };
        text.push_section("Asked", self.request_lines(&facts, share(REQUESTS_PERCENT)));
        text.push_section("Decided", self.newest_quote_lines(&facts.decisions, share(DECISIONS_PERCENT)));
        text.push_section("Open", self.open_question_lines(&facts, share(OPEN_QUESTIONS_PERCENT)));
        let names = self.names_line(&facts, share(NAMES_PERCENT));
        let left = weight_max.saturating_sub(text.weight + tokens::weight(&names) + 8);
        let said = self.sentence_lines(&text.body, left);
        text.push_section("Said", said);
        text.push_line(&names);
        text.body
    }

    /// Returns what people asked: the first requests and the newest.
    fn request_lines(&mut self, facts: &ConversationFacts, weight_max: u64) -> Vec<String> {
        let first = facts.requests.iter().take(FIRST_REQUESTS_KEPT).enumerate();
        let newest = facts.requests.iter().enumerate().skip(FIRST_REQUESTS_KEPT).rev();
        self.select_fitting(first.chain(newest).collect(), weight_max)
    }

    /// Returns the newest of these.
    fn newest_quote_lines(&mut self, quotes: &[Quote], weight_max: u64) -> Vec<String> {
        self.select_fitting(quotes.iter().enumerate().rev().collect(), weight_max)
    }

    /// Returns what nobody had answered at the end.
    fn open_question_lines(&mut self, facts: &ConversationFacts, weight_max: u64) -> Vec<String> {
        let open: Vec<&Quote> = facts.open_question.iter().chain(facts.unanswered_requests.last()).collect();
        self.select_fitting(open.into_iter().enumerate().collect(), weight_max)
    }

    /// Returns as many of the quotes as fit, those that come first before the others, in the order of their numbers.
    fn select_fitting(&mut self, quotes: Vec<(usize, &Quote)>, weight_max: u64) -> Vec<String> {
        let mut left = weight_max;
        let mut told: Vec<(usize, String)> = Vec::new();
        for (number, quote) in quotes {
            let text = truncate_with_ellipsis(&to_single_line(&quote.text), ENTRY_GRAPHEMES);
            let line = self.with_date(quote.seq, &text);
            let Some(rest) = left.checked_sub(tokens::weight(&line) + 3) else { continue };
            if !self.used_texts.insert(text) {
                continue;
            }
            left = rest;
            told.push((number, line));
        }
        told.sort_by_key(|(number, _)| *number);
        told.into_iter().map(|(_, line)| line).collect()
    }

    /// Returns the most telling sentences that are not in `told` already, in their order.
    fn sentence_lines(&mut self, told: &str, weight_max: u64) -> Vec<String> {
        let key = |text: &str| text.trim_end_matches(facts::formatting::ELLIPSIS).to_owned();
        self.sentences.retain(|sentence| !told.contains(&key(&sentence.text)));
        let texts: Vec<&str> = self.sentences.iter().map(|sentence| sentence.text.as_str()).collect();
        let scores = rank_sentences(&texts);
        let mut best: Vec<usize> = (0..scores.len()).collect();
        best.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
        let mut left = weight_max;
        let mut chosen: Vec<(usize, String)> = Vec::new();
        for at in best {
            let TurnSentence { turn_index, role, text } = &self.sentences[at];
            if chosen.iter().any(|(other, _)| self.sentences[*other].text == *text) {
                continue;
            }
            let line = self.with_date(*turn_index, &format!("{}: {text}", role_label(*role)));
            match left.checked_sub(tokens::weight(&line) + 3) {
                Some(rest) => left = rest,
                // What is a little shorter may still fit, and what is much shorter tells little.
                None if left < weight_max / 8 => break,
                None => continue,
            }
            chosen.push((at, line));
        }
        chosen.sort_by_key(|(at, _)| *at);
        chosen.into_iter().map(|(_, line)| line).collect()
    }

    /// Returns the line of names: the most used of each sort.
    fn names_line(&self, facts: &ConversationFacts, weight_max: u64) -> String {
        let mut proper: Vec<(&String, &u32)> =
            self.names.iter().filter(|(name, _)| self.is_proper_name(name)).collect();
        proper.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        let proper = proper.into_iter().take(NAMES_SHOWN_MAX).map(|(name, _)| name.as_str());
        let other = facts.references.iter().chain(&facts.identifiers).map(|name| name.text.as_str());
        let mut line = String::new();
        let mut told: Vec<&str> = Vec::new();
        for name in proper.chain(other) {
            let is_new = !told.iter().any(|told| told.eq_ignore_ascii_case(name));
            if is_new && tokens::weight(&line) + tokens::weight(name) + 2 <= weight_max.saturating_sub(8) {
                line.push_str(if told.is_empty() { "Names: " } else { ", " });
                line.push_str(name);
                told.push(name);
            }
        }
        line
    }

    /// Returns the line with the day of its turn before it, where there is more than one.
    fn with_date(&self, turn_index: u64, line: &str) -> String {
        let at = self.days.partition_point(|(first, _)| *first <= turn_index);
        match at.checked_sub(1).and_then(|at| self.days.get(at)) {
            Some((_, number)) if self.days.len() > 1 => {
                format!("{}: {line}", format_day(number * DAY_SECONDS))
            }
            Some(_) | None => line.to_owned(),
        }
    }
}

/// A text that grows by sections.
struct SectionedText {
    body: String,
    weight: u64,
}

impl SectionedText {
    fn push_section(&mut self, name: &str, lines: Vec<String>) {
        if lines.is_empty() {
            return;
        }
        self.push_line(&format!("{name}:"));
        lines.iter().for_each(|line| self.push_line(&format!("- {line}")));
    }

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

/// Returns whether a word is written as names are; a contraction is none.
fn is_name_word(word: &str) -> bool {
    let mut letters = word.chars();
    let begins = letters.next().is_some_and(char::is_uppercase);
    let is_contracted =
        ["'ll", "'m", "'re", "'ve", "'d", "n't"].iter().any(|end| word.replace('’', "'").ends_with(end));
    begins && letters.any(char::is_lowercase) && word.chars().count() > 2 && !is_contracted
}

/// Returns whether the phrase goes on behind the word.
fn is_phrase_continued(word: &str) -> bool {
    word.ends_with(|last: char| last.is_alphanumeric() || matches!(last, ',' | ')' | '\'' | '’'))
}

/// Returns the day of a moment, in UTC.
pub(super) fn format_day(second: i64) -> String {
    Timestamp::from_second(second).map(|at| at.strftime("%Y-%m-%d").to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
