//! Lists of threads: pages, counts and states. Metadata and states are compared here and not in SQL, one thread after
//! another, so that only the threads of the page are held in memory.

use std::ops::ControlFlow;

use crate::engines::sql::{self, SqlConnection, SqlDialect, SqlRow};
use protocol::{Thread, ThreadId, ThreadState, ThreadStateInputs, ThreadStatus};
use serde_json::{Map, Value};

use super::{COLUMNS, read_thread_with_metadata};
use crate::tables::columns::{
    encode_counter, encode_json, read_column, read_counter, read_json_column, read_optional_column,
};
use crate::tables::memory::items::field_filter;
use crate::tables::{check_page_limit, owners};
use crate::{Error, Result, SortDirection, SubagentVisibility, ThreadFilter, ThreadSortKey};

/// Returns a page of threads.
///
/// # Errors
/// [`Error::InvalidRequest`] if the filter has no scope, or its limit is zero or too large.
pub(crate) fn list_threads(db: &SqlConnection, filter: &ThreadFilter) -> Result<Vec<Thread>> {
    check_page_limit("threads", filter.limit)?;
    let mut query = ThreadListQuery::from_filter(db.dialect(), filter)?;
    let (sql, mut skip) = match is_fully_in_sql(filter) {
        true => (query.page_sql(filter), 0),
        false => (query.all_sql(filter), filter.offset),
    };
    let mut statement = db.prepare(&sql)?;
    let mut threads = Vec::new();
    statement.stream_rows(&query.parameters[..], |row| {
        let metadata: Map<String, Value> = read_json_column(row, "metadata")?;
        match (matches_filter(filter, &metadata, read_state(row)?), skip) {
            (false, _) => {}
            (true, 0) => threads.push(read_thread_with_metadata(row, metadata)?),
            (true, _) => skip -= 1,
        }
        Ok(match threads.len() < filter.limit {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        })
    })?;
    Ok(threads)
}

/// Returns the number of threads that match a filter, at most `maximum`.
pub(crate) fn count_threads(db: &SqlConnection, filter: &ThreadFilter, maximum: Option<u64>) -> Result<u64> {
    let mut query = ThreadListQuery::from_filter(db.dialect(), filter)?;
    let maximum = maximum.unwrap_or(u64::MAX);
    if is_fully_in_sql(filter) {
        let sql = query.count_sql(maximum);
        let count: i64 = db.prepare(&sql)?.query_row(&query.parameters[..], |row| row.get(0))?;
        return Ok(count.unsigned_abs());
    }
    let mut statement =
        db.prepare(&format!("SELECT t.metadata, h.status, {STATE_COLUMNS} FROM {FROM}{}", query.sql))?;
    let mut count = 0;
    statement.stream_rows(&query.parameters[..], |row| {
        count += u64::from(matches_filter(filter, &read_json_column(row, "metadata")?, read_state(row)?));
        Ok(match count < maximum {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        })
    })?;
    Ok(count)
}

/// Returns the states of the given threads.
pub(crate) fn thread_states(
    db: &SqlConnection,
    thread_ids: &[ThreadId],
) -> Result<Vec<(ThreadId, ThreadState)>> {
    if thread_ids.is_empty() {
        return Ok(Vec::new());
    }
    check_page_limit("states of threads", thread_ids.len())?;
    let ids: Vec<String> = thread_ids.iter().map(ToString::to_string).collect();
    let mut statement = db.prepare(&format!(
        "SELECT h.thread_id, h.status, {STATE_COLUMNS} FROM {FROM} AND h.thread_id IN ({})",
        db.dialect().json_texts_query("$1")
    ))?;
    statement.query_map([encode_json(&ids)?], |row| Ok((read_column(row, "thread_id")?, read_state(row)?)))
}

/// The tables of a list, with the condition that the thread exists.
const FROM: &str =
    "thread_heads h JOIN threads t ON t.thread_key = h.thread_key WHERE h.updated_at IS NOT NULL";

/// The first table of a list, with the condition that the thread exists.
const FROM_HEADS: &str = "thread_heads h WHERE h.updated_at IS NOT NULL";

/// Facts about a thread's state that are in other tables. They are read only for interrupted threads, of which there
/// are few.
const STATE_COLUMNS: &str = "
    CASE WHEN h.status = 'interrupted' THEN (SELECT r.status FROM checkpoints c JOIN runs r ON r.run_id = c.run_id
        WHERE c.thread_key = h.thread_key) END AS last_run,
    CAST(CASE WHEN h.status = 'interrupted' AND EXISTS (SELECT 1 FROM interrupts i
        WHERE i.thread_id = h.thread_id AND i.status = 'pending') THEN 1 ELSE 0 END AS BIGINT) AS pending_interrupts";

/// Derives the state of a thread from a row with [`STATE_COLUMNS`].
fn read_state(row: &SqlRow<'_>) -> Result<ThreadState> {
    Ok(ThreadState::derive(ThreadStateInputs {
        status: read_column(row, "status")?,
        last_run: read_optional_column(row, "last_run")?,
        has_pending_interrupt: read_counter(row, "pending_interrupts")? > 0,
    }))
}

/// Returns whether the SQL conditions express the whole filter.
fn is_fully_in_sql(filter: &ThreadFilter) -> bool {
    let is_determined_by_status = |state: ThreadState| state.status() != ThreadStatus::Interrupted;
    filter.metadata.is_empty() && filter.state.is_none_or(is_determined_by_status)
}

/// Returns whether a thread that meets the SQL conditions also meets the rest of the filter.
fn matches_filter(filter: &ThreadFilter, metadata: &Map<String, Value>, state: ThreadState) -> bool {
    field_filter::contains_fields(metadata, &filter.metadata)
        && filter.state.is_none_or(|expected| expected == state)
}

/// Returns whether the conditions or the order of a filter need the table `threads`. Without sub-agents, its heads alone have an
/// index by owner and activity.
const fn needs_threads(filter: &ThreadFilter) -> bool {
    filter.assistant_id.is_some()
        || filter.parent_id.is_some()
        || filter.without_metadata_key.is_some()
        || filter.text.is_some()
        || matches!(filter.order.by, ThreadSortKey::Created)
        || matches!(filter.subagents, SubagentVisibility::Shown)
}

/// A query for threads: its SQL conditions and their parameters.
struct ThreadListQuery {
    /// The tables that the conditions name, with the condition that the thread exists.
    tables: &'static str,
    /// Conditions that begin with ` AND `.
    sql: String,
    /// The values of the parameters.
    parameters: Vec<sql::SqlValue<'static>>,
}

impl ThreadListQuery {
    /// Builds the conditions of a filter.
    fn from_filter(dialect: SqlDialect, filter: &ThreadFilter) -> Result<Self> {
        let tables = if needs_threads(filter) { FROM } else { FROM_HEADS };
        let mut query = Self { tables, sql: String::new(), parameters: Vec::new() };
        let Some(scope) = &filter.scope else {
            return Err(Error::InvalidRequest {
                what: "threads",
                reason: "an owner scope is required".to_owned(),
            });
        };
        if let Some(owner) = owners::owner_column_value(Some(scope)) {
            let owner = query.add_parameter(owner.to_owned());
            query.add_condition(&match filter.parent_id {
                None if !needs_threads(filter) => format!("h.owner = {owner}"),
                // Both columns are compared, because one leads the index by activity and the other the index by
                // creation.
                None => format!("h.owner = {owner} AND t.owner = {owner}"),
                // A thread has few children, compared to all threads of the owner.
                Some(_) => format!("{} = {owner}", dialect.without_index("h.owner")),
            });
        }
        if let Some(assistant_id) = &filter.assistant_id {
            let assistant_id = query.add_parameter(assistant_id.to_string());
            query.add_condition(&format!("t.assistant_id = {assistant_id}"));
        }
        if let Some(parent_id) = filter.parent_id {
            let parent_id = query.add_parameter(parent_id.to_string());
            query.add_condition(&format!("t.parent_id = {parent_id}"));
        }
        if filter.subagents == SubagentVisibility::Hidden {
            query.add_condition("h.in_subagent = 0");
        }
        if !filter.ids.is_empty() {
            let ids: Vec<String> = filter.ids.iter().map(ToString::to_string).collect();
            let ids = query.add_parameter(encode_json(&ids)?);
            query.add_condition(&format!("h.thread_id IN ({})", dialect.json_texts_query(&ids)));
        }
        if !filter.statuses.is_empty() {
            let statuses = ThreadStatus::ALL.into_iter().filter(|status| filter.statuses.contains(status));
            let names: Vec<_> = statuses.map(ThreadStatus::as_str).collect();
            query.add_condition(&format!("h.status IN ('{}')", names.join("', '")));
        }
        if let Some(state) = filter.state {
            query.add_condition(&format!("h.status = '{}'", state.status().as_str()));
        }
        if let Some(key) = filter.without_metadata_key {
            query.add_condition(&format!("{} IS NULL", dialect.json_field("t.metadata", key)));
        }
        if let Some(text) = &filter.text {
            query.add_text(text);
        }
        Ok(query)
    }

    /// Adds a parameter and returns its placeholder.
    fn add_parameter(&mut self, value: impl Into<sql::SqlValue<'static>>) -> String {
        self.parameters.push(value.into());
        format!("${}", self.parameters.len())
    }

    /// Adds a condition.
    fn add_condition(&mut self, condition: &str) {
        self.sql.push_str(" AND ");
        self.sql.push_str(condition);
    }

    /// Adds the condition that the name or the first prompt contains a text, ignoring case. SQLite's `lower` handles
    /// ASCII only, so texts with other letters are searched in several spellings.
    fn add_text(&mut self, text: &str) {
        let mut spellings = vec![text.to_owned(), text.to_lowercase(), text.to_uppercase(), capitalize(text)];
        if text.is_ascii() {
            spellings.truncate(1);
        }
        spellings.sort_unstable();
        spellings.dedup();
        let mut conditions = Vec::new();
        for spelling in spellings {
            let pattern = self.add_parameter(like_pattern(&spelling.to_ascii_lowercase()));
            for column in ["t.name", "t.first_prompt"] {
                conditions.push(format!("lower({column}) LIKE {pattern} ESCAPE '!'"));
            }
        }
        self.add_condition(&format!("({})", conditions.join(" OR ")));
    }

    /// Returns the statement that counts the threads and stops at `maximum`.
    fn count_sql(&mut self, maximum: u64) -> String {
        let maximum = self.add_parameter(encode_counter(maximum));
        let Self { tables, sql, .. } = self;
        format!("SELECT count(*) FROM (SELECT 1 FROM {tables}{sql} LIMIT {maximum}) AS counted")
    }

    /// Returns the statement for all threads that meet the conditions, in order.
    fn all_sql(&self, filter: &ThreadFilter) -> String {
        let order = order_by_sql(filter);
        format!("SELECT {COLUMNS}, {STATE_COLUMNS} FROM {FROM}{} ORDER BY {order}", self.sql)
    }

    /// Returns the statement for a page. Of the threads before its offset, only what the conditions and the order need is read:
    /// PostgreSQL would compute the columns of each of them.
    fn page_sql(&mut self, filter: &ThreadFilter) -> String {
        let limit = self.add_parameter(encode_counter(filter.limit as u64));
        let offset = self.add_parameter(encode_counter(filter.offset as u64));
        let order = order_by_sql(filter);
        let Self { tables, sql, .. } = self;
        match filter.offset {
            0 => format!(
                "SELECT {COLUMNS}, {STATE_COLUMNS} FROM {FROM}{sql} ORDER BY {order} LIMIT {limit} OFFSET {offset}"
            ),
            _ => format!(
                "SELECT {COLUMNS}, {STATE_COLUMNS} FROM (
                     SELECT h.thread_key AS page_key FROM {tables}{sql} ORDER BY {order} LIMIT {limit} OFFSET {offset}
                 ) AS page CROSS JOIN thread_heads h CROSS JOIN threads t
                 WHERE h.thread_key = page.page_key AND t.thread_key = h.thread_key ORDER BY {order}"
            ),
        }
    }
}

/// Returns the LIKE pattern for texts that contain `text`. Wildcards in it are escaped with `!`.
fn like_pattern(text: &str) -> String {
    let escaped = text.replace('!', "!!").replace('%', "!%").replace('_', "!_");
    format!("%{escaped}%")
}

/// Returns the text with an upper-case first letter and the rest in lower case.
fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    first + &chars.as_str().to_lowercase()
}

/// Returns the ORDER BY expression of a filter. The id makes the order total.
fn order_by_sql(filter: &ThreadFilter) -> String {
    let direction = match filter.order.direction {
        SortDirection::Descending => "DESC",
        SortDirection::Ascending => "ASC",
    };
    match filter.order.by {
        ThreadSortKey::Updated => format!("h.updated_at {direction}, h.thread_id {direction}"),
        ThreadSortKey::Created => format!("t.created_at {direction}, t.thread_id {direction}"),
        ThreadSortKey::Status => format!("h.status {direction}, h.thread_id {direction}"),
        ThreadSortKey::Id => format!("h.thread_id {direction}"),
    }
}

#[cfg(test)]
mod tests {
    use protocol::OwnerScope;

    use super::*;
    use crate::tables::query_plan;
    use crate::{SubagentVisibility, ThreadSort};

    #[track_caller]
    fn check(filter: &ThreadFilter, index: &str) {
        let plan = page_plan(filter);
        assert!(plan[0].contains(index), "{plan:?}");
        assert!(!plan.iter().any(|step| step.contains("TEMP B-TREE")), "{plan:?}");
        // The threads before a page are skipped in the same index, and only the page is sorted again.
        let far = ThreadFilter { offset: 10_000, ..filter.clone() };
        let plan = page_plan(&far);
        let page = plan.iter().position(|step| step == "SCAN page").unwrap();
        assert!(plan[..page].iter().any(|step| step.contains(index)), "{plan:?}");
        assert!(!plan[..page].iter().any(|step| step.contains("TEMP B-TREE")), "{plan:?}");
        let reads_threads = plan[..page].iter().any(|step| step.starts_with("SEARCH t"));
        assert_eq!(reads_threads, needs_threads(&far), "{plan:?}");
    }

    /// Returns the plan of the page of a filter, without the plans of the columns that are read for the page only.
    fn page_plan(filter: &ThreadFilter) -> Vec<String> {
        let mut query = ThreadListQuery::from_filter(SqlDialect::Sqlite, filter).unwrap();
        let columns = format!("{COLUMNS}, {STATE_COLUMNS}");
        query_plan(&query.page_sql(filter).replacen(&columns, "t.name", 1))
    }

    #[test]
    fn h4_a_count_with_a_maximum_stops_in_the_index_of_one_owner() {
        let own = ThreadFilter::for_scope(OwnerScope::Owner(None), 10);
        let mut query = ThreadListQuery::from_filter(SqlDialect::Sqlite, &own).unwrap();
        let plan = query_plan(&query.count_sql(10_000));
        assert!(plan.iter().any(|step| step.contains("thread_heads_recent")), "{plan:?}");
        let scans_all = |step: &&String| step.starts_with("SCAN h") || step.starts_with("SCAN t");
        assert_eq!(plan.iter().find(scans_all), None, "{plan:?}");
    }

    #[test]
    fn h4_children_are_found_without_the_other_threads_of_their_owner() {
        for order in [ThreadSort::default(), ThreadSort::NEWEST] {
            let parent_id = Some(protocol::ThreadId::generate());
            let filter =
                ThreadFilter { parent_id, order, ..ThreadFilter::for_scope(OwnerScope::Owner(None), 10) };
            let plan = page_plan(&filter);
            assert!(plan[0].contains("threads_parent"), "{plan:?}");
            assert!(!plan.iter().any(|step| step.starts_with("SCAN")), "{plan:?}");
        }
    }

    #[test]
    fn h4_a_page_of_one_owner_comes_from_an_index_in_its_order() {
        let own = ThreadFilter::for_scope(OwnerScope::Owner(None), 10);
        check(&own, "thread_heads_recent");
        let oldest = ThreadSort { direction: SortDirection::Ascending, ..ThreadSort::default() };
        check(&ThreadFilter { order: oldest, ..own.clone() }, "thread_heads_recent");
        check(&ThreadFilter { order: ThreadSort::NEWEST, ..own.clone() }, "threads_created");
        let all = ThreadFilter { subagents: SubagentVisibility::Shown, order: ThreadSort::NEWEST, ..own };
        check(&all, "threads_created");
    }
}
