//! Completion of a target that has all rows: its sequences continue after the highest number in use, and its search
//! index is built.

use super::databases::DatabaseHandle;
use super::shrink::purge_threads;
use super::tables::{self, TABLES};
use super::{CopyDatabases, CopyPhase, CopyProgress, CopyPurpose, ProgressCallback, copy_marker};
use crate::Result;
use crate::engines::sql::{SqlConnection, SqlDialect};
use crate::tables::search::document_index::{self, DocumentKind};
use crate::tables::search::{IndexBatchResult, IndexPass, index_batch};

/// Advances the sequences, removes the rows that deletions have left in the source, and builds the search index. Returns `false`
/// if it was stopped.
pub(super) fn prepare_target(
    databases: CopyDatabases<'_>,
    purpose: CopyPurpose,
    watch: &mut ProgressCallback,
) -> Result<bool> {
    let CopyDatabases { source, target } = databases;
    let floors = turn_floors(&source.connection()).map_err(|error| source.classify_error(error))?;
    target.write_transaction(|connection| {
        floors.iter().try_for_each(|(agent_key, floor)| raise_turn_floor(connection, *agent_key, *floor))?;
        advance_sequences(connection)
    })?;
    purge_threads(target)?;
    // Summaries and items are indexed here, because only their own writes index them. Messages and handoffs are
    // indexed by the index update.
    for kind in [DocumentKind::Summary, DocumentKind::Item] {
        let mut last_key = 0;
        while let Some(next_key) =
            target.write_transaction(|connection| document_index::index_after(connection, kind, last_key))?
        {
            last_key = next_key;
        }
    }
    match purpose {
        CopyPurpose::Migration => update_index(target, watch),
        CopyPurpose::Backup => Ok(true),
    }
}

/// Removes the copy marker, after which the target can be used. From then on, its rows survive a power failure.
pub(super) fn mark_complete(target: &DatabaseHandle) -> Result<()> {
    // Checkpoint before the marker is removed: if the disk is full, the target stays unusable.
    target.checkpoint_wal()?;
    target.write_transaction(|connection| {
        if connection.dialect() == SqlDialect::Postgres {
            // This transaction waits for the disk, and so makes all earlier asynchronous commits durable.
            connection.prepare("SELECT set_config('synchronous_commit', 'on', true)")?.exists(())?;
            for table in TABLES {
                connection.execute(&format!("ANALYZE {}", table.name), ())?;
            }
        }
        copy_marker::end_copy(connection)
    })?;
    target.checkpoint_wal()
}

/// Clears the search index, so that it is built again from all rows.
pub(super) fn clear_index(target: &DatabaseHandle) -> Result<()> {
    target.write_transaction(|connection| {
        let sql = match connection.dialect() {
            SqlDialect::Sqlite => "INSERT INTO search_index (search_index) VALUES ('delete-all')",
            SqlDialect::Postgres => "DELETE FROM search_index",
        };
        connection.execute(sql, ())?;
        connection.execute("UPDATE thread_heads SET indexed_seq = 0 WHERE indexed_seq > 0", ())?;
        connection.execute("UPDATE handoff_index SET is_due = 1 WHERE is_due = 0", ()).map(|_| ())
    })
}

/// Returns each agent with the highest message index that it ever had.
fn turn_floors(connection: &SqlConnection) -> Result<Vec<(i64, i64)>> {
    connection
        .prepare(&tables::turn_floors_sql(connection.dialect()))?
        .query_map((), |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Raises the highest message index of an agent, unless it is higher already.
fn raise_turn_floor(connection: &SqlConnection, agent_key: i64, floor: i64) -> Result<()> {
    connection
        .prepare("UPDATE agents SET turn_floor = $2 WHERE agent_key = $1 AND turn_floor < $2")?
        .execute_deferred((agent_key, floor))
}

/// Indexes messages and handoffs. Returns `false` if it was stopped.
fn update_index(target: &DatabaseHandle, watch: &mut ProgressCallback) -> Result<bool> {
    let mut pass = IndexPass::default();
    loop {
        let batch = target.write_transaction(|connection| index_batch(connection, pass))?;
        let progress = target.write_transaction(index_progress)?;
        match (watch(&progress).is_continue(), batch) {
            (false, _) => return Ok(false),
            (true, IndexBatchResult::Finished) => return Ok(true),
            (true, IndexBatchResult::Unfinished(next)) => pass = next,
        }
    }
}

/// Advances the sequences of PostgreSQL past the highest number in use. SQLite does this by itself.
fn advance_sequences(connection: &SqlConnection) -> Result<()> {
    if connection.dialect() == SqlDialect::Sqlite {
        return Ok(());
    }
    for table in TABLES {
        let Some(column) = table.sequence_column else { continue };
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

/// Returns the progress of the index.
fn index_progress(connection: &SqlConnection) -> Result<CopyProgress> {
    connection
        .prepare(
            "SELECT CAST(coalesce(sum(indexed_seq), 0) AS BIGINT), CAST(coalesce(sum(last_seq), 0) AS BIGINT)
             FROM thread_heads WHERE updated_at IS NOT NULL",
        )?
        .query_row((), |row| {
            let (done, total): (i64, i64) = (row.get(0)?, row.get(1)?);
            Ok(CopyProgress {
                step: CopyPhase::Index,
                done: done.unsigned_abs(),
                total: total.unsigned_abs(),
            })
        })
}
