//! Passwords that people or generators chose from letters and signs, told apart from sentences, labels and types of a language.

use crate::shape::{is_technical_name, is_word_list};

/// The minimum length of a part of a password with spaces by which it is random, in bytes.
const MIXED_PART_BYTES_MIN: usize = 5;
/// The maximum length of a unit behind a number, in bytes.
const UNIT_BYTES_MAX: usize = 6;
/// The minimum length of a part whose case is scrambled, in bytes.
const CASED_PART_BYTES_MIN: usize = 4;
/// The minimum length of a password of letters and a sign, in bytes.
const LETTERS_BYTES_MIN: usize = 8;
/// The maximum length of the capitals before a name in camel case, as in `UITextField`, in bytes.
const TYPE_PREFIX_BYTES_MAX: usize = 4;
/// Short words of sentences. Longer ones are recognised by their form.
const SHORT_WORDS: &[&str] = &[
    "a", "an", "and", "any", "api", "app", "are", "as", "at", "be", "bit", "but", "by", "can", "das", "der",
    "die", "do", "ein", "for", "from", "has", "if", "in", "is", "ist", "it", "key", "le", "max", "min", "my",
    "new", "no", "non", "not", "of", "old", "on", "or", "per", "pin", "see", "set", "the", "to", "und",
    "use", "via", "was", "with", "you", "your",
];

/// Returns whether a value in quotes with spaces is a password, and not a sentence, a label or code: it contains no word, and a
/// part of it is random.
pub fn is_spaced_password(value: &str) -> bool {
    let parts: Vec<&str> = value.split(' ').collect();
    let has_code = parts.iter().any(|part| !part.bytes().any(|byte| byte.is_ascii_alphanumeric()));
    if !value.is_ascii() || has_code || parts.iter().any(|part| is_sentence_word(part)) {
        return false;
    }
    let scrambled = parts.iter().filter(|part| has_scrambled_case(part)).count();
    if scrambled >= 2 || parts.iter().any(|part| is_mixed(part)) {
        return true;
    }
    // Short parts are random together: `xK9 eZ0 qP4`. A version, as in `MySQL 8`, is a part of its own.
    let joined = parts.concat();
    let has = |is_kind: fn(&u8) -> bool| joined.as_bytes().iter().any(is_kind);
    has(u8::is_ascii_digit)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_uppercase)
        && !is_word_list(&joined)
        && !parts.iter().any(|part| is_amount(part) || is_technical_name(part))
}

/// Returns whether a value of letters that a sign ends is a password, as `ZqXpqdLxHU!`, and neither a word nor a type that may
/// be null, as `UITextField!`.
pub fn is_exclaimed_password(value: &str) -> bool {
    let Some(letters) = value.strip_suffix('!') else { return false };
    letters.len() >= LETTERS_BYTES_MIN
        && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
        && has_scrambled_case(letters)
}

/// Returns whether a part of a text is a word of a sentence: small letters, possibly with a capital at the start, or capitals.
fn is_sentence_word(part: &str) -> bool {
    let word = part.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let lower = word.to_ascii_lowercase();
    if SHORT_WORDS.contains(&lower.as_str()) {
        return true;
    }
    let is_one_case = word.bytes().skip(1).all(|byte| byte.is_ascii_lowercase())
        || word.bytes().all(|byte| byte.is_ascii_uppercase());
    let is_compound = word.contains(['-', '\'', '/']) && word.split(['-', '\'', '/']).any(is_sentence_word);
    word.len() >= 4
        && is_one_case
        && is_word_list(word)
        && word.bytes().all(|byte| byte.is_ascii_alphabetic())
        || is_compound
}

/// Returns whether a part of a text mixes letters and digits in its middle.
fn is_mixed(part: &str) -> bool {
    let has_digit = part.bytes().any(|byte| byte.is_ascii_digit());
    let has_letter = part.bytes().any(|byte| byte.is_ascii_alphabetic());
    part.len() >= MIXED_PART_BYTES_MIN
        && has_digit
        && has_letter
        && !is_amount(part)
        && !is_technical_name(part)
        && !is_word_list(part)
        && !part.contains(['/', '(', ')', '{', '}', '[', ']', '$', '<'])
}

/// Returns whether a part of a text is a number, possibly with a unit behind it: `8`, `2FA`, `256-bit`, `2024!`.
fn is_amount(part: &str) -> bool {
    let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_unit = |is_letter: fn(&u8) -> bool| {
        rest.as_bytes().iter().all(|byte| is_letter(byte) || b"-!.,:?%".contains(byte))
    };
    rest.len() < part.len()
        && rest.len() <= UNIT_BYTES_MAX
        && (is_unit(u8::is_ascii_lowercase) || is_unit(u8::is_ascii_uppercase))
}

/// Returns whether capitals and small letters of a part alternate as in no word and no name in camel case.
fn has_scrambled_case(part: &str) -> bool {
    let letters = part.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    letters.len() >= CASED_PART_BYTES_MIN
        && letters.bytes().any(|byte| byte.is_ascii_lowercase())
        && letters.bytes().skip(1).any(|byte| byte.is_ascii_uppercase())
        && !is_word_list(letters)
        && !is_type_name(letters)
}

/// Returns whether a text is a name in camel case, possibly with capitals before it: `NSString`, `QLineEdit`, `UITextField`.
fn is_type_name(text: &str) -> bool {
    let capitals = text.bytes().take_while(u8::is_ascii_uppercase).count();
    let prefix = capitals.saturating_sub(1);
    prefix <= TYPE_PREFIX_BYTES_MAX && is_word_list(&text[prefix..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_with_spaces_are_no_sentences() {
        for value in [
            "xK9 eZ0qypTn",
            "Q ufSFoO qwUAKcq6!",
            "hGtR kLpWz",
            "xK9 eZ0 qP4",
            "aB3$x 9kLm#Q",
            "Zq7x Tr0ub4dor&3",
        ] {
            assert!(is_spaced_password(value), "{value}");
        }
        for value in [
            "at least eight characters",
            "min 8 characters",
            "Enter 2FA code",
            "a-z0-9 and A-Z",
            "MySQL 8",
            "PostgreSQL 16",
            "SHA256 HMAC",
            "Password 1",
            "Passwort vergessen?",
            "see vault kv/prod2/db",
            "x1 + y2Zb3",
            " x9Kq2 ",
            "use Base64 or UTF8",
            "iOS 17",
            "TLS1.3 / AES256",
            "Contraseña de 8 letras",
            "8-20 chars",
            "HTTP 401",
            "the hunter2Xy9 one",
        ] {
            assert!(!is_spaced_password(value), "{value}");
        }
    }

    #[test]
    fn exclaimed_passwords_are_no_words_and_no_types() {
        for value in ["ZqXpqdLxHU!", "qLxWmTzRvK!"] {
            assert!(is_exclaimed_password(value), "{value}");
        }
        for value in [
            "required!",
            "String!",
            "NSString!",
            "UITextField!",
            "QLineEdit!",
            "PleaseChange!",
            "ZqXpqdLxHU",
            "CHANGEME!",
        ] {
            assert!(!is_exclaimed_password(value), "{value}");
        }
    }
}
