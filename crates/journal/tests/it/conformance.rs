//! The conformance suite: the guarantees of every journal backend. Each test function takes an empty store and does not
//! depend on its engine.

pub mod artifacts;
pub mod deletions;
pub mod feedback;
pub mod fixtures;
pub mod handoffs;
pub mod log;
pub mod rank;
pub mod rewinds;
pub mod search;
pub mod threads;
pub mod transcript_copy;
pub mod owners {
    //! Ownership and isolation.

    pub mod isolation;
    pub mod keys;
}
pub mod tiers {
    //! Medium-term memory and items.

    pub mod context_versions;
    pub mod facts;
    pub mod items;
    pub mod memory;
    pub mod memory_fixtures;
    pub mod projects;
    pub mod summary_removal;
}
pub mod work {
    //! Runs, queues and checkpoints.

    pub mod checkpoints;
    pub mod queue;
    pub mod runs;
}
pub mod views {
    //! Views over a store's events: the displayed history and the context of a model request.

    pub mod history;
    pub mod pins;
    pub mod random_histories;
}

use std::sync::Arc;

pub use owners::{isolation, keys};
pub use search::{backlog, meaning, scope};
pub use tiers::{context_versions, facts, items, memory, projects, summary_removal};
pub use views::{history, pins, random_histories};
pub use work::{checkpoints, queue, runs};

/// An empty store.
pub type SharedStore = Arc<dyn journal::Store>;
