//! The endpoints that search and count threads.
//!
//! Ids, status and metadata are columns of the journal's thread table, so the database filters by them. The values of a
//! thread are computed from its events. A search by `values` therefore reads the state of one thread after the other,
//! at most [`THREADS_SCANNED_MAX`] of them, and tells the client if there are more.

use std::collections::VecDeque;

use agent::{SortDirection, ThreadFilter, ThreadSnapshot, ThreadSort, ThreadSortKey};
use axum::Json;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use futures::{Stream, StreamExt as _};
use protocol::{Thread, ThreadId, ThreadStatus};
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::last_run_failure;
use crate::caller::Caller;
use crate::error::{ApiError, ErrorBody};
use crate::extract::{JsonBody, parse_id};
use crate::resources::page::{self, PageRequest};
use crate::resources::subset;
use crate::wire::AnyObject;
use crate::wire::state::StateValues;
use crate::wire::thread::{THREAD_FIELDS, WireThread};

/// The maximum number of threads whose state is read for one search by values.
const THREADS_SCANNED_MAX: usize = 1_000;

/// The number of threads at which a search stops counting, unless its page is beyond them. The time of counting grows
/// with the number of threads.
const THREADS_COUNTED_MAX: u64 = 10_000;

/// The response header of an incomplete search by values. Its value is the number of threads that were examined.
const SEARCH_CUT_HEADER: HeaderName = HeaderName::from_static("x-search-cut");

/// The number of threads in one read of the journal during a search by values.
const SCAN_ROWS: usize = 200;

/// The maximum number of ids in one search.
const IDS_MAX: usize = 1_000;

/// The maximum number of paths that one search may extract.
const EXTRACTS_MAX: usize = 10;

/// A search for threads, and the fields to return. A thread must match every condition.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(super) struct ThreadSearch {
    /// Fields that the thread's metadata must contain.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// Fields that the thread's current values must contain. Examines at most 1,000 threads.
    #[schema(value_type = Option<Object>)]
    values: Option<Map<String, Value>>,
    /// The ids of the threads, at most 1,000.
    ids: Option<Vec<String>>,
    /// The status of the thread: `idle`, `busy`, `interrupted` or `error`.
    #[schema(pattern = "^(idle|busy|interrupted|error)$")]
    status: Option<String>,
    /// The maximum number of threads to return; 10 by default.
    #[schema(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The number of threads to skip; 0 by default.
    #[schema(minimum = 0)]
    offset: Option<usize>,
    /// The field to sort by: `thread_id`, `status`, `created_at`, `updated_at` (the default) or `state_updated_at`.
    #[schema(pattern = "^(thread_id|status|created_at|updated_at|state_updated_at)$")]
    sort_by: Option<String>,
    /// The sort order: `asc` or `desc` (the default).
    #[schema(pattern = "^(asc|desc)$")]
    sort_order: Option<String>,
    /// The fields to return. All fields by default.
    select: Option<Vec<String>>,
    /// Values to extract from each thread: an object of names and paths such as `values.messages[-1].content`. At most
    /// 10.
    #[schema(value_type = Option<Object>)]
    extract: Option<Map<String, Value>>,
}

/// The fields to return of each thread.
#[derive(Debug, Clone)]
struct ThreadFields {
    /// The selected fields; `None` means all.
    select: Option<Vec<String>>,
    /// The values to extract, each with its name and its path.
    extract: Vec<(String, Vec<PathSegment>)>,
}

/// One segment of a path into a JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PathSegment {
    /// A field of an object.
    Field(String),
    /// An element of a list. A negative index counts from the end, -1 being the last element.
    Index(i64),
}

/// Searches threads. Each thread comes with its current state, or with `select` only with the named fields.
///
/// With `values`, only the first 1,000 threads that match all other conditions are examined. If there are more, the
/// header `x-search-cut` contains the number of threads that were examined, and `x-pagination-total` is missing. It is
/// also missing if 10,000 threads or more match, because the time of counting them would grow with their number.
#[utoipa::path(post, path = "/threads/search", tag = "threads", request_body = ThreadSearch,
    responses((status = 200, body = Vec<AnyObject>, description = "The threads, with all fields or with the selected ones."), (status = 401, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn search(
    caller: Caller,
    JsonBody(search): JsonBody<ThreadSearch>,
) -> Result<Response, ApiError> {
    let page = PageRequest::from_query(search.limit, search.offset, 10)?;
    let fields = search.fields()?;
    let mut filter = search.filter(&caller)?;
    let mut is_total_exact = true;
    let (rows, total, is_complete) = match search.values.filter(|values| !values.is_empty()) {
        Some(values) => {
            let ThreadMatches { threads, is_complete } = find_by_values(&caller, filter, &values).await?;
            let total = threads.len() as u64;
            let rows = threads.into_iter().skip(page.offset).take(page.limit).collect();
            (rows, total, is_complete)
        }
        None => {
            let counted_max = THREADS_COUNTED_MAX.max(page.offset as u64 + page::ROWS_MAX as u64 + 1);
            let total = caller.agent.threads().count(filter.clone(), Some(counted_max)).await?;
            is_total_exact = total < counted_max;
            (filter.offset, filter.limit) = (page.offset, page.limit);
            (caller.agent.threads().list(filter).await?, total, true)
        }
    };
    let mut response = page
        .with_pagination_headers(page::list_response(project_threads(caller, rows, fields)).await?, total);
    if !(is_complete && is_total_exact) {
        response.headers_mut().remove(page::TOTAL_HEADER);
    }
    if !is_complete {
        response.headers_mut().insert(SEARCH_CUT_HEADER, HeaderValue::from(THREADS_SCANNED_MAX));
    }
    Ok(response)
}

/// Counts the threads that match a search.
///
/// With `values`, the request fails if more than 1,000 threads match all other conditions.
#[utoipa::path(post, path = "/threads/count", tag = "threads", request_body = ThreadSearch,
    responses((status = 200, body = u64, content_type = "application/json"), (status = 401, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn count(
    caller: Caller,
    JsonBody(search): JsonBody<ThreadSearch>,
) -> Result<Json<u64>, ApiError> {
    let filter = search.filter(&caller)?;
    let count = match search.values.filter(|values| !values.is_empty()) {
        Some(values) => match find_by_values(&caller, filter, &values).await? {
            ThreadMatches { threads, is_complete: true } => threads.len() as u64,
            ThreadMatches { .. } => {
                let detail = format!("`values`: more than {THREADS_SCANNED_MAX} threads to examine");
                return Err(
                    ApiError::invalid(detail).with_hint("narrow the search by `metadata`, `status` or `ids`")
                );
            }
        },
        None => caller.agent.threads().count(filter, None).await?,
    };
    Ok(Json(count))
}

impl ThreadSearch {
    /// Returns the filter for the journal: every condition except `values`, limited to the caller's scope.
    ///
    /// # Errors
    /// If there are too many ids, or an id or the status is malformed.
    fn filter(&self, caller: &Caller) -> Result<ThreadFilter, ApiError> {
        let ids = self.ids.as_deref().unwrap_or_default();
        if ids.len() > IDS_MAX {
            return Err(ApiError::invalid(format!("`ids`: at most {IDS_MAX} entries")));
        }
        let status = self.status.as_deref().map(|name| {
            ThreadStatus::from_name(name)
                .ok_or_else(|| ApiError::invalid("`status` must be idle, busy, interrupted or error"))
        });
        Ok(ThreadFilter {
            ids: ids.iter().map(|text| parse_id::<ThreadId>(text, "thread")).collect::<Result<_, _>>()?,
            statuses: status.transpose()?.into_iter().collect(),
            metadata: self.metadata.clone().unwrap_or_default(),
            order: self.sort()?,
            ..ThreadFilter::for_scope(caller.scope.clone(), SCAN_ROWS)
        })
    }

    /// Returns the sort order: newest update first by default.
    ///
    /// # Errors
    /// If the field or the direction is unknown.
    fn sort(&self) -> Result<ThreadSort, ApiError> {
        let by = match self.sort_by.as_deref() {
            None | Some("updated_at" | "state_updated_at") => ThreadSortKey::Updated,
            Some("created_at") => ThreadSortKey::Created,
            Some("status") => ThreadSortKey::Status,
            Some("thread_id") => ThreadSortKey::Id,
            Some(_) => {
                let detail =
                    "`sort_by` must be thread_id, status, created_at, updated_at or state_updated_at";
                return Err(ApiError::invalid(detail));
            }
        };
        let direction = match self.sort_order.as_deref() {
            None | Some("desc") => SortDirection::Descending,
            Some("asc") => SortDirection::Ascending,
            Some(_) => return Err(ApiError::invalid("`sort_order` must be asc or desc")),
        };
        Ok(ThreadSort { by, direction })
    }

    /// Returns the fields to return of each thread.
    ///
    /// # Errors
    /// If a field is unknown, if there are too many paths, or if a path is malformed.
    fn fields(&self) -> Result<ThreadFields, ApiError> {
        page::check_select(self.select.iter().flatten().map(String::as_str), &THREAD_FIELDS)?;
        let paths = self.extract.clone().unwrap_or_default();
        if paths.len() > EXTRACTS_MAX {
            return Err(ApiError::invalid(format!("`extract`: at most {EXTRACTS_MAX} entries")));
        }
        let extract = paths.into_iter().map(|(name, path)| {
            let segments = path.as_str().and_then(parse_path);
            let segments =
                segments.ok_or_else(|| ApiError::invalid(format!("`extract.{name}` is not a valid path")))?;
            Ok((name, segments))
        });
        Ok(ThreadFields { select: self.select.clone(), extract: extract.collect::<Result<_, ApiError>>()? })
    }
}

impl ThreadFields {
    /// Returns whether the thread's current state has to be read. It is needed for four fields only, and reading it is
    /// the expensive part of a search.
    fn needs_state(&self) -> bool {
        ["values", "interrupts", "state_updated_at", "config"].into_iter().any(|field| self.includes(field))
    }

    /// Returns whether the field is selected, or a value inside it is extracted.
    fn includes(&self, field: &str) -> bool {
        let is_extracted = |(_, path): &(String, Vec<PathSegment>)| matches!(path.first(), Some(PathSegment::Field(first)) if first == field);
        let select = self.select.as_ref();
        select.is_none_or(|select| select.iter().any(|name| name == field))
            || self.extract.iter().any(is_extracted)
    }
}

/// A thread in a response: with all fields, or with the selected ones.
#[derive(serde::Serialize)]
#[serde(untagged)]
enum ThreadProjection {
    /// The whole thread, if the client selected no fields.
    Whole(Box<WireThread>),
    /// The selected fields, and `extracted` if values were extracted.
    Selected(Map<String, Value>),
}

/// Returns the threads with the fields that the client selected. The state of a thread is read only when the stream
/// reaches that thread.
fn project_threads(
    caller: Caller,
    rows: Vec<Thread>,
    fields: ThreadFields,
) -> impl Stream<Item = Result<ThreadProjection, ApiError>> + Send {
    futures::stream::iter(rows).then(move |thread| {
        let (caller, fields) = (caller.clone(), fields.clone());
        async move {
            let state = match fields.needs_state() {
                // The thread may have been deleted since the list was read.
                true => caller.agent.threads().state(thread.thread_id).await.or_else(none_if_absent)?,
                false => None,
            };
            let failure = match fields.includes("error") {
                true => last_run_failure(&caller, &thread).await?,
                false => None,
            };
            project_thread(WireThread::from_thread(&thread, state.as_ref(), failure.as_ref()), &fields)
        }
    })
}

/// Converts "not found" into `None`, and keeps every other error.
fn none_if_absent(error: agent::Error) -> Result<Option<ThreadSnapshot>, ApiError> {
    if error.is_not_found() { Ok(None) } else { Err(error.into()) }
}

/// Returns the thread with its extracted values, reduced to the selected fields. A path that leads nowhere extracts
/// `null`.
fn project_thread(mut thread: WireThread, fields: &ThreadFields) -> Result<ThreadProjection, ApiError> {
    if !fields.extract.is_empty() {
        let value = serde_json::to_value(&thread).map_err(ApiError::internal)?;
        let extract = |(name, path): &(String, Vec<PathSegment>)| {
            (name.clone(), value_at(&value, path).cloned().unwrap_or_default())
        };
        thread.extracted = Some(AnyObject(fields.extract.iter().map(extract).collect()));
    }
    let Some(select) = &fields.select else { return Ok(ThreadProjection::Whole(Box::new(thread))) };
    match serde_json::to_value(&thread).map_err(ApiError::internal)? {
        Value::Object(mut object) => {
            object.retain(|name, _| name == "extracted" || select.contains(name));
            Ok(ThreadProjection::Selected(object))
        }
        _ => Ok(ThreadProjection::Whole(Box::new(thread))),
    }
}

/// The result of a search by values.
struct ThreadMatches {
    /// The threads that match, in the order of the search.
    threads: Vec<Thread>,
    /// True if every thread of the filter was examined.
    is_complete: bool,
}

/// Returns the threads of the filter whose current values contain `values`.
///
/// The offset and the limit of `filter` are used to page through the candidates. The caller applies the offset and the
/// limit of the request to the result. Each candidate costs one read of its state.
async fn find_by_values(
    caller: &Caller,
    mut filter: ThreadFilter,
    values: &Map<String, Value>,
) -> Result<ThreadMatches, ApiError> {
    let (mut threads, mut scanned) = (Vec::new(), 0);
    let mut rows: VecDeque<Thread> = VecDeque::new();
    loop {
        let Some(thread) = rows.pop_front() else {
            filter.offset = scanned;
            rows = caller.agent.threads().list(filter.clone()).await?.into();
            if rows.is_empty() {
                return Ok(ThreadMatches { threads, is_complete: true });
            }
            continue;
        };
        if scanned == THREADS_SCANNED_MAX {
            return Ok(ThreadMatches { threads, is_complete: false });
        }
        scanned += 1;
        let Some(state) = caller.agent.threads().state(thread.thread_id).await.or_else(none_if_absent)?
        else {
            continue;
        };
        let current = serde_json::to_value(StateValues::from_state(thread.thread_id, &state))
            .map_err(ApiError::internal)?;
        if current.as_object().is_some_and(|current| subset::has_fields(current, values)) {
            threads.push(thread);
        }
    }
}

/// Parses a path such as `values.messages[-1].content`. Returns `None` if it is malformed.
fn parse_path(path: &str) -> Option<Vec<PathSegment>> {
    let mut segments = Vec::new();
    for part in path.split('.') {
        let (name, mut indices) = part.split_at(part.find('[').unwrap_or(part.len()));
        match (name.is_empty(), indices.is_empty()) {
            (true, true) => return None,
            (true, false) => {}
            (false, _) => segments.push(PathSegment::Field(name.to_owned())),
        }
        while !indices.is_empty() {
            let (index, remaining) = indices.strip_prefix('[')?.split_once(']')?;
            segments.push(PathSegment::Index(index.parse().ok()?));
            indices = remaining;
        }
    }
    Some(segments)
}

/// Returns the value that a path leads to, or `None` if a field or an element on the way is missing.
fn value_at<'a>(value: &'a Value, path: &[PathSegment]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, segment| match segment {
        PathSegment::Field(name) => value.get(name),
        PathSegment::Index(index) => {
            let list = value.as_array()?;
            let from_end = || list.len().checked_sub(usize::try_from(index.unsigned_abs()).ok()?);
            list.get(usize::try_from(*index).ok().or_else(from_end)?)
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(path: &str, expected: Option<Value>) {
        let value = json!({"values": {"messages": [{"content": "a"}, {"content": "b"}], "title": "t"}});
        let extracted =
            parse_path(path).map(|segments| value_at(&value, &segments).cloned().unwrap_or_default());
        assert_eq!(extracted, expected, "{path}");
    }

    #[test]
    fn paths_select_fields_and_elements_and_malformed_paths_are_refused() {
        check("values.title", Some(json!("t")));
        check("values.messages[0].content", Some(json!("a")));
        check("values.messages[-1].content", Some(json!("b")));
        check("values.messages[7]", Some(Value::Null));
        check("values.messages[-7]", Some(Value::Null));
        check("values.missing.field", Some(Value::Null));
        for malformed in ["", "a..b", "a[", "a[x]", "a[0]b"] {
            check(malformed, None);
        }
    }
}
