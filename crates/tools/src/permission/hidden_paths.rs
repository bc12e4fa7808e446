//! Files that a search leaves out because of permission rules: those that a rule denies, or asks about, when they are
//! read by name. A file or folder that the call itself names was judged with the call and is not left out.

use std::path::Path;
use std::sync::Arc;

use crate::permission::PermissionRules;
use crate::permission::decide::READ_FILE;
use crate::permission::rule::{MatchMode, PermissionRule};

tokio::task_local! {
    /// The rules by which the running call was judged.
    static RULES: Arc<PermissionRules>;
}

/// The rules that hide files from a search.
#[derive(Debug, Default)]
pub(crate) struct HiddenPaths {
    rules: Vec<PermissionRule>,
}

/// Runs a call that was judged by `rules`. [`hidden_paths`] uses the same rules within `call`, so the rules cannot
/// change between the decision and the search.
pub(crate) async fn with_rules<T>(rules: Arc<PermissionRules>, call: impl Future<Output = T>) -> T {
    RULES.scope(rules, call).await
}

/// Returns the rules of the running call that hide files from a search by `tool`. Outside [`with_rules`] nothing is
/// hidden. The task-local rules are not available on the blocking thread pool, so call this before moving there.
pub(crate) fn hidden_paths(tool: &str) -> HiddenPaths {
    let rules = RULES.try_with(|rules| path_rules(rules, tool).cloned().collect());
    HiddenPaths { rules: rules.unwrap_or_default() }
}

/// Returns whether a rule could hide a file from `tool`.
pub(super) fn can_hide_paths(rules: &PermissionRules, tool: &str) -> bool {
    path_rules(rules, tool).next().is_some()
}

/// Returns the `deny` and `ask` rules with a path pattern that apply to files read by `tool`.
fn path_rules<'a>(rules: &'a PermissionRules, tool: &'a str) -> impl Iterator<Item = &'a PermissionRule> {
    let rules = rules.permissions.deny.iter().chain(&rules.permissions.ask);
    rules.filter(move |rule| {
        rule.is_about_paths() && (rule.matches_tool(READ_FILE) || rule.matches_tool(tool))
    })
}

impl HiddenPaths {
    /// Returns the rules without those that match `start`, the path relative to the workspace at which the search
    /// begins. Such a rule was applied when the call was judged, and would hide every file.
    pub fn for_search_below(mut self, start: &Path) -> Self {
        self.rules.retain(|rule| !rule.matches_path(start, MatchMode::Wide));
        self
    }

    /// Returns whether a path, relative to the workspace, is left out.
    pub fn is_hidden(&self, path: &Path) -> bool {
        self.rules.iter().any(|rule| rule.matches_path(path, MatchMode::Wide))
    }
}

/// Returns the note about the number of files left out, or `None` if there are none.
pub(crate) fn hidden_note(count: usize) -> Option<String> {
    match count {
        0 => None,
        1 => Some("[1 file left out by rules]".to_owned()),
        _ => Some(format!("[{count} files left out by rules]")),
    }
}
