//! Rows of durable facts: proposals, decisions, and lists. The text of a proposal and the note in agent.md are the business of
//! the `memory` crate.

use protocol::{FactId, MessageRole, ThreadId};

use crate::engines::sql::{SqlConnection, SqlRow};
use crate::tables::columns::{encode_counter, encode_time, read_column, read_counter, read_optional_column};
use crate::tables::threads::{self, projects};
use crate::tables::{check_page_limit, not_found};
use crate::{
    Error, FactDecision, FactProposal, FactQuery, FactScope, FactState, MemoryFact, Result, comparison_key,
};

/// The columns that [`read_fact`] reads.
const COLUMNS: &str =
    "f.fact_id, f.agent_id, f.kind, f.text, f.quote, f.seq, f.role, f.summary_id, f.replaces, f.state,
    f.decided_text, f.decided_at, f.note_pending, f.created_at,
    (SELECT j.path FROM projects j WHERE j.project_key = f.project_key) AS project,
    (SELECT h.thread_id FROM thread_heads h WHERE h.thread_key = f.thread_key) AS thread_id";

/// Stores a proposed fact, unless an earlier fact of the agent with the same text has its project or none.
///
/// # Errors
/// [`Error::NotFound`] if the source thread does not exist, [`Error::Conflict`] if it belongs to another agent.
pub(crate) fn propose(db: &SqlConnection, fact: &FactProposal) -> Result<()> {
    let (agent_id, thread_id) = (fact.agent_id.as_str(), fact.source.thread_id);
    let (thread_key, project_key) = source_thread(db, agent_id, thread_id)?;
    let project_key = match fact.scope {
        FactScope::Project => project_key,
        FactScope::Personal => projects::PERSONAL_KEY,
    };
    let text_key = comparison_key(&fact.text);
    let is_known = db
        .prepare(
            "SELECT 1 FROM memory_facts WHERE agent_id = $1 AND text_key = $2 AND project_key IN ($3, $4)
                 AND state <> 'superseded' LIMIT 1",
        )?
        .exists((agent_id, &text_key, project_key, projects::PERSONAL_KEY))?;
    if is_known {
        return Ok(());
    }
    db.prepare(
        "INSERT INTO memory_facts (fact_id, agent_id, project_key, kind, text, text_key, quote, thread_key, seq, role,
             summary_id, replaces, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT DO NOTHING",
    )?
    .execute_deferred((
        fact.fact_id.to_string(),
        agent_id,
        project_key,
        fact.kind.as_str(),
        &fact.text,
        &text_key,
        &fact.quote,
        thread_key,
        encode_counter(fact.source.seq),
        role_name(fact.source.role),
        fact.summary_id.to_string(),
        &fact.replaces,
        encode_time(fact.created_at),
    ))
}

/// Returns the keys of the source thread and of its project.
fn source_thread(db: &SqlConnection, agent_id: &str, thread_id: ThreadId) -> Result<(i64, i64)> {
    let (thread_key, project_key, owner): (i64, i64, String) = db
        .prepare(
            "SELECT thread_key, project_key, assistant_id FROM thread_heads
             WHERE thread_id = $1 AND updated_at IS NOT NULL",
        )?
        .query_optional([thread_id.to_string()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .ok_or_else(|| not_found("thread", &thread_id))?;
    match owner == agent_id {
        true => Ok((thread_key, project_key)),
        false => Err(Error::Conflict { what: "thread of a fact", id: thread_id.to_string() }),
    }
}

/// Returns the name of the role in the database, as `turn_log` has it.
const fn role_name(role: MessageRole) -> &'static str {
    match role {
        MessageRole::User => "user",
        MessageRole::Assistant => "assistant",
    }
}

/// Changes the state of a fact that has the expected state. See [`FactDecision`] for the mark of a pending note.
///
/// # Errors
/// [`Error::InvalidRequest`] if the change is not allowed, [`Error::Conflict`] if the fact has another state,
/// [`Error::NotFound`] if it does not exist.
pub(crate) fn decide(db: &SqlConnection, decision: &FactDecision) -> Result<()> {
    let FactDecision { fact_id, from, to, text, at } = decision;
    if !from.can_become(*to) {
        let reason = format!("a fact that is {} cannot become {}", from.as_str(), to.as_str());
        return Err(Error::InvalidRequest { what: "a decision on a fact", reason });
    }
    let id = fact_id.to_string();
    let is_undone = *to == FactState::Proposed;
    // A decision that is confirmed keeps its time.
    let decided_at = (from != to).then(|| encode_time(*at));
    let is_note_pending = from != to && matches!(to, FactState::Accepted | FactState::Edited);
    let needs_pending_note = is_undone || from == to;
    let changed = db
        .prepare(
            "UPDATE memory_facts SET state = $2, note_pending = $7,
                 decided_text = CASE WHEN CAST($6 AS BIGINT) = 1 THEN NULL
                     ELSE coalesce(CAST($3 AS TEXT), decided_text) END,
                 decided_at = CASE WHEN CAST($6 AS BIGINT) = 1 THEN NULL
                     ELSE coalesce(CAST($4 AS TEXT), decided_at) END
             WHERE fact_id = $1 AND state = $5 AND note_pending >= $8",
        )?
        .execute((
            &id,
            to.as_str(),
            text,
            decided_at,
            from.as_str(),
            i64::from(is_undone),
            i64::from(is_note_pending),
            i64::from(needs_pending_note),
        ))?;
    match changed {
        1 => Ok(()),
        _ if find(db, *fact_id)?.is_some() => Err(Error::Conflict { what: "decision on fact", id }),
        _ => Err(not_found("fact", fact_id)),
    }
}

/// Returns the fact with this id, or `None`.
pub(crate) fn find(db: &SqlConnection, fact_id: FactId) -> Result<Option<MemoryFact>> {
    db.prepare(&format!("SELECT {COLUMNS} FROM memory_facts f WHERE f.fact_id = $1"))?
        .query_optional([fact_id.to_string()], read_fact)
}

/// Returns a page of the facts of an agent, oldest first.
pub(crate) fn list(db: &SqlConnection, query: &FactQuery) -> Result<Vec<MemoryFact>> {
    let limit = check_page_limit("facts", query.limit)?;
    let Some(first) = threads::hyphenate_prefix(&query.id_prefix) else { return Ok(Vec::new()) };
    // `g` follows all hex digits and the hyphen, so this is an exclusive upper bound.
    let end = format!("{first}g");
    let project_key = projects::scope_key(db, &query.project)?;
    let states: Vec<String> = query.states.iter().map(|state| format!("'{}'", state.as_str())).collect();
    let of_states = match states.as_slice() {
        [] => String::new(),
        states => format!("AND f.state IN ({})", states.join(", ")),
    };
    let of_pending = if query.is_note_pending { "AND f.note_pending = 1" } else { "" };
    db.prepare(&format!(
        "SELECT {COLUMNS} FROM memory_facts f
         WHERE f.agent_id = $1 AND f.fact_id >= $2 AND f.fact_id < $3
           AND (CAST($4 AS BIGINT) IS NULL OR f.project_key = $4 OR f.project_key = 0) {of_states} {of_pending}
         ORDER BY f.created_at, f.seq, f.fact_id LIMIT $5 OFFSET $6"
    ))?
    .query_map(
        (query.agent_id.as_str(), first, end, project_key, limit, encode_counter(query.offset as u64)),
        read_fact,
    )
}

/// Deletes the undecided facts of a removed summary. The messages are summarized again, and the facts proposed again.
pub(crate) fn delete_undecided_of_summary(db: &SqlConnection, summary_key: i64) -> Result<()> {
    db.prepare(
        "DELETE FROM memory_facts WHERE state = 'proposed'
         AND summary_id = (SELECT s.id FROM summaries s WHERE s.summary_key = $1)",
    )?
    .execute_deferred([summary_key])
}

/// Deletes the undecided facts of a deleted thread, and its words from the decided ones.
pub(crate) fn delete_thread(db: &SqlConnection, thread_key: i64) -> Result<()> {
    db.prepare("DELETE FROM memory_facts WHERE thread_key = $1 AND thread_key > 0 AND state = 'proposed'")?
        .execute_deferred([thread_key])?;
    db.prepare("UPDATE memory_facts SET quote = '', thread_key = 0 WHERE thread_key = $1 AND thread_key > 0")?
        .execute_deferred([thread_key])
}

/// Reads a fact from a row with [`COLUMNS`].
fn read_fact(row: &SqlRow<'_>) -> Result<MemoryFact> {
    Ok(MemoryFact {
        fact_id: read_column(row, "fact_id")?,
        agent_id: read_column(row, "agent_id")?,
        project: row.get("project")?,
        kind: read_column(row, "kind")?,
        text: row.get("text")?,
        quote: row.get("quote")?,
        thread_id: read_optional_column(row, "thread_id")?,
        seq: read_counter(row, "seq")?,
        role: read_column(row, "role")?,
        summary_id: read_column(row, "summary_id")?,
        replaces: row.get("replaces")?,
        state: read_column(row, "state")?,
        decided_text: row.get("decided_text")?,
        decided_at: read_optional_column(row, "decided_at")?,
        is_note_pending: read_counter(row, "note_pending")? == 1,
        created_at: read_column(row, "created_at")?,
    })
}
