//! The secrets that a conversation names as such. Later messages and results may contain their values without a word that tells what
//! they are, such as the password in the path of a file.

use secrets::{REDACTED, secret_values};

/// Maximum number of values kept.
const VALUES_MAX: usize = 64;
/// Minimum bytes of a value. A shorter one occurs in other words.
const VALUE_BYTES_MIN: usize = 8;

/// The values of the secrets in messages and results. Its debug output shows only their number.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct KnownSecrets {
    /// The values, the longest first, so that no value is replaced within another one.
    values: Vec<String>,
}

impl std::fmt::Debug for KnownSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KnownSecrets").field("count", &self.values.len()).finish()
    }
}

impl KnownSecrets {
    /// Adds the secrets of a text. A value of letters only may be a word, so it is not added.
    pub(crate) fn add(&mut self, text: &str) {
        let before = self.values.len();
        for value in secret_values(text) {
            let value = value.trim();
            let is_distinctive =
                value.len() >= VALUE_BYTES_MIN && value.chars().any(|c| !c.is_alphabetic() && c != ' ');
            let is_new = !self.values.iter().any(|known| known == value);
            if is_distinctive && is_new && self.values.len() < VALUES_MAX {
                self.values.push(value.to_owned());
            }
        }
        if self.values.len() > before {
            self.values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        }
    }

    /// Returns the text with each known value replaced by [`REDACTED`].
    pub fn redact(&self, text: &str) -> String {
        let replace = |text: String, value: &String| match text.contains(value.as_str()) {
            true => text.replace(value.as_str(), REDACTED),
            false => text,
        };
        self.values.iter().fold(text.to_owned(), replace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m16_a_value_that_a_result_or_an_answer_names_is_known() {
        for conversation in [
            "U: Deploy it.\nC: b Bash {\"command\":\"cat .env\"}\nT: b DB_PASSWORD=Kp4Rz9Tw2Mx7",
            "U: Deploy it.\nA: The password is Kp4Rz9Tw2Mx7.",
            "U: Deploy it.\nC: b Bash {\"command\":\"mysql -u root -pKp4Rz9Tw2Mx7 app\"}\nT: b ok",
        ] {
            let known = crate::notation::parse_facts(conversation).known_secrets;
            assert_eq!(
                known.redact("I deployed with `Kp4Rz9Tw2Mx7`."),
                "I deployed with `[redacted]`.",
                "{conversation}"
            );
        }
    }

    #[test]
    fn m16_a_value_is_found_where_nothing_tells_that_it_is_a_secret() {
        let mut known = KnownSecrets::default();
        known.add("Set password=hunter2hunter2 and the token: swordfishes.");
        assert_eq!(
            known.redact("Rotate hunter2hunter2 in /srv/hunter2hunter2/a.rs"),
            "Rotate [redacted] in /srv/[redacted]/a.rs"
        );
        assert_eq!(known.redact("The swordfishes are fine."), "The swordfishes are fine.");
        assert!(!format!("{known:?}").contains("hunter"));
    }
}
