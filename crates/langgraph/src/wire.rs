//! The JSON shapes of the Agent Server API, converted from the types of the crates below. The OpenAPI document is
//! generated from the same types, so that each shape is described once. This module converts values only; it reads
//! nothing.

pub(crate) mod assistant;
pub(crate) mod failure;
pub(crate) mod graph;
pub(crate) mod message;
pub(crate) mod run;
pub(crate) mod state;
pub(crate) mod thread;
pub(crate) mod webhook;

use jiff::Timestamp;
use protocol::ThreadStatus;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, Schema};
use utoipa::{PartialSchema, ToSchema};

pub(crate) use run::run_status;
pub use state::Interrupt;

/// A JSON object with arbitrary fields.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(transparent)]
pub struct AnyObject(pub Map<String, Value>);

impl PartialSchema for AnyObject {
    fn schema() -> RefOr<Schema> {
        any_object()
    }
}

impl ToSchema for AnyObject {}

/// Returns the time in the format of the API: ISO 8601 in UTC, with microseconds and the offset `+00:00`.
pub(crate) fn timestamp(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string()
}

/// Returns the name of a thread's status on the wire.
pub(crate) const fn thread_status(status: ThreadStatus) -> &'static str {
    status.as_str()
}

/// Returns the OpenAPI schema of an object with arbitrary fields.
pub(crate) fn any_object() -> RefOr<Schema> {
    ObjectBuilder::new().additional_properties(Some(AdditionalProperties::FreeForm(true))).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_have_an_offset_and_microseconds() {
        let time: Timestamp = "2026-11-20T20:20:19.630614Z".parse().unwrap();
        assert_eq!(timestamp(time), "2026-11-20T20:20:19.630614+00:00");
        assert_eq!(timestamp(Timestamp::from_second(0).unwrap()), "1970-01-01T00:00:00.000000+00:00");
    }
}
