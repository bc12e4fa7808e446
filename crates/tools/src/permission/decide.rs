//! The decision about one call, from the rules and from what the call would do. It looks at nothing else.

use std::path::{Component, Path};

use runtime::{Review, Subject};

use crate::execute;
use crate::permission::command::{self, Part};
use crate::permission::hidden::hides_any;
use crate::permission::rule::{Reading, Rule};
use crate::permission::{Permissions, looks_secret};

/// Tools that look at the workspace and change nothing.
const READING: &[&str] = &["read_file", "ls", "glob", "grep"];
/// Tools that tell what they touch: without a subject a call of them is refused by the tool, and does nothing.
const TELLING: &[&str] = &["read_file", "ls", "glob", "grep", "write_file", "edit_file", "execute"];
/// Tools of ours that need no rule.
const HARMLESS: &[&str] = &["write_todos"];
/// The tool that runs command lines.
const EXECUTE: &str = "execute";
/// The tool whose rules hold for what a command reads.
pub(super) const READ_FILE: &str = "read_file";
/// The tool that reads files of skills.
const LOAD_SKILL: &str = "load_skill";

/// All rules that hold for a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// The rules.
    pub permissions: Permissions,
    /// Tools that are allowed unless a rule says otherwise, beside those that only read: they change nothing
    /// themselves, or ask by themselves.
    pub trusted: Vec<String>,
}

/// What the rules say about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
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

/// What of a call is judged by itself; the strictest verdict is the call's.
enum Matter<'a> {
    Whole,
    Path(&'a Path),
    Url(&'a str),
    Part(Part),
}

/// Decides about a call of `tool`.
///
/// Of the rules that match, one that denies is the strongest, then one that asks about something in particular, then
/// one that allows something in particular; after these come files of secrets, which are asked about, and then rules
/// that name only a tool, asking before allowing. A command that goes through folders is asked about when a rule denies or
/// asks about files that are read. Without any rule, reading inside the workspace is allowed, by tools
/// and by commands that only read, and everything else is asked about.
pub fn decide(rules: &Rules, tool: &str, review: &Review) -> Verdict {
    if review.subjects.is_empty() {
        return judge(rules, tool, &Matter::Whole, Context::of(review));
    }
    // A skill's file is judged as one that is read; what is said about the tool itself holds, too.
    let mut strictest = (tool == LOAD_SKILL).then(|| judge(rules, tool, &Matter::Whole, Context::of(review)));
    if Context::of(review) == Context::Reads && searches(review) && hides_any(rules, READ_FILE) {
        strictest = Some(ask("it goes through folders, and rules are about some of the files"));
    }
    for subject in &review.subjects {
        for matter in matters(subject) {
            // What a command reads is judged as if the tool for reading did.
            let tool = match &matter {
                Matter::Path(_) if [EXECUTE, LOAD_SKILL].contains(&tool) => READ_FILE,
                Matter::Path(_) | Matter::Url(_) | Matter::Part(_) | Matter::Whole => tool,
            };
            let verdict = judge(rules, tool, &matter, Context::of(review));
            if strictest.as_ref().is_none_or(|known| known.strictness() < verdict.strictness()) {
                strictest = Some(verdict);
            }
        }
    }
    strictest.unwrap_or_else(|| ask("it names nothing that rules could be about"))
}

impl Verdict {
    fn strictness(&self) -> u8 {
        match self {
            Self::Allow { .. } => 0,
            Self::Ask { .. } => 1,
            Self::Deny { .. } => 2,
        }
    }
}

/// What else a call says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Context {
    /// A command that names what it reads, and does nothing else.
    Reads,
    /// Anything else.
    Other,
}

impl Context {
    fn of(review: &Review) -> Self {
        let has_path = review.subjects.iter().any(|subject| matches!(subject, Subject::Path(_)));
        let has_command = review.subjects.iter().any(|subject| matches!(subject, Subject::Command(_)));
        if has_path && has_command { Self::Reads } else { Self::Other }
    }
}

fn searches(review: &Review) -> bool {
    review.subjects.iter().any(|subject| match subject {
        Subject::Command(line) => execute::searches(line),
        Subject::Path(_) | Subject::Url(_) => false,
    })
}

fn matters(subject: &Subject) -> Vec<Matter<'_>> {
    match subject {
        Subject::Path(path) => vec![Matter::Path(path)],
        Subject::Url(url) => vec![Matter::Url(url)],
        Subject::Command(line) => command::parts(line).into_iter().map(Matter::Part).collect(),
    }
}

fn judge(rules: &Rules, tool: &str, matter: &Matter<'_>, context: Context) -> Verdict {
    let Permissions { allow, ask: asking, deny } = &rules.permissions;
    let particular = |list: &'static str, rules: &[Rule], reading| {
        let found = rules.iter().find(|rule| rule.names(tool) && matches(rule, matter, reading));
        found.map(|rule| format!("{list} {rule}"))
    };
    let general = |list: &'static str, rules: &[Rule]| {
        let found = rules.iter().find(|rule| !rule.has_pattern() && rule.names(tool));
        found.map(|rule| format!("{list} {rule}"))
    };
    if let Some(rule) = particular("deny", deny, Reading::Wide).or_else(|| general("deny", deny)) {
        return Verdict::Deny { rule };
    }
    if matches!(matter, Matter::Whole) && TELLING.contains(&tool) {
        return allowed("it would do nothing");
    }
    if let Some(rule) = particular("ask", asking, Reading::Wide) {
        return Verdict::Ask { rule };
    }
    if let Some(rule) = particular("allow", allow, Reading::Narrow) {
        return Verdict::Allow { rule };
    }
    if let Some(reason) = delicate(tool, matter) {
        return ask(reason);
    }
    if let Some(rule) = general("ask", asking) {
        return Verdict::Ask { rule };
    }
    if let Some(rule) = general("allow", allow) {
        return Verdict::Allow { rule };
    }
    without_rule(rules, tool, context)
}

fn without_rule(rules: &Rules, tool: &str, context: Context) -> Verdict {
    if READING.contains(&tool) {
        return allowed("it reads inside the workspace");
    }
    if tool == EXECUTE && context == Context::Reads {
        return allowed("it only reads inside the workspace");
    }
    if HARMLESS.contains(&tool) || rules.trusted.iter().any(|trusted| trusted == tool) {
        return allowed("the tool needs no rule");
    }
    ask("no rule allows it")
}

/// Returns why a rule that names only a tool is not enough.
fn delicate(tool: &str, matter: &Matter<'_>) -> Option<&'static str> {
    let Matter::Path(path) = matter else { return None };
    if looks_secret(path) {
        return Some("its name says that it holds secrets");
    }
    let in_git = path.components().any(|part| matches!(part, Component::Normal(name) if name == ".git"));
    (in_git && !READING.contains(&tool)).then_some("it is one of git's own files")
}

fn matches(rule: &Rule, matter: &Matter<'_>, reading: Reading) -> bool {
    match (matter, reading) {
        (Matter::Whole, _) => false,
        (Matter::Path(path), reading) => rule.matches_path(path, reading),
        (Matter::Url(url), _) => rule.matches_text(url),
        (Matter::Part(part), Reading::Narrow) => {
            part.text.as_ref().is_some_and(|text| rule.matches_text(text))
        }
        (Matter::Part(part), Reading::Wide) => {
            part.faces.iter().any(|face| rule.matches_text(face))
                || part.opaque.as_ref().is_some_and(|text| rule.matches_within(text))
        }
    }
}

fn allowed(reason: &str) -> Verdict {
    Verdict::Allow { rule: reason.to_owned() }
}

fn ask(reason: &str) -> Verdict {
    Verdict::Ask { rule: reason.to_owned() }
}

#[cfg(test)]
mod tests;
