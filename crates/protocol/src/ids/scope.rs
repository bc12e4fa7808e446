//! Whose data a reader or writer may touch, and the keys by which people show who they are. Who has which scope is
//! decided at the door; that it holds is the journal's work.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{AssistantId, UserId};

/// Whose data may be read and written. There is no default: whoever opens the journal says which.
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
    /// Whose it is.
    pub user_id: UserId,
    /// What it is for, in the words of whoever made it.
    pub label: Option<String>,
    /// SHA-256 of the whole key in lowercase hex.
    pub sha256: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}
