//! What only an engine that is a server, which many processes share, can suffer.

mod broken;
pub mod races;
mod random_workload;
mod tokenizer_parity;
