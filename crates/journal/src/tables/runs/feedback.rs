//! What people think of runs. Whether a thumb may be given, and what a second one means, is the caller's matter.

use crate::engines::sql::{Connection, Dialect, Row};
use protocol::{Rating, RunFeedback, RunId, ThreadId};

use crate::tables::columns::{instant, stored};
use crate::tables::threads;
use crate::{Error, Result};

/// Stores what a person thinks of a run. One statement, so that of two at the same time both succeed and one row stays.
pub(crate) fn put(db: &Connection, feedback: &RunFeedback) -> Result<()> {
    let head = threads::head(db, feedback.thread_id)?;
    // A run may be forgotten by who does not name its thread.
    let held = match db.dialect() {
        Dialect::Sqlite => "",
        Dialect::Postgres => "FOR KEY SHARE",
    };
    let stored = db
        .prepare(&format!(
            "INSERT INTO run_feedback (thread_key, run_id, user_id, rating, comment, created_at, updated_at)
             SELECT thread_key, run_id, $3, $4, $5, $6, $7 FROM runs WHERE run_id = $2 AND thread_key = $1 {held}
             ON CONFLICT (thread_key, run_id, user_id) DO UPDATE SET rating = excluded.rating,
                 comment = excluded.comment, updated_at = excluded.updated_at"
        ))?
        .execute((
            head.key,
            feedback.run_id.uuid().as_bytes(),
            &feedback.user_id,
            i8::from(feedback.rating),
            &feedback.comment,
            instant(feedback.created_at),
            instant(feedback.updated_at),
        ))?;
    match stored {
        0 => Err(Error::UnknownRun { thread_id: feedback.thread_id, run_id: feedback.run_id }),
        _ => Ok(()),
    }
}

/// Removes what a person thinks of a run; what is not there is as good as removed.
pub(crate) fn remove(db: &Connection, thread_id: ThreadId, run_id: RunId, user_id: &str) -> Result<()> {
    let Some(key) = threads::key(db, thread_id)? else { return Ok(()) };
    db.prepare("DELETE FROM run_feedback WHERE thread_key = $1 AND run_id = $2 AND user_id = $3")?.send((
        key,
        run_id.uuid().as_bytes(),
        user_id,
    ))
}

/// Returns what a person thinks of those of the runs that they said something of, in the order of the runs.
pub(crate) fn list(
    db: &Connection,
    thread_id: ThreadId,
    run_ids: &[RunId],
    user_id: &str,
) -> Result<Vec<RunFeedback>> {
    let Some(key) = threads::key(db, thread_id)? else { return Ok(Vec::new()) };
    let mut statement = db.prepare(
        "SELECT run_id, user_id, rating, comment, created_at, updated_at FROM run_feedback
         WHERE thread_key = $1 AND run_id = $2 AND user_id = $3",
    )?;
    let mut found = Vec::new();
    for run_id in run_ids {
        let of_run = statement.find((key, run_id.uuid().as_bytes(), user_id), |row| read(row, thread_id))?;
        found.extend(of_run);
    }
    Ok(found)
}

fn read(row: &Row<'_>, thread_id: ThreadId) -> Result<RunFeedback> {
    Ok(RunFeedback {
        thread_id,
        run_id: stored(row, "run_id")?,
        user_id: row.get("user_id")?,
        rating: stored::<Rating>(row, "rating")?,
        comment: row.get("comment")?,
        created_at: stored(row, "created_at")?,
        updated_at: stored(row, "updated_at")?,
    })
}
