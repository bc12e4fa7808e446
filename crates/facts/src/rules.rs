//! The user's standing rules: orders such as "never …", "always …" or "don't …" that stay valid after the request they
//! were stated in, verbatim and whole. [`standing`](crate::text::rule_cues::standing) decides which sentence is one.

use std::collections::VecDeque;

use model::sentence_ranking::split_sentences;
use protocol::{Rule, Seq};

use changes::RuleChange;

use crate::limits::{RULE_TEXT_BYTES_MAX, RULES_PER_MESSAGE_MAX, STANDING_RULES_MAX};
use crate::text::{cues, rule_cues};
use crate::tool_use::head_words;

mod changes;

/// Lowercase words that may stand before a question.
const QUESTION_OPENINGS: &[&str] = &["wait", "so", "but", "and", "hmm", "ok", "okay", "hey"];
/// Lowercase verbs that begin a question when a pronoun follows.
const QUESTION_VERBS: &[&str] = &[
    "should",
    "shouldn't",
    "could",
    "couldn't",
    "can",
    "can't",
    "would",
    "wouldn't",
    "is",
    "isn't",
    "are",
    "aren't",
    "does",
    "doesn't",
    "did",
    "didn't",
    "won't",
];
/// Words that express the polarity or politeness of a rule and not what it is about.
const POLARITY_WORDS: &[&str] = &[
    "never", "always", "don", "dont", "t", "do", "not", "must", "should", "please", "only", "also", "and",
    "ever", "no", "but", "you",
];
/// Beginnings of sentences that continue the rule before them.
const CONTINUATIONS: &[&str] = &[
    "and ",
    "nor ",
    "or ",
    "not even",
    "even ",
    "same ",
    "the same ",
    "likewise",
    "this includes",
    "that includes",
    "this applies",
    "that applies",
    "except",
    "unless",
    "especially",
    "also ",
    "no exceptions",
];
/// Nouns that announce rules in a sentence with a colon or a number.
const ANNOUNCED_NOUNS: &[&str] = &[
    "rule",
    "rules",
    "constraint",
    "constraints",
    "convention",
    "conventions",
    "ground rules",
    "requirements",
    "regeln",
];
/// Number words of an announcement, beginning with two.
const NUMBER_WORDS: &[&str] = &["two", "three", "four", "five", "six", "seven"];

/// The maximum number of sentences that may change a rule of another thread.
const OTHER_CHANGES_MAX: usize = 50;

/// Minimum bytes of a sentence that may be several, written without capital letters.
const RUN_ON_BYTES_MIN: usize = 200;

/// The standing rules that have been found, in the order in which they were stated.
#[derive(Debug, Clone, Default)]
pub(crate) struct StandingRules {
    rules: Vec<Rule>,
    /// The words that each rule is about, so that a new rule is compared with a hundred of them in one pass.
    subjects: Vec<Vec<String>>,
    /// Sentences that may change a rule and concern none of `rules`, in their order.
    other_changes: VecDeque<Rule>,
}

/// Returns whether a sentence of a message of the user changes, permits or revokes what a rule demands: "no new dependencies" is
/// changed by "dependencies are fine now".
pub fn changes_rule(message: &str, rule: &str) -> bool {
    split_sentences(message).filter_map(RuleChange::read).any(|change| change.concerns(rule))
}

impl StandingRules {
    /// Records the rules in a message of the user. `text` is redacted.
    pub(crate) fn record_message(&mut self, seq: Seq, text: &str) {
        for rule in rules_in(text).into_iter().take(RULES_PER_MESSAGE_MAX) {
            self.record(seq, rule);
        }
        let is_earlier = |rule: &&Rule| rule.refs.iter().all(|known| *known < seq);
        let concerns_rule = |change: &RuleChange<'_>| {
            self.rules.iter().filter(is_earlier).any(|rule| change.concerns(&rule.text))
        };
        let (changes, others): (Vec<RuleChange<'_>>, Vec<RuleChange<'_>>) =
            split_sentences(text).filter_map(RuleChange::read).partition(concerns_rule);
        changes.iter().take(RULES_PER_MESSAGE_MAX).for_each(|change| self.record(seq, change.sentence()));
        for change in others.iter().take(RULES_PER_MESSAGE_MAX) {
            if self.other_changes.len() >= OTHER_CHANGES_MAX {
                self.other_changes.pop_front();
            }
            let text = head_words(change.sentence(), RULE_TEXT_BYTES_MAX).to_owned();
            self.other_changes.push_back(Rule { text, refs: vec![seq] });
        }
    }

    /// Records what the user said when they refused a tool call: the whole text if each sentence says how to work from then
    /// on, else each such sentence with those that continue it.
    pub(crate) fn record_correction(&mut self, seq: Seq, text: &str) {
        let text = text.trim();
        let mut spans: Vec<(usize, usize)> = Vec::new();
        let has_quote = text.lines().any(|line| line.trim_start().starts_with('>'));
        let (mut is_whole, mut is_continued) = (!has_quote, false);
        for sentence in split_sentences(text).map(skip_quoted_lines) {
            let start = sentence.as_ptr() as usize - text.as_ptr() as usize;
            let end = start + sentence.len();
            if is_quoted(text, start) {
                is_continued = false;
            } else if is_continuation(sentence) {
                spans.last_mut().filter(|_| is_continued).into_iter().for_each(|last| last.1 = end);
            } else {
                is_continued = rule_cues::order::is_lasting_correction(sentence);
                is_whole &= is_continued;
                spans.extend(is_continued.then_some((start, end)));
            }
        }
        match is_whole && !text.is_empty() {
            true => self.record(seq, text),
            false => spans.into_iter().for_each(|(start, end)| self.record(seq, &text[start..end])),
        }
    }

    fn record(&mut self, seq: Seq, text: &str) {
        if is_program_output(text) || cues::is_pasted(text) {
            return;
        }
        let text = head_words(text, RULE_TEXT_BYTES_MAX).to_owned();
        merge_rule(&mut self.rules, &mut self.subjects, Rule { text, refs: vec![seq] });
    }

    /// Returns the sentences that may change a rule of another thread.
    pub(crate) fn other_changes(&self) -> Vec<Rule> {
        self.other_changes.iter().cloned().collect()
    }

    /// Returns the rules in the order in which they were stated.
    pub(crate) fn to_vec(&self) -> Vec<Rule> {
        self.rules.clone()
    }
}

/// Returns whether a text contains output of a program: a prompt line of a package manager, a frame of a stack trace, or JSON.
fn is_program_output(text: &str) -> bool {
    let is_output_line = |line: &str| {
        let line = line.trim_start();
        line.starts_with("> ") && line.contains('@')
            || line.starts_with("at ") && line.contains([':', '('])
            || line.starts_with("Error: ")
    };
    text.contains("\":") && text.contains(['{', '}']) || text.lines().any(is_output_line)
}

/// Returns the earlier rules and the new ones, at most [`STANDING_RULES_MAX`], without the oldest above that.
///
/// A new rule replaces an earlier one with the same words, or with the same words and the opposite order ("always",
/// "never"). A repeated rule keeps the references of both.
pub fn merge_rules(earlier: Vec<Rule>, new: Vec<Rule>) -> Vec<Rule> {
    let mut merged = earlier;
    let mut subjects: Vec<Vec<String>> = merged.iter().map(|rule| subject_words(&rule.text)).collect();
    new.into_iter().for_each(|rule| merge_rule(&mut merged, &mut subjects, rule));
    let excess = merged.len().saturating_sub(STANDING_RULES_MAX);
    merged.drain(..excess);
    merged
}

/// Adds a rule to the earlier ones, of which `subjects` has the words; see [`merge_rules`].
fn merge_rule(rules: &mut Vec<Rule>, subjects: &mut Vec<Vec<String>>, mut rule: Rule) {
    let subject = subject_words(&rule.text);
    if let Some(index) = subjects.iter().position(|known| is_same_subject(known, &subject)) {
        subjects.remove(index);
        let known = rules.remove(index);
        if known.text.eq_ignore_ascii_case(&rule.text) {
            rule.refs.extend(known.refs);
            rule.refs.sort_unstable();
            rule.refs.dedup();
        }
    }
    rules.push(rule);
    subjects.push(subject);
    let excess = rules.len().saturating_sub(STANDING_RULES_MAX);
    rules.drain(..excess);
    subjects.drain(..excess);
}

/// Returns whether two rules are about the same. A rule that has no words but polarity is about nothing.
fn is_same_subject(left: &[String], right: &[String]) -> bool {
    !left.is_empty() && left == right
}

/// Returns the lowercase words of a rule without [`POLARITY_WORDS`].
fn subject_words(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    words.filter(|word| !POLARITY_WORDS.contains(word)).map(str::to_owned).collect()
}

/// Returns the rules in a text as parts of it: each whole sentence that states one, with the sentences that continue it.
fn rules_in(text: &str) -> Vec<&str> {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    let mut announced = 0;
    let mut is_list_announced = false;
    for sentence in split_sentences(text).map(skip_quoted_lines).flat_map(split_run_on) {
        let start = sentence.as_ptr() as usize - text.as_ptr() as usize;
        let end = start + sentence.len();
        if is_quoted(text, start) {
            announced = 0;
            continue;
        }
        if let Some(number) = announced_rules(sentence) {
            is_list_announced = sentence.ends_with(':');
            let states_first = !is_list_announced && sentence.contains(':');
            announced = number - usize::from(states_first);
            spans.extend(states_first.then_some((start, end)));
            continue;
        }
        let is_item =
            sentence.starts_with(['-', '*', '•', '+']) || sentence.starts_with(|c: char| c.is_ascii_digit());
        let is_announced = announced > 0 && (is_item || !is_list_announced || announced < usize::MAX);
        let is_not_order =
            sentence.ends_with(['?', '？']) || asks_without_mark(sentence) || cues::is_pasted(sentence);
        let continued = spans.last_mut().filter(|(_, last_end)| {
            !is_item && is_continuation(sentence) && !text[*last_end..start].contains("\n\n")
        });
        if let Some(last) = continued {
            last.1 = end;
            announced = announced.saturating_sub(1);
        } else if !is_not_order && (is_announced || rule_cues::standing::is_standing_rule(sentence)) {
            spans.push((start, end));
            announced = if announced == usize::MAX { announced } else { announced.saturating_sub(1) };
        } else {
            announced = 0;
        }
    }
    spans.into_iter().map(|(start, end)| strip_open_bold(strip_item_marker(&text[start..end]))).collect()
}

/// Returns a sentence without the lines at its beginning that quote others, if another line follows them.
fn skip_quoted_lines(sentence: &str) -> &str {
    let mut rest = sentence;
    while rest.starts_with('>') {
        match rest.split_once('\n') {
            Some((_, after)) => rest = after.trim_start(),
            None => return sentence,
        }
    }
    rest
}

/// Returns whether the line at the position `start` of a text quotes others, because it begins with ">".
fn is_quoted(text: &str, start: usize) -> bool {
    let line_start = text[..start].rfind('\n').map_or(0, |end| end + 1);
    text[line_start..].trim_start().starts_with('>')
}

/// Returns the sentences of a long one that was written without capital letters.
fn split_run_on(sentence: &str) -> Vec<&str> {
    if sentence.len() < RUN_ON_BYTES_MIN {
        return vec![sentence];
    }
    let mut parts = Vec::new();
    let mut start = 0;
    for (end, _) in sentence.match_indices(". ") {
        let word = sentence[start..end].rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        // "e.g." and a number of a list end no sentence.
        if word.len() > 3 {
            parts.push(&sentence[start..=end]);
            start = end + 2;
        }
    }
    parts.push(&sentence[start..]);
    parts
}

/// Returns whether a sentence without a question mark asks something: it begins like a question, possibly after a word such
/// as "wait".
pub(crate) fn asks_without_mark(sentence: &str) -> bool {
    let mut words = sentence.split_whitespace().map(|word| word.trim_end_matches(',').to_ascii_lowercase());
    let first = words.find(|word| !QUESTION_OPENINGS.contains(&word.as_str())).unwrap_or_default();
    let second = words.next().unwrap_or_default();
    let has_inverted_order = QUESTION_VERBS.contains(&first.as_str())
        && matches!(second.as_str(), "i" | "we" | "you" | "it" | "this" | "that" | "they" | "there");
    first == "why" || has_inverted_order
}

/// Returns the number of rules that the sentence announces; [`usize::MAX`] when it announces a list of any length.
fn announced_rules(sentence: &str) -> Option<usize> {
    let lower = sentence.to_lowercase();
    let (announcement, _) = lower.split_once(':').unwrap_or((lower.trim_end_matches('.'), ""));
    // A list of names, such as "(files, rules, tests)", announces nothing.
    let bracket = announcement.split_once('(').map_or("", |(_, bracket)| bracket);
    let is_enumeration = bracket.contains(',') || announcement.matches(',').count() > 1;
    if announcement.len() > 80 || is_enumeration || !cues::contains_any_word(announcement, ANNOUNCED_NOUNS) {
        return None;
    }
    let word = |word: &str| {
        let spelled = NUMBER_WORDS.iter().position(|number| *number == word).map(|index| index + 2);
        spelled.or_else(|| word.parse().ok().filter(|number| (2..=9).contains(number)))
    };
    let number = announcement.split(|c: char| !c.is_alphanumeric()).find_map(word);
    let is_announcement = number.is_some() || lower.contains(':');
    is_announcement.then(|| number.unwrap_or(if lower.ends_with(':') { usize::MAX } else { 1 }))
}

/// Returns whether the sentence continues the one before it.
fn is_continuation(sentence: &str) -> bool {
    let lower = crate::tool_use::head(sentence, 24).to_lowercase();
    CONTINUATIONS.iter().any(|beginning| lower.starts_with(beginning)) && !sentence.ends_with(['?', '？'])
}

/// Returns the text without the marker of a list item at its beginning.
fn strip_item_marker(text: &str) -> &str {
    let unmarked = ["- ", "* ", "• ", "+ "].iter().find_map(|marker| text.strip_prefix(marker));
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let unnumbered = text[digits..].strip_prefix(". ").or_else(|| text[digits..].strip_prefix(") "));
    unmarked.or(unnumbered.filter(|_| digits > 0)).unwrap_or(text).trim()
}

/// Returns the text without a bold mark at one of its ends whose other mark is in another sentence.
fn strip_open_bold(text: &str) -> &str {
    match text.matches("**").count().is_multiple_of(2) {
        true => text,
        false => text.trim_start_matches("**").trim_end_matches("**"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standing_rules_are_whole_and_verbatim() {
        for (text, rules) in [
            ("Never push to main.", "Never push to main."),
            ("Fix the parser. Don't touch the public API.", "Don't touch the public API."),
            (
                "Two rules: never touch the wire format. And never sleep in tests, not even a millisecond.",
                "Two rules: never touch the wire format. And never sleep in tests, not even a millisecond.",
            ),
            (
                "Never sleep in tests. Not even a millisecond.",
                "Never sleep in tests. Not even a millisecond.",
            ),
            ("Rules:\n- tabs, two wide\n- no unwrap\n\nNow go.", "tabs, two wide|no unwrap"),
            (
                "Two rules. Tests come first. Commits stay small. Begin.",
                "Tests come first.|Commits stay small.",
            ),
            ("Rules for this work (important):\n- tabs, two wide\n- no unwrap", "tabs, two wide|no unwrap"),
            ("Please keep the old flag working.", "Please keep the old flag working."),
            ("You must not add a dependency.", "You must not add a dependency."),
            ("No new dependencies.", "No new dependencies."),
            ("Only edit files below src.", "Only edit files below src."),
            ("Use tabs, and always run the linter.", "Use tabs, and always run the linter."),
            ("No, that is wrong.", ""),
            ("No idea.", ""),
            ("Open it for each kind (files, rules, tests): one window each.", ""),
            ("It works when you don't use the cache.", ""),
            ("The page loads, but no row was shown.", ""),
            ("No changes applied.", ""),
            ("The upload must have a size.\"},\"request_id\":\"r1\"}", ""),
            (
                "please move the old reports of all the customers to the archive folder below the data folder. that \
                 means we no longer need the folder of reports. the logs of the importer should not be in the archive \
                 folder. and use the new tool",
                "the logs of the importer should not be in the archive folder. and use the new tool",
            ),
            ("This plan must say where to go on.", ""),
            ("you can look up the old log in /a/b.jsonl if you need to (don't read the full file!)", ""),
            ("You may not touch the wire format.", "You may not touch the wire format."),
            (
                "You can edit the docs, but never touch the code.",
                "You can edit the docs, but never touch the code.",
            ),
            ("We advise to print(\"all good, no errors.\") at the end of it.", ""),
            (
                "**Don't praise the author. Only name defects.** Begin.",
                "Don't praise the author.|Only name defects.",
            ),
            ("2. `make lint` - No warnings", ""),
            ("I don't know why it never works.", ""),
            ("It always fails on Mondays.", ""),
            ("Should we never retry?", ""),
            ("wait why are traces in a folder of their own, we must never do that", ""),
            ("Shouldn't we always have one transcript per case", ""),
            ("So never sleep in tests.", "So never sleep in tests."),
            ("Don't worry about it.", ""),
            ("Keep going.", ""),
            ("```\nnever = 1\n```", ""),
        ] {
            assert_eq!(rules_in(text).join("|"), rules, "{text:?}");
        }
    }

    #[test]
    fn lines_that_quote_others_state_no_rule() {
        for (text, rules) in [
            ("> never delete backups", ""),
            ("> Never delete backups. Always keep two.\n\nWhat does that mean?", ""),
            ("> Rules:\n> - tabs\n> - no unwrap\n\nWho wrote this?", ""),
            ("> they said it works\nNever touch the CI file.", "Never touch the CI file."),
            ("- Use pnpm here.\n- Log lines stay in English.", "Use pnpm here.|Log lines stay in English."),
            (
                "Fix the parser. Prod is frozen until the 14th, so nothing goes there. Begin.",
                "Prod is frozen until the 14th, so nothing goes there.",
            ),
        ] {
            assert_eq!(rules_in(text).join("|"), rules, "{text:?}");
        }
    }

    #[test]
    fn a_correction_is_a_rule_if_it_says_how_to_work_from_then_on() {
        for (text, expected) in [
            ("Move old files to the attic.", "Move old files to the attic."),
            ("push only after my review", "push only after my review"),
            ("Never sleep. Not even a millisecond.", "Never sleep. Not even a millisecond."),
            ("No mocks. What is this file?", "No mocks."),
            ("Use the new client instead of the old one.", "Use the new client instead of the old one."),
            ("Please use tabs. That is the wrong file.", "Please use tabs."),
            (
                "Wrong file. Never sleep in tests. Not even a millisecond.",
                "Never sleep in tests. Not even a millisecond.",
            ),
            (
                "not legacy/, the mobile team still builds it. Only ever remove what the linter lists.",
                "not legacy/, the mobile team still builds it. Only ever remove what the linter lists.",
            ),
            ("> never delete backups\nNo mocks.", "No mocks."),
            ("not src/a.rs, I meant src/b.rs", ""),
            ("not src/a.rs, src/b.rs", ""),
            ("not now, I am still reading it", ""),
            ("not good, the page is empty", ""),
            ("no, stop that", ""),
            ("wrong file", ""),
            ("Use it.", ""),
            ("no don't set it, let's see whether it goes on", ""),
            ("No, I did not say delete anything", ""),
            (
                "I restarted it and it worked, so it does not fail every time. Is it the cache (or the disk?)",
                "",
            ),
            (
                "let's not make this change in this branch. Can we file a ticket (high priority) with the details please",
                "",
            ),
        ] {
            let mut rules = StandingRules::default();
            rules.record_correction(1, text);
            let shown: Vec<_> = rules.to_vec().into_iter().map(|rule| rule.text).collect();
            assert_eq!(shown.join("|"), expected, "{text:?}");
        }
    }

    #[test]
    fn a_repeated_or_reversed_rule_is_kept_once() {
        for (messages, expected) in [
            (&["Never use mocks.", "never use mocks."][..], "never use mocks. [1, 2]"),
            (&["Never use mocks.", "Always use mocks."][..], "Always use mocks. [2]"),
            (&["Never use mocks.", "Never use sleeps."][..], "Never use mocks. [1]|Never use sleeps. [2]"),
            (
                &["It must listen on port 8080.", "Add a log. Change the port to 9090, 8080 is taken."][..],
                "It must listen on port 8080. [1]|Change the port to 9090, 8080 is taken. [2]",
            ),
            (&["Never use unsafe.", "Did you forget the rule about unsafe?"][..], "Never use unsafe. [1]"),
            (
                &["No new dependencies.", "New dependencies are fine now."][..],
                "No new dependencies. [1]|New dependencies are fine now. [2]",
            ),
        ] {
            let mut rules = StandingRules::default();
            (1..).zip(messages).for_each(|(seq, message)| rules.record_message(seq, message));
            let shown: Vec<_> =
                rules.to_vec().iter().map(|rule| format!("{} {:?}", rule.text, rule.refs)).collect();
            assert_eq!(shown.join("|"), expected);
        }
    }

    #[test]
    fn the_number_of_rules_is_bounded_and_the_newest_stay() {
        let mut rules = StandingRules::default();
        (1..500).for_each(|seq| rules.record_message(seq, &format!("Never touch part {seq}.")));
        assert_eq!(rules.to_vec().len(), STANDING_RULES_MAX);
        assert_eq!(rules.to_vec().last().map(|rule| rule.refs.clone()), Some(vec![499]));
    }
}
