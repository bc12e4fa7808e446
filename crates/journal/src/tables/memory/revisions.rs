//! Rows of the revisions of the notes in agent.md. The file itself is not read here.

use crate::engines::sql::{SqlConnection, SqlRow};
use crate::tables::check_page_limit;
use crate::tables::columns::{encode_counter, encode_time, read_column, read_counter};
use crate::{NOTES_REVISIONS_MAX, NotesRevision, NotesRevisionQuery, NotesRevisionRecord, Result};

/// Records a revision, unless its notes equal those of the newest one, and deletes the oldest beyond the maximum.
pub(crate) fn record(db: &SqlConnection, revision: &NotesRevisionRecord) -> Result<()> {
    let agent_id = revision.agent_id.as_str();
    let sha256 = protocol::sha256_hex(&revision.notes);
    let newest: Option<(i64, String)> = db
        .prepare(
            "SELECT number, sha256 FROM memory_revisions WHERE agent_id = $1 ORDER BY number DESC LIMIT 1",
        )?
        .query_optional([agent_id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let number = match newest {
        Some((_, newest_sha256)) if newest_sha256 == sha256 => return Ok(()),
        Some((number, _)) => number + 1,
        None => 1,
    };
    db.prepare(
        "INSERT INTO memory_revisions (agent_id, number, cause, sha256, notes, block_offset, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )?
    .execute_deferred((
        agent_id,
        number,
        revision.cause.as_str(),
        &sha256,
        &revision.notes,
        revision.block_offset.map(encode_counter),
        encode_time(revision.at),
    ))?;
    db.prepare("DELETE FROM memory_revisions WHERE agent_id = $1 AND number <= $2")?
        .execute_deferred((agent_id, number - encode_counter(NOTES_REVISIONS_MAX)))
}

/// Returns a page of the revisions of an agent's notes, newest first.
pub(crate) fn list(db: &SqlConnection, query: &NotesRevisionQuery) -> Result<Vec<NotesRevision>> {
    let limit = check_page_limit("revisions of agent.md", query.limit)?;
    let before = query.before.map_or(i64::MAX, encode_counter);
    db.prepare(
        "SELECT number, cause, sha256, notes, block_offset, created_at FROM memory_revisions
         WHERE agent_id = $1 AND number < $2 ORDER BY number DESC LIMIT $3",
    )?
    .query_map((query.agent_id.as_str(), before, limit), read_revision)
}

/// Reads a revision from a row.
fn read_revision(row: &SqlRow<'_>) -> Result<NotesRevision> {
    let block_offset: Option<i64> = row.get("block_offset")?;
    Ok(NotesRevision {
        number: read_counter(row, "number")?,
        cause: read_column(row, "cause")?,
        sha256: row.get("sha256")?,
        notes: row.get("notes")?,
        block_offset: block_offset.map(i64::unsigned_abs),
        created_at: read_column(row, "created_at")?,
    })
}
