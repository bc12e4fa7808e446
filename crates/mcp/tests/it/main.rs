//! The crate against real servers: this test binary started as a child process, and a server over HTTP.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod fixture;
mod http;
mod program;
mod starting;
mod world;
