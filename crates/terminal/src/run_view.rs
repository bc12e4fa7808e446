//! Work under way: what it says is shown, what is typed meanwhile is kept, and Ctrl-C stops it.

pub mod live_rows;
pub mod progress;
pub mod turn_view;
pub mod type_ahead;
pub mod watch;
