//! The room as its callers see it: real files against their known counts, odd input, and what lands in the journal.

#![expect(clippy::unwrap_used, reason = "the helpers of tests may end a test like the tests themselves")]

mod bad_input;
mod collect;
mod discovery;
mod events;
mod manifest;
mod properties;
mod sessions;
