//! Searching threads: by what the journal has of each, and by what stands at its head, which is looked at thread by thread
//! within a limit.

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

/// Threads whose state is looked at for one search by values.
const THREADS_SCANNED_MAX: usize = 1_000;

/// Tells how many threads a search by values looked at, where there are more.
const SEARCH_CUT_HEADER: HeaderName = HeaderName::from_static("x-search-cut");

/// Threads that are read at a time for it.
const SCAN_ROWS: usize = 200;

/// Ids that a search may name.
const IDS_MAX: usize = 1_000;

/// Paths that a search may extract.
const EXTRACTS_MAX: usize = 10;

/// Which threads to list, and what of them; every set field must match.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(super) struct ThreadSearch {
    /// Fields that their metadata must contain.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// Fields that their values must contain.
    #[schema(value_type = Option<Object>)]
    values: Option<Map<String, Value>>,
    /// Only these.
    ids: Option<Vec<String>>,
    /// `idle`, `busy`, `interrupted` or `error`.
    #[schema(pattern = "^(idle|busy|interrupted|error)$")]
    status: Option<String>,
    /// The most to return.
    #[schema(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// How many to skip.
    #[schema(minimum = 0)]
    offset: Option<usize>,
    /// `thread_id`, `status`, `created_at`, `updated_at` or `state_updated_at`.
    #[schema(pattern = "^(thread_id|status|created_at|updated_at|state_updated_at)$")]
    sort_by: Option<String>,
    /// `asc` or `desc`.
    #[schema(pattern = "^(asc|desc)$")]
    sort_order: Option<String>,
    /// Which fields to return.
    select: Option<Vec<String>>,
    /// Fields to extract from each thread, by name: paths such as `values.messages[-1].content`.
    #[schema(value_type = Option<Object>)]
    extract: Option<Map<String, Value>>,
}

/// The fields of each thread to return.
#[derive(Debug, Clone)]
struct ThreadFields {
    select: Option<Vec<String>>,
    extract: Vec<(String, Vec<PathSegment>)>,
}

/// A step of a path into a value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PathSegment {
    Field(String),
    Index(i64),
}

/// Lists threads, each with what stands at its head; with `select`, only the fields it names.
///
/// With `values` the first 1,000 threads of the order that meet the rest are looked at. Where there are more, the header
/// `x-search-cut` tells how many were, and `x-pagination-total` is left out.
#[utoipa::path(post, path = "/threads/search", tag = "threads", request_body = ThreadSearch,
    responses((status = 200, body = Vec<AnyObject>, description = "Threads, whole or in part."), (status = 401, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(super) async fn search(
    caller: Caller,
    JsonBody(search): JsonBody<ThreadSearch>,
) -> Result<Response, ApiError> {
    let page = PageRequest::from_query(search.limit, search.offset, 10)?;
    let shape = search.fields()?;
    let mut filter = search.filter(&caller)?;
    let (rows, total, is_complete) = match search.values.filter(|values| !values.is_empty()) {
        Some(values) => {
            let ThreadMatches { threads, is_complete } = find_by_values(&caller, filter, &values).await?;
            let total = threads.len() as u64;
            let rows = threads.into_iter().skip(page.offset).take(page.limit).collect();
            (rows, total, is_complete)
        }
        None => {
            let total = caller.agent.threads().count(filter.clone()).await?;
            (filter.offset, filter.limit) = (page.offset, page.limit);
            (caller.agent.threads().list(filter).await?, total, true)
        }
    };
    let mut response =
        page.with_pagination_headers(page::list_response(project_threads(caller, rows, shape)).await?, total);
    if !is_complete {
        response.headers_mut().remove(page::TOTAL_HEADER);
        response.headers_mut().insert(SEARCH_CUT_HEADER, HeaderValue::from(THREADS_SCANNED_MAX));
    }
    Ok(response)
}

/// Counts threads; by `values` no more than a search looks at.
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
                let detail =
                    format!("`values`: there are more than {THREADS_SCANNED_MAX} threads to look at");
                return Err(ApiError::invalid(detail).with_hint("narrow it by `metadata`, `status` or `ids`"));
            }
        },
        None => caller.agent.threads().count(filter).await?,
    };
    Ok(Json(count))
}

impl ThreadSearch {
    fn filter(&self, caller: &Caller) -> Result<ThreadFilter, ApiError> {
        let ids = self.ids.as_deref().unwrap_or_default();
        if ids.len() > IDS_MAX {
            return Err(ApiError::invalid(format!("`ids` holds more than {IDS_MAX}")));
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

    fn sort(&self) -> Result<ThreadSort, ApiError> {
        let by = match self.sort_by.as_deref() {
            None | Some("updated_at" | "state_updated_at") => ThreadSortKey::Updated,
            Some("created_at") => ThreadSortKey::Created,
            Some("status") => ThreadSortKey::Status,
            Some("thread_id") => ThreadSortKey::Id,
            Some(_) => {
                let known = "`sort_by` must be thread_id, status, created_at, updated_at or state_updated_at";
                return Err(ApiError::invalid(known));
            }
        };
        let direction = match self.sort_order.as_deref() {
            None | Some("desc") => SortDirection::Descending,
            Some("asc") => SortDirection::Ascending,
            Some(_) => return Err(ApiError::invalid("`sort_order` must be asc or desc")),
        };
        Ok(ThreadSort { by, direction })
    }

    fn fields(&self) -> Result<ThreadFields, ApiError> {
        page::check_select(self.select.iter().flatten().map(String::as_str), &THREAD_FIELDS)?;
        let wanted = self.extract.clone().unwrap_or_default();
        if wanted.len() > EXTRACTS_MAX {
            return Err(ApiError::invalid(format!("`extract` names more than {EXTRACTS_MAX}")));
        }
        let extract = wanted.into_iter().map(|(name, path)| {
            let parsed = path.as_str().and_then(parse_path);
            let parsed = parsed.ok_or_else(|| ApiError::invalid(format!("`extract.{name}` is no path")))?;
            Ok((name, parsed))
        });
        Ok(ThreadFields { select: self.select.clone(), extract: extract.collect::<Result<_, ApiError>>()? })
    }
}

impl ThreadFields {
    /// Returns whether what stands at a thread's head is told of it.
    fn needs_state(&self) -> bool {
        ["values", "interrupts", "state_updated_at", "config"].into_iter().any(|field| self.includes(field))
    }

    /// Returns whether the field is told, or something in it.
    fn includes(&self, field: &str) -> bool {
        let is_extracted = |(_, path): &(String, Vec<PathSegment>)| matches!(path.first(), Some(PathSegment::Field(first)) if first == field);
        let select = self.select.as_ref();
        select.is_none_or(|select| select.iter().any(|name| name == field))
            || self.extract.iter().any(is_extracted)
    }
}

/// A thread as it is told: as a whole, or what was chosen of it.
#[derive(serde::Serialize)]
#[serde(untagged)]
enum ThreadProjection {
    Whole(Box<WireThread>),
    Selected(Map<String, Value>),
}

/// Returns the threads as they are told, each made when it is its turn.
fn project_threads(
    caller: Caller,
    rows: Vec<Thread>,
    shape: ThreadFields,
) -> impl Stream<Item = Result<ThreadProjection, ApiError>> + Send {
    futures::stream::iter(rows).then(move |thread| {
        let (caller, shape) = (caller.clone(), shape.clone());
        async move {
            let state = match shape.needs_state() {
                // It may have been removed since the list was read.
                true => caller.agent.threads().state(thread.thread_id).await.or_else(none_if_absent)?,
                false => None,
            };
            let failure = match shape.includes("error") {
                true => last_run_failure(&caller, &thread).await?,
                false => None,
            };
            project_thread(WireThread::from_thread(&thread, state.as_ref(), failure.as_ref()), &shape)
        }
    })
}

fn none_if_absent(error: agent::Error) -> Result<Option<ThreadSnapshot>, ApiError> {
    if error.is_not_found() { Ok(None) } else { Err(error.into()) }
}

fn project_thread(mut thread: WireThread, shape: &ThreadFields) -> Result<ThreadProjection, ApiError> {
    if !shape.extract.is_empty() {
        let value = serde_json::to_value(&thread).map_err(ApiError::internal)?;
        let take = |(name, path): &(String, Vec<PathSegment>)| {
            (name.clone(), value_at(&value, path).cloned().unwrap_or_default())
        };
        thread.extracted = Some(AnyObject(shape.extract.iter().map(take).collect()));
    }
    let Some(select) = &shape.select else { return Ok(ThreadProjection::Whole(Box::new(thread))) };
    match serde_json::to_value(&thread).map_err(ApiError::internal)? {
        Value::Object(mut fields) => {
            fields.retain(|name, _| name == "extracted" || select.contains(name));
            Ok(ThreadProjection::Selected(fields))
        }
        _ => Ok(ThreadProjection::Whole(Box::new(thread))),
    }
}

/// Threads at whose head stands what the values ask for.
struct ThreadMatches {
    threads: Vec<Thread>,
    /// True if every thread was examined.
    is_complete: bool,
}

/// Returns the threads at whose head stands what the values ask for.
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
        let own = serde_json::to_value(StateValues::from_state(thread.thread_id, &state))
            .map_err(ApiError::internal)?;
        if own.as_object().is_some_and(|own| subset::has_fields(own, values)) {
            threads.push(thread);
        }
    }
}

/// Reads a path such as `values.messages[-1].content`.
fn parse_path(path: &str) -> Option<Vec<PathSegment>> {
    let mut parts = Vec::new();
    for piece in path.split('.') {
        let (name, mut rest) = piece.split_at(piece.find('[').unwrap_or(piece.len()));
        match (name.is_empty(), rest.is_empty()) {
            (true, true) => return None,
            (true, false) => {}
            (false, _) => parts.push(PathSegment::Field(name.to_owned())),
        }
        while !rest.is_empty() {
            let (index, behind) = rest.strip_prefix('[')?.split_once(']')?;
            parts.push(PathSegment::Index(index.parse().ok()?));
            rest = behind;
        }
    }
    Some(parts)
}

fn value_at<'a>(value: &'a Value, path: &[PathSegment]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, part| match part {
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
        let found = parse_path(path).map(|parts| value_at(&value, &parts).cloned().unwrap_or_default());
        assert_eq!(found, expected, "{path}");
    }

    #[test]
    fn paths_lead_into_values() {
        check("values.title", Some(json!("t")));
        check("values.messages[0].content", Some(json!("a")));
        check("values.messages[-1].content", Some(json!("b")));
        check("values.messages[7]", Some(Value::Null));
        check("values.messages[-7]", Some(Value::Null));
        check("values.nothing.there", Some(Value::Null));
        for malformed in ["", "a..b", "a[", "a[x]", "a[0]b"] {
            check(malformed, None);
        }
    }
}
