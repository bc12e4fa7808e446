//! Work under way: what it says is shown, what is typed meanwhile is kept, and Ctrl-C stops it.

pub(crate) mod live;
pub(crate) mod progress;
pub(crate) mod stream;
pub(crate) mod typed;
pub(crate) mod watch;
