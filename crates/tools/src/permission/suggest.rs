//! Rules that would have allowed a call, for a person who does not want to be asked again. They are no wider than what
//! was asked calls for; remembering them is not done here.

use std::path::Path;

use runtime::{Review, Subject};

use crate::permission::decide::{Rules, Verdict, decide};
use crate::permission::{command, looks_secret};
use crate::shell::{self, Simple};

/// Programs whose first argument says what they do.
const WITH_SUB_COMMANDS: &[&str] = &[
    "cargo",
    "git",
    "go",
    "npm",
    "pnpm",
    "yarn",
    "bun",
    "deno",
    "make",
    "just",
    "task",
    "mise",
    "docker",
    "kubectl",
    "terraform",
    "dotnet",
    "mvn",
    "gradle",
    "gh",
    "uv",
    "poetry",
    "pip",
    "rustup",
    "mix",
    "bundle",
    "rake",
];
/// Programs that are harmless whatever their arguments: they check, format or print.
const HARMLESS: &[&str] = &[
    "pytest", "jest", "vitest", "eslint", "prettier", "ruff", "black", "mypy", "tsc", "rustfmt", "gofmt",
    "clippy",
];
/// Sub-commands that take a program, or a second word that says what they do.
const OPEN_ENDED: &[&str] =
    &["run", "exec", "x", "push", "clean", "reset", "rm", "remove", "publish", "login", "config"];

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
    found
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
    let is_plain = |word: &str| shell::quoted(word) == word && !word.starts_with('-');
    match words.as_slice() {
        _ if !command.assignments.is_empty() => literal(text),
        [program, sub, ..]
            if WITH_SUB_COMMANDS.contains(program) && is_plain(sub) && !OPEN_ENDED.contains(sub) =>
        {
            format!("{program} {sub} *")
        }
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
