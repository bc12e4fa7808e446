//! Failures that only a database server shared by several processes can have.

mod broken;
mod damage;
mod deletions;
mod notifications;
pub mod races;
mod random_workload;
mod rewound_pages;
mod tokenizer_parity;
