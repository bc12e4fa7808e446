//! Identifiers: typed, time-ordered, validated before they reach a path or a query. They do not look anything up.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Why a text is not an identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a valid {what}: {expected}")]
pub struct IdError {
    /// The kind of identifier that was expected, such as `thread id`.
    pub what: &'static str,
    /// The text that was given.
    pub text: String,
    /// The form that would have been accepted.
    pub expected: &'static str,
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Returns a fresh time-ordered identifier (UUIDv7). Call it at the edge; rules take ids as arguments.
            pub fn generate() -> Self {
                Self(Uuid::now_v7())
            }

            /// Wraps an existing UUID, such as one derived from a stable name.
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// Returns the UUID inside.
            pub const fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                Uuid::try_parse(text).map(Self).map_err(|_| IdError {
                    what: $what,
                    text: text.chars().take(80).collect(),
                    expected: "expected a UUID such as 0192f0c1-2d3e-7a4b-8c5d-6e7f80910a1b",
                })
            }
        }
    };
}

uuid_id!(
    /// Identifies one conversation.
    ThreadId,
    "thread id"
);
uuid_id!(
    /// Identifies one execution of the graph on a thread.
    RunId,
    "run id"
);
uuid_id!(
    /// Identifies one handoff through all its iterations; the idempotency key of its acceptance.
    HandoffId,
    "handoff id"
);
uuid_id!(
    /// Identifies one journal event, next to its `(thread_id, seq)`.
    EventId,
    "event id"
);
uuid_id!(
    /// Identifies one summary of medium-term memory.
    SummaryId,
    "summary id"
);
uuid_id!(
    /// Identifies one checkpoint.
    CheckpointId,
    "checkpoint id"
);

/// Identifies one interrupt: 32 lowercase hex digits, the same wherever the interrupt is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterruptId(Uuid);

impl ThreadId {
    /// Returns the id of the thread in which a sub-agent works on a tool call that `answer`, an event of this thread,
    /// makes: derived, so that the call made again, after a crash or with a person's answer, finds what was done.
    pub fn of_subagent(self, answer: EventId, call_id: &str) -> Self {
        Self(Uuid::new_v5(&answer.uuid(), format!("subagent:{self}:{call_id}").as_bytes()))
    }
}

impl InterruptId {
    /// Returns the id of the interrupt that `node` raised at `step` of `run`: derived, so that a replay of the
    /// same step names the same interrupt.
    pub fn derive(run: RunId, step: u64, node: &str) -> Self {
        Self(Uuid::new_v5(&run.uuid(), format!("{step}:{node}").as_bytes()))
    }
}

impl fmt::Display for InterruptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.simple().fmt(f)
    }
}

impl FromStr for InterruptId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let well_formed =
            text.len() == 32 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        Uuid::try_parse(text).ok().filter(|_| well_formed).map(Self).ok_or_else(|| IdError {
            what: "interrupt id",
            text: text.chars().take(80).collect(),
            expected: "expected 32 lowercase hex digits",
        })
    }
}

impl Serialize for InterruptId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for InterruptId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The longest assistant id in bytes; it is also a folder name.
pub const ASSISTANT_ID_BYTES_MAX: usize = 64;

/// Names a configured agent, and the folder that holds its `agent.md`: 1–64 of `a–z A–Z 0–9 _ -`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct AssistantId(String);

impl AssistantId {
    /// Returns the text of the id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for AssistantId {
    fn default() -> Self {
        Self("agent".to_owned())
    }
}

impl fmt::Display for AssistantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for AssistantId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if text.is_empty() || text.len() > ASSISTANT_ID_BYTES_MAX || !text.bytes().all(legal) {
            return Err(IdError {
                what: "assistant id",
                text: text.chars().take(80).collect(),
                expected: "expected 1 to 64 letters, digits, `_` or `-`",
            });
        }
        Ok(Self(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for AssistantId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h1_ids_are_time_ordered() {
        let ids: Vec<ThreadId> = (0..100).map(|_| ThreadId::generate()).collect();
        assert!(ids.is_sorted());
    }

    #[test]
    fn h1_assistant_ids_cannot_leave_their_folder() {
        for bad in ["", "..", "a/b", "a\\b", "é", "a b", &"x".repeat(65)] {
            assert!(bad.parse::<AssistantId>().is_err(), "{bad}");
        }
        assert_eq!("my-agent_2".parse::<AssistantId>().unwrap().as_str(), "my-agent_2");
    }

    #[test]
    fn interrupt_ids_are_32_lowercase_hex_digits_and_stable() {
        let run = RunId::generate();
        let id = InterruptId::derive(run, 3, "handoff_approval");
        assert_eq!(id, InterruptId::derive(run, 3, "handoff_approval"));
        assert_eq!(id.to_string().len(), 32);
        assert_eq!(id.to_string().parse::<InterruptId>().unwrap(), id);
        assert!(id.to_string().to_uppercase().parse::<InterruptId>().is_err());
    }
}
