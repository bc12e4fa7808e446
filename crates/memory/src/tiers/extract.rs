//! A summary without a model: what was asked, said, decided and left open, in the words it was said in, and the names it was
//! about. It sees each turn once and keeps a bounded part, however many there are; it rewords nothing.

use std::collections::{HashMap, HashSet};

use facts::phrase::{clip, flat, plain, weight};
use facts::{Facts, Item, Ledger, Quote, What};
use jiff::Timestamp;
use model::extractive::{rank, sentences};
use model::tokens;
use protocol::{Message, TurnRole};

use super::shown::{Said, speaker};

const DAY_SECONDS: i64 = 86_400;
/// Changes of the day that are remembered; what was said after more of them is not dated.
const DAYS_MAX: usize = 20_000;
/// Sentences that are kept until the most telling of them are found, and how many of those stay.
const SENTENCES_MAX: usize = 4_000;
const SENTENCES_KEPT: usize = 500;
const ENTRY_GRAPHEMES: usize = 220;
/// Words that carry meaning below which a sentence tells nothing.
const SENTENCE_WEIGHT_MIN: usize = 3;
/// Bytes of a name of a person, a place or a thing.
const NAME_BYTES_MAX: usize = 80;
/// Such names that are counted at a time, and how many are told.
const NAMES_MAX: usize = 2_000;
/// Words that were seen without a capital and are remembered, and the bytes of such a word.
const COMMON_MAX: usize = 10_000;
const COMMON_BYTES_MAX: usize = 20;
/// Words that are no names where they have a capital, whether or not they are seen without one.
const NO_NAMES: [&str; 40] = [
    "about", "all", "and", "are", "but", "can", "could", "did", "does", "for", "from", "had", "has", "have",
    "here", "how", "its", "let", "may", "not", "now", "our", "should", "some", "that", "the", "then",
    "there", "these", "they", "this", "was", "what", "when", "where", "which", "who", "why", "will", "you",
];
const NAMES_TOLD: usize = 24;
/// Of every hundred plain characters, those that what was asked may take, what was decided, what is open, and names.
const ASKED_PERCENT: u64 = 30;
const DECIDED_PERCENT: u64 = 20;
const OPEN_PERCENT: u64 = 8;
const NAMES_PERCENT: u64 = 15;
/// The first requests that are told before the newest ones: they say what it was about.
const FIRST_REQUESTS: usize = 2;

/// The fold.
#[derive(Default)]
pub(super) struct Extract {
    ledger: Ledger,
    /// The day from a turn on, where it differs from the one before.
    days: Vec<(u64, i64)>,
    sentences: Vec<Sentence>,
    names: HashMap<String, u32>,
    /// Words that were seen without a capital.
    common: HashSet<String>,
    /// What is told already.
    told: HashSet<String>,
}

/// Something that was said.
struct Sentence {
    turn_index: u64,
    role: TurnRole,
    text: String,
}

impl Extract {
    /// Takes the next turn.
    pub(super) fn push(&mut self, turn_index: u64, said: &Said) {
        let day = said.at.as_second().div_euclid(DAY_SECONDS);
        if self.days.len() < DAYS_MAX && self.days.last().is_none_or(|(_, last)| *last != day) {
            self.days.push((turn_index, day));
        }
        let message = match said.role {
            TurnRole::User => Message::human(said.text.as_str()),
            TurnRole::Assistant => Message::ai(said.text.as_str()),
        };
        let what = What::Message(message);
        self.ledger.push(&Item {
            seq: turn_index,
            at: said.at,
            what,
            side: false,
            injected: false,
            imported: true,
        });
        for sentence in sentences(&said.text) {
            self.count_names(sentence);
            let text = plain(sentence);
            if weight(&text) >= SENTENCE_WEIGHT_MIN {
                let text = clip(&text, ENTRY_GRAPHEMES);
                self.sentences.push(Sentence { turn_index, role: said.role, text });
            }
        }
        if self.sentences.len() > SENTENCES_MAX {
            self.keep_telling(SENTENCES_KEPT);
        }
    }

    /// Counts the words that begin with a capital where a sentence does not; those that follow each other are one name.
    fn count_names(&mut self, sentence: &str) {
        let mut name = String::new();
        let mut words = sentence.split_whitespace();
        // What follows a mark, such as a colon or a bullet, begins another phrase.
        let mut begins = !words.next().is_some_and(goes_on);
        for word in words {
            let bare = word
                .trim_matches(|c: char| !c.is_alphanumeric())
                .trim_end_matches("'s")
                .trim_end_matches("’s");
            let is_name = is_name(bare) && !begins;
            begins = !goes_on(word);
            if is_name {
                if !name.is_empty() {
                    name.push(' ');
                }
                name.push_str(bare);
            }
            self.learn_word(bare);
            // What stands behind a word ends the name.
            if !is_name || !word.ends_with(char::is_alphanumeric) {
                self.count_name(std::mem::take(&mut name));
            }
        }
        self.count_name(name);
    }

    fn learn_word(&mut self, word: &str) {
        let is_common = word.len() <= COMMON_BYTES_MAX && word.chars().all(char::is_lowercase);
        if is_common && self.common.len() < COMMON_MAX && !self.common.contains(word) {
            self.common.insert(word.to_owned());
        }
    }

    /// Returns whether any word of a name is more than a common one that has a capital for another reason.
    fn is_telling(&self, name: &str) -> bool {
        name.split(' ').any(|word| {
            let lower = word.to_lowercase();
            let is_plain = word.chars().skip(1).all(char::is_lowercase);
            !is_plain || !(NO_NAMES.contains(&lower.as_str()) || self.common.contains(&lower))
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
    fn keep_telling(&mut self, count: usize) {
        let texts: Vec<&str> = self.sentences.iter().map(|sentence| sentence.text.as_str()).collect();
        let scores = rank(&texts);
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
        let facts = self.ledger.finish();
        let mut text = Text { body: String::new(), weight: 0 };
        text.section("Asked", self.asked(&facts, share(ASKED_PERCENT)));
        text.section("Decided", self.quoted(&facts.decisions, share(DECIDED_PERCENT)));
        text.section("Open", self.open(&facts, share(OPEN_PERCENT)));
        let names = self.named(&facts, share(NAMES_PERCENT));
        let left = weight_max.saturating_sub(text.weight + tokens::weight(&names) + 8);
        let said = self.said(&text.body, left);
        text.section("Said", said);
        text.add(&names);
        text.body
    }

    /// Returns what people asked: the first requests and the newest.
    fn asked(&mut self, facts: &Facts, weight_max: u64) -> Vec<String> {
        let first = facts.requests.iter().take(FIRST_REQUESTS).enumerate();
        let newest = facts.requests.iter().enumerate().skip(FIRST_REQUESTS).rev();
        self.fitting(first.chain(newest).collect(), weight_max)
    }

    /// Returns the newest of these.
    fn quoted(&mut self, quotes: &[Quote], weight_max: u64) -> Vec<String> {
        self.fitting(quotes.iter().enumerate().rev().collect(), weight_max)
    }

    /// Returns what nobody had answered at the end.
    fn open(&mut self, facts: &Facts, weight_max: u64) -> Vec<String> {
        let open: Vec<&Quote> = facts.awaited.iter().chain(facts.unanswered.last()).collect();
        self.fitting(open.into_iter().enumerate().collect(), weight_max)
    }

    /// Returns as many of the quotes as fit, those that come first before the others, in the order of their numbers.
    fn fitting(&mut self, quotes: Vec<(usize, &Quote)>, weight_max: u64) -> Vec<String> {
        let mut left = weight_max;
        let mut told: Vec<(usize, String)> = Vec::new();
        for (number, quote) in quotes {
            let text = clip(&flat(&quote.text), ENTRY_GRAPHEMES);
            let line = self.dated(quote.seq, &text);
            let Some(rest) = left.checked_sub(tokens::weight(&line) + 3) else { continue };
            if !self.told.insert(text) {
                continue;
            }
            left = rest;
            told.push((number, line));
        }
        told.sort_by_key(|(number, _)| *number);
        told.into_iter().map(|(_, line)| line).collect()
    }

    /// Returns the most telling sentences that are not in `told` already, in their order.
    fn said(&mut self, told: &str, weight_max: u64) -> Vec<String> {
        let key = |text: &str| text.trim_end_matches(facts::phrase::CUT).to_owned();
        self.sentences.retain(|sentence| !told.contains(&key(&sentence.text)));
        let texts: Vec<&str> = self.sentences.iter().map(|sentence| sentence.text.as_str()).collect();
        let scores = rank(&texts);
        let mut best: Vec<usize> = (0..scores.len()).collect();
        best.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
        let mut left = weight_max;
        let mut chosen: Vec<(usize, String)> = Vec::new();
        for at in best {
            let Sentence { turn_index, role, text } = &self.sentences[at];
            if chosen.iter().any(|(other, _)| self.sentences[*other].text == *text) {
                continue;
            }
            let line = self.dated(*turn_index, &format!("{}: {text}", speaker(*role)));
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
    fn named(&self, facts: &Facts, weight_max: u64) -> String {
        let mut proper: Vec<(&String, &u32)> =
            self.names.iter().filter(|(name, _)| self.is_telling(name)).collect();
        proper.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        let proper = proper.into_iter().take(NAMES_TOLD).map(|(name, _)| name.as_str());
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
    fn dated(&self, turn_index: u64, line: &str) -> String {
        let at = self.days.partition_point(|(first, _)| *first <= turn_index);
        match at.checked_sub(1).and_then(|at| self.days.get(at)) {
            Some((_, number)) if self.days.len() > 1 => format!("{}: {line}", day(number * DAY_SECONDS)),
            Some(_) | None => line.to_owned(),
        }
    }
}

/// A text that grows by sections.
struct Text {
    body: String,
    weight: u64,
}

impl Text {
    fn section(&mut self, name: &str, lines: Vec<String>) {
        if lines.is_empty() {
            return;
        }
        self.add(&format!("{name}:"));
        lines.iter().for_each(|line| self.add(&format!("- {line}")));
    }

    fn add(&mut self, line: &str) {
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
fn is_name(word: &str) -> bool {
    let mut letters = word.chars();
    let begins = letters.next().is_some_and(char::is_uppercase);
    let is_contracted =
        ["'ll", "'m", "'re", "'ve", "'d", "n't"].iter().any(|end| word.replace('’', "'").ends_with(end));
    begins && letters.any(char::is_lowercase) && word.chars().count() > 2 && !is_contracted
}

/// Returns whether the phrase goes on behind the word.
fn goes_on(word: &str) -> bool {
    word.ends_with(|last: char| last.is_alphanumeric() || matches!(last, ',' | ')' | '\'' | '’'))
}

/// Returns the day of a moment, in UTC.
pub(super) fn day(second: i64) -> String {
    Timestamp::from_second(second).map(|at| at.strftime("%Y-%m-%d").to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
