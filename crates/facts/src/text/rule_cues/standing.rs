//! Decides which sentence states a standing rule: one that stays valid after the request in which it was stated. The words
//! are in [`super`].

use super::lasting_order::{
    demands_version, keeps_away, names_local_means, names_project_means, resolves_doubt,
};
use super::statements::states_rule;
use super::{
    FOREIGN_MODALS, FOREIGN_ORDERS, FOREIGN_UNIVERSAL_WORDS, GENERAL_WORDS, HABIT_BEGINNINGS,
    HABIT_OCCASIONS, HABIT_VERBS, HEDGES, MODALS, NO_RULES, NO_STATEMENT_WORDS, ONE_TIME_WORDS, PROHIBITIONS,
    PRONOUNS, REQUIREMENTS, STATEMENT_OPENERS, STATES, STRONG_IMPERATIVES, UNIVERSAL_PHRASES,
    UNIVERSAL_WORDS, WEAK_IMPERATIVES, begins_clause, begins_with_any, is_rule_participle,
};
use crate::limits::RULE_CHARS_MAX;
use crate::text::cues::{contains_any_word, is_bounded};

/// Returns whether the sentence states a rule that stays valid: a prohibition, an order with "always" and the like, or a
/// requirement. Questions, guesses, code, quoted lines, orders that are carried out once, and statements about how
/// something behaves are none.
pub(crate) fn is_standing_rule(sentence: &str) -> bool {
    let is_item = ["- ", "* ", "• ", "+ "].iter().any(|marker| sentence.starts_with(marker))
        || sentence.starts_with(|c: char| c.is_ascii_digit());
    let sentence = sentence.trim_start_matches(['-', '*', '•', '+', ' ']);
    let sentence =
        sentence.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches(['.', ')', ' ']);
    let is_prose = sentence.len() > 6 && !sentence.starts_with(['|', '`', '{', '}', '$', '<', '#', '>']);
    if !is_prose || sentence.trim_end().ends_with(['?', '？', ':']) || sentence.len() > 4 * RULE_CHARS_MAX {
        return false;
    }
    let lower = sentence.to_lowercase();
    if resolves_doubt(&lower) {
        return true;
    }
    if HEDGES.iter().any(|hedge| lower.contains(hedge)) || is_permission(&lower) {
        return false;
    }
    if contains_any_word(&lower, UNIVERSAL_PHRASES)
        || UNIVERSAL_WORDS.iter().any(|word| imperatives(&lower, word).any(is_verb_in_imperative))
        || states_foreign_rule(&lower)
        || is_habit(&lower)
    {
        return true;
    }
    !contains_any_word(&lower, ONE_TIME_WORDS)
        && (forbids_or_requires(&lower)
            || is_lasting_order(&lower)
            || states_rule(&lower)
            || is_item && names_local_means(&lower))
}

/// Returns whether a lowercase sentence only permits something, such as "you can look it up (don't read all of it)".
fn is_permission(lower: &str) -> bool {
    let permitted =
        ["you can ", "you may ", "feel free to "].iter().find_map(|start| lower.strip_prefix(start));
    permitted.is_some_and(|action| {
        !["only ", "not ", "never ", "always "].iter().any(|word| action.starts_with(word))
            && !action.contains(", but ")
    })
}

/// Returns whether a lowercase sentence with no word of a single occasion forbids or requires something.
fn forbids_or_requires(lower: &str) -> bool {
    let requires = |word: &&str| {
        lower.match_indices(*word).any(|(start, word)| {
            is_bounded(lower, start..start + word.len())
                && !begins_with_any(&lower[start..], NO_RULES)
                && !guesses_past(lower, start)
                && !lower[..start].trim_end().ends_with("there")
                && !lower[..start].trim_end().ends_with(|c: char| c.is_ascii_digit())
        })
    };
    REQUIREMENTS.iter().any(requires)
        || PROHIBITIONS.iter().any(|word| imperatives(lower, word).any(|object| !is_only_pronoun(object)))
        || STRONG_IMPERATIVES.iter().any(|word| {
            imperatives(lower, word).any(|object| match *word {
                "no" => forbids(lower, object),
                "only" => !states_part(object),
                _ => true,
            })
        })
}

/// Irregular participles in a guess about the past, such as "I must have broken it".
const IRREGULAR_PARTICIPLES: &[&str] = &[
    "broken",
    "been",
    "gone",
    "done",
    "made",
    "left",
    "lost",
    "run",
    "set",
    "put",
    "got",
    "gotten",
    "had",
    "sent",
    "said",
    "seen",
    "taken",
    "written",
    "read",
    "forgotten",
    "misread",
    "overwritten",
    "hit",
    "hidden",
    "come",
    "become",
    "begun",
    "built",
    "changed",
    "chosen",
    "crept",
    "cut",
    "fallen",
    "found",
    "given",
    "gone",
    "kept",
    "known",
    "meant",
    "mistaken",
    "slipped",
    "stolen",
    "thrown",
];
/// Lowercase subjects about whose past a sentence with "must have" guesses.
const GUESSED_SUBJECTS: &[&str] =
    &["i", "we", "you", "he", "she", "it", "they", "this", "that", "someone", "something", "one"];

/// Returns whether "must" at `start` of a lowercase sentence guesses what happened, as in "I must have broken something". "The
/// form must have unsaved changes" requires something.
fn guesses_past(lower: &str, start: usize) -> bool {
    let Some(rest) = lower[start..].strip_prefix("must have ") else { return false };
    let mut words = rest
        .split(|c: char| c.is_whitespace() || [',', '.', '!', ';'].contains(&c))
        .skip_while(|word| word.ends_with("ly") || *word == "just" || *word == "already");
    let verb = words.next().unwrap_or_default();
    let is_participle = verb.len() > 4 && verb.ends_with("ed") || IRREGULAR_PARTICIPLES.contains(&verb);
    let subject = lower[..start].split_whitespace().next_back().unwrap_or_default();
    let is_object = |word: &str| {
        PRONOUNS.contains(&word) || ["", "the", "a", "my", "something", "yesterday"].contains(&word)
    };
    is_participle && (GUESSED_SUBJECTS.contains(&subject) || is_object(words.next().unwrap_or_default()))
}

/// First words after "only" in a statement about one part or many.
const PART_DETERMINERS: &[&str] =
    &["the", "a", "an", "this", "one", "two", "three", "four", "five", "some", "my", "our"];
/// Verbs of a statement about a part.
const PART_VERBS: &[&str] = &[
    "is", "are", "was", "were", "fails", "fail", "failed", "works", "work", "worked", "breaks", "looks",
    "happens", "happened", "appears", "affects",
];

/// Returns whether the text after "only" states how a part of a thing is or behaves, such as "the header row is wrong" and
/// "works on Linux".
fn states_part(object: &str) -> bool {
    let clause = object.split([',', ';']).next().unwrap_or(object).trim_end_matches(['.', '!', ' ']);
    let first = clause.split(' ').next().unwrap_or_default();
    let last = clause.split(' ').next_back().unwrap_or_default();
    let is_verb_of_statement = PART_VERBS.contains(&first) && first.ends_with('s');
    if is_verb_of_statement || ["fail", "fails", "failed"].contains(&last) {
        return true;
    }
    if !PART_DETERMINERS.contains(&first) {
        return false;
    }
    let mut main_clause = clause
        .split_whitespace()
        .take_while(|word| !WAITING_WORDS.contains(word) && !["which", "who"].contains(word));
    match main_clause.any(|word| PART_VERBS.contains(&word)) {
        true => !main_clause.next().is_some_and(|word| word == "to" || is_rule_participle(word)),
        false => last.len() > 4 && last.ends_with("ed") && !contains_any_word(clause, MODALS),
    }
}

/// Lowercase words before what a prohibition waits for, or makes an exception of.
const WAITING_WORDS: &[&str] = &["until", "before", "unless", "without", "while", "when", "if", "that"];

/// Returns whether the text after "no" names something that is forbidden, and is no answer and no statement, such as "no
/// row was lost" and "no fixes applied". Nothing is forbidden inside quotation marks. `object` is the end of `lower`.
fn forbids(lower: &str, object: &str) -> bool {
    let before = &lower[..lower.len() - object.len()];
    if !before.matches('"').count().is_multiple_of(2) {
        return false;
    }
    let clause = object.split([',', ';', '.', '!', ':', '\n']).next().unwrap_or(object);
    // "No release until the tests have passed": what it waits for is no statement.
    let words = || clause.split_whitespace().take_while(|word| !WAITING_WORDS.contains(word));
    // "No function should have more than five parameters" orders; "no test should have failed" states.
    let mut after_modal = words().skip_while(|word| !MODALS.contains(word));
    if after_modal.next().is_some() {
        let is_about_past = after_modal.next() == Some("have")
            && after_modal.next().is_some_and(|word| word == "been" || word.ends_with("ed"));
        return !is_about_past;
    }
    let is_statement =
        words().next() == Some("longer") || words().any(|word| NO_STATEMENT_WORDS.contains(&word));
    let last = words().last().unwrap_or_default();
    let is_result = last.len() > 4 && last.ends_with("ed") && !is_rule_participle(last);
    !is_statement && !is_result
}

/// Returns whether a lowercase sentence orders something that is to last, such as "keep functions short".
fn is_lasting_order(lower: &str) -> bool {
    chooses_means(lower)
        || demands_version(lower)
        || names_project_means(lower)
        || keeps_away(lower)
        || protects(lower)
        || demands_all(lower)
        || WEAK_IMPERATIVES.iter().any(|word| {
            imperatives(lower, word).any(|object| {
                let clause = object.split([',', ';']).next().unwrap_or(object);
                let first = clause.split_whitespace().next().unwrap_or_default();
                match *word {
                    "stop" => first.len() > 4 && first.ends_with("ing"),
                    "keep" => contains_any_word(clause, STATES) || contains_any_word(clause, GENERAL_WORDS),
                    _ => contains_any_word(object, GENERAL_WORDS),
                }
            })
        })
}

/// Returns whether a lowercase sentence names the means to use and those not to use: "use pnpm, not npm".
fn chooses_means(lower: &str) -> bool {
    imperatives(lower, "use").any(|object| {
        let is_choice = |cue: &&str| {
            object.split_once(*cue).is_some_and(|(means, other)| !means.is_empty() && !other.is_empty())
        };
        [", not ", " and not ", " instead of ", " rather than "].iter().any(is_choice)
    })
}

/// Returns whether a lowercase sentence orders that something stays as it is: "leave migrations/ alone", "hands off the API".
fn protects(lower: &str) -> bool {
    let ends = [" alone", " untouched", " unchanged", " as it is", " as they are", " as is"];
    let is_left = |word: &str| {
        imperatives(lower, word).any(|object| {
            let clause = object.split([',', ';', '!']).next().unwrap_or(object).trim_end_matches('.');
            let thing = ends.iter().find_map(|end| clause.strip_suffix(end));
            thing.is_some_and(|thing| !PRONOUNS.contains(&thing.trim()))
        })
    };
    is_left("leave") || lower.starts_with("hands off ")
}

/// Returns whether a lowercase sentence states what the person wants of everything: "I want every public function documented".
fn demands_all(lower: &str) -> bool {
    ["i want ", "i need "].iter().any(|cue| {
        lower.split_once(cue).is_some_and(|(before, wanted)| {
            before.trim().is_empty() && ["every ", "all ", "each "].iter().any(|all| wanted.starts_with(all))
        })
    }) || ["i prefer ", "we prefer "].iter().any(|cue| lower.starts_with(cue))
}

/// Returns whether a lowercase sentence orders a habit, such as "run the linter before every commit".
fn is_habit(lower: &str) -> bool {
    let is_order = |text: &str| {
        let text = text.trim_start().trim_start_matches("please ");
        let verb = text.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
        HABIT_VERBS.contains(&verb)
    };
    let begins = HABIT_BEGINNINGS
        .iter()
        .find(|beginning| lower.starts_with(**beginning) && is_bounded(lower, 0..beginning.len()));
    match begins {
        Some(beginning) if beginning.is_ascii() => {
            lower.split_once(',').is_some_and(|(_, order)| is_order(order))
        }
        Some(_) => true,
        None => {
            let has_occasion =
                contains_any_word(lower, HABIT_OCCASIONS) && !contains_any_word(lower, ONE_TIME_WORDS);
            is_order(lower) && (contains_any_word(lower, HABIT_BEGINNINGS) || has_occasion)
        }
    }
}

/// Returns whether a lowercase sentence in another language states a rule.
fn states_foreign_rule(lower: &str) -> bool {
    if contains_any_word(lower, ONE_TIME_WORDS) {
        return false;
    }
    if contains_any_word(lower, FOREIGN_ORDERS) {
        return true;
    }
    let first = lower.split(|c: char| !c.is_alphabetic()).find(|word| !word.is_empty()).unwrap_or_default();
    let is_statement = STATEMENT_OPENERS.contains(&first) && !contains_any_word(lower, FOREIGN_MODALS);
    FOREIGN_UNIVERSAL_WORDS.iter().any(|word| {
        lower.match_indices(word).any(|(start, word)| {
            // "が" marks the subject of a statement.
            is_bounded(lower, start..start + word.len()) && !is_statement && !lower[..start].ends_with('が')
        })
    })
}

/// Returns the texts after each occurrence of a word at the beginning of a clause, in the imperative.
pub(super) fn imperatives<'a>(lower: &'a str, word: &'a str) -> impl Iterator<Item = &'a str> {
    lower.match_indices(word).filter_map(move |(start, word)| {
        let end = start + word.len();
        let is_imperative = is_bounded(lower, start..end)
            && begins_clause(&lower[..start])
            && lower[end..].starts_with(' ')
            && !begins_with_any(&lower[start..], NO_RULES);
        is_imperative.then(|| lower[end..].trim_start())
    })
}

/// Returns the texts of [`imperatives`] that are an order of the author, and neither the purpose of something, such as "we use it
/// to stay out of the way", nor a quotation.
pub(super) fn direct_imperatives<'a>(lower: &'a str, word: &'a str) -> impl Iterator<Item = &'a str> {
    imperatives(lower, word).filter(move |object| {
        let before = lower[..lower.len() - object.len()].trim_end();
        let before = before.strip_suffix(word).unwrap_or(before);
        before.split_whitespace().next_back() != Some("to") && before.matches('"').count().is_multiple_of(2)
    })
}

/// Returns whether the text after "never" or "always" begins with a verb in the imperative, and not with one of a
/// statement, such as "always fails".
fn is_verb_in_imperative(text: &str) -> bool {
    let verb = text.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    let is_third_person =
        verb.len() > 3 && verb.ends_with('s') && !verb.ends_with("ss") && !verb.ends_with("us");
    let is_past = verb.len() > 5 && verb.ends_with("ed") && !verb.ends_with("eed");
    !is_third_person && !is_past
}

/// Returns whether the text after a prohibition is a verb with only a pronoun as its object, such as "do that".
pub(super) fn is_only_pronoun(text: &str) -> bool {
    let clause = text.split([',', ';', '.', '!', ':']).next().unwrap_or(text);
    let mut words = clause.split_whitespace();
    let verb = words.next().unwrap_or_default();
    match (words.next(), words.next()) {
        (None, _) => true,
        // "Don't stash anything" names what is forbidden; "don't do anything" does not.
        (Some("anything"), None) => ["do", "say"].contains(&verb),
        (Some(word), None) => PRONOUNS.contains(&word),
        (Some(_), Some(_)) => false,
    }
}
