//! Permission rules for tool calls: rules of the settings, rules that the user chose to remember, and defaults.
//! [`decide_call`] makes the whole decision and changes nothing; [`crate::ToolApproval`] asks the user.
//!
//! A rule names a tool (`read_file`), or a tool and a pattern for its subject (`edit_file(src/**)`, `execute(cargo
//! test *)`). A rule about the paths of `edit_file` also applies to `write_file`. A rule about the paths of
//! `read_file` also applies to `grep`, to the files of a skill, and to the files that read-only commands name. If such
//! a rule denies or asks, searches leave the files out and report their number, and a command that walks folders needs
//! approval.
//!
//! Rules guard against mistakes. What an allowed command can do is bounded by the sandbox in which it runs, if there is
//! one; a call that requests to run outside it always needs approval.

mod command_parts;
mod decide;
mod hidden_paths;
mod rule;
mod rule_book;
mod rule_suggestions;
mod secret;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use decide::{PermissionRules, PermissionVerdict, decide_call};
pub(crate) use hidden_paths::{HiddenPaths, hidden_note, hidden_paths, with_rules};
pub use rule::{PermissionRule, RuleError};
pub use rule_book::{Error, RuleBook, RuleScope, project_rules_path};
pub(crate) use rule_suggestions::suggest_rules;
pub use secret::looks_secret;
pub(crate) use secret::{
    is_folder_name, secret_folders, secret_name_globs, secret_path_globs, shared_folder_names,
};

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

/// The default for commands that run in the sandbox, if no rule is about them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SandboxedCommands {
    /// They need approval.
    #[default]
    Ask,
    /// They are allowed.
    Allow,
}

protocol::named_enum! {
    /// The policy for calls that need approval.
    #[derive(Default)]
    pub enum ApprovalPolicy {
        /// The run is interrupted and asks the user.
        #[default]
        Ask = "ask",
        /// Like `Ask`, but commands in the sandbox need approval only if a rule says so.
        Sandboxed = "sandboxed",
        /// The call is refused, with an error result for the model.
        Deny = "deny",
        /// The call is made without approval. A call that a rule denies is still refused, and a handoff is never
        /// accepted this way.
        Allow = "allow",
    }
}
