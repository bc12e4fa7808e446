//! The program as a person or a script meets it: the real binary in a home folder of its own, offline, against the
//! scripted model server or in a terminal that is read back cell by cell. Rules are tested in the rooms that hold them.

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
