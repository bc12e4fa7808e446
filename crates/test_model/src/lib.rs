//! The one model double: an HTTP server that plays a script in the wire format the request's path asks for.
//!
//! Tests of the real client, of the runtime and of the whole program talk to it as to a provider; it is used by tests
//! only. It has no model, no clock and no chance: what it answers stands in the [`Script`].

mod format;
mod script;
mod server;

pub use script::{
    Gate, GatePosition, RequestMatcher, Script, ScriptedCall, ScriptedFault, ScriptedReply, ScriptedStop,
    ScriptedTokens,
};
pub use server::{Error, RecordedRequest, ScriptedServer};
