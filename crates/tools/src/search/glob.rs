//! The tool `glob`: files by the shape of their path.

use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::permission::{self, HiddenPaths};
use crate::read_only_tool::ReadOnlyTool;
use crate::search::file_walk::{WalkControl, WalkEnd, path_matcher, walk_files};
use crate::workspace::Workspace;

/// The most paths listed.
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

pub(crate) const GLOB: ReadOnlyTool<GlobArgs> = ReadOnlyTool {
    name: "glob",
    description: "Lists files of the workspace whose path matches a pattern such as src/**/*.rs, *.toml or \
                          tests/{unit,it}/*.rs. Files that .gitignore names are left out.",
    path: |args| args.path.as_deref(),
    read: find_files,
};

fn find_files(
    workspace: &Workspace,
    args: &GlobArgs,
    hidden: HiddenPaths,
    cancel: &CancellationToken,
) -> Result<String, String> {
    let matcher = path_matcher(&args.pattern)?;
    let folder = workspace.resolve_existing(args.path.as_deref().unwrap_or("."))?;
    let hidden = hidden.for_search_below(workspace.relative_path(&folder));
    let (mut found, mut left_out) = (Vec::new(), 0);
    let walked = walk_files(&folder, cancel, |path| {
        let shown = workspace.relative_path(path);
        match matcher.is_match(shown) {
            true if hidden.is_hidden(shown) => left_out += 1,
            true => found.push(shown.display().to_string()),
            false => {}
        }
        if found.len() > PATHS_MAX { WalkControl::Stop } else { WalkControl::Continue }
    })?;
    if found.is_empty() {
        found.push("no file matches".to_owned());
    }
    match walked {
        WalkEnd::Complete => {}
        WalkEnd::LimitReached => {
            found.push("[the search ended early: too many files; narrow it with path]".to_owned())
        }
        WalkEnd::Stopped => {
            found.truncate(PATHS_MAX);
            found.push(format!("[more than {PATHS_MAX} files match; narrow the pattern]"));
        }
    }
    found.extend(permission::hidden_note(left_out));
    Ok(found.join("\n"))
}
