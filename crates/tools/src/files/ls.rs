//! The tool `ls`: what a folder holds. It does not descend.

use std::fs;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::permission::{self, HiddenPaths};
use crate::read_only_tool::ReadOnlyTool;
use crate::workspace::Workspace;

/// The most entries listed.
const ENTRIES_MAX: usize = 500;

/// The arguments of a call.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LsArgs {
    /// The folder, relative to the workspace. Default: the workspace.
    #[serde(default)]
    path: Option<String>,
}

pub(crate) const LS: ReadOnlyTool<LsArgs> = ReadOnlyTool {
    name: "ls",
    description: "Lists one folder of the workspace: folders end in /, files show their size in bytes.",
    path: |args| args.path.as_deref(),
    read: list_folder,
};

fn list_folder(
    workspace: &Workspace,
    args: &LsArgs,
    hidden: HiddenPaths,
    _cancel: &CancellationToken,
) -> Result<String, String> {
    let path = args.path.as_deref().unwrap_or(".");
    let folder = workspace.resolve_existing(path)?;
    let hidden = hidden.for_search_below(workspace.relative_path(&folder));
    let mut left_out = 0;
    let entries = fs::read_dir(&folder).map_err(|error| format!("{path:?} cannot be listed: {error}"))?;
    let mut lines: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(|entry| {
            let is_hidden = hidden.is_hidden(workspace.relative_path(&entry.path()));
            left_out += usize::from(is_hidden);
            !is_hidden
        })
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            match entry.metadata() {
                Ok(found) if found.is_dir() => format!("{name}/"),
                Ok(found) if found.is_symlink() => format!("{name} (link)"),
                Ok(found) => format!("{name} ({})", found.len()),
                Err(_) => name,
            }
        })
        .collect();
    lines.sort();
    let total = lines.len();
    if total == 0 {
        lines.push(if left_out == 0 { "(empty folder)" } else { "(nothing to show)" }.to_owned());
    }
    if total > ENTRIES_MAX {
        lines.truncate(ENTRIES_MAX);
        lines.push(format!("[{} more entries; glob finds them by name]", total - ENTRIES_MAX));
    }
    lines.extend(permission::hidden_note(left_out));
    Ok(lines.join("\n"))
}
