//! Moving to a child thread: request, select, draft, ground, propose, accept, cleanup; and the mirror of what was accepted.

mod accept;
mod cleanup;
mod draft;
mod lifecycle;
pub mod limits;
pub mod mirror;
mod request;
mod review;
mod state;
mod summary;
mod transcript;

pub use accept::{Acceptance, AgentFiles, UNDECIDED, expired, rewound, settled};
pub use cleanup::{
    BlockClearing, HandoffCleanup, MarkFirstTurn, after_turn, should_cleanup_handoff, turn_channels,
};
pub use draft::summarization::{
    Drafting, EXTRACTIVE, HandoffSummarization, OpenModel, after_decision, after_draft, entry,
};
pub use draft::window::folds::Folds;
pub use request::propose::{Due, due as proposal_due};
pub use request::tool::{
    HandoffResult, HandoffTool, REQUEST_HANDOFF, after_result, asked_by_agent, left_waiting, pending,
};
pub use request::{Options, Request, is_blank, requested_key, restart, start};
pub use review::approval::{HandoffApproval, put_aside};
pub use summary::coverage::{Counts, CoverageBuilder, Reach, counts};
pub use summary::extract::{Extract, extract};
pub use summary::ground::Grounding;
pub use summary::render::{self, fit, render};
pub use summary::select::{Selection, Selector};
pub use summary::statistics::{Counted, Figures, Statistics};
pub use transcript::{TOLD_TYPES, as_messages, editable, name_assistant};
