//! The commands about the program itself: what it can use, what is wrong with it, and what a shell needs of it. None of
//! them touches a thread.

pub(crate) mod doctor;
pub(crate) mod generate;
pub(crate) mod mcp;
pub(crate) mod models;
