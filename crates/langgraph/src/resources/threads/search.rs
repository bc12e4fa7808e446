//! Searching threads: by what the journal has of each, and by what stands at its head, which is looked at thread by thread
//! within a limit.

use std::collections::VecDeque;

use agent::{Direction, Sort, SortBy, State, ThreadFilter};
use axum::Json;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use futures::{Stream, StreamExt as _};
use protocol::{Thread, ThreadId, ThreadStatus};
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::failure;
use crate::caller::Caller;
use crate::extract::{Body, id};
use crate::fault::{Envelope, Fault};
use crate::resources::page::{self, Page};
use crate::resources::subset;
use crate::wire::AnyObject;
use crate::wire::state::Values;
use crate::wire::thread::{FIELDS, WireThread};

/// Threads whose state is looked at for one search by values.
const SCANNED_MAX: usize = 1_000;

/// Tells how many threads a search by values looked at, where there are more.
const SEARCH_CUT: HeaderName = HeaderName::from_static("x-search-cut");

/// Threads that are read at a time for it.
const SCAN_ROWS: usize = 200;

/// Ids that a search may name.
const IDS_MAX: usize = 1_000;

/// Paths that a search may extract.
const EXTRACTS_MAX: usize = 10;

/// Which threads to list, and what of them; every set field must match.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(super) struct ThreadSearch {
    /// What their metadata must contain.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// What their values must contain.
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
    /// What to take out of each thread, by name: paths such as `values.messages[-1].content`.
    #[schema(value_type = Option<Object>)]
    extract: Option<Map<String, Value>>,
}

/// What of each thread is returned.
#[derive(Debug, Clone)]
struct Shape {
    select: Option<Vec<String>>,
    extract: Vec<(String, Vec<Part>)>,
}

/// A step of a path into a value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Field(String),
    Index(i64),
}

/// Lists threads, each with what stands at its head; with `select`, only the fields it names.
///
/// With `values` the first 1,000 threads of the order that meet the rest are looked at. Where there are more, the header
/// `x-search-cut` tells how many were, and `x-pagination-total` is left out.
#[utoipa::path(post, path = "/threads/search", tag = "threads", request_body = ThreadSearch,
    responses((status = 200, body = Vec<AnyObject>, description = "Threads, whole or in part."), (status = 401, body = Envelope), (status = 422, body = Envelope)))]
pub(super) async fn search(caller: Caller, Body(search): Body<ThreadSearch>) -> Result<Response, Fault> {
    let page = Page::of(search.limit, search.offset, 10)?;
    let shape = search.shape()?;
    let mut filter = search.filter(&caller)?;
    let (rows, total, is_all) = match search.values.filter(|values| !values.is_empty()) {
        Some(values) => {
            let Found { threads, is_all } = by_values(&caller, filter, &values).await?;
            let total = threads.len() as u64;
            let rows = threads.into_iter().skip(page.offset).take(page.limit).collect();
            (rows, total, is_all)
        }
        None => {
            let total = caller.agent.threads().count(filter.clone()).await?;
            (filter.offset, filter.limit) = (page.offset, page.limit);
            (caller.agent.threads().list(filter).await?, total, true)
        }
    };
    let mut response = page.told(page::list(told(caller, rows, shape)).await?, total);
    if !is_all {
        response.headers_mut().remove(page::TOTAL);
        response.headers_mut().insert(SEARCH_CUT, HeaderValue::from(SCANNED_MAX));
    }
    Ok(response)
}

/// Counts threads; by `values` no more than a search looks at.
#[utoipa::path(post, path = "/threads/count", tag = "threads", request_body = ThreadSearch,
    responses((status = 200, body = u64, content_type = "application/json"), (status = 401, body = Envelope), (status = 422, body = Envelope)))]
pub(super) async fn count(caller: Caller, Body(search): Body<ThreadSearch>) -> Result<Json<u64>, Fault> {
    let filter = search.filter(&caller)?;
    let count = match search.values.filter(|values| !values.is_empty()) {
        Some(values) => match by_values(&caller, filter, &values).await? {
            Found { threads, is_all: true } => threads.len() as u64,
            Found { .. } => {
                let detail = format!("`values`: there are more than {SCANNED_MAX} threads to look at");
                return Err(Fault::invalid(detail).with_hint("narrow it by `metadata`, `status` or `ids`"));
            }
        },
        None => caller.agent.threads().count(filter).await?,
    };
    Ok(Json(count))
}

impl ThreadSearch {
    fn filter(&self, caller: &Caller) -> Result<ThreadFilter, Fault> {
        let ids = self.ids.as_deref().unwrap_or_default();
        if ids.len() > IDS_MAX {
            return Err(Fault::invalid(format!("`ids` holds more than {IDS_MAX}")));
        }
        let status = self.status.as_deref().map(|name| {
            ThreadStatus::from_name(name)
                .ok_or_else(|| Fault::invalid("`status` must be idle, busy, interrupted or error"))
        });
        Ok(ThreadFilter {
            ids: ids.iter().map(|text| id::<ThreadId>(text, "thread")).collect::<Result<_, _>>()?,
            statuses: status.transpose()?.into_iter().collect(),
            metadata: self.metadata.clone().unwrap_or_default(),
            order: self.order()?,
            ..ThreadFilter::of(caller.scope.clone(), SCAN_ROWS)
        })
    }

    fn order(&self) -> Result<Sort, Fault> {
        let by = match self.sort_by.as_deref() {
            None | Some("updated_at" | "state_updated_at") => SortBy::Updated,
            Some("created_at") => SortBy::Created,
            Some("status") => SortBy::Status,
            Some("thread_id") => SortBy::Id,
            Some(_) => {
                let known = "`sort_by` must be thread_id, status, created_at, updated_at or state_updated_at";
                return Err(Fault::invalid(known));
            }
        };
        let direction = match self.sort_order.as_deref() {
            None | Some("desc") => Direction::Descending,
            Some("asc") => Direction::Ascending,
            Some(_) => return Err(Fault::invalid("`sort_order` must be asc or desc")),
        };
        Ok(Sort { by, direction })
    }

    fn shape(&self) -> Result<Shape, Fault> {
        page::chosen(self.select.iter().flatten().map(String::as_str), &FIELDS)?;
        let wanted = self.extract.clone().unwrap_or_default();
        if wanted.len() > EXTRACTS_MAX {
            return Err(Fault::invalid(format!("`extract` names more than {EXTRACTS_MAX}")));
        }
        let extract = wanted.into_iter().map(|(name, path)| {
            let parsed = path.as_str().and_then(parts);
            let parsed = parsed.ok_or_else(|| Fault::invalid(format!("`extract.{name}` is no path")))?;
            Ok((name, parsed))
        });
        Ok(Shape { select: self.select.clone(), extract: extract.collect::<Result<_, Fault>>()? })
    }
}

impl Shape {
    /// Returns whether what stands at a thread's head is told of it.
    fn needs_state(&self) -> bool {
        ["values", "interrupts", "state_updated_at", "config"].into_iter().any(|field| self.tells(field))
    }

    /// Returns whether the field is told, or something in it.
    fn tells(&self, field: &str) -> bool {
        let is_extracted = |(_, path): &(String, Vec<Part>)| matches!(path.first(), Some(Part::Field(first)) if first == field);
        let select = self.select.as_ref();
        select.is_none_or(|select| select.iter().any(|name| name == field))
            || self.extract.iter().any(is_extracted)
    }
}

/// A thread as it is told: as a whole, or what was chosen of it.
#[derive(serde::Serialize)]
#[serde(untagged)]
enum Told {
    Whole(Box<WireThread>),
    Chosen(Map<String, Value>),
}

/// Returns the threads as they are told, each made when it is its turn.
fn told(caller: Caller, rows: Vec<Thread>, shape: Shape) -> impl Stream<Item = Result<Told, Fault>> + Send {
    futures::stream::iter(rows).then(move |thread| {
        let (caller, shape) = (caller.clone(), shape.clone());
        async move {
            let state = match shape.needs_state() {
                // It may have been removed since the list was read.
                true => caller.agent.threads().state(thread.thread_id).await.or_else(absent)?,
                false => None,
            };
            let failure = match shape.tells("error") {
                true => failure(&caller, &thread).await?,
                false => None,
            };
            chosen(WireThread::of(&thread, state.as_ref(), failure.as_ref()), &shape)
        }
    })
}

fn absent(error: agent::Error) -> Result<Option<State>, Fault> {
    if error.is_absent() { Ok(None) } else { Err(error.into()) }
}

fn chosen(mut thread: WireThread, shape: &Shape) -> Result<Told, Fault> {
    if !shape.extract.is_empty() {
        let value = serde_json::to_value(&thread).map_err(Fault::internal)?;
        let take = |(name, path): &(String, Vec<Part>)| {
            (name.clone(), at(&value, path).cloned().unwrap_or_default())
        };
        thread.extracted = Some(AnyObject(shape.extract.iter().map(take).collect()));
    }
    let Some(select) = &shape.select else { return Ok(Told::Whole(Box::new(thread))) };
    match serde_json::to_value(&thread).map_err(Fault::internal)? {
        Value::Object(mut fields) => {
            fields.retain(|name, _| name == "extracted" || select.contains(name));
            Ok(Told::Chosen(fields))
        }
        _ => Ok(Told::Whole(Box::new(thread))),
    }
}

/// Threads at whose head stands what the values ask for.
struct Found {
    threads: Vec<Thread>,
    /// Whether every thread was looked at.
    is_all: bool,
}

/// Returns the threads at whose head stands what the values ask for.
async fn by_values(
    caller: &Caller,
    mut filter: ThreadFilter,
    values: &Map<String, Value>,
) -> Result<Found, Fault> {
    let (mut threads, mut scanned) = (Vec::new(), 0);
    let mut rows: VecDeque<Thread> = VecDeque::new();
    loop {
        let Some(thread) = rows.pop_front() else {
            filter.offset = scanned;
            rows = caller.agent.threads().list(filter.clone()).await?.into();
            if rows.is_empty() {
                return Ok(Found { threads, is_all: true });
            }
            continue;
        };
        if scanned == SCANNED_MAX {
            return Ok(Found { threads, is_all: false });
        }
        scanned += 1;
        let Some(state) = caller.agent.threads().state(thread.thread_id).await.or_else(absent)? else {
            continue;
        };
        let own = serde_json::to_value(Values::of(thread.thread_id, &state)).map_err(Fault::internal)?;
        if own.as_object().is_some_and(|own| subset::has_fields(own, values)) {
            threads.push(thread);
        }
    }
}

/// Reads a path such as `values.messages[-1].content`.
fn parts(path: &str) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    for piece in path.split('.') {
        let (name, mut rest) = piece.split_at(piece.find('[').unwrap_or(piece.len()));
        match (name.is_empty(), rest.is_empty()) {
            (true, true) => return None,
            (true, false) => {}
            (false, _) => parts.push(Part::Field(name.to_owned())),
        }
        while !rest.is_empty() {
            let (index, behind) = rest.strip_prefix('[')?.split_once(']')?;
            parts.push(Part::Index(index.parse().ok()?));
            rest = behind;
        }
    }
    Some(parts)
}

fn at<'a>(value: &'a Value, path: &[Part]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, part| match part {
        Part::Field(name) => value.get(name),
        Part::Index(index) => {
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
        let found = parts(path).map(|parts| at(&value, &parts).cloned().unwrap_or_default());
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
