//! What handlers take from a request: who calls, bodies, parameters and ids, each refused with a text that names what is
//! wrong. Nothing is looked up here.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;

use agent::Agent;
use axum::RequestPartsExt;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use http::StatusCode;
use http::request::Parts;
use protocol::{CheckpointId, RunId, Scope, ThreadId};
use serde::de::DeserializeOwned;

use crate::error::Fault;

/// Whose request it is, as the door found out ([`crate::security`]).
#[derive(Clone)]
pub(crate) struct Caller {
    /// Whose data they may see.
    pub scope: Scope,
    /// The agent as they see it.
    pub agent: Arc<Agent>,
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Fault> {
        // The door puts it there, or lets nobody through to an endpoint that takes it.
        parts.extensions.get::<Self>().cloned().ok_or_else(|| Fault::unauthorized("Not authenticated"))
    }
}

/// A body that is a JSON object, whatever its content type says.
pub(crate) struct Body<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Fault;

    async fn from_request(request: Request, state: &S) -> Result<Self, Fault> {
        let bytes = read(request, state).await?;
        let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
        if first.is_some_and(|byte| *byte != b'{')
            && serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok()
        {
            return Err(Fault::invalid("the request body must be a JSON object"));
        }
        parse(&bytes).map(Self)
    }
}

/// Reads the whole body, up to the limit.
pub(crate) async fn read<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Fault> {
    Bytes::from_request(request, state).await.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Fault::too_large("the request body is too large"),
        _ => Fault::bad_request("the request body broke off"),
    })
}

/// Reads JSON. What does not fit is refused with the path of the field.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        match inner.classify() {
            serde_json::error::Category::Data if path == "." => Fault::invalid(reason(&inner)),
            serde_json::error::Category::Data => Fault::invalid(format!("`{path}`: {}", reason(&inner))),
            // What stands for one of several forms and is none of them counts as a fault of the text.
            _ if serde_json::from_slice::<serde_json::Value>(bytes).is_ok() => {
                Fault::invalid(format!("`{path}`: it has none of the known forms"))
            }
            _ => Fault::invalid("Invalid JSON in request body").with_hint(inner.to_string()),
        }
    })?;
    reader
        .end()
        .map_err(|error| Fault::invalid("Invalid JSON in request body").with_hint(error.to_string()))?;
    Ok(parsed)
}

/// Returns what serde says, without the place, for the field's path is better, and with the words of JSON for our types.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rfind(" at line ").map_or(text.as_str(), |end| &text[..end]);
    match text.split_once(", expected ") {
        Some((what, wanted)) => format!("{what}, expected {}", in_json(wanted)),
        None => text.to_owned(),
    }
}

fn in_json(wanted: &str) -> &str {
    match wanted {
        "i8" | "i16" | "i32" | "i64" | "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number",
        "f32" | "f64" => "a number",
        "a map" => "an object",
        "a sequence" => "a list",
        other if other.starts_with("struct ") => "an object",
        other if other.starts_with("enum ") || other.ends_with(" enum") => "one of the known forms",
        other => other,
    }
}

/// The parameters behind the `?`. A name may come several times; an empty value is none.
pub(crate) struct Params(Vec<(String, String)>);

impl<S: Sync> FromRequestParts<S> for Params {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Fault> {
        let query = parts.uri.query().unwrap_or_default();
        let pairs = form_urlencoded::parse(query.as_bytes()).filter(|(_, value)| !value.is_empty());
        Ok(Self(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect()))
    }
}

impl Params {
    /// Returns the first value of that name.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Returns every value of that name, in order.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns a truth: `1`, `0`, `true` or `false`, however it is written.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, Fault> {
        self.text(name)
            .map(|text| flag(text).ok_or_else(|| Fault::invalid(format!("`{name}` must be true or false"))))
            .transpose()
    }

    /// Returns a number within the bounds.
    pub fn number(&self, name: &str, bounds: RangeInclusive<usize>) -> Result<Option<usize>, Fault> {
        let read = |text: &str| text.parse().ok().filter(|number| bounds.contains(number));
        let refused = || Fault::invalid(format!("`{name}` must be {} to {}", bounds.start(), bounds.end()));
        self.text(name).map(|text| read(text).ok_or_else(refused)).transpose()
    }
}

fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" => Some(true),
        "0" | "false" => Some(false),
        _ => None,
    }
}

/// The thread of `/threads/{thread_id}…`.
#[derive(Clone, Copy)]
pub(crate) struct InThread(pub ThreadId);

impl<S: Sync> FromRequestParts<S> for InThread {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Fault> {
        Ok(Self(path_id(&PathParams::from_request_parts(parts, state).await?, "thread")?))
    }
}

/// The run of `/threads/{thread_id}/runs/{run_id}…`.
#[derive(Clone, Copy)]
pub(crate) struct OfRun {
    /// The thread.
    pub thread_id: ThreadId,
    /// The run.
    pub run_id: RunId,
}

impl<S: Sync> FromRequestParts<S> for OfRun {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Fault> {
        let params = PathParams::from_request_parts(parts, state).await?;
        Ok(Self { thread_id: path_id(&params, "thread")?, run_id: path_id(&params, "run")? })
    }
}

/// The named parts of the path.
pub(crate) struct PathParams(RawPathParams);

impl<S: Sync> FromRequestParts<S> for PathParams {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Fault> {
        let params = parts.extract::<RawPathParams>().await;
        params.map(Self).map_err(|_| Fault::invalid("the path is not UTF-8"))
    }
}

impl PathParams {
    /// Returns the part of that name.
    pub fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value)
    }
}

/// Returns the id in the part `<what>_id` of the path.
pub(crate) fn path_id<T: FromStr>(params: &PathParams, what: &str) -> Result<T, Fault> {
    id(params.get(&format!("{what}_id")), what)
}

/// Reads an id; `what` is `thread`, `run`, …
pub(crate) fn id<T: FromStr>(text: &str, what: &str) -> Result<T, Fault> {
    text.parse().map_err(|_| Fault::invalid(format!("Invalid {what} ID: must be a UUID")))
}

/// Reads the id of a checkpoint. To clients it is any text: what cannot be one is not there.
pub(crate) fn checkpoint_id(text: &str) -> Result<CheckpointId, Fault> {
    let shown: String = text.chars().take(80).collect();
    text.parse().map_err(|_| Fault::not_found(format!("checkpoint `{shown}` not found")))
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
        let read = parse::<Outer>(body.as_bytes());
        assert_eq!(read.err().map(|fault| fault.detail().to_owned()).as_deref(), refusal, "{body}");
    }

    #[test]
    fn a_body_that_does_not_fit_is_refused_with_the_field() {
        check(r#"{"inner":{"number":3},"unknown":[1]}"#, None);
        check(r#"{"inner":null}"#, None);
        check(
            r#"{"inner":{"number":"x"}}"#,
            Some("`inner.number`: invalid type: string \"x\", expected a whole number"),
        );
        check(r#"{"inner":{"number":1,"form":3}}"#, Some("`inner.form`: it has none of the known forms"));
        check(r#"{"inner":3}"#, Some("`inner`: invalid type: integer `3`, expected an object"));
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
            assert_eq!(flag(text), value, "{text}");
        }
    }
}
