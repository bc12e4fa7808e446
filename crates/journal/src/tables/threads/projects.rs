//! Projects: the repository or folder that a thread is about. A summary has the project of the threads whose messages
//! it covers. The paths come from the caller; no folder is read here.

use protocol::ThreadId;

use crate::engines::postgres::locks;
use crate::engines::sql::{SqlConnection, SqlDialect};
use crate::tables::threads;
use crate::{ProjectScope, Result};

/// The key of a thread or summary without a project.
pub(crate) const PERSONAL_KEY: i64 = 0;
/// A key that no project has.
const UNKNOWN_KEY: i64 = -1;

/// Stores a project that is not stored yet, and keeps it until the transaction ends: the last thread of the project may be
/// deleted at the same time.
pub(crate) fn ensure_project(db: &SqlConnection, path: Option<&str>) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let sql = match db.dialect() {
        SqlDialect::Sqlite => "INSERT INTO projects (path) VALUES ($1) ON CONFLICT DO NOTHING",
        // The lock is shared by all that create threads. Only a deletion waits for it.
        SqlDialect::Postgres => {
            "WITH known AS (SELECT 1 FROM projects WHERE path = CAST($1 AS TEXT) FOR KEY SHARE)
             INSERT INTO projects (path) SELECT CAST($1 AS TEXT) WHERE NOT EXISTS (SELECT 1 FROM known) ON CONFLICT DO NOTHING"
        }
    };
    db.prepare(sql)?.execute_deferred([path])
}

/// Moves a thread to a project.
pub(crate) fn set_thread_project(db: &SqlConnection, thread_id: ThreadId, path: &str) -> Result<()> {
    ensure_project(db, Some(path))?;
    db.prepare(
        "UPDATE thread_heads SET project_key = (SELECT j.project_key FROM projects j WHERE j.path = $2)
         WHERE thread_id = $1",
    )?
    .execute_deferred((thread_id.to_string(), path))
}

/// Returns the key of the only project in the scope; `None` if every project is in it.
pub(crate) fn scope_key(db: &SqlConnection, scope: &ProjectScope) -> Result<Option<i64>> {
    let key = match scope {
        ProjectScope::Any => return Ok(None),
        ProjectScope::Personal => Some(PERSONAL_KEY),
        ProjectScope::Project(path) => db
            .prepare("SELECT project_key FROM projects WHERE path = $1")?
            .query_optional([path.as_str()], |row| row.get(0))?,
        ProjectScope::OfThread(thread_id) => db
            .prepare("SELECT project_key FROM thread_heads WHERE thread_id = $1")?
            .query_optional([thread_id.to_string()], |row| row.get(0))?,
    };
    Ok(Some(key.unwrap_or(UNKNOWN_KEY)))
}

/// Returns the folders that an earlier version recorded for threads and whose projects are not known yet.
pub(crate) fn unresolved_folders(db: &SqlConnection) -> Result<Vec<String>> {
    db.prepare("SELECT path FROM projects WHERE is_resolved = 0 ORDER BY project_key")?
        .query_map((), |row| row.get(0))
}

/// Replaces a recorded folder by its project, in all threads, summaries and facts. A folder that is resolved already stays
/// as it is, so the write may be repeated.
pub(crate) fn resolve_folder(db: &SqlConnection, folder: &str, project: &str) -> Result<()> {
    let unresolved: Option<i64> = db
        .prepare("SELECT project_key FROM projects WHERE path = $1 AND is_resolved = 0")?
        .query_optional([folder], |row| row.get(0))?;
    let Some(key) = unresolved else { return Ok(()) };
    if folder == project {
        db.execute("UPDATE projects SET is_resolved = 1 WHERE project_key = $1", [key])?;
        return Ok(());
    }
    ensure_project(db, Some(project))?;
    for table in ["thread_heads", "summaries", "memory_facts"] {
        db.prepare(&format!(
            "UPDATE {table} SET project_key = (SELECT j.project_key FROM projects j WHERE j.path = $2)
             WHERE project_key = $1"
        ))?
        .execute_deferred((key, project))?;
    }
    db.execute("DELETE FROM projects WHERE project_key = $1", [key]).map(|_| ())
}

/// Deletes a project to which nothing belongs any more, so that its path is not kept. Called after a thread of the project was
/// deleted.
pub(crate) fn delete_if_unused(db: &SqlConnection, project_key: i64) -> Result<()> {
    if project_key == PERSONAL_KEY {
        return Ok(());
    }
    if db.dialect() == SqlDialect::Postgres {
        if db.prepare(LOCK_REMAINING_THREAD_SQL)?.exists([project_key])? {
            return Ok(());
        }
        threads::acquire_locks(db, vec![locks::PROJECT_LOCK])?;
        // Waits for threads that are created in the project. The deletion, a statement of its own, sees them then.
        db.prepare("SELECT 1 FROM projects WHERE project_key = $1 FOR UPDATE")?.exists([project_key])?;
    }
    db.execute(DELETE_UNUSED_SQL, [project_key]).map(|_| ())
}

/// Locks a thread of the project `$1` that nobody is deleting, so that the project is in use until the transaction ends. A later
/// deletion of that thread sees what this transaction has deleted. The row of the project is not locked, because all
/// threads that are created in the project would wait for it. Locked threads are skipped, so the statement itself does not wait. Writes to the locked
/// thread wait until this transaction ends.
const LOCK_REMAINING_THREAD_SQL: &str =
    "SELECT 1 FROM thread_heads WHERE project_key = $1 AND project_key > 0
    ORDER BY thread_key DESC LIMIT 1 FOR KEY SHARE SKIP LOCKED";

/// Deletes the project `$1` unless a thread, a summary or a fact belongs to it.
const DELETE_UNUSED_SQL: &str = "DELETE FROM projects WHERE project_key = $1
    AND NOT EXISTS (SELECT 1 FROM thread_heads h WHERE h.project_key = $1 AND h.project_key > 0)
    AND NOT EXISTS (SELECT 1 FROM summaries s WHERE s.project_key = $1 AND s.project_key > 0)
    AND NOT EXISTS (SELECT 1 FROM memory_facts f WHERE f.project_key = $1 AND f.project_key > 0)";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::query_plan;

    #[test]
    fn an_unused_project_is_found_from_indexes() {
        let plan = query_plan(DELETE_UNUSED_SQL);
        assert!(
            plan.iter()
                .all(|step| !step.contains("SCAN h") && !step.contains("SCAN s") && !step.contains("SCAN f")),
            "{plan:#?}"
        );
    }
}
