//! What only an engine that is a server, which many processes share, can suffer.

mod broken;
pub mod races;
mod soup;
mod words;
