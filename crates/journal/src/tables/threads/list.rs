//! Lists of threads: pages for one owner, counts, and states. Metadata and states are compared here and not by the engine,
//! one thread after the other, so that only those of the page are held.

use std::ops::ControlFlow;

use crate::engines::sql::{self, Connection, Dialect, Row};
use protocol::{Thread, ThreadFacts, ThreadId, ThreadState, ThreadStatus};
use serde_json::{Map, Value};

use super::{COLUMNS, read_with};
use crate::tables::columns::{count, integer, json, json_column, stored, stored_option};
use crate::tables::memory::items::matching;
use crate::tables::{owners, page_limit};
use crate::{Direction, Error, Result, SortBy, Subagents, ThreadFilter};

/// Returns a page of threads.
pub(crate) fn list(db: &Connection, filter: &ThreadFilter) -> Result<Vec<Thread>> {
    page_limit("threads", filter.limit)?;
    let mut question = Question::of(db.dialect(), filter)?;
    question.sql.push_str(&format!(" ORDER BY {}", order(filter)));
    let mut skip = 0;
    if is_decided_by_the_engine(filter) {
        question.page(filter);
    } else {
        skip = filter.offset;
    }
    let mut statement = db.prepare(&format!("SELECT {COLUMNS}, {FACTS} FROM {FROM}{}", question.sql))?;
    let mut threads = Vec::new();
    statement.stream(&question.parameters[..], |row| {
        let metadata: Map<String, Value> = json_column(row, "metadata")?;
        match (matches(filter, &metadata, read_state(row)?), skip) {
            (false, _) => {}
            (true, 0) => threads.push(read_with(row, metadata)?),
            (true, _) => skip -= 1,
        }
        Ok(match threads.len() < filter.limit {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        })
    })?;
    Ok(threads)
}

/// Returns how many threads match.
pub(crate) fn count_of(db: &Connection, filter: &ThreadFilter) -> Result<u64> {
    let question = Question::of(db.dialect(), filter)?;
    let parameters = &question.parameters[..];
    if is_decided_by_the_engine(filter) {
        let sql = format!("SELECT count(*) FROM {FROM}{}", question.sql);
        let count: i64 = db.prepare(&sql)?.query_row(parameters, |row| row.get(0))?;
        return Ok(count.unsigned_abs());
    }
    let mut statement =
        db.prepare(&format!("SELECT t.metadata, h.status, {FACTS} FROM {FROM}{}", question.sql))?;
    let mut count = 0;
    statement.stream(parameters, |row| {
        count += u64::from(matches(filter, &json_column(row, "metadata")?, read_state(row)?));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(count)
}

/// Returns the states of threads.
pub(crate) fn states(db: &Connection, thread_ids: &[ThreadId]) -> Result<Vec<(ThreadId, ThreadState)>> {
    if thread_ids.is_empty() {
        return Ok(Vec::new());
    }
    page_limit("states of threads", thread_ids.len())?;
    let ids: Vec<String> = thread_ids.iter().map(ToString::to_string).collect();
    let mut statement = db.prepare(&format!(
        "SELECT h.thread_id, h.status, {FACTS} FROM {FROM} AND h.thread_id IN ({})",
        db.dialect().texts_in_list("$1")
    ))?;
    statement.query_map([json(&ids)?], |row| Ok((stored(row, "thread_id")?, read_state(row)?)))
}

const FROM: &str =
    "thread_heads h JOIN threads t ON t.thread_key = h.thread_key WHERE h.updated_at IS NOT NULL";

/// The facts behind a thread's state that are in other tables. They matter for interrupted threads alone, which are few.
const FACTS: &str = "
    CASE WHEN h.status = 'interrupted' THEN (SELECT r.status FROM checkpoints c JOIN runs r ON r.run_id = c.run_id
        WHERE c.thread_key = h.thread_key) END AS last_run,
    CAST(CASE WHEN h.status = 'interrupted' AND EXISTS (SELECT 1 FROM interrupts i
        WHERE i.thread_id = h.thread_id AND i.status = 'pending') THEN 1 ELSE 0 END AS BIGINT) AS pending_interrupts";

fn read_state(row: &Row<'_>) -> Result<ThreadState> {
    Ok(ThreadState::of(ThreadFacts {
        status: stored(row, "status")?,
        last_run: stored_option(row, "last_run")?,
        has_pending_interrupt: count(row, "pending_interrupts")? > 0,
    }))
}

/// Returns whether the conditions in SQL say everything that the filter does.
fn is_decided_by_the_engine(filter: &ThreadFilter) -> bool {
    let follows_from_status = |state: ThreadState| state.status() != ThreadStatus::Interrupted;
    filter.metadata.is_empty() && filter.state.is_none_or(follows_from_status)
}

/// Returns whether a thread that meets the conditions in SQL meets the others as well.
fn matches(filter: &ThreadFilter, metadata: &Map<String, Value>, state: ThreadState) -> bool {
    matching::contains(metadata, &filter.metadata) && filter.state.is_none_or(|wanted| wanted == state)
}

/// The conditions of a filter.
struct Question {
    sql: String,
    parameters: Vec<sql::Value<'static>>,
}

impl Question {
    fn of(dialect: Dialect, filter: &ThreadFilter) -> Result<Self> {
        let mut question = Self { sql: String::new(), parameters: Vec::new() };
        let Some(scope) = &filter.scope else {
            return Err(Error::Invalid { what: "threads", reason: "nobody said whose".to_owned() });
        };
        if let Some(owner) = owners::of(Some(scope)) {
            let owner = question.parameter(owner.to_owned());
            question.and(&match filter.parent_id {
                // Of both: the one leads the index of what was active lately, the other that of what was created lately.
                None => format!("h.owner = {owner} AND t.owner = {owner}"),
                // The children of one are few beside what an owner has.
                Some(_) => format!("{} = {owner}", dialect.unindexed("h.owner")),
            });
        }
        if let Some(assistant_id) = &filter.assistant_id {
            let assistant_id = question.parameter(assistant_id.to_string());
            question.and(&format!("t.assistant_id = {assistant_id}"));
        }
        if let Some(parent_id) = filter.parent_id {
            let parent_id = question.parameter(parent_id.to_string());
            question.and(&format!("t.parent_id = {parent_id}"));
        }
        if filter.subagents == Subagents::Hidden {
            question.and("h.in_subagent = 0");
        }
        if !filter.ids.is_empty() {
            let ids: Vec<String> = filter.ids.iter().map(ToString::to_string).collect();
            let ids = question.parameter(json(&ids)?);
            question.and(&format!("h.thread_id IN ({})", dialect.texts_in_list(&ids)));
        }
        if !filter.statuses.is_empty() {
            let statuses = ThreadStatus::ALL.into_iter().filter(|status| filter.statuses.contains(status));
            let names: Vec<_> = statuses.map(ThreadStatus::as_str).collect();
            question.and(&format!("h.status IN ('{}')", names.join("', '")));
        }
        if let Some(state) = filter.state {
            question.and(&format!("h.status = '{}'", state.status().as_str()));
        }
        if let Some(key) = filter.lacking {
            question.and(&format!("{} IS NULL", dialect.json_field("t.metadata", key)));
        }
        if let Some(text) = &filter.text {
            question.add_text(text);
        }
        Ok(question)
    }

    /// Adds a parameter, and returns how conditions name it.
    fn parameter(&mut self, value: impl Into<sql::Value<'static>>) -> String {
        self.parameters.push(value.into());
        format!("${}", self.parameters.len())
    }

    /// Adds a condition.
    fn and(&mut self, condition: &str) {
        self.sql.push_str(" AND ");
        self.sql.push_str(condition);
    }

    /// Adds that the name or the first prompt contains the text. Engines know the capitals of ASCII alone, so that those of
    /// other letters are looked for as they may be written.
    fn add_text(&mut self, text: &str) {
        let mut ways = vec![text.to_owned(), text.to_lowercase(), text.to_uppercase(), capitalised(text)];
        if text.is_ascii() {
            ways.truncate(1);
        }
        ways.sort_unstable();
        ways.dedup();
        let mut conditions = Vec::new();
        for way in ways {
            let pattern = self.parameter(pattern(&way.to_ascii_lowercase()));
            for column in ["t.name", "t.first_prompt"] {
                conditions.push(format!("lower({column}) LIKE {pattern} ESCAPE '!'"));
            }
        }
        self.and(&format!("({})", conditions.join(" OR ")));
    }

    fn page(&mut self, filter: &ThreadFilter) {
        let limit = self.parameter(integer(filter.limit as u64));
        let offset = self.parameter(integer(filter.offset as u64));
        self.sql.push_str(&format!(" LIMIT {limit} OFFSET {offset}"));
    }
}

/// Returns what a text is like that contains this one, whose own wildcards stand for themselves.
fn pattern(text: &str) -> String {
    let escaped = text.replace('!', "!!").replace('%', "!%").replace('_', "!_");
    format!("%{escaped}%")
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    first + &chars.as_str().to_lowercase()
}

fn order(filter: &ThreadFilter) -> String {
    let direction = match filter.order.direction {
        Direction::Descending => "DESC",
        Direction::Ascending => "ASC",
    };
    match filter.order.by {
        SortBy::Updated => format!("h.updated_at {direction}, h.thread_id {direction}"),
        SortBy::Created => format!("t.created_at {direction}, t.thread_id {direction}"),
        SortBy::Status => format!("h.status {direction}, h.thread_id {direction}"),
        SortBy::Id => format!("h.thread_id {direction}"),
    }
}

#[cfg(test)]
mod tests {
    use protocol::Scope;

    use super::*;
    use crate::tables::plan;
    use crate::{Sort, Subagents};

    #[track_caller]
    fn check(filter: &ThreadFilter, index: &str) {
        let mut question = Question::of(Dialect::Sqlite, filter).unwrap();
        question.sql.push_str(&format!(" ORDER BY {}", order(filter)));
        question.page(filter);
        let plan = plan(&format!("SELECT {COLUMNS} FROM {FROM}{}", question.sql));
        assert!(plan[0].contains(index), "{plan:?}");
        assert!(!plan.iter().any(|step| step.contains("TEMP B-TREE")), "{plan:?}");
    }

    #[test]
    fn h4_children_are_found_without_the_other_threads_of_their_owner() {
        for order in [Sort::default(), Sort::NEWEST] {
            let parent_id = Some(protocol::ThreadId::generate());
            let filter = ThreadFilter { parent_id, order, ..ThreadFilter::of(Scope::Owner(None), 10) };
            let mut question = Question::of(Dialect::Sqlite, &filter).unwrap();
            question.sql.push_str(&format!(" ORDER BY {}", super::order(&filter)));
            question.page(&filter);
            let plan = plan(&format!("SELECT {COLUMNS} FROM {FROM}{}", question.sql));
            assert!(plan[0].contains("threads_parent"), "{plan:?}");
            assert!(!plan.iter().any(|step| step.starts_with("SCAN")), "{plan:?}");
        }
    }

    #[test]
    fn h4_a_page_of_one_owner_comes_from_an_index_in_its_order() {
        let own = ThreadFilter::of(Scope::Owner(None), 10);
        check(&own, "thread_heads_recent");
        let oldest = Sort { direction: Direction::Ascending, ..Sort::default() };
        check(&ThreadFilter { order: oldest, ..own.clone() }, "thread_heads_recent");
        check(&ThreadFilter { order: Sort::NEWEST, ..own.clone() }, "threads_created");
        let all = ThreadFilter { subagents: Subagents::Shown, order: Sort::NEWEST, ..own };
        check(&all, "threads_created");
    }
}
