//! The room as its callers see it: real files against their known counts, odd input, and what lands in the journal.

mod bad_input;
mod collect;
mod discovery;
mod formats;
mod manifest;
mod properties;
mod sessions;
