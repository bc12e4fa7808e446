//! Extractors of the HTTP handlers: bodies, query parameters and ids in paths. Each rejection names the field or
//! parameter and the problem. Nothing is looked up here: an id that is well formed may still name nothing.

pub(crate) mod json_limits;

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use axum::RequestPartsExt;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use protocol::{CheckpointId, RunId, ThreadId};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::ApiError;

pub use json_limits::JSON_VALUES_MAX;

/// Maximum number of characters of a malformed id that an error message quotes.
const SHOWN_ID_CHARS_MAX: usize = 80;

/// A body that is a JSON object, parsed into `T`. The content type of the request is not checked.
///
/// Rejections: 413 for a body over the limit, 400 for an incomplete one, 422 for one that is no JSON object or does
/// not fit `T`.
pub struct JsonBody<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let bytes = read_body(request).await?;
        let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
        if first.is_some_and(|byte| *byte != b'{')
            && serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok()
        {
            return Err(ApiError::invalid("the request body must be a JSON object"));
        }
        parse_json(&bytes).map(Self)
    }
}

/// Maximum time in which a body must arrive. A slow client occupies memory that others need.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// Reads the whole body, up to the limit that the router sets.
///
/// # Errors
/// 408 if the body takes longer than a minute, 413 if it is over the limit, and 400 if the connection ended before the whole
/// body arrived.
pub async fn read_body(request: Request) -> Result<Bytes, ApiError> {
    let Ok(body) = tokio::time::timeout(BODY_TIMEOUT, Bytes::from_request(request, &())).await else {
        return Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the request body took too long"));
    };
    body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::too_large("the request body is too large"),
        _ => ApiError::bad_request("the request body is incomplete"),
    })
}

/// Reads the whole body of a request whose JSON is parsed elsewhere, and checks its number of values before that.
///
/// # Errors
/// As [`read_body`], and 413 if the body has more than [`JSON_VALUES_MAX`] values.
pub async fn read_json_body(request: Request) -> Result<Bytes, ApiError> {
    let bytes = read_body(request).await?;
    json_limits::check_value_count(&bytes)?;
    Ok(bytes)
}

/// Parses JSON into `T`. The input is parsed once if it fits, and up to three times to find the best error message.
///
/// # Errors
/// Status 413 if the input has too many values. Otherwise status 422. The message names the path of the field that does not
/// fit. If the input is not JSON at all, the hint contains
/// the parser's message with line and column.
pub fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    json_limits::check_value_count(bytes)?;
    serde_json::from_slice(bytes).map_err(|error| match serde_json::from_slice::<Value>(bytes) {
        // The path of the field helps more than a line number; parsing from a `Value` gives a message without one.
        Ok(value) => match serde_path_to_error::deserialize::<_, T>(value) {
            Err(error) if error.path().iter().len() == 0 => ApiError::invalid(error.inner().to_string()),
            Err(error) => ApiError::invalid(format!("`{}`: {}", error.path(), error.inner())),
            // A field that occurs twice: the `Value` has it only once, so that the error disappears.
            Ok(_) => ApiError::invalid(error.to_string()),
        },
        Err(_) => ApiError::invalid("Invalid JSON in request body").with_hint(error.to_string()),
    })
}

/// The query parameters, percent-decoded. A name may occur several times. Parameters with an empty value are left out.
pub struct QueryParams(Vec<(String, String)>);

impl<S: Sync> FromRequestParts<S> for QueryParams {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let query = parts.uri.query().unwrap_or_default();
        let pairs = form_urlencoded::parse(query.as_bytes()).filter(|(_, value)| !value.is_empty());
        Ok(Self(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect()))
    }
}

impl QueryParams {
    /// Returns the first value of that name.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Returns every value of that name, in order.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns a Boolean parameter: `1`, `0`, `true` or `false` in upper or lower case; `None` if it is absent.
    ///
    /// # Errors
    /// 422 if the value is something else.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, ApiError> {
        self.text(name)
            .map(|text| {
                parse_flag(text).ok_or_else(|| ApiError::invalid(format!("`{name}` must be true or false")))
            })
            .transpose()
    }

    /// Returns a number within the bounds, which include both ends; `None` if the parameter is absent.
    ///
    /// # Errors
    /// 422 if the value is not a number, or is out of bounds.
    pub fn number(&self, name: &str, bounds: RangeInclusive<usize>) -> Result<Option<usize>, ApiError> {
        let parse = |text: &str| text.parse().ok().filter(|number| bounds.contains(number));
        let invalid =
            || ApiError::invalid(format!("`{name}` must be {} to {}", bounds.start(), bounds.end()));
        self.text(name).map(|text| parse(text).ok_or_else(invalid)).transpose()
    }
}

/// Returns the Boolean value of the text; `None` if it is neither true nor false.
fn parse_flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" => Some(true),
        "0" | "false" => Some(false),
        _ => None,
    }
}

/// The thread id in a path `/threads/{thread_id}…`.
#[derive(Clone, Copy)]
pub struct ThreadPath(pub ThreadId);

impl<S: Sync> FromRequestParts<S> for ThreadPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        Ok(Self(parse_path_id(&PathParams::from_request_parts(parts, state).await?, "thread")?))
    }
}

/// The thread id and the run id in a path `/threads/{thread_id}/runs/{run_id}…`.
#[derive(Clone, Copy)]
pub struct RunPath {
    /// The thread.
    pub thread_id: ThreadId,
    /// The run.
    pub run_id: RunId,
}

impl<S: Sync> FromRequestParts<S> for RunPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let params = PathParams::from_request_parts(parts, state).await?;
        Ok(Self { thread_id: parse_path_id(&params, "thread")?, run_id: parse_path_id(&params, "run")? })
    }
}

/// The named segments of the path, percent-decoded.
pub struct PathParams(RawPathParams);

impl<S: Sync> FromRequestParts<S> for PathParams {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let params = parts.extract::<RawPathParams>().await;
        params.map(Self).map_err(|_| ApiError::invalid("the path is not UTF-8"))
    }
}

impl PathParams {
    /// Returns the segment of that name; an empty text if the route has none.
    pub fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value)
    }
}

/// Parses the id in the path segment `<what>_id`; `what` is `thread`, `run` and so on.
///
/// # Errors
/// 422 if the segment is not a UUID.
pub fn parse_path_id<T: FromStr>(params: &PathParams, what: &str) -> Result<T, ApiError> {
    parse_id(params.get(&format!("{what}_id")), what)
}

/// Parses an id. `what` names its kind in the error message: `thread`, `run` and so on.
///
/// # Errors
/// 422 if the text is not a UUID.
pub fn parse_id<T: FromStr>(text: &str, what: &str) -> Result<T, ApiError> {
    text.parse().map_err(|_| ApiError::invalid(format!("Invalid {what} ID: must be a UUID")))
}

/// Parses the id of a checkpoint.
///
/// # Errors
/// 404 if the text is malformed: in the protocol a checkpoint id is any text, so that a malformed one is an unknown
/// one.
pub fn parse_checkpoint_id(text: &str) -> Result<CheckpointId, ApiError> {
    let shown: String = text.chars().take(SHOWN_ID_CHARS_MAX).collect();
    text.parse().map_err(|_| ApiError::not_found(format!("checkpoint `{shown}` not found")))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only whether it can be read matters")]
    struct Outer {
        inner: Option<Inner>,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only whether it can be read matters")]
    struct Inner {
        number: u32,
        form: Option<Form>,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only whether it can be read matters")]
    enum Form {
        Large(u32),
    }

    fn check(body: &str, refusal: Option<&str>) {
        let parsed = parse_json::<Outer>(body.as_bytes());
        assert_eq!(parsed.err().map(|error| error.detail().to_owned()).as_deref(), refusal, "{body}");
    }

    #[test]
    fn a_body_that_does_not_fit_is_refused_with_the_field() {
        check(r#"{"inner":{"number":3},"unknown":[1]}"#, None);
        check(r#"{"inner":null}"#, None);
        check(
            r#"{"inner":{"number":"x"}}"#,
            Some("`inner.number`: invalid type: string \"x\", expected u32"),
        );
        check(
            r#"{"inner":{"number":1,"form":3}}"#,
            Some("`inner.form`: invalid type: integer `3`, expected string or map"),
        );
        check(r#"{"inner":3}"#, Some("`inner`: invalid type: integer `3`, expected struct Inner"));
        check(r#"{"inner":null,"inner":null}"#, Some("duplicate field `inner` at line 1 column 21"));
        check(r#"{"inner":{}}"#, Some("`inner`: missing field `number`"));
        check(r#"{"inner":"#, Some("Invalid JSON in request body"));
        check("", Some("Invalid JSON in request body"));
        check("{} {}", Some("Invalid JSON in request body"));
        check(r#"{"inner":"\ud800"}"#, Some("Invalid JSON in request body"));
    }

    #[test]
    fn a_flag_is_true_false_1_or_0() {
        for (text, value) in [
            ("1", Some(true)),
            ("true", Some(true)),
            ("False", Some(false)),
            ("0", Some(false)),
            ("yes", None),
        ] {
            assert_eq!(parse_flag(text), value, "{text}");
        }
    }
}
