//! What a run does as a stream of items, in no protocol's shape: one translator makes the items from frames, and the encoder
//! of each protocol writes them ([`crate::modes`], [`crate::events`]).

pub(crate) mod about;
pub(crate) mod follow;
pub(crate) mod item;
pub(crate) mod need;
pub(crate) mod passed;
pub(crate) mod speech;
pub(crate) mod transcript;
pub(crate) mod translate;
