//! Row counts, and queries that find rows that contradict each other. Damage of files and servers is detected by
//! their engines. Nothing is repaired here.

use super::columns::read_counter;
use crate::Result;
use crate::engines::sql::SqlConnection;

/// Maximum number of problems that one check reports.
pub(crate) const PROBLEMS_MAX: u32 = 100;

/// Queries for inconsistent rows. Each returns one text for each problem. The events of deleted threads whose purge is pending
/// (`threads::purges`) are no problem.
pub(crate) const CONSISTENCY_QUERIES: &[&str] = &[
    "SELECT 'thread ' || h.thread_id || ' has ' || count(e.seq) || ' events, not ' || (h.last_seq - h.base_seq)
     FROM thread_heads h LEFT JOIN events e ON e.thread_key = h.thread_key AND e.seq > h.base_seq AND e.seq <= h.last_seq
     GROUP BY h.thread_key HAVING count(e.seq) <> h.last_seq - h.base_seq",
    "SELECT 'thread ' || h.thread_id || ' has ' || count(e.seq) || ' copied events, not ' || h.copied_count
     FROM thread_heads h LEFT JOIN events e ON e.thread_key = h.thread_key AND e.seq <= h.base_seq
     WHERE NOT EXISTS (SELECT 1 FROM outbox o WHERE o.kind = 'purge_thread' AND o.key = CAST(h.thread_key AS TEXT))
     GROUP BY h.thread_key HAVING count(e.seq) <> h.copied_count",
    "SELECT 'event row ' || e.event_row || ' is outside its thread' FROM events e
     LEFT JOIN thread_heads h ON h.thread_key = e.thread_key
       AND e.seq <= h.last_seq AND h.updated_at IS NOT NULL
     WHERE h.thread_key IS NULL
       AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.kind = 'purge_thread' AND o.key = CAST(e.thread_key AS TEXT))",
    "SELECT 'thread ' || h.thread_id || ' counts ' || h.message_count || ' messages, not ' || count(e.seq)
     FROM thread_heads h LEFT JOIN events e ON e.thread_key = h.thread_key AND e.category = 'message'
       AND NOT EXISTS (SELECT 1 FROM superseded s WHERE s.thread_key = e.thread_key
                       AND e.seq BETWEEN s.first_seq AND s.last_seq)
     WHERE NOT EXISTS (SELECT 1 FROM outbox o WHERE o.kind = 'purge_thread' AND o.key = CAST(h.thread_key AS TEXT))
     GROUP BY h.thread_key HAVING count(e.seq) <> h.message_count",
    "SELECT 'thread ' || thread_id || ' is half deleted' FROM thread_heads h
     WHERE (h.updated_at IS NOT NULL) <> EXISTS (SELECT 1 FROM threads t WHERE t.thread_key = h.thread_key)",
    "SELECT 'turn ' || t.turn_index || ' of agent ' || coalesce(a.agent_id, CAST(t.agent_key AS TEXT)) || ' has no event' FROM turns t
     LEFT JOIN agents a ON a.agent_key = t.agent_key
     LEFT JOIN events e ON e.event_row = t.event_row AND e.turn_index = t.turn_index
     LEFT JOIN thread_heads h ON h.thread_key = e.thread_key AND h.assistant_id = a.agent_id
     WHERE h.thread_key IS NULL",
    "SELECT 'event row ' || e.event_row || ' refers to turn ' || e.turn_index || ', which does not refer back' FROM events e
     LEFT JOIN thread_heads h ON h.thread_key = e.thread_key
     LEFT JOIN agents a ON a.agent_id = h.assistant_id
     LEFT JOIN turns t ON t.agent_key = a.agent_key AND t.turn_index = e.turn_index AND t.event_row = e.event_row
     WHERE e.turn_index IS NOT NULL AND t.event_row IS NULL
       AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.kind = 'purge_thread' AND o.key = CAST(e.thread_key AS TEXT))",
    "SELECT 'turn ' || t.turn_index || ' of ' || a.agent_id || ' belongs to a missing summary' FROM turns t
     JOIN agents a ON a.agent_key = t.agent_key
     WHERE t.summary_key IS NOT NULL AND t.summary_key NOT IN (SELECT summary_key FROM summaries)",
    "SELECT 'superseded ranges of thread ' || h.thread_id || ' touch at ' || s.first_seq FROM superseded s
     JOIN superseded o ON o.thread_key = s.thread_key AND o.first_seq < s.first_seq AND o.last_seq >= s.first_seq - 1
     JOIN thread_heads h ON h.thread_key = s.thread_key",
    "SELECT 'feedback on run ' || encode(f.run_id, 'hex') || ' is of a run of another thread' FROM run_feedback f
     LEFT JOIN runs r ON r.run_id = f.run_id AND r.thread_key = f.thread_key WHERE r.run_id IS NULL",
    "SELECT 'run ' || encode(r.run_id, 'hex') || ' ends at event ' || r.last_seq || ', after its thread' FROM runs r
     JOIN thread_heads h ON h.thread_key = r.thread_key WHERE r.last_seq > h.last_seq",
    "SELECT 'artifact ' || encode(sha256, 'hex') || ' has no bytes' FROM artifacts
     WHERE sha256 NOT IN (SELECT sha256 FROM artifact_bytes)",
    "SELECT 'the bytes of artifact ' || encode(sha256, 'hex') || ' belong to no thread' FROM artifact_bytes
     WHERE sha256 NOT IN (SELECT sha256 FROM artifacts)",
];

/// Returns the number of threads and the number of events.
pub(crate) fn count_threads_and_events(db: &SqlConnection) -> Result<(u64, u64)> {
    db.prepare(
        "SELECT count(*) AS threads,
             CAST(coalesce(sum(last_seq - base_seq + copied_count), 0) AS BIGINT) AS events
         FROM thread_heads WHERE updated_at IS NOT NULL",
    )?
    .query_row((), |row| Ok((read_counter(row, "threads")?, read_counter(row, "events")?)))
}
