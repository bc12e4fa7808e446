//! Taking runs that nobody works on: cut off with their process, or waiting for one that is gone. What is done with them is
//! not known here.

use protocol::{Run, RunId, RunStatus};

use super::{COLUMNS, read};
use crate::engines::sql::{Connection, Dialect, ToValue};
use crate::tables::columns::{instant, integer};
use crate::{Claim, Result, Unclaimed};

/// Returns runs that nobody works on, oldest first. Those in the threads of sub-agents belong to whoever called these.
pub(crate) fn unclaimed(db: &Connection, query: &Unclaimed) -> Result<Vec<Run>> {
    let (now, limit) = (instant(query.now), integer(query.limit as u64));
    let mut parameters: Vec<&dyn ToValue> = vec![&now, &limit];
    parameters.extend(query.gone.iter().map(|owner| owner as &dyn ToValue));
    let gone = placeholders(3, query.gone.len());
    let mut runs = Vec::new();
    for status in [RunStatus::Running, RunStatus::Pending] {
        let sql = format!(
            "SELECT {COLUMNS} FROM runs r JOIN thread_heads h ON h.thread_key = r.thread_key
             WHERE {} AND h.in_subagent = 0 ORDER BY r.created_at, r.run_id LIMIT $2",
            is_nobodys(status, &gone)
        );
        runs.extend(db.prepare(&sql)?.query_map(parameters.as_slice(), read)?);
    }
    Ok(runs)
}

/// Takes those of the runs that nobody works on still; returns them as they were. One that somebody else is taking is passed
/// over.
pub(crate) fn claim(db: &Connection, claim: &Claim) -> Result<Vec<Run>> {
    let (now, lease_until) = (instant(claim.now), instant(claim.lease_until));
    let gone = placeholders(3, claim.gone.len());
    let lock = match db.dialect() {
        Dialect::Sqlite => "",
        Dialect::Postgres => " FOR UPDATE OF r SKIP LOCKED",
    };
    let mut claimed = Vec::new();
    for run_id in &claim.run_ids {
        for status in [RunStatus::Running, RunStatus::Pending] {
            let id: &RunId = run_id;
            let id = id.uuid();
            let bytes = id.as_bytes();
            let mut parameters: Vec<&dyn ToValue> = vec![&now, bytes];
            parameters.extend(claim.gone.iter().map(|owner| owner as &dyn ToValue));
            let sql = format!(
                "SELECT {COLUMNS} FROM runs r JOIN thread_heads h ON h.thread_key = r.thread_key
                 WHERE r.run_id = $2 AND {}{lock}",
                is_nobodys(status, &gone)
            );
            let Some(run) = db.prepare(&sql)?.find(parameters.as_slice(), read)? else {
                continue;
            };
            // One that waits has no lease.
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

/// Gives up the runs that wait for a process.
pub(crate) fn release(db: &Connection, owner: &str) -> Result<()> {
    let sql = "UPDATE runs SET lease_owner = NULL WHERE status = 'pending' AND lease_owner = $1";
    db.execute(sql, [owner])?;
    Ok(())
}

/// Returns the condition that nobody works on a run of that status: `$1` is the present. The status is in it, as the engine
/// finds the rows through an index of their own only when it knows it.
fn is_nobodys(status: RunStatus, gone: &str) -> String {
    let is_left = if status == RunStatus::Pending {
        "NOT EXISTS (SELECT 1 FROM replicas p WHERE p.owner = r.lease_owner AND p.alive_until >= $1)"
    } else {
        "r.lease_until < $1"
    };
    let (status, is_gone) = (status.as_str(), format!("r.lease_owner IN ({gone})"));
    let is_gone = if gone.is_empty() { "FALSE" } else { &is_gone };
    format!("r.status = '{status}' AND (r.lease_owner IS NULL OR {is_left} OR {is_gone})")
}

/// Returns so many parameters from `first` on.
fn placeholders(first: usize, count: usize) -> String {
    let all: Vec<String> = (first..first + count).map(|number| format!("${number}")).collect();
    all.join(", ")
}
