//! Pages of lists: how many rows, from where, and the headers that tell of the rest. Long lists of large things are sent
//! row by row, so that none is ever in memory as a whole.

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt as _};
use serde::Serialize;

use crate::error::ApiError;

/// Rows of a page at most.
pub(crate) const ROWS_MAX: usize = 1_000;

/// Rows that may be skipped at most.
const OFFSET_MAX: usize = 1 << 40;

/// Tells how many rows there are.
pub(crate) const TOTAL_HEADER: HeaderName = HeaderName::from_static("x-pagination-total");

/// A page of a list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageRequest {
    /// How many rows are skipped.
    pub offset: usize,
    /// The most rows.
    pub limit: usize,
}

impl PageRequest {
    /// Returns the page that was asked for; `usual` is its `limit` unless one was given.
    pub fn from_query(limit: Option<usize>, offset: Option<usize>, usual: usize) -> Result<Self, ApiError> {
        let (given, offset) = (limit.unwrap_or(usual), offset.unwrap_or(0));
        if !(1..=ROWS_MAX).contains(&given) {
            return Err(ApiError::invalid(format!("`limit` must be 1 to {ROWS_MAX}")));
        }
        if offset > OFFSET_MAX {
            return Err(ApiError::invalid(format!("`offset` must be 0 to {OFFSET_MAX}")));
        }
        Ok(Self { offset, limit: given })
    }

    /// Tells with the answer how many rows there are, and where the next page begins.
    pub fn with_pagination_headers(self, response: impl IntoResponse, total: u64) -> Response {
        let mut response = response.into_response();
        let headers = response.headers_mut();
        headers.insert(TOTAL_HEADER, HeaderValue::from(total));
        let next = self.offset.saturating_add(self.limit);
        if (next as u64) < total {
            headers.insert(HeaderName::from_static("x-pagination-next"), HeaderValue::from(next));
        }
        response
    }
}

/// Checks the fields of its rows that a client chooses.
///
/// # Errors
/// When one is no field of theirs; the fault names those there are.
pub(crate) fn check_select<'a>(
    select: impl IntoIterator<Item = &'a str>,
    fields: &[&str],
) -> Result<Vec<&'a str>, ApiError> {
    let select: Vec<&str> = select.into_iter().collect();
    match select.iter().all(|name| fields.contains(name)) {
        true => Ok(select),
        false => Err(ApiError::invalid(format!("`select` may name {}", fields.join(", ")))),
    }
}

/// Returns a JSON list whose elements are made one after the other while it is sent. The first one is made before, so that
/// what fails at once is told with a status.
pub(crate) async fn list_response<T>(
    rows: impl Stream<Item = Result<T, ApiError>> + Send + 'static,
) -> Result<Response, ApiError>
where
    T: Serialize + Send,
{
    let mut rows = Box::pin(rows.map(|row| serialize_row(&row?)));
    let first = rows.next().await.transpose()?;
    let begin = match first {
        Some(first) => [b"[", first.as_slice()].concat(),
        None => b"[".to_vec(),
    };
    let others = rows.map(|row| row.map(|row| [b",", row.as_slice()].concat()));
    let begin = futures::stream::once(async { Ok(begin) });
    let end = futures::stream::once(async { Ok(b"]".to_vec()) });
    let chunks = begin.chain(others).chain(end).map(|chunk| {
        // What was sent cannot be taken back: the connection breaks off, and the client sees that it did.
        chunk
            .map(Bytes::from)
            .inspect_err(|fault| tracing::error!(error = %fault, "failed to go on with a list"))
    });
    let json = HeaderValue::from_static("application/json");
    Ok(([(header::CONTENT_TYPE, json)], Body::from_stream(chunks)).into_response())
}

fn serialize_row<T: Serialize>(row: &T) -> Result<Vec<u8>, ApiError> {
    serde_json::to_vec(row).map_err(ApiError::internal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_a_limit_and_tell_of_the_rest() {
        for limit in [0, 1_001] {
            assert!(PageRequest::from_query(Some(limit), None, 10).is_err(), "{limit}");
        }
        let page = PageRequest::from_query(None, Some(20), 10).unwrap();
        let next = |total| {
            page.with_pagination_headers("", total)
                .headers()
                .get("x-pagination-next")
                .map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!((next(31), next(30), next(5)), (Some("30".to_owned()), None, None));
    }
}
