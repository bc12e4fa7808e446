//! Cue words that mark a sentence as a rule of the user, in a few common languages. The words of a single form of rule are next
//! to the function that reads it.
//!
//! [`rule_strictness`] accepts every order and wish, because a summary has room for a false one. [`standing::is_standing_rule`]
//! accepts only rules that stay valid after the request in which they were stated: a prohibition, an order with a word
//! such as "always", or a condition on the whole work. An order that is carried out once, such as "keep the first beat",
//! is not a standing rule. [`statements`] and [`notices`] accept rules without an imperative.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::cues::{build_matcher, is_bounded, is_whole_word};
use crate::tool_use::head;

mod lasting_order;
mod notices;
pub(crate) mod order;
pub(crate) mod standing;
mod statements;
#[cfg(test)]
mod tests;

/// English words of an order, besides [`UNIVERSAL_WORDS`], [`PROHIBITIONS`] and [`FOREIGN_ORDERS`].
const ORDER_WORDS: &[&str] = &[
    "must",
    "only",
    "instead",
    "make sure",
    "ensure",
    "no need",
    "stop",
    "let's not",
    "rather than",
    "required",
];
/// English words that make an order valid for every case.
const UNIVERSAL_WORDS: &[&str] = &["never", "always"];
/// English words that forbid something, at the beginning of a clause.
const PROHIBITIONS: &[&str] = &["don't", "dont", "don’t", "do not", "avoid", "forbidden"];
/// Words of an order in other languages that are part of an order or of a statement, like "always". In a language
/// without word boundaries they are written without a space.
const FOREIGN_UNIVERSAL_WORDS: &[&str] = &[
    "niemals",
    "immer",
    "jamais",
    "toujours",
    "nunca",
    "siempre",
    "mai",
    "sempre",
    "никогда",
    "всегда",
    "必ず",
];
/// Words of an order in other languages that are never part of a statement.
const FOREIGN_ORDERS: &[&str] =
    &["auf keinen fall", "нельзя", "不要", "必须", "禁止", "务必", "しないで", "절대"];
/// Words of a wish, which is a rule that is not strict.
const WISH_WORDS: &[&str] = &[
    "should",
    "shouldn't",
    "shouldnt",
    "prefer",
    "without",
    "keep",
    "remove",
    "rename",
    "i want",
    "i'd like",
    "i would like",
    "we need to",
    "needs to",
    "please use",
    "nicht",
    "stattdessen",
    "bitte",
    "nur",
    "plutôt",
    "seulement",
    "sin",
    "应该",
    "不应",
    "别",
    "ください",
];
/// Words of a guess. A sentence with one of them is not an order.
const HEDGES: [&str; 8] = ["i think", "seems", "maybe", "perhaps", "i guess", "not sure", "wonder", "fyi"];

/// Words before "always" and the like in a statement.
const STATEMENT_VERBS: &[&str] = &[
    "is", "are", "was", "were", "it's", "it’s", "that's", "has", "have", "had", "i've", "i’ve", "i'm",
    "we've",
];

/// Matches all words of orders and wishes. Patterns below [`order_count`] are orders.
static RULE_CUES: LazyLock<AhoCorasick> = LazyLock::new(|| build_matcher(order_words().chain(WISH_WORDS)));

/// Returns the words of orders in all languages.
fn order_words() -> impl Iterator<Item = &'static &'static str> {
    [ORDER_WORDS, UNIVERSAL_WORDS, PROHIBITIONS, FOREIGN_UNIVERSAL_WORDS, FOREIGN_ORDERS]
        .into_iter()
        .flatten()
}

/// Returns whether the lowercase word after "no" states a rule, as in "no mocks allowed". Other participles state a result.
pub fn is_rule_participle(word: &str) -> bool {
    RULE_PARTICIPLES.contains(&word)
}

/// Returns `Some(true)` if `sentence` states an order, `Some(false)` if it states a wish, and `None` if it has no cue of a
/// rule. A question or a guess with the words of an order counts as a wish.
pub(crate) fn rule_strictness(sentence: &str) -> Option<bool> {
    let mut strictness = None;
    for hit in RULE_CUES.find_overlapping_iter(sentence).filter(|hit| is_whole_word(sentence, hit)) {
        let lower = head(&sentence[hit.start()..], CUE_BYTES_MAX).to_lowercase();
        if is_not_order(&lower, &sentence[..hit.start()]) || begins_with_any(&lower, NO_RULES) {
            continue;
        }
        strictness = Some(strictness == Some(true) || hit.pattern().as_usize() < order_words().count());
    }
    let is_order = strictness? && !sentence.trim_end().ends_with(['?', '？']) && {
        let lower = sentence.to_lowercase();
        !HEDGES.iter().any(|hedge| lower.contains(hedge))
    };
    Some(is_order)
}

/// Returns whether a cue only looks like one by the words before it: "the stop hook", "to avoid confusion", or "it is always
/// welcome". `lower` begins with the cue.
fn is_not_order(lower: &str, before: &str) -> bool {
    let before = before.to_lowercase();
    let last = before.split_whitespace().next_back().unwrap_or_default();
    let begins_with = |words: &[&str]| begins_with_any(lower, words);
    begins_with(&["stop"]) && !begins_clause(&before)
        || begins_with(&["avoid", "ensure", "keep", "remove", "rename"]) && last == "to"
        || begins_with(&["always", "never", "only"]) && STATEMENT_VERBS.contains(&last)
        || begins_with(&["should"])
            && before.split_whitespace().rev().take(QUESTION_WORDS_BEFORE_MAX).any(is_question_word)
}

/// Returns whether a lowercase word begins an indirect question, such as "where those modules should go".
fn is_question_word(word: &str) -> bool {
    ["where", "how", "what", "which", "whether"].contains(&word)
}

/// Maximum words between the first word of an indirect question and its "should".
const QUESTION_WORDS_BEFORE_MAX: usize = 5;
/// Maximum bytes after the beginning of a cue in which [`NO_RULES`] are searched.
const CUE_BYTES_MAX: usize = 24;
/// Phrases that make a sentence valid for every case wherever they are in it.
const UNIVERSAL_PHRASES: &[&str] = &[
    "from now on",
    "at all times",
    "under no circumstances",
    "never ever",
    "whatever you do",
    "off limits",
    "off-limits",
    "ask me before",
    "ask me first",
    "check with me before",
    "check with me first",
    "there will be no new",
    "don't need backward",
    "don't need backwards",
    "don’t need backward",
    "do not need backward",
    "no backward compatibility",
    "no backwards compatibility",
    "on every occasion",
    "ab sofort",
    "von jetzt an",
    "à partir de maintenant",
    "désormais",
    "a partir de ahora",
    "d'ora in poi",
    "с этого момента",
    "从现在起",
    "今后",
    "今後",
];
/// Phrases of a requirement or a prohibition wherever they are in a sentence.
const REQUIREMENTS: &[&str] = &[
    "must",
    "mustn't",
    "should never",
    "should always",
    "shouldn't",
    "should not",
    "you may not",
    "not allowed",
    "forbidden",
];
/// Words of an order that stays valid only together with a sign of it; see [`standing`].
const WEAK_IMPERATIVES: &[&str] = &["keep", "make sure", "ensure", "stop"];
/// Words of an order that stays valid unless the sentence says otherwise.
const STRONG_IMPERATIVES: &[&str] = &["only", "no", "without", "prefer"];
/// Words with which a clause begins before its imperative, such as "please never".
const CLAUSE_OPENERS: &[&str] = &[
    "please",
    "and",
    "but",
    "also",
    "so",
    "then",
    "or",
    "you",
    "we",
    "just",
    "to",
    "should",
    "always",
    "again",
    "remember",
    "instead",
    "bitte",
    "also",
    "und",
    "aber",
    "et",
    "mais",
    "y",
    "pero",
    "e",
    "ma",
    "и",
    "а",
    "но",
    "пожалуйста",
];
/// Beginnings of clauses that only look like an imperative.
const NO_RULES: &[&str] = &[
    "never mind",
    "don't worry",
    "dont worry",
    "don't know",
    "dont know",
    "don’t know",
    "don't think",
    "dont think",
    "don’t think",
    "don't see",
    "don’t see",
    "don't have",
    "dont have",
    "don’t have",
    "don't understand",
    "don't care",
    "don't mind",
    "don't remember",
    "don't recall",
    "don't actually",
    "don’t remember",
    "don't get",
    "don't need",
    "don't forget",
    "do not know",
    "do not think",
    "do not see",
    "do not have",
    "keep going",
    "keep that in mind",
    "keep this in mind",
    "keep in mind",
    "keep it up",
    "no idea",
    "no worries",
    "no problem",
    "no need",
    "no thanks",
    "no it",
    "no i",
    "no that",
    "no this",
    "no wait",
    "no one",
    "only one",
    "only recently",
    "only just",
    "must be a",
    "must be an",
    "must be the",
    "must be some",
    "must be because",
    "must be why",
    "must say",
    "must admit",
    "must have been",
    "should have been",
    "should have worked",
    "should be fine",
    "should be ok",
    "should be okay",
    "should i",
    "should we",
];
/// Words before "you" and "we" with which a clause states when or why something happens, and orders nothing.
const SUBORDINATIONS: &[&str] = &["when", "if", "where", "because", "since", "as", "while"];
/// Lowercase words after "no" that make it an answer or a statement, such as "no don't" and "no row was lost".
const NO_STATEMENT_WORDS: &[&str] = &[
    "was", "were", "is", "are", "has", "have", "had", "does", "did", "don't", "don’t", "dont", "do", "not",
    "let's",
];
/// Lowercase words after "no" that make it an order for things in general, such as "no key should be logged".
const MODALS: &[&str] = &["may", "should", "must", "shall"];
/// Lowercase participles after "no" that state a rule, such as "no mocks allowed". Others state a result.
const RULE_PARTICIPLES: &[&str] = &["allowed", "permitted", "accepted", "tolerated", "needed"];
/// Words that tie an order to the present moment or the present object.
const ONE_TIME_WORDS: &[&str] = &[
    "now",
    "yet",
    "for the moment",
    "this time",
    "today",
    "tonight",
    "tomorrow",
    "at once",
    "immediately",
    "right away",
    "once more",
    "again",
    "the first",
    "the second",
    "the last",
    "next",
    "this one",
    "that one",
    "this change",
    "this branch",
    "this plan",
    "this task",
    "this step",
    "just yet",
    "jetzt",
    "heute",
    "diesmal",
    "sofort",
    "noch nicht",
    "erstmal",
    "maintenant",
    "cette fois",
    "aujourd'hui",
    "tout de suite",
    "ahora",
    "esta vez",
    "hoy",
    "todavía",
    "adesso",
    "stavolta",
    "oggi",
    "сейчас",
    "пока",
    "сегодня",
    "现在",
    "这次",
    "今回",
    "今は",
    "まだ",
    "지금",
];
/// Pronouns. A prohibition whose whole object is one of them is about the present object.
const PRONOUNS: &[&str] = &["it", "that", "this", "them", "these", "those", "so", "anything"];
/// Words that make an order hold for every case or thing.
const GENERAL_WORDS: &[&str] = &[
    "all",
    "any",
    "anything",
    "every",
    "everything",
    "each",
    "always",
    "never",
    "whenever",
    "nothing",
    "none",
    "before committing",
    "before you commit",
    "before pushing",
    "before you push",
    "before merging",
    "after committing",
    "at the end of",
    "no longer than",
    "at most",
    "at least",
];
/// Words for a state that "keep" orders to last, such as "keep functions short".
const STATES: &[&str] = &[
    "stable",
    "small",
    "short",
    "simple",
    "working",
    "intact",
    "green",
    "unchanged",
    "compatible",
    "clean",
    "minimal",
    "consistent",
    "separate",
    "private",
    "readable",
    "fast",
    "sorted",
    "deterministic",
    "passing",
    "up to date",
    "in sync",
    "as is",
    "as it is",
    "as they are",
    "the same",
    "under",
    "below",
    "within",
    "out of",
    "alphabetical",
    "in english",
    "tidy",
    "backward",
    "backwards",
    "offline",
    "secret",
];
/// Beginnings of sentences that are a habit if they are followed by an order, such as "Before every commit, run it".
const HABIT_BEGINNINGS: &[&str] = &[
    "before every",
    "before each",
    "before any",
    "after every",
    "after each",
    "after any",
    "whenever",
    "every time",
    "each time",
    "in every",
    "in each",
    "for every",
    "for each",
    "vor jedem",
    "vor jeder",
    "nach jedem",
    "nach jeder",
    "bei jedem",
    "bei jeder",
    "avant chaque",
    "après chaque",
    "antes de cada",
    "después de cada",
    "prima di ogni",
    "перед каждым",
    "после каждого",
    "每次",
    "毎回",
];
/// Occasions of a habit at the end of an order, such as "Run the linter before committing".
const HABIT_OCCASIONS: &[&str] =
    &["before committing", "before you commit", "before pushing", "before you push", "before merging"];
/// Verbs in the imperative with which an order begins that a habit follows, such as "Run the linter before every commit".
const HABIT_VERBS: &[&str] = &[
    "run", "use", "write", "add", "put", "commit", "ask", "update", "format", "test", "check", "name",
    "document", "follow", "start", "begin", "end", "explain", "answer", "reply", "review", "validate",
    "lint", "build", "include", "mention", "log", "show", "wait", "rebase", "squash", "sign", "update",
    "verify", "execute", "push", "pull",
];
/// Beginnings of statements in languages in which an order has no subject.
const STATEMENT_OPENERS: &[&str] = &[
    "der",
    "die",
    "das",
    "dies",
    "diese",
    "dieser",
    "es",
    "er",
    "sie",
    "ich",
    "ein",
    "eine",
    "le",
    "la",
    "les",
    "l",
    "il",
    "elle",
    "ça",
    "cela",
    "ce",
    "c",
    "je",
    "on",
    "un",
    "une",
    "el",
    "los",
    "las",
    "eso",
    "esto",
    "yo",
    "se",
    "lo",
    "gli",
    "io",
    "questo",
    "это",
    "он",
    "она",
    "оно",
    "я",
    "тест",
    "тесты",
    "test",
];
/// Words of other languages that turn a statement into an order.
const FOREIGN_MODALS: &[&str] = &[
    "darf",
    "dürfen",
    "muss",
    "müssen",
    "soll",
    "sollen",
    "doit",
    "doivent",
    "ne faut",
    "il faut",
    "debe",
    "deben",
    "hay que",
    "deve",
    "devono",
    "должен",
    "должны",
    "должна",
    "нужно",
];

/// Returns whether a lowercase text begins with one of the phrases as whole words.
fn begins_with_any(lower: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| lower.starts_with(phrase) && is_bounded(lower, 0..phrase.len()))
}

/// Returns whether a clause begins after this text: it is empty, or ends in punctuation or one of [`CLAUSE_OPENERS`].
fn begins_clause(before: &str) -> bool {
    // "Read-only" and "English-only" are words.
    let is_inside_word = |compound: &str| compound.ends_with(char::is_alphanumeric);
    if before.strip_suffix('-').is_some_and(is_inside_word) {
        return false;
    }
    let before = before.trim_end();
    let mut words = before.rsplit(|c: char| !c.is_alphanumeric());
    let is_subordinate = matches!(words.next(), Some("you" | "we"))
        && words.next().is_some_and(|word| SUBORDINATIONS.contains(&word));
    if is_subordinate {
        return false;
    }
    before.is_empty()
        || before.ends_with([',', ';', ':', '.', '!', '(', '"', '—', '–', '-', '\'', '“'])
        || before
            .rsplit(|c: char| !c.is_alphanumeric())
            .next()
            .is_some_and(|word| CLAUSE_OPENERS.contains(&word))
}
