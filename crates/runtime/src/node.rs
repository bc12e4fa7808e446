//! The nodes every agent has: asking the model, and running the tools it asks for. Features bring their own.

pub(crate) mod model;
pub(crate) mod tools;
