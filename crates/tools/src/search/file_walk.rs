//! The walk over the workspace's files that all search tools share. It skips ignored files, the folder `.git`, symbolic
//! links, and files whose name suggests secrets. The caller applies permission rules.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use ignore::{DirEntry, WalkBuilder};
use tokio_util::sync::CancellationToken;

use crate::permission::looks_secret;

/// Maximum number of files that one walk visits.
const FILES_MAX: usize = 200_000;

/// The way in which a walk over files ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalkEnd {
    /// All files were visited.
    Complete,
    /// The walk reached [`FILES_MAX`] files.
    LimitReached,
    /// The visitor stopped the walk.
    Stopped,
}

/// The visitor's answer after each file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalkControl {
    /// Visit the next file.
    Continue,
    /// End the walk.
    Stop,
}

/// Calls `visit` with every file below `folder`, in the order of their paths. If `folder` is a file, that file is
/// visited even if its name suggests secrets, because the permission check of a call covers the path that it names.
///
/// Entries that cannot be read are skipped. The walk does blocking I/O and checks `cancel` before each file.
///
/// # Errors
/// Returns the text `cancelled` if `cancel` was triggered.
pub(crate) fn walk_files(
    folder: &Path,
    cancel: &CancellationToken,
    mut visit: impl FnMut(&Path) -> WalkControl,
) -> Result<WalkEnd, String> {
    let is_file = |entry: &DirEntry| {
        let is_start = entry.depth() == 0;
        entry.file_type().is_some_and(|kind| kind.is_file()) && (is_start || !looks_secret(entry.path()))
    };
    let entries = WalkBuilder::new(folder)
        .hidden(false)
        .require_git(false)
        .filter_entry(|entry| entry.file_name() != ".git")
        .sort_by_file_path(Ord::cmp)
        .build();
    for (visited, entry) in entries.filter_map(Result::ok).filter(is_file).enumerate() {
        if cancel.is_cancelled() {
            return Err("cancelled".to_owned());
        }
        if visited == FILES_MAX {
            return Ok(WalkEnd::LimitReached);
        }
        if visit(entry.path()) == WalkControl::Stop {
            return Ok(WalkEnd::Stopped);
        }
    }
    Ok(WalkEnd::Complete)
}

/// Compiles a glob over paths relative to the workspace. `*` does not match `/`, and a pattern without `/` matches the
/// file name at any depth.
///
/// # Errors
/// Returns the message for the model if the pattern is absolute, contains `..`, or is not a valid glob.
pub(crate) fn path_matcher(pattern: &str) -> Result<GlobMatcher, String> {
    if pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
        return Err(format!(
            "{pattern:?} leads outside; patterns are relative to the workspace, such as src/**/*.rs"
        ));
    }
    let glob = if pattern.contains('/') { pattern.to_owned() } else { format!("**/{pattern}") };
    GlobBuilder::new(&glob)
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| format!("bad pattern: {error}"))
}
