//! Tells requests for a report, such as a review or an explanation, from requests for a change. The answer to the former is
//! the work itself, so that the problems which it names are results and not open work.

use model::sentence_ranking::split_sentences;

use crate::formatting::strip_markdown;
use crate::text::cues::{contains_any_word, is_question};

/// Lowercase words before the verb of an order.
const OPENERS: &[&str] = &[
    "please",
    "can you",
    "could you",
    "would you",
    "will you",
    "can we",
    "could we",
    "let's",
    "let’s",
    "lets",
    "i want you to",
    "i would like you to",
    "i'd like you to",
    "i need you to",
    "we need to",
    "you should",
    "your job is to",
    "your task is to",
    "you will",
    "now",
    "then",
    "also",
    "and",
    "ok",
    "okay",
    "yes",
    "so",
    "first",
    "next",
    "finally",
    "just",
    "hey",
    "hi",
    "well",
    "alright",
];
/// Lowercase words with which a prompt states the task of a role.
const ROLE_ORDERS: &[&str] = &["your job is to", "your task is to"];
/// Verbs of an order whose result is a text.
const REPORT_VERBS: &[&str] = &[
    "review",
    "audit",
    "analyze",
    "analyse",
    "investigate",
    "explain",
    "summarize",
    "summarise",
    "describe",
    "compare",
    "research",
    "report",
    "tell",
    "assess",
    "evaluate",
    "examine",
    "inspect",
    "find out",
    "look into",
    "show me",
    "list",
    "rank",
];
/// Verbs of an order whose result is a change.
const CHANGE_VERBS: &[&str] = &[
    "fix",
    "implement",
    "add",
    "change",
    "update",
    "remove",
    "rename",
    "refactor",
    "port",
    "write",
    "create",
    "delete",
    "move",
    "replace",
    "commit",
    "push",
    "merge",
    "build",
    "make",
    "mend",
    "repair",
    "migrate",
    "convert",
    "install",
    "deploy",
    "edit",
    "rewrite",
    "apply",
    "resolve",
    "address",
    "close",
    "open",
    "book",
    "cancel",
    "set",
    "release",
    "publish",
    "revert",
    "clean",
    "drop",
    "extract",
    "split",
    "upgrade",
    "solve",
];
/// Further verbs with which an order begins.
const OTHER_VERBS: &[&str] = &[
    "test",
    "use",
    "ensure",
    "make sure",
    "check",
    "look",
    "run",
    "try",
    "fill",
    "spawn",
    "put",
    "show",
    "read",
    "switch",
    "improve",
    "simplify",
    "document",
    "design",
    "plan",
    "support",
    "handle",
    "allow",
    "prevent",
    "reduce",
    "rework",
    "extend",
    "finish",
    "prepare",
    "draft",
    "hide",
    "print",
    "log",
    "do",
    "find",
    "figure out",
    "get",
    "give",
    "turn",
    "wire",
    "hook",
    "configure",
    "enable",
    "disable",
    "debug",
    "reproduce",
    "generate",
    "translate",
    "format",
    "optimize",
    "validate",
    "abandon",
    "bring",
    "integrate",
    "introduce",
    "expose",
    "track",
    "cover",
    "speed up",
    "verify",
    "continue",
    "start",
    "stop",
    "adjust",
    "align",
    "reuse",
    "rebase",
    "include",
];
/// Lowercase beginnings of a question whose answer is a text.
const QUESTION_WORDS: &[&str] = &[
    "what", "what's", "why", "how", "which", "when", "where", "who", "is", "are", "was", "were", "does",
    "do", "did", "has", "have", "had",
];
/// Lowercase phrases with which a report says that it is not complete itself.
const UNREPORTED: &[&str] = &[
    "i have not",
    "i've not",
    "i’ve not",
    "i haven't",
    "i haven’t",
    "i did not",
    "i didn't",
    "i didn’t",
    "i could not",
    "i couldn't",
    "i couldn’t",
    "i was not able",
    "i was unable",
    "not yet reviewed",
    "not reviewed",
    "not yet checked",
    "not yet looked",
    "unreviewed",
    "i still",
    "we still",
    "left to review",
    "left to check",
    "yet to be",
    "remains to be",
];
/// Maximum bytes of a question.
const QUESTION_BYTES_MAX: usize = 400;

/// Returns whether a request asks only for a report: it orders one or asks a question, and orders no change.
pub(crate) fn asks_for_report(request: &str) -> bool {
    let mut is_report = false;
    for sentence in split_sentences(request).filter(|sentence| !sentence.starts_with(['`', '>', '|'])) {
        let text = strip_markdown(sentence).to_lowercase();
        let first_clause = text.split([',', ';', ':', '—']).next().unwrap_or_default();
        let is_asked = is_question(sentence)
            && request.len() <= QUESTION_BYTES_MAX
            && starts_with_any(without_openers(first_clause), QUESTION_WORDS);
        is_report |= is_asked;
        let clauses = text
            .split([',', ';', ':', '—'])
            .flat_map(|clause| clause.split(" and "))
            .flat_map(|clause| clause.split(" then "));
        for clause in clauses {
            let order = without_openers(clause);
            if starts_with_any(order, CHANGE_VERBS) {
                return false;
            }
            is_report |= starts_with_any(order, REPORT_VERBS);
        }
        // A long prompt that gives the model a role states its task here. The lists after it begin with other words.
        let is_prompt = request.len() > QUESTION_BYTES_MAX;
        if is_prompt && is_report && ROLE_ORDERS.iter().any(|order| text.contains(order)) {
            return true;
        }
    }
    is_report
}

/// Returns whether a sentence begins with the verb of an order, possibly after words such as "can you".
pub fn begins_with_order(sentence: &str) -> bool {
    let lower = strip_markdown(sentence).to_lowercase();
    let order = without_openers(&lower);
    [CHANGE_VERBS, REPORT_VERBS, OTHER_VERBS].iter().any(|verbs| starts_with_any(order, verbs))
}

/// Returns whether a sentence of a report says that the report is not complete, and not only what is wrong with its object.
pub(crate) fn leaves_report_open(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    contains_any_word(&lower, UNREPORTED) || super::open_work::admits_less(&lower)
}

/// Returns a lowercase clause without the words before its verb.
fn without_openers(clause: &str) -> &str {
    let mut order = clause.trim();
    while let Some(opener) = OPENERS.iter().find(|opener| starts_with_word(order, opener)) {
        order = order[opener.len()..].trim_start_matches([' ', ',', '!', '.']);
    }
    order
}

/// Returns whether a text begins with one of the words.
fn starts_with_any(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| starts_with_word(text, word))
}

/// Returns whether a text begins with the word or phrase.
fn starts_with_word(text: &str, word: &str) -> bool {
    text.strip_prefix(word).is_some_and(|after| !after.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_asked_for_without_a_change() {
        for (request, expected) in [
            ("Review the change in this branch.", true),
            ("You are a reviewer. Your job is to review code changes and give feedback.", true),
            ("Your job is to review code and fix it.", false),
            ("Your task is to port the reader. Explain it.", false),
            ("can you investigate why the job fails?", true),
            ("why does the job fail?", true),
            ("What is left?", true),
            ("Find out why the job fails and fix it.", false),
            ("Review the branch. Then commit it.", false),
            ("can you fix the job?", false),
            ("Check if the reader was called:\n\nE  AssertionError: called 0 times", false),
            ("Port the reader.", false),
            ("Do it.", false),
        ] {
            assert_eq!(asks_for_report(request), expected, "{request:?}");
        }
        let list = "\n1. **Commit hash**: Look at that commit.".repeat(20);
        assert!(asks_for_report(&format!("You are a reviewer. Your job is to review code.\n{list}")));
    }
}
