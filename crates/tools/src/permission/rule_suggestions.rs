//! Rules that would have allowed a call, for a person who does not want to be asked again. They are no wider than what
//! was asked calls for; remembering them is not done here.

use std::path::Path;

use runtime::{CallReview, CallSubject};

use crate::permission::decide::{PermissionRules, PermissionVerdict, decide_call};
use crate::permission::{command_parts, looks_secret};
use crate::shell::SimpleCommand;

/// Programs and sub-commands whose other arguments make no great difference: they build, check or test.
const ANY_ARGUMENT_COMMANDS: &[(&str, &[&str])] = &[
    ("cargo", &["build", "check", "clippy", "doc", "fmt", "nextest", "test"]),
    ("go", &["build", "test", "vet"]),
    ("npm", &["test"]),
    ("pnpm", &["test"]),
    ("yarn", &["test"]),
    ("bun", &["test"]),
    ("deno", &["check", "fmt", "lint", "test"]),
    ("dotnet", &["build", "test"]),
    ("mvn", &["compile", "test"]),
    ("gradle", &["build", "check", "test"]),
    ("mix", &["compile", "test"]),
    ("make", &["build", "check", "lint", "test"]),
    ("just", &["build", "check", "lint", "test"]),
];
/// Programs that are harmless whatever their arguments: they check, format or print.
const HARMLESS_PROGRAMS: &[&str] = &[
    "pytest", "jest", "vitest", "eslint", "prettier", "ruff", "black", "mypy", "tsc", "rustfmt", "gofmt",
    "clippy",
];
/// Returns the rules that together would allow the call; none when no rule can.
pub(crate) fn suggest_rules(rules: &PermissionRules, tool: &str, review: &CallReview) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    if review.subjects.is_empty() {
        found.push(tool.to_owned());
    }
    for subject in &review.subjects {
        let rule = match subject {
            CallSubject::Path(_) if tool == "execute" => continue,
            CallSubject::Path(path) => Some(format!("{tool}({})", rule_for_path(path))),
            CallSubject::Url(url) => Some(format!("{tool}({})", escape_pattern(url))),
            CallSubject::Command(line) => match rules_for_line(rules, tool, line) {
                Some(patterns) => {
                    found.extend(patterns);
                    continue;
                }
                None => None,
            },
        };
        match rule {
            Some(rule) => found.push(rule),
            None => return Vec::new(),
        }
    }
    let mut seen = std::collections::HashSet::new();
    found.retain(|rule| seen.insert(rule.clone()));
    if would_allow(rules, tool, review, &found) { found } else { Vec::new() }
}

/// Returns whether the call would not be asked about with the rules that were found: others may be stronger.
fn would_allow(rules: &PermissionRules, tool: &str, review: &CallReview, found: &[String]) -> bool {
    let mut rules = rules.clone();
    rules.permissions.allow.extend(found.iter().filter_map(|rule| rule.parse().ok()));
    matches!(decide_call(&rules, tool, review), PermissionVerdict::Allow { .. })
}

/// Returns a rule for each part of the line that is not allowed yet; `None` when one of them cannot be.
fn rules_for_line(rules: &PermissionRules, tool: &str, line: &str) -> Option<Vec<String>> {
    let mut patterns = Vec::new();
    for part in command_parts::split_command_line(line) {
        let text = part.text?;
        let review =
            CallReview { subjects: vec![CallSubject::Command(text.clone())], ..CallReview::default() };
        if !matches!(decide_call(rules, tool, &review), PermissionVerdict::Allow { .. }) {
            patterns.push(format!("{tool}({})", rule_for_command(&part.command?, &text)));
        }
    }
    Some(patterns)
}

fn rule_for_command(command: &SimpleCommand, text: &str) -> String {
    let words: Vec<&str> = command.words.iter().map(|word| word.text.as_str()).collect();
    let takes_any = |program: &str, sub: &str| {
        ANY_ARGUMENT_COMMANDS.iter().any(|(name, subs)| *name == program && subs.contains(&sub))
    };
    match words.as_slice() {
        _ if !command.assignments.is_empty() => escape_pattern(text),
        [program, sub, ..] if takes_any(program, sub) => format!("{program} {sub} *"),
        [program, ..] if HARMLESS_PROGRAMS.contains(program) => format!("{program} *"),
        _ => escape_pattern(text),
    }
}

fn rule_for_path(path: &Path) -> String {
    let escaped = |path: &Path| globset::escape(&path.display().to_string());
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) if !looks_secret(path) && !folder.starts_with(".git") => {
            format!("{}/**", escaped(folder))
        }
        Some(_) => escaped(path),
        None => format!("./{}", escaped(path)),
    }
}

fn escape_pattern(text: &str) -> String {
    text.replace('*', "\\*")
}
