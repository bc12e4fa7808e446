//! Secrets in text, found before the text is kept or passed on. It knows how keys look, not which of them are valid.

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use regex::{Captures, Regex};

/// The text that replaces a secret.
pub const REDACTED: &str = "[redacted]";

/// Words without which no pattern below can match; most texts hold none of them.
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

/// Keys that are known by their own form. One at the beginning of a line is found behind an escaped end of line, too.
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

/// A name that says the value after it is secret, then the value.
static ASSIGNMENT_PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    compile_regex(concat!(
        r#"(?i)((?:[\w-]*(?:password|passwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credential)[\w-]*)["']?\s*(?:=|:|=>)\s*["']?"#,
        r#"|--(?:password|token|api-key|secret)[= ]["']?|\bbearer\s+|\bbasic\s+)([^\s"'`,;<>(){}]{6,})"#,
    ))
});

static URL_PASSWORD_PATTERN: LazyLock<Regex> =
    LazyLock::new(|| compile_regex(r"(://[^\s/:@]*:)([^\s/@]{3,})(@)"));

fn compile_regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is a constant that the tests compile")
}

/// Returns `text` with [`REDACTED`] in the place of keys, tokens, private keys and passwords.
///
/// A value after a telling name (`password = …`) is replaced when it looks like a value: it holds a digit or mixes
/// cases, or it is quoted or assigned with `=`. Types and prose (`token: String`, `secret: none`) stay.
pub fn redact(text: &str) -> Cow<'_, str> {
    redact_and_count(text).0
}

/// Returns what [`redact`] returns, and how many secrets it took out.
pub fn redact_and_count(text: &str) -> (Cow<'_, str>, u64) {
    if !SECRET_HINTS.is_match(text) {
        return (Cow::Borrowed(text), 0);
    }
    let mut withheld = 0;
    let keys = KEY_PATTERN.replace_all(text, |found: &Captures<'_>| {
        withheld += 1;
        format!("{}{REDACTED}", found.get(1).map_or("", |escaped| escaped.as_str()))
    });
    let urls = URL_PASSWORD_PATTERN.replace_all(&keys, |found: &Captures<'_>| {
        withheld += u64::from(&found[2] != REDACTED);
        format!("{}{REDACTED}{}", &found[1], &found[3])
    });
    let all = ASSIGNMENT_PATTERN.replace_all(&urls, |found: &Captures<'_>| {
        if is_secret_value(&found[1], &found[2]) {
            withheld += 1;
            format!("{}{REDACTED}", &found[1])
        } else {
            found[0].to_owned()
        }
    });
    match all {
        _ if withheld == 0 => (Cow::Borrowed(text), 0),
        other => (Cow::Owned(other.into_owned()), withheld),
    }
}

fn is_secret_value(name: &str, value: &str) -> bool {
    if value.starts_with(REDACTED)
        || value.starts_with(['$', '&', '*', '[', '%', '.', '/'])
        || value.contains("::")
    {
        return false;
    }
    let digits = value.bytes().any(|b| b.is_ascii_digit());
    let letters = value.bytes().any(|b| b.is_ascii_alphabetic());
    let symbols = value.bytes().any(|b| matches!(b, b'!' | b'@' | b'#' | b'^' | b'+' | b'=' | b'-'));
    let upper = value.bytes().skip(1).any(|b| b.is_ascii_uppercase());
    let lower = value.bytes().any(|b| b.is_ascii_lowercase());
    let assigned = name.trim_end().ends_with(['=', '"', '\'']);
    let lowered = name.to_ascii_lowercase();
    let path_or_count = value.contains('/') || value.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let password = lowered.contains("passw") || lowered.contains("--token") || lowered.contains("--secret");
    if path_or_count && !password {
        return false;
    }
    digits && letters
        || symbols && letters && assigned
        || value.len() >= 20 && upper && lower
        || password && assigned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_behind_an_escaped_end_of_line_is_found_too() {
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
    fn m16_what_is_withheld_is_counted() {
        let two = "password=hunter2hunter2 and ghp_abcdefghijklmnopqrstuvwxyz0123456789";
        assert_eq!(redact_and_count(two), ("password=[redacted] and [redacted]".into(), 2));
        assert_eq!(redact_and_count("[redacted] before"), ("[redacted] before".into(), 0));
        // What was withheld before is no secret, and does not hide one.
        assert_eq!(redact_and_count("password=hunter2x[redacted]"), ("password=[redacted]".into(), 1));
        let url = "postgres://me:[redacted]@host/db";
        assert_eq!(redact_and_count(url), (url.into(), 0));
    }

    #[test]
    fn what_is_no_secret_stays() {
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
