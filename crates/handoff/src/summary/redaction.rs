//! Redaction of the secrets in a whole summary. The texts of a conversation are redacted where they are read; joining their
//! lines, or writing about them, can show a secret that no single text did.

use facts::KnownSecrets;
use protocol::{HandoffSummary, ReviewNotes, SummaryItem};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Returns the summary with the secrets in its texts and facts redacted (invariant M16), also those that only a message of the
/// person shows to be secrets.
pub(crate) fn redact_summary(summary: HandoffSummary, known: &KnownSecrets) -> HandoffSummary {
    let redact = |text: &str| known.redact(&secrets::redact(text));
    let body =
        summary.body.into_iter().map(|item| SummaryItem { text: redact(&item.text), ..item }).collect();
    HandoffSummary {
        // Asterisks are no part of a rendered title. They would hide a token that they divide.
        title: redact(&summary.title.replace("**", "")),
        tldr: redact(&summary.tldr),
        body,
        carried: redact_texts(summary.carried, &redact),
        ..summary
    }
}

/// Returns the notes with the secrets in their texts redacted. What a note lists can be added to the text.
pub(crate) fn redact_notes(notes: ReviewNotes, known: &KnownSecrets) -> ReviewNotes {
    redact_texts(notes, &|text: &str| known.redact(&secrets::redact(text)))
}

/// Returns a value with every string in it redacted.
fn redact_texts<T: Serialize + DeserializeOwned>(value: T, redact: &impl Fn(&str) -> String) -> T {
    // Serializing cannot fail, and the value is read back from what was written.
    let mut json = serde_json::to_value(&value).unwrap_or_default();
    replace_texts(&mut json, redact);
    serde_json::from_value(json).unwrap_or(value)
}

/// Replaces every string in a JSON value; keys, numbers and booleans stay.
pub(crate) fn replace_texts(value: &mut Value, replace: &impl Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = replace(text),
        Value::Array(values) => values.iter_mut().for_each(|value| replace_texts(value, replace)),
        Value::Object(fields) => fields.values_mut().for_each(|value| replace_texts(value, replace)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use protocol::{LeftOutItem, LeftOutReason, Rule};

    use super::*;
    use crate::review::edit::tests::shown_summary;

    #[test]
    fn m16_a_secret_in_any_text_of_a_summary_is_redacted() {
        let secret = "password: hunter3hunter3";
        let mut summary = shown_summary();
        summary.title = format!("Use {secret}");
        summary.tldr = format!("It is {secret}.");
        summary.body[0].text = format!("The {secret} is set.");
        summary.carried.rules = vec![Rule { text: format!("Never commit the {secret}"), refs: vec![1] }];
        summary.carried.last_user_request = Some(format!("Set {secret}"));
        let item = SummaryItem { text: format!("Answered: the {secret}"), ..summary.body[0].clone() };
        summary.notes.left_out = vec![LeftOutItem { item, reason: LeftOutReason::TooLong }];
        let mut redacted = redact_summary(summary.clone(), &KnownSecrets::default());
        redacted.notes = redact_notes(redacted.notes, &KnownSecrets::default());
        assert!(!format!("{redacted:?}").contains("hunter3"), "{redacted:?}");
        assert_eq!(
            (redacted.carried.rules[0].refs.clone(), &redacted.coverage),
            (vec![1], &summary.coverage)
        );
    }
}
