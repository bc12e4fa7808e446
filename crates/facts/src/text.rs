//! What texts hold: names, rules and choices, secrets; and how a text is shaped for a line. Who said them is not known
//! here.

pub(crate) mod cues;
pub mod formatting;
pub mod identifier;
pub(crate) mod redaction;
