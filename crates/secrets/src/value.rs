//! The decision whether the value of an assignment is a secret.

mod chosen;

use self::chosen::{is_exclaimed_password, is_spaced_password};
use crate::assignment::{Operator, Quoting};
use crate::context::NameClass;
use crate::shape::{
    is_attribute_path, is_code_open, is_hex, is_number, is_path, is_placeholder, is_reference,
    is_technical_name, is_uuid, is_word_list, looks_random, looks_scrambled,
};

/// The minimum length of a value of a key of an unknown kind, in bytes.
const KEY_BYTES_MIN: usize = 16;
/// The minimum length of a hexadecimal value of such a key in an environment variable, in bytes.
const HEX_KEY_BYTES_MIN: usize = 32;

/// The number of bytes before a name in which the key `stringData` of a manifest must stand.
const MANIFEST_BYTES_MAX: usize = 400;
/// The ends of words that are said of passwords.
const PREDICATE_ENDS: &[&str] = &[
    "al", "ant", "ar", "ary", "ble", "ect", "ed", "en", "ent", "er", "ere", "est", "ful", "ic", "id", "ine",
    "ing", "ion", "ity", "ive", "less", "ly", "ment", "ness", "one", "ory", "ous", "text", "thing", "ure",
    "ways",
];
/// Words that are said of passwords and have none of these ends.
const PREDICATES: &[&str] = &[
    "above",
    "again",
    "complete",
    "base",
    "bcrypt",
    "behind",
    "bekannt",
    "below",
    "blank",
    "datetime",
    "default",
    "enough",
    "expire",
    "falsch",
    "false",
    "geheim",
    "gleich",
    "hashes",
    "inside",
    "korrekt",
    "literal",
    "nullish",
    "object",
    "plain",
    "random",
    "reset",
    "richtig",
    "same",
    "secret",
    "sicher",
    "simple",
    "strong",
    "though",
    "unique",
    "unset",
    "unsafe",
    "wichtig",
    "within",
    "without",
    "wrong",
    "yours",
    "leer",
    "null",
    "undef",
    "inputs",
    "values",
    "users",
    "stars",
    "bytes",
    "asterisks",
    "characters",
    "letters",
    "digits",
    "words",
];

/// A value with its context.
#[derive(Debug, Clone, Copy)]
pub struct AssignedValue<'t> {
    /// The name.
    pub name: &'t str,
    /// The value.
    pub value: &'t str,
    /// The class of the name.
    pub class: NameClass,
    /// The connection between name and value.
    pub operator: Operator,
    /// The quotes around the value.
    pub quoting: Quoting,
    /// The byte after the value.
    pub next: u8,
    /// The text before the name.
    pub before: &'t str,
    /// The text after the value.
    pub rest: &'t str,
}

/// Returns whether a value looks like a secret in its context. References (`$NAME`), calls, paths, placeholders and values
/// that are already redacted do not.
pub fn is_secret_value(assigned: &AssignedValue<'_>) -> bool {
    let value = assigned.value;
    if is_reference(value) || is_placeholder(value) || is_technical_name(value) || value == assigned.name {
        return false;
    }
    if value.contains(' ') {
        let is_assigned = !matches!(assigned.operator, Operator::Comma | Operator::Tag | Operator::Cell);
        return assigned.class == NameClass::Password && is_assigned && is_spaced_password(value);
    }
    if assigned.quoting == Quoting::None && is_code_open(Some(assigned.next)) {
        return false;
    }
    match assigned.class {
        NameClass::Password => is_password(assigned),
        NameClass::Secret => is_secret(assigned),
        NameClass::Key => is_key(value) && !is_hex(value) && !is_uuid(value),
        NameClass::EnvironmentKey => {
            is_key(value) && !is_uuid(value) && (!is_hex(value) || value.len() >= HEX_KEY_BYTES_MIN)
        }
    }
}

/// Returns whether a value is a password.
fn is_password(assigned: &AssignedValue<'_>) -> bool {
    let value = assigned.value;
    let is_quoted = assigned.quoting == Quoting::Quoted;
    let has_digit = value.bytes().any(|byte| byte.is_ascii_digit());
    let has_letter = value.bytes().any(|byte| byte.is_ascii_alphabetic());
    let has_symbol = value.trim_end_matches('!').bytes().any(|byte| b"!@#^+=$%&*~?".contains(&byte));
    if is_path(value) && (value.starts_with(['/', '.', '~']) || is_word_list(value)) {
        return false;
    }
    let is_words = value.contains(['-', '_', '.', '/', ':']) && is_word_list(value);
    match assigned.operator {
        Operator::Colon | Operator::Verb | Operator::Cell if is_exclaimed_password(value) => true,
        Operator::Equals | Operator::Option | Operator::Tag if is_quoted => has_letter || has_digit,
        // `password=password, token=token)` passes variables on.
        Operator::Equals | Operator::Tag | Operator::Option => {
            let is_code =
                is_attribute_path(value) && matches!(assigned.next, b',' | b')' | b'}' | b'(' | b'[');
            let is_typed = value.contains('.') && is_attribute_path(value) && !has_digit;
            !is_code && !is_typed
        }
        Operator::Colon | Operator::Cell if is_quoted => {
            let is_label = value.starts_with(|c: char| c.is_ascii_uppercase()) && !has_digit && !has_symbol;
            !is_label && (has_digit || !is_words)
        }
        Operator::Verb if is_quoted => !is_words,
        Operator::Colon | Operator::Verb if is_chosen_word(assigned) => true,
        // A type of a language.
        Operator::Colon if value.starts_with('_') => looks_random(value) && has_symbol,
        Operator::Colon | Operator::Cell => {
            has_letter && has_symbol || has_digit && (has_letter || is_number(value)) || looks_random(value)
        }
        Operator::Verb => has_letter && (has_digit && !is_words || has_symbol) || looks_random(value),
        // `define('DB_PASSWORD', '…')` names a variable of the environment.
        Operator::Comma if assigned.name.contains('_') && !is_words => {
            is_quoted && has_letter && (has_digit || has_symbol)
        }
        Operator::Comma => is_quoted && looks_random(value),
    }
}

/// Returns whether a value is a word that a sentence gives as the password: `my password is swordfish.` The value ends its
/// clause, and it is not said of the password, as `required` and `optional` are. A colon gives a word only behind `my`,
/// and in the strings of a Kubernetes secret.
fn is_chosen_word(assigned: &AssignedValue<'_>) -> bool {
    let value = assigned.value;
    let is_own = ["my ", "My ", "mein ", "Mein "].iter().any(|word| assigned.before.ends_with(word));
    let is_given = assigned.operator == Operator::Verb || is_own || is_manifest_string(assigned.before);
    let clause = assigned.rest.trim_start_matches(['.', '!', '"', '\'', '`', ')', '*']);
    let is_clause_end = clause.is_empty()
        || clause.starts_with(['\n', '\r', ',', ';', '\\'])
        || clause.len() < assigned.rest.len() && clause.starts_with(char::is_whitespace);
    // `the backward pass of the step is complete`.
    let is_given = is_given && !assigned.name.eq_ignore_ascii_case("pass");
    let is_letters = value.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
    let has_small = value.contains(|c: char| c.is_ascii_lowercase());
    is_letters && has_small && is_clause_end && is_given && !is_predicate(value)
}

/// Returns whether a name stands under the key `stringData` of a manifest of Kubernetes.
fn is_manifest_string(before: &str) -> bool {
    let start = before.floor_char_boundary(before.len().saturating_sub(MANIFEST_BYTES_MAX));
    let block = before[start..].rsplit_once("stringData:\n").map(|(_, block)| block);
    block.is_some_and(|block| block.lines().all(|line| line.is_empty() || line.starts_with([' ', '\t'])))
}

/// Returns whether a word says something about a password, and is none.
fn is_predicate(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    let last = word.rsplit('-').next().unwrap_or_default();
    PREDICATE_ENDS.iter().any(|end| last.ends_with(end))
        || PREDICATES.contains(&last)
        || PREDICATES.contains(&word.as_str())
}

/// Returns whether a value is a token, an API key or another secret.
fn is_secret(assigned: &AssignedValue<'_>) -> bool {
    let value = assigned.value;
    let is_option = assigned.operator == Operator::Option && assigned.name.starts_with("--");
    if is_number(value) {
        return is_option;
    }
    if is_path(value) {
        // A secret access key of AWS has 40 characters, of which the first can be a slash.
        let is_path_start =
            value.starts_with(['.', '~']) || value.starts_with('/') && value.len() != 40 && !is_base64(value);
        return looks_scrambled(value) && value.len() >= KEY_BYTES_MIN && !is_path_start;
    }
    if looks_random(value) {
        return true;
    }
    let is_assigned = is_option
        || matches!(assigned.operator, Operator::Equals | Operator::Tag)
        || assigned.quoting == Quoting::Quoted && assigned.operator != Operator::Comma;
    let has_digit = value.bytes().any(|byte| byte.is_ascii_digit());
    let has_letter = value.bytes().any(|byte| byte.is_ascii_alphabetic());
    let has_symbol = value.bytes().any(|byte| b"!@#^+=".contains(&byte));
    let is_words = value.contains(['-', '_', '.', ':']) && is_word_list(value);
    let is_known_prefix = assigned.operator != Operator::Comma && assigned.operator != Operator::Option;
    has_letter
        && !is_words
        && (has_digit && (is_assigned || is_known_prefix && value.len() >= 8) || has_symbol && is_assigned)
}

/// Returns whether a value with slashes is Base64, and no path: a long part of it is scrambled.
fn is_base64(value: &str) -> bool {
    value.split('/').any(|part| part.len() >= KEY_BYTES_MIN && looks_scrambled(part))
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'+' | b'='))
}

/// Returns whether a value is long enough and random enough for a key of an unknown kind.
fn is_key(value: &str) -> bool {
    value.len() >= KEY_BYTES_MIN && looks_random(value) && (!is_path(value) || looks_scrambled(value))
}
