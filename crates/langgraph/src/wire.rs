//! The shapes of the Agent Server API, made from what the rooms below return. A shape is described once, here: the OpenAPI
//! document is made from the same types. What is in a state, and which runs there are, is not decided here.

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

/// An object of whatever fields.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(transparent)]
pub struct AnyObject(pub Map<String, Value>);

impl PartialSchema for AnyObject {
    fn schema() -> RefOr<Schema> {
        any_object()
    }
}

impl ToSchema for AnyObject {}

/// Returns a moment as clients read it: with an offset, to the microsecond.
pub(crate) fn timestamp(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string()
}

/// Returns the wire's word for whether something runs or waits in a thread.
pub(crate) const fn thread_status(status: ThreadStatus) -> &'static str {
    status.as_str()
}

/// Returns the schema of an object of whatever fields.
pub(crate) fn any_object() -> RefOr<Schema> {
    ObjectBuilder::new().additional_properties(Some(AdditionalProperties::FreeForm(true))).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_have_an_offset_and_microseconds() {
        let at: Timestamp = "2026-11-20T20:20:19.630614Z".parse().unwrap();
        assert_eq!(timestamp(at), "2026-11-20T20:20:19.630614+00:00");
        assert_eq!(timestamp(Timestamp::from_second(0).unwrap()), "1970-01-01T00:00:00.000000+00:00");
    }
}
