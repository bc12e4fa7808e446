//! The metadata of an event: its origin and other notes. All readers parse it as [`EventMetadata`].

use serde::{Deserialize, Serialize};

use super::{RawJson, Seq};

/// The metadata of an event. Fields with their default value are not written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventMetadata {
    /// The imported session file that the event comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<EventSource>,
    /// True if the event happened in a sub-agent of an imported session and is not part of the main conversation.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub side: bool,
    /// True if a program inserted the message and the user did not write it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub injected: bool,
    /// The repair that an importer made, in plain words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repaired: Option<String>,
    /// The text before the repair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original: Option<String>,
    /// The seq of the same message on an abandoned branch of the thread. Abandoned branches are not visible, so
    /// resuming from one appends copies of its messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again: Option<Seq>,
    /// Duration of the model's response or the tool's execution, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The user hooks that failed before a compaction.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hooks_failed: Vec<FailedHook>,
}

/// The origin of an imported event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventSource {
    /// The name of the session file's format, such as the harness that wrote it.
    pub format: String,
    /// The id of the record in that file, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_id: Option<String>,
}

/// A failure of a user hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedHook {
    /// The name of the hook.
    pub hook: String,
    /// The reason for the failure, in one line.
    pub reason: String,
}

impl EventMetadata {
    /// Parses stored metadata. Returns the default if it is absent or cannot be parsed, because metadata never
    /// affects correctness.
    pub fn parse(stored: Option<&RawJson>) -> Self {
        stored.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_message_refers_to_its_first_seq() {
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
