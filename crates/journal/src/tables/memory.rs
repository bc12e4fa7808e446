//! Rows of memory, which outlives a context: the messages of agents, the summaries of old messages, and stored items.

pub(crate) mod facts;
pub(crate) mod items;
pub(crate) mod revisions;
pub(crate) mod summaries;
pub(crate) mod summary_removal;
pub(crate) mod turns;
