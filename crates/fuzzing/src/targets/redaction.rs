//! Redaction of secrets. A text without what was redacted is the text around the secrets, nothing else is changed, a second
//! redaction finds nothing, and no text around a secret of a known kind hides it.

use std::sync::LazyLock;

use secrets::{REDACTED, attempt_count, find_secrets, redact, redact_and_count, secret_values};
use test_secrets::{SecretSample, secret_samples};

use super::{FuzzTarget, RepeatedInput};

/// The seed of the planted secrets.
const SEED: u64 = 11;

/// The work for a text of any length, in tried patterns, that is not proportional to the length.
const CONSTANT_ATTEMPTS: u64 = 64;

/// The target.
pub(super) const TARGET: FuzzTarget = FuzzTarget {
    name: "redaction",
    check,
    parse,
    dictionary: &[
        "password",
        "Passwort: ",
        "contrase\u{f1}a",
        "token",
        "api key",
        "secret_key",
        "DB_PASSWORD=",
        "=",
        ": ",
        "\":\"",
        "hunter2hunter2",
        "Tr0ub4dor&3",
        "q8Zt3Lw9Xk2Vn5Rb",
        "AKIA",
        "sk-ant-api03-",
        "ghp_",
        "eyJhbGciOiJIUzI1NiJ9.",
        "Cookie: sid=",
        "Authorization: Bearer ",
        "Authorization: Basic ",
        "-----BEGIN RSA PRIVATE KEY-----\n",
        "-----END RSA PRIVATE KEY-----\n",
        "MIIBaB3dE5fG7hI9jK1l",
        "://user:",
        "@host/db",
        "[redacted]",
        "curl -u a:",
        "mysql -p",
        "**",
        "`",
        "\\u200b",
        "\u{200b}",
        "\u{1b}[0m",
        "\\\"",
        "\\n",
        "'",
        "\"",
        ";",
        "|",
        " and ",
        " is ",
        "${",
        "}",
        "$PASSWORD",
        "<",
        ">",
        "\n",
        "  ",
        "MTk4NjIyMTk4NjIyMTk4NjIy.",
        "abcdef.",
    ],
    repeated: &[
        RepeatedInput::of("password=token=key="),
        RepeatedInput::of("password=hunter2hunter2 "),
        RepeatedInput::of("password: \"a b "),
        RepeatedInput::of("sk-sk_eyJghp_AKIA"),
        RepeatedInput::of("-----BEGIN RSA PRIVATE KEY-----\nMIIB\n"),
        RepeatedInput::of("-----END RSA PRIVATE KEY-----"),
        RepeatedInput::of("https://a:b:c"),
        RepeatedInput::of("Cookie: a=b; sid=x7kQ2p; "),
        RepeatedInput::of("a**b ghp_**"),
        RepeatedInput::of("a\u{200b}"),
        RepeatedInput::of("\\u200b"),
        RepeatedInput::of("\u{1b}["),
        RepeatedInput::of("MTk4.abcdef."),
        RepeatedInput::of("curl -u a:b "),
        RepeatedInput::of("a|"),
        RepeatedInput::between("password=", "x", ""),
        RepeatedInput::between("ghp_", "x", ""),
    ],
};

fn check(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    check_kept_text(&text);
    check_counts(&text);
    let twice = text.repeat(2);
    assert!(attempt_count(&twice) <= 2 * attempt_count(&text) + CONSTANT_ATTEMPTS, "{text:?}");
    check_planted_secret(input, &text);
}

fn parse(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    drop(redact(&text));
}

/// Checks that only secrets are replaced, and that a second redaction replaces nothing.
fn check_kept_text(text: &str) {
    let (redacted, count) = redact_and_count(text);
    let mut rest = text;
    for kept in redacted.split(REDACTED) {
        let start = rest.find(kept);
        assert!(start.is_some(), "{kept:?} of {redacted:?} is in {text:?}");
        rest = &rest[start.unwrap_or_default() + kept.len()..];
    }
    assert_eq!(count == 0, redacted == text, "{text:?}");
    assert_eq!(redact_and_count(&redacted), (redacted.as_ref().into(), 0), "a second time: {text:?}");
}

/// Checks that reports, values and the redacted text are about the same secrets.
fn check_counts(text: &str) {
    let (redacted, count) = redact_and_count(text);
    let values = secret_values(text);
    assert_eq!(values.len() as u64, count, "{text:?}");
    assert_eq!(find_secrets(text).len() as u64, count, "{text:?}");
    let removed: usize = values.iter().map(|value| value.len()).sum();
    assert_eq!(redacted.len() + removed, text.len() + values.len() * REDACTED.len(), "{text:?}");
}

/// Checks that a secret on lines of its own is redacted whatever stands on the lines around it.
fn check_planted_secret(input: &[u8], text: &str) {
    /// Secrets that are redacted where they stand alone.
    static SAMPLES: LazyLock<Vec<SecretSample>> = LazyLock::new(|| {
        let samples = secret_samples(SEED, 4).into_iter();
        samples.filter(|sample| !sample.is_leaked_by(&redact(&sample.text))).collect()
    });
    let index =
        input.iter().fold(input.len(), |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    let sample = &SAMPLES[index % SAMPLES.len()];
    // A text that has the secret, or a part of it, already shows it.
    if sample.is_leaked_by(text) {
        return;
    }
    let cut = text.floor_char_boundary(index % (text.len() + 1));
    let around = format!("{}\n{}\n{}", &text[..cut], sample.text, &text[cut..]);
    let redacted = redact(&around);
    assert!(!sample.is_leaked_by(&redacted), "{}: {:?} in {around:?}", sample.kind, sample.secret);
}
