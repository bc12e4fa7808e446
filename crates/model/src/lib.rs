//! One request to one model, streamed; usage, limits and errors normalised.
//!
//! A [`ChatModel`] takes a [`ChatRequest`] and streams [`Part`]s; the last one holds the whole answer. Each provider is a thin
//! adapter between these types and its wire format. There are deliberately no threads, no tool execution and no
//! storage here, and no knowledge of what a prompt is for.

mod chat;
mod connect;
mod error;
mod name;
mod wire;

pub mod extractive;
pub mod inert;
pub mod prices;
pub mod settings;
pub mod tokens;
pub mod transcript;

pub use chat::answer::{NoAnswer, is_error, said};
pub use chat::{ChatModel, ChatRequest, Limits, Part, PartStream, ToolSpec, Tools};
pub use connect::{connect, encode};
pub use error::Error;
pub use name::{ModelName, ModelNameError, Provider};
pub use settings::{Effort, Settings};

/// The result type of this room.
pub type Result<T, E = Error> = std::result::Result<T, E>;
