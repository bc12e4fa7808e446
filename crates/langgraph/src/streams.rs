//! A run as a stream of items, independent of a wire format. One translator converts the run's frames into items, and
//! two encoders write the items for clients: by stream mode ([`crate::modes`]) and by channel ([`crate::events`]).

pub(crate) mod follow;
pub(crate) mod item;
pub(crate) mod journal_query;
pub(crate) mod origin;
pub(crate) mod recent_runs;
pub(crate) mod streamed_message;
pub(crate) mod transcript;
pub(crate) mod translate;
