//! Text for a terminal: made safe, emphasised, measured, wrapped and set in tables. It knows nothing of what it says.

pub(crate) mod amount;
pub(crate) mod moment;
pub(crate) mod safe;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod wrap;
