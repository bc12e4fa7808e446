//! Tests of the public interface: real files with known counts, damaged input, and the events that an import stores.

#![expect(clippy::unwrap_used, reason = "the helpers of tests may end a test like the tests themselves")]

mod bad_input;
mod collect;
mod discovery;
mod events;
mod manifest;
mod properties;
mod sessions;
