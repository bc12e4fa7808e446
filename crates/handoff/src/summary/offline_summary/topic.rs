//! Recognizes the sentences of a request that state no task: short questions, greetings, the author's name or number, and
//! what was pasted. A title and an objective are made of the others.

use facts::formatting::{count_content_words, strip_markdown};
use model::sentence_ranking::split_sentences;

use super::title::{is_introduction, is_preparation, strip_opening};

/// The maximum length of a request that is only a question, in bytes. A longer one describes what is wanted.
const QUESTION_BYTES_MAX: usize = 120;
/// The minimum number of content words of a request that names a topic.
const TOPIC_WORDS_MIN: usize = 2;
/// Lowercase beginnings of questions that ask for work.
const POLITE_ORDERS: &[&str] =
    &["can you", "could you", "would you", "will you", "can we", "could we", "shall we", "please"];
/// Lowercase beginnings of sentences that only ask for help.
const PLEAS: &[&str] = &[
    "help me",
    "help with",
    "assist me",
    "assist with",
    "can you help",
    "could you help",
    "do that",
    "can you do",
];
/// Lowercase beginnings of sentences in which users say who they are.
const NAMES: &[&str] = &["my name is ", "i am called "];
/// Lowercase beginnings of sentences that hold a number or an id of the user.
const NUMBERS: &[&str] = &[
    "my user id is ",
    "my user name is ",
    "my username is ",
    "my id is ",
    "my email is ",
    "my email address is ",
    "my customer id is ",
    "my customer number is ",
    "my account number is ",
    "my reservation id is ",
    "my reservation number is ",
    "my booking number is ",
    "my order id is ",
    "my order number is ",
    "my phone number is ",
    "my zip code is ",
];
/// Lowercase ends of short sentences that only keep up the conversation.
const SMALL_TALK: &[&str] = &[
    "where were we",
    "you still there",
    "are you there",
    "it works",
    "it worked",
    "everything works",
    "well done",
    "wow",
    "jesus",
];
/// Lowercase beginnings of clauses that praise the assistant.
const PRAISE: &[&str] = &["you are a ", "you're a ", "you are the ", "you're the "];
/// Maximum content words of small talk. A longer sentence says something too.
const SMALL_TALK_WORDS_MAX: usize = 4;
/// Lowercase phrases with which a task follows in the same sentence.
const TASK_PHRASES: &[&str] = &["need to", "want to", "like to", "please"];

/// Returns whether a request states a task, and not only a short question, who its author is, or what to read first.
pub(super) fn states_task(request: &str) -> bool {
    let is_question = request.len() <= QUESTION_BYTES_MAX
        && split_sentences(request)
            .all(|sentence| sentence.ends_with(['?', '？']) && !is_polite_order(sentence));
    !is_question
        && !quotes_list_item(request)
        && split_sentences(request).any(|sentence| !states_no_task(&strip_markdown(sentence)))
}

/// Returns whether a request begins with an item of a list that is not its first one. It quotes what it answers.
fn quotes_list_item(request: &str) -> bool {
    let text = request.trim_start();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    (1..=2).contains(&digits)
        && &text[..digits] != "1"
        && &text[..digits] != "0"
        && text[digits..].starts_with(". ")
}

/// Returns whether a request has a sentence with a few words about its topic, which may be a question.
pub(super) fn names_topic(request: &str) -> bool {
    !quotes_list_item(request)
        && split_sentences(request).any(|sentence| {
            let sentence = strip_markdown(sentence);
            !states_no_task(&sentence) && count_content_words(strip_opening(&sentence)) >= TOPIC_WORDS_MIN
        })
}

/// Returns whether a sentence without Markdown is about no task: it greets, introduces or prepares, tells who its author
/// is, only asks for help, or is configuration.
pub(super) fn states_no_task(sentence: &str) -> bool {
    let lower = strip_opening(sentence).to_lowercase();
    let is_plea = PLEAS.iter().any(|plea| lower.starts_with(plea)) && count_content_words(&lower) <= 3;
    let is_small_talk = (is_small_talk(&lower)
        || lower.split(',').all(|clause| is_small_talk(clause.trim())))
        && !TASK_PHRASES.iter().any(|phrase| lower.contains(phrase));
    is_plea
        || is_small_talk
        || identifies_author(&lower)
        || is_configuration(sentence)
        || is_introduction(sentence)
        || is_preparation(sentence)
        || !is_polite_order(sentence)
            && facts::is_conversational(sentence)
            && count_content_words(sentence) <= 3
}

/// Returns whether a lowercase clause only keeps up the conversation.
fn is_small_talk(clause: &str) -> bool {
    let end = clause.trim_end_matches(['.', '!', '?', ' ']);
    let is_phrase = SMALL_TALK.iter().any(|phrase| end.ends_with(phrase)) && !clause.contains("not ");
    let is_praise = PRAISE.iter().any(|phrase| clause.starts_with(phrase));
    (is_phrase || is_praise) && count_content_words(clause) <= SMALL_TALK_WORDS_MAX
}

/// Returns whether a sentence orders work in the form of a question.
pub(super) fn is_polite_order(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    POLITE_ORDERS.iter().any(|order| {
        let before = lower.find(order).map(|start| &lower[..start]);
        before.is_some_and(|before| before.len() < 16 && strip_opening(sentence).len() < sentence.len())
    })
}

/// Returns whether a lowercase sentence only tells who its author is.
fn identifies_author(lower: &str) -> bool {
    let has_number = |value: &str| {
        let word = value.split_whitespace().next().unwrap_or_default();
        word.contains(|c: char| c.is_ascii_digit() || matches!(c, '@' | '_'))
    };
    let is_name = NAMES.iter().any(|name| lower.starts_with(name));
    let is_number = NUMBERS.iter().any(|number| lower.strip_prefix(number).is_some_and(has_number));
    (is_name || is_number) && !TASK_PHRASES.iter().any(|phrase| lower.contains(phrase))
}

/// Returns whether a sentence is a part of a configuration: at least two of its words are keys, and many of all.
fn is_configuration(sentence: &str) -> bool {
    let keys = sentence.split_whitespace().filter(|word| word.len() > 1 && word.ends_with(':')).count();
    keys > 1 && keys * 4 >= sentence.split_whitespace().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_states_a_task_or_none() {
        for (request, is_task) in [
            ("Port the reader.", true),
            ("hey, can you port the reader?", true),
            ("What are the keys that turn on the new reader?", false),
            ("Where were we?", false),
            ("alright, where were we?", false),
            ("Wow, it works!", false),
            ("so, i'm now in the new implementation, you still there?", false),
            ("Jesus, everything works, you are a monster", false),
            ("Jesus, everything works, now remove the debug output of the parser", true),
            ("It works now, remove the debug output of the parser.", true),
            ("It does not work, the reader drops the last row.", true),
            ("Sure, my user ID is ana_lopez_17.", false),
            ("My name is Ana Lopez.", false),
            ("My name is Ana and I need to move my seat.", true),
            ("My email is not delivered.", true),
            ("Could you help me with that?", false),
            ("Could you help me to move the old reader into its own crate?", true),
            ("reader: type: csv path: a.csv", false),
            ("You can look up the old log in /tmp/a.log", false),
        ] {
            assert_eq!(states_task(request), is_task, "{request:?}");
        }
        assert!(names_topic("the old reader has broken, why?") && !names_topic("and then?"));
    }
}
