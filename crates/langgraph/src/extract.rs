//! Extractors for handlers: the caller, bodies, parameters and ids. Each rejection names the problem. Nothing is looked
//! up here.

use std::ops::RangeInclusive;
use std::str::FromStr;

use axum::RequestPartsExt;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use protocol::{CheckpointId, RunId, ThreadId};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::ApiError;

/// A body that is a JSON object, whatever its content type says.
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

/// Reads the whole body, up to the limit.
pub async fn read_body(request: Request) -> Result<Bytes, ApiError> {
    Bytes::from_request(request, &()).await.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::too_large("the request body is too large"),
        _ => ApiError::bad_request("the request body broke off"),
    })
}

/// Reads JSON. What does not fit is refused with the path of the field.
pub fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(bytes).map_err(|error| match serde_json::from_slice::<Value>(bytes) {
        // Read from a value the reason names no line, and the field's path is better.
        Ok(value) => match serde_path_to_error::deserialize::<_, T>(value) {
            Err(error) if error.path().iter().len() == 0 => ApiError::invalid(error.inner().to_string()),
            Err(error) => ApiError::invalid(format!("`{}`: {}", error.path(), error.inner())),
            // A field that is there twice.
            Ok(_) => ApiError::invalid(error.to_string()),
        },
        Err(_) => ApiError::invalid("Invalid JSON in request body").with_hint(error.to_string()),
    })
}

/// The parameters behind the `?`. A name may come several times; an empty value is none.
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

    /// Returns a truth: `1`, `0`, `true` or `false`, however it is written.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, ApiError> {
        self.text(name)
            .map(|text| {
                parse_flag(text).ok_or_else(|| ApiError::invalid(format!("`{name}` must be true or false")))
            })
            .transpose()
    }

    /// Returns a number within the bounds.
    pub fn number(&self, name: &str, bounds: RangeInclusive<usize>) -> Result<Option<usize>, ApiError> {
        let read = |text: &str| text.parse().ok().filter(|number| bounds.contains(number));
        let refused =
            || ApiError::invalid(format!("`{name}` must be {} to {}", bounds.start(), bounds.end()));
        self.text(name).map(|text| read(text).ok_or_else(refused)).transpose()
    }
}

fn parse_flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" => Some(true),
        "0" | "false" => Some(false),
        _ => None,
    }
}

/// The thread of `/threads/{thread_id}…`.
#[derive(Clone, Copy)]
pub struct ThreadPath(pub ThreadId);

impl<S: Sync> FromRequestParts<S> for ThreadPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        Ok(Self(parse_path_id(&PathParams::from_request_parts(parts, state).await?, "thread")?))
    }
}

/// The run of `/threads/{thread_id}/runs/{run_id}…`.
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

/// The named parts of the path.
pub struct PathParams(RawPathParams);

impl<S: Sync> FromRequestParts<S> for PathParams {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let params = parts.extract::<RawPathParams>().await;
        params.map(Self).map_err(|_| ApiError::invalid("the path is not UTF-8"))
    }
}

impl PathParams {
    /// Returns the part of that name.
    pub fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value)
    }
}

/// Returns the id in the part `<what>_id` of the path.
pub fn parse_path_id<T: FromStr>(params: &PathParams, what: &str) -> Result<T, ApiError> {
    parse_id(params.get(&format!("{what}_id")), what)
}

/// Reads an id; `what` is `thread`, `run`, …
pub fn parse_id<T: FromStr>(text: &str, what: &str) -> Result<T, ApiError> {
    text.parse().map_err(|_| ApiError::invalid(format!("Invalid {what} ID: must be a UUID")))
}

/// Reads the id of a checkpoint. To clients it is any text: what cannot be one is not there.
pub fn parse_checkpoint_id(text: &str) -> Result<CheckpointId, ApiError> {
    let shown: String = text.chars().take(80).collect();
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
        let read = parse_json::<Outer>(body.as_bytes());
        assert_eq!(read.err().map(|fault| fault.detail().to_owned()).as_deref(), refusal, "{body}");
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
    fn truths_come_in_four_forms() {
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
