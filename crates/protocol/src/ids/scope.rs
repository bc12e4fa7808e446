//! Owner scopes, which limit the data that a reader or writer may touch, and access keys. Authentication assigns a scope; the
//! journal enforces it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{AssistantId, UserId};

/// The owners whose data may be read and written. There is no default: the caller that opens the journal chooses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum OwnerScope {
    /// Everybody's: for the person at the machine who administers it, and for work that belongs to nobody, such as
    /// recovery.
    Everyone,
    /// One person's; `None` is the person at the machine.
    Owner(Option<UserId>),
}

impl OwnerScope {
    /// Returns whether what belongs to `assistant_id` may be seen.
    pub fn can_access(&self, assistant_id: &AssistantId) -> bool {
        match self {
            Self::Everyone => true,
            Self::Owner(owner) => assistant_id.owner() == *owner,
        }
    }
}

/// A key by which a client of a server shows whose it is. The key itself is not kept, only its hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    /// Its public part: names the key in lists and is the beginning of the key.
    pub key_id: String,
    /// The owner.
    pub user_id: UserId,
    /// The purpose, in the words of the person who created the key.
    pub label: Option<String>,
    /// SHA-256 of the whole key in lowercase hex.
    pub sha256: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}
