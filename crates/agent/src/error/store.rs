//! The class and the hint of each failure of the journal.

use std::path::Path;

use super::{ErrorAdvice, ErrorClass};

/// The hint for a damaged database on a server.
const DAMAGED_SERVER_HINT: &str =
    "nothing was changed; `segue doctor` shows what can be read, and `segue db copy` restores a backup";
/// The hint for a damaged file.
const DAMAGED_FILE_HINT: &str = "nothing was changed; copy the file to a safe place; `segue doctor` shows what can be read, and `segue db salvage` \
     saves it";
/// The hint for a truncated file.
const TRUNCATED_FILE_HINT: &str = "stop all programs that use the file, and copy it with its -wal file to a safe place; then restore a backup, or save what \
     is left with `segue db salvage`";
/// The hint for a damaged event.
const DAMAGED_EVENT_HINT: &str = "`segue history THREAD` shows the rest of the thread, and `segue doctor` all damage; restore a \
    backup, or continue before the event with `segue threads fork`";

/// Returns the class of a journal failure and a hint for the person. The hints for PostgreSQL differ from
/// those for a file.
pub(crate) fn advice(error: &journal::Error) -> ErrorAdvice {
    use journal::Error;
    match error {
        Error::NotFound { what: "the database", .. } => {
            ErrorClass::User.with_hint("name an existing database; `segue db migrate` creates the configured one")
        }
        Error::NotFound { .. } | Error::InvalidRequest { .. } => (ErrorClass::User, None),
        Error::UnsuitableTarget { .. } => ErrorClass::User.with_hint("nothing was changed; name another database or file"),
        Error::Busy { .. } | Error::Fenced { .. } => {
            ErrorClass::Conflict.with_hint("wait until it is done, or stop the other process; then try again")
        }
        Error::HandoffPending { handoff_id, .. } => ErrorClass::Conflict.with_hint(format!(
            "another goal, window or child was requested for it; decide it first: `segue handoff --decide {handoff_id}`"
        )),
        Error::UnfinishedCopy { .. } => ErrorClass::Conflict
            .with_hint("finish it with the same `segue db copy`, or remove the database; until then it is not used"),
        Error::AlreadyDecided { .. } => ErrorClass::Conflict
            .with_hint("another decision was recorded first; `segue history THREAD` shows it"),
        Error::HandoffStatusChanged { .. } => ErrorClass::Conflict
            .with_hint("another decision was recorded first; `segue handoff --show ID` shows it"),
        Error::ConnectionRejected { .. } => ErrorClass::Config.with_hint(
            "check user, password, database and certificate in SEGUE_DATABASE_URL, `--database-url` or `[database] url`",
        ),
        Error::CommitUnknown { .. } => {
            ErrorClass::Store.with_hint("check the stored state before you try again: the change may have been made")
        }
        Error::NewerSchema { path, .. } if is_server(path) => {
            ErrorClass::Store.with_hint("update segue: a newer version has migrated this database")
        }
        Error::NewerSchema { .. } => ErrorClass::Store.with_hint("update segue, or point SEGUE_HOME at another folder"),
        Error::Corrupt { path, .. } if is_server(path) => ErrorClass::Store.with_hint(DAMAGED_SERVER_HINT),
        Error::Corrupt { .. } => ErrorClass::Store.with_hint(DAMAGED_FILE_HINT),
        Error::LostTransactions { path, .. } => ErrorClass::Store.with_hint(lost_transactions_hint(path)),
        Error::DamagedEvent { .. } => ErrorClass::Store.with_hint(DAMAGED_EVENT_HINT),
        Error::Locked { path } if is_server(path) => ErrorClass::Store
            .with_hint("try again in a moment; `pg_stat_activity` shows which transaction holds the lock"),
        Error::Locked { .. } => ErrorClass::Store.with_hint("close the other segue, or try again in a moment"),
        Error::PermissionDenied { path } if is_server(path) => ErrorClass::Store.with_hint(
            "let the user create tables there (`GRANT CREATE ON SCHEMA public TO …`) and write to them, or let a user with \
             these rights run `segue db migrate`; a standby cannot be written to",
        ),
        Error::PermissionDenied { .. } => ErrorClass::Store.with_hint("make the folder writable, or set SEGUE_HOME to one that is"),
        Error::Io { .. } => ErrorClass::Store.with_hint("check that the folder exists and that you can write to it"),
        Error::FileReplaced { .. } => ErrorClass::Store.with_hint(
            "before you start segue again, put back the database and its -wal file together if they still exist, under another name or \
             in a backup: what was acknowledged may be only in them",
        ),
        Error::FileTruncated { .. } => ErrorClass::Store.with_hint(TRUNCATED_FILE_HINT),
        Error::TooManyOpenFiles { .. } => ErrorClass::Store
            .with_hint("try again in a moment, or raise the limit of open files (`ulimit -n`) and start again"),
        Error::DiskFull { .. } => {
            ErrorClass::Store.with_hint("free some space and try again; no partial write was kept")
        }
        Error::Unreachable { .. } => ErrorClass::Store
            .with_hint("start the server, or repair the connection to it, and try again: no partial write was kept"),
        error if error.is_checkpoint_conflict() => ErrorClass::Conflict
            .with_hint("another process changed the thread first; try again"),
        Error::UnknownRun { .. }
        | Error::Conflict { .. }
        | Error::Closed
        | Error::Json(_)
        | Error::Id(_)
        | Error::Malformed(_)
        | Error::Sqlite(_)
        | Error::Postgres(_) => (ErrorClass::Store, None),
    }
}

/// Returns the hint for a write-ahead log with fewer frames than it had.
fn lost_transactions_hint(path: &Path) -> String {
    format!(
        "nothing was changed; copy {0}, {0}-wal and {0}-mark to a safe place, and check the disk; to continue without the \
         lost transactions, delete {0}-mark",
        path.display()
    )
}

/// Returns whether the path in an error is the URL of a PostgreSQL server.
fn is_server(path: &Path) -> bool {
    path.to_str().is_some_and(journal::PostgresStore::is_url)
}
