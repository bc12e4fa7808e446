//! End-to-end tests of the `segue` binary. Each test has its own home folder and runs offline, against the
//! scripted model server or in a terminal whose screen is read back. Unit tests of single rules are in the
//! crates that implement them.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bad_input;
mod book;
mod chat;
mod compact;
mod database;
mod handoff;
mod memory;
mod run;
mod serve;
mod support;
mod threads;

use support::{collector, fleet, sandbox, server, terminal};
