//! What outlives a context: the turns of agents, the summaries that stand for old ones, and what is kept under names.

pub(crate) mod dissolving;
pub(crate) mod items;
pub(crate) mod summaries;
pub(crate) mod turns;
