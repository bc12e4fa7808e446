//! Text for a terminal: made safe, emphasised, measured, wrapped and set in tables. It knows nothing of what it says.

pub mod amount;
pub mod timestamp;
pub mod sanitize;
pub mod style;
pub mod table;
pub mod wrap;
