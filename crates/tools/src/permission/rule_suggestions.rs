//! Suggestions of rules that would allow a call, for a user who does not want to be asked again about calls like it.
//! Storing an accepted suggestion is the task of [`super::RuleBook`].

use std::path::Path;

use runtime::{CallReview, CallSubject};

use crate::permission::decide::{PermissionRules, PermissionVerdict, decide_call};
use crate::permission::{command_parts, looks_secret};
use crate::shell::SimpleCommand;

/// Programs and sub-commands that build, check or test. A suggested rule covers them with any arguments.
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
/// Programs that check, format or print. A suggested rule covers them with any arguments.
const HARMLESS_PROGRAMS: &[&str] = &[
    "pytest", "jest", "vitest", "eslint", "prettier", "ruff", "black", "mypy", "tsc", "rustfmt", "gofmt",
    "clippy",
];

/// Returns rules that together would allow the call, without duplicates. The list is empty if no rule can allow it, for
/// example because a stronger rule denies it.
pub(crate) fn suggest_rules(rules: &PermissionRules, tool: &str, review: &CallReview) -> Vec<String> {
    let mut suggestions: Vec<String> = Vec::new();
    if review.subjects.is_empty() {
        suggestions.push(tool.to_owned());
    }
    for subject in &review.subjects {
        let rule = match subject {
            CallSubject::Path(_) if tool == "execute" => continue,
            CallSubject::Path(path) => Some(format!("{tool}({})", rule_for_path(path))),
            CallSubject::Url(url) => Some(format!("{tool}({})", escape_pattern(url))),
            CallSubject::Command(line) => match rules_for_line(rules, tool, line) {
                Some(patterns) => {
                    suggestions.extend(patterns);
                    continue;
                }
                None => None,
            },
        };
        match rule {
            Some(rule) => suggestions.push(rule),
            None => return Vec::new(),
        }
    }
    let mut seen = std::collections::HashSet::new();
    suggestions.retain(|rule| seen.insert(rule.clone()));
    if would_allow(rules, tool, review, &suggestions) { suggestions } else { Vec::new() }
}

/// Returns whether the call would be allowed if the suggestions were rules. An existing rule may be stronger.
fn would_allow(rules: &PermissionRules, tool: &str, review: &CallReview, suggestions: &[String]) -> bool {
    let mut rules = rules.clone();
    rules.permissions.allow.extend(suggestions.iter().filter_map(|rule| rule.parse().ok()));
    matches!(decide_call(&rules, tool, review), PermissionVerdict::Allow { .. })
}

/// Returns a rule for each simple command of the line that is not allowed yet, or `None` if one of them cannot be
/// allowed by a rule.
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

/// Returns the pattern for a command: with any arguments if it is in one of the tables, otherwise the exact command.
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

/// Returns the pattern for a path: everything in its folder, or only this file if it is sensitive or lies directly in
/// the workspace.
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

/// Escapes the stars of a text, so that a pattern matches it literally.
fn escape_pattern(text: &str) -> String {
    text.replace('*', "\\*")
}
