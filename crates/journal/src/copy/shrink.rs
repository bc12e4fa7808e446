//! Release of the space of deleted rows.

use std::sync::atomic::{AtomicBool, Ordering};

use super::databases::DatabaseHandle;
use super::{JournalLocation, check_copy_complete, run_blocking, tables::TABLES};
use crate::Result;
use crate::engines::sql::SqlConnection;
use crate::tables::search::{PurgeState, purge_step, purge_steps_max};
use crate::tables::threads::purges;

/// Releases the space of deleted rows: a SQLite file becomes smaller and contains no deleted data afterwards; the
/// tables of PostgreSQL reuse the space. Other processes may use the database meanwhile, but writes to a SQLite file
/// must wait.
///
/// # Errors
/// Fails if the database cannot be opened or written. [`crate::Error::Locked`] if another process keeps reading an
/// older snapshot of a file, which keeps the deleted data in the file.
pub async fn shrink(location: JournalLocation) -> Result<()> {
    run_blocking(move || {
        let database = DatabaseHandle::open_source(&location)?;
        let result =
            check_copy_complete(&database.connection(), &database.location()).and_then(
                |()| match &database {
                    // Until the write-ahead log is checkpointed, the deleted data is still in the file.
                    DatabaseHandle::Sqlite(_) => {
                        let purged = purge_threads(&database)
                            .and_then(|()| purge_index(&database.connection(), &AtomicBool::new(false)));
                        // A damaged search index does not prevent that other deleted data leaves the file.
                        let released =
                            database.execute_batch("VACUUM").and_then(|()| database.checkpoint_wal());
                        released.and(purged)
                    }
                    DatabaseHandle::Postgres(_) => {
                        purge_threads(&database)?;
                        let names = TABLES.iter().map(|table| table.name).chain(["search_index"]);
                        names
                            .into_iter()
                            .try_for_each(|name| database.execute_batch(&format!("VACUUM {name}")))
                    }
                },
            );
        result.map_err(|error| database.classify_error(error))
    })
    .await
}

/// Removes the rows of deleted threads that their deletion has left, because its process ended early.
pub(super) fn purge_threads(database: &DatabaseHandle) -> Result<()> {
    let purge_part = || match database {
        // Each statement waits for the writes of other processes. A transaction that reads first would fail instead. A part
        // that is interrupted between two statements is repeated.
        DatabaseHandle::Sqlite(_) => purges::purge_next_part(&database.connection()),
        DatabaseHandle::Postgres(_) => database.write_transaction(purges::purge_next_part),
    };
    while purge_part()? == PurgeState::Incomplete {}
    Ok(())
}

/// Removes the terms of deleted rows from the search index. Each step is a transaction of its own. The rest of an index that
/// other processes change meanwhile is left to them. It ends after the current step if it is stopped.
pub(super) fn purge_index(connection: &SqlConnection, is_stopped: &AtomicBool) -> Result<()> {
    for _ in 0..purge_steps_max(connection)? {
        if is_stopped.load(Ordering::Relaxed) || purge_step(connection)? == PurgeState::Complete {
            return Ok(());
        }
    }
    tracing::warn!("the search index still has words of deleted rows, because another process deletes more");
    Ok(())
}
