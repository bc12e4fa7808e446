//! Which files a search of the workspace leaves out: those that a rule denies, or asks about, when they are read by
//! name. A file that the call names itself was judged before, and is not left out.

use std::path::Path;
use std::sync::Arc;

use crate::permission::Rules;
use crate::permission::decide::READ_FILE;
use crate::permission::rule::{Reading, Rule};

tokio::task_local! {
    /// The rules under which the present call was judged.
    static RULES: Arc<Rules>;
}

/// Rules that hide files from a search.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    rules: Vec<Rule>,
}

/// Makes a call that was judged by `rules`: its search leaves out what they hide.
pub(crate) async fn during<T>(rules: Arc<Rules>, call: impl Future<Output = T>) -> T {
    RULES.scope(rules, call).await
}

/// Returns what the rules of the present call hide from a search by `tool`.
pub(crate) fn hidden(tool: &str) -> Hidden {
    let rules = RULES.try_with(|rules| of_paths(rules, tool).cloned().collect());
    Hidden { rules: rules.unwrap_or_default() }
}

/// Returns whether a rule could hide a file from `tool`.
pub(super) fn hides_any(rules: &Rules, tool: &str) -> bool {
    of_paths(rules, tool).next().is_some()
}

fn of_paths<'a>(rules: &'a Rules, tool: &'a str) -> impl Iterator<Item = &'a Rule> {
    let rules = rules.permissions.deny.iter().chain(&rules.permissions.ask);
    rules.filter(move |rule| rule.is_about_paths() && (rule.names(READ_FILE) || rule.names(tool)))
}

impl Hidden {
    /// Returns what is hidden from a search that begins at `start`, a path of the workspace: a rule that matches it
    /// was heeded when the call was judged.
    pub fn below(mut self, start: &Path) -> Self {
        self.rules.retain(|rule| !rule.matches_path(start, Reading::Wide));
        self
    }

    /// Returns whether a path of the workspace is left out.
    pub fn hides(&self, path: &Path) -> bool {
        self.rules.iter().any(|rule| rule.matches_path(path, Reading::Wide))
    }
}

/// Returns the note about what was left out; `None` when nothing was.
pub(crate) fn note(count: usize) -> Option<String> {
    match count {
        0 => None,
        1 => Some("[1 file left out by rules]".to_owned()),
        _ => Some(format!("[{count} files left out by rules]")),
    }
}
