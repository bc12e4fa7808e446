//! Owner scopes, which limit the data that a caller can read and write, and API keys. Authentication assigns a scope
//! to a request; the journal enforces it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{AssistantId, UserId};

/// The owners whose data a caller can read and write. It deliberately has no default: the caller that opens the
/// journal chooses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum OwnerScope {
    /// The data of all owners. Used for administration by the local operator, and for work without an owner, such as
    /// recovery.
    Everyone,
    /// The data of one owner; `None` is the local operator, who runs the server.
    Owner(Option<UserId>),
}

impl OwnerScope {
    /// Returns true if the scope includes the data of `assistant_id`.
    pub fn can_access(&self, assistant_id: &AssistantId) -> bool {
        match self {
            Self::Everyone => true,
            Self::Owner(owner) => assistant_id.owner() == *owner,
        }
    }
}

/// A stored API key, with which a client of a server authenticates as a user. Only the hash of the key is stored,
/// never the key itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    /// The public part, which is the beginning of the key. It names the key in lists.
    pub key_id: String,
    /// The user as whom the client acts.
    pub user_id: UserId,
    /// A description of the key's purpose, given by its creator.
    pub label: Option<String>,
    /// Lowercase hex SHA-256 of the whole key.
    pub sha256: String,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of revocation; `None` while the key is valid.
    pub revoked_at: Option<Timestamp>,
}
