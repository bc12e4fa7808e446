//! Requests of clients for runs and threads: their typed content, their messages, and the checks before anything is stored. The wire
//! protocols parse requests into these types; the admission plans them.

pub(crate) mod action;
pub(crate) mod client_threads;
pub(crate) mod messages;
pub(crate) mod secret_check;
