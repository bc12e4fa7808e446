//! One request to one model, streamed; usage, limits and errors normalised.
//!
//! A [`ChatModel`] takes a [`ChatRequest`] and streams [`Part`]s; the last one holds the whole answer. Each provider is a thin
//! adapter between these types and its wire format. There are deliberately no threads, no tool execution and no
//! storage here, and no knowledge of what a prompt is for.

mod chat;
mod error;
mod name;

pub mod extractive;
pub mod tokens;
pub mod transcript;

pub use chat::{ChatModel, ChatRequest, Limits, Part, PartStream, ToolSpec};
pub use error::Error;
pub use name::{ModelName, Provider};

/// The result type of this room.
pub type Result<T> = std::result::Result<T, Error>;
