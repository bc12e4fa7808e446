//! Locks on threads that a transaction discovers while it runs. Threads that its writes name are locked before it
//! starts (`engines::postgres::locks`).

use postgres::SqlValue;

use crate::Result;
use crate::engines::postgres::locks;
use crate::engines::sql::{SqlConnection, SqlDialect};
use crate::tables::columns::read_column;

/// The time since which a transaction has had exclusive access to some threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockState {
    /// Before anything was read, so that values read earlier are current.
    AlreadyLocked,
    /// Only from now on. Values read earlier may be out of date and must be read again.
    NewlyLocked,
}

/// Locks threads until the end of the transaction. If another transaction has locked one of them, this one is
/// repeated with all these locks acquired at its start.
pub(crate) fn lock_threads(db: &SqlConnection, thread_keys: &[i64]) -> Result<LockState> {
    if db.dialect() == SqlDialect::Sqlite || thread_keys.is_empty() {
        return Ok(LockState::AlreadyLocked);
    }
    let ids = db
        .prepare("SELECT thread_id FROM thread_heads WHERE thread_key = ANY (CAST($1 AS bigint[]))")?
        .query_map([SqlValue::Integers(thread_keys.into())], |row| read_column(row, "thread_id"))?;
    acquire_locks(db, ids.into_iter().map(locks::thread_lock).collect())?;
    Ok(LockState::NewlyLocked)
}

/// Acquires further advisory locks of PostgreSQL. SQLite has one writer and needs none.
pub(crate) fn acquire_locks(db: &SqlConnection, locks: Vec<i64>) -> Result<()> {
    match db {
        SqlConnection::Sqlite(..) => Ok(()),
        SqlConnection::Postgres(connection, _) => Ok(connection.acquire_locks(locks)?),
    }
}
