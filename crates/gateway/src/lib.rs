//! HTTP and SSE in, calls of `agent` and `dispatch` out: the Agent Server API for clients that exist, and Segue's own
//! endpoints under `/api`.
//!
//! What a request means, which run waits and what a state looks like is decided in the rooms below. Here are the shapes of
//! the wire (`wire`), who may come in (`security`), and one small handler for each endpoint. There are no cookies
//! anywhere: whoever comes in sends a key with each request, so that no page of another site can act for a person who is
//! signed in, and there is nothing a forged form could use.

mod error;
mod events;
mod extract;
mod own;
mod resources;
mod runs;
mod security;
mod server;
mod sse;
mod streams;
mod wire;

pub use dispatch::{Dispatch, Error as DispatchError, Limits as RunLimits, Recovered};
pub use error::Error;
pub use security::token::Token;
pub use server::serve;
pub use server::settings::{Auth, Limits, Origins, Rate, Settings};

/// The result type of this room.
pub type Result<T> = std::result::Result<T, Error>;
