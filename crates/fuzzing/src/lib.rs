//! Fuzz targets for the parsers of text from outside: session files, request bodies, event streams, command lines, agent.md,
//! decisions, secrets and Markdown.
//!
//! A [`FuzzTarget`] takes any bytes and asserts what must hold for them: another implementation agrees, two ways of reading
//! give one result, nothing in front of a damaged part is lost, nothing hostile passes. [`TARGETS`] lists all targets. The
//! tests replay the [`corpus`], which is the folder `corpus/`, together with inputs that an [`InputGenerator`] derives from
//! it, and compare the work for an input with the work for one of twice its length. `cargo xtask fuzz` runs a target under
//! libFuzzer, which is guided by coverage.
//!
//! Deliberately absent: anything that a shipped program uses, and tests of single cases, which are next to each parser.

pub mod corpus;
mod generator;
mod targets;

pub use generator::{INPUT_BYTES_MAX, InputGenerator};
pub use targets::{FuzzTarget, RepeatedInput, TARGETS, find_target};
