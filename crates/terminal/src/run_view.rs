//! The live view of running work: its output is shown, keys that are typed meanwhile are buffered, and Ctrl-C stops the
//! work.

pub mod live_rows;
pub mod progress;
pub mod turn_view;
pub mod type_ahead;
pub mod watch;
