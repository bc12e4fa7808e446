//! Rules that would have allowed a call, for a person who does not want to be asked again. They are no wider than what
//! was asked calls for; remembering them is not done here.

use std::path::Path;

use runtime::{Review, Subject};

use crate::permission::decide::{Rules, Verdict, decide};
use crate::permission::{command, looks_secret};
use crate::shell::Simple;

/// Programs and sub-commands whose other arguments make no great difference: they build, check or test.
const WITH_ANY_ARGUMENTS: &[(&str, &[&str])] = &[
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
const HARMLESS: &[&str] = &[
    "pytest", "jest", "vitest", "eslint", "prettier", "ruff", "black", "mypy", "tsc", "rustfmt", "gofmt",
    "clippy",
];
/// Returns the rules that together would allow the call; none when no rule can.
pub(crate) fn suggestions(rules: &Rules, tool: &str, review: &Review) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    if review.subjects.is_empty() {
        found.push(tool.to_owned());
    }
    for subject in &review.subjects {
        let rule = match subject {
            Subject::Path(_) if tool == "execute" => continue,
            Subject::Path(path) => Some(format!("{tool}({})", of_path(path))),
            Subject::Url(url) => Some(format!("{tool}({})", literal(url))),
            Subject::Command(line) => match of_line(rules, tool, line) {
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
fn would_allow(rules: &Rules, tool: &str, review: &Review, found: &[String]) -> bool {
    let mut rules = rules.clone();
    rules.permissions.allow.extend(found.iter().filter_map(|rule| rule.parse().ok()));
    matches!(decide(&rules, tool, review), Verdict::Allow { .. })
}

/// Returns a rule for each part of the line that is not allowed yet; `None` when one of them cannot be.
fn of_line(rules: &Rules, tool: &str, line: &str) -> Option<Vec<String>> {
    let mut patterns = Vec::new();
    for part in command::parts(line) {
        let text = part.text?;
        let review = Review { subjects: vec![Subject::Command(text.clone())], ..Review::default() };
        if !matches!(decide(rules, tool, &review), Verdict::Allow { .. }) {
            patterns.push(format!("{tool}({})", of_command(&part.command?, &text)));
        }
    }
    Some(patterns)
}

fn of_command(command: &Simple, text: &str) -> String {
    let words: Vec<&str> = command.words.iter().map(|word| word.text.as_str()).collect();
    let takes_any = |program: &str, sub: &str| {
        WITH_ANY_ARGUMENTS.iter().any(|(name, subs)| *name == program && subs.contains(&sub))
    };
    match words.as_slice() {
        _ if !command.assignments.is_empty() => literal(text),
        [program, sub, ..] if takes_any(program, sub) => format!("{program} {sub} *"),
        [program, ..] if HARMLESS.contains(program) => format!("{program} *"),
        _ => literal(text),
    }
}

fn of_path(path: &Path) -> String {
    let escaped = |path: &Path| globset::escape(&path.display().to_string());
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) if !looks_secret(path) && !folder.starts_with(".git") => {
            format!("{}/**", escaped(folder))
        }
        Some(_) => escaped(path),
        None => format!("./{}", escaped(path)),
    }
}

fn literal(text: &str) -> String {
    text.replace('*', "\\*")
}
