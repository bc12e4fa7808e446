//! Permission rules for tool calls: rules of the settings, rules that a person asked to remember, and defaults.
//! [`decide_call`] is the whole decision and changes nothing; [`crate::ToolApproval`] asks the person.
//!
//! A rule names a tool, `read_file`, or a tool and its subject, `edit_file(src/**)`, `execute(cargo test *)`. A rule
//! about the paths of `edit_file` also applies to `write_file`, and one about those of `read_file` to `grep`, to the
//! files of a skill, and to the files that read-only commands name. Where such a rule denies or asks, searches leave the
//! files out and report how many, and a command that walks folders by itself asks first. Rules guard against mistakes.
//! They are not a sandbox: an allowed command may do whatever its program does.

mod command_parts;
mod decide;
mod hidden_paths;
mod rule;
mod rule_book;
mod rule_suggestions;
mod secret;

use schemars::JsonSchema;
use serde::Deserialize;

pub use decide::{PermissionRules, PermissionVerdict, decide_call};
pub(crate) use hidden_paths::{HiddenPaths, hidden_note, hidden_paths, with_rules};
pub use rule::{PermissionRule, RuleError};
pub use rule_book::{Error, RuleBook, RuleScope, project_rules_path};
pub(crate) use rule_suggestions::suggest_rules;
pub(crate) use secret::SECRET_NAMES;
pub use secret::looks_secret;

/// Rules as settings hold them, `[permissions]`. `deny` is stronger than `ask`, and `ask` than `allow`; an `ask` that
/// names only a tool yields to an `allow` that says what it is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Permissions {
    /// Calls that are made without asking.
    #[schemars(with = "Vec<String>")]
    pub allow: Vec<PermissionRule>,
    /// Calls that a person is asked about.
    #[schemars(with = "Vec<String>")]
    pub ask: Vec<PermissionRule>,
    /// Calls that are never made.
    #[schemars(with = "Vec<String>")]
    pub deny: Vec<PermissionRule>,
}

protocol::named_enum! {
    /// The policy for a call that would have to ask a person.
    #[derive(Default)]
    pub enum ApprovalPolicy {
        /// The run stops and asks.
        #[default]
        Ask = "ask",
        /// The call is refused, and the model is told.
        Deny = "deny",
        /// The call is made. What a rule denies is refused all the same, and a handoff is never accepted by it.
        Allow = "allow",
    }
}
