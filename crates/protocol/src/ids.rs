//! Identifiers: typed, time-ordered, validated before they reach a path or a query. They do not look anything up.

pub mod digest;
pub mod scope;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Seq;

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
    pub fn for_subagent_call(self, answer: EventId, call_id: &str) -> Self {
        Self(Uuid::new_v5(&answer.uuid(), format!("subagent:{self}:{call_id}").as_bytes()))
    }
}

impl RunId {
    /// Returns the id of the message that a model says at `step` of this run: derived, so that it is known before the
    /// first word of it arrives.
    pub fn message_id(self, step: u64) -> String {
        Uuid::new_v5(&self.0, format!("message:{step}").as_bytes()).hyphenated().to_string()
    }

    /// Returns the id of that message where the step is begun again by a process that took the run over at `taken_up`, an
    /// event of its thread.
    pub fn recovered_message_id(self, step: u64, taken_up: Seq) -> String {
        Uuid::new_v5(&self.0, format!("message:{step}:{taken_up}").as_bytes()).hyphenated().to_string()
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

/// The longest name of an assistant or a user in bytes; it is also part of a folder's name.
const NAME_BYTES_MAX: usize = 64;

/// The separator between an assistant's name and its owner, and the prefix of other names that belong to an owner. No user
/// name contains it.
pub const OWNER_SEPARATOR: char = '@';

/// Names a person who uses a server: 1–64 of `a–z 0–9 _ -`. There are no capitals: on disks that do not tell them apart, two
/// people would share a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct UserId(String);

impl UserId {
    /// Returns the text of the id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for UserId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        match is_valid_user_id(text) {
            true => Ok(Self(text.to_owned())),
            false => Err(invalid_user_id(text)),
        }
    }
}

impl<'de> Deserialize<'de> for UserId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The namespace of assistants' ids on the wire.
const ASSISTANT_ID_NAMESPACE: Uuid = Uuid::from_u128(0x6ba7_b821_9dad_11d1_80b4_00c0_4fd4_30c8);

/// Names a configured agent, and the folder that holds its `agent.md`: 1–64 of `a–z A–Z 0–9 _ -`. Each user of a server
/// has an assistant of their own under the same name, with its own threads and memory: `agent@alice`. Without an owner it
/// belongs to the person at the machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct AssistantId(String);

impl AssistantId {
    /// Returns the text of the id, the owner included.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the assistant's name, without its owner.
    pub fn name(&self) -> &str {
        self.0.split_once(OWNER_SEPARATOR).map_or(&self.0, |(name, _)| name)
    }

    /// Returns its id on the wire, which clients derive from its name.
    pub fn wire_id(&self) -> Uuid {
        Uuid::new_v5(&ASSISTANT_ID_NAMESPACE, self.name().as_bytes())
    }

    /// Returns whose it is; `None` means the person at the machine.
    pub fn owner(&self) -> Option<UserId> {
        self.0.split_once(OWNER_SEPARATOR).map(|(_, owner)| UserId(owner.to_owned()))
    }

    /// Returns the assistant of the same name that belongs to `owner`.
    #[must_use]
    pub fn with_owner(&self, owner: Option<&UserId>) -> Self {
        match owner {
            Some(owner) => Self(format!("{}{OWNER_SEPARATOR}{owner}", self.name())),
            None => Self(self.name().to_owned()),
        }
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
        let (name, owner) =
            text.split_once(OWNER_SEPARATOR).map_or((text, None), |(name, owner)| (name, Some(owner)));
        match (is_valid_name(name), owner.is_none_or(is_valid_user_id)) {
            (true, true) => Ok(Self(text.to_owned())),
            (true, false) => Err(invalid_user_id(owner.unwrap_or_default())),
            (false, _) => Err(invalid_assistant_id(text)),
        }
    }
}

impl<'de> Deserialize<'de> for AssistantId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

fn is_valid_name(text: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.bytes().all(legal)
}

fn is_valid_user_id(text: &str) -> bool {
    is_valid_name(text) && !text.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn invalid_assistant_id(text: &str) -> IdError {
    IdError {
        what: "assistant id",
        text: text.chars().take(80).collect(),
        expected: "expected 1 to 64 letters, digits, `_` or `-`",
    }
}

fn invalid_user_id(text: &str) -> IdError {
    IdError {
        what: "user id",
        text: text.chars().take(80).collect(),
        expected: "expected 1 to 64 lowercase letters, digits, `_` or `-`; capitals are not told apart on every disk",
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
    fn k1_each_user_has_an_assistant_of_their_own_under_the_same_name() {
        let alice: UserId = "alice".parse().unwrap();
        let own = AssistantId::default().with_owner(Some(&alice));
        assert_eq!((own.as_str(), own.name(), own.owner()), ("agent@alice", "agent", Some(alice.clone())));
        assert_eq!(own.as_str().parse::<AssistantId>().unwrap(), own);
        assert_eq!(own.with_owner(None), AssistantId::default());
        assert_eq!(AssistantId::default().owner(), None);
        for bad in ["agent@", "@alice", "agent@a@b", "agent@../x", "a b@alice", "agent@Alice"] {
            assert!(bad.parse::<AssistantId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn k1_no_two_users_share_a_folder_where_capitals_are_not_told_apart() {
        let refused = "Alice".parse::<UserId>().unwrap_err().to_string();
        assert!(refused.contains("lowercase"), "{refused}");
        assert!("alice".parse::<UserId>().is_ok() && "Agent".parse::<AssistantId>().is_ok());
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
