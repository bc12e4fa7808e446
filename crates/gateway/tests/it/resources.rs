//! The endpoints that are not about runs.

mod assistants;
mod states;
mod store;
mod system;
mod threads;
