//! The tool `glob`: lists the files of the workspace whose path matches a pattern. It does not read them.

use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::permission::{self, HiddenPaths};
use crate::read_only_tool::ReadOnlyTool;
use crate::search::file_walk::{WalkControl, WalkEnd, path_matcher, walk_files};
use crate::workspace::Workspace;

/// Maximum number of paths that one call lists.
const PATHS_MAX: usize = 500;

/// The arguments of a call.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GlobArgs {
    /// The pattern, relative to the workspace.
    pattern: String,
    /// Only files below this folder.
    #[serde(default)]
    path: Option<String>,
}

/// The tool `glob`.
pub(crate) const GLOB: ReadOnlyTool<GlobArgs> = ReadOnlyTool {
    name: "glob",
    description: "Lists files of the workspace whose path matches a pattern such as src/**/*.rs, *.toml or \
                          tests/{unit,it}/*.rs. Files that .gitignore names are left out.",
    path: |args| args.path.as_deref(),
    read: find_files,
};

/// Lists the matching files, one path per line, relative to the workspace. Files that a permission rule hides are
/// counted in a note at the end instead.
///
/// # Errors
/// Returns the message for the model if the pattern or the folder is invalid, or the call was cancelled.
fn find_files(
    workspace: &Workspace,
    args: &GlobArgs,
    hidden: HiddenPaths,
    cancel: &CancellationToken,
) -> Result<String, String> {
    let matcher = path_matcher(&args.pattern)?;
    let folder = workspace.resolve_existing(args.path.as_deref().unwrap_or("."))?;
    let hidden = hidden.for_search_below(workspace.relative_path(&folder));
    let (mut lines, mut hidden_count) = (Vec::new(), 0);
    let walk_end = walk_files(&folder, cancel, |path| {
        let relative = workspace.relative_path(path);
        match matcher.is_match(relative) {
            true if hidden.is_hidden(relative) => hidden_count += 1,
            true => lines.push(relative.display().to_string()),
            false => {}
        }
        // One path over the limit shows that there are more.
        if lines.len() > PATHS_MAX { WalkControl::Stop } else { WalkControl::Continue }
    })?;
    if lines.is_empty() {
        lines.push("no file matches".to_owned());
    }
    match walk_end {
        WalkEnd::Complete => {}
        WalkEnd::LimitReached => {
            lines.push("[the search ended early: too many files; narrow it with path]".to_owned())
        }
        WalkEnd::Stopped => {
            lines.truncate(PATHS_MAX);
            lines.push(format!("[more than {PATHS_MAX} files match; narrow the pattern]"));
        }
    }
    lines.extend(permission::hidden_note(hidden_count));
    Ok(lines.join("\n"))
}
