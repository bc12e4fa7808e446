//! The review of a proposal: the interrupt payload, the decisions a person can make, and what each decision means; the check of
//! what a proposal answers; and the lines of an accepted one that later work contradicts.
//!
//! Drafting is in [`crate::draft`], the effects of an acceptance in [`crate::accept`].

pub(crate) mod approval;
pub(crate) mod decide;
pub(crate) mod edit;
pub(crate) mod edit_preview;
pub(crate) mod payload;
pub(crate) mod probe;
pub(crate) mod staleness;
