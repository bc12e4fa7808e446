//! Deserialization of settings that have more than one form in `config.toml`. It is implemented by hand, because the
//! error of a derived implementation would name the variants of a Rust enum instead of the keys of the file.

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::trigger::{KeepPolicy, TriggerClause};

/// Deserializes a trigger: one clause (`{ fraction = 0.85 }`) or a list of clauses. An empty list is valid and disables
/// automatic compaction.
pub(super) fn clauses<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<TriggerClause>>, D::Error> {
    deserializer.deserialize_any(TriggerClausesVisitor).map(Some)
}

/// Deserializes the size of the kept part: a table with exactly one key, such as `{ tokens = 20000 }`. No key or
/// several keys are an error.
pub(super) fn keep<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<KeepPolicy>, D::Error> {
    // A trigger clause has the same three keys with the same types.
    let TriggerClause { tokens, messages, fraction } = TriggerClause::deserialize(deserializer)?;
    match (tokens, messages, fraction) {
        (Some(tokens), None, None) => Ok(Some(KeepPolicy::Tokens(tokens))),
        (None, Some(messages), None) => Ok(Some(KeepPolicy::Messages(messages))),
        (None, None, Some(share)) => Ok(Some(KeepPolicy::Fraction(share))),
        (..) => Err(D::Error::custom("`keep` takes one of tokens, messages, fraction")),
    }
}

/// The visitor for one clause or a list of clauses.
struct TriggerClausesVisitor;

impl<'de> Visitor<'de> for TriggerClausesVisitor {
    type Value = Vec<TriggerClause>;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a table such as { fraction = 0.85 }, or a list of such tables")
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Self::Value, A::Error> {
        TriggerClause::deserialize(MapAccessDeserializer::new(entries)).map(|clause| vec![clause])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(items))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::settings::CompactionSettings;
    use crate::trigger::{KeepPolicy, TriggerClause};

    #[test]
    fn e16_one_clause_equals_a_list_of_one_clause() {
        let clause = TriggerClause { fraction: Some(0.95), ..TriggerClause::default() };
        for written in [json!({"fraction": 0.95}), json!([{"fraction": 0.95}])] {
            let settings: CompactionSettings = serde_json::from_value(json!({"trigger": written})).unwrap();
            assert_eq!(settings.trigger, Some(vec![clause]));
        }
        let never: CompactionSettings = serde_json::from_value(json!({"trigger": []})).unwrap();
        assert_eq!(never.trigger, Some(Vec::new()));
    }

    #[test]
    fn e16_the_kept_part_is_given_by_one_key() {
        for (written, keep) in [
            (json!({"tokens": 7}), KeepPolicy::Tokens(7)),
            (json!({"messages": 7}), KeepPolicy::Messages(7)),
            (json!({"fraction": 0.5}), KeepPolicy::Fraction(0.5)),
        ] {
            let settings: CompactionSettings = serde_json::from_value(json!({"keep": written})).unwrap();
            assert_eq!(settings.keep, Some(keep));
        }
    }

    #[test]
    fn e16_an_error_names_the_keys_of_the_file() {
        for (written, message) in [
            (json!({"keep": {"tokens": 1, "messages": 2}}), "`keep` takes one of tokens, messages, fraction"),
            (json!({"keep": {}}), "`keep` takes one of tokens, messages, fraction"),
            (json!({"keep": {"token": 1}}), "unknown field `token`"),
            (json!({"trigger": {"fractions": 0.95}}), "unknown field `fractions`"),
            (
                json!({"trigger": 0.95}),
                "expected a table such as { fraction = 0.85 }, or a list of such tables",
            ),
        ] {
            let error =
                serde_json::from_value::<CompactionSettings>(written.clone()).unwrap_err().to_string();
            assert!(error.contains(message), "{written}: {error}");
        }
    }
}
