//! Claiming of unowned runs: running runs whose process is gone, and queued runs whose process is gone. The caller
//! decides what happens with them.

use std::borrow::Cow;

use protocol::{Run, RunId, RunStatus};

use super::{COLUMNS, read_run};
use crate::engines::sql::{SqlConnection, SqlDialect, SqlValue, ToSqlValue};
use crate::tables::columns::{compact_timestamp, encode_counter, read_column};
use crate::{Result, RunClaim, UnclaimedRunsQuery};

/// Returns unowned runs, active ones first, each oldest first. Runs in threads of sub-agents are left out, because the run that
/// started the sub-agent resumes them.
pub(crate) fn list_unclaimed(db: &SqlConnection, query: &UnclaimedRunsQuery) -> Result<Vec<Run>> {
    let (now, limit) = (compact_timestamp(query.now), encode_counter(query.limit as u64));
    let mut parameters: Vec<&dyn ToSqlValue> = vec![&now, &limit];
    parameters.extend(query.dead_owners.iter().map(|owner| owner as &dyn ToSqlValue));
    db.prepare(&unclaimed_sql(query.dead_owners.len()))?.query_map(parameters.as_slice(), read_run)
}

/// Returns the statement for unowned runs: active ones and then queued ones. It is one statement because every process executes
/// it once a second.
fn unclaimed_sql(dead_owners: usize) -> String {
    let dead_owners = placeholders(3, dead_owners);
    let list = |status: RunStatus, position: u32| {
        let (name, condition) = (status.as_str(), unclaimed_condition(status, &dead_owners));
        format!(
            "SELECT * FROM (SELECT {COLUMNS}, {position} AS position
             FROM runs r JOIN thread_heads h ON h.thread_key = r.thread_key
             WHERE {condition} AND h.in_subagent = 0 ORDER BY r.created_at, r.run_id LIMIT $2) AS {name}_runs"
        )
    };
    let (active, queued) = (list(RunStatus::Running, 1), list(RunStatus::Pending, 2));
    format!("{active} UNION ALL {queued} ORDER BY position, created_at, run_id")
}

/// Claims those of the runs that are still unowned, and returns them as they were before. Runs that another process
/// is claiming are skipped.
pub(crate) fn claim_runs(db: &SqlConnection, claim: &RunClaim) -> Result<Vec<Run>> {
    let (now, lease_until) = (compact_timestamp(claim.now), compact_timestamp(claim.lease_until));
    let dead_owners = placeholders(3, claim.dead_owners.len());
    let mut claimed = Vec::new();
    for run_id in &lock_runs(db, &claim.run_ids)? {
        for status in [RunStatus::Running, RunStatus::Pending] {
            let id: &RunId = run_id;
            let id = id.uuid();
            let bytes = id.as_bytes();
            let mut parameters: Vec<&dyn ToSqlValue> = vec![&now, bytes];
            parameters.extend(claim.dead_owners.iter().map(|owner| owner as &dyn ToSqlValue));
            let sql = format!(
                "SELECT {COLUMNS} FROM runs r JOIN thread_heads h ON h.thread_key = r.thread_key
                 WHERE r.run_id = $2 AND {}",
                unclaimed_condition(status, &dead_owners)
            );
            let Some(run) = db.prepare(&sql)?.query_optional(parameters.as_slice(), read_run)? else {
                continue;
            };
            // A queued run has no lease.
            let lease_until = Some(&lease_until).filter(|_| status == RunStatus::Running);
            db.execute(
                "UPDATE runs SET lease_owner = $2, lease_until = $3 WHERE run_id = $1",
                (bytes, &claim.owner, lease_until),
            )?;
            claimed.push(run);
        }
    }
    Ok(claimed)
}

/// Locks the rows of the runs on PostgreSQL, and returns those of the runs that no other transaction has locked. Their owners are
/// read by later statements: a statement that locks a row after another transaction has changed it sees the changed
/// row, but not the heartbeat of the same transaction.
fn lock_runs(db: &SqlConnection, run_ids: &[RunId]) -> Result<Vec<RunId>> {
    match db.dialect() {
        SqlDialect::Sqlite => Ok(run_ids.to_vec()),
        SqlDialect::Postgres => {
            let ids = run_ids.iter().map(|run_id| Some(Cow::Owned(run_id.uuid().as_bytes().to_vec())));
            let locked = db
                .prepare(
                    "SELECT run_id FROM runs WHERE run_id = ANY(CAST($1 AS bytea[])) FOR UPDATE SKIP LOCKED",
                )?
                .query_map([SqlValue::Blobs(ids.collect())], |row| read_column::<RunId>(row, "run_id"))?;
            Ok(run_ids.iter().copied().filter(|run_id| locked.contains(run_id)).collect())
        }
    }
}

/// Removes the owner of all runs that are queued for a process.
pub(crate) fn release_runs(db: &SqlConnection, owner: &str) -> Result<()> {
    let sql = "UPDATE runs SET lease_owner = NULL WHERE status = 'pending' AND lease_owner = $1";
    db.execute(sql, [owner])?;
    Ok(())
}

/// Returns the SQL condition that a run with this status is unowned at the time `$1`. `dead_owners` is the list of
/// parameters with the owners that are known to be gone. The status is a literal, because SQLite uses the partial
/// index for the status only if it can see it.
fn unclaimed_condition(status: RunStatus, dead_owners: &str) -> String {
    let is_expired = if status == RunStatus::Pending {
        "NOT EXISTS (SELECT 1 FROM replicas p WHERE p.owner = r.lease_owner AND p.alive_until >= $1)"
    } else {
        "r.lease_until < $1"
    };
    let (status, has_dead_owner) = (status.as_str(), format!("r.lease_owner IN ({dead_owners})"));
    let has_dead_owner = if dead_owners.is_empty() { "FALSE" } else { &has_dead_owner };
    format!("r.status = '{status}' AND (r.lease_owner IS NULL OR {is_expired} OR {has_dead_owner})")
}

/// Returns a list of `count` parameters, numbered from `first`.
fn placeholders(first: usize, count: usize) -> String {
    let all: Vec<String> = (first..first + count).map(|number| format!("${number}")).collect();
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::query_plan;

    #[test]
    fn unowned_runs_are_found_from_indexes() {
        for dead_owners in [0, 2] {
            let plan = query_plan(&unclaimed_sql(dead_owners));
            assert!(plan.iter().all(|step| !step.contains("SCAN h")), "{plan:#?}");
            let indexed = plan.iter().filter(|step| step.contains("USING INDEX runs_"));
            assert_eq!(indexed.count(), 2, "{plan:#?}");
        }
    }
}
