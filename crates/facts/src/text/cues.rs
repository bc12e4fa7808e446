//! Cue words that mark a sentence as a decision, in a few common languages, and the forms of questions and pasted output.
//!
//! The words are general on purpose and produce misses and false hits. A missed decision is still in the thread, and a
//! handoff summary with a false one is reviewed before it is accepted. The words of rules are in [`super::rule_cues`].

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, Match};

use crate::formatting::count_content_words;

/// Words of a sentence that states a choice.
const CHOICE_WORDS: [&str; 23] = [
    "decided",
    "decision",
    "let's go with",
    "go with",
    "going with",
    "we'll use",
    "i'll use",
    "we will use",
    "chose",
    "chosen",
    "settled on",
    "opted",
    "agreed",
    "approved",
    "rejected",
    "entschieden",
    "décidé",
    "decidido",
    "决定",
    "选择",
    "改用",
    "採用",
    "решили",
];
/// Words of a sentence that names an alternative or the reason for a choice.
const REASON_WORDS: [&str; 7] =
    ["instead of", "rather than", "the approach", "root cause", "turns out", "because of", "trade-off"];

/// Minimum content words beside the words of a reason. "This confirms the root cause." does not say what it is.
const REASON_WORDS_MIN: usize = 3;

/// The author of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Author {
    /// The user.
    User,
    /// The assistant.
    Assistant,
}

/// Matches [`CHOICE_WORDS`] and [`REASON_WORDS`].
static DECISION_CUES: LazyLock<AhoCorasick> =
    LazyLock::new(|| build_matcher(CHOICE_WORDS.iter().chain(&REASON_WORDS)));
/// Matches [`CHOICE_WORDS`].
static CHOICE_CUES: LazyLock<AhoCorasick> = LazyLock::new(|| build_matcher(CHOICE_WORDS.iter()));

/// Builds an automaton that finds the words in any ASCII case.
pub(super) fn build_matcher<'a>(words: impl Iterator<Item = &'a &'a str>) -> AhoCorasick {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build(words)
        .expect("the words are constants that the tests build")
}

/// Returns whether a sentence is a question, ignoring quotation marks and emphasis after it.
pub(crate) fn is_question(sentence: &str) -> bool {
    sentence.trim_end_matches(['"', '”', '*', '_', ')', ' ', '\n']).ends_with(['?', '？'])
}

/// Returns whether a sentence is pasted output of a program: it has a frame, a prompt, a time of day with seconds, or a part
/// of JSON, such as the answer of a server.
pub fn is_pasted(sentence: &str) -> bool {
    let bytes = sentence.as_bytes();
    // The first colon of the time is found first: most sentences have none.
    let has_time = memchr::memchr_iter(b':', bytes).any(|colon| {
        let window = colon.checked_sub(2).and_then(|start| bytes.get(start..start + 8));
        window.is_some_and(|window| {
            window.iter().enumerate().all(|(index, byte)| match index {
                2 | 5 => *byte == b':',
                _ => byte.is_ascii_digit(),
            })
        })
    });
    // A backslash and an "n" before a letter may be part of a path or of a formula.
    let is_line_break = |(start, _): (usize, &str)| {
        sentence.contains('"') || !sentence[start + 2..].starts_with(|c: char| c.is_ascii_lowercase())
    };
    let has_json_part = || {
        memchr::memchr_iter(b'"', bytes)
            .any(|quote| matches!(&bytes[quote + 1..], [b'}', ..] | [b':', b'"' | b'{' | b'[', ..]))
    };
    let is_json = has_json_part() || sentence.match_indices("\\n").any(is_line_break);
    has_time || is_json || sentence.contains(['┃', '│', '╭', '╰', '┌', '└', '├', '❯'])
}

/// Returns whether `text` contains a cue of a decision.
pub(crate) fn is_decision(text: &str) -> bool {
    DECISION_CUES.find_iter(text).any(|hit| is_whole_word(text, &hit))
}

/// Returns whether a sentence of `author` states a decision. A reason counts only if the sentence says what it is, and
/// only from the assistant, because a request for a reason has the same words.
pub(crate) fn states_decision(sentence: &str, author: Author) -> bool {
    let says_more = |hit: &Match| {
        count_content_words(&sentence[..hit.start()]) + count_content_words(&sentence[hit.end()..])
            >= REASON_WORDS_MIN
    };
    DECISION_CUES.find_iter(sentence).filter(|hit| is_whole_word(sentence, hit)).any(|hit| {
        let is_choice = hit.pattern().as_usize() < CHOICE_WORDS.len();
        let is_kept_up = sentence[..hit.start()].trim_end().to_ascii_lowercase().ends_with("keep");
        !is_kept_up
            && match author {
                Author::User => is_choice,
                Author::Assistant => is_choice || says_more(&hit),
            }
    })
}

/// Returns whether a sentence is only a part of one: it introduces what follows, breaks off, or is quoted code.
pub(crate) fn is_fragment(sentence: &str) -> bool {
    let end = sentence.trim_end_matches(['"', '”', '\'', '*', '_', ')', ' ', '\n']);
    end.ends_with([':', '…']) || end.ends_with("...") || sentence.starts_with("\"\"\"")
}

/// Returns whether a sentence states a choice in so many words, and not only a reason or an alternative.
pub fn states_choice(sentence: &str) -> bool {
    CHOICE_CUES.find_iter(sentence).any(|hit| is_whole_word(sentence, &hit)) && !is_question(sentence)
}

/// Returns whether a lowercase text contains one of the words or phrases as whole words.
pub(crate) fn contains_any_word(lower: &str, words: &[&str]) -> bool {
    // A sentence is searched for hundreds of words, and has the pairs of letters of only a few of them. `memmem` prepares
    // a search in a fraction of the time that `str::match_indices` needs.
    let pairs = BytePairs::of_text(lower);
    words.iter().filter(|word| pairs.may_contain(word)).any(|word| {
        memchr::memmem::find_iter(lower.as_bytes(), word.as_bytes())
            .any(|start| is_bounded(lower, start..start + word.len()))
    })
}

/// The pairs of neighbouring bytes of a text, as a set of their hashes.
struct BytePairs([u64; Self::WORDS]);

impl BytePairs {
    /// Number of words of the set. A sentence fills a few percent of its 4,096 bits.
    const WORDS: usize = 64;

    /// Collects the pairs of a text.
    fn of_text(text: &str) -> Self {
        let mut set = Self([0; Self::WORDS]);
        for pair in text.as_bytes().windows(2) {
            let (word, bit) = Self::position(pair);
            if let Some(word) = set.0.get_mut(word) {
                *word |= bit;
            }
        }
        set
    }

    /// Returns whether the text may contain a word. False means that it does not.
    fn may_contain(&self, word: &str) -> bool {
        word.as_bytes().windows(2).all(|pair| {
            let (word, bit) = Self::position(pair);
            self.0.get(word).is_some_and(|bits| bits & bit != 0)
        })
    }

    /// Returns the word of the set and the bit in it that stand for a pair.
    fn position(pair: &[u8]) -> (usize, u64) {
        // Letters differ in their low five bits; a sixth keeps spaces and digits apart from them.
        let hash =
            pair.iter().fold(0, |hash, byte| (hash << 6) ^ usize::from(byte & 0x3f) ^ usize::from(byte >> 6));
        (hash / 64 % Self::WORDS, 1 << (hash % 64))
    }
}

/// Returns whether the hit is a whole word and not a part of a longer one.
pub(super) fn is_whole_word(text: &str, hit: &Match) -> bool {
    is_bounded(text, hit.range())
}

/// Returns whether the range of the text is bounded by characters that do not continue a word. In scripts without spaces
/// every range counts.
pub(super) fn is_bounded(text: &str, range: std::ops::Range<usize>) -> bool {
    // UTF-8 encodes U+3000 and above, which includes the CJK ideographs and kana, with a first byte of 0xE3 or more.
    if text.as_bytes()[range.start] >= 0xE3 {
        return true;
    }
    let before = text[..range.start].chars().next_back();
    let after = text[range.end..].chars().next();
    !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(|c| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_word_is_found_as_by_a_search_without_a_filter(
            text in "[a-dé日 ,]{0,30}",
            words in prop::collection::vec("[a-dé日 ]{1,4}", 0..6),
        ) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let is_found = words.iter().any(|word| {
                text.match_indices(word).any(|(start, word)| is_bounded(&text, start..start + word.len()))
            });
            prop_assert_eq!(contains_any_word(&text, &words), is_found);
        }
    }

    #[test]
    fn a_sentence_has_the_letter_pairs_of_few_words() {
        let pairs = BytePairs::of_text("please fix the parser in src/parser.rs and keep its names");
        let words =
            ["always", "never", "must", "should", "avoid", "prefer", "every", "whenever", "fix", "keep"];
        assert_eq!(
            words.into_iter().filter(|word| pairs.may_contain(word)).collect::<Vec<_>>(),
            ["fix", "keep"]
        );
    }

    #[test]
    fn output_of_a_program_is_recognized_as_pasted() {
        for (sentence, expected) in [
            ("The upload must have a size.\"},\"request_id\":\"r1\"}", true),
            ("No files found.\\n\\nDone", true),
            ("It was 10:20:30 then", true),
            ("Copy it to C:\\new\\notes, please", false),
            ("It says \"no files\": keep them", false),
            ("Keep the \"old\" name, and no other", false),
        ] {
            assert_eq!(is_pasted(sentence), expected, "{sentence:?}");
        }
    }

    #[test]
    fn a_decision_is_recognized_by_whole_words() {
        assert!(is_decision("We decided on B.") && !is_decision("Undecided."));
    }

    #[test]
    fn a_decision_says_what_was_decided_and_is_no_request() {
        for (sentence, author, expected) in [
            ("We decided on B.", Author::User, true),
            ("Let's go with the second plan.", Author::User, true),
            ("Find the root cause of the slow start and write a plan.", Author::User, false),
            ("Tell them that they can keep going with both windows.", Author::User, false),
            ("The root cause is a lock that is never released.", Author::Assistant, true),
            ("This confirms the root cause.", Author::Assistant, false),
            ("It reads the index instead of the tree.", Author::Assistant, true),
        ] {
            assert_eq!(states_decision(sentence, author), expected, "{sentence:?}");
        }
    }

    #[test]
    fn a_part_of_a_sentence_is_a_fragment() {
        for (sentence, expected) in [
            ("**The rules and the cause:**", true),
            ("use this instead of \"Another window...\"", true),
            ("\"\"\"assert that it never runs twice.", true),
            ("Keep the name (it is short).", false),
        ] {
            assert_eq!(is_fragment(sentence), expected, "{sentence:?}");
        }
    }
}
