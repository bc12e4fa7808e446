//! Renders parts of a review of a handoff: the check of what a draft answers, and the draft as an outline for a pane.

pub mod continuity;
pub mod outline;
