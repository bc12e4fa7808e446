//! Who may make which tool call: rules from the settings, rules a person had remembered, and what holds without any.
//! [`decide`] is the whole of it and changes nothing; asking a person is the matter of [`crate::ToolApproval`].
//!
//! A rule names a tool, `read_file`, or a tool and what it is about, `edit_file(src/**)`, `execute(cargo test *)`. One
//! about the paths of `edit_file` holds for `write_file` too, and one about those of `read_file` for `grep`, for what a
//! skill's folder holds, and for what commands that only read name. Where such a rule denies or asks, searches leave the
//! files out and say how many, and a command that goes through folders by itself is asked about. Rules guard against
//! mistakes. They are no sandbox: a command that may run may do whatever
//! its program does.

mod book;
mod command;
mod decide;
mod hidden;
mod rule;
mod secret;
mod suggest;

use schemars::JsonSchema;
use serde::Deserialize;

pub use book::{Error, RuleBook, Scope, project_file};
pub use decide::{Rules, Verdict, decide};
pub(crate) use hidden::{Hidden, during, hidden, note};
pub use rule::{Rule, RuleError};
pub(crate) use secret::SECRET_NAMES;
pub use secret::looks_secret;
pub(crate) use suggest::suggestions;

/// Rules as settings hold them, `[permissions]`. `deny` is stronger than `ask`, and `ask` than `allow`; an `ask` that
/// names only a tool yields to an `allow` that says what it is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Permissions {
    /// Calls that are made without asking.
    #[schemars(with = "Vec<String>")]
    pub allow: Vec<Rule>,
    /// Calls that a person is asked about.
    #[schemars(with = "Vec<String>")]
    pub ask: Vec<Rule>,
    /// Calls that are never made.
    #[schemars(with = "Vec<String>")]
    pub deny: Vec<Rule>,
}

protocol::named_enum! {
    /// What becomes of a call that a person would have to be asked about.
    #[derive(Default)]
    pub enum Policy {
        /// The run stops and asks.
        #[default]
        Ask = "ask",
        /// The call is refused, and the model is told.
        Deny = "deny",
        /// The call is made. What a rule denies is refused all the same, and a handoff is never accepted by it.
        Allow = "allow",
    }
}
