//! One permission rule: its parser and its matchers. The precedence among rules is decided in [`super::decide`].

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use globset::{GlobBuilder, GlobMatcher};
use regex::Regex;
use serde::Deserialize;

/// Tools that change files. A rule with a pattern for one of them applies to all.
const WRITE_TOOLS: &[&str] = &["edit_file", "write_file"];
/// Tools that show the content of files. A rule with a pattern for one of them applies to all.
const CONTENT_TOOLS: &[&str] = &["read_file", "grep"];
/// Tools whose subjects are paths. The pattern of a rule for one of them must be a valid glob.
const PATH_TOOLS: &[&str] = &["edit_file", "write_file", "read_file", "grep", "glob", "ls"];

/// A rule about tool calls: `tool` or `tool(pattern)`.
///
/// In the tool's name, `*` matches any text. The pattern is a glob over paths relative to the workspace, or a command
/// in which `*` matches any text within one simple command and `\*` a literal star. A pattern that ends with ` *` also
/// matches the command without further arguments. Two rules are equal if their texts are.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub struct PermissionRule {
    /// The rule's source text, trimmed.
    text: String,
    /// Matches the names of the tools that the rule applies to.
    tool: Regex,
    /// The pattern in the parentheses; `None` for a rule that names only a tool.
    pattern: Option<RulePattern>,
}

/// The error about a text that is not a valid rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read the rule `{text}`: {reason}")]
pub struct RuleError {
    /// The invalid text.
    pub text: String,
    /// The reason why the text is not a rule.
    pub reason: String,
}

/// The strictness of matching a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MatchMode {
    /// Exactly what the pattern says. Used for rules that allow.
    Narrow,
    /// Also equivalents: another case, files below a matching folder, a wrapped command. Used for rules that ask or
    /// deny.
    Wide,
}

/// The compiled pattern of a rule. Whether it is used as a glob or as a text depends on the call's subject.
#[derive(Debug, Clone)]
struct RulePattern {
    /// The pattern as a glob over paths; `None` if it is not a valid glob.
    path: Option<PathGlobs>,
    /// Matches a whole command or URL.
    whole: Regex,
    /// Matches a part of a text that begins and ends at a word boundary.
    within: Regex,
}

/// The compiled globs of a path pattern.
#[derive(Debug, Clone)]
struct PathGlobs {
    exact: GlobMatcher,
    /// The same glob without regard to case.
    any_case: GlobMatcher,
}

impl PermissionRule {
    /// Returns whether the rule has a pattern, and so does not apply to every call of its tool.
    pub(super) fn has_pattern(&self) -> bool {
        self.pattern.is_some()
    }

    /// Returns whether the rule has a pattern that can match paths.
    pub(super) fn is_about_paths(&self) -> bool {
        self.pattern.as_ref().is_some_and(|pattern| pattern.path.is_some())
    }

    /// Returns whether the rule applies to the tool. A rule with a pattern applies to all tools of a family, for
    /// example to `write_file` if it names `edit_file`.
    pub fn matches_tool(&self, tool: &str) -> bool {
        let is_named = |name: &str| self.tool.is_match(name);
        let family = [WRITE_TOOLS, CONTENT_TOOLS].into_iter().find(|family| family.contains(&tool));
        match family {
            Some(family) if self.has_pattern() => family.iter().any(|name| is_named(name)),
            Some(_) | None => is_named(tool),
        }
    }

    /// Returns whether the pattern matches a path relative to the workspace.
    pub(super) fn matches_path(&self, path: &Path, mode: MatchMode) -> bool {
        let Some(globs) = self.pattern.as_ref().and_then(|pattern| pattern.path.as_ref()) else {
            return false;
        };
        match mode {
            MatchMode::Narrow => globs.exact.is_match(path),
            // A rule about a folder also covers everything below it.
            MatchMode::Wide => path.ancestors().any(|path| globs.any_case.is_match(path)),
        }
    }

    /// Returns whether the pattern matches the whole text.
    pub(super) fn matches_text(&self, text: &str) -> bool {
        self.pattern.as_ref().is_some_and(|pattern| pattern.whole.is_match(text))
    }

    /// Returns whether the pattern matches a part of the text that begins and ends at a word boundary.
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
            Some((tool, after)) => {
                let pattern =
                    after.strip_suffix(')').ok_or_else(|| failed("the closing parenthesis is missing"))?;
                (tool.trim(), Some(pattern.trim()))
            }
            None => (text, None),
        };
        if tool.is_empty() || !tool.chars().all(|c| c.is_ascii_alphanumeric() || "_-*".contains(c)) {
            return Err(failed("a rule begins with the name of a tool, such as execute or edit_file"));
        }
        if pattern.is_some_and(str::is_empty) {
            return Err(failed("the parentheses are empty"));
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

/// Compiles a pattern as a glob over paths. A trailing `/` stands for everything below a folder, a pattern without `/`
/// matches the file name at any depth, and `./name` matches only in the workspace itself.
///
/// # Errors
/// Returns the reason if the path is absolute or contains `..`, or the glob is invalid.
fn compile_globs(pattern: &str) -> Result<PathGlobs, String> {
    let pattern =
        pattern.strip_suffix('/').map_or_else(|| pattern.to_owned(), |folder| format!("{folder}/**"));
    if pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
        return Err("its path must be relative to the workspace, such as src/**".to_owned());
    }
    let anywhere = match pattern.strip_prefix("./") {
        Some(relative) => relative.to_owned(),
        None if pattern.contains('/') => pattern,
        None => format!("**/{pattern}"),
    };
    let glob = |ignore_case: bool| {
        let glob = GlobBuilder::new(&anywhere).literal_separator(true).case_insensitive(ignore_case).build();
        glob.map(|glob| glob.compile_matcher()).map_err(|error| error.to_string())
    };
    Ok(PathGlobs { exact: glob(false)?, any_case: glob(true)? })
}

/// Returns the regular expression of a text in which `*` matches anything and `\*` is a literal star.
fn wildcard_regex(text: &str) -> String {
    let (text, ending) = match text.strip_suffix(" *") {
        Some(text) => (text, "(?: .*)?"),
        None => (text, ""),
    };
    let mut expression = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.next_if_eq(&'*').is_some() => expression.push_str(r"\*"),
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
