//! Typed identifiers. Parsing validates them, so that an identifier is safe in a path or a query. Generated ids are
//! UUIDv7 and therefore ordered by time; derived ids are UUIDv5.

pub mod digest;
pub mod scope;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Seq;

/// The number of characters to which the ids of threads and handoffs are shortened for people, up to the second hyphen.
///
/// They contain the whole time of a UUIDv7, in milliseconds: an id that is generated later has another beginning. Eight
/// characters are the same for all ids of about a minute. Of ids from the same millisecond, more must be shown.
pub const SHORT_ID_CHARS: usize = 13;

/// An error that says that a text is not a valid identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a valid {what}: {expected}")]
pub struct IdError {
    /// The kind of identifier that was expected, such as `thread id`.
    pub what: &'static str,
    /// The rejected text, truncated to 80 characters.
    pub text: String,
    /// The expected form, as the end of the error message.
    pub expected: &'static str,
}

/// Defines an identifier type that wraps a UUID, with its name in error messages.
macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Generates a new time-ordered identifier (UUIDv7). Call it at the edges of the system only: pure logic
            /// takes ids as arguments, so that it stays deterministic.
            pub fn generate() -> Self {
                Self(Uuid::now_v7())
            }

            /// Wraps an existing UUID, such as one derived from a stable name.
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// Returns the wrapped UUID.
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
    /// Identifies one handoff in all its iterations. It is the idempotency key of the acceptance.
    HandoffId,
    "handoff id"
);
uuid_id!(
    /// Identifies one journal event globally, in addition to its `(thread_id, seq)`.
    EventId,
    "event id"
);
uuid_id!(
    /// Identifies one medium-term memory summary.
    SummaryId,
    "summary id"
);
uuid_id!(
    /// Identifies one durable fact that a model proposed for agent.md.
    FactId,
    "fact id"
);
uuid_id!(
    /// Identifies one checkpoint.
    CheckpointId,
    "checkpoint id"
);

/// Identifies one interrupt. Its text form is 32 lowercase hex digits, in JSON as well as on screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterruptId(Uuid);

impl ThreadId {
    /// Returns the id of the thread in which a sub-agent works on a tool call of this thread. `answer` is the event
    /// of the model's message that contains the call.
    ///
    /// The id is derived, so that a repeated call, after a crash or with a user's decision, finds the sub-agent's
    /// earlier work.
    pub fn for_subagent_call(self, answer: EventId, call_id: &str) -> Self {
        Self(Uuid::new_v5(&answer.uuid(), format!("subagent:{self}:{call_id}").as_bytes()))
    }
}

impl FactId {
    /// Returns the id of the fact with this text among those that are proposed with a summary. The id is derived, so that a
    /// few of its digits identify it: ids that are generated at the same time begin with the same digits.
    pub fn for_summary(summary_id: SummaryId, text: &str) -> Self {
        Self(Uuid::new_v5(&summary_id.uuid(), format!("fact:{text}").as_bytes()))
    }
}

impl RunId {
    /// Returns the id of the model's message at `step` of this run. The id is derived, so that it is known before the
    /// first token arrives.
    pub fn message_id(self, step: u64) -> String {
        Uuid::new_v5(&self.0, format!("message:{step}").as_bytes()).hyphenated().to_string()
    }

    /// Returns the id of the model's message if the answer `message_id` broke off and was requested again; `retry`
    /// counts from 1. The id differs, so that clients do not append the new answer to the part that arrived.
    pub fn retried_message_id(self, message_id: &str, retry: u32) -> String {
        Uuid::new_v5(&self.0, format!("message:{message_id}:retry:{retry}").as_bytes())
            .hyphenated()
            .to_string()
    }

    /// Returns the id of the model's message if another process took the run over and restarts the step. `takeover_seq`
    /// is the seq of the takeover event in the run's thread. The id differs from [`RunId::message_id`], so that
    /// clients do not append the new message to the partial one that they received before the crash.
    pub fn recovered_message_id(self, step: u64, takeover_seq: Seq) -> String {
        Uuid::new_v5(&self.0, format!("message:{step}:{takeover_seq}").as_bytes()).hyphenated().to_string()
    }
}

impl InterruptId {
    /// Returns the id of the interrupt that `node` raises at `step` of `run`. The id is derived, so that a replay of
    /// the step raises the same interrupt.
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

/// Maximum length of the name of an assistant or a user in bytes. The name is part of a folder's name, whose length
/// file systems limit.
const NAME_BYTES_MAX: usize = 64;

/// The separator between an assistant's name and its owner, and the prefix of other names that belong to an owner.
/// Names of assistants and users cannot contain it.
pub const OWNER_SEPARATOR: char = '@';

/// The name of a user of a server: 1–64 characters of `a–z 0–9 _ -`. Uppercase letters are refused, because two users
/// whose names differ only in case would share a folder on a case-insensitive file system.
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

/// The UUIDv5 namespace of assistant ids on the wire. It is the one that clients of the Agent Server protocol use.
const ASSISTANT_ID_NAMESPACE: Uuid = Uuid::from_u128(0x6ba7_b821_9dad_11d1_80b4_00c0_4fd4_30c8);

/// The name of a configured agent and of the folder with its `agent.md`: 1–64 characters of `a–z A–Z 0–9 _ -`,
/// followed by `@` and the owner if it has one, such as `agent@alice`.
///
/// Each user of a server has a separate assistant of the same name, with its own threads and memory. An assistant
/// without an owner belongs to the local operator, who runs the server.
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

    /// Returns the assistant's id on the wire. Clients derive the same id from the assistant's name; it does not
    /// depend on the owner.
    pub fn wire_id(&self) -> Uuid {
        Uuid::new_v5(&ASSISTANT_ID_NAMESPACE, self.name().as_bytes())
    }

    /// Returns the owner; `None` means the local operator.
    pub fn owner(&self) -> Option<UserId> {
        self.0.split_once(OWNER_SEPARATOR).map(|(_, owner)| UserId(owner.to_owned()))
    }

    /// Returns the assistant of the same name that belongs to `owner`; `None` means the local operator.
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

/// Returns true if `text` is a legal assistant name without an owner.
fn is_valid_name(text: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.bytes().all(is_legal)
}

/// Returns true if `text` is a legal user name.
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
    fn k1_no_two_users_share_a_folder_on_a_case_insensitive_file_system() {
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
