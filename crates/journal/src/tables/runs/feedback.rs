//! Feedback of people on runs. The caller decides whether feedback is allowed.

use crate::engines::sql::{SqlConnection, SqlDialect, SqlRow};
use protocol::{Rating, RunFeedback, RunId, ThreadId};

use crate::tables::columns::{compact_timestamp, read_column};
use crate::tables::threads;
use crate::{Error, Result};

/// Stores a person's feedback on a run, or replaces it. It is one statement, so two concurrent calls both succeed and
/// leave one row.
///
/// # Errors
/// [`Error::UnknownRun`] if the run does not belong to the thread.
pub(crate) fn put(db: &SqlConnection, feedback: &RunFeedback) -> Result<()> {
    let head = threads::load_head(db, feedback.thread_id)?;
    // A run can be deleted by a transaction that does not lock its thread, so the row of the run is locked here.
    let lock = match db.dialect() {
        SqlDialect::Sqlite => "",
        SqlDialect::Postgres => "FOR KEY SHARE",
    };
    let stored = db
        .prepare(&format!(
            "INSERT INTO run_feedback (thread_key, run_id, user_id, rating, comment, created_at, updated_at)
             SELECT thread_key, run_id, $3, $4, $5, $6, $7 FROM runs WHERE run_id = $2 AND thread_key = $1 {lock}
             ON CONFLICT (thread_key, run_id, user_id) DO UPDATE SET rating = excluded.rating,
                 comment = excluded.comment, updated_at = excluded.updated_at"
        ))?
        .execute((
            head.key,
            feedback.run_id.uuid().as_bytes(),
            &feedback.user_id,
            i8::from(feedback.rating),
            &feedback.comment,
            compact_timestamp(feedback.created_at),
            compact_timestamp(feedback.updated_at),
        ))?;
    match stored {
        0 => Err(Error::UnknownRun { thread_id: feedback.thread_id, run_id: feedback.run_id }),
        _ => Ok(()),
    }
}

/// Deletes a person's feedback on a run. Missing feedback is not an error.
pub(crate) fn remove(db: &SqlConnection, thread_id: ThreadId, run_id: RunId, user_id: &str) -> Result<()> {
    let Some(key) = threads::thread_key(db, thread_id)? else { return Ok(()) };
    db.prepare("DELETE FROM run_feedback WHERE thread_key = $1 AND run_id = $2 AND user_id = $3")?
        .execute_deferred((key, run_id.uuid().as_bytes(), user_id))
}

/// Returns a person's feedback on the given runs, in the order of the runs. Runs without feedback are left out.
pub(crate) fn list(
    db: &SqlConnection,
    thread_id: ThreadId,
    run_ids: &[RunId],
    user_id: &str,
) -> Result<Vec<RunFeedback>> {
    let Some(key) = threads::thread_key(db, thread_id)? else { return Ok(Vec::new()) };
    let mut statement = db.prepare(
        "SELECT run_id, user_id, rating, comment, created_at, updated_at FROM run_feedback
         WHERE thread_key = $1 AND run_id = $2 AND user_id = $3",
    )?;
    let mut all = Vec::new();
    for run_id in run_ids {
        let feedback = statement
            .query_optional((key, run_id.uuid().as_bytes(), user_id), |row| read_feedback(row, thread_id))?;
        all.extend(feedback);
    }
    Ok(all)
}

/// Reads feedback from a row.
fn read_feedback(row: &SqlRow<'_>, thread_id: ThreadId) -> Result<RunFeedback> {
    Ok(RunFeedback {
        thread_id,
        run_id: read_column(row, "run_id")?,
        user_id: row.get("user_id")?,
        rating: read_column::<Rating>(row, "rating")?,
        comment: row.get("comment")?,
        created_at: read_column(row, "created_at")?,
        updated_at: read_column(row, "updated_at")?,
    })
}
