//! A run as a stream of items, independent of a protocol: one translator makes items from frames, and the encoder of each
//! protocol writes them ([`crate::modes`], [`crate::events`]).

pub(crate) mod follow;
pub(crate) mod item;
pub(crate) mod journal_query;
pub(crate) mod origin;
pub(crate) mod recent_runs;
pub(crate) mod streamed_message;
pub(crate) mod transcript;
pub(crate) mod translate;
