//! Owners of rows: the only place where an owner scope becomes a value of an `owner` column. The caller is
//! responsible for using the right scope.

use protocol::{AssistantId, OwnerScope, UserId};

use crate::ownership::owner_name;
use crate::{Error, Result};

/// Returns the value of the column `owner` for rows in a scope: `''` for the person at the machine, `None` for any
/// owner.
pub(crate) fn owner_column_value(scope: Option<&OwnerScope>) -> Option<&str> {
    match scope {
        None | Some(OwnerScope::Everyone) => None,
        Some(OwnerScope::Owner(owner)) => Some(owner.as_ref().map_or("", UserId::as_str)),
    }
}

/// Fails with [`Error::InvalidRequest`] if an assistant has another owner than the thread. `thread_assistant` is the
/// stored assistant id of the thread.
pub(crate) fn check_owner(
    what: &'static str,
    assistant_id: &AssistantId,
    thread_assistant: &str,
) -> Result<()> {
    match owner_name(assistant_id.as_str()) == owner_name(thread_assistant) {
        true => Ok(()),
        false => {
            let reason = format!("{assistant_id} does not belong to the owner of the thread");
            Err(Error::InvalidRequest { what, reason })
        }
    }
}
