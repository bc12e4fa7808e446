//! Work under way: what it says is shown, what is typed meanwhile is kept, and Ctrl-C stops it.

pub mod live;
pub mod progress;
pub mod stream;
pub mod typed;
pub mod watch;
