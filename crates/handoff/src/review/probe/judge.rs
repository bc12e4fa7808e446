//! The comparison of an answer with the right ones, by names and words. It claims agreement or disagreement only where
//! words suffice; a model decides the rest.

use std::collections::BTreeSet;

use protocol::ProbeKind;

use super::question::PlannedProbe;

/// The share of an answer's words that a text must contain to state that answer.
const WORDS_SHARE_MIN: f64 = 0.6;
/// The share of words from which on a line is shown as the closest one.
const CLOSE_SHARE_MIN: f64 = 0.3;
/// The most words of an expected answer that are compared. The beginning of a long request says what is asked for.
const EXPECTED_WORDS_MAX: usize = 160;
/// The length to which words are cut, so that forms of a word compare as equal.
const STEM_CHARS: usize = 5;
/// The minimum length of a word that is compared, in bytes. Shorter words are in any text.
const WORD_BYTES_MIN: usize = 4;
/// The most lines over which a request is searched. Every other fact is one line of a summary.
const REQUEST_LINES_MAX: usize = 4;
/// Words that negate, in a few common languages. In a language without spaces they are found anywhere.
const NEGATIONS: [&str; 22] = [
    "not",
    "never",
    "no",
    "don't",
    "dont",
    "don’t",
    "without",
    "avoid",
    "forbidden",
    "nothing",
    "nicht",
    "nie",
    "niemals",
    "kein",
    "keine",
    "ohne",
    "pas",
    "jamais",
    "nunca",
    "sin",
    "не",
    "никогда",
];
/// Negations in languages without spaces.
const UNSPACED_NEGATIONS: [&str; 5] = ["不要", "禁止", "不", "しない", "ない"];

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleVerdict {
    /// The answer states a right answer.
    Agrees,
    /// The answer states none.
    Disagrees,
    /// Words alone do not tell.
    Unclear,
}

/// The place in a text that comes closest to a right answer.
pub(super) struct FoundAnswer {
    /// The line; `None` if none is close.
    pub(super) line: Option<String>,
    /// True if the text states the answer.
    pub(super) is_answer: bool,
}

/// Compares a model's answer with the right ones.
pub(super) fn judge_answer(probe: &PlannedProbe, answer: Option<&str>) -> RuleVerdict {
    let Some(answer) = answer.filter(|answer| !is_unknown(answer)) else { return RuleVerdict::Disagrees };
    let agrees = probe.answers.iter().any(|expected| states(probe.kind, expected, answer));
    match (agrees, probe.kind) {
        (true, _) => RuleVerdict::Agrees,
        (false, ProbeKind::File) => RuleVerdict::Disagrees,
        (false, _) => RuleVerdict::Unclear,
    }
}

/// Searches a text for a right answer.
pub(super) fn search_text(probe: &PlannedProbe, text: &str) -> FoundAnswer {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let lines_max = if probe.kind == ProbeKind::LastRequest { REQUEST_LINES_MAX } else { 1 };
    // An answer in few lines is the better evidence.
    for count in 1..=lines_max.min(lines.len()) {
        for expected in &probe.answers {
            for window in lines.windows(count) {
                if states(probe.kind, expected, &window.join("\n")) {
                    return FoundAnswer { line: Some(closest_line(expected, window)), is_answer: true };
                }
            }
        }
    }
    let expected = probe.answers.first().map(|expected| expected_words(expected)).unwrap_or_default();
    let share = |line: &&str| shared_words(&expected, &content_words(line));
    let closest = lines.iter().max_by(|left, right| share(left).total_cmp(&share(right)));
    let line = closest.filter(|line| share(line) >= CLOSE_SHARE_MIN).map(|line| shown_line(line));
    FoundAnswer { line, is_answer: false }
}

/// Returns the line that contains most of the words of the expected answer.
fn closest_line(expected: &str, lines: &[&str]) -> String {
    let words = expected_words(expected);
    let share = |line: &&&str| shared_words(&words, &content_words(line));
    let closest = lines.iter().max_by(|left, right| share(left).total_cmp(&share(right)));
    closest.map(|line| shown_line(line)).unwrap_or_default()
}

/// Returns a line without its bullet or heading marks.
fn shown_line(line: &str) -> String {
    line.trim_start_matches(['#', '-', '*', ' ']).trim_end().to_owned()
}

/// Returns whether an answer says that it is not known.
fn is_unknown(answer: &str) -> bool {
    let answer = answer.trim().trim_end_matches('.');
    answer.is_empty() || answer.eq_ignore_ascii_case("unknown")
}

/// Returns whether `text` states the expected answer.
fn states(kind: ProbeKind, expected: &str, text: &str) -> bool {
    match kind {
        ProbeKind::File => names_file(expected, text),
        ProbeKind::Rule | ProbeKind::Decision if is_negated(expected) != is_negated(text) => false,
        ProbeKind::LastRequest | ProbeKind::OpenTask | ProbeKind::Rule | ProbeKind::Decision => {
            let words = expected_words(expected);
            match words.is_empty() {
                true => text.to_lowercase().contains(&expected.to_lowercase()),
                false => shared_words(&words, &content_words(text)) >= WORDS_SHARE_MIN,
            }
        }
    }
}

/// Returns whether `text` contains the path or, as a whole name, its last part.
fn names_file(path: &str, text: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    text.match_indices(name).any(|(start, found)| {
        let before = text[..start].chars().next_back();
        let after = &text[start + found.len()..];
        let mut following = after.chars();
        let continues = match following.next() {
            // `.rs.bak` is another file; a full stop ends a sentence.
            Some('.') => following.next().is_some_and(char::is_alphanumeric),
            next => next.is_some_and(is_part),
        };
        !before.is_some_and(|c| is_part(c) || c == '.') && !continues
    })
}

/// Returns whether a text contains a negation.
fn is_negated(text: &str) -> bool {
    let lower = text.to_lowercase();
    lower
        .split(|c: char| !c.is_alphanumeric() && !matches!(c, '\'' | '’'))
        .any(|word| NEGATIONS.contains(&word) || word.ends_with("n't") || word.ends_with("n’t"))
        || UNSPACED_NEGATIONS.iter().any(|negation| lower.contains(negation))
}

/// Returns the share of `expected` that `given` contains.
fn shared_words(expected: &BTreeSet<String>, given: &BTreeSet<String>) -> f64 {
    match expected.len() {
        0 => 0.0,
        // A text has far fewer than 2^52 words, so the casts are exact.
        count => expected.intersection(given).count() as f64 / count as f64,
    }
}

/// Returns the words of a right answer that are compared.
fn expected_words(text: &str) -> BTreeSet<String> {
    let words = text.split_inclusive(char::is_whitespace).take(EXPECTED_WORDS_MAX);
    content_words(&words.collect::<String>())
}

/// Returns the stems of the words that carry meaning; pairs of characters in scripts that are written without spaces.
fn content_words(text: &str) -> BTreeSet<String> {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut stems = BTreeSet::new();
    for word in words {
        if word.starts_with(|c: char| c >= '\u{2e80}') {
            let chars: Vec<char> = word.chars().collect();
            stems.extend(chars.windows(2).map(|pair| pair.iter().collect::<String>()));
        } else if word.len() >= WORD_BYTES_MIN || word.bytes().any(|byte| byte.is_ascii_digit()) {
            stems.insert(word.chars().take(STEM_CHARS).collect());
        }
    }
    stems
}
