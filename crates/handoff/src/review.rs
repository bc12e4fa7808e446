//! The review of a proposal: the interrupt payload, the decisions a person can make, and what each decision means.
//!
//! Drafting is in [`crate::draft`], the effects of an acceptance in [`crate::accept`].

pub(crate) mod approval;
pub(crate) mod decide;
pub(crate) mod edit;
pub(crate) mod payload;
