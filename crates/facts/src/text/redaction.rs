//! Redacts secrets in text before the text is stored, summarized or sent. Secrets are recognised by their form; whether a
//! key is valid is unknown.

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use regex::{Captures, Regex};

/// The replacement for a secret.
pub const REDACTED: &str = "[redacted]";

/// Matches words of which every secret contains at least one. Most texts contain none, so this search, which is cheaper
/// than the patterns below, decides for them.
static SECRET_HINTS: LazyLock<AhoCorasick> = LazyLock::new(|| {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build([
            "sk-",
            "sk_",
            "pk_",
            "rk_",
            "ghp_",
            "gho_",
            "ghu_",
            "ghs_",
            "ghr_",
            "github_pat_",
            "glpat-",
            "xox",
            "akia",
            "asia",
            "aiza",
            "ya29.",
            "npm_",
            "pypi-",
            "hf_",
            "lsv2_",
            "eyj",
            "-----begin",
            "password",
            "passwd",
            "secret",
            "token",
            "api_key",
            "apikey",
            "api-key",
            "authorization",
            "bearer",
            "access_key",
            "accesskey",
            "private_key",
            "credential",
            "://",
            "dckr_pat_",
            "sg.",
            "shpat_",
            "whsec_",
            "gsk_",
            "xai-",
            "aws_",
        ])
        .expect("the words are constants that the tests build")
});

/// Matches keys of known providers, JSON Web Tokens and PEM private keys. A key directly behind an escaped line break
/// (`\n`, `\r` or `\t` as two characters, as in JSON) matches too; capture group 1 is that escape.
static KEY_PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    compile_regex(concat!(
        r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\z)",
        r"|(?:\b|(\\[nrt]))(?:(?:sk|pk|rk)[-_](?:[A-Za-z]+[-_])*[A-Za-z0-9_-]{16,}",
        r"|(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}",
        r"|xox[abeoprs]-[A-Za-z0-9-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}\b|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}",
        r"|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}|hf_[A-Za-z0-9]{20,}|lsv2_[a-z]{2}_[A-Za-z0-9_]{20,}",
        r"|dckr_pat_[A-Za-z0-9_-]{20,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|shpat_[a-f0-9]{32}|whsec_[A-Za-z0-9+/=]{20,}",
        r"|gsk_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,}",
        r"|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*)",
    ))
});

/// Matches a name that announces a secret (capture group 1, including the sign of the assignment) and the value behind it
/// (capture group 2).
static ASSIGNMENT_PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    compile_regex(concat!(
        r#"(?i)((?:[\w-]*(?:password|passwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credential)[\w-]*)["']?\s*(?:=|:|=>)\s*["']?"#,
        r#"|--(?:password|token|api-key|secret)[= ]["']?|\bbearer\s+|\bbasic\s+)([^\s"'`,;<>(){}]{6,})"#,
    ))
});

/// Matches the password in the user information of a URL. Capture group 2 is the password.
static URL_PASSWORD_PATTERN: LazyLock<Regex> =
    LazyLock::new(|| compile_regex(r"(://[^\s/:@]*:)([^\s/@]{3,})(@)"));

fn compile_regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is a constant that the tests compile")
}

/// Returns `text` with [`REDACTED`] in the place of keys, tokens, private keys and passwords (invariant M16).
///
/// A value behind a name such as `password` is replaced if it looks like a secret: it has letters and digits, it is long
/// and mixes cases, or it is quoted or assigned with `=`. Types and prose (`token: String`, `secret: none`) stay. A text
/// without secrets is returned without a copy.
pub fn redact(text: &str) -> Cow<'_, str> {
    redact_and_count(text).0
}

/// Redacts like [`redact`], and also returns the number of secrets that were replaced. Secrets that the text already has
/// as [`REDACTED`] are not counted.
pub fn redact_and_count(text: &str) -> (Cow<'_, str>, u64) {
    if !SECRET_HINTS.is_match(text) {
        return (Cow::Borrowed(text), 0);
    }
    let mut count = 0;
    let without_keys = KEY_PATTERN.replace_all(text, |captures: &Captures<'_>| {
        count += 1;
        format!("{}{REDACTED}", captures.get(1).map_or("", |escape| escape.as_str()))
    });
    let without_url_passwords = URL_PASSWORD_PATTERN.replace_all(&without_keys, |captures: &Captures<'_>| {
        count += u64::from(&captures[2] != REDACTED);
        format!("{}{REDACTED}{}", &captures[1], &captures[3])
    });
    let redacted = ASSIGNMENT_PATTERN.replace_all(&without_url_passwords, |captures: &Captures<'_>| {
        if is_secret_value(&captures[1], &captures[2]) {
            count += 1;
            format!("{}{REDACTED}", &captures[1])
        } else {
            captures[0].to_owned()
        }
    });
    match redacted {
        _ if count == 0 => (Cow::Borrowed(text), 0),
        redacted => (Cow::Owned(redacted.into_owned()), count),
    }
}

/// Returns whether the value behind a name that announces a secret looks like one. References (`$NAME`), paths, globs and
/// values that are already redacted do not. Plain numbers count only for passwords and for the flags `--token` and
/// `--secret`, because `max_tokens: 300` is not a secret.
fn is_secret_value(name: &str, value: &str) -> bool {
    if value.starts_with(REDACTED)
        || value.starts_with(['$', '&', '*', '[', '%', '.', '/'])
        || value.contains("::")
    {
        return false;
    }
    let has_digit = value.bytes().any(|b| b.is_ascii_digit());
    let has_letter = value.bytes().any(|b| b.is_ascii_alphabetic());
    let has_symbol = value.bytes().any(|b| matches!(b, b'!' | b'@' | b'#' | b'^' | b'+' | b'=' | b'-'));
    // An initial capital is common in prose and type names.
    let has_inner_capital = value.bytes().skip(1).any(|b| b.is_ascii_uppercase());
    let has_lowercase = value.bytes().any(|b| b.is_ascii_lowercase());
    let is_assigned = name.trim_end().ends_with(['=', '"', '\'']);
    let name = name.to_ascii_lowercase();
    let is_path_or_number = value.contains('/') || value.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let is_password = name.contains("passw") || name.contains("--token") || name.contains("--secret");
    if is_path_or_number && !is_password {
        return false;
    }
    has_digit && has_letter
        || has_symbol && has_letter && is_assigned
        || value.len() >= 20 && has_inner_capital && has_lowercase
        || is_password && is_assigned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_behind_an_escaped_line_break_is_redacted() {
        let key = "sk-ant-api03-aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5z";
        assert_eq!(redact(&format!(r"read a\n{key}\nb")), r"read a\n[redacted]\nb");
        assert_eq!(redact(&format!("a\n{key}")), "a\n[redacted]");
    }

    #[test]
    fn m16_planted_secrets_are_replaced() {
        for (text, expected) in [
            ("key sk-ant-api03-abcdefghijklmnop1234 end", "key [redacted] end"),
            ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "[redacted]"),
            ("AKIAABCDEFGHIJKLMNOP", "[redacted]"),
            ("password=hunter2hunter2", "password=[redacted]"),
            ("DB_PASSWORD: \"s3cr3t!!\"", "DB_PASSWORD: \"[redacted]\""),
            ("Authorization: Bearer abc.def123456", "Authorization: Bearer [redacted]"),
            ("postgres://me:pa55word@host/db", "postgres://me:[redacted]@host/db"),
            ("-----BEGIN RSA PRIVATE KEY-----\nMIIB\n", "[redacted]"),
            ("-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\nafter", "[redacted]\nafter"),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "[redacted]"),
        ] {
            assert_eq!(redact(text), expected, "{text:?}");
            assert_eq!(redact_and_count(text), (expected.into(), 1), "{text:?}");
        }
    }

    #[test]
    fn m16_redacted_secrets_are_counted() {
        let two = "password=hunter2hunter2 and ghp_abcdefghijklmnopqrstuvwxyz0123456789";
        assert_eq!(redact_and_count(two), ("password=[redacted] and [redacted]".into(), 2));
        assert_eq!(redact_and_count("[redacted] before"), ("[redacted] before".into(), 0));
        // An earlier redaction is not a secret, and does not hide a secret next to it.
        assert_eq!(redact_and_count("password=hunter2x[redacted]"), ("password=[redacted]".into(), 1));
        let url = "postgres://me:[redacted]@host/db";
        assert_eq!(redact_and_count(url), (url.into(), 0));
    }

    #[test]
    fn text_without_secrets_is_unchanged() {
        for text in [
            "the token budget is 4000 tokens",
            "token: String, secret: Option<Secret>",
            "max_tokens: 300",
            "task-12 and risk-averse sk-1",
            "see https://x.test/a",
            "tokens = count_tokens(text)",
            "password = $PASSWORD",
        ] {
            assert_eq!(redact(text), text);
        }
    }
}
