//! Pagination of lists: the requested page, the pagination headers of a response, and JSON lists that are streamed row
//! by row, so that a long list of large rows is never in memory as a whole.

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt as _};
use serde::Serialize;

use crate::error::ApiError;

/// The maximum number of rows in one page.
pub(crate) const ROWS_MAX: usize = 1_000;

/// The maximum number of rows that a request may skip.
const OFFSET_MAX: usize = 1 << 40;

/// The response header with the total number of rows, over all pages.
pub(crate) const TOTAL_HEADER: HeaderName = HeaderName::from_static("x-pagination-total");

/// The page of a list that a client requested.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageRequest {
    /// The number of rows to skip.
    pub offset: usize,
    /// The maximum number of rows to return, from 1 to [`ROWS_MAX`].
    pub limit: usize,
}

impl PageRequest {
    /// Returns the page with that `limit` and `offset`. The defaults are `default_limit` and 0.
    ///
    /// # Errors
    /// An invalid field if `limit` is not between 1 and [`ROWS_MAX`], or if `offset` is too large.
    pub fn from_query(
        limit: Option<usize>,
        offset: Option<usize>,
        default_limit: usize,
    ) -> Result<Self, ApiError> {
        let (limit, offset) = (limit.unwrap_or(default_limit), offset.unwrap_or(0));
        if !(1..=ROWS_MAX).contains(&limit) {
            return Err(ApiError::invalid(format!("`limit` must be 1 to {ROWS_MAX}")));
        }
        if offset > OFFSET_MAX {
            return Err(ApiError::invalid(format!("`offset` must be 0 to {OFFSET_MAX}")));
        }
        Ok(Self { offset, limit })
    }

    /// Returns the response with the pagination headers: `x-pagination-total`, and `x-pagination-next` with the offset
    /// of the next page if there is one.
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

/// Returns the fields that a client selected for the rows of a list, after checking that each is one of `fields`.
///
/// # Errors
/// An invalid field if a selected field is unknown. The message lists the known fields.
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

/// Returns a response with a JSON list whose elements are computed while it is sent.
///
/// The first element is computed before the function returns, so that an immediate failure still gets an error status.
/// A later failure aborts the connection, because the status has been sent already.
///
/// # Errors
/// The error of the first element.
pub(crate) async fn list_response<T>(
    rows: impl Stream<Item = Result<T, ApiError>> + Send + 'static,
) -> Result<Response, ApiError>
where
    T: Serialize + Send,
{
    let mut rows = Box::pin(rows.map(|row| serialize_row(&row?)));
    let first = rows.next().await.transpose()?;
    let start = match first {
        Some(first) => [b"[", first.as_slice()].concat(),
        None => b"[".to_vec(),
    };
    let others = rows.map(|row| row.map(|row| [b",", row.as_slice()].concat()));
    let start = futures::stream::once(async { Ok(start) });
    let end = futures::stream::once(async { Ok(b"]".to_vec()) });
    let chunks = start.chain(others).chain(end).map(|chunk| {
        // The error aborts the connection. The client sees an incomplete body instead of a list that looks complete.
        chunk
            .map(Bytes::from)
            .inspect_err(|error| tracing::error!(%error, "failed to send the remaining rows of a list"))
    });
    let json = HeaderValue::from_static("application/json");
    Ok(([(header::CONTENT_TYPE, json)], Body::from_stream(chunks)).into_response())
}

/// Serializes one row as JSON.
fn serialize_row<T: Serialize>(row: &T) -> Result<Vec<u8>, ApiError> {
    serde_json::to_vec(row).map_err(ApiError::internal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_limits_are_checked_and_the_next_offset_is_sent() {
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
