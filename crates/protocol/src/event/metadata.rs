//! The metadata of an event: where the fact came from and other notes about it. Views and features read it as this one type.

use serde::{Deserialize, Serialize};

use super::{RawJson, Seq};

/// The metadata of an event. What does not hold is not written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventMetadata {
    /// The session file an importer read it from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<EventSource>,
    /// It happened in a sub-agent, beside the conversation.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub side: bool,
    /// A program put the message in; the person did not say it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub injected: bool,
    /// How an importer repaired it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repaired: Option<String>,
    /// The text before the repair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original: Option<String>,
    /// The seq of the same message on another branch of the thread. A branch that was left is out of sight, so that going on
    /// from it says its messages again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again: Option<Seq>,
    /// How many milliseconds a model took to answer, or a tool to do its work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The user hooks that failed before a compaction.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hooks_failed: Vec<FailedHook>,
}

/// Where an imported event came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventSource {
    /// The format of the session file.
    pub format: String,
    /// The id of the record in that file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_id: Option<String>,
}

/// A user hook that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedHook {
    /// The hook.
    pub hook: String,
    /// Why, in one line.
    pub reason: String,
}

impl EventMetadata {
    /// Reads stored metadata. Metadata that cannot be read notes nothing.
    pub fn parse(stored: Option<&RawJson>) -> Self {
        stored.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_again_says_so() {
        for (metadata, again) in [
            (r#"{"again":7}"#, Some(7)),
            (r#"{"source":{"format":"x"},"again":7}"#, Some(7)),
            (r#"{"again":null}"#, None),
            (r#"{"again":"7"}"#, None),
            (r#"{"note":"again"}"#, None),
            ("7", None),
        ] {
            let raw: RawJson = serde_json::from_str(metadata).unwrap();
            assert_eq!(EventMetadata::parse(Some(&raw)).again, again, "{metadata}");
        }
        assert_eq!(EventMetadata::parse(None), EventMetadata::default());
    }
}
