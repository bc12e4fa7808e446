//! The test machine: a home folder with the binary, a terminal, and a server.

pub mod collector;
pub mod fleet;
pub mod sandbox;
pub mod server;
pub mod terminal;
