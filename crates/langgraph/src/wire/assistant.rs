//! Assistants on the wire. There is one for each configured agent; clients cannot create or change them.

use jiff::Timestamp;
use protocol::AssistantId;
use serde::Serialize;
use serde_json::{Map, json};
use utoipa::ToSchema;

use super::{AnyObject, timestamp};

/// The fields of an assistant that a client can select.
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
    /// The id: a UUID that is derived from the name, so that it is the same on every server.
    #[schema(format = "uuid")]
    pub assistant_id: String,
    /// The name of the assistant's graph, which is the name of the assistant.
    pub graph_id: String,
    /// The name.
    pub name: String,
    /// The purpose of the assistant. Always `null`.
    pub description: Option<String>,
    /// Always 1.
    pub version: u32,
    /// The default configuration of its runs. Always empty.
    pub config: AnyObject,
    /// The default context of its runs. Always empty.
    pub context: AnyObject,
    /// The metadata: `created_by` is `system`.
    pub metadata: AnyObject,
    /// The time of its creation.
    pub created_at: String,
    /// The time of its last change, which is that of its creation.
    pub updated_at: String,
}

impl Assistant {
    /// Returns the assistant with that id. `created_at` is reported as its creation time.
    pub fn from_id(assistant_id: &AssistantId, created_at: Timestamp) -> Self {
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
            created_at: timestamp(created_at),
            updated_at: timestamp(created_at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assistant_has_the_same_id_on_every_server() {
        // The reference server computes the same id: a version 5 UUID of "agent".
        let agent = Assistant::from_id(&"agent@alice".parse().unwrap(), Timestamp::UNIX_EPOCH);
        assert_eq!(
            (agent.assistant_id.as_str(), agent.name.as_str()),
            ("fe096781-5601-53d2-b2f6-0d3403f7e9ca", "agent")
        );
    }
}
