//! Taking hold of threads that a transaction comes upon on its way. Those that its writes name are held before it looks at
//! anything; which they are is not known here.

use postgres::Value;

use crate::Result;
use crate::engines::postgres::locks;
use crate::engines::sql::{Connection, Dialect};
use crate::tables::columns::stored;

/// Since when nobody else writes to some threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    /// Since before what is known of them was read.
    Before,
    /// From here on: what was read of them may be out of date.
    FromHere,
}

/// Has nobody else write to these threads until the transaction ends. Two that come upon each other's meet an end that is
/// tried again.
pub(crate) fn hold(db: &Connection, thread_keys: &[i64]) -> Result<Held> {
    if db.dialect() == Dialect::Sqlite || thread_keys.is_empty() {
        return Ok(Held::Before);
    }
    let ids = db
        .prepare("SELECT thread_id FROM thread_heads WHERE thread_key = ANY (CAST($1 AS bigint[]))")?
        .query_map([Value::Integers(thread_keys.into())], |row| stored(row, "thread_id"))?;
    take(db, ids.into_iter().map(locks::of_thread).collect())?;
    Ok(Held::FromHere)
}

/// Takes locks of PostgreSQL beside those that were taken at the beginning.
pub(crate) fn take(db: &Connection, mut locks: Vec<i64>) -> Result<()> {
    locks.sort_unstable();
    db.prepare("SELECT CAST(pg_advisory_xact_lock(k) AS TEXT) FROM unnest(CAST($1 AS bigint[])) AS k")?
        .query_map([Value::Integers(locks.into())], |_| Ok(()))?;
    Ok(())
}
