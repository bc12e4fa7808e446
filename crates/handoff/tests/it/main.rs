//! Integration tests of the crate's public functions on real conversations.

#![expect(clippy::unwrap_used, reason = "the helpers of tests may end a test like the tests themselves")]

mod conversations;
mod invariants;
mod model_drafts;
