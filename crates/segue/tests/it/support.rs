//! Fixtures shared by all tests: a home folder with the binary, a terminal, a server and an OpenTelemetry
//! collector.

pub mod collector;
pub mod fleet;
pub mod sandbox;
pub mod server;
pub mod terminal;
