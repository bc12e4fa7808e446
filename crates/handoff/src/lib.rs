//! Moving to a child thread: request, select, draft, ground, propose, accept, cleanup.

mod accept;
mod approval;
mod cleanup;
mod coverage;
mod decide;
mod draft;
mod edit;
mod extract;
mod ground;
mod identifier;
mod ledger;
mod lifecycle;
pub mod limits;
mod payload;
mod phrase;
mod redact;
pub mod render;
mod request;
mod select;
mod shell;
mod source;
mod summarization;
mod tool_use;
#[cfg(test)]
mod transcript;
mod window;

pub use accept::{ACCEPT_ACTIVITY, Acceptance, MIRROR_KIND};
pub use approval::{APPROVAL_NODE, HandoffApproval, uncovered_messages};
pub use cleanup::{
    BlockClearing, CLEANUP_NODE, CLEAR_ACTIVITY, HandoffCleanup, MARK_NODE, MarkFirstTurn, after_turn,
    should_cleanup_handoff, turn_channels,
};
pub use coverage::{CoverageBuilder, Reach};
pub use extract::{Extract, carry_over, extract};
pub use ground::Grounding;
pub use ledger::{CheckRun, Facts, FileUse, Ledger, Name, Quote, Rule};
pub use lifecycle::{IllegalTransition, Step, next};
pub use payload::{ACTION_NAME, MIDDLEWARE_SOURCE};
pub use redact::{REDACTED, redact};
pub use render::{fit, render};
pub use request::{Options, Request, restart, start};
pub use select::{Selection, Selector};
pub use source::{Item, What};
pub use summarization::{
    Drafting, EXTRACTIVE, HandoffRequestNode, HandoffSummarization, REQUEST_NODE, SUMMARIZATION_NODE,
    after_decision, entry,
};

/// Returns the lowercase hex SHA-256 of `bytes`.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
