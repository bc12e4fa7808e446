//! Text analysis: names, rules, decisions and secrets; and formatting of text for one line.

pub(crate) mod cues;
pub mod formatting;
pub mod identifier;
pub(crate) mod redaction;
