//! Text for a terminal: sanitizing, emphasis, measuring, wrapping and tables. This module does not know what a text means.

pub mod amount;
pub mod sanitize;
pub mod style;
pub mod table;
pub mod timestamp;
pub mod wrap;
