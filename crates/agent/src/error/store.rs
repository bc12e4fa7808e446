//! The class and the hint of failures of the journal.

use std::path::Path;

use super::{Advice, Class};

pub(crate) fn advice(error: &journal::Error) -> Advice {
    use journal::Error;
    match error {
        Error::NotFound { what: "the database", .. } => {
            Class::User.with("name one that is there; `segue db migrate` makes the one in use")
        }
        Error::NotFound { .. } | Error::Invalid { .. } => (Class::User, None),
        Error::Unfit { .. } => Class::User.with("nothing was changed; name another database or file"),
        Error::Busy { .. } | Error::Fenced { .. } => {
            Class::Conflict.with("wait until it is done, or stop the other process; then try again")
        }
        Error::HandoffPending { handoff_id, .. } => Class::Conflict.with(format!(
            "it was asked for with another goal or window; decide it first: `segue handoff --decide {handoff_id}`"
        )),
        Error::Unfinished { .. } => Class::Conflict
            .with("finish it with the same `segue db copy`, or remove the database; until then it is not used"),
        Error::AlreadyDecided { .. } | Error::HandoffMoved { .. } => (Class::Conflict, None),
        Error::Refused { .. } => Class::Config.with(
            "check user, password, database and certificate in SEGUE_DATABASE_URL, `--database-url` or `[database] url`",
        ),
        Error::Unsettled { .. } => {
            Class::Store.with("read what is stored before trying again: it may have been done")
        }
        Error::NewerSchema { path, .. } if is_server(path) => {
            Class::Store.with("update segue: another one has brought this database to a later version")
        }
        Error::NewerSchema { .. } => Class::Store.with("update segue, or point SEGUE_HOME at another folder"),
        Error::Corrupt { path, .. } if is_server(path) => Class::Store.with(
            "nothing was changed; `segue doctor` says what can be read, and `segue db copy` brings a backup back",
        ),
        Error::Corrupt { .. } => Class::Store
            .with("nothing was changed; copy the file away, then `segue doctor` says what can be read"),
        Error::Locked { path } if is_server(path) => Class::Store
            .with("try again in a moment; `pg_stat_activity` shows which transaction is in the way"),
        Error::Locked { .. } => Class::Store.with("close the other segue, or try again in a moment"),
        Error::Denied { path } if is_server(path) => Class::Store.with(
            "let the user create tables there (`GRANT CREATE ON SCHEMA public TO …`) and write to them, or have one that may \
             run `segue db migrate`; a standby cannot be written to",
        ),
        Error::Denied { .. } => Class::Store.with("make the folder writable, or set SEGUE_HOME to one that is"),
        Error::Io { .. } => Class::Store.with("check that the folder is there and that you can write to it"),
        Error::DiskFull { .. } => {
            Class::Store.with("free some space and try again; nothing half-written was kept")
        }
        Error::Unreachable { .. } => Class::Store
            .with("start the server, or mend the way to it, and try again: nothing half-written was kept"),
        Error::UnknownRun { .. }
        | Error::Differs { .. }
        | Error::Closed
        | Error::Json(_)
        | Error::Id(_)
        | Error::Malformed(_)
        | Error::Sqlite(_)
        | Error::Postgres(_) => (Class::Store, None),
    }
}

/// Returns whether the path of an error is the address of a server.
fn is_server(path: &Path) -> bool {
    path.to_str().is_some_and(journal::Postgres::is_url)
}
