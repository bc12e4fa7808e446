//! Reads an answer of the assistant for what it leaves open: sentences that say that something is left to do, does not
//! work or is not known, and whether the answer states a result. It knows nothing of tool calls.

mod phrases;
mod shortfall;
mod shortfall_phrases;

use model::sentence_ranking::split_sentences;

use super::cues::contains_any_word;
use crate::formatting::strip_markdown;
use phrases::{
    ANNOUNCEMENTS, CONVERSATION, COURTESIES, DENIALS, FAREWELL_OPENERS, FAREWELLS, FIRM_CUES,
    INTENTION_OPENERS, INTENTIONS, LOOSE_CUES, OPEN_SIGNS, PLANS, PRAISE, RESULTS,
};
pub(crate) use shortfall::admits_less;
use shortfall::states_shortfall;

/// Maximum sentences about open work kept of one answer.
const SENTENCES_MAX: usize = 6;

/// Maximum bytes of a sentence that only says goodbye.
const FAREWELL_BYTES_MAX: usize = 48;

/// The statements of an answer about the state of the work.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct AnswerReview {
    /// The sentences that say what is left, in order and verbatim. Names in a list, which say nothing alone, are joined to
    /// the sentence that introduces them.
    pub left_open: Vec<String>,
    /// True when a sentence states a result.
    pub has_result: bool,
    /// True when the last sentence announces work instead of reporting it.
    pub ends_in_announcement: bool,
}

/// Returns what the answer says about the state of the work. Code blocks and quoted lines are not read.
pub(crate) fn review_answer(answer: &str) -> AnswerReview {
    let mut review = AnswerReview::default();
    let mut is_below_open_heading = false;
    let mut open_heading = None;
    let sentences = split_sentences(answer).flat_map(split_status_lines);
    for sentence in sentences.filter(|sentence| !sentence.starts_with(['`', '>', '|', '{'])) {
        let text = strip_markdown(sentence);
        let lower = text.to_lowercase();
        if is_heading(sentence) {
            is_below_open_heading = says_open(&lower);
            open_heading = is_below_open_heading.then(|| text.clone());
            review.ends_in_announcement = is_announcement(&lower);
            continue;
        }
        let is_listed = is_below_open_heading && is_list_item(sentence);
        is_below_open_heading &= is_listed;
        let is_checked = lower.starts_with("[x]") || lower.starts_with('✅');
        let is_open_item = lower.starts_with("[ ]") || lower.starts_with(OPEN_SIGNS);
        if !is_checked && (is_listed || is_open_item || says_open(&lower)) {
            let is_name = is_listed && !text.contains(char::is_whitespace);
            let introduction = match open_heading.take() {
                Some(heading) => Some(format!("{heading} ")),
                None if is_name => review.left_open.pop().map(|before| format!("{before}, ")),
                None => None,
            };
            let introduction = introduction.filter(|_| is_name).unwrap_or_default();
            review.left_open.push(introduction + &text);
        } else {
            review.has_result |= states_result(&lower);
        }
        review.ends_in_announcement = is_announcement(&lower);
    }
    review.left_open.extend(open_heading);
    review.left_open.truncate(SENTENCES_MAX);
    review
}

/// Splits a paragraph into its lines if one of them begins with a sign that tells its state, and is not a list item.
fn split_status_lines(paragraph: &str) -> impl Iterator<Item = &str> {
    let has_state =
        |line: &str| line.trim_start().starts_with(OPEN_SIGNS) || line.trim_start().starts_with('✅');
    let is_list = paragraph.lines().any(has_state);
    let end = if is_list { '\n' } else { '\0' };
    paragraph.split(end).map(str::trim).filter(|line| !line.is_empty())
}

/// Lowercase beginnings of sentences that have the person choose, without a question mark.
const CHOICE_REQUESTS: [&str; 20] = [
    "tell me which",
    "tell me whether",
    "tell me what you prefer",
    "tell me what you would prefer",
    "tell me your choice",
    "let me know which",
    "let me know whether",
    "let me know what you prefer",
    "let me know what you'd prefer",
    "let me know your choice",
    "let me know how you want",
    "let me know how you'd like",
    "please choose",
    "please pick",
    "please decide",
    "please select",
    "choose one",
    "pick one",
    "your call",
    "it's your call",
];

/// Returns whether a sentence has the person choose without being a question, such as "Let me know which one to take".
pub(crate) fn asks_for_choice(sentence: &str) -> bool {
    let lower = strip_markdown(sentence).to_lowercase().replace('’', "'");
    CHOICE_REQUESTS.iter().any(|beginning| lower.starts_with(beginning))
}

/// Returns whether the question only ends a conversation politely, such as "Anything else?".
pub(crate) fn is_courtesy(question: &str) -> bool {
    let lower = question.to_lowercase();
    [
        "anything else",
        "what else",
        "how can i help",
        "what can i do",
        "how can i assist",
        "what would you like to do next",
        "what's next",
    ]
    .iter()
    .any(|cue| lower.contains(cue))
}

/// Returns whether the sentence is a heading or introduces a list.
fn is_heading(sentence: &str) -> bool {
    let sentence = sentence.trim_end();
    let bare = sentence.trim_end_matches(['*', '_']);
    sentence.starts_with('#') || bare.ends_with(':') || sentence.starts_with("**") && sentence.ends_with("**")
}

/// Returns whether the sentence begins with the marker of a list item.
fn is_list_item(sentence: &str) -> bool {
    let digits = sentence.bytes().take_while(u8::is_ascii_digit).count();
    ["- ", "* ", "+ ", "• "].iter().any(|marker| sentence.starts_with(marker))
        || (1..=2).contains(&digits) && sentence[digits..].starts_with(['.', ')'])
}

/// Beginnings of a further clause, which may say the opposite of the one before it.
const CLAUSE_STARTS: [&str; 4] = [". ", " but ", ", however ", " although "];

/// Returns whether a clause of a lowercase sentence says that something is left. A result counts only in its own clause.
fn says_open(lower: &str) -> bool {
    let next = |text: &str| {
        let starts = CLAUSE_STARTS.iter().filter_map(|start| Some((text.find(start)?, start.len())));
        starts.min()
    };
    let mut remaining = lower;
    while let Some((at, length)) = next(remaining) {
        if clause_says_open(&remaining[..at]) {
            return true;
        }
        remaining = &remaining[at + length..];
    }
    clause_says_open(remaining)
}

/// Returns whether a lowercase clause says that something is left.
fn clause_says_open(lower: &str) -> bool {
    let lower = lower.trim_start();
    if states_shortfall(lower) {
        return true;
    }
    if contains_any_word(lower, DENIALS) {
        return false;
    }
    let is_next = lower.starts_with("next")
        && lower[4..].starts_with([' ', ',', ':'])
        && !lower.starts_with("next to ");
    let is_not_yet = lower.split(" not ").skip(1).any(|after| {
        let words = after.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        words.take(NOT_YET_WORDS).any(|word| word == "yet")
    });
    let is_not_yet = is_not_yet && ![" so i ", ", i ", " i've "].iter().any(|work| lower.contains(work));
    let is_limit = ["known limitation", "known issue", "known problem"];
    let is_limit = is_limit.iter().any(|beginning| lower.starts_with(beginning));
    let is_remaining = ["remaining", "the remaining"].iter().any(|beginning| lower.starts_with(beginning));
    is_next
        || is_not_yet
        || is_limit
        || contains_any_word(lower, FIRM_CUES)
        || (is_remaining || contains_any_word(lower, LOOSE_CUES)) && !states_result(lower)
}

/// The maximum number of words from "not" to "yet" in a clause that says that something is not done.
const NOT_YET_WORDS: usize = 3;

/// Returns whether a lowercase sentence states a result, and not a plan.
fn states_result(lower: &str) -> bool {
    let words = lower.split_whitespace();
    let is_done_by = |(subject, verb): (&str, &str)| {
        matches!(subject, "i" | "i've" | "i’ve" | "we" | "we've" | "we’ve")
            && verb.len() > 4
            && verb.ends_with("ed")
    };
    let has_past_verb = words.clone().zip(words.skip(1)).any(is_done_by);
    (has_past_verb || contains_any_word(lower, RESULTS)) && !contains_any_word(lower, PLANS)
}

/// Returns whether a sentence reports a result of the work, and neither a plan nor what is left.
pub fn reports_result(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    states_result(&lower) && !says_open(&lower)
}

/// Returns whether a sentence only announces work, such as "Let me look at the parser" or "To fix it, we need to look at the
/// parser".
pub fn announces_work(sentence: &str) -> bool {
    let lower = strip_markdown(sentence).to_lowercase();
    // "To complete the task, we should …" and "Before I go on, I'm checking …" state a purpose or a time, and no result.
    let subordinate = ["to ", "before ", "after "].iter().find_map(|word| lower.strip_prefix(*word));
    let main =
        subordinate.and_then(|clause| clause.split_once(", ")).map_or(lower.as_str(), |(_, main)| main);
    is_announcement(&lower) || is_announcement(main) || states_intention(&lower) && !states_result(main)
}

/// Returns whether a sentence only keeps up a conversation, such as "You're right" or "Let me know what you think".
pub fn is_conversational(sentence: &str) -> bool {
    let lower = strip_markdown(sentence).to_lowercase();
    CONVERSATION.iter().any(|cue| lower.starts_with(cue))
}

/// Returns whether a message of the user only thanks or says goodbye, and asks for nothing. Praise alone may be an answer.
pub fn is_farewell(message: &str) -> bool {
    let mut is_end = false;
    let is_polite = split_sentences(message).all(|sentence| {
        let lower = sentence.trim_end_matches(['.', '!', ' ']).to_lowercase();
        let ends_here = thanks_or_ends(&lower);
        is_end |= ends_here;
        ends_here || PRAISE.contains(&lower.as_str())
    });
    is_polite && is_end
}

/// Lowercase greetings, which ask for nothing.
const GREETINGS: [&str; 14] = [
    "hi",
    "hello",
    "hey",
    "hi there",
    "hello there",
    "hey there",
    "hello again",
    "hi again",
    "good morning",
    "good evening",
    "hallo",
    "moin",
    "bonjour",
    "hola",
];

/// Returns whether the message is only a greeting, such as "Hi!".
pub fn is_greeting(message: &str) -> bool {
    let lower = message.trim().trim_end_matches(['.', '!', ' ']).to_lowercase();
    GREETINGS.contains(&lower.as_str())
}

/// Returns whether a lowercase sentence without its final punctuation only thanks or says goodbye.
fn thanks_or_ends(sentence: &str) -> bool {
    let opened = FAREWELL_OPENERS.iter().find_map(|opener| sentence.strip_prefix(opener));
    let sentence = opened.unwrap_or(sentence);
    let thanked = ["thank you", "thanks"].iter().find_map(|cue| sentence.strip_prefix(cue)).map(|after| {
        let modifiers = [" so much", " very much", " a lot", " again"];
        modifiers.iter().fold(after, |after, modifier| after.strip_prefix(modifier).unwrap_or(after))
    });
    let is_thanks = thanked.is_some_and(|after| after.is_empty() || after.starts_with(" for "));
    let says_goodbye = |(cue, next_words): &(&str, &[&str])| {
        let next = sentence.strip_prefix(cue).map(|after| after.split_whitespace().next());
        next.is_some_and(|next| next.is_none_or(|word| next_words.contains(&word)))
    };
    let is_goodbye = sentence.len() < FAREWELL_BYTES_MAX && FAREWELLS.iter().any(says_goodbye);
    let is_plain = !sentence.contains([',', ';', ':', '?', '\n']) && !sentence.contains(" but ");
    is_plain && (is_thanks || is_goodbye)
}

/// Returns whether a lowercase sentence states what its author intends to do, at its beginning or after a comma.
fn states_intention(lower: &str) -> bool {
    let begins = |clause: &str| {
        let clause = clause.trim_start();
        let opened = INTENTION_OPENERS.iter().find_map(|opener| {
            clause.strip_prefix(*opener).and_then(|after| after.trim_start_matches(',').strip_prefix(' '))
        });
        let clause = opened.unwrap_or(clause).trim_start();
        INTENTIONS.iter().any(|cue| clause.strip_prefix(*cue).is_some_and(|after| after.starts_with(' ')))
    };
    begins(lower) || lower.match_indices(", ").any(|(comma, _)| begins(&lower[comma + 2..]))
}

/// First words of short sentences without a subject that tell what their author is doing.
const PROGRESSIVES: [&str; 12] = [
    "using",
    "checking",
    "reading",
    "looking",
    "verifying",
    "inspecting",
    "searching",
    "reviewing",
    "running",
    "proceeding",
    "continuing",
    "starting",
];
/// Beginnings of verbs that make such a sentence a statement: "Using the cache fixes it".
const FINITE_VERBS: [&str; 17] = [
    "is", "are", "was", "were", "will", "would", "fixes", "fixed", "works", "worked", "shows", "showed",
    "causes", "caused", "makes", "made", "fails",
];
/// Maximum words of such a sentence.
const PROGRESSIVE_WORDS_MAX: usize = 10;

/// Returns whether a lowercase sentence has no subject and only tells what its author is doing, such as "Using the skill for the
/// commit step".
fn is_bare_progressive(lower: &str) -> bool {
    let words: Vec<&str> =
        lower.split_whitespace().map(|word| word.trim_end_matches(['.', ',', '…'])).collect();
    words.first().is_some_and(|first| PROGRESSIVES.contains(first))
        && words.len() <= PROGRESSIVE_WORDS_MAX
        && !words.iter().any(|word| FINITE_VERBS.contains(word))
}

/// Returns whether a lowercase sentence announces work.
fn is_announcement(lower: &str) -> bool {
    let starts_with = |cue: &str| {
        lower.strip_prefix(cue).is_some_and(|after| !after.starts_with(|c: char| c.is_ascii_alphanumeric()))
    };
    let is_progressive = ["i'm ", "i’m ", "i am "].iter().any(|subject| {
        let verb = lower.strip_prefix(*subject).and_then(|after| after.split_whitespace().next());
        verb.is_some_and(|verb| verb.len() > 4 && verb.ends_with("ing"))
    });
    if is_progressive || is_bare_progressive(lower) {
        return true;
    }
    ANNOUNCEMENTS.iter().any(|cue| starts_with(cue)) && !COURTESIES.iter().any(|cue| starts_with(cue))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_farewell_asks_for_nothing() {
        for (message, expected) in [
            ("Thank you so much for your help! That's all I needed.", true),
            ("That's perfect! Thanks for your help.", true),
            ("Thanks, you too! Have a great day.", true),
            ("No, that's all for now.", true),
            ("Bye for now!", true),
            ("Take care.", true),
            ("Thank you! Talk soon.", true),
            ("See you in the other window.", false),
            ("Have a great weekend!", true),
            ("Take care of the failing tests.", false),
            ("Have a good look at the parser.", false),
            ("That's all wrong.", false),
            ("Great!", false),
            ("Thanks, now move the tests.", false),
            ("Thanks for the test but it fails.", false),
            ("Thanks for it. Move the tests.", false),
            ("I really appreciate your help with this. Thank you.", true),
            ("I really appreciate your view on the parser: is it right?", false),
        ] {
            assert_eq!(is_farewell(message), expected, "{message:?}");
        }
    }

    #[test]
    fn an_answer_tells_what_it_leaves_open() {
        for (answer, left) in [
            ("Done.", ""),
            (
                "The orders are migrated. The invoices are still to be migrated.",
                "The invoices are still to be migrated.",
            ),
            (
                "The exporter works, but the nightly job is broken.",
                "The exporter works, but the nightly job is broken.",
            ),
            (
                "I set up staging. Production I have left out because the credentials are missing.",
                "Production I have left out because the credentials are missing.",
            ),
            ("I ported four of the six handlers.", "I ported four of the six handlers."),
            ("I ported 6 of 6 handlers, and one of the best.", ""),
            ("Remaining: the refunds.", "Remaining: the refunds."),
            (
                "All fixed.\n\nNext steps:\n- run the backfill\n- tell the team",
                "run the backfill|tell the team",
            ),
            ("## Remaining\n1. Port the parser.\n\nThe lexer is ported.", "Port the parser."),
            ("- [x] lexer\n- [ ] parser", "[ ] parser"),
            ("The tests were not yet run.", "The tests were not yet run."),
            ("The notes are written. The tag is not pushed yet.", "The tag is not pushed yet."),
            ("The folder does not exist yet, so I created it.", ""),
            ("Added it. Docs are missing for `--old`.", "Docs are missing for `--old`."),
            ("Added it. The key is missing in the old format.", ""),
            ("I have not looked at the client.", "I have not looked at the client."),
            ("The deploy is blocked by a missing key.", "The deploy is blocked by a missing key."),
            ("TODO: the retry limit.", "TODO: the retry limit."),
            ("Two tests fail on Windows.", "Two tests fail on Windows."),
            ("I fixed the failing test; everything passes.", ""),
            ("I migrated the remaining tables.", ""),
            ("The interface remains the same.", ""),
            ("Let me look at the parser:", ""),
            (
                "Pending changes:\n\n- `src/a.rs`\n- `src/b.rs`\n\nI fixed the parser.",
                "Pending changes: `src/a.rs`, `src/b.rs`",
            ),
            ("Still to do:\n- port the reader\n- `src/b.rs`", "port the reader, `src/b.rs`"),
            ("Nothing is left to do.", ""),
            ("The job is no longer broken.", ""),
            ("Der Export fehlt noch.", "Der Export fehlt noch."),
            ("Migrated both tables. 3 tests fail.", "Migrated both tables. 3 tests fail."),
            ("Tests: 41 passed, 2 failed.", "Tests: 41 passed, 2 failed."),
            ("Tests: 41 passed, 0 failed.", ""),
            ("I fixed 2 failing tests.", ""),
            ("Added a page for 404 errors.", ""),
            ("Everything is migrated except invoices.", "Everything is migrated except invoices."),
            ("All tests pass except `test_rollback`.", "All tests pass except `test_rollback`."),
            ("I added checks: all fields are required except notes.", ""),
            ("I left invoices alone for now.", "I left invoices alone for now."),
            ("Tests pass. I ran out of time for invoices.", "I ran out of time for invoices."),
            ("Orders are migrated, all tests pass. Invoices will follow.", "Invoices will follow."),
            (
                "Known limitation: empty names are refused twice.",
                "Known limitation: empty names are refused twice.",
            ),
            ("I fixed the known issue with empty names.", ""),
            ("✅ orders\n❌ invoices", "❌ invoices"),
            ("Il reste les factures.", "Il reste les factures."),
            ("I added the check; the parser fails on bad input now.", ""),
            ("发票尚未迁移。", "发票尚未迁移。"),
            ("```\nTODO in the code\n```\nAdded it.", ""),
        ] {
            assert_eq!(review_answer(answer).left_open.join("|"), left, "{answer}");
        }
    }

    #[test]
    fn an_answer_that_admits_less_than_was_asked_leaves_it_open() {
        for (answer, left) in [
            (
                "I could not reproduce the bug, and have changed nothing. All 12 tests pass.",
                "I could not reproduce the bug, and have changed nothing.",
            ),
            (
                "I dropped one table. The other two I left alone since they are locked.",
                "The other two I left alone since they are locked.",
            ),
            ("I renamed it. I left it alone, as you asked.", ""),
            ("I have no access to mail. Here is a draft.", "I have no access to mail."),
            ("I cannot tell: ssh to prod-1 timed out.", "I cannot tell: ssh to prod-1 timed out."),
            ("9 of the 12 services run on Node 22.", "9 of the 12 services run on Node 22."),
            ("Nine of the twelve services are migrated.", "Nine of the twelve services are migrated."),
            ("Tests: 41/43 pass.", "Tests: 41/43 pass."),
            ("The credit-note path is where I stopped.", "The credit-note path is where I stopped."),
            ("The rest is one command away: `npm publish`.", "The rest is one command away: `npm publish`."),
            (
                "I turned off the check. It should be switched on again before the release.",
                "It should be switched on again before the release.",
            ),
            ("All 12 of the 12 services run on Node 22.", ""),
            ("Step 2 of 5 is finished: I ported the reader.", ""),
            ("I fixed 2 of 3 red tests on 3/14, and the last one with them.", ""),
            ("One of the 3 tests covers it; I added the case.", ""),
            (
                "Staging runs 1.9.2. Production still runs the old version; I wait until 18:00.",
                "Production still runs the old version; I wait until 18:00.",
            ),
        ] {
            assert_eq!(review_answer(answer).left_open.join("|"), left, "{answer}");
        }
    }

    #[test]
    fn results_and_announcements_are_distinguished() {
        for (answer, has_result, ends_in_announcement) in [
            ("Done.", true, false),
            ("I renamed the flag.", true, false),
            ("I ported the reader.", true, false),
            ("The flag will be renamed.", false, false),
            ("I will look at the worker first.", false, true),
            ("Let me know what you think.", false, false),
            ("Hi.", false, false),
        ] {
            let review = review_answer(answer);
            assert_eq!(
                (review.has_result, review.ends_in_announcement),
                (has_result, ends_in_announcement),
                "{answer}"
            );
        }
        for (sentence, is_noise) in [
            ("To fix this, we need to change the parser.", true),
            ("To complete the task, we should update the copyright line.", true),
            ("Before I close this out, I’m checking the tree so I can report what changed.", true),
            ("After the port, the reader passes all tests.", false),
            ("After that I'll patch the reader.", true),
            ("Using `verify-first` for the commit step.", true),
            ("Using the cache fixes the slow start.", false),
            ("First we should find the file.", true),
            ("Let me know which seat you want.", true),
            ("You're right, the search did not match.", true),
            ("The reader needs two passes.", false),
            ("I changed the reader, so we need to rebuild the index.", false),
            ("The root cause is the cache.", false),
        ] {
            assert_eq!(announces_work(sentence) || is_conversational(sentence), is_noise, "{sentence}");
        }
        assert!(is_courtesy("Is there anything else?") && !is_courtesy("A or B?"));
    }
}
