//! Streams of runs: from frames to the events clients know, and one client followed from the first byte to the last.
//! Which run, and what it is asked to do, is decided in [`crate::runs`].

pub(crate) mod about;
pub(crate) mod cursor;
pub(crate) mod follow;
pub(crate) mod mode;
pub(crate) mod need;
pub(crate) mod out;
pub(crate) mod passed;
mod said;
pub(crate) mod thread;
pub(crate) mod transcript;
mod translate;
