//! The scope of a search: the index rows that its filters admit, as far as that can be decided without reading
//! documents. The remaining filters are applied when a document is read.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use crate::engines::sql::{SqlConnection, SqlDialect};
use jiff::Timestamp;

use super::document_index::{self, DocumentKind};
use super::index::MessageSubset;
use super::{document_scope, message_row, row_seq, row_thread_key};
use crate::tables::columns::{encode_time, read_column};
use crate::tables::events::rewinds::SupersededRanges;
use crate::tables::threads::projects;
use crate::tables::{owners, threads};
use crate::{IndexHitKind, Result, SearchQuery};

/// Maximum number of threads that are searched individually. If more match, the whole index is searched and its rows
/// are filtered.
const THREADS_MAX: i64 = 1_000;
/// Maximum number of messages in threads that are searched individually.
const MESSAGES_MAX: i64 = 20_000;
/// Maximum number of ranges for which SQLite's index is queried separately. Each query costs about as much as
/// skipping a hundred rows.
const RANGES_MAX: usize = 64;
/// The SQL condition for the searched threads: of an assistant (`$1`), active since a time (`$2`), of an owner
/// (`$3`), of a project (`$4`). NULL means any.
pub(super) const SEARCHED_THREADS: &str =
    "updated_at IS NOT NULL AND (CAST($1 AS TEXT) IS NULL OR assistant_id = $1)
    AND (CAST($2 AS TEXT) IS NULL OR updated_at >= $2) AND (CAST($3 AS TEXT) IS NULL OR owner = $3)
    AND (CAST($4 AS BIGINT) IS NULL OR project_key = $4)";

/// The filters of a search, with the project that they name.
#[derive(Clone, Copy)]
pub(super) struct ScopeFilter<'a> {
    /// The search.
    pub(super) query: &'a SearchQuery,
    /// The key of the only project that is searched; `None` if all are.
    pub(super) project_key: Option<i64>,
}

/// The scope of a search, with a cache of the threads and documents that were checked.
pub(super) struct SearchScope<'a> {
    /// The connection.
    db: &'a SqlConnection<'a>,
    /// The search.
    query: &'a SearchQuery,
    /// The key of the only thread that is searched, if the query names one.
    thread_key: Option<i64>,
    /// The key of the only project that is searched; `None` if all are.
    project_key: Option<i64>,
    /// The threads that were checked; `None` for a thread outside the scope.
    threads: HashMap<i64, Option<SearchedThread>>,
    /// The documents that were checked, and whether each is in the scope.
    documents: HashMap<i64, bool>,
}

/// The searched part of a thread.
struct SearchedThread {
    /// The first seq that is searched.
    from_seq: i64,
    /// Superseded seqs, which are not searched.
    superseded: SupersededRanges,
    /// The part that was copied from another thread, if there is one.
    copied: Option<CopiedPrefix>,
}

/// The events that a fork copied from its source.
#[derive(Clone, Copy)]
struct CopiedPrefix {
    /// The key of the source thread.
    source_thread_key: i64,
    /// The last copied seq. Copies have the same seqs as their originals.
    last_seq: i64,
}

impl<'a> SearchScope<'a> {
    /// Returns the scope of a query.
    pub(super) fn new(db: &'a SqlConnection<'a>, query: &'a SearchQuery) -> Result<Self> {
        let thread_key = match query.thread_id {
            // A thread that does not exist has no rows, and no thread has the key 0.
            Some(thread_id) => Some(threads::thread_key(db, thread_id)?.unwrap_or(0)),
            None => None,
        };
        let project_key = projects::scope_key(db, &query.project)?;
        Ok(Self { db, query, thread_key, project_key, threads: HashMap::new(), documents: HashMap::new() })
    }

    /// Returns the ranges of index rows to search, and the messages in them.
    pub(super) fn row_ranges(&self) -> Result<(Vec<Range<i64>>, MessageSubset)> {
        let kinds = [
            (IndexHitKind::Handoff, DocumentKind::Handoff),
            (IndexHitKind::Summary, DocumentKind::Summary),
            (IndexHitKind::Item, DocumentKind::Item),
        ];
        let documents = kinds.into_iter().filter(|(kind, _)| self.includes_kind(*kind));
        let mut ranges: Vec<Range<i64>> =
            documents.map(|(_, kind)| document_index::document_rows(kind)).collect();
        if !self.includes_kind(IndexHitKind::Message) {
            return Ok((ranges, MessageSubset::All));
        }
        if let Some(key) = self.thread_key {
            ranges.push(row_range(key, key));
            return Ok((ranges, MessageSubset::All));
        }
        let (assistant_id, owner) = self.assistant_and_owner();
        let has_no_owner_filter = assistant_id.is_none() && owner.is_none();
        if has_no_owner_filter && self.project_key.is_none() && self.query.since.is_none() {
            ranges.push(0..i64::MAX);
            return Ok((ranges, MessageSubset::All));
        }
        let Some(keys) = self.few_threads()? else {
            ranges.push(self.thread_rows()?);
            let [assistant_id, owner] = [assistant_id, owner].map(|value| value.map(str::to_owned));
            return Ok((ranges, MessageSubset::Matching { assistant_id, owner }));
        };
        let thread_ranges = contiguous_ranges(&keys);
        match (self.db.dialect(), (keys.first(), keys.last())) {
            (_, (None, _) | (_, None)) => {}
            (SqlDialect::Sqlite, _) if thread_ranges.len() <= RANGES_MAX => ranges.extend(thread_ranges),
            (_, (Some(first), Some(last))) => ranges.push(row_range(*first, *last)),
        }
        Ok((ranges, MessageSubset::Threads(keys)))
    }

    /// Returns the assistant and the owner of the searched threads; `None` for any.
    fn assistant_and_owner(&self) -> (Option<&str>, Option<&str>) {
        let SearchQuery { assistant_id, scope, .. } = self.query;
        (assistant_id.as_ref().map(|id| id.as_str()), owners::owner_column_value(scope.as_ref()))
    }

    /// Returns the keys of the searched threads in ascending order, or `None` if there are too many threads or
    /// messages.
    fn few_threads(&self) -> Result<Option<Vec<i64>>> {
        let (assistant_id, owner) = self.assistant_and_owner();
        let heads: Vec<(i64, i64)> = self
            .db
            .prepare(&format!(
                "SELECT thread_key, message_count FROM thread_heads WHERE {SEARCHED_THREADS} ORDER BY thread_key LIMIT $5"
            ))?
            .query_map(
                (assistant_id, self.query.since.map(encode_time), owner, self.project_key, THREADS_MAX + 1),
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
        let messages: i64 = heads.iter().map(|(_, messages)| messages).sum();
        let are_few = heads.len() as i64 <= THREADS_MAX && messages <= MESSAGES_MAX;
        Ok(are_few.then(|| heads.into_iter().map(|(key, _)| key).collect()))
    }

    /// Returns the range of rows from the first to the last searched thread. Thread keys ascend with the time of
    /// creation, so recently active threads mostly have close keys.
    fn thread_rows(&self) -> Result<Range<i64>> {
        let (assistant_id, owner) = self.assistant_and_owner();
        self.db
            .prepare(&format!(
                "SELECT coalesce(min(thread_key), 0), coalesce(max(thread_key), -1) FROM thread_heads WHERE {SEARCHED_THREADS}"
            ))?
            .query_row((assistant_id, self.query.since.map(encode_time), owner, self.project_key), |row| {
                Ok(row_range(row.get(0)?, row.get(1)?))
            })
    }

    /// Returns whether the query searches documents of this kind. By default it searches everything except items.
    fn includes_kind(&self, kind: IndexHitKind) -> bool {
        match self.query.kinds[..] {
            [] => kind != IndexHitKind::Item,
            _ => self.query.kinds.contains(&kind),
        }
    }

    /// Returns the number of messages of the assistant or owner, or of the named thread.
    pub(super) fn row_count(&self) -> Result<u64> {
        let (assistant_id, owner) = self.assistant_and_owner();
        let messages: i64 = self
            .db
            .prepare(
                "SELECT CAST(coalesce(sum(message_count), 0) AS BIGINT) FROM thread_heads
                 WHERE updated_at IS NOT NULL AND (CAST($1 AS BIGINT) IS NULL OR thread_key = $1)
                     AND (CAST($2 AS TEXT) IS NULL OR assistant_id = $2) AND (CAST($3 AS TEXT) IS NULL OR owner = $3)
                     AND (CAST($4 AS BIGINT) IS NULL OR project_key = $4)",
            )?
            .query_row((self.thread_key, assistant_id, owner, self.project_key), |row| row.get(0))?;
        Ok(messages.unsigned_abs())
    }

    /// Returns whether a row is in the scope, as far as that can be decided without reading its text. Results are
    /// cached.
    pub(super) fn contains_row(&mut self, row: i64) -> Result<bool> {
        if let Some((kind, key)) = document_index::decode_row(row) {
            return match self.documents.get(&row) {
                Some(is_in_scope) => Ok(*is_in_scope),
                None => {
                    let is_in_scope =
                        document_scope::is_document_in_scope(self.db, kind, key, self.document_filter())?;
                    self.documents.insert(row, is_in_scope);
                    Ok(is_in_scope)
                }
            };
        }
        let (key, seq) = (row_thread_key(row), row_seq(row));
        if !self.contains_message(key, seq)? {
            return Ok(false);
        }
        let copied = self
            .searched_thread(key)?
            .and_then(|thread| thread.copied)
            .filter(|copied| seq <= copied.last_seq);
        match copied {
            // A copied message is found in its source thread if that is searched too. Otherwise every fork would
            // yield the same hit.
            Some(copied) if self.thread_key.is_none() => {
                Ok(!self.contains_message(copied.source_thread_key, seq)?)
            }
            Some(_) | None => Ok(true),
        }
    }

    /// Returns the filters of the search.
    fn document_filter(&self) -> ScopeFilter<'a> {
        ScopeFilter { query: self.query, project_key: self.project_key }
    }

    /// Returns whether a message is in the searched part of its thread.
    fn contains_message(&mut self, key: i64, seq: i64) -> Result<bool> {
        let thread = self.searched_thread(key)?;
        Ok(thread.is_some_and(|thread| seq >= thread.from_seq && !thread.superseded.contains(seq)))
    }

    /// Returns the searched part of a thread, from the cache if possible.
    fn searched_thread(&mut self, key: i64) -> Result<Option<&SearchedThread>> {
        let filter = self.document_filter();
        Ok(match self.threads.entry(key) {
            Entry::Occupied(cached) => cached.into_mut().as_ref(),
            Entry::Vacant(vacant) => vacant.insert(load_thread(self.db, filter, key)?).as_ref(),
        })
    }
}

/// Returns the range of rows of the threads from `first` to `last`.
const fn row_range(first: i64, last: i64) -> Range<i64> {
    message_row(first, 0)..message_row(last + 1, 0)
}

/// Returns the row ranges of threads, with consecutive thread keys combined into one range.
fn contiguous_ranges(keys: &[i64]) -> Vec<Range<i64>> {
    keys.chunk_by(|left, right| left + 1 == *right)
        .map(|group| row_range(group[0], group[group.len() - 1]))
        .collect()
}

/// Returns the part of a thread that a query searches, or `None` if the thread is outside the scope.
fn load_thread(db: &SqlConnection, filter: ScopeFilter<'_>, key: i64) -> Result<Option<SearchedThread>> {
    let query = filter.query;
    let head = db
        .prepare(
            "SELECT base_seq, copied_count FROM thread_heads WHERE thread_key = $1 AND updated_at IS NOT NULL
             AND (CAST($2 AS TEXT) IS NULL OR assistant_id = $2) AND (CAST($3 AS TEXT) IS NULL OR updated_at >= $3)
             AND (CAST($4 AS TEXT) IS NULL OR owner = $4) AND (CAST($5 AS BIGINT) IS NULL OR project_key = $5)",
        )?
        .query_optional(
            (
                key,
                query.assistant_id.as_ref().map(|id| id.as_str()),
                query.since.map(encode_time),
                owners::owner_column_value(query.scope.as_ref()),
                filter.project_key,
            ),
            |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)? > 0)),
        )?;
    let Some((base_seq, has_copied)) = head else { return Ok(None) };
    let from_seq = match query.since {
        Some(since) => first_seq_since(db, key, since)?,
        None => 0,
    };
    // Events at or below the base seq belong to a deleted thread with the same id, unless they are copies.
    let from_seq = if has_copied { from_seq } else { from_seq.max(base_seq + 1) };
    let copied = if has_copied { load_copied_prefix(db, key, base_seq)? } else { None };
    Ok(Some(SearchedThread { from_seq, superseded: SupersededRanges::load(db, key)?, copied }))
}

/// Returns the part of a thread that was copied from its parent. `None` if the parent was deleted, or the events came
/// from another thread.
fn load_copied_prefix(db: &SqlConnection, key: i64, base_seq: i64) -> Result<Option<CopiedPrefix>> {
    let source_key = db
        .prepare(
            "SELECT p.thread_key FROM threads t JOIN threads p ON p.thread_id = t.parent_id
             JOIN events c ON c.thread_key = t.thread_key
             JOIN events o ON o.thread_key = p.thread_key AND o.seq = c.seq AND o.event_id = c.event_id
             WHERE t.thread_key = $1
                 AND c.seq = (SELECT max(seq) FROM events WHERE thread_key = $1 AND seq <= $2)",
        )?
        .query_optional((key, base_seq), |row| row.get(0))?;
    Ok(source_key.map(|source_key| CopiedPrefix { source_thread_key: source_key, last_seq: base_seq }))
}

/// Returns the first seq whose event was created at or after a time, by binary search. Events are assumed to be in
/// chronological order, as far as clocks allow.
fn first_seq_since(db: &SqlConnection, key: i64, since: Timestamp) -> Result<i64> {
    // Check the first event first, because most threads lie entirely after the time or entirely before it.
    let (mut low, mut high) = match next_event(db, key, 0)? {
        Some((seq, created_at)) if created_at < since => (seq + 1, last_seq(db, key)? + 1),
        Some(_) | None => return Ok(0),
    };
    while low < high {
        let middle = low + (high - low) / 2;
        match next_event(db, key, middle)? {
            Some((seq, created_at)) if created_at < since => low = seq + 1,
            Some(_) | None => high = middle,
        }
    }
    Ok(low)
}

/// Returns the first event at or after a seq, with its time.
fn next_event(db: &SqlConnection, key: i64, seq: i64) -> Result<Option<(i64, Timestamp)>> {
    db.prepare("SELECT seq, created_at FROM events WHERE thread_key = $1 AND seq >= $2 ORDER BY seq LIMIT 1")?
        .query_optional((key, seq), |row| Ok((row.get("seq")?, read_column(row, "created_at")?)))
}

/// Returns the last seq of a thread.
fn last_seq(db: &SqlConnection, key: i64) -> Result<i64> {
    db.prepare("SELECT last_seq FROM thread_heads WHERE thread_key = $1")?.query_row([key], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_thread_keys_form_one_range() {
        assert_eq!(contiguous_ranges(&[]), Vec::<Range<i64>>::new());
        assert_eq!(contiguous_ranges(&[3, 4, 5, 9]), [row_range(3, 5), row_range(9, 9)]);
    }
}
