//! What every backend of the journal must guarantee. Each function takes an empty store; nothing here knows which.

pub mod artifacts;
pub mod checkpoints;
pub mod copies;
pub mod fixtures;
pub mod handoffs;
pub mod log;
pub mod rank;
pub mod rewinds;
pub mod runs;
pub mod search;
pub mod threads;

use std::sync::Arc;

/// An empty store.
pub type Subject = Arc<dyn journal::Store>;
