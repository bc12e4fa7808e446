//! Failures of the journal: who can mend them, and what to do. What can go wrong there is the journal's matter.

use std::path::Path;

use super::Class;

/// What to do where an address, or what is said in it, is refused.
pub(super) const DATABASE_URL: &str = "write postgres://USER:PASSWORD@HOST:PORT/DATABASE or sqlite:PATH into SEGUE_DATABASE_URL, `--database-url` or \
     `[database] url`";

/// Returns who can mend it.
pub(super) fn class(error: &journal::Error) -> Class {
    match error {
        journal::Error::NotFound { .. } | journal::Error::Invalid { .. } | journal::Error::Unfit { .. } => {
            Class::User
        }
        journal::Error::Refused { .. } => Class::Config,
        journal::Error::Busy { .. }
        | journal::Error::Fenced { .. }
        | journal::Error::Unfinished { .. }
        | journal::Error::AlreadyDecided { .. }
        | journal::Error::HandoffPending { .. }
        | journal::Error::HandoffMoved { .. } => Class::Conflict,
        _ => Class::Store,
    }
}

/// Returns what a person can do about it, as one sentence.
pub(super) fn hint(error: &journal::Error) -> Option<String> {
    let hint = match error {
        journal::Error::Busy { .. } | journal::Error::Fenced { .. } => {
            "wait until it is done, or stop the other process; then try again"
        }
        journal::Error::HandoffPending { handoff_id, .. } => {
            return Some(format!(
                "it was asked for with another goal or window; decide it first: `segue handoff --decide {handoff_id}`"
            ));
        }
        journal::Error::NotFound { what: "the database", .. } => {
            "name one that is there; `segue db migrate` makes the one in use"
        }
        journal::Error::Unfinished { .. } => {
            "finish it with the same `segue db copy`, or remove the database; until then it is not used"
        }
        journal::Error::Unfit { .. } => "nothing was changed; name another database or file",
        journal::Error::Unsettled { .. } => "read what is stored before trying again: it may have been done",
        journal::Error::NewerSchema { path, .. } if is_server(path) => {
            "update segue: another one has brought this database to a later version"
        }
        journal::Error::NewerSchema { .. } => "update segue, or point SEGUE_HOME at another folder",
        journal::Error::Corrupt { path, .. } if is_server(path) => {
            "nothing was changed; `segue doctor` says what can be read, and `segue db copy` brings a backup back"
        }
        journal::Error::Corrupt { .. } => {
            "nothing was changed; copy the file away, then `segue doctor` says what can be read"
        }
        journal::Error::Locked { path } if is_server(path) => {
            "try again in a moment; `pg_stat_activity` shows which transaction is in the way"
        }
        journal::Error::Locked { .. } => "close the other segue, or try again in a moment",
        journal::Error::Denied { path } if is_server(path) => {
            "let the user create tables there (`GRANT CREATE ON SCHEMA public TO …`) and write to them, or have one that may \
             run `segue db migrate`; a standby cannot be written to"
        }
        journal::Error::Denied { .. } => "make the folder writable, or set SEGUE_HOME to one that is",
        journal::Error::Io { .. } => "check that the folder is there and that you can write to it",
        journal::Error::DiskFull { .. } => "free some space and try again; nothing half-written was kept",
        journal::Error::Unreachable { .. } => {
            "start the server, or mend the way to it, and try again: nothing half-written was kept"
        }
        journal::Error::Refused { .. } => {
            "check user, password, database and certificate in SEGUE_DATABASE_URL, `--database-url` or `[database] url`"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

/// Returns whether what is told as a path is where a server is.
fn is_server(path: &Path) -> bool {
    path.to_str().is_some_and(journal::Postgres::is_url)
}
