//! The task that the conversation is about at its end. A long conversation has several: the first request may be about work
//! that is over.

use facts::{ConversationFacts, Quote};

use super::statements::is_prose;
use super::title::topic;
use super::topic::states_task;
use facts::formatting::{ELLIPSIS, count_content_words};
use facts::tool_use::head;

/// The minimum number of content words of a request that states a task of its own.
const TASK_WORDS_MIN: usize = 3;
/// The minimum number of content words of a chore that is a title if it is what is pending.
const CHORE_WORDS_MIN: usize = 6;
/// The minimum number of requests after the objective, up to the current task. Before that, a request is likely a part of the
/// same work.
const LATER_REQUESTS_MIN: usize = 3;
/// Lowercase beginnings of a request that continues the work.
const CONTINUATIONS: &[&str] = &[
    "also", "and ", "plus ", "but ", "no ", "no,", "nope", "wait", "instead", "actually", "hmm", "soo",
    "i mean", "that ", "then ", "you ", "yes ", "yes,", "again",
];
/// Lowercase verbs of orders about work that something else has stated.
const CHORES: &[&str] = &[
    "commit", "push", "merge", "close", "rebase", "continue", "stop", "start", "show", "tell", "list",
    "read", "switch", "open", "run", "try", "revert", "give", "print", "look",
];
/// Lowercase words that point to something outside of the request.
const DEMONSTRATIVES: &[&str] = &["this", "that", "it", "these", "those", "them", "one"];
/// The length of a word's beginning that is compared, in bytes.
const STEM_BYTES: usize = 6;
/// The number of bytes at the beginning of a request that must be prose, and no output of a program.
const PROSE_BYTES: usize = 400;
/// The number of bytes at the beginning of a request that are compared with another.
const COMPARED_BYTES: usize = 2_000;

/// Returns the newest request that states a task of its own, if it has nothing to do with `objective`. `None` if the
/// conversation is still about the objective.
pub(super) fn current_task<'a>(facts: &'a ConversationFacts, objective: &Quote) -> Option<&'a Quote> {
    let later: Vec<&Quote> = facts.requests.iter().rev().filter(|quote| quote.seq > objective.seq).collect();
    let last_seq = facts.requests.last().map_or(0, |quote| quote.seq);
    let is_pending = facts.request_answered == Some(false);
    let found = later.iter().position(|quote| {
        let title = topic(&quote.text);
        is_own_task(&quote.text, &title)
            || is_pending && quote.seq == last_seq && is_long_chore(&quote.text, &title)
    })?;
    let newest = later[found];
    (later.len() - found >= LATER_REQUESTS_MIN && !is_related(&topic(&newest.text), &objective.text))
        .then_some(newest)
}

/// Returns whether a request states a task that is understood without the messages before it. `title` is its topic.
fn is_own_task(request: &str, title: &str) -> bool {
    let lower = request.trim_start().to_lowercase();
    let is_continuation = CONTINUATIONS.iter().any(|beginning| lower.starts_with(beginning));
    let is_written = is_prose(head(request.trim_start(), PROSE_BYTES));
    !is_continuation
        && is_written
        && states_task(request)
        && is_order(title, TASK_WORDS_MIN)
        && !is_chore(title)
}

/// Returns whether a request is a chore with so many words that it tells what it is about.
fn is_long_chore(request: &str, title: &str) -> bool {
    states_task(request) && is_chore(title) && is_order(title, CHORE_WORDS_MIN)
}

/// Returns whether a topic is an order with enough words whose object is named.
pub(super) fn is_order(title: &str, words_min: usize) -> bool {
    let lower = title.to_lowercase();
    let object = lower.split_whitespace().nth(1).unwrap_or_default();
    let object = object.trim_matches(|c: char| !c.is_alphanumeric());
    let points_outside = DEMONSTRATIVES.contains(&object)
        || DEMONSTRATIVES.iter().any(|word| lower.ends_with(&format!(" {word}")))
        || ["this is", "that is", "it is", "it's"].iter().any(|part| lower.contains(&format!(" {part} ")));
    count_content_words(title) >= words_min
        && facts::begins_with_order(title)
        && !points_outside
        && !title.ends_with(['?', '？'])
}

/// Returns whether a topic is a chore.
fn is_chore(title: &str) -> bool {
    let first = title.split_whitespace().next().unwrap_or_default().to_lowercase();
    CHORES.contains(&first.as_str())
}

/// Returns whether many words of a topic are in the text.
pub(super) fn is_related(title: &str, text: &str) -> bool {
    let stem = |word: &str| {
        let lower = word.to_lowercase();
        lower[..lower.floor_char_boundary(STEM_BYTES)].to_owned()
    };
    let stems = |text: &str| {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 3);
        words.map(stem).collect::<std::collections::BTreeSet<String>>()
    };
    let own = stems(title.trim_end_matches(ELLIPSIS));
    let known = stems(head(text, COMPARED_BYTES));
    let shared = own.intersection(&known).count();
    shared > 1 && shared * 3 >= own.len()
}

/// Returns the subject of a commit without the prefix that tells its kind and scope, such as `docs(book): `.
pub(super) fn commit_topic(subject: &str) -> String {
    let after = subject.split_once(": ").filter(|(prefix, _)| {
        let kind = prefix.trim_end_matches('!').split('(').next().unwrap_or_default();
        !kind.is_empty()
            && kind.len() <= 12
            && kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    });
    topic(after.map_or(subject, |(_, after)| after))
}

#[cfg(test)]
mod tests {
    use facts::notation::parse_facts;

    use super::super::objective_request;
    use super::*;

    #[test]
    fn the_current_task_is_the_newest_that_is_about_something_else() {
        let first = "U: Find out whether the old issues of the tracker of all readers are stale and useless.\n A: They are.\n U: ok\n A: Fine.\n U: yes\n A: Fine.";
        for (later, expected) in [
            ("U: Port the reader of sessions to the new format.\n A: Done.", "Port the reader of sessions"),
            (
                "U: Port the reader of sessions to the new format.\n A: Done.\n U: commit it\n A: Done.",
                "Port the reader",
            ),
            // These continue the work or are about the same.
            ("U: Also port the reader of sessions to the new format.\n A: Done.", ""),
            ("U: Close the stale issues of the tracker.\n A: Done.", ""),
            ("U: Add this to the list of all known exceptions.\n A: Done.", ""),
            ("U: Check the whole code for readers if this is an issue there\n A: Done.", ""),
            (
                "U: Check if the reader was called: mock.assert_called_once() self = <Mock name='get'> def f(self) {}\n A: Done.",
                "",
            ),
            ("U: commit and push\n A: Done.", ""),
            ("U: are you sure about the ones in the list?\n A: Yes.", ""),
            // A pending chore tells what it is about.
            (
                "U: Can you commit your changes of the guide for authors with the updated instructions",
                "Can you commit",
            ),
        ] {
            let facts = parse_facts(&format!("{first}\n {later}"));
            let objective = objective_request(&facts).expect("there is a request");
            let current = current_task(&facts, objective).map_or("", |quote| quote.text.as_str());
            assert!(
                current.starts_with(expected) && expected.is_empty() == current.is_empty(),
                "{later}: {current}"
            );
        }
    }

    #[test]
    fn the_topic_of_a_commit_has_no_prefix() {
        for (subject, expected) in [
            ("docs(book): name the flag of the reader", "Name the flag of the reader"),
            ("Fix tree view: use one component", "Fix tree view: use one component"),
            ("Port the reader", "Port the reader"),
        ] {
            assert_eq!(commit_topic(subject), expected);
        }
    }
}
