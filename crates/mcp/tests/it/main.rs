//! The room against real servers: programs that this binary starts of itself, and one over HTTP.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod fixture;
mod http;
mod program;
mod starting;
mod world;
