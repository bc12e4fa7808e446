//! Generates texts with secrets, and texts that look as if they had secrets and have none, for tests and evaluations.
//!
//! The generators are written from the formats that services document, not from the patterns of the crate `secrets`.
//! All values are random and made when a test runs: no key is in the repository. The same seed generates the same texts.

mod command_formats;
mod contexts;
mod formats;
mod harmless;
mod random;

pub use harmless::harmless_texts;
pub use random::RandomSource;

/// A text with a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretSample {
    /// The kind of the secret.
    pub kind: &'static str,
    /// The text.
    pub text: String,
    /// The secret, which is a part of the text.
    pub secret: String,
}

impl SecretSample {
    /// Returns whether `redacted` contains the secret, its beginning or its end.
    #[must_use]
    pub fn is_leaked_by(&self, redacted: &str) -> bool {
        let edge = 8.min(self.secret.len());
        let (head, tail) = (&self.secret[..edge], &self.secret[self.secret.len() - edge..]);
        let is_inside =
            |part: &str| redacted.contains(part) && !self.text.replace(&self.secret, "").contains(part);
        [self.secret.as_str(), head, tail].into_iter().any(is_inside)
    }
}

/// Returns `count` texts for each kind of secret, which is at least 150 kinds.
#[must_use]
pub fn secret_samples(seed: u64, count: usize) -> Vec<SecretSample> {
    let mut random = RandomSource::new(seed);
    let mut samples = Vec::new();
    for format in formats::FORMATS.iter().chain(command_formats::COMMAND_FORMATS) {
        for index in 0..count {
            let secret = random.fill_template(format.template);
            let text = contexts::place_secret(&mut random, format, &secret, index);
            samples.push(SecretSample { kind: format.kind, text, secret });
        }
    }
    samples
}
