//! Assistants as clients read them: one for each configured agent, made by the system.

use jiff::Timestamp;
use protocol::AssistantId;
use serde::Serialize;
use serde_json::{Map, json};
use utoipa::ToSchema;

use super::{AnyObject, timestamp};

/// The fields of an assistant, as a client may choose among them.
pub(crate) const ASSISTANT_FIELDS: [&str; 10] = [
    "assistant_id",
    "graph_id",
    "name",
    "description",
    "version",
    "config",
    "context",
    "metadata",
    "created_at",
    "updated_at",
];

/// An assistant.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Assistant {
    /// Its id, which follows from its name.
    #[schema(format = "uuid")]
    pub assistant_id: String,
    /// Its name.
    pub graph_id: String,
    /// Its name, once more.
    pub name: String,
    /// The purpose of the assistant.
    pub description: Option<String>,
    /// Always 1.
    pub version: u32,
    /// How its runs are configured.
    pub config: AnyObject,
    /// The default context of its runs.
    pub context: AnyObject,
    /// `created_by` is `system`.
    pub metadata: AnyObject,
    /// When it was made.
    pub created_at: String,
    /// When it last changed.
    pub updated_at: String,
}

impl Assistant {
    /// Returns the assistant.
    pub fn from_id(assistant_id: &AssistantId, since: Timestamp) -> Self {
        let name = assistant_id.name();
        let mut metadata = Map::new();
        metadata.insert("created_by".to_owned(), json!("system"));
        Self {
            assistant_id: assistant_id.wire_id().hyphenated().to_string(),
            graph_id: name.to_owned(),
            name: name.to_owned(),
            description: None,
            version: 1,
            config: AnyObject::default(),
            context: AnyObject::default(),
            metadata: AnyObject(metadata),
            created_at: timestamp(since),
            updated_at: timestamp(since),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assistant_has_the_same_id_on_every_server() {
        // As the reference computes it: uuid5 of "agent".
        let agent = Assistant::from_id(&"agent@alice".parse().unwrap(), Timestamp::UNIX_EPOCH);
        assert_eq!(
            (agent.assistant_id.as_str(), agent.name.as_str()),
            ("fe096781-5601-53d2-b2f6-0d3403f7e9ca", "agent")
        );
    }
}
