//! The processes that work on the same journal: which there are, and until when each certainly lives.

use jiff::{SignedDuration, Timestamp};

use crate::engines::sql::{Connection, Dialect};
use crate::tables::columns::{instant, stored};
use crate::{Replica, Result};

/// How long a process is known of which nothing was heard any more.
const KNOWN_FOR: SignedDuration = SignedDuration::from_hours(24);

/// Stores that a process lives; one that lives no longer is forgotten, and so are those that said nothing for long.
pub(crate) fn announce(db: &Connection, replica: &Replica, now: Timestamp) -> Result<()> {
    if replica.alive_until < now {
        return forget(db, &replica.owner);
    }
    db.execute(
        "INSERT INTO replicas (owner, machine, alive_until) VALUES ($1, $2, $3)
         ON CONFLICT (owner) DO UPDATE SET machine = excluded.machine, alive_until = excluded.alive_until",
        (&replica.owner, &replica.machine, instant(replica.alive_until)),
    )?;
    forget_silent(db, now)
}

fn forget_silent(db: &Connection, now: Timestamp) -> Result<()> {
    let Ok(long_ago) = now.checked_sub(KNOWN_FOR) else { return Ok(()) };
    let lock = match db.dialect() {
        Dialect::Sqlite => "",
        // Several forget them at the same time, and one that was silent may speak again.
        Dialect::Postgres => " FOR UPDATE SKIP LOCKED",
    };
    db.execute(
        &format!(
            "DELETE FROM replicas WHERE owner IN (SELECT owner FROM replicas WHERE alive_until < $1{lock})"
        ),
        [instant(long_ago)],
    )?;
    Ok(())
}

fn forget(db: &Connection, owner: &str) -> Result<()> {
    db.execute("DELETE FROM replicas WHERE owner = $1", [owner])?;
    Ok(())
}

/// Returns the present by the server's clock.
pub(crate) fn clock(db: &Connection) -> Result<Timestamp> {
    let mut statement = db.prepare(
        r#"SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS now"#,
    )?;
    statement.query_row((), |row| stored(row, "now"))
}

/// Returns all there are, also those of which nothing was heard any more.
pub(crate) fn list(db: &Connection) -> Result<Vec<Replica>> {
    let mut statement = db.prepare("SELECT owner, machine, alive_until FROM replicas ORDER BY owner")?;
    statement.query_map((), |row| {
        Ok(Replica {
            owner: row.get("owner")?,
            machine: row.get("machine")?,
            alive_until: stored(row, "alive_until")?,
        })
    })
}
