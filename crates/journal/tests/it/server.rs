//! Failures that only a database server shared by several processes can have.

mod broken;
mod deletions;
mod notifications;
pub mod races;
mod random_workload;
mod tokenizer_parity;
