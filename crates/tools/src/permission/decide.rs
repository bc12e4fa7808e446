//! The decision about one call, from the rules and from what the call would do. It looks at nothing else.

use std::path::{Component, Path};

use runtime::{CallReview, CallSubject};

use crate::execute;
use crate::permission::command_parts::{self, CommandPart};
use crate::permission::hidden_paths::can_hide_paths;
use crate::permission::rule::{MatchMode, PermissionRule};
use crate::permission::{Permissions, looks_secret};

/// Tools that look at the workspace and change nothing.
const READ_ONLY_TOOLS: &[&str] = &["read_file", "ls", "glob", "grep"];
/// Tools that tell what they touch: without a subject a call of them is refused by the tool, and does nothing.
const SUBJECT_TOOLS: &[&str] = &["read_file", "ls", "glob", "grep", "write_file", "edit_file", "execute"];
/// Tools of ours that need no rule.
const UNRESTRICTED_TOOLS: &[&str] = &["write_todos"];
/// The tool that runs command lines.
const EXECUTE: &str = "execute";
/// The tool whose rules hold for what a command reads.
pub(super) const READ_FILE: &str = "read_file";
/// The tool that reads files of skills.
const LOAD_SKILL: &str = "load_skill";

/// All rules that hold for a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PermissionRules {
    /// The rules.
    pub permissions: Permissions,
    /// Tools that are allowed unless a rule says otherwise, beside those that only read: they change nothing
    /// themselves, or ask by themselves.
    pub trusted: Vec<String>,
}

/// The verdict of the rules about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionVerdict {
    /// It may be made.
    Allow {
        /// The rule, or the reason without one.
        rule: String,
    },
    /// A person decides.
    Ask {
        /// The rule, or the reason without one.
        rule: String,
    },
    /// It is not made.
    Deny {
        /// The rule.
        rule: String,
    },
}

/// One part of a call that is judged by itself. The strictest verdict applies to the call.
enum RuleTarget<'a> {
    Whole,
    Path(&'a Path),
    Url(&'a str),
    CommandPart(CommandPart),
}

/// Decides about a call of `tool`.
///
/// Of the rules that match, one that denies is the strongest, then one that asks about something in particular, then
/// one that allows something in particular; after these come files of secrets, which are asked about, and then rules
/// that name only a tool, asking before allowing. A command that goes through folders is asked about when a rule denies or
/// asks about files that are read. Without any rule, reading inside the workspace is allowed, by tools
/// and by commands that only read, and everything else is asked about.
pub fn decide_call(rules: &PermissionRules, tool: &str, review: &CallReview) -> PermissionVerdict {
    if review.subjects.is_empty() {
        return judge_target(rules, tool, &RuleTarget::Whole, CommandAccess::from_review(review));
    }
    // A skill's file is judged as one that is read; what is said about the tool itself holds, too.
    let mut strictest = (tool == LOAD_SKILL)
        .then(|| judge_target(rules, tool, &RuleTarget::Whole, CommandAccess::from_review(review)));
    if CommandAccess::from_review(review) == CommandAccess::ReadOnly
        && runs_search(review)
        && can_hide_paths(rules, READ_FILE)
    {
        strictest = Some(ask("it goes through folders, and rules are about some of the files"));
    }
    for subject in &review.subjects {
        for matter in rule_targets(subject) {
            // What a command reads is judged as if the tool for reading did.
            let tool = match &matter {
                RuleTarget::Path(_) if [EXECUTE, LOAD_SKILL].contains(&tool) => READ_FILE,
                RuleTarget::Path(_) | RuleTarget::Url(_) | RuleTarget::CommandPart(_) | RuleTarget::Whole => {
                    tool
                }
            };
            let verdict = judge_target(rules, tool, &matter, CommandAccess::from_review(review));
            if strictest.as_ref().is_none_or(|known| known.strictness() < verdict.strictness()) {
                strictest = Some(verdict);
            }
        }
    }
    strictest.unwrap_or_else(|| ask("it names nothing that rules could be about"))
}

impl PermissionVerdict {
    fn strictness(&self) -> u8 {
        match self {
            Self::Allow { .. } => 0,
            Self::Ask { .. } => 1,
            Self::Deny { .. } => 2,
        }
    }
}

/// The access that a call declares for its subjects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommandAccess {
    /// A command that names what it reads, and does nothing else.
    ReadOnly,
    /// Anything else.
    Unrestricted,
}

impl CommandAccess {
    fn from_review(review: &CallReview) -> Self {
        let has_path = review.subjects.iter().any(|subject| matches!(subject, CallSubject::Path(_)));
        let has_command = review.subjects.iter().any(|subject| matches!(subject, CallSubject::Command(_)));
        if has_path && has_command { Self::ReadOnly } else { Self::Unrestricted }
    }
}

fn runs_search(review: &CallReview) -> bool {
    review.subjects.iter().any(|subject| match subject {
        CallSubject::Command(line) => execute::is_search_command(line),
        CallSubject::Path(_) | CallSubject::Url(_) => false,
    })
}

fn rule_targets(subject: &CallSubject) -> Vec<RuleTarget<'_>> {
    match subject {
        CallSubject::Path(path) => vec![RuleTarget::Path(path)],
        CallSubject::Url(url) => vec![RuleTarget::Url(url)],
        CallSubject::Command(line) => {
            command_parts::split_command_line(line).into_iter().map(RuleTarget::CommandPart).collect()
        }
    }
}

fn judge_target(
    rules: &PermissionRules,
    tool: &str,
    matter: &RuleTarget<'_>,
    context: CommandAccess,
) -> PermissionVerdict {
    let Permissions { allow, ask: asking, deny } = &rules.permissions;
    let particular = |list: &'static str, rules: &[PermissionRule], reading| {
        let found = rules.iter().find(|rule| rule.matches_tool(tool) && rule_matches(rule, matter, reading));
        found.map(|rule| format!("{list} {rule}"))
    };
    let general = |list: &'static str, rules: &[PermissionRule]| {
        let found = rules.iter().find(|rule| !rule.has_pattern() && rule.matches_tool(tool));
        found.map(|rule| format!("{list} {rule}"))
    };
    if let Some(rule) = particular("deny", deny, MatchMode::Wide).or_else(|| general("deny", deny)) {
        return PermissionVerdict::Deny { rule };
    }
    if matches!(matter, RuleTarget::Whole) && SUBJECT_TOOLS.contains(&tool) {
        return allow_because("it would do nothing");
    }
    if let Some(rule) = particular("ask", asking, MatchMode::Wide) {
        return PermissionVerdict::Ask { rule };
    }
    if let Some(rule) = particular("allow", allow, MatchMode::Narrow) {
        return PermissionVerdict::Allow { rule };
    }
    if let Some(reason) = sensitivity_reason(tool, matter) {
        return ask(reason);
    }
    if let Some(rule) = general("ask", asking) {
        return PermissionVerdict::Ask { rule };
    }
    if let Some(rule) = general("allow", allow) {
        return PermissionVerdict::Allow { rule };
    }
    default_verdict(rules, tool, context)
}

fn default_verdict(rules: &PermissionRules, tool: &str, context: CommandAccess) -> PermissionVerdict {
    if READ_ONLY_TOOLS.contains(&tool) {
        return allow_because("it reads inside the workspace");
    }
    if tool == EXECUTE && context == CommandAccess::ReadOnly {
        return allow_because("it only reads inside the workspace");
    }
    if UNRESTRICTED_TOOLS.contains(&tool) || rules.trusted.iter().any(|trusted| trusted == tool) {
        return allow_because("the tool needs no rule");
    }
    ask("no rule allows it")
}

/// Returns why a rule that names only a tool is not enough.
fn sensitivity_reason(tool: &str, matter: &RuleTarget<'_>) -> Option<&'static str> {
    let RuleTarget::Path(path) = matter else { return None };
    if looks_secret(path) {
        return Some("its name says that it holds secrets");
    }
    let in_git = path.components().any(|part| matches!(part, Component::Normal(name) if name == ".git"));
    (in_git && !READ_ONLY_TOOLS.contains(&tool)).then_some("it is one of git's own files")
}

fn rule_matches(rule: &PermissionRule, matter: &RuleTarget<'_>, reading: MatchMode) -> bool {
    match (matter, reading) {
        (RuleTarget::Whole, _) => false,
        (RuleTarget::Path(path), reading) => rule.matches_path(path, reading),
        (RuleTarget::Url(url), _) => rule.matches_text(url),
        (RuleTarget::CommandPart(part), MatchMode::Narrow) => {
            part.text.as_ref().is_some_and(|text| rule.matches_text(text))
        }
        (RuleTarget::CommandPart(part), MatchMode::Wide) => {
            part.equivalents.iter().any(|face| rule.matches_text(face))
                || part.opaque.as_ref().is_some_and(|text| rule.matches_within(text))
        }
    }
}

fn allow_because(reason: &str) -> PermissionVerdict {
    PermissionVerdict::Allow { rule: reason.to_owned() }
}

fn ask(reason: &str) -> PermissionVerdict {
    PermissionVerdict::Ask { rule: reason.to_owned() }
}

#[cfg(test)]
mod tests;
