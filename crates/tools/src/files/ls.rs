//! The tool `ls`: lists the entries of one folder. It does not descend into sub-folders.

use std::fs;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::permission::{self, HiddenPaths};
use crate::read_only_tool::ReadOnlyTool;
use crate::workspace::Workspace;

/// Maximum number of entries that one call lists.
const ENTRIES_MAX: usize = 500;

/// The arguments of a call.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LsArgs {
    /// The folder, relative to the workspace. Default: the workspace.
    #[serde(default)]
    path: Option<String>,
}

/// The tool `ls`.
pub(crate) const LS: ReadOnlyTool<LsArgs> = ReadOnlyTool {
    name: "ls",
    description: "Lists one folder of the workspace: folders end in /, files show their size in bytes.",
    path: |args| args.path.as_deref(),
    read: list_folder,
};

/// Lists the folder's entries, one per line, sorted by name. Entries that a permission rule hides are counted in a note
/// at the end instead.
///
/// # Errors
/// Returns the message for the model if the path is not a readable folder of the workspace.
fn list_folder(
    workspace: &Workspace,
    args: &LsArgs,
    hidden: HiddenPaths,
    _cancel: &CancellationToken,
) -> Result<String, String> {
    let path = args.path.as_deref().unwrap_or(".");
    let folder = workspace.resolve_existing(path)?;
    let hidden = hidden.for_search_below(workspace.relative_path(&folder));
    let mut hidden_count = 0;
    let entries = fs::read_dir(&folder).map_err(|error| format!("{path:?} cannot be listed: {error}"))?;
    let mut lines: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(|entry| {
            let is_hidden = hidden.is_hidden(workspace.relative_path(&entry.path()));
            hidden_count += usize::from(is_hidden);
            !is_hidden
        })
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => format!("{name}/"),
                Ok(metadata) if metadata.is_symlink() => format!("{name} (link)"),
                Ok(metadata) => format!("{name} ({})", metadata.len()),
                Err(_) => name,
            }
        })
        .collect();
    lines.sort();
    let total = lines.len();
    if total == 0 {
        lines.push(if hidden_count == 0 { "(empty folder)" } else { "(nothing to show)" }.to_owned());
    }
    if total > ENTRIES_MAX {
        lines.truncate(ENTRIES_MAX);
        lines.push(format!("[{} more entries; glob finds them by name]", total - ENTRIES_MAX));
    }
    lines.extend(permission::hidden_note(hidden_count));
    Ok(lines.join("\n"))
}
