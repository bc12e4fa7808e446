//! The decision about one tool call: a pure function of the permission rules and the call's review. It does no I/O and
//! asks nobody.

use std::path::{Component, Path};

use runtime::{CallReview, CallSubject, Confinement};

use crate::execute;
use crate::permission::command_parts::{self, CommandPart};
use crate::permission::hidden_paths::can_hide_paths;
use crate::permission::rule::{MatchMode, PermissionRule};
use crate::permission::{Permissions, SandboxedCommands, looks_secret};

/// Tools that read the workspace and change nothing.
const READ_ONLY_TOOLS: &[&str] = &["read_file", "ls", "glob", "grep"];
/// Tools whose review names every path or command they use. The tool refuses a call whose review has no subject, so
/// such a call has no effect.
const SUBJECT_TOOLS: &[&str] = &["read_file", "ls", "glob", "grep", "write_file", "edit_file", "execute"];
/// Built-in tools that are allowed without a rule.
const UNRESTRICTED_TOOLS: &[&str] = &["write_todos"];
/// Name of the tool that runs command lines.
const EXECUTE: &str = "execute";
/// Name of the tool whose rules also apply to the files that a command reads.
pub(super) const READ_FILE: &str = "read_file";
/// Name of the tool that reads the files of skills.
const LOAD_SKILL: &str = "load_skill";

/// The rules that apply to a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PermissionRules {
    /// Rules of the settings and remembered rules.
    pub permissions: Permissions,
    /// Names of additional tools that are allowed unless a rule says otherwise. These tools change nothing themselves,
    /// or ask the user on their own.
    pub trusted: Vec<String>,
    /// The default for commands that run in the sandbox.
    pub sandboxed_commands: SandboxedCommands,
}

/// The verdict of the rules about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionVerdict {
    /// The call may be made.
    Allow {
        /// The rule with its list (`allow edit_file(src/**)`), or the reason if no rule applies.
        rule: String,
    },
    /// The user decides.
    Ask {
        /// The rule with its list, or the reason if no rule applies.
        rule: String,
    },
    /// The call must not be made.
    Deny {
        /// The rule with its list.
        rule: String,
    },
}

/// One part of a call that is judged separately. The strictest verdict applies to the call.
enum RuleTarget<'a> {
    /// The call itself, if its review has no subject.
    Whole,
    /// A path relative to the workspace.
    Path(&'a Path),
    Url(&'a str),
    CommandPart(CommandPart),
}

/// Decides whether a call of `tool` is allowed, denied or needs approval.
///
/// The review's subjects are judged separately, each simple command of a command line too, and the strictest verdict
/// applies. For one subject, the first of these that applies decides:
///
/// 1. a rule that denies,
/// 2. an `ask` rule with a pattern,
/// 3. an `allow` rule with a pattern,
/// 4. a file whose name suggests secrets, or a change of git's own files: ask,
/// 5. an `ask` rule that names only the tool,
/// 6. an `allow` rule that names only the tool,
/// 7. the default: reading inside the workspace is allowed, by tools and by commands that only read, as are trusted
///    tools and, if [`PermissionRules::sandboxed_commands`] says so, commands that run in the sandbox; everything else
///    needs approval.
///
/// A read-only command that walks folders needs approval if any rule denies or asks about files that are read. A call
/// that requests to run outside the sandbox needs approval, whatever rule allows the command.
pub fn decide_call(rules: &PermissionRules, tool: &str, review: &CallReview) -> PermissionVerdict {
    match (judge_subjects(rules, tool, review), review.confinement) {
        (PermissionVerdict::Allow { .. }, Confinement::Declined) => ask("it would run outside the sandbox"),
        (verdict, _) => verdict,
    }
}

/// Returns the strictest verdict about the subjects of a call.
fn judge_subjects(rules: &PermissionRules, tool: &str, review: &CallReview) -> PermissionVerdict {
    if review.subjects.is_empty() {
        return judge_target(rules, tool, &RuleTarget::Whole, CommandAccess::from_review(review));
    }
    // The file of a skill is judged like a file that `read_file` reads. Rules about `load_skill` itself apply too.
    let mut strictest = (tool == LOAD_SKILL)
        .then(|| judge_target(rules, tool, &RuleTarget::Whole, CommandAccess::from_review(review)));
    if CommandAccess::from_review(review) == CommandAccess::ReadOnly
        && runs_search(review)
        && can_hide_paths(rules, READ_FILE)
    {
        strictest = Some(ask("it searches folders, and rules restrict some of their files"));
    }
    for subject in &review.subjects {
        for target in rule_targets(subject) {
            // A file that a command or a skill reads is judged like a file that `read_file` reads.
            let tool = match &target {
                RuleTarget::Path(_) if [EXECUTE, LOAD_SKILL].contains(&tool) => READ_FILE,
                RuleTarget::Path(_) | RuleTarget::Url(_) | RuleTarget::CommandPart(_) | RuleTarget::Whole => {
                    tool
                }
            };
            let verdict = judge_target(rules, tool, &target, CommandAccess::from_review(review));
            if strictest.as_ref().is_none_or(|current| current.strictness() < verdict.strictness()) {
                strictest = Some(verdict);
            }
        }
    }
    strictest.unwrap_or_else(|| ask("no rule can match this call"))
}

impl PermissionVerdict {
    /// Returns the rank of the verdict; a higher rank is stricter.
    fn strictness(&self) -> u8 {
        match self {
            Self::Allow { .. } => 0,
            Self::Ask { .. } => 1,
            Self::Deny { .. } => 2,
        }
    }
}

/// The access of a call to its subjects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommandAccess {
    /// A command that only reads the paths among its subjects.
    ReadOnly,
    /// A command that runs in the sandbox.
    Sandboxed,
    /// Any other call.
    Unrestricted,
}

impl CommandAccess {
    /// Derives the access from the review: only a read-only command has both a command and paths.
    fn from_review(review: &CallReview) -> Self {
        let has_path = review.subjects.iter().any(|subject| matches!(subject, CallSubject::Path(_)));
        let has_command = review.subjects.iter().any(|subject| matches!(subject, CallSubject::Command(_)));
        match review.confinement {
            _ if has_path && has_command => Self::ReadOnly,
            Confinement::Sandboxed => Self::Sandboxed,
            Confinement::None | Confinement::Declined => Self::Unrestricted,
        }
    }
}

/// Returns whether the call runs a read-only command that walks folders.
fn runs_search(review: &CallReview) -> bool {
    review.subjects.iter().any(|subject| match subject {
        CallSubject::Command(line) => execute::is_search_command(line),
        CallSubject::Path(_) | CallSubject::Url(_) => false,
    })
}

/// Splits a subject into the parts that are judged separately.
fn rule_targets(subject: &CallSubject) -> Vec<RuleTarget<'_>> {
    match subject {
        CallSubject::Path(path) => vec![RuleTarget::Path(path)],
        CallSubject::Url(url) => vec![RuleTarget::Url(url)],
        CallSubject::Command(line) => {
            command_parts::split_command_line(line).into_iter().map(RuleTarget::CommandPart).collect()
        }
    }
}

/// Judges one part of a call by the precedence that [`decide_call`] documents.
fn judge_target(
    rules: &PermissionRules,
    tool: &str,
    target: &RuleTarget<'_>,
    access: CommandAccess,
) -> PermissionVerdict {
    let Permissions { allow, ask: ask_rules, deny } = &rules.permissions;
    let pattern_rule = |list: &'static str, rules: &[PermissionRule], mode| {
        let rule = rules.iter().find(|rule| rule.matches_tool(tool) && rule_matches(rule, target, mode));
        rule.map(|rule| format!("{list} {rule}"))
    };
    let tool_rule = |list: &'static str, rules: &[PermissionRule]| {
        let rule = rules.iter().find(|rule| !rule.has_pattern() && rule.matches_tool(tool));
        rule.map(|rule| format!("{list} {rule}"))
    };
    if let Some(rule) = pattern_rule("deny", deny, MatchMode::Wide).or_else(|| tool_rule("deny", deny)) {
        return PermissionVerdict::Deny { rule };
    }
    if matches!(target, RuleTarget::Whole) && SUBJECT_TOOLS.contains(&tool) {
        return allow_because("it would have no effect");
    }
    if let Some(rule) = pattern_rule("ask", ask_rules, MatchMode::Wide) {
        return PermissionVerdict::Ask { rule };
    }
    if let Some(rule) = pattern_rule("allow", allow, MatchMode::Narrow) {
        return PermissionVerdict::Allow { rule };
    }
    if let Some(reason) = sensitivity_reason(tool, target) {
        return ask(reason);
    }
    if let Some(rule) = tool_rule("ask", ask_rules) {
        return PermissionVerdict::Ask { rule };
    }
    if let Some(rule) = tool_rule("allow", allow) {
        return PermissionVerdict::Allow { rule };
    }
    default_verdict(rules, tool, access)
}

/// Returns the verdict if no rule applies.
fn default_verdict(rules: &PermissionRules, tool: &str, access: CommandAccess) -> PermissionVerdict {
    if READ_ONLY_TOOLS.contains(&tool) {
        return allow_because("it reads inside the workspace");
    }
    if tool == EXECUTE && access == CommandAccess::ReadOnly {
        return allow_because("it only reads inside the workspace");
    }
    let allows_sandboxed = rules.sandboxed_commands == SandboxedCommands::Allow;
    if tool == EXECUTE && access == CommandAccess::Sandboxed && allows_sandboxed {
        return allow_because("it runs in the sandbox");
    }
    if UNRESTRICTED_TOOLS.contains(&tool) || rules.trusted.iter().any(|trusted| trusted == tool) {
        return allow_because("the tool needs no rule");
    }
    ask("no rule allows it")
}

/// Returns the reason why an `allow` rule that names only a tool is not enough for this target, or `None` if it is.
fn sensitivity_reason(tool: &str, target: &RuleTarget<'_>) -> Option<&'static str> {
    let RuleTarget::Path(path) = target else { return None };
    if looks_secret(path) {
        return Some("the file name suggests secrets");
    }
    let in_git = path.components().any(|part| matches!(part, Component::Normal(name) if name == ".git"));
    (in_git && !READ_ONLY_TOOLS.contains(&tool)).then_some("it is one of git's own files")
}

/// Returns whether the rule's pattern matches the target. In wide mode, a command matches by any of its equivalents and
/// by the text that was not parsed.
fn rule_matches(rule: &PermissionRule, target: &RuleTarget<'_>, mode: MatchMode) -> bool {
    match (target, mode) {
        (RuleTarget::Whole, _) => false,
        (RuleTarget::Path(path), mode) => rule.matches_path(path, mode),
        (RuleTarget::Url(url), _) => rule.matches_text(url),
        (RuleTarget::CommandPart(part), MatchMode::Narrow) => {
            part.text.as_ref().is_some_and(|text| rule.matches_text(text))
        }
        (RuleTarget::CommandPart(part), MatchMode::Wide) => {
            part.equivalents.iter().any(|command| rule.matches_text(command))
                || part.opaque.as_ref().is_some_and(|text| rule.matches_within(text))
        }
    }
}

/// Returns a verdict that allows the call for a reason other than a rule.
fn allow_because(reason: &str) -> PermissionVerdict {
    PermissionVerdict::Allow { rule: reason.to_owned() }
}

/// Returns a verdict that needs approval for a reason other than a rule.
fn ask(reason: &str) -> PermissionVerdict {
    PermissionVerdict::Ask { rule: reason.to_owned() }
}

#[cfg(test)]
mod tests;
