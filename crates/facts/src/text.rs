//! Text analysis: finds names, rules, decisions and secrets in texts, removes wrappers, and formats text for one line of a summary.

pub(crate) mod cues;
pub mod formatting;
pub mod identifier;
pub(crate) mod known_secrets;
pub(crate) mod open_work;
pub(crate) mod request_kind;
pub(crate) mod rule_cues;
pub(crate) mod stated_values;
pub(crate) mod wrappers;
