//! Cues in the text of a question and of a message: times, numbers, names, speakers, and whether a text asks
//! something. The word lists are English; a text in another language has no such cue, and is ranked by its words.

/// Maximum number of bytes of a text in which cues are looked for.
const CUE_BYTES_MAX: usize = 4 << 10;
/// Maximum number of bytes of the name of a speaker.
const NAME_BYTES_MAX: usize = 32;
/// Minimum share of questions in a text that is a question.
const QUESTION_SHARE_MIN: f64 = 0.25;

/// Words that stand for a time.
const TIME_WORDS: &[&str] = &[
    "yesterday",
    "today",
    "tonight",
    "tomorrow",
    "last",
    "ago",
    "next",
    "week",
    "weeks",
    "weekend",
    "weekends",
    "month",
    "months",
    "year",
    "years",
    "day",
    "days",
    "morning",
    "evening",
    "night",
    "recently",
    "since",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "january",
    "february",
    "march",
    "april",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "summer",
    "winter",
    "spring",
    "fall",
];
/// Words that stand for a number.
const NUMBER_WORDS: &[&str] = &[
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "dozen", "hundred", "thousand", "couple", "several", "few", "once", "twice", "first", "second", "third",
    "half",
];
/// Words after "what" or "which" that ask for a time.
const TIME_UNITS: &[&str] = &["date", "day", "month", "year", "time"];
/// Words after "how" that ask for a number.
const AMOUNTS: &[&str] = &["many", "much", "old", "long", "often"];
/// Words that ask for a person, a place or a choice.
const NAME_QUESTIONS: &[&str] = &["who", "where", "which", "whose", "whom"];
/// Words before the word for the person who did something.
const AUXILIARIES: &[&str] = &["did", "have", "had"];
/// Words for the assistant.
const ASSISTANT_WORDS: &[&str] = &["you", "assistant", "model", "agent"];
/// Words for what a tool returned, after one of [`TOOL_WORDS`].
const OUTPUT_WORDS: &[&str] = &["output", "result", "results", "log", "logs"];
/// Words for a tool.
const TOOL_WORDS: &[&str] = &["tool", "command", "terminal"];

/// The kinds of answers that a question asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct QuestionCues {
    /// It asks for a time.
    pub(super) asks_time: bool,
    /// It asks for a number.
    pub(super) asks_number: bool,
    /// It asks for a person, a place or a choice.
    pub(super) asks_name: bool,
    /// The role of the messages that it asks for: `human`, `ai` or `tool`.
    pub(super) role: Option<&'static str>,
}

impl QuestionCues {
    /// Returns the cues of a question.
    pub(super) fn from_question(text: &str) -> Self {
        let lower = text.to_lowercase();
        let words: Vec<&str> = words(&lower).collect();
        let has_pair = |first: &[&str], second: &[&str]| {
            words.windows(2).any(|pair| first.contains(&pair[0]) && second.contains(&pair[1]))
        };
        let role = if has_pair(TOOL_WORDS, OUTPUT_WORDS) {
            Some("tool")
        } else if has_pair(AUXILIARIES, &["i"]) {
            Some("human")
        } else if has_pair(AUXILIARIES, ASSISTANT_WORDS) {
            Some("ai")
        } else {
            None
        };
        Self {
            asks_time: words.contains(&"when")
                || has_pair(&["what", "which"], TIME_UNITS)
                || has_pair(&["how"], &["long", "often"]),
            asks_number: has_pair(&["how"], AMOUNTS),
            asks_name: words.iter().any(|word| NAME_QUESTIONS.contains(word)),
            role,
        }
    }
}

/// The beginning of a message, in which cues are looked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct CueText<'a>(&'a str);

impl<'a> CueText<'a> {
    /// Returns the part of a text in which cues are looked for.
    pub(super) fn new(text: &'a str) -> Self {
        Self(&text[..text.floor_char_boundary(CUE_BYTES_MAX)])
    }

    /// Returns the share of the sentences of the text that are questions, by their length.
    pub(super) fn question_share(self) -> f64 {
        let (mut asked, mut total) = (0, 0);
        for sentence in self.0.split_inclusive(['.', '!', '?', '\n', '？', '。']) {
            total += sentence.len();
            if sentence.ends_with(['?', '？']) {
                asked += sentence.len();
            }
        }
        asked as f64 / total.max(1) as f64
    }

    /// Returns whether the text is a question.
    pub(super) fn is_question(self) -> bool {
        self.question_share() > QUESTION_SHARE_MIN
    }

    /// Returns whether the text contains a time.
    pub(super) fn has_time(self) -> bool {
        let lower = self.0.to_lowercase();
        words(&lower).any(|word| TIME_WORDS.contains(&word) || is_year(word) || is_ordinal(word))
    }

    /// Returns whether the text contains a number.
    pub(super) fn has_number(self) -> bool {
        let lower = self.0.to_lowercase();
        words(&lower).any(|word| NUMBER_WORDS.contains(&word) || is_number(word))
    }

    /// Returns whether the text contains a capitalized word within a sentence, or a quotation.
    pub(super) fn has_name(self) -> bool {
        let words: Vec<&str> = self.0.split(' ').collect();
        let is_name = |pair: &[&str]| {
            let mut chars = pair[1].chars();
            pair[0].ends_with(|char: char| char.is_lowercase() || char == ',' || char == ';')
                && chars.next().is_some_and(char::is_uppercase)
                && chars.next().is_some_and(char::is_lowercase)
        };
        self.0.matches('"').count() >= 2 || words.windows(2).any(is_name)
    }

    /// Returns the name of the speaker that the text begins with, as in `Caroline: Hello`.
    pub(super) fn speaker_name(self) -> Option<&'a str> {
        let (name, rest) = self.0.split_once(':')?;
        let is_name = name.len() <= NAME_BYTES_MAX
            && rest.starts_with(' ')
            && name.starts_with(char::is_uppercase)
            && name.chars().all(char::is_alphanumeric);
        is_name.then_some(name)
    }
}

/// Returns a text in lower case, with one space between words and no punctuation around it.
pub(super) fn normalize(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").to_lowercase().trim_matches(|char: char| !char.is_alphanumeric()).to_owned()
}

/// Returns the words of a text: sequences of letters and digits.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// Returns whether a word is a number.
fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether a word is a year from 1900 to 2099.
fn is_year(word: &str) -> bool {
    word.len() == 4 && is_number(word) && (word.starts_with("19") || word.starts_with("20"))
}

/// Returns whether a word is an ordinal number such as `3rd`.
fn is_ordinal(word: &str) -> bool {
    let digits = ["st", "nd", "rd", "th"].into_iter().find_map(|ending| word.strip_suffix(ending));
    digits.is_some_and(|digits| !digits.is_empty() && is_number(digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(question: &str, expected: QuestionCues) {
        assert_eq!(QuestionCues::from_question(question), expected, "{question}");
    }

    #[test]
    fn a_question_tells_what_it_asks_for() {
        let none = QuestionCues::default();
        check("When did the build break?", QuestionCues { asks_time: true, ..none });
        check("in which month was it", QuestionCues { asks_time: true, asks_name: true, ..none });
        check("How many tests fail?", QuestionCues { asks_number: true, ..none });
        check("how long did it take", QuestionCues { asks_time: true, asks_number: true, ..none });
        check("Where does staging run?", QuestionCues { asks_name: true, ..none });
        check("what did I say about ports", QuestionCues { role: Some("human"), ..none });
        check("what have you decided", QuestionCues { role: Some("ai"), ..none });
        check("the command output with the panic", QuestionCues { role: Some("tool"), ..none });
        check("Warum ist der Server langsam?", none);
        check("", none);
    }

    #[test]
    fn a_message_has_the_cues_of_its_text() {
        let cues = |text: &str| {
            let text = CueText::new(text);
            (text.has_time(), text.has_number(), text.has_name())
        };
        assert_eq!(cues("it broke last Friday"), (true, false, true));
        assert_eq!(cues("on the 3rd, or in 2024"), (true, true, false));
        assert_eq!(cues("twelve of them"), (false, true, false));
        assert_eq!(cues("He read \"the usual\" there. I see"), (false, false, true));
        assert_eq!(cues("Plain words. I see"), (false, false, false));
        assert!(CueText::new("Ada: Which port is it?").is_question());
        assert!(!CueText::new("It is port 80, as it was in all the years before. Why?").is_question());
    }

    #[test]
    fn a_speaker_is_a_single_word_before_a_colon() {
        assert_eq!(CueText::new("Caroline: hello").speaker_name(), Some("Caroline"));
        for text in ["caroline: hello", "See this: hello", "https://x", "Rust::new", "", ":"] {
            assert_eq!(CueText::new(text).speaker_name(), None, "{text}");
        }
    }

    #[test]
    fn normal_forms_differ_only_in_words() {
        assert_eq!(normalize("  The port\nis 80. "), "the port is 80");
        assert_eq!(normalize("?!"), "");
    }
}
