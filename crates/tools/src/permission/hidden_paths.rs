//! Which files a search of the workspace leaves out: those that a rule denies, or asks about, when they are read by
//! name. A file that the call names itself was judged before, and is not left out.

use std::path::Path;
use std::sync::Arc;

use crate::permission::PermissionRules;
use crate::permission::decide::READ_FILE;
use crate::permission::rule::{MatchMode, PermissionRule};

tokio::task_local! {
    /// The rules under which the present call was judged.
    static RULES: Arc<PermissionRules>;
}

/// Rules that hide files from a search.
#[derive(Debug, Default)]
pub(crate) struct HiddenPaths {
    rules: Vec<PermissionRule>,
}

/// Makes a call that was judged by `rules`: its search leaves out what they hide.
pub(crate) async fn with_rules<T>(rules: Arc<PermissionRules>, call: impl Future<Output = T>) -> T {
    RULES.scope(rules, call).await
}

/// Returns what the rules of the present call hide from a search by `tool`.
pub(crate) fn hidden_paths(tool: &str) -> HiddenPaths {
    let rules = RULES.try_with(|rules| path_rules(rules, tool).cloned().collect());
    HiddenPaths { rules: rules.unwrap_or_default() }
}

/// Returns whether a rule could hide a file from `tool`.
pub(super) fn can_hide_paths(rules: &PermissionRules, tool: &str) -> bool {
    path_rules(rules, tool).next().is_some()
}

fn path_rules<'a>(rules: &'a PermissionRules, tool: &'a str) -> impl Iterator<Item = &'a PermissionRule> {
    let rules = rules.permissions.deny.iter().chain(&rules.permissions.ask);
    rules.filter(move |rule| {
        rule.is_about_paths() && (rule.matches_tool(READ_FILE) || rule.matches_tool(tool))
    })
}

impl HiddenPaths {
    /// Returns what is hidden from a search that begins at `start`, a path of the workspace: a rule that matches it
    /// was heeded when the call was judged.
    pub fn for_search_below(mut self, start: &Path) -> Self {
        self.rules.retain(|rule| !rule.matches_path(start, MatchMode::Wide));
        self
    }

    /// Returns whether a path of the workspace is left out.
    pub fn is_hidden(&self, path: &Path) -> bool {
        self.rules.iter().any(|rule| rule.matches_path(path, MatchMode::Wide))
    }
}

/// Returns the note about what was left out; `None` when nothing was.
pub(crate) fn hidden_note(count: usize) -> Option<String> {
    match count {
        0 => None,
        1 => Some("[1 file left out by rules]".to_owned()),
        _ => Some(format!("[{count} files left out by rules]")),
    }
}
