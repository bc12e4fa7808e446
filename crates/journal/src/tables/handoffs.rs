//! Handoffs and their proposals. Which status may follow which is not known here; where one stands is checked.

use crate::engines::sql::{Connection, Row, ToValue};
use jiff::Timestamp;
use protocol::{Handoff, HandoffId, HandoffStatus, Proposal, ThreadId};

use super::columns::{json, json_column, stored, stored_option, time};
use super::{not_found, owners, search, threads};
use crate::owned::owner_expression;
use crate::{Error, HandoffFilter, HandoffPatch, Result};

const COLUMNS: &str =
    "handoff_id, assistant_id, parent_thread_id, child_thread_id, status, iteration, goal, run_id,
    options, accepted_sha256, note, created_at, updated_at";

/// Where a handoff goes.
pub(crate) struct Move<'a> {
    pub(crate) handoff_id: HandoffId,
    pub(crate) from: HandoffStatus,
    pub(crate) to: HandoffStatus,
    pub(crate) patch: &'a HandoffPatch,
    pub(crate) at: Timestamp,
}

/// Stores a handoff; the same one stored again changes nothing.
pub(crate) fn create(db: &Connection, handoff: &Handoff) -> Result<()> {
    let head = threads::head(db, handoff.parent_thread_id)?;
    owners::check("a handoff", &handoff.assistant_id, &head.assistant_id)?;
    if let Some(known) = find(db, handoff.handoff_id)? {
        let is_repetition = known.parent_thread_id == handoff.parent_thread_id
            && known.child_thread_id == handoff.child_thread_id
            && known.created_at == handoff.created_at;
        return match is_repetition {
            true => Ok(()),
            false => Err(Error::Differs { what: "handoff", id: handoff.handoff_id.to_string() }),
        };
    }
    if handoff.status.is_pending() {
        refuse_second(db, handoff.parent_thread_id, handoff.handoff_id)?;
    }
    db.prepare(&format!(
        "INSERT INTO handoffs ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"
    ))?
    .send((
        handoff.handoff_id.to_string(),
        handoff.assistant_id.as_str(),
        handoff.parent_thread_id.to_string(),
        handoff.child_thread_id.to_string(),
        handoff.status.as_str(),
        handoff.iteration,
        &handoff.goal,
        handoff.run_id.map(|run_id| run_id.to_string()),
        json(&handoff.options)?,
        &handoff.accepted_sha256,
        &handoff.note,
        time(handoff.created_at),
        time(handoff.updated_at),
    ))
}

/// Moves a handoff that stands where the caller believes.
pub(crate) fn advance(db: &Connection, change: &Move<'_>) -> Result<()> {
    let handoff_id = change.handoff_id;
    let handoff = find(db, handoff_id)?.ok_or_else(|| not_found("handoff", &handoff_id))?;
    if handoff.status != change.from {
        return Err(Error::HandoffMoved { handoff_id, status: handoff.status });
    }
    if change.to.is_pending() {
        refuse_second(db, handoff.parent_thread_id, handoff_id)?;
    }
    db.prepare(
        "UPDATE handoffs SET status = $2, iteration = coalesce($3, iteration), run_id = coalesce($4, run_id),
             accepted_sha256 = coalesce($5, accepted_sha256), note = coalesce($6, note), updated_at = $7
         WHERE handoff_id = $1",
    )?
    .send((
        handoff_id.to_string(),
        change.to.as_str(),
        change.patch.iteration,
        change.patch.run_id.map(|run_id| run_id.to_string()),
        &change.patch.accepted_sha256,
        &change.patch.note,
        time(change.at),
    ))?;
    match change.patch.accepted_sha256 {
        Some(_) => search::texts::mark_handoff(db, handoff_id),
        None => Ok(()),
    }
}

/// Removes a handoff that has no proposal.
pub(crate) fn forget(db: &Connection, handoff_id: HandoffId) -> Result<()> {
    let id = handoff_id.to_string();
    let has_proposal = db.prepare("SELECT 1 FROM proposals WHERE handoff_id = $1 LIMIT 1")?.exists([&id])?;
    if has_proposal {
        return Err(Error::Differs { what: "handoff", id });
    }
    db.prepare("DELETE FROM handoffs WHERE handoff_id = $1")?.send([&id])
}

/// Fails when another handoff of the parent is pending. Both engines refuse it by an index too, but what has failed cannot
/// be asked in the same transaction what it met.
fn refuse_second(db: &Connection, parent_thread_id: ThreadId, own: HandoffId) -> Result<()> {
    let pending: Option<HandoffId> = db
        .prepare(
            "SELECT handoff_id FROM handoffs WHERE parent_thread_id = $1 AND handoff_id <> $2
             AND status IN ('requested', 'drafting', 'awaiting_decision')",
        )?
        .find((parent_thread_id.to_string(), own.to_string()), |row| stored(row, "handoff_id"))?;
    match pending {
        Some(handoff_id) => Err(Error::HandoffPending { parent_thread_id, handoff_id }),
        None => Ok(()),
    }
}

/// Stores a proposal; the same text stored again changes nothing.
pub(crate) fn put_proposal(db: &Connection, proposal: &Proposal) -> Result<()> {
    let handoff_id = proposal.handoff_id;
    if find(db, handoff_id)?.is_none() {
        return Err(not_found("handoff", &handoff_id));
    }
    let stored: Option<String> = db
        .prepare("SELECT summary_md FROM proposals WHERE handoff_id = $1 AND iteration = $2")?
        .find((handoff_id.to_string(), proposal.iteration), |row| row.get(0))?;
    match stored {
        Some(text) if text == proposal.summary_md => return Ok(()),
        Some(_) => {
            let id = format!("{handoff_id} iteration {}", proposal.iteration);
            return Err(Error::Differs { what: "proposal", id });
        }
        None => {}
    }
    db.prepare(
        "INSERT INTO proposals (handoff_id, iteration, summary_json, summary_md, summary_sha256, feedback,
                                created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )?
    .send((
        handoff_id.to_string(),
        proposal.iteration,
        json(&proposal.summary_json)?,
        &proposal.summary_md,
        &proposal.summary_sha256,
        &proposal.feedback,
        time(proposal.created_at),
    ))?;
    search::texts::mark_handoff(db, handoff_id)
}

/// Returns the handoff, or `None`.
pub(crate) fn find(db: &Connection, handoff_id: HandoffId) -> Result<Option<Handoff>> {
    db.prepare(&format!("SELECT {COLUMNS} FROM handoffs WHERE handoff_id = $1"))?
        .find([handoff_id.to_string()], read)
}

/// Returns the handoffs that match, newest first.
pub(crate) fn list(db: &Connection, filter: &HandoffFilter) -> Result<Vec<Handoff>> {
    let mut values: Vec<String> = Vec::new();
    let mut conditions: Vec<String> = Vec::new();
    let owner = owner_expression("assistant_id");
    let equals = [
        (owner.as_str(), owners::of(filter.scope.as_ref()).map(str::to_owned)),
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
        let places: Vec<_> = (first..=values.len()).map(|index| format!("${index}")).collect();
        conditions.push(format!("status IN ({})", places.join(", ")));
    }
    let condition = match conditions.is_empty() {
        true => String::new(),
        false => format!("WHERE {}", conditions.join(" AND ")),
    };
    let limit = filter.limit.map_or_else(String::new, |limit| format!("LIMIT {limit}"));
    let mut statement = db.prepare(&format!(
        "SELECT {COLUMNS} FROM handoffs {condition} ORDER BY created_at DESC, handoff_id DESC {limit}"
    ))?;
    let parameters: Vec<&dyn ToValue> = values.iter().map(|value| value as &dyn ToValue).collect();
    statement.query_map(parameters.as_slice(), read)
}

/// Returns the handoff's proposals in order of iteration.
pub(crate) fn proposals(db: &Connection, handoff_id: HandoffId) -> Result<Vec<Proposal>> {
    let mut statement = db.prepare(
        "SELECT handoff_id, iteration, summary_json, summary_md, summary_sha256, feedback, created_at
         FROM proposals WHERE handoff_id = $1 ORDER BY iteration",
    )?;
    statement.query_map([handoff_id.to_string()], |row| {
        Ok(Proposal {
            handoff_id: stored(row, "handoff_id")?,
            iteration: row.get("iteration")?,
            summary_json: json_column(row, "summary_json")?,
            summary_md: row.get("summary_md")?,
            summary_sha256: row.get("summary_sha256")?,
            feedback: row.get("feedback")?,
            created_at: stored(row, "created_at")?,
        })
    })
}

fn read(row: &Row<'_>) -> Result<Handoff> {
    Ok(Handoff {
        handoff_id: stored(row, "handoff_id")?,
        assistant_id: stored(row, "assistant_id")?,
        parent_thread_id: stored(row, "parent_thread_id")?,
        child_thread_id: stored(row, "child_thread_id")?,
        status: stored(row, "status")?,
        iteration: row.get("iteration")?,
        goal: row.get("goal")?,
        run_id: stored_option(row, "run_id")?,
        options: json_column(row, "options")?,
        accepted_sha256: row.get("accepted_sha256")?,
        note: row.get("note")?,
        created_at: stored(row, "created_at")?,
        updated_at: stored(row, "updated_at")?,
    })
}
