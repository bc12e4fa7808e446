//! The files of the workspace as searches see them: ignored ones, `.git`, what links lead to, and files that look as
//! if they held secrets are left out.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use ignore::{DirEntry, WalkBuilder};
use tokio_util::sync::CancellationToken;

use crate::permission::looks_secret;

/// The most files a search looks at.
const FILES_MAX: usize = 200_000;

/// How a walk over the files ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalkEnd {
    Complete,
    /// The limit of files was reached.
    LimitReached,
    /// The visitor had enough.
    Stopped,
}

/// A visitor's answer: continue with more files, or stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalkControl {
    /// It does.
    Continue,
    /// It has enough.
    Stop,
}

/// Calls `visit` with every file below `folder` (or with the file itself), in the order of their paths. A file that
/// looks as if it held secrets is seen only when it is `folder` itself.
pub(crate) fn walk_files(
    folder: &Path,
    cancel: &CancellationToken,
    mut visit: impl FnMut(&Path) -> WalkControl,
) -> Result<WalkEnd, String> {
    let is_file = |entry: &DirEntry| {
        let is_named = entry.depth() == 0;
        entry.file_type().is_some_and(|kind| kind.is_file()) && (is_named || !looks_secret(entry.path()))
    };
    let entries = WalkBuilder::new(folder)
        .hidden(false)
        .require_git(false)
        .filter_entry(|entry| entry.file_name() != ".git")
        .sort_by_file_path(Ord::cmp)
        .build();
    for (seen, entry) in entries.filter_map(Result::ok).filter(is_file).enumerate() {
        if cancel.is_cancelled() {
            return Err("cancelled".to_owned());
        }
        if seen == FILES_MAX {
            return Ok(WalkEnd::LimitReached);
        }
        if visit(entry.path()) == WalkControl::Stop {
            return Ok(WalkEnd::Stopped);
        }
    }
    Ok(WalkEnd::Complete)
}

/// Returns the matcher of a glob over paths relative to the workspace; `*` stays within one folder.
pub(crate) fn path_matcher(pattern: &str) -> Result<GlobMatcher, String> {
    if pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
        return Err(format!(
            "{pattern:?} leads outside; patterns are relative to the workspace, such as src/**/*.rs"
        ));
    }
    // A bare name is meant to match anywhere.
    let anywhere = if pattern.contains('/') { pattern.to_owned() } else { format!("**/{pattern}") };
    GlobBuilder::new(&anywhere)
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| format!("bad pattern: {error}"))
}
