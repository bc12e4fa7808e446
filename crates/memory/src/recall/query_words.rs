//! The words of a question that are worth looking for. How they are compared with those of a message is not known here.

use std::collections::HashSet;
use std::sync::LazyLock;

use journal::QUERY_WORDS_MAX;

/// Words that hold a sentence together in the languages people ask in most, and say nothing of what it is about.
static STOP_WORDS: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| include_str!("stop_words.txt").split_whitespace().collect());

/// The shortest part of a name such as a path that is looked for by itself.
const PART_CHARS_MIN: usize = 3;

/// Returns what to look for: the words of `text` without stop words, or all of them when it has no others, each once.
/// A name of several words, such as a path, is one; its parts come after everything else, where there is room.
pub(crate) fn parse_query_words(text: &str) -> Vec<String> {
    let all: Vec<String> = text
        .split(|char: char| char.is_whitespace() || char.is_control())
        .map(strip_punctuation)
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let is_telling = |word: &String| !is_stop_word(word);
    let mut words: Vec<String> = all.iter().filter(|word| is_telling(word)).cloned().collect();
    if words.is_empty() {
        words = all;
    }
    let parts: Vec<String> = words.iter().flat_map(|word| compound_parts(word)).filter(is_telling).collect();
    words.extend(parts);
    let mut seen = HashSet::new();
    words.retain(|word| seen.insert(word.clone()));
    words.truncate(QUERY_WORDS_MAX);
    words
}

fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.contains(word.replace('’', "'").as_str())
}

/// Returns the word without the signs around it and without the ending of a possessor.
fn strip_punctuation(word: &str) -> &str {
    let word = word.trim_matches(|char: char| !char.is_alphanumeric());
    ["'s", "’s", "'S", "’S"].into_iter().find_map(|ending| word.strip_suffix(ending)).unwrap_or(word)
}

fn compound_parts(word: &str) -> impl Iterator<Item = String> {
    let is_one = word.chars().all(char::is_alphanumeric);
    word.split(|char: char| !char.is_alphanumeric())
        .filter(move |part| !is_one && part.chars().count() >= PART_CHARS_MIN)
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(question: &str, expected: &[&str]) {
        assert_eq!(parse_query_words(question), expected, "{question:?}");
    }

    #[test]
    fn a_question_is_asked_by_its_telling_words() {
        check("What port does staging use?", &["port", "staging"]);
        check("which port, which PORT?", &["port"]);
        check("Where's Caroline’s car", &["caroline", "car"]);
        check("Warum ist der Server langsam?", &["server", "langsam"]);
        check("会議は", &["会議は"]);
    }

    #[test]
    fn a_question_of_stop_words_is_asked_as_it_is() {
        check("Who are you?", &["who", "are", "you"]);
        check("to be", &["to", "be"]);
        check(" ?! ", &[]);
        check("", &[]);
    }

    #[test]
    fn a_name_is_looked_for_whole_and_in_parts() {
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
