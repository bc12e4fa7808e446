//! Moving to a child thread: request, select, draft, ground, propose, accept, cleanup.

mod accept;
mod cleanup;
mod draft;
mod ledger;
mod lifecycle;
pub mod limits;
mod request;
mod review;
mod summary;
#[cfg(test)]
mod transcript;

pub use accept::{ACCEPT_ACTIVITY, Acceptance, AgentFiles, MIRROR_KIND, given_up, settled};
pub use cleanup::{
    BlockClearing, CLEANUP_NODE, CLEAR_ACTIVITY, HandoffCleanup, MARK_NODE, MarkFirstTurn, after_turn,
    should_cleanup_handoff, turn_channels,
};
pub use draft::summarization::{
    Drafting, EXTRACTIVE, HandoffRequestNode, HandoffSummarization, REQUEST_NODE, SUMMARIZATION_NODE,
    after_decision, entry,
};
pub use ledger::source::{Item, What};
pub use ledger::{CheckRun, Facts, FileUse, Ledger, Name, Quote, Rule};
pub use lifecycle::{IllegalTransition, Step, next};
pub use request::{Options, Request, requested_key, restart, start};
pub use review::approval::{APPROVAL_NODE, HandoffApproval, refinements_left, uncovered_messages};
pub use review::payload::{ACTION_NAME, MIDDLEWARE_SOURCE};
pub use summary::coverage::{CoverageBuilder, Reach};
pub use summary::extract::{Extract, carry_over, extract};
pub use summary::ground::Grounding;
pub use summary::render::{self, fit, render};
pub use summary::select::{Selection, Selector};

/// Returns the lowercase hex SHA-256 of `bytes`.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
