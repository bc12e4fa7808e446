//! The model double for tests: an HTTP server that plays a [`Script`] in the wire format that the path of a request selects.
//!
//! Tests of the client, the runtime and the whole program send requests to it as to a provider. It is deterministic: its
//! replies depend only on the script and the requests, not on a clock or random numbers. Shipped programs do not use it.

mod format;
mod script;
mod server;

pub use script::{
    Gate, GatePosition, RequestMatcher, Script, ScriptedCall, ScriptedEmbeddings, ScriptedFault,
    ScriptedReply, ScriptedStop, ScriptedTokens,
};
pub use server::{Error, RecordedRequest, ScriptedServer};
