//! Text for a terminal: sanitizing, emphasis, measuring, wrapping and tables. The functions are independent of the
//! content: rendering of messages, summaries and the like is in `render`.

pub mod amount;
pub mod json;
pub mod sanitize;
pub mod style;
pub mod table;
pub mod timestamp;
pub mod wrap;
