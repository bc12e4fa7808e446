//! The commands about the program itself: what it can use, whom it serves, what is wrong with it, and what a shell needs
//! of it. None of them touches a thread.

pub(crate) mod config;
pub(crate) mod database;
pub(crate) mod doctor;
pub(crate) mod generate;
pub(crate) mod keys;
pub(crate) mod mcp;
pub(crate) mod models;
pub(crate) mod serve;
