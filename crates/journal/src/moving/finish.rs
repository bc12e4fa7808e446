//! What makes a database whole whose rows are all there: numbers that are given out go on behind the highest, and what can be
//! searched is in the index.

use super::ends::Opened;
use super::tables::{self, TABLES};
use super::{Ends, Progress, Purpose, Step, Watch, mark};
use crate::Result;
use crate::engines::sql::{Connection, Dialect};
use crate::tables::search::texts::{self, Kind};
use crate::tables::search::{CatchUp, Pass, index_batch};

/// Has numbers go on behind the highest and the index hold what can be searched; returns whether it does: it was not stopped.
pub(super) fn prepare(ends: Ends<'_>, purpose: Purpose, watch: &mut Watch) -> Result<bool> {
    let Ends { source, target } = ends;
    let floors = floors(&source.tables()).map_err(|error| source.told(error))?;
    target.write(|connection| {
        floors.iter().try_for_each(|(agent_key, floor)| raise(connection, *agent_key, *floor))?;
        number_on(connection)
    })?;
    // Messages and handoffs follow with the first search; nothing else puts these into the index.
    for kind in [Kind::Summary, Kind::Item] {
        let mut behind = 0;
        while let Some(last) = target.write(|connection| texts::index_behind(connection, kind, behind))? {
            behind = last;
        }
    }
    match purpose {
        Purpose::Move => catch_up(target, watch),
        Purpose::Backup => Ok(true),
    }
}

/// Says that the database is whole, which outlives a power cut from here on.
pub(super) fn end(target: &Opened) -> Result<()> {
    // Where there is no room for it, nobody uses what is there.
    target.settle()?;
    target.write(|connection| {
        if connection.dialect() == Dialect::Postgres {
            // What was written without waiting for the disk is there with this.
            connection.prepare("SELECT set_config('synchronous_commit', 'on', true)")?.exists(())?;
            for table in TABLES {
                connection.execute(&format!("ANALYZE {}", table.name), ())?;
            }
        }
        mark::end(connection)
    })?;
    target.settle()
}

/// Empties the search index, which is made again of all there is.
pub(super) fn forget_index(target: &Opened) -> Result<()> {
    target.write(|connection| {
        let forget = match connection.dialect() {
            Dialect::Sqlite => "INSERT INTO search_index (search_index) VALUES ('delete-all')",
            Dialect::Postgres => "DELETE FROM search_index",
        };
        connection.execute(forget, ())?;
        connection.execute("UPDATE thread_heads SET indexed_seq = 0 WHERE indexed_seq > 0", ())?;
        connection.execute("UPDATE handoff_index SET is_due = 1 WHERE is_due = 0", ()).map(|_| ())
    })
}

/// Returns the agents, each with the highest number of a turn that it ever had.
fn floors(connection: &Connection) -> Result<Vec<(i64, i64)>> {
    connection
        .prepare(&tables::floors(connection.dialect()))?
        .query_map((), |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Has an agent's turns go on behind a number, unless they go on behind a higher one.
fn raise(connection: &Connection, agent_key: i64, floor: i64) -> Result<()> {
    connection
        .prepare("UPDATE agents SET turn_floor = $2 WHERE agent_key = $1 AND turn_floor < $2")?
        .send((agent_key, floor))
}

/// Puts messages and handoffs into the index, and returns whether all of them are: it was not stopped.
fn catch_up(target: &Opened, watch: &mut Watch) -> Result<bool> {
    let mut pass = Pass::default();
    loop {
        let caught_up = target.write(|connection| index_batch(connection, pass))?;
        let progress = target.write(indexed)?;
        match (watch(&progress).is_continue(), caught_up) {
            (false, _) => return Ok(false),
            (true, CatchUp::Finished) => return Ok(true),
            (true, CatchUp::Unfinished(next)) => pass = next,
        }
    }
}

/// Has PostgreSQL give out numbers behind the highest; SQLite does by itself.
fn number_on(connection: &Connection) -> Result<()> {
    if connection.dialect() == Dialect::Sqlite {
        return Ok(());
    }
    for table in TABLES {
        let Some(column) = table.numbered else { continue };
        let name = table.name;
        connection
            .prepare(&format!(
                "SELECT CAST(setval(pg_get_serial_sequence('{name}', '{column}'), max({column})) AS TEXT)
                 FROM {name} HAVING max({column}) IS NOT NULL"
            ))?
            .exists(())?;
    }
    let agents = connection
        .prepare("SELECT agent_key, turn_floor FROM agents ORDER BY agent_key")?
        .query_map((), |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
    for (key, floor) in agents {
        connection.execute(&format!("CREATE SEQUENCE IF NOT EXISTS segue_turns_{key}"), ())?;
        if floor > 0 {
            connection
                .prepare(&format!("SELECT CAST(setval('segue_turns_{key}', $1) AS TEXT)"))?
                .exists([floor])?;
        }
    }
    Ok(())
}

/// Returns how far the index is.
fn indexed(connection: &Connection) -> Result<Progress> {
    connection
        .prepare(
            "SELECT CAST(coalesce(sum(indexed_seq), 0) AS BIGINT), CAST(coalesce(sum(last_seq), 0) AS BIGINT)
             FROM thread_heads WHERE updated_at IS NOT NULL",
        )?
        .query_row((), |row| {
            let (done, total): (i64, i64) = (row.get(0)?, row.get(1)?);
            Ok(Progress { step: Step::Index, done: done.unsigned_abs(), total: total.unsigned_abs() })
        })
}
