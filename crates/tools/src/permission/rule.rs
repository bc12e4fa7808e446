//! One rule: its text, and what it is about. Which rule wins is decided in [`super::decide`].

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use globset::{GlobBuilder, GlobMatcher};
use regex::Regex;
use serde::Deserialize;

/// Tools that change files; to a rule that says what it is about they are one.
const WRITE_TOOLS: &[&str] = &["edit_file", "write_file"];
/// Tools that show what is in files; to a rule that says what it is about they are one.
const CONTENT_TOOLS: &[&str] = &["read_file", "grep"];
/// Tools that are about paths.
const PATH_TOOLS: &[&str] = &["edit_file", "write_file", "read_file", "grep", "glob", "ls"];

/// A rule about tool calls: `tool` or `tool(pattern)`.
///
/// In the tool's name `*` stands for anything. The pattern is a glob over paths of the workspace, or a command in which
/// `*` stands for anything within one simple command; `\*` is a star. An ending ` *` stands for nothing, too.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub struct PermissionRule {
    text: String,
    tool: Regex,
    pattern: Option<RulePattern>,
}

/// Why a text is no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read the rule `{text}`: {reason}")]
pub struct RuleError {
    /// The text.
    pub text: String,
    /// The reason why the rule cannot be read.
    pub reason: String,
}

/// How closely a pattern must match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MatchMode {
    /// Only what it says: the rule allows.
    Narrow,
    /// Also what may amount to the same: the rule asks or denies.
    Wide,
}

#[derive(Debug, Clone)]
struct RulePattern {
    path: Option<PathGlobs>,
    whole: Regex,
    within: Regex,
}

#[derive(Debug, Clone)]
struct PathGlobs {
    exact: GlobMatcher,
    any_case: GlobMatcher,
}

impl PermissionRule {
    /// Returns whether the rule says what calls must be about.
    pub(super) fn has_pattern(&self) -> bool {
        self.pattern.is_some()
    }

    /// Returns whether its pattern can be one of paths.
    pub(super) fn is_about_paths(&self) -> bool {
        self.pattern.as_ref().is_some_and(|pattern| pattern.path.is_some())
    }

    /// Returns whether it names the tool.
    pub fn matches_tool(&self, tool: &str) -> bool {
        let is_named = |name: &str| self.tool.is_match(name);
        let family = [WRITE_TOOLS, CONTENT_TOOLS].into_iter().find(|family| family.contains(&tool));
        match family {
            Some(family) if self.has_pattern() => family.iter().any(|name| is_named(name)),
            Some(_) | None => is_named(tool),
        }
    }

    /// Returns whether its pattern matches a path of the workspace.
    pub(super) fn matches_path(&self, path: &Path, reading: MatchMode) -> bool {
        let Some(globs) = self.pattern.as_ref().and_then(|pattern| pattern.path.as_ref()) else {
            return false;
        };
        match reading {
            MatchMode::Narrow => globs.exact.is_match(path),
            // A rule about a folder is one about what is in it.
            MatchMode::Wide => path.ancestors().any(|path| globs.any_case.is_match(path)),
        }
    }

    /// Returns whether its pattern matches the whole text.
    pub(super) fn matches_text(&self, text: &str) -> bool {
        self.pattern.as_ref().is_some_and(|pattern| pattern.whole.is_match(text))
    }

    /// Returns whether its pattern matches anything in the text that begins like a word.
    pub(super) fn matches_within(&self, text: &str) -> bool {
        self.pattern.as_ref().is_some_and(|pattern| pattern.within.is_match(text))
    }
}

impl FromStr for PermissionRule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let text = text.trim();
        let failed = |reason: &str| RuleError { text: text.to_owned(), reason: reason.to_owned() };
        let (tool, pattern) = match text.split_once('(') {
            Some((tool, rest)) => {
                let pattern =
                    rest.strip_suffix(')').ok_or_else(|| failed("the closing parenthesis is missing"))?;
                (tool.trim(), Some(pattern.trim()))
            }
            None => (text, None),
        };
        if tool.is_empty() || !tool.chars().all(|c| c.is_ascii_alphanumeric() || "_-*".contains(c)) {
            return Err(failed("it begins with the name of a tool, such as execute or edit_file"));
        }
        if pattern.is_some_and(str::is_empty) {
            return Err(failed("there is nothing in the parentheses"));
        }
        let regex = |text: String| Regex::new(&text).map_err(|error| failed(&error.to_string()));
        let pattern = match pattern {
            Some(pattern) => {
                let path = compile_globs(pattern);
                if PATH_TOOLS.contains(&tool)
                    && let Err(reason) = &path
                {
                    return Err(failed(reason));
                }
                let text = wildcard_regex(pattern);
                let within = format!(r"(?s)(?:^|[^\w.-]){text}(?:$|[^\w.-])");
                Some(RulePattern {
                    path: path.ok(),
                    whole: regex(format!("(?s)^{text}$"))?,
                    within: regex(within)?,
                })
            }
            None => None,
        };
        Ok(Self { text: text.to_owned(), tool: regex(format!("^{}$", wildcard_regex(tool)))?, pattern })
    }
}

fn compile_globs(pattern: &str) -> Result<PathGlobs, String> {
    let pattern =
        pattern.strip_suffix('/').map_or_else(|| pattern.to_owned(), |folder| format!("{folder}/**"));
    if pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
        return Err("its path is relative to the workspace, such as src/**".to_owned());
    }
    // A bare name is meant to match anywhere.
    let anywhere = match pattern.strip_prefix("./") {
        Some(here) => here.to_owned(),
        None if pattern.contains('/') => pattern,
        None => format!("**/{pattern}"),
    };
    let glob = |ignore_case: bool| {
        let glob = GlobBuilder::new(&anywhere).literal_separator(true).case_insensitive(ignore_case).build();
        glob.map(|glob| glob.compile_matcher()).map_err(|error| error.to_string())
    };
    Ok(PathGlobs { exact: glob(false)?, any_case: glob(true)? })
}

/// Returns the regular expression of a text in which `*` stands for anything.
fn wildcard_regex(text: &str) -> String {
    let (text, ending) = match text.strip_suffix(" *") {
        Some(text) => (text, "(?: .*)?"),
        None => (text, ""),
    };
    let mut expression = String::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' if rest.next_if_eq(&'*').is_some() => expression.push_str(r"\*"),
            '*' => expression.push_str(".*"),
            _ => expression.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
    }
    expression + ending
}

impl TryFrom<String> for PermissionRule {
    type Error = RuleError;

    fn try_from(text: String) -> Result<Self, RuleError> {
        text.parse()
    }
}

impl fmt::Display for PermissionRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for PermissionRule {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for PermissionRule {}
