//! Redacts secrets in the values of items, and refuses secrets in their names.

use std::borrow::Cow;

use secrets::{REDACTED, redact};
use serde_json::{Map, Value};

use super::error::ItemError;

/// Redacts the secrets in all texts of the object, at any depth, and returns their number.
///
/// # Errors
/// [`ItemError::SecretName`] when the name of a field contains a secret. The object may be redacted in part then.
pub(super) fn redact_fields(value: &mut Map<String, Value>) -> Result<u64, ItemError> {
    let mut withheld = 0;
    for (field, value) in value {
        check_no_secret(field)?;
        withheld += redact_value(field, value)?;
    }
    Ok(withheld)
}

/// Redacts the secrets in the value of a field. Elements of an array count as values of the same field.
fn redact_value(field: &str, value: &mut Value) -> Result<u64, ItemError> {
    match value {
        Value::String(text) => Ok(redact_text(field, text)),
        Value::Array(values) => values.iter_mut().map(|value| redact_value(field, value)).sum(),
        Value::Object(fields) => redact_fields(fields),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(0),
    }
}

/// Redacts the secrets in a text and returns their number. If only the field's name shows that the text is secret,
/// the whole text is redacted.
fn redact_text(field: &str, text: &mut String) -> u64 {
    if let (Cow::Owned(safe), withheld) = secrets::redact_and_count(text) {
        *text = safe;
        return withheld;
    }
    // A text such as "abcdef123456" looks like a secret only after a name such as "db_password".
    let named_text = format!("\"{field}\": \"{text}\"");
    if matches!(redact(&named_text), Cow::Borrowed(_)) {
        return 0;
    }
    *text = REDACTED.to_owned();
    1
}

/// Checks that a name contains no secret. Names are not redacted, because the item could not be found under another
/// name.
///
/// # Errors
/// [`ItemError::SecretName`].
pub(super) fn check_no_secret(name: &str) -> Result<(), ItemError> {
    match redact(name) {
        Cow::Borrowed(_) => Ok(()),
        Cow::Owned(_) => Err(ItemError::SecretName),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(value: Value, expected: Value, withheld: u64) {
        let Value::Object(mut value) = value else { panic!("an object") };
        assert_eq!(redact_fields(&mut value).unwrap(), withheld);
        assert_eq!(Value::Object(value), expected);
    }

    #[test]
    fn m16_secrets_are_withheld_wherever_they_are() {
        let key = "sk-ant-api03-abcdefghijklmnop1234";
        check(
            json!({"a": format!("{key} and {key}"), "b": [{"c": [key]}, 1, null, "plain"]}),
            json!({"a": "[redacted] and [redacted]", "b": [{"c": ["[redacted]"]}, 1, null, "plain"]}),
            3,
        );
        check(
            json!({"a": "[redacted] password=hunter2hunter2"}),
            json!({"a": "[redacted] password=[redacted]"}),
            1,
        );
    }

    #[test]
    fn m16_the_name_of_a_field_can_mark_its_text_as_secret() {
        check(
            json!({"db_password": "s3cr3t!!", "tokens": ["abcdef123456"], "token_budget": "4000 tokens"}),
            json!({"db_password": "[redacted]", "tokens": ["[redacted]"], "token_budget": "4000 tokens"}),
            2,
        );
        check(json!({"note": "abcdef123456"}), json!({"note": "abcdef123456"}), 0);
    }

    #[test]
    fn m16_a_secret_as_a_name_is_refused() {
        let mut value =
            Map::from_iter([("a".to_owned(), json!({"ghp_abcdefghijklmnopqrstuvwxyz0123456789": 1}))]);
        assert!(matches!(redact_fields(&mut value), Err(ItemError::SecretName)));
    }
}
