//! The shape of a value: random, words, a path, a reference, a placeholder.

/// Texts that stand for a secret in examples, in lower case without separators.
const PLACEHOLDERS: &[&str] = &[
    "changeme",
    "changeit",
    "dummy",
    "example",
    "fake",
    "false",
    "foobar",
    "hidden",
    "insert",
    "invalid",
    "masked",
    "missing",
    "mypassword",
    "mysecret",
    "mytoken",
    "none",
    "null",
    "omitted",
    "optional",
    "pass",
    "password",
    "passwd",
    "placeholder",
    "redacted",
    "replaceme",
    "required",
    "secret",
    "string",
    "token",
    "true",
    "undefined",
    "unknown",
    "unset",
];
/// Words by which a value says that it is to be replaced.
const PLACEHOLDER_PARTS: &[&str] =
    &["your_", "your-", "yourtoken", "yourkey", "xxxx", "....", "****", "<", "…"];
/// Names of algorithms, formats and types that end with digits.
const TECHNICAL_NAMES: &[&str] = &[
    "aes", "argon", "ascii", "base", "blake", "bcrypt", "byte", "chacha", "cp", "cl", "crc", "ecdsa", "ed",
    "es", "float", "fp", "gpt", "hmac", "hs", "hmacsha", "http", "http/", "https", "int", "ipv", "iso",
    "latin", "md", "oauth", "o", "p", "pbkdf", "ps", "python", "rs", "rsa", "scrypt", "secp", "sha", "str",
    "uint", "usize", "utf", "uuid", "uuidv", "v", "varchar", "x",
];

/// The maximum length of a technical name, a version or a time, in bytes.
const TECHNICAL_BYTES_MAX: usize = 40;

/// Returns whether a byte can belong to a value without quotes.
pub const fn is_value_byte(byte: u8) -> bool {
    !byte.is_ascii_whitespace()
        && !byte.is_ascii_control()
        && !matches!(
            byte,
            b'"' | b'\'' | b'`' | b',' | b';' | b'<' | b'>' | b'(' | b')' | b'{' | b'}' | b'\\'
        )
}

/// Returns whether the byte after a value makes it a call, an index or a macro.
pub fn is_code_open(next: Option<u8>) -> bool {
    matches!(next, Some(b'(' | b'{'))
}

/// Returns whether a value refers to a secret elsewhere, or is already redacted.
pub fn is_reference(value: &str) -> bool {
    let is_color = value.strip_prefix('#').is_some_and(|rest| is_hex(rest) && rest.len() <= 8);
    let is_index = value
        .split_once('[')
        .is_some_and(|(name, rest)| is_attribute_path(name) && !rest.starts_with("redacted]"));
    value.starts_with(crate::REDACTED)
        || is_index
        || value.starts_with(['$', '&', '*', '[', '%', '<', '{'])
        || value.contains("::")
        || value.contains("${")
        || value.contains("{{")
        || value.contains("://")
        || value.starts_with("...")
        || is_color
}

/// Returns whether a value stands for a secret in an example.
pub fn is_placeholder(value: &str) -> bool {
    let bytes = value.as_bytes();
    let is_repeated = bytes.iter().all(|byte| Some(byte) == bytes.first());
    let is_part =
        |part: &str| bytes.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part.as_bytes()));
    is_repeated
        || PLACEHOLDERS.iter().any(|word| is_word_with_separators(value, word))
        || PLACEHOLDER_PARTS.iter().any(|part| is_part(part))
}

/// Returns whether the letters and digits of a value are those of `word`, without case.
fn is_word_with_separators(value: &str, word: &str) -> bool {
    let letters = value.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase());
    value.len() < 2 * word.len() && letters.eq(word.bytes())
}

/// Returns whether a value is the name of an algorithm, a format or a type, such as `sha256`.
pub fn is_technical_name(value: &str) -> bool {
    if value.len() > TECHNICAL_BYTES_MAX {
        return false;
    }
    let lower = value.to_ascii_lowercase();
    let letters = lower.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = lower.len() - letters.len();
    let letters = letters.trim_end_matches(['-', '_']);
    (1..=4).contains(&digits) && TECHNICAL_NAMES.contains(&letters) || is_version(&lower)
}

/// Returns whether a value is a version, a date, a time or a size.
fn is_version(value: &str) -> bool {
    let body = value.strip_prefix('v').unwrap_or(value);
    body.starts_with(|c: char| c.is_ascii_digit())
        && body.bytes().all(|byte| byte.is_ascii_digit() || b".:-+tz".contains(&byte))
        && body.contains(['.', ':', '-'])
}

/// Returns whether a value consists of digits and points.
pub fn is_number(value: &str) -> bool {
    value.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'_'))
}

/// Returns whether a value consists of hexadecimal digits of one case.
pub fn is_hex(value: &str) -> bool {
    let has =
        |lower: u8| value.bytes().all(|byte| byte.is_ascii_digit() || (lower..=lower + 5).contains(&byte));
    !value.is_empty() && (has(b'a') || has(b'A'))
}

/// Returns whether a value is a UUID.
pub fn is_uuid(value: &str) -> bool {
    let mut groups = value.split('-');
    let is_group = |length: usize, group: Option<&str>| {
        group.is_some_and(|group| group.len() == length && group.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    [8, 4, 4, 4, 12].into_iter().all(|length| is_group(length, groups.next())) && groups.next().is_none()
}

/// Returns whether a value contains a slash, as a path does.
pub fn is_path(value: &str) -> bool {
    value.contains('/')
}

/// Returns whether a value is an identifier or a chain of them, such as `config.token`.
pub fn is_attribute_path(value: &str) -> bool {
    let is_identifier = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    value.split('.').all(is_identifier)
}

/// Returns whether every part of a value is a word, a small number or a name in camel case.
pub fn is_word_list(value: &str) -> bool {
    value.split(|c: char| !c.is_ascii_alphanumeric()).all(is_word)
}

/// Returns whether a text is empty, a word, a small number or a name in camel case.
fn is_word(text: &str) -> bool {
    let letters = text.trim_end_matches(|c: char| c.is_ascii_digit());
    if text.len() - letters.len() > 4 || !letters.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return false;
    }
    if letters.len() > 3 && !letters.bytes().any(|byte| b"aeiouyAEIOUY".contains(&byte)) {
        return false;
    }
    // In camel case a capital begins a word of two letters or more; in capitals there is no lower case.
    let is_capitals = letters.bytes().all(|byte| byte.is_ascii_uppercase());
    let mut humps = letters.split_inclusive(|c: char| c.is_ascii_uppercase()).skip(1);
    let length_max = if letters.bytes().skip(1).any(|byte| byte.is_ascii_uppercase()) { 24 } else { 15 };
    is_capitals
        || letters.len() <= length_max && humps.all(|hump| hump.len() >= 3 || hump.len() == letters.len())
}

/// Returns whether a value looks random: letters and digits mixed, and not made of words.
pub fn looks_random(value: &str) -> bool {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let letters = value.bytes().filter(u8::is_ascii_alphabetic).count();
    if value.len() < 8 || is_version(value) || value.contains("::") || is_placeholder(value) {
        return false;
    }
    if digits > 0 && letters > 0 && !is_word_list(value) {
        return !is_path(value) || looks_scrambled(value);
    }
    value.len() >= 20 && looks_scrambled(value)
}

/// Returns whether the kinds of characters of a value change as often as they do in random Base64, and it has capitals
/// and small letters.
pub fn looks_scrambled(value: &str) -> bool {
    let bytes = value.as_bytes();
    let changes = kind_changes(bytes);
    let has = |is_kind: fn(&u8) -> bool| bytes.iter().any(is_kind);
    let is_encoded = bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+/=-_.".contains(byte));
    value.len() >= 12
        && is_encoded
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_uppercase)
        && changes * 10 >= bytes.len() * 3
        && shannon_entropy(bytes) >= 3.0
        && !is_word_list(value)
}

/// Returns how often the kind of the characters changes: small letters, capitals, digits and others.
fn kind_changes(bytes: &[u8]) -> usize {
    let kind = |byte: u8| match byte {
        b'a'..=b'z' => 0,
        b'A'..=b'Z' => 1,
        b'0'..=b'9' => 2,
        _ => 3,
    };
    bytes.windows(2).filter(|pair| kind(pair[0]) != kind(pair[1])).count()
}

/// The minimum length of a long part of a value with dots, in bytes.
const LONG_PART_BYTES_MIN: usize = 20;

/// Returns whether the long parts of a value between dots are random: each is scrambled, and together they are more so than
/// names in camel case, which contain few digits.
pub fn has_scrambled_parts(value: &str) -> bool {
    let parts = value.split('.').filter(|part| part.len() >= LONG_PART_BYTES_MIN);
    let (mut length, mut changes, mut digits) = (0, 0, 0);
    for part in parts {
        if !looks_scrambled(part) {
            return false;
        }
        length += part.len();
        changes += kind_changes(part.as_bytes());
        digits += part.bytes().filter(u8::is_ascii_digit).count();
    }
    digits >= 2 && changes * 100 >= length * 45
}

/// Returns the Shannon entropy of the bytes of `value`, in bits for each byte. It is 0 for an empty value.
pub fn shannon_entropy(value: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in value {
        counts[usize::from(*byte)] += 1;
    }
    let total = value.len() as f64;
    let probabilities = counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / total);
    probabilities.map(|probability| -probability * probability.log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropy_is_zero_for_one_repeated_byte_and_grows_with_the_alphabet() {
        for (value, expected) in [("", 0.0), ("aaaa", 0.0), ("abab", 1.0), ("abcd", 2.0), ("abcdefgh", 3.0)] {
            assert!((shannon_entropy(value.as_bytes()) - expected).abs() < 1e-9, "{value}");
        }
    }
}
