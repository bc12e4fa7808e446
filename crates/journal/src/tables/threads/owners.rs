//! Whose rows are: the one place where a scope becomes a value that a column `owner` has. Who may ask for which scope is
//! not known here.

use protocol::{AssistantId, Scope, UserId};

use crate::owned::owner_name;
use crate::{Error, Result};

/// Returns what the column `owner` holds of rows in the scope, `''` for the person at the machine; `None` means any.
pub(crate) fn of(scope: Option<&Scope>) -> Option<&str> {
    match scope {
        None | Some(Scope::Everyone) => None,
        Some(Scope::Owner(owner)) => Some(owner.as_ref().map_or("", UserId::as_str)),
    }
}

/// Refuses what is another owner's than the thread it belongs to, whose assistant is `of_thread` as stored.
pub(crate) fn check(what: &'static str, assistant_id: &AssistantId, of_thread: &str) -> Result<()> {
    match owner_name(assistant_id.as_str()) == owner_name(of_thread) {
        true => Ok(()),
        false => {
            let reason = format!("{assistant_id} does not belong to the owner of the thread");
            Err(Error::Invalid { what, reason })
        }
    }
}
