//! The review of a proposal: what is shown, which answers there are, and what each of them means. Drafting and the
//! effects of an acceptance are elsewhere.

pub(crate) mod approval;
pub(crate) mod decide;
pub(crate) mod edit;
pub(crate) mod payload;
