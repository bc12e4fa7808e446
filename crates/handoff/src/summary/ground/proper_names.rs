//! The scanner for names without a technical form in a summary: persons and products (capitalized words), packages (words with
//! hyphens) and hashes without a digit. Ordinary prose has the same forms, so a word is a name only where its place or its
//! parts show that it is no ordinary word.

use std::borrow::Cow;
use std::ops::Range;

use super::names::{NameClass, NameMention};

/// The minimum length of a capitalized word that is a name, in characters.
const CAPITALIZED_CHARS_MIN: usize = 3;
/// The minimum length of the part of a word with hyphens that can be a name, in bytes. Shorter parts occur in any text.
const PART_BYTES_MIN: usize = 4;
/// The lengths of a hash, in bytes.
const HASH_BYTES: Range<usize> = 7..65;
/// The number of capitalized words in a line from which on the line may be a heading in title case.
const TITLE_CASE_WORDS_MIN: usize = 3;
/// The share of the words of such a heading that are capitalized, in percent.
const TITLE_CASE_PERCENT: usize = 40;
/// The number of function words that show that a text is German, which capitalizes all nouns.
const GERMAN_WORDS_MIN: usize = 2;

/// Frequent German function words that are no English words.
const GERMAN_WORDS: &[&str] = &[
    "und", "der", "das", "nicht", "für", "ist", "ein", "eine", "einen", "mit", "auf", "wird", "werden",
    "sind", "dem", "den",
];

/// English words of the letters `a` to `f`, which look like hashes.
const HEX_WORDS: &[&str] = &["acceded", "defaced", "effaced", "fabaceae"];

/// Capitalized words that are ordinary in the middle of a sentence: languages and systems that a reader infers from files
/// and commands, days and months, parts of a summary, and labels.
const ORDINARY_CAPITALIZED: &[&str] = &[
    "Agent",
    "Agents",
    "American",
    "Android",
    "April",
    "Arabic",
    "Artifacts",
    "Assistant",
    "August",
    "Bash",
    "Bayesian",
    "Blockers",
    "Boolean",
    "British",
    "Chapter",
    "Chinese",
    "Claude",
    "Clippy",
    "Codex",
    "Copilot",
    "Cython",
    "December",
    "Decisions",
    "Docker",
    "Dockerfile",
    "Dutch",
    "English",
    "European",
    "February",
    "Figure",
    "French",
    "Friday",
    "Gaussian",
    "Gemini",
    "German",
    "Git",
    "Greek",
    "Haskell",
    "Internet",
    "Italian",
    "January",
    "Japanese",
    "Java",
    "July",
    "June",
    "Korean",
    "Kotlin",
    "Latin",
    "Linux",
    "Lua",
    "Mac",
    "Makefile",
    "March",
    "Markdown",
    "May",
    "Monday",
    "Next",
    "Node",
    "None",
    "Not",
    "Note",
    "November",
    "Objective",
    "October",
    "Option",
    "Part",
    "Perl",
    "Phase",
    "Plan",
    "Portuguese",
    "Progress",
    "Python",
    "Readme",
    "Ruby",
    "Russian",
    "Rust",
    "Saturday",
    "Section",
    "Segue",
    "September",
    "Shell",
    "Spanish",
    "Step",
    "Steps",
    "Sunday",
    "Swedish",
    "Swift",
    "Table",
    "Task",
    "Tasks",
    "Thursday",
    "Tuesday",
    "Turkish",
    "Ubuntu",
    "Unicode",
    "Unix",
    "User",
    "Users",
    "Version",
    "Vim",
    "Web",
    "Wednesday",
    "Windows",
];

/// Verbs whose subject is a person or a group.
const PERSON_VERBS: &[&str] = &[
    "agreed",
    "approved",
    "asked",
    "asks",
    "assigned",
    "complained",
    "confirmed",
    "decided",
    "insisted",
    "insists",
    "objected",
    "owns",
    "prefers",
    "preferred",
    "promised",
    "proposed",
    "rejected",
    "reported",
    "requested",
    "requests",
    "reviewed",
    "said",
    "says",
    "suggested",
    "told",
    "wanted",
    "wants",
    "wrote",
];

/// Words before such a verb that are no names, in the singular.
const PERSON_NOUNS: &[&str] = &[
    "admin",
    "after",
    "agent",
    "all",
    "another",
    "anything",
    "as",
    "assistant",
    "author",
    "before",
    "both",
    "build",
    "builder",
    "check",
    "client",
    "command",
    "company",
    "compiler",
    "customer",
    "developer",
    "each",
    "engineer",
    "error",
    "everyone",
    "everything",
    "group",
    "he",
    "if",
    "it",
    "job",
    "log",
    "maintainer",
    "management",
    "manager",
    "model",
    "nobody",
    "nothing",
    "once",
    "one",
    "operator",
    "output",
    "owner",
    "people",
    "person",
    "process",
    "result",
    "reviewer",
    "run",
    "script",
    "server",
    "service",
    "she",
    "some",
    "someone",
    "support",
    "team",
    "test",
    "tester",
    "that",
    "these",
    "they",
    "this",
    "those",
    "unless",
    "until",
    "user",
    "what",
    "when",
    "which",
    "who",
    "you",
];

/// Words next to the name of a package.
const PACKAGE_WORDS: &[&str] = &[
    "crate",
    "crates",
    "dependency",
    "dependencies",
    "extension",
    "framework",
    "gem",
    "library",
    "libraries",
    "module",
    "package",
    "packages",
    "plugin",
    "plugins",
];

/// Parts of ordinary words with hyphens that have no ending of [`ENGLISH_ENDINGS`], sorted.
const ENGLISH_PARTS: &str = include_str!("english_parts.txt");

/// Endings of English words. A part of a word with hyphens that has one is ordinary.
const ENGLISH_ENDINGS: &[&str] = &[
    "able", "ably", "ance", "ary", "ate", "ated", "ed", "ence", "ent", "er", "ers", "est", "ful", "ible",
    "ic", "ing", "ings", "ion", "ions", "ish", "ism", "ity", "ive", "ize", "ized", "less", "ly", "ment",
    "ness", "ous",
];

/// A word of a line.
#[derive(Debug, Clone, Copy)]
struct LineWord<'a> {
    /// The word, without punctuation.
    text: &'a str,
    /// True if it begins a sentence, a quotation or a part of a list, where every word may be capitalized.
    begins_sentence: bool,
    /// True if it is a part of a longer expression, such as a path, or in a code span.
    is_joined: bool,
    /// True if a colon follows, as after the label of a value.
    is_label: bool,
}

/// Calls `on_name` for every name in `text` that has no technical form, in order.
pub(super) fn scan_proper_names<'a>(text: &'a str, mut on_name: impl FnMut(NameMention<'a>)) {
    let is_german = is_german(text);
    for line in text.lines() {
        let words = line_words(line);
        let has_capitals = !is_german && !is_title_case(line, &words);
        for (index, word) in words.iter().enumerate() {
            if word.is_joined {
                continue;
            }
            let next = words.get(index + 1).map_or("", |next| next.text);
            if is_letter_hash(word.text) {
                on_name(mention(word.text, NameClass::Hash, Vec::new()));
            } else if has_capitals && is_capitalized_name(word, next) {
                on_name(capitalized_mention(word.text));
            } else if word.text.contains('-') {
                let before = index.checked_sub(1).map_or("", |before| words[before].text);
                if let Some(name) = package_mention(word.text, before, next) {
                    on_name(name);
                }
            }
        }
    }
}

/// Returns the words of a line.
fn line_words(line: &str) -> Vec<LineWord<'_>> {
    let mut words = Vec::new();
    let mut is_code = false;
    let mut before = "";
    let is_word_char = |c: char| c.is_alphanumeric() || matches!(c, '-' | '\'' | '’' | '_');
    let mut rest = line;
    while !rest.is_empty() {
        let gap = rest.find(is_word_char).unwrap_or(rest.len());
        let (between, from) = rest.split_at(gap);
        if between.matches('`').count() % 2 == 1 {
            is_code = !is_code;
        }
        let end = from.find(|c: char| !is_word_char(c)).unwrap_or(from.len());
        let (whole, after) = from.split_at(end);
        let text = whole.trim_matches(['-', '\'', '’', '_']);
        let text = text.strip_suffix("'s").or_else(|| text.strip_suffix("’s")).unwrap_or(text);
        if text.is_empty() {
            before = "";
        } else {
            let follows_word = !before.is_empty() && between.trim_start_matches(',') == " ";
            let is_joined = is_code
                || between.ends_with(['/', '\\', '.', '@', '#', ':', '=', '$', '~'])
                || after.starts_with(['/', '\\', '@', '=', '('])
                || after.starts_with(['.', ':']) && after[1..].starts_with(is_word_char);
            let begins_sentence = !follows_word || whole.starts_with('-');
            words.push(LineWord { text, begins_sentence, is_joined, is_label: after.starts_with(':') });
            before = text;
        }
        rest = after;
    }
    words
}

/// Returns whether the word is a hash of letters only.
fn is_letter_hash(word: &str) -> bool {
    HASH_BYTES.contains(&word.len())
        && word.bytes().all(|byte| matches!(byte, b'a'..=b'f'))
        && !HEX_WORDS.contains(&word)
}

/// Returns whether a word is capitalized as only names are at its place. `next` is the word after it.
fn is_capitalized_name(word: &LineWord<'_>, next: &str) -> bool {
    let mut letters = word.text.chars();
    let is_capitalized = letters.next().is_some_and(char::is_uppercase)
        && letters.all(|c| c.is_lowercase())
        && word.text.chars().count() >= CAPITALIZED_CHARS_MIN;
    if !is_capitalized || word.is_label || ORDINARY_CAPITALIZED.contains(&word.text) {
        return false;
    }
    let lower = word.text.to_lowercase();
    let is_noun = || {
        let singular = lower.strip_suffix('s').unwrap_or(&lower);
        [lower.as_str(), singular].iter().any(|noun| PERSON_NOUNS.contains(noun))
    };
    !word.begins_sentence || PERSON_VERBS.contains(&next) && !is_noun()
}

/// Returns whether most words of a line are capitalized, as in a heading, and it does not end like a sentence.
fn is_title_case(line: &str, words: &[LineWord<'_>]) -> bool {
    let capitalized = words.iter().filter(|word| word.text.starts_with(char::is_uppercase)).count();
    let is_sentence = line.trim_end().ends_with(['.', '!', '?']);
    !is_sentence
        && capitalized >= TITLE_CASE_WORDS_MIN
        && capitalized * 100 >= words.len() * TITLE_CASE_PERCENT
}

/// Returns whether a text is German.
fn is_german(text: &str) -> bool {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| GERMAN_WORDS.contains(word)).count() >= GERMAN_WORDS_MIN
}

/// Returns the mention of a capitalized word. Its spelling in the conversation may have other letters in uppercase.
fn capitalized_mention(word: &str) -> NameMention<'_> {
    mention(word, NameClass::Proper, vec![word.to_lowercase(), word.to_uppercase()])
}

/// Returns the mention of a word with hyphens if it is the name of a package. Next to a word such as "crate", the conversation
/// must contain the whole name; elsewhere, one unusual part of it is enough.
fn package_mention<'a>(word: &'a str, before: &str, next: &str) -> Option<NameMention<'a>> {
    let is_name = word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && word.starts_with(|c: char| c.is_ascii_lowercase());
    let parts = || word.split('-');
    if !is_name || parts().any(str::is_empty) || parts().all(is_english_part) {
        return None;
    }
    let is_package = [before, next].iter().any(|word| PACKAGE_WORDS.contains(&word.to_lowercase().as_str()));
    let mut others = vec![word.replace('-', "_")];
    if !is_package {
        // With one ordinary part, it is more often an adjective such as "route-specific" than a name.
        let is_ordinary = |part: &str| part.len() >= PART_BYTES_MIN - 1 && is_english_part(part);
        let long_parts = || parts().filter(|part| part.len() >= PART_BYTES_MIN);
        if parts().any(is_ordinary) || long_parts().next().is_none() {
            return None;
        }
        others.extend(long_parts().map(str::to_owned));
    }
    Some(mention(word, NameClass::Word, others))
}

/// Returns whether a part of a word with hyphens is an ordinary English word.
fn is_english_part(part: &str) -> bool {
    part.len() < 3
        || is_listed_part(part)
        || part.strip_suffix('s').is_some_and(is_listed_part)
        || ENGLISH_ENDINGS.iter().any(|ending| part.len() > ending.len() + 2 && part.ends_with(ending))
        || part.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether a part is in [`ENGLISH_PARTS`].
fn is_listed_part(part: &str) -> bool {
    ENGLISH_PARTS.lines().any(|line| line == part)
}

/// Returns the mention of a name that is a whole word.
fn mention(word: &str, class: NameClass, other_spellings: Vec<String>) -> NameMention<'_> {
    NameMention {
        display_name: word,
        text: Cow::Borrowed(word),
        class,
        open_before: false,
        open_after: false,
        begins_line: false,
        other_spellings,
    }
}
