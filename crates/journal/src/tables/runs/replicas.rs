//! Replicas: the processes that work on the same journal, and the time until which each is considered alive.

use jiff::{SignedDuration, Timestamp};

use crate::engines::sql::{SqlConnection, SqlDialect};
use crate::tables::columns::{compact_timestamp, read_column};
use crate::{Replica, Result};

/// How long the row of an expired replica is kept.
const EXPIRED_RETENTION: SignedDuration = SignedDuration::from_hours(24);

/// Stores a heartbeat. A replica whose `alive_until` is in the past is deleted at once, and replicas that expired
/// long ago are deleted too.
pub(crate) fn record_heartbeat(db: &SqlConnection, replica: &Replica, now: Timestamp) -> Result<()> {
    if replica.alive_until < now {
        return delete_replica(db, &replica.owner);
    }
    db.execute(
        "INSERT INTO replicas (owner, machine, alive_until) VALUES ($1, $2, $3)
         ON CONFLICT (owner) DO UPDATE SET machine = excluded.machine, alive_until = excluded.alive_until",
        (&replica.owner, &replica.machine, compact_timestamp(replica.alive_until)),
    )?;
    delete_expired(db, now)
}

/// Deletes replicas that expired more than [`EXPIRED_RETENTION`] ago.
fn delete_expired(db: &SqlConnection, now: Timestamp) -> Result<()> {
    let Ok(cutoff) = now.checked_sub(EXPIRED_RETENTION) else { return Ok(()) };
    let lock = match db.dialect() {
        SqlDialect::Sqlite => "",
        // Several replicas delete at the same time, and an expired replica may send a heartbeat again.
        SqlDialect::Postgres => " FOR UPDATE SKIP LOCKED",
    };
    db.execute(
        &format!(
            "DELETE FROM replicas WHERE owner IN (SELECT owner FROM replicas WHERE alive_until < $1{lock})"
        ),
        [compact_timestamp(cutoff)],
    )?;
    Ok(())
}

/// Deletes a replica.
fn delete_replica(db: &SqlConnection, owner: &str) -> Result<()> {
    db.execute("DELETE FROM replicas WHERE owner = $1", [owner])?;
    Ok(())
}

/// Returns the current time of the PostgreSQL server's clock.
pub(crate) fn current_time(db: &SqlConnection) -> Result<Timestamp> {
    let mut statement = db.prepare(
        r#"SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS now"#,
    )?;
    statement.query_row((), |row| read_column(row, "now"))
}

/// Returns all replicas, including expired ones.
pub(crate) fn list(db: &SqlConnection) -> Result<Vec<Replica>> {
    let mut statement = db.prepare("SELECT owner, machine, alive_until FROM replicas ORDER BY owner")?;
    statement.query_map((), |row| {
        Ok(Replica {
            owner: row.get("owner")?,
            machine: row.get("machine")?,
            alive_until: read_column(row, "alive_until")?,
        })
    })
}
