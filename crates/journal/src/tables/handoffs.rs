//! Rows of handoffs and their proposals. `handoff::lifecycle` decides which status may follow which; here the current
//! status is only compared with the expected one.

use crate::engines::sql::{SqlConnection, SqlRow, ToSqlValue};
use jiff::Timestamp;
use protocol::{Handoff, HandoffId, HandoffStatus, Proposal, ThreadId};

use super::columns::{encode_json, encode_time, read_column, read_json_column, read_optional_column};
use super::{not_found, owners, search, threads};
use crate::ownership::owner_sql_expression;
use crate::{Error, HandoffFilter, HandoffPatch, Result};

/// The columns that [`read_handoff`] reads.
const COLUMNS: &str =
    "handoff_id, assistant_id, parent_thread_id, child_thread_id, status, iteration, goal, run_id,
    options, accepted_sha256, note, created_at, updated_at";

/// A change of a handoff's status.
pub(crate) struct HandoffTransition<'a> {
    /// The handoff.
    pub(crate) handoff_id: HandoffId,
    /// The status that the handoff must have.
    pub(crate) from: HandoffStatus,
    /// The new status.
    pub(crate) to: HandoffStatus,
    /// Further changes.
    pub(crate) patch: &'a HandoffPatch,
    /// The time of the change.
    pub(crate) at: Timestamp,
}

/// Inserts a handoff. Inserting the same handoff again changes nothing.
///
/// # Errors
/// [`Error::Conflict`] if another handoff has the id, [`Error::HandoffPending`] if the parent thread has another
/// pending handoff.
pub(crate) fn create(db: &SqlConnection, handoff: &Handoff) -> Result<()> {
    let head = threads::load_head(db, handoff.parent_thread_id)?;
    owners::check_owner("a handoff", &handoff.assistant_id, &head.assistant_id)?;
    if let Some(stored) = find(db, handoff.handoff_id)? {
        let is_repetition = stored.parent_thread_id == handoff.parent_thread_id
            && stored.child_thread_id == handoff.child_thread_id
            && stored.created_at == handoff.created_at;
        return match is_repetition {
            true => Ok(()),
            false => Err(Error::Conflict { what: "handoff", id: handoff.handoff_id.to_string() }),
        };
    }
    if handoff.status.is_pending() {
        check_none_pending(db, handoff.parent_thread_id, handoff.handoff_id)?;
    }
    db.prepare(&format!(
        "INSERT INTO handoffs ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"
    ))?
    .execute_deferred((
        handoff.handoff_id.to_string(),
        handoff.assistant_id.as_str(),
        handoff.parent_thread_id.to_string(),
        handoff.child_thread_id.to_string(),
        handoff.status.as_str(),
        handoff.iteration,
        &handoff.goal,
        handoff.run_id.map(|run_id| run_id.to_string()),
        encode_json(&handoff.options)?,
        &handoff.accepted_sha256,
        &handoff.note,
        encode_time(handoff.created_at),
        encode_time(handoff.updated_at),
    ))
}

/// Changes the status of a handoff whose current status is the expected one.
///
/// # Errors
/// [`Error::HandoffStatusChanged`] if the handoff has another status, [`Error::HandoffPending`] if the new status is
/// pending and the parent thread has another pending handoff.
pub(crate) fn transition(db: &SqlConnection, change: &HandoffTransition<'_>) -> Result<()> {
    let handoff_id = change.handoff_id;
    let handoff = find(db, handoff_id)?.ok_or_else(|| not_found("handoff", &handoff_id))?;
    if handoff.status != change.from {
        return Err(Error::HandoffStatusChanged { handoff_id, status: handoff.status });
    }
    if change.to.is_pending() {
        check_none_pending(db, handoff.parent_thread_id, handoff_id)?;
    }
    db.prepare(
        "UPDATE handoffs SET status = $2, iteration = coalesce($3, iteration), run_id = coalesce($4, run_id),
             accepted_sha256 = coalesce($5, accepted_sha256), note = coalesce($6, note), updated_at = $7
         WHERE handoff_id = $1",
    )?
    .execute_deferred((
        handoff_id.to_string(),
        change.to.as_str(),
        change.patch.iteration,
        change.patch.run_id.map(|run_id| run_id.to_string()),
        &change.patch.accepted_sha256,
        &change.patch.note,
        encode_time(change.at),
    ))?;
    match change.patch.accepted_sha256 {
        Some(_) => search::document_index::mark_handoff_stale(db, handoff_id),
        None => Ok(()),
    }
}

/// Deletes a handoff that has no proposal.
///
/// # Errors
/// [`Error::Conflict`] if the handoff has a proposal.
pub(crate) fn delete_without_proposal(db: &SqlConnection, handoff_id: HandoffId) -> Result<()> {
    let id = handoff_id.to_string();
    let has_proposal = db.prepare("SELECT 1 FROM proposals WHERE handoff_id = $1 LIMIT 1")?.exists([&id])?;
    if has_proposal {
        return Err(Error::Conflict { what: "handoff", id });
    }
    db.prepare("DELETE FROM handoffs WHERE handoff_id = $1")?.execute_deferred([&id])
}

/// Fails if another handoff of the parent thread is pending. A unique index of both engines enforces this too, but
/// after a failed statement the transaction cannot query which handoff is pending.
fn check_none_pending(db: &SqlConnection, parent_thread_id: ThreadId, handoff_id: HandoffId) -> Result<()> {
    let pending: Option<HandoffId> = db
        .prepare(
            "SELECT handoff_id FROM handoffs WHERE parent_thread_id = $1 AND handoff_id <> $2
             AND status IN ('requested', 'drafting', 'awaiting_decision')",
        )?
        .query_optional((parent_thread_id.to_string(), handoff_id.to_string()), |row| {
            read_column(row, "handoff_id")
        })?;
    match pending {
        Some(handoff_id) => Err(Error::HandoffPending { parent_thread_id, handoff_id }),
        None => Ok(()),
    }
}

/// Inserts a proposal. Inserting the same text again changes nothing.
///
/// # Errors
/// [`Error::Conflict`] if the iteration has a proposal with another text.
pub(crate) fn put_proposal(db: &SqlConnection, proposal: &Proposal) -> Result<()> {
    let handoff_id = proposal.handoff_id;
    if find(db, handoff_id)?.is_none() {
        return Err(not_found("handoff", &handoff_id));
    }
    let stored: Option<String> = db
        .prepare("SELECT summary_md FROM proposals WHERE handoff_id = $1 AND iteration = $2")?
        .query_optional((handoff_id.to_string(), proposal.iteration), |row| row.get(0))?;
    match stored {
        Some(text) if text == proposal.package_md => return Ok(()),
        Some(_) => {
            let id = format!("{handoff_id} iteration {}", proposal.iteration);
            return Err(Error::Conflict { what: "proposal", id });
        }
        None => {}
    }
    db.prepare(
        "INSERT INTO proposals (handoff_id, iteration, summary_json, summary_md, summary_sha256, feedback,
                                created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )?
    .execute_deferred((
        handoff_id.to_string(),
        proposal.iteration,
        encode_json(&proposal.summary_json)?,
        &proposal.package_md,
        &proposal.summary_sha256,
        &proposal.feedback,
        encode_time(proposal.created_at),
    ))?;
    search::document_index::mark_handoff_stale(db, handoff_id)
}

/// Returns the handoff with this id, or `None`.
pub(crate) fn find(db: &SqlConnection, handoff_id: HandoffId) -> Result<Option<Handoff>> {
    db.prepare(&format!("SELECT {COLUMNS} FROM handoffs WHERE handoff_id = $1"))?
        .query_optional([handoff_id.to_string()], read_handoff)
}

/// Returns the handoffs that match a filter, newest first.
pub(crate) fn list(db: &SqlConnection, filter: &HandoffFilter) -> Result<Vec<Handoff>> {
    let mut values: Vec<String> = Vec::new();
    let mut conditions: Vec<String> = Vec::new();
    let owner = owner_sql_expression("assistant_id");
    let equals = [
        (owner.as_str(), owners::owner_column_value(filter.scope.as_ref()).map(str::to_owned)),
        ("parent_thread_id", filter.parent_thread_id.map(|id| id.to_string())),
        ("child_thread_id", filter.child_thread_id.map(|id| id.to_string())),
        ("assistant_id", filter.assistant_id.as_ref().map(|id| id.as_str().to_owned())),
    ];
    for (column, value) in equals {
        if let Some(value) = value {
            values.push(value);
            conditions.push(format!("{column} = ${}", values.len()));
        }
    }
    if !filter.statuses.is_empty() {
        let first = values.len() + 1;
        values.extend(filter.statuses.iter().map(|status| status.as_str().to_owned()));
        let placeholders: Vec<_> = (first..=values.len()).map(|index| format!("${index}")).collect();
        conditions.push(format!("status IN ({})", placeholders.join(", ")));
    }
    let condition = match conditions.is_empty() {
        true => String::new(),
        false => format!("WHERE {}", conditions.join(" AND ")),
    };
    let limit = filter.limit.map_or_else(String::new, |limit| format!("LIMIT {limit}"));
    let mut statement = db.prepare(&format!(
        "SELECT {COLUMNS} FROM handoffs {condition} ORDER BY created_at DESC, handoff_id DESC {limit}"
    ))?;
    let parameters: Vec<&dyn ToSqlValue> = values.iter().map(|value| value as &dyn ToSqlValue).collect();
    statement.query_map(parameters.as_slice(), read_handoff)
}

/// Returns the proposals of a handoff in the order of their iterations.
pub(crate) fn proposals(db: &SqlConnection, handoff_id: HandoffId) -> Result<Vec<Proposal>> {
    let mut statement = db.prepare(
        "SELECT handoff_id, iteration, summary_json, summary_md, summary_sha256, feedback, created_at
         FROM proposals WHERE handoff_id = $1 ORDER BY iteration",
    )?;
    statement.query_map([handoff_id.to_string()], |row| {
        Ok(Proposal {
            handoff_id: read_column(row, "handoff_id")?,
            iteration: row.get("iteration")?,
            summary_json: read_json_column(row, "summary_json")?,
            package_md: row.get("summary_md")?,
            summary_sha256: row.get("summary_sha256")?,
            feedback: row.get("feedback")?,
            created_at: read_column(row, "created_at")?,
        })
    })
}

/// Reads a handoff from a row with [`COLUMNS`].
fn read_handoff(row: &SqlRow<'_>) -> Result<Handoff> {
    Ok(Handoff {
        handoff_id: read_column(row, "handoff_id")?,
        assistant_id: read_column(row, "assistant_id")?,
        parent_thread_id: read_column(row, "parent_thread_id")?,
        child_thread_id: read_column(row, "child_thread_id")?,
        status: read_column(row, "status")?,
        iteration: row.get("iteration")?,
        goal: row.get("goal")?,
        run_id: read_optional_column(row, "run_id")?,
        options: read_json_column(row, "options")?,
        accepted_sha256: row.get("accepted_sha256")?,
        note: row.get("note")?,
        created_at: read_column(row, "created_at")?,
        updated_at: read_column(row, "updated_at")?,
    })
}
