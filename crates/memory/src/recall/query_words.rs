//! Extracts the words of a question that a search uses. Matching them with the words of a message is the journal's
//! task.

use std::collections::HashSet;
use std::sync::LazyLock;

use journal::QUERY_WORDS_MAX;

/// Stop words of the most used languages: words that occur in any sentence, such as articles and pronouns, and so
/// distinguish no message from another.
static STOP_WORDS: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| include_str!("stop_words.txt").split_whitespace().collect());

/// Minimum length in characters of a part of a compound name, such as a path, that is searched for as a word of its
/// own.
const PART_CHARS_MIN: usize = 3;

/// Returns the words to search for, each once and in lower case: the words of `text` without stop words, or all words
/// when `text` has only stop words.
///
/// A compound name such as a path is one word. Its parts are added after all other words. At most [`QUERY_WORDS_MAX`]
/// words are returned, so that parts are the first to be left out.
pub(crate) fn parse_query_words(text: &str) -> Vec<String> {
    let all: Vec<String> = text
        .split(|char: char| char.is_whitespace() || char.is_control())
        .map(strip_punctuation)
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let is_content_word = |word: &String| !is_stop_word(word);
    let mut words: Vec<String> = all.iter().filter(|word| is_content_word(word)).cloned().collect();
    if words.is_empty() {
        words = all;
    }
    let parts: Vec<String> =
        words.iter().flat_map(|word| compound_parts(word)).filter(is_content_word).collect();
    words.extend(parts);
    let mut seen = HashSet::new();
    words.retain(|word| seen.insert(word.clone()));
    words.truncate(QUERY_WORDS_MAX);
    words
}

/// Returns whether the word is a stop word, with either form of the apostrophe.
fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.contains(word.replace('’', "'").as_str())
}

/// Returns the word without the punctuation around it and without a possessive ending.
fn strip_punctuation(word: &str) -> &str {
    let word = word.trim_matches(|char: char| !char.is_alphanumeric());
    ["'s", "’s", "'S", "’S"].into_iter().find_map(|ending| word.strip_suffix(ending)).unwrap_or(word)
}

/// Returns the parts of a compound name that are at least [`PART_CHARS_MIN`] long; none for a simple word.
fn compound_parts(word: &str) -> impl Iterator<Item = String> {
    let is_simple = word.chars().all(char::is_alphanumeric);
    word.split(|char: char| !char.is_alphanumeric())
        .filter(move |part| !is_simple && part.chars().count() >= PART_CHARS_MIN)
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(question: &str, expected: &[&str]) {
        assert_eq!(parse_query_words(question), expected, "{question:?}");
    }

    #[test]
    fn stop_words_are_left_out_of_a_question() {
        check("What port does staging use?", &["port", "staging"]);
        check("which port, which PORT?", &["port"]);
        check("Where's Caroline’s car", &["caroline", "car"]);
        check("Warum ist der Server langsam?", &["server", "langsam"]);
        check("会議は", &["会議は"]);
    }

    #[test]
    fn a_question_of_only_stop_words_keeps_them() {
        check("Who are you?", &["who", "are", "you"]);
        check("to be", &["to", "be"]);
        check(" ?! ", &[]);
        check("", &[]);
    }

    #[test]
    fn a_compound_name_is_searched_whole_and_in_parts() {
        check("does src/parse_table.rs:42 fail", &["src/parse_table.rs:42", "fail", "src", "parse", "table"]);
        check("`--dry-run`", &["dry-run", "dry", "run"]);
    }

    #[test]
    fn a_long_question_is_cut() {
        let question: String = (0..100).map(|number| format!("w{number} ")).collect();
        assert_eq!(parse_query_words(&question).len(), QUERY_WORDS_MAX);
        assert_eq!(parse_query_words(&question)[31], "w31");
    }
}
