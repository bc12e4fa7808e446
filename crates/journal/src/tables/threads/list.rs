//! Lists of threads: somebody's, page by page, and how many there are. Metadata are compared here and not by the engine,
//! one thread after the other, so that only those of the page are held.

use std::ops::ControlFlow;

use crate::engines::sql::{self, Connection};
use protocol::{Thread, ThreadStatus};
use serde_json::{Map, Value};

use super::{COLUMNS, read_with};
use crate::tables::columns::{integer, json, json_column};
use crate::tables::memory::items::matching;
use crate::tables::{owners, page_limit};
use crate::{Direction, Error, Result, SortBy, Subagents, ThreadFilter};

/// Returns a page of threads.
pub(crate) fn list(connection: &Connection, filter: &ThreadFilter) -> Result<Vec<Thread>> {
    page_limit("threads", filter.limit)?;
    let mut question = Question::of(filter)?;
    question.sql.push_str(&format!(" ORDER BY {}", order(filter)));
    let mut skip = 0;
    if filter.metadata.is_empty() {
        question.page(filter);
    } else {
        skip = filter.offset;
    }
    let mut statement =
        connection.prepare_cached(&format!("SELECT {COLUMNS} FROM {FROM}{}", question.sql))?;
    let mut threads = Vec::new();
    statement.stream(&question.parameters[..], |row| {
        let metadata: Map<String, Value> = json_column(row, "metadata")?;
        match (matching::contains(&metadata, &filter.metadata), skip) {
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
pub(crate) fn count_of(connection: &Connection, filter: &ThreadFilter) -> Result<u64> {
    let question = Question::of(filter)?;
    let parameters = &question.parameters[..];
    if filter.metadata.is_empty() {
        let sql = format!("SELECT count(*) FROM {FROM}{}", question.sql);
        let count: i64 = connection.prepare_cached(&sql)?.query_row(parameters, |row| row.get(0))?;
        return Ok(count.unsigned_abs());
    }
    let mut statement =
        connection.prepare_cached(&format!("SELECT t.metadata FROM {FROM}{}", question.sql))?;
    let mut count = 0;
    statement.stream(parameters, |row| {
        count += u64::from(matching::contains(&json_column(row, "metadata")?, &filter.metadata));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(count)
}

const FROM: &str =
    "thread_heads h JOIN threads t ON t.thread_key = h.thread_key WHERE h.updated_at IS NOT NULL";

/// The conditions of a filter.
struct Question {
    sql: String,
    parameters: Vec<sql::Value<'static>>,
}

impl Question {
    fn of(filter: &ThreadFilter) -> Result<Self> {
        let mut question = Self { sql: String::new(), parameters: Vec::new() };
        let Some(scope) = &filter.scope else {
            return Err(Error::Invalid { what: "threads", reason: "nobody said whose".to_owned() });
        };
        if let Some(owner) = owners::of(Some(scope)) {
            let condition = match filter.parent_id {
                // Of both: the one leads the index of what was active lately, the other that of what was created lately.
                None => "h.owner = ? AND t.owner = ?",
                // The children of one are few beside what an owner has.
                Some(_) => "+h.owner = ?",
            };
            question.add(condition, owner.to_owned());
        }
        if let Some(assistant_id) = &filter.assistant_id {
            question.add("t.assistant_id = ?", assistant_id.to_string());
        }
        if let Some(parent_id) = filter.parent_id {
            question.add("t.parent_id = ?", parent_id.to_string());
        }
        if filter.subagents == Subagents::Hidden {
            question.sql.push_str(" AND h.in_subagent = 0");
        }
        if !filter.ids.is_empty() {
            let ids: Vec<String> = filter.ids.iter().map(ToString::to_string).collect();
            question.add("h.thread_id IN (SELECT value FROM json_each(?))", json(&ids)?);
        }
        if !filter.statuses.is_empty() {
            let statuses = ThreadStatus::ALL.into_iter().filter(|status| filter.statuses.contains(status));
            let names: Vec<_> = statuses.map(ThreadStatus::as_str).collect();
            question.sql.push_str(&format!(" AND h.status IN ('{}')", names.join("', '")));
        }
        if let Some(key) = filter.lacking {
            question.sql.push_str(&format!(" AND json_extract(t.metadata, '$.{key}') IS NULL"));
        }
        if let Some(text) = &filter.text {
            question.add_text(text);
        }
        Ok(question)
    }

    /// Adds a condition in which `?` stands for the value.
    fn add(&mut self, condition: &str, value: String) {
        self.parameters.push(value.into());
        let place = format!("?{}", self.parameters.len());
        self.sql.push_str(" AND ");
        self.sql.push_str(&condition.replace('?', &place));
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
            self.parameters.push(pattern(&way.to_ascii_lowercase()).into());
            let place = self.parameters.len();
            for column in ["t.name", "t.first_prompt"] {
                conditions.push(format!("lower({column}) LIKE ?{place} ESCAPE '!'"));
            }
        }
        self.sql.push_str(&format!(" AND ({})", conditions.join(" OR ")));
    }

    fn page(&mut self, filter: &ThreadFilter) {
        self.parameters.push(integer(filter.limit as u64).into());
        self.parameters.push(integer(filter.offset as u64).into());
        let count = self.parameters.len();
        self.sql.push_str(&format!(" LIMIT ?{} OFFSET ?{count}", count - 1));
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
        let mut question = Question::of(filter).unwrap();
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
            let mut question = Question::of(&filter).unwrap();
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
