//! How settings that can be written in more than one way are read, so that a mistake is told in the words of the file.
//! What they mean is not decided here.

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::trigger::{Clause, Keep};

/// Reads one clause, or a list of them.
pub(super) fn clauses<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Clause>>, D::Error> {
    deserializer.deserialize_any(Clauses).map(Some)
}

/// Reads how much stays: a table with one key.
pub(super) fn keep<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Keep>, D::Error> {
    // The same three names, each for a size.
    let Clause { tokens, messages, fraction } = Clause::deserialize(deserializer)?;
    match (tokens, messages, fraction) {
        (Some(tokens), None, None) => Ok(Some(Keep::Tokens(tokens))),
        (None, Some(messages), None) => Ok(Some(Keep::Messages(messages))),
        (None, None, Some(share)) => Ok(Some(Keep::Fraction(share))),
        (..) => Err(D::Error::custom("`keep` takes one of tokens, messages, fraction")),
    }
}

struct Clauses;

impl<'de> Visitor<'de> for Clauses {
    type Value = Vec<Clause>;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a table such as { fraction = 0.85 }, or a list of such tables")
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Self::Value, A::Error> {
        Clause::deserialize(MapAccessDeserializer::new(entries)).map(|clause| vec![clause])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(items))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::settings::Settings;
    use crate::trigger::{Clause, Keep};

    #[test]
    fn e16_one_clause_is_as_good_as_a_list_of_one() {
        let clause = Clause { fraction: Some(0.95), ..Clause::default() };
        for written in [json!({"fraction": 0.95}), json!([{"fraction": 0.95}])] {
            let settings: Settings = serde_json::from_value(json!({"trigger": written})).unwrap();
            assert_eq!(settings.trigger, Some(vec![clause]));
        }
        let never: Settings = serde_json::from_value(json!({"trigger": []})).unwrap();
        assert_eq!(never.trigger, Some(Vec::new()));
    }

    #[test]
    fn e16_what_stays_is_told_in_one_way() {
        for (written, keep) in [
            (json!({"tokens": 7}), Keep::Tokens(7)),
            (json!({"messages": 7}), Keep::Messages(7)),
            (json!({"fraction": 0.5}), Keep::Fraction(0.5)),
        ] {
            let settings: Settings = serde_json::from_value(json!({"keep": written})).unwrap();
            assert_eq!(settings.keep, Some(keep));
        }
    }

    #[test]
    fn e16_a_mistake_is_told_in_the_words_of_the_file() {
        for (written, told) in [
            (json!({"keep": {"tokens": 1, "messages": 2}}), "`keep` takes one of tokens, messages, fraction"),
            (json!({"keep": {}}), "`keep` takes one of tokens, messages, fraction"),
            (json!({"keep": {"token": 1}}), "unknown field `token`"),
            (json!({"trigger": {"fractions": 0.95}}), "unknown field `fractions`"),
            (
                json!({"trigger": 0.95}),
                "expected a table such as { fraction = 0.85 }, or a list of such tables",
            ),
        ] {
            let error = serde_json::from_value::<Settings>(written.clone()).unwrap_err().to_string();
            assert!(error.contains(told), "{written}: {error}");
        }
    }
}
