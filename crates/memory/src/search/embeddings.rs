//! Embeddings of messages for searches by meaning: the settings, the model that a store asks about questions, and the worker that
//! embeds messages. How embeddings are stored and compared is decided in the journal.
//!
//! Secrets are redacted from every text before it is sent.

mod embedding_model;
mod parts;
mod settings;
mod worker;

pub use embedding_model::EmbeddingModel;
pub use settings::{EmbeddingConfig, SearchSettings};
pub use worker::{EmbeddingOutcome, EmbeddingWorkError, EmbeddingWorker};
