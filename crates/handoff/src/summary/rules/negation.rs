//! Lines that say the opposite of a rule: the rule's own words with a negation, with an opposite in the place of one of them,
//! or with the permission to do what it forbids. Such a line counts wherever it is, because it need not propose any work.
//!
//! Only words are compared, so a match is a hint for the reviewer. Every other word of the rule has to be in the sentence.

use model::sentence_ranking::split_sentences;

use super::prohibition::{
    CONDITIONS, DENIALS, FUNCTION_WORDS, REFERENCES, Word, clauses, prohibitions, stem, words,
};

/// Verbs and adverbs of a rule that a line about the same need not contain.
const GENERAL: &[&str] = &[
    "keep",
    "make",
    "ensure",
    "stay",
    "remain",
    "leave",
    "always",
    "please",
    "strictly",
    "consistently",
    "well",
];
/// Words that say the opposite of each other.
const OPPOSITES: &[(&str, &str)] = &[
    ("narrow", "wide"),
    ("narrow", "broad"),
    ("short", "long"),
    ("brief", "long"),
    ("brief", "verbose"),
    ("terse", "verbose"),
    ("concise", "verbose"),
    ("small", "large"),
    ("small", "big"),
    ("high", "low"),
    ("thin", "thick"),
    ("tight", "loose"),
    ("simple", "complex"),
    ("simple", "complicated"),
    ("fast", "slow"),
    ("strict", "lenient"),
    ("strict", "relaxed"),
    ("strict", "loose"),
    ("public", "private"),
    ("enable", "disable"),
    ("synchronous", "asynchronous"),
    ("sync", "async"),
    ("mutable", "immutable"),
    ("visible", "hidden"),
    ("lowercase", "uppercase"),
    ("ascending", "descending"),
    ("explicit", "implicit"),
    ("mandatory", "optional"),
    ("required", "optional"),
    ("formal", "informal"),
    ("light", "dark"),
    ("open", "closed"),
    ("local", "remote"),
    ("manual", "automatic"),
    ("single", "double"),
    ("flat", "nested"),
    ("stable", "unstable"),
    ("sorted", "unsorted"),
    ("include", "exclude"),
    ("show", "hide"),
    ("accept", "reject"),
];
/// Negations before what they deny.
const NEGATIONS: &[&[&str]] = &[
    &["never"],
    &["don't"],
    &["dont"],
    &["do", "not"],
    &["need", "not"],
    &["needn't"],
    &["must", "not"],
    &["mustn't"],
    &["should", "not"],
    &["shouldn't"],
    &["no", "longer"],
    &["no", "need", "to"],
    &["stop"],
    &["skip"],
    &["without"],
];
/// Words after `not` with which a sentence denies that its subject is needed.
const NECESSITY: &[&str] = &["necessary", "needed", "required", "mandatory", "important"];
/// Words that permit what their sentence is about.
const PERMISSIONS: &[&str] =
    &["fine", "ok", "okay", "allowed", "permitted", "acceptable", "welcome", "optional"];
/// Conditions under which a permission still permits what a rule forbids.
const PERMISSIVE_CONDITIONS: &[&str] = &["if", "when", "while", "whenever", "once", "because"];
/// Words before the time or the condition of a demand.
const TIMES: &[&str] = &["before", "after", "when", "whenever", "once", "until"];
/// Verbs of a rule that `skip` stands for.
const DOING: &[&str] = &["run", "use", "execute", "do", "call", "perform"];
/// Words of a sentence that tells about the past.
const PAST: &[&str] = &["was", "were", "had", "been"];
/// Words that say who acts, and auxiliary verbs.
const ACTORS: &[&str] = &["i", "you", "we", "have", "has", "is", "are", "was"];
/// The fewest words of a rule that have to be in a sentence that negates it.
const COMMON_WORDS_MIN: usize = 2;

/// Returns whether the line says the opposite of the rule.
pub(super) fn negates(rule: &str, line: &str) -> bool {
    let requirements = requirements(rule);
    let bans = prohibitions(rule);
    split_sentences(line).filter(|sentence| !sentence.ends_with(['?', '？'])).any(|sentence| {
        let words = words(sentence);
        let has =
            |list: &[&str]| words.iter().any(|word| !word.is_code && list.contains(&word.text.as_str()));
        if has(PAST) {
            return false;
        }
        let is_open = |word: &Word| {
            !word.is_code
                && CONDITIONS.contains(&word.text.as_str())
                && !PERMISSIVE_CONDITIONS.contains(&word.text.as_str())
        };
        if words.iter().any(|word| is_open(word) && word.text != "without") {
            return permits_too_early(rule, &words);
        }
        let is_conditional = has(PERMISSIVE_CONDITIONS);
        let is_denied = words
            .iter()
            .any(|word| !word.is_code && DENIALS.contains(&word.text.as_str()) && word.text != "allowed");
        let is_permitted =
            !is_denied && (has(PERMISSIONS) || addresses_agent(&words) || permits_passively(&words));
        is_permitted && bans.iter().any(|ban| ban.is_named_in(&words))
            || !is_conditional
                && requirements.iter().any(|required| {
                    !is_denied && has_opposite(required, &words) || is_negated(required, &words)
                })
    })
}

/// Returns the content words of each clause that demands something: stems, without negations and conditions. Of a demand
/// with a time ("run the tests before you commit"), they are those before it.
fn requirements(rule: &str) -> Vec<Vec<String>> {
    let clauses = split_sentences(rule).flat_map(clauses);
    let requirement = |clause: Vec<Word>| {
        let time = clause.iter().position(|word| TIMES.contains(&word.text.as_str()));
        let demand = &clause[..time.unwrap_or(clause.len())];
        let texts: Vec<&str> = demand.iter().map(|word| word.text.as_str()).collect();
        let is_other = |word: &&str| {
            CONDITIONS.contains(word)
                || REFERENCES.contains(word)
                || *word == "no"
                || PAST.contains(word)
                || NEGATIONS.iter().any(|negation| **negation == [*word])
                || ["not", "cannot", "can't", "won't", "avoid"].contains(word)
        };
        if texts.iter().any(is_other) {
            return None;
        }
        let content: Vec<String> = texts.into_iter().filter(|word| is_content(word)).map(stem).collect();
        (!content.is_empty()).then_some(content)
    };
    clauses.filter_map(requirement).collect()
}

/// Returns whether a word is one that a line about the same contains.
fn is_content(word: &str) -> bool {
    !FUNCTION_WORDS.contains(&word) && !GENERAL.contains(&word)
}

/// Returns whether the sentence has all words of the requirement but one, and next to one of them the opposite of that one.
fn has_opposite(required: &[String], words: &[Word]) -> bool {
    let find = |wanted: &str| words.iter().position(|word| !word.is_code && is_same_word(&word.text, wanted));
    required.iter().enumerate().any(|(at, word)| {
        let others = required.iter().enumerate().filter(|(other, _)| *other != at);
        let Some(others) = others.map(|(_, other)| find(other)).collect::<Option<Vec<usize>>>() else {
            return false;
        };
        opposites(word)
            .filter_map(find)
            .any(|opposite| others.iter().any(|other| is_next(words, opposite, *other)))
    })
}

/// Returns whether only words without a content of their own are between two words.
fn is_next(words: &[Word], a: usize, b: usize) -> bool {
    let (first, last) = (a.min(b), a.max(b));
    words[first + 1..last.max(first + 1)].iter().all(|word| !word.is_code && !is_content(&word.text))
}

/// Returns the opposites of a word.
fn opposites(word: &str) -> impl Iterator<Item = &'static str> + '_ {
    OPPOSITES.iter().filter_map(move |(one, other)| match () {
        () if is_same_word(word, one) => Some(*other),
        () if is_same_word(word, other) => Some(*one),
        () => None,
    })
}

/// Returns whether the sentence denies the requirement: it has all its words, after a negation of one of them or before the
/// statement that they are not needed.
fn is_negated(required: &[String], words: &[Word]) -> bool {
    let is_required = |word: &Word| required.iter().any(|wanted| is_same_word(&word.text, wanted));
    let is_skipped = words.iter().any(|word| word.text == "skip");
    let is_implied = |wanted: &String| is_skipped && DOING.contains(&wanted.as_str());
    let has_all = required
        .iter()
        .all(|wanted| is_implied(wanted) || words.iter().any(|word| is_same_word(&word.text, wanted)));
    if !has_all || required.len() < COMMON_WORDS_MIN {
        return false;
    }
    let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    let is_before_required = |negation: &&[&str]| {
        let at = texts.windows(negation.len()).position(|window| *window == **negation);
        let next = at.and_then(|at| words[at + negation.len()..].iter().find(|word| is_content(&word.text)));
        next.is_some_and(is_required)
    };
    let is_unneeded = texts.windows(2).any(|pair| {
        let is_not = matches!(pair[0], "not" | "isn't" | "aren't" | "longer");
        is_not && NECESSITY.contains(&pair[1])
    }) || texts.contains(&"optional");
    let first = words.iter().find(|word| is_content(&word.text));
    NEGATIONS.iter().any(is_before_required) || is_unneeded && first.is_some_and(is_required)
}

/// Returns whether the sentence permits something to be done: "files may be deleted".
fn permits_passively(words: &[Word]) -> bool {
    words
        .windows(2)
        .any(|pair| matches!(pair[0].text.as_str(), "may" | "can" | "could") && pair[1].text == "be")
}

/// Returns whether the sentence lets something be done before what the rule makes it wait for: "fix it before the plan is
/// read" for the rule "no fix until I have read the plan".
fn permits_too_early(rule: &str, words: &[Word]) -> bool {
    /// The fewest words of the event that the sentence has to name.
    const EVENT_WORDS_MIN: usize = 2;
    let split = |words: &[Word], times: &[&str]| {
        let at = words.iter().position(|word| times.contains(&word.text.as_str()))?;
        let content = |words: &[Word]| -> Vec<String> {
            let texts = words.iter().map(|word| word.text.as_str());
            texts.filter(|text| is_content(text) && !ACTORS.contains(text)).map(str::to_owned).collect()
        };
        Some((content(&words[..at]), content(&words[at + 1..])))
    };
    let Some((done, event)) = split(words, &["before"]) else { return false };
    split_sentences(rule).flat_map(clauses).any(|clause| {
        let is_ban = clause.iter().any(|word| {
            word.text == "no" || matches!(word.text.as_str(), "never" | "don't" | "dont" | "not")
        });
        let Some((waiting, awaited)) = split(&clause, &["until", "before"]).filter(|_| is_ban) else {
            return false;
        };
        let names = |text: &[String], wanted: &String| text.iter().any(|word| is_same_word(word, wanted));
        waiting.iter().any(|wanted| names(&done, wanted))
            && awaited.iter().filter(|wanted| names(&event, wanted)).count()
                >= EVENT_WORDS_MIN.min(awaited.len())
            && !awaited.is_empty()
    })
}

/// Returns whether the sentence tells the next agent what it may do.
fn addresses_agent(words: &[Word]) -> bool {
    let text = |at: usize| words.get(at).map(|word| word.text.as_str());
    matches!(text(0), Some("you" | "we")) && matches!(text(1), Some("may" | "can" | "could"))
}

/// Returns whether two words are forms of the same word, such as `narrow` and `narrower`, or `sleep` and `sleeping`.
pub(super) fn is_same_word(a: &str, b: &str) -> bool {
    /// The endings of forms. An `e` at the end of the word is dropped before a vowel.
    const ENDINGS: &[&str] = &["er", "est", "ing", "ed", "es", "s"];
    let is_form = |word: &str, form: &str| {
        let base = word.strip_suffix('e').unwrap_or(word);
        base.len() > 2
            && ENDINGS.iter().filter_map(|ending| form.strip_suffix(ending)).any(|head| {
                // `run` becomes `running`.
                let is_doubled =
                    head.strip_prefix(word).is_some_and(|last| last.len() == 1 && word.ends_with(last));
                head == word || head == base || is_doubled
            })
    };
    a == b || stem(a) == stem(b) || is_form(a, b) || is_form(b, a)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_negates_a_rule_only_with_its_words_and_their_opposite() {
        for (rule, line, expected) in [
            ("Keep the margins narrow.", "Wider margins in the appendix are fine.", true),
            ("Keep the margins narrow.", "Wider margins … are fine", true),
            ("Keep the margins narrow.", "The margins should be wide.", true),
            ("Keep the margins narrow.", "The margins need not be narrow.", true),
            ("Keep the margins narrow.", "Don't keep the margins narrow.", true),
            ("Keep the margins narrow.", "The margins are narrow.", false),
            ("Keep the margins narrow.", "Avoid wider margins.", false),
            ("Keep the margins narrow.", "Wider margins were rejected.", false),
            ("Keep the margins narrow.", "The wide table overflows the margins.", false),
            ("Keep the margins narrow.", "Are wider margins fine?", false),
            ("Always run the linter.", "Do not run the linter.", true),
            ("Always run the linter.", "Running the linter is not necessary.", true),
            ("Always run the linter.", "The linter is not installed.", false),
            ("Always run the linter.", "Do not deploy; the linter has to run.", false),
            ("Always run the linter.", "Run the linter.", false),
            ("Use single quotes in strings.", "Use double quotes in strings.", true),
            ("Use single quotes in strings.", "Strings with double quotes were rewritten.", false),
            ("Answers must be brief.", "Verbose answers are welcome.", true),
            ("Never sleep in tests.", "Sleeping in tests is fine.", true),
            ("Never sleep in tests.", "A test that sleeps is fine to find.", false),
            ("No new dependencies.", "New dependencies are allowed.", true),
            ("No new dependencies.", "New dependencies are not allowed.", false),
            ("Don't touch the public API.", "It is OK to change the public API.", true),
            ("Don't touch the public API.", "You may change the public API.", true),
            ("Don't touch the public API.", "The public API is fine.", false),
            ("Never push to main.", "You can push to main.", true),
            ("Never push to main.", "You can push to a branch.", false),
            ("Never commit without running the tests.", "Commits are fine.", false),
            ("Run the tests before you commit.", "Don't commit.", false),
            ("Prefer small functions.", "Large files are fine.", false),
            ("Never sleep in tests.", "You may sleep in tests if it helps.", true),
            ("Never sleep in tests.", "If a test sleeps, you may remove it.", false),
            ("No fix until I have read the plan.", "Fix the parser before the plan is read.", true),
            ("No fix until I have read the plan.", "Fix the parser after the plan is read.", false),
            ("No fix until I have read the plan.", "Wait until the plan is read before the fix.", false),
            ("Run the linter before you commit.", "Skip the linter and commit.", true),
            ("Run the linter before you commit.", "Commit without running the linter.", true),
            ("Run the linter before you commit.", "Commit without the changelog.", false),
            ("Run the linter before you commit.", "Run the linter and commit.", false),
            ("Never delete files in raw/.", "Files in raw/ may be deleted.", true),
            ("Never delete files in raw/.", "Files in cache/ may be deleted.", false),
            ("Never delete files in raw/.", "Files in raw/ may be moved.", false),
        ] {
            assert_eq!(negates(rule, line), expected, "{rule} / {line}: {:?}", requirements(rule));
        }
    }
}
