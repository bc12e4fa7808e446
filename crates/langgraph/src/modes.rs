//! Streams of runs by modes (`values`, `updates`, `messages`, …): the encoder of a run's items, and one client followed from
//! the first byte to the last. Which run, and what it is asked to do, is decided in [`crate::runs`].

mod chunks;
pub(crate) mod cursor;
mod encode;
pub(crate) mod follow;
pub(crate) mod mode;
mod payload;
pub(crate) mod thread_stream;
pub(crate) mod writer;
