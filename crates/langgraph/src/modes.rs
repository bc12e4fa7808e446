//! Event streams by stream mode (`values`, `updates`, `messages` and so on): the encoder of a run's items, and the
//! streams that follow one run or all runs of a thread for one client. Requests are parsed and runs are created in
//! [`crate::runs`].

mod chunks;
pub(crate) mod cursor;
mod encode;
pub(crate) mod follow;
pub(crate) mod mode;
mod payload;
pub(crate) mod thread_stream;
pub(crate) mod writer;
