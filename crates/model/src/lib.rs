//! The model client: one request to one model, with a streamed answer and normalised usage, limits and errors.
//!
//! A [`ChatModel`] takes a [`ChatRequest`] and streams [`AnswerPart`]s; the last part holds the complete answer.
//! Each provider is a thin adapter between these types and its wire format. [`transcript`] makes every
//! conversation legal before it is sent, [`tokens`] estimates sizes, [`sentence_ranking`] ranks sentences without
//! a model, and [`untrusted_text`] neutralizes text from outside.
//!
//! This crate has no threads, no tool execution and no storage, and it does not know what a prompt is for.

mod chat;
mod connect;
mod error;
mod name;
mod wire;

pub mod prices;
pub mod sentence_ranking;
pub mod settings;
pub mod tokens;
pub mod transcript;
pub mod untrusted_text;

pub use chat::answer_check::{UnusableAnswer, answer_text, is_error_text};
pub use chat::{
    AnswerPart, AnswerStream, ChatModel, ChatRequest, ModelLimits, RetryNotice, ToolSpec, ToolSpecs,
};
pub use connect::embeddings;
#[cfg(feature = "fuzzing")]
pub use connect::fuzzing;
pub use connect::{connect, encode_request};
pub use error::Error;
pub use name::{ModelName, ModelNameError, Provider};
pub use settings::{Effort, ProviderSettings};

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
