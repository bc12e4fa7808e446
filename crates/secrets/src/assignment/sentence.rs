//! Sentences about passwords: `the password for staging is …`, `with password …`.

use super::Operator;
use crate::shape::{is_hex, is_technical_name, is_word_list, looks_random};

/// The maximum length of the words between a name and a verb, as in `the password for staging is`, in bytes.
const PHRASE_BYTES_MAX: usize = 40;
/// Verbs and signs between the name of a password and its value.
const VERBS: [&str; 18] = [
    "is ",
    "is: ",
    "is now ",
    "is set to ",
    "was ",
    "was: ",
    "set to ",
    "will be ",
    "would be ",
    "should be ",
    "-> ",
    "→ ",
    "ist ",
    "ist: ",
    "lautet ",
    "lautet: ",
    "es ",
    "est ",
];

/// Reads a verb, possibly after a phrase such as `for staging`; else the space is the operator of an option.
pub fn read_phrase(text: &str, start: usize) -> Option<(Operator, usize)> {
    const PREPOSITIONS: [&str; 5] = ["for ", "of ", "to ", "on ", "für "];
    let end = text.floor_char_boundary(start + PHRASE_BYTES_MAX);
    let window = &text[start..end];
    if !starts_like_verb(window) {
        return Some((Operator::Option, start));
    }
    // The longest verb that fits: `is set to` and not `is`.
    let verb = VERBS.iter().filter(|verb| window.starts_with(**verb)).max_by_key(|verb| verb.len());
    if let Some(verb) = verb {
        return Some((Operator::Verb, start + verb.len()));
    }
    if PREPOSITIONS.iter().any(|word| window.starts_with(word)) {
        let position =
            VERBS.iter().filter_map(|verb| Some(window.find(&format!(" {verb}"))? + 1 + verb.len())).min();
        if let Some(position) = position {
            return (!window[..position].contains(['.', '\n'])).then_some((Operator::Verb, start + position));
        }
        // `changed the password to …`; a word behind `to` is a verb.
        let has_digit = |word: &str| word.bytes().any(|byte| byte.is_ascii_digit());
        let is_target =
            window.strip_prefix("to ").and_then(|rest| rest.split(' ').next()).is_some_and(has_digit);
        return is_target.then_some((Operator::Verb, start + 3));
    }
    Some((Operator::Option, start))
}

/// Returns whether a text can begin with a verb or a preposition of [`read_phrase`]. Most names are followed by another word,
/// which is decided here.
fn starts_like_verb(text: &str) -> bool {
    const STARTS: &[&str] = &[
        "is ", "is:", "ist ", "ist:", "was", "will", "would", "set", "should", "-> ", "lautet", "es ",
        "est ", "for", "of ", "to ", "on ", "für", "→",
    ];
    STARTS.iter().any(|start| text.starts_with(start))
}

/// Reads a note in parentheses behind a name, and the colon behind the note: `password (staging): …`.
pub fn read_note(text: &str, start: usize) -> Option<(Operator, usize)> {
    let end = text.floor_char_boundary(start + PHRASE_BYTES_MAX);
    let (note, rest) = text[start..end].split_once(')')?;
    let is_colon = rest.starts_with(": ") && !note.contains('\n');
    is_colon.then(|| (Operator::Colon, start + note.len() + 2))
}

/// The minimum length of a token directly behind its name in a sentence, in bytes.
const SENTENCE_TOKEN_BYTES_MIN: usize = 12;

/// Returns whether a value in quotes directly behind its name in a sentence is a secret: `the passphrase "Tr0ub4dor"`,
/// `use token 'x7kQ2paLm9wZ'`.
pub fn is_quoted_sentence_value(name: &str, value: &str) -> bool {
    const TOKEN_NAMES: [&str; 4] = ["token", "secret", "apikey", "credential"];
    let is_mixed = value.bytes().any(|byte| byte.is_ascii_digit())
        && value.bytes().any(|byte| byte.is_ascii_alphabetic());
    let is_token = TOKEN_NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
        && value.len() >= SENTENCE_TOKEN_BYTES_MIN
        && looks_random(value)
        && !is_hex(value);
    // `field1` is a word with a number.
    let is_numbered_word =
        value.trim_end_matches(|c: char| c.is_ascii_digit()).bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_password = is_password_name(name) && is_mixed && !is_numbered_word && !is_word_list(value);
    (is_token || is_password) && !is_technical_name(value)
}

/// Returns whether a name is a word for a password.
fn is_password_name(name: &str) -> bool {
    const NAMES: [&str; 5] = ["password", "passwort", "passphrase", "passwd", "kennwort"];
    NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Returns whether a value directly behind the word `password` in a sentence is one: `log in with password x7kQ2pa`. A
/// word with a number at its end, such as `field1`, and a name such as `SHA256` are none.
pub fn is_sentence_value(name: &str, value: &str) -> bool {
    let is_exclaimed = value.ends_with('!') && value.bytes().any(|byte| byte.is_ascii_digit());
    is_password_name(name)
        && (looks_random(value) || is_exclaimed)
        && !is_technical_name(value)
        && !value.contains(['/', ':', '=', '(', '.', '_', '-', '%', '[', '+'])
        && (is_exclaimed || !is_word_list(value))
}
