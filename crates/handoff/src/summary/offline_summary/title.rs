//! The title of an offline summary: the heading of a plan, or the first clause that states the objective.

use std::borrow::Cow;

use facts::formatting::{ELLIPSIS, count_content_words, strip_markdown, strip_tags, truncate_with_ellipsis};
use facts::tool_use::head;
use facts::{ConversationFacts, Quote, is_pasted};
use model::sentence_ranking::split_sentences;

use super::current_task::{commit_topic, current_task, is_order, is_related};
use super::objective_request;
use super::statements::is_statement;
use super::topic::{is_polite_order, states_no_task, states_task};
use crate::summary::render;

/// The maximum length of the title, in grapheme clusters.
const TITLE_GRAPHEMES: usize = 76;
/// The minimum length of a clause that is a title, in bytes.
const CLAUSE_BYTES_MIN: usize = 16;
/// The maximum length of one of [`CLAUSE_ENDS`], in bytes.
const LONGEST_CLAUSE_END: usize = 10;
/// The number of bytes at the beginning of a request in which a sentence for the title is searched.
const TITLE_BYTES_MAX: usize = 2_000;
/// Lowercase beginnings of a request that are no part of its topic.
const OPENINGS: &[&str] = &[
    "hi",
    "hello",
    "hey",
    "ok",
    "okay",
    "yes",
    "yeah",
    "yep",
    "no",
    "so",
    "well",
    "great",
    "good",
    "thanks",
    "thank you",
    "cool",
    "perfect",
    "sure",
    "alright",
    "right",
    "now",
    "also",
    "please",
    "can you",
    "could you",
    "would you",
    "will you",
    "can we",
    "could we",
    "question:",
    "i want you to",
    "i would like you to",
    "i'd like you to",
    "i need you to",
    "we need to",
    "quick thing",
    "just",
    "and",
    "then",
    "but",
    "kindly",
    "let's",
    "lets",
    "i'd like to",
    "i want to",
    "i need to",
    "i would like to",
    "ah",
    "oh",
    "hm",
    "hmm",
    "your job is to",
    "your task is to",
    "you are starting a",
    "you're starting a",
    "you will",
    "i'm looking to",
    "i am looking to",
    "solve this issue",
    "fix this issue",
    "github issue",
];
/// Lowercase sentences that introduce a plan or task that follows.
const INTRODUCTIONS: &[&str] = &[
    "implement the following",
    "we're currently solving",
    "here is the plan",
    "execute the plan",
    "the following plan",
    "consider the following",
    "fix the following issue",
    "solve the following",
    "here's the issue",
    "here is the issue",
    "i've uploaded",
    "i have uploaded",
    "you are a",
    "you are an",
    "environment has been set up",
    "you may assume",
];
/// Lowercase beginnings of sentences that state what their author wants.
const WISHES: &[&str] =
    &["i want you to", "i would like you to", "i'd like you to", "i need you to", "please", "we need to"];
/// Lowercase beginnings of sentences that prepare the work and do not state it.
const PREPARATIONS: &[&str] =
    &["read ", "look at ", "take a look", "check out ", "see ", "you can look up", "open "];
/// Lowercase words at the beginning of a heading that are no part of its topic.
const HEADING_PREFIXES: &[&str] =
    &["implementation plan", "plan", "task", "goal", "objective", "feature", "issue", "title"];
/// Lowercase headings that say nothing about their text.
const PLAIN_HEADINGS: &[&str] = &[
    "context",
    "overview",
    "summary",
    "background",
    "instructions",
    "description",
    "problem",
    "introduction",
    "problem statement",
    "issue description",
    "details",
    "steps",
];
/// Lowercase greetings at the beginning of a letter.
const GREETINGS: &[&str] = &["hi", "hello", "hey", "dear", "hallo", "good morning"];
/// Lowercase words that begin a phrase before the main clause of a sentence.
const PHRASE_OPENERS: &[&str] = &[
    "after", "although", "as", "at", "based", "because", "before", "by", "for", "from", "given", "if", "in",
    "on", "once", "since", "to", "unless", "when", "while", "with", "without",
];
/// Words before which a sentence can end as a whole clause, the best places first.
const CLAUSE_ENDS: [&[&str]; 3] = [
    &[". ", "; ", ": ", " — ", " – ", " - ", " (", ", "],
    &[
        " so that ",
        " because ",
        " which ",
        " when ",
        " if ",
        " but ",
        " instead ",
        " where ",
        " while ",
        " by ",
        " and ",
    ],
    &[" with ", " using ", " for ", " from ", " in ", " on ", " at ", " as "],
];

/// The number of requests after the objective from which the last commit is a better title, unless it is about the objective.
const LATER_REQUESTS_MIN: usize = 6;
/// The minimum number of content words of an objective that is a better title than the last commit.
const OBJECTIVE_WORDS_MIN: usize = 2;

/// Returns the title: the goal, else the task that the thread is about at its end, else the heading of a plan or the first
/// clause of the objective request, else of an earlier summary, else of the assistant's first statement.
pub(super) fn title(facts: &ConversationFacts, goal: Option<&str>) -> String {
    let objective = objective_request(facts).filter(|_| goal.is_none());
    let current = objective.and_then(|objective| current_task(facts, objective));
    let commit = objective.and_then(|objective| last_commit(facts, current, objective));
    let request = goal.or_else(|| objective.map(|quote| quote.text.as_str()));
    let summary = || facts.grounded_summary.as_ref().map(|quote| quote.text.as_str());
    let statements = || facts.statements.iter().map(|quote| quote.text.as_str());
    let statement = || statements().find(|text| split_sentences(text).next().is_some_and(is_statement));
    let others = facts.requests.iter().filter(|quote| goal.is_none() && quote.seq >= facts.recent_from);
    let others = others.map(|quote| quote.text.as_str()).filter(|text| states_task(text));
    let current = current.map(|quote| quote.text.as_str());
    let texts = current.into_iter().chain(request).chain(others);
    let requests = commit.into_iter().chain(texts.map(|text| topic(&without_rules(facts, text))));
    let requests: Vec<String> = requests.collect();
    // Another request is a better title than one that must be cut inside a clause.
    let whole = requests.iter().find(|title| !title.is_empty() && !title.ends_with(ELLIPSIS));
    let title = whole.or(requests.iter().find(|title| !title.is_empty())).cloned();
    let others = || [summary(), statement()].into_iter().flatten().map(topic).find(|title| !title.is_empty());
    title.or_else(others).unwrap_or_else(|| "Thread without a request".to_owned())
}

/// Returns a request without the sentences that state a standing rule, if the others state a task.
fn without_rules<'a>(facts: &ConversationFacts, request: &'a str) -> Cow<'a, str> {
    let is_rule =
        |sentence: &str| facts.standing_rules.iter().any(|rule| rule.text.contains(sentence.trim()));
    if !split_sentences(request).any(is_rule) {
        return Cow::Borrowed(request);
    }
    let task = split_sentences(request).filter(|sentence| !is_rule(sentence)).collect::<Vec<_>>().join(" ");
    if states_task(&task) { Cow::Owned(task) } else { Cow::Borrowed(request) }
}

/// Returns the topic of the last commit, if it was made for the current task, or for an objective that orders nothing.
fn last_commit(facts: &ConversationFacts, current: Option<&Quote>, objective: &Quote) -> Option<String> {
    let orders_work = |quote: &Quote| {
        let title = topic(&quote.text);
        is_order(&title, OBJECTIVE_WORDS_MIN)
            || plan_heading(&quote.text).is_some()
            || split_sentences(&quote.text)
                .any(|sentence| is_order(&topic_of_sentence(sentence), OBJECTIVE_WORDS_MIN))
    };
    let later = facts.requests.iter().filter(|quote| quote.seq > objective.seq).count();
    let is_stale = current.is_some() || later >= LATER_REQUESTS_MIN || !orders_work(objective);
    let since = current.unwrap_or(objective).seq.max(facts.recent_from);
    let commit = facts.last_commit.as_ref().filter(|commit| is_stale && commit.seq > since)?;
    if current.is_none() && is_related(&commit.text, &objective.text) {
        return None;
    }
    Some(commit_topic(&commit.text)).filter(|title| count_content_words(title) >= OBJECTIVE_WORDS_MIN)
}

/// Returns the topic of a text in at most [`TITLE_GRAPHEMES`].
pub(super) fn topic(text: &str) -> String {
    let text = strip_tags(head(text, TITLE_BYTES_MAX));
    let topic = plan_heading(&text).unwrap_or_else(|| first_sentence(&text));
    shorten_to_title(&with_short_paths(&topic))
}

/// Returns the first heading that names the topic, if the text has one among its first lines.
fn plan_heading(text: &str) -> Option<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(12).enumerate();
    let headings =
        lines.filter(|(index, line)| line.starts_with("# ") || *index == 0 && line.starts_with('#'));
    let headings = headings.map(|(_, line)| line);
    let named = headings.map(strip_markdown).map(|heading| {
        let lower = heading.to_lowercase();
        let prefix = HEADING_PREFIXES.iter().find(|prefix| {
            lower
                .strip_prefix(**prefix)
                .is_some_and(|after| after.starts_with([':', ' ', '-', '–']) || after.is_empty())
        });
        // A letter and its lowercase form can have different lengths, so the prefix may end inside a letter.
        let named = prefix.and_then(|prefix| heading.get(prefix.len()..)).unwrap_or(&heading);
        named.trim_start_matches([':', ' ', '-', '–', '—']).to_owned()
    });
    let mut named = named.filter(|heading| {
        count_content_words(heading) >= 2 && !PLAIN_HEADINGS.contains(&heading.to_lowercase().as_str())
    });
    named.next().map(|heading| capitalize(&render::normalize_line(&heading)))
}

/// Returns the first of the first eight sentences that states a topic, without its opening and its final punctuation and
/// with a capital first letter.
pub(super) fn first_sentence(text: &str) -> String {
    let text = strip_tags(head(text, TITLE_BYTES_MAX));
    let sentences: Vec<String> = split_sentences(&text)
        .take(8)
        .filter(|sentence| !sentence.starts_with("```"))
        .map(|sentence| topic_of_sentence(&strip_markdown(&before_pasted_text(before_greeting(sentence)))))
        .filter(|sentence| !sentence.is_empty() && !is_pasted(sentence))
        .collect();
    let is_topic = |sentence: &&String| {
        let is_about_task = !states_no_task(sentence) || is_preparation(sentence);
        count_content_words(sentence) >= 3 && sentence.contains(' ') && is_about_task
    };
    // A later sentence is an order only if it began like one.
    let orders = |sentence: &&String| split_sentences(&text).any(|whole| states_wish(whole, sentence));
    let chosen = sentences
        .iter()
        .find(is_topic)
        .map(|first| match is_preparation(first) {
            true => sentences.iter().filter(is_topic).find(orders).unwrap_or(first),
            false => first,
        })
        .or_else(|| {
            sentences.iter().find(|sentence| count_content_words(sentence) >= 2 && !states_no_task(sentence))
        })
        .or(sentences.first());
    let sentence = chosen.map(|sentence| render::normalize_line(sentence)).unwrap_or_default();
    capitalize(sentence.trim_end_matches(['.', ':', '!', ' ', ',']))
}

/// Returns whether a sentence states a wish of its author, such as "I want you to", before the part that is its topic.
fn states_wish(sentence: &str, topic: &str) -> bool {
    let lower = strip_markdown(sentence).to_lowercase();
    let is_wish = WISHES.iter().any(|wish| lower.starts_with(wish));
    is_wish && lower.ends_with(&topic.to_lowercase())
}

/// Returns whether a sentence only introduces the plan or task that follows.
pub(super) fn is_introduction(sentence: &str) -> bool {
    let lower = strip_opening(sentence).to_lowercase();
    INTRODUCTIONS.iter().any(|introduction| lower.starts_with(introduction))
}

/// Returns whether a sentence prepares the work, and does not state it.
pub(super) fn is_preparation(sentence: &str) -> bool {
    let lower = strip_opening(sentence).to_lowercase();
    PREPARATIONS.iter().any(|beginning| lower.starts_with(beginning))
}

/// Returns a sentence without its opening, and without the question mark of an order in the form of a question.
fn topic_of_sentence(sentence: &str) -> String {
    let topic = without_file_before_order(strip_opening(sentence));
    let is_order = is_polite_order(sentence);
    topic.trim_end_matches(|c| is_order && matches!(c, '?' | '？')).to_owned()
}

/// Returns an order without the path of its file, if the path stands before it: "src/lib.rs fill out the table".
fn without_file_before_order(sentence: &str) -> &str {
    match sentence.split_once(' ') {
        Some((path, order))
            if path.contains(['/', '.'])
                && !path.ends_with([':', ',', '.'])
                && facts::begins_with_order(order) =>
        {
            order
        }
        Some(_) | None => sentence,
    }
}

/// Returns the part of a sentence before a line that begins with a greeting. It is the heading of a letter.
fn before_greeting(sentence: &str) -> &str {
    let end = sentence.match_indices('\n').map(|(end, _)| end).find(|end| {
        let line = sentence[*end..].trim_start().to_lowercase();
        GREETINGS.iter().any(|greeting| {
            line.strip_prefix(greeting).is_some_and(|after| !after.starts_with(|c: char| c.is_alphanumeric()))
        })
    });
    end.map_or(sentence, |end| &sentence[..end])
}

/// Returns the part of a sentence before a frame that was pasted into it. The line or column before the frame is text of
/// the same interface and is put in quotation marks.
fn before_pasted_text(sentence: &str) -> Cow<'_, str> {
    let Some(end) = sentence.find(['┃', '│', '╭', '╰', '┌', '└', '├', '❯']) else {
        return Cow::Borrowed(sentence);
    };
    let before = sentence[..end].trim_end();
    let gap = before.rfind("  ").into_iter().chain(before.rfind('\n')).max();
    match gap.map(|gap| (before[..gap].trim_end(), before[gap..].trim_start())) {
        Some((own, shown)) if !own.is_empty() && !shown.contains('"') => {
            Cow::Owned(format!("{own} \"{shown}\""))
        }
        Some(_) | None => Cow::Borrowed(before),
    }
}

/// The characters that may follow an opening.
const OPENING_ENDS: [char; 6] = [' ', ',', '!', '.', '-', ':'];

/// Returns a sentence without the words of conversation that it begins with, if a few content words remain.
pub(super) fn strip_opening(sentence: &str) -> &str {
    let mut text = sentence;
    loop {
        let lower = head(text, 32).to_lowercase();
        let opening = OPENINGS.iter().filter(|opening| {
            lower.strip_prefix(**opening).is_some_and(|after| {
                // "No new dependencies" is an order, and "No, new dependencies" an answer with one.
                let ends = if **opening == "no" { &[',', '!', '.', ':'][..] } else { &OPENING_ENDS };
                after.starts_with(ends)
            })
        });
        let Some(length) = opening.map(|opening| opening.len()).max() else { break };
        let Some(after) = text.get(length..) else { break };
        let after = after.trim_start_matches(OPENING_ENDS);
        if count_content_words(after) < 2 {
            break;
        }
        text = after;
    }
    text
}

/// Returns the text with a capital first letter, unless its first word is a name, whose spelling must not change.
fn capitalize(text: &str) -> String {
    let first_word = text.split(' ').next().unwrap_or_default();
    if first_word.contains(|c: char| c.is_ascii_digit() || "/._`:(-".contains(c)) {
        return text.to_owned();
    }
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Returns the text as a title in at most [`TITLE_GRAPHEMES`]; see [`shorten_to_main_clause`]. A prepositional phrase may be
/// left out of a title.
fn shorten_to_title(text: &str) -> String {
    shorten_at(text, TITLE_GRAPHEMES, &CLAUSE_ENDS)
}

/// Returns the text in at most `graphemes_max` grapheme clusters: the longest beginning that is a whole clause, else the
/// text cut between words with an ellipsis.
pub(super) fn shorten_to_main_clause(text: &str, graphemes_max: usize) -> String {
    shorten_at(text, graphemes_max, &CLAUSE_ENDS[..CLAUSE_ENDS.len() - 1])
}

/// Returns the text in at most `graphemes_max` grapheme clusters, cut before one of the words if possible. The first of
/// `tiers` has the best words.
fn shorten_at(text: &str, graphemes_max: usize, tiers: &[&[&str]]) -> String {
    let cut = truncate_with_ellipsis(text, graphemes_max);
    let Some(kept) = cut.strip_suffix(ELLIPSIS) else { return cut };
    if text.starts_with(cut.as_str()) {
        return cut;
    }
    // The end of the kept part may itself be a clause, so the text is searched a little further than it is kept.
    let searched = head(text, kept.len() + LONGEST_CLAUSE_END);
    for ends in tiers {
        let end = ends.iter().filter_map(|end| searched.rfind(end)).filter(|end| *end <= kept.len()).max();
        let clause = end.map(|end| searched[..end].trim_end_matches([' ', ',', ';', ':', '.', '-', '(']));
        if let Some(clause) = clause.filter(|clause| is_whole_clause(clause)) {
            return clause.to_owned();
        }
    }
    cut
}

/// Returns whether a beginning of a sentence can stand alone: it is long enough, closes what it opens, and is more than the
/// phrase before the main clause, such as "Based on the output".
fn is_whole_clause(clause: &str) -> bool {
    let first = clause.split(' ').next().unwrap_or_default().to_lowercase();
    if PHRASE_OPENERS.contains(&first.as_str()) && !clause.contains(", ") {
        return false;
    }
    let closes = |open: char, close: char| clause.matches(open).count() == clause.matches(close).count();
    clause.len() >= CLAUSE_BYTES_MIN
        && count_content_words(clause) >= 2
        && closes('(', ')')
        && clause.matches('`').count().is_multiple_of(2)
        && clause.matches('"').count().is_multiple_of(2)
        && clause.split(' ').count() >= 3
}

/// Returns `text` with every path shortened to its file name, because a title has no room for folders.
fn with_short_paths(text: &str) -> String {
    let short = |word: &str| match word.rsplit_once('/') {
        Some((folders, name)) if !folders.ends_with('/') && name.contains('.') && !word.contains("//") => {
            let opening: String = folders.chars().take_while(|c| "`\"'(".contains(*c)).collect();
            format!("{opening}{name}")
        }
        Some(_) | None => word.to_owned(),
    };
    text.split(' ').map(short).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_heading_or_a_whole_clause_of_the_objective() {
        for (text, expected) in [
            ("Fix the parser.", "Fix the parser"),
            ("# tas\u{212a}: port the reader", "tas\u{212a}: port the reader"),
            (
                "Implement the following plan:\n\n# Plan: A queue for uploads\n\n## Context\nNone.",
                "A queue for uploads",
            ),
            ("hey, can you please fix the broken importer?", "Fix the broken importer"),
            ("yeah close it. Then port the reader to the new format.", "Port the reader to the new format"),
            (
                "Make the retry limit configurable, because every customer has other needs and other network conditions.",
                "Make the retry limit configurable",
            ),
            (
                "Rename the column that holds the time of the last access of each object with a migration of old databases.",
                "Rename the column that holds the time of the last access of each object",
            ),
            (
                "Read src/lib.rs in full. It is a mess. I want you to port the reader to the new format.",
                "Port the reader to the new format",
            ),
            ("Read src/lib.rs in full. It is a mess.", "Read lib.rs in full"),
            (
                "I've uploaded a repository. Consider the following issue:\n<issue>\nthe lexer breaks on tabs\n</issue>",
                "The lexer breaks on tabs",
            ),
            ("src/lib.rs: port the tests", "lib.rs: port the tests"),
            ("docs/search/GUIDE.md fill out the guide of the search", "Fill out the guide of the search"),
            ("src/lib.rs is a mess of old code", "lib.rs is a mess of old code"),
            (
                "Please solve this issue: GitHub Issue: SyntaxError: invalid syntax",
                "SyntaxError: invalid syntax",
            ),
            (
                "You are a careful reviewer. Your job is to review the reader and report defects.",
                "Review the reader and report defects",
            ),
            ("You are starting a short cleanup of the old reader.", "Short cleanup of the old reader"),
            (
                "Sure, my user ID is ana_lopez_17. I want to move my seat to row nine.",
                "Move my seat to row nine",
            ),
            (
                "Here's the issue:\nISSUE:\nThe reader loses the last row\nHi there!\n\nI saw it today.",
                "The reader loses the last row",
            ),
            (
                "find out why i get  Check of the reader failed (shell)   ┃  │ cd /tmp ┃ and fix",
                "Find out why i get \"Check of the reader failed (shell)\"",
            ),
            (
                "Based on the output of the last test run of the importer, it seems that the reader loses the last row of every file.",
                "Based on the output of the last test run of the importer, it seems that…",
            ),
            (
                "not sure\n\nreader:\n  type: csv\n  path: ./a works.\n\nAdd an example that runs it.",
                "Add an example that runs it",
            ),
        ] {
            assert_eq!(topic(text), expected, "{text:?}");
        }
    }
}
