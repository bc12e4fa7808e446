//! The HTTP server: Segue's own endpoints under `/api`, authentication, limits, metrics and the page's files. The endpoints of
//! the Agent Server protocol are `langgraph`'s and are mounted here.
//!
//! What a request means and which run waits is decided in the rooms below. There are no cookies
//! anywhere: whoever comes in sends a key with each request, so that no page of another site can act for a person who is
//! signed in, and there is nothing a forged form could use.

mod own;
mod security;
mod server;

pub use langgraph::read_request;
pub use scheduler::{Dispatch, Error as DispatchError, Limits as RunLimits, Recovered};
pub use security::token::Token;
pub use server::error::Error;
pub use server::serve;
pub use server::settings::{Auth, Limits, Origins, Rate, Settings};

/// The result type of this room.
pub type Result<T> = std::result::Result<T, Error>;
