//! The actions that a rule forbids, and whether a line proposes one. Only words are compared, so a match is a hint for the
//! reviewer. A rule that is conditional, or that names nothing definite, forbids nothing here: a false warning costs more
//! trust than a missing one.

use model::sentence_ranking::split_sentences;

use super::negation::is_same_word;

/// Words that negate what follows them in a rule.
const CUES: &[&[&str]] = &[
    &["never"],
    &["don't"],
    &["dont"],
    &["do", "not"],
    &["must", "not"],
    &["mustn't"],
    &["should", "not"],
    &["shouldn't"],
    &["shall", "not"],
    &["may", "not"],
    &["cannot"],
    &["can't"],
];
/// Words that make a rule conditional.
pub(super) const CONDITIONS: &[&str] = &[
    "unless", "except", "without", "until", "before", "after", "if", "when", "while", "because", "only",
    "than", "again", "yet", "instead", "just", "more", "whenever", "once", "too", "both",
];
/// Words by which a rule refers to something that was said elsewhere.
pub(super) const REFERENCES: &[&str] = &[
    "it",
    "its",
    "that",
    "this",
    "these",
    "those",
    "them",
    "they",
    "anything",
    "something",
    "everything",
    "so",
    "there",
    "here",
    "such",
    "same",
    "other",
    "others",
    "one",
    "ones",
];
/// Words between noun groups. They also end a noun group in a line.
pub(super) const FUNCTION_WORDS: &[&str] = &[
    "a",
    "an",
    "the",
    "any",
    "some",
    "all",
    "every",
    "each",
    "my",
    "your",
    "our",
    "his",
    "their",
    "to",
    "of",
    "in",
    "on",
    "at",
    "by",
    "for",
    "from",
    "with",
    "into",
    "onto",
    "over",
    "under",
    "as",
    "via",
    "inside",
    "within",
    "between",
    "and",
    "or",
    "nor",
    "but",
    "so",
    "then",
    "that",
    "what",
    "whatever",
    "which",
    "where",
    "who",
    "because",
    "if",
    "when",
    "while",
    "until",
    "unless",
    "is",
    "are",
    "was",
    "were",
    "be",
    "will",
    "can",
    "could",
    "should",
    "would",
    "may",
    "might",
    "must",
    "has",
    "have",
    "had",
    "not",
    "me",
    "us",
    "you",
    "we",
    "i",
    "he",
    "she",
    "new",
    "extra",
    "additional",
    "further",
    "after",
    "before",
    "again",
    "too",
    "also",
    "now",
    "first",
    "next",
    "using",
    "per",
    "through",
    "during",
    "without",
    "like",
    "there",
    "here",
    "against",
    "across",
    "below",
    "above",
    "directly",
];
/// Adverbs between the negation and the verb.
const ADVERBS: &[&str] = &["ever", "again", "directly", "simply", "manually", "even", "please", "also"];
/// Nouns that name nothing definite.
const VAGUE_NOUNS: &[&str] = &[
    "file", "code", "thing", "stuff", "work", "project", "line", "change", "part", "way", "time", "step",
    "task", "question", "detail", "text", "output", "result", "name", "word", "problem",
];
/// Words after `no` that announce no ban.
const HARMLESS_AFTER_NO: &[&str] = &[
    "need",
    "problem",
    "exception",
    "matter",
    "idea",
    "more",
    "one",
    "longer",
    "worry",
    "way",
    "rush",
    "longer",
];
/// Verbs by which a sentence with `no` states something instead of forbidding it.
const STATING: &[&str] =
    &["is", "are", "was", "were", "has", "have", "had", "stays", "remains", "applied", "found"];
/// Verbs before the verb that a rule is about.
const TRYING: &[&str] = &["attempt", "try"];
/// Verbs that bring something in.
const ADDING_VERBS: &[&str] =
    &["add", "use", "introduce", "create", "install", "write", "insert", "include", "import"];
/// Verbs that change something.
const CHANGING_VERBS: &[&str] =
    &["touch", "change", "modify", "edit", "alter", "rewrite", "refactor", "update", "rework", "break"];
/// Verbs that take something away.
const REMOVING_VERBS: &[&str] = &["remove", "delete", "drop", "purge", "discard"];
/// Verbs that mean the same in a ban, by group.
const VERB_GROUPS: &[&[&str]] = &[
    ADDING_VERBS,
    CHANGING_VERBS,
    REMOVING_VERBS,
    &["run", "execute", "invoke", "start"],
    &["raise", "increase", "bump", "extend", "lengthen"],
    &["push", "publish", "deploy", "release"],
    &["rename", "move"],
    &["disable", "skip", "ignore"],
];
/// Words in a line after which a verb is proposed.
const PROPOSING: &[&str] = &["to", "will", "should", "must", "can", "could", "let's", "shall", "then", "now"];
/// Words in a sentence that keep, deny or ask about what it names.
pub(super) const DENIALS: &[&str] = &[
    "never",
    "not",
    "no",
    "don't",
    "doesn't",
    "didn't",
    "won't",
    "can't",
    "cannot",
    "shouldn't",
    "mustn't",
    "without",
    "avoid",
    "avoids",
    "avoiding",
    "instead",
    "rather",
    "unless",
    "keep",
    "keeps",
    "keeping",
    "leave",
    "unchanged",
    "untouched",
    "preserve",
    "forbidden",
    "prohibited",
    "whether",
    "only",
    "dont",
    "ask",
    "confirm",
    "none",
    "nor",
    "neither",
    "nothing",
    "stop",
    "revert",
    "undo",
    "allowed",
    "permission",
    "approval",
    "rule",
];

/// Something that a rule forbids to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Prohibition {
    /// The verbs, in their base form.
    verbs: Vec<String>,
    /// The noun groups that the verb is about. All words are stems.
    objects: Vec<Vec<String>>,
    /// True if the rule forbids only what is done to the object itself, and not to its parts.
    is_direct: bool,
}

/// A word of a clause: its lowercase form without punctuation, and whether it is code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// The lowercase form without punctuation.
    pub(super) text: String,
    /// True if the word is code.
    pub(super) is_code: bool,
}

/// Returns what the rule forbids: at most one action for each of its clauses.
pub(super) fn prohibitions(rule: &str) -> Vec<Prohibition> {
    let sentences = split_sentences(rule);
    sentences.into_iter().flat_map(clauses).filter_map(|clause| clause_prohibition(&clause)).collect()
}

impl Prohibition {
    /// Returns whether the line proposes to do what is forbidden.
    pub(super) fn is_proposed_in(&self, line: &str) -> bool {
        let is_proposed = |sentence: &str| {
            let is_denied =
                words(sentence).iter().any(|word| !word.is_code && DENIALS.contains(&word.text.as_str()));
            !is_denied
                && !sentence.ends_with(['?', '？'])
                && clauses(sentence).iter().any(|clause| self.is_proposed_by(clause))
        };
        split_sentences(line).into_iter().any(is_proposed)
    }

    /// Returns whether a sentence names what is forbidden: a verb, and after it the noun groups. A ban of bringing something
    /// in is named by the thing alone.
    pub(super) fn is_named_in(&self, sentence: &[Word]) -> bool {
        let is_verb = |word: &Word| {
            !word.is_code
                && self.verbs.iter().any(|verb| {
                    let group = group_of(verb).unwrap_or_default();
                    is_same_word(&word.text, verb)
                        || group.iter().any(|other| is_same_word(&word.text, other))
                })
        };
        let brings_in = self.verbs.iter().any(|verb| ADDING_VERBS.contains(&verb.as_str()));
        let behind = match sentence.iter().position(is_verb) {
            // "Files may be deleted": the object is before its verb.
            Some(at) if at > 0 && sentence[at - 1].text == "be" => &sentence[..at],
            Some(at) => &sentence[at + 1..],
            None if brings_in && !self.objects.is_empty() => sentence,
            None => return false,
        };
        self.objects.iter().all(|object| contains_group(behind, object))
    }

    /// Returns the position of the verb that the clause proposes. Behind `let`, as in "let the pool grow", it is the first
    /// verb of the rule.
    fn proposed_verb(&self, clause: &[Word]) -> Option<usize> {
        let at = proposed_verb(clause)?;
        if clause[at].text != "let" {
            return Some(at);
        }
        let is_verb = |word: &Word| self.verbs.contains(&word.text);
        Some(at + clause[at..].iter().position(is_verb)?)
    }

    /// Returns whether the clause proposes it: with one of the verbs, or by bringing in what the verb names ("add a sleep").
    fn is_proposed_by(&self, clause: &[Word]) -> bool {
        let Some(at) = self.proposed_verb(clause) else { return false };
        let (verb, rest) = (&clause[at].text, &clause[at + 1..]);
        let is_same = |known: &String| {
            known == verb
                || (!self.objects.is_empty()
                    && group_of(known).is_some_and(|group| group.contains(&verb.as_str())))
        };
        let brings_in = ADDING_VERBS.contains(&verb.as_str());
        let names_verb = |known: &String| {
            brings_in && group_of(known).is_none() && contains_group(rest, std::slice::from_ref(known))
        };
        self.verbs.iter().any(|known| is_same(known) || names_verb(known))
            && self.objects.iter().all(|object| contains_group(rest, object))
            && (!self.is_direct || noun_groups(rest).first() == self.objects.first())
    }
}

/// Returns the clauses of a sentence as words.
pub(super) fn clauses(sentence: &str) -> Vec<Vec<Word>> {
    let mut clauses = vec![Vec::new()];
    for (raw, word) in sentence.split_whitespace().map(|raw| (raw, word(raw))) {
        let starts_clause = matches!(word.text.as_str(), "and" | "but" | "then") && !word.is_code;
        if starts_clause {
            clauses.push(Vec::new());
            continue;
        }
        if let Some(clause) = clauses.last_mut()
            && !word.text.is_empty()
        {
            clause.push(word);
        }
        if raw.ends_with([',', ';', ':', '.', '!', '?', '–', '—']) || raw == "-" {
            clauses.push(Vec::new());
        }
    }
    clauses.retain(|clause| !clause.is_empty());
    clauses
}

/// Returns the words of a text.
pub(super) fn words(text: &str) -> Vec<Word> {
    text.split_whitespace().map(word).filter(|word| !word.text.is_empty()).collect()
}

/// Returns a word without the punctuation around it.
fn word(raw: &str) -> Word {
    let is_code = raw.contains(['`', '/', '_', '(', '=']) || raw.contains("::");
    let text = raw.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase().replace('’', "'");
    Word { text, is_code }
}

/// Returns what a clause of a rule forbids; `None` if it forbids nothing definite.
fn clause_prohibition(clause: &[Word]) -> Option<Prohibition> {
    let texts: Vec<&str> = clause.iter().map(|word| word.text.as_str()).collect();
    if texts.iter().any(|word| CONDITIONS.contains(word) || REFERENCES.contains(word)) {
        return None;
    }
    if texts.first() == Some(&"no") {
        // "No test was run" tells something and forbids nothing.
        if texts.iter().any(|word| STATING.contains(word)) {
            return None;
        }
        let objects = noun_groups(&clause[1..]);
        let is_harmless =
            objects.first()?.first().is_some_and(|noun| HARMLESS_AFTER_NO.contains(&noun.as_str()));
        let verbs = ADDING_VERBS.iter().map(|verb| (*verb).to_owned()).collect();
        return (!is_harmless && is_definite(&objects)).then_some(Prohibition {
            verbs,
            objects,
            is_direct: false,
        });
    }
    if let Some(prohibition) = kept_object(clause) {
        return Some(prohibition);
    }
    let after = |cue: &&[&str]| Some(texts.windows(cue.len()).position(|window| window == *cue)? + cue.len());
    let mut at = CUES.iter().filter_map(after).min()?;
    while texts.get(at).is_some_and(|word| ADVERBS.contains(word)) {
        at += 1;
    }
    if texts.get(at).is_some_and(|word| TRYING.contains(word)) && texts.get(at + 1) == Some(&"to") {
        at += 2;
    }
    let mut verbs = vec![verb_at(clause, at)?];
    while texts.get(at + 1) == Some(&"or") {
        at += 2;
        verbs.push(verb_at(clause, at)?);
    }
    let objects = noun_groups(&clause[at + 1..]);
    let names_object = clause.len() > at + 1;
    let is_known = verbs.iter().any(|verb| group_of(verb).is_some());
    // A path makes what stands in it definite. A verb alone is definite if the rule has no object and the verb is no general
    // one.
    let names_path = clause[at + 1..].iter().any(|word| word.is_code);
    let is_definite = if names_object { names_path || is_definite(&objects) } else { !is_known };
    is_definite.then_some(Prohibition { verbs, objects, is_direct: false })
}

/// Returns what a clause such as `Keep the format` or `Leave the schema unchanged` forbids: to remove it, or to change it.
fn kept_object(clause: &[Word]) -> Option<Prohibition> {
    /// Words after an object that has to stay as it is.
    const UNCHANGED: &[&str] = &["unchanged", "untouched", "intact", "alone"];
    let (first, rest) = clause.split_first()?;
    let (last, before) = rest.split_last()?;
    let is_unchanged = UNCHANGED.contains(&last.text.as_str());
    let (verbs, words) = match first.text.as_str() {
        "keep" | "leave" if is_unchanged => (CHANGING_VERBS, before),
        "keep" | "preserve" => (REMOVING_VERBS, rest),
        _ => return None,
    };
    let objects = noun_groups(words);
    let verbs = verbs.iter().map(|verb| (*verb).to_owned()).collect();
    (objects.len() == 1 && is_definite(&objects)).then_some(Prohibition { verbs, objects, is_direct: true })
}

/// Returns the verb at a position; `None` if a function word or code is there.
fn verb_at(clause: &[Word], at: usize) -> Option<String> {
    let word = clause.get(at)?;
    let is_verb = !word.is_code && !FUNCTION_WORDS.contains(&word.text.as_str()) && word.text.len() > 2;
    is_verb.then(|| word.text.clone())
}

/// Returns whether noun groups name something definite.
fn is_definite(objects: &[Vec<String>]) -> bool {
    let is_vague = |group: &Vec<String>| group.len() == 1 && VAGUE_NOUNS.contains(&group[0].as_str());
    !objects.is_empty() && !objects.iter().any(is_vague)
}

/// Returns the groups of words between function words, as stems.
fn noun_groups(words: &[Word]) -> Vec<Vec<String>> {
    words
        .split(|word| FUNCTION_WORDS.contains(&word.text.as_str()))
        .map(|group| group.iter().map(|word| stem(&word.text)).collect::<Vec<_>>())
        .filter(|group| !group.is_empty())
        .collect()
}

/// Returns whether the words contain the noun group as a whole: it is not the beginning of a longer one.
fn contains_group(words: &[Word], group: &[String]) -> bool {
    words.windows(group.len()).enumerate().any(|(at, window)| {
        let is_end = |word: &Word| word.is_code || FUNCTION_WORDS.contains(&word.text.as_str());
        let is_same = |(word, known): (&Word, &String)| {
            // A path is named by its folder too.
            let in_folder =
                || word.text.strip_prefix(known.as_str()).is_some_and(|rest| rest.starts_with('/'));
            stem(&word.text) == *known || word.is_code && in_folder()
        };
        window.iter().zip(group).all(is_same) && words.get(at + group.len()).is_none_or(is_end)
    })
}

/// Returns the position of the verb that the clause proposes: at its beginning, or after a word such as `to`.
fn proposed_verb(clause: &[Word]) -> Option<usize> {
    let is_verb = |word: &Word| !word.is_code && !FUNCTION_WORDS.contains(&word.text.as_str());
    if clause.first().is_some_and(is_verb) && is_base_form(&clause[0].text) {
        return Some(0);
    }
    let after = clause.iter().position(|word| PROPOSING.contains(&word.text.as_str()))? + 1;
    clause.get(after).filter(|word| is_verb(word)).map(|_| after)
}

/// Returns whether a word can be the base form of a verb, and not its past or its `-ing` form.
fn is_base_form(word: &str) -> bool {
    !(word.ends_with("ing") || word.ends_with("ed") && word.len() > 4)
}

/// Returns the group of verbs that contains the verb.
fn group_of(verb: &str) -> Option<&'static [&'static str]> {
    VERB_GROUPS.iter().copied().find(|group| group.contains(&verb))
}

/// Returns the word without its plural ending.
pub(super) fn stem(word: &str) -> String {
    if let Some(head) = word.strip_suffix("ies").filter(|head| head.len() > 2) {
        return format!("{head}y");
    }
    let is_plural = word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") && !word.ends_with("us");
    if is_plural { word[..word.len() - 1].to_owned() } else { word.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_conflict_only_if_it_proposes_what_the_rule_forbids() {
        for (rule, line, expected) in [
            ("Don't touch the public API.", "Change the public API so that parse returns a Result.", true),
            ("don't touch the public API", "[ ] Refactor the public API of the parser", true),
            ("Don't touch the public API.", "Update the public API docs.", false),
            ("Don't touch the public API.", "Keep the public API as it is.", false),
            ("Don't touch the public API.", "Changed the parser behind the public API.", false),
            ("Don't touch the public API.", "The change of the public API was reverted.", false),
            ("Don't touch the public API.", "Change the parser and document the public API.", false),
            ("Never sleep in tests, not even a millisecond.", "Add a sleep of 100 ms to the test.", true),
            ("Never sleep in tests.", "Next: sleep for 50 ms in the test", true),
            ("Never sleep in tests.", "Remove the sleep from the tests.", false),
            ("Never sleep in tests.", "Never sleep in tests.", false),
            ("No new dependencies.", "Add the dependency `rayon` for the pool.", true),
            ("No new dependencies.", "Update the dependency list in the README.", false),
            ("No new dependencies.", "Solve it without another dependency.", false),
            ("You must not raise the timeout.", "The next step is to increase the timeout to 60 s.", true),
            ("You must not raise the timeout.", "Ask whether to increase the timeout.", false),
            ("Never push to main.", "Push to main when the tests pass.", true),
            ("Never push to main.", "Push the branch and open a pull request.", false),
            ("Never commit.", "Commit the fix.", true),
            ("Never commit without running the tests.", "Commit the fix.", false),
            ("Don't change it.", "Change the parser.", false),
            ("Don't change the code.", "Change the code.", false),
            ("Never use mocks in tests.", "Use mocks in the tests of the store.", true),
            ("Never use mocks in tests.", "Write tests for the store.", false),
            ("Always run the linter.", "Run the linter.", false),
            ("No exceptions.", "Add exceptions for the linter.", false),
            ("No lint errors were found.", "Add lint errors to the report.", false),
            ("Do not attempt to buffer the body.", "Buffer the body and measure it.", true),
            ("Do not attempt to buffer the body.", "Stream the body.", false),
            ("Keep the legacy parser.", "Remove the legacy parser.", true),
            ("Keep the legacy parser.", "Remove the comments of the legacy parser.", false),
            ("Keep the margins narrow.", "Remove the margins.", false),
            ("Leave the database schema unchanged.", "Change the database schema.", true),
            ("Leave the database schema unchanged.", "Document the database schema.", false),
            ("Don't run the whole test suite.", "Run the test suite of the parser.", false),
            (
                "The pool must not hold all locks for the whole scan.",
                "Let the pool hold all locks for the whole scan.",
                true,
            ),
            (
                "The pool must not hold all locks for the whole scan.",
                "Let the pool hold one lock at a time.",
                false,
            ),
            (
                "Don't adapt an assertion to whatever the parser returns.",
                "Adapt the assertion in tests/a.rs to what the parser returns.",
                true,
            ),
            ("Never delete files in raw/, move them to old/.", "Delete the files in raw/2023.", true),
            ("Never delete files in raw/, move them to old/.", "Delete the files in cache/2023.", false),
            ("Never delete files in raw/, move them to old/.", "Delete the cache.", false),
        ] {
            let is_proposed = prohibitions(rule).iter().any(|ban| ban.is_proposed_in(line));
            assert_eq!(is_proposed, expected, "{rule} / {line}: {:?}", prohibitions(rule));
        }
    }
}
