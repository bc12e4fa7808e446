//! The folder that relative paths are relative to.

use std::collections::{HashMap, HashSet};

use super::{FileTracker, same_file};
use crate::limits::NAMES_COUNTED_MAX;
use crate::tool_use::ToolUse;

/// The absolute paths of files that commands named relative to the folder of a `cd`.
#[derive(Debug, Clone, Default)]
pub(super) struct JoinedPaths {
    /// Length of the folder with its final slash, by path. At most [`NAMES_COUNTED_MAX`] entries.
    folder_lens: HashMap<String, usize>,
}

impl JoinedPaths {
    /// Records the files that a command uses in the folders of its `cd`.
    pub(super) fn record_call(&mut self, usage: &ToolUse) {
        for folder in &usage.folders {
            let is_inside =
                |path: &&String| path.strip_prefix(folder).is_some_and(|inside| inside.starts_with('/'));
            let paths = usage.reads.iter().chain(&usage.writes).chain(&usage.deletes);
            for path in paths.filter(is_inside) {
                if self.folder_lens.len() < NAMES_COUNTED_MAX {
                    self.folder_lens.insert(path.clone(), folder.len() + 1);
                }
            }
        }
    }

    /// Returns a path without the working folder `root`. A path outside of it is relative to the folder of the `cd` with
    /// which it was named, unless only the file's name would be left.
    pub(super) fn shorten<'p>(&self, path: &'p str, root: &str) -> &'p str {
        let named = || {
            let (_, inside) = path.split_at_checked(*self.folder_lens.get(path)?)?;
            Some(inside).filter(|inside| inside.contains('/'))
        };
        path.strip_prefix(root).filter(|_| !root.is_empty()).or_else(named).unwrap_or(path)
    }
}

impl FileTracker {
    /// Returns the folder that relative paths are relative to, with its final slash: the one below which the most absolute
    /// paths continue as a relative path, or were named relative to it after a `cd`. Pairs with only a file name in common
    /// count if the folder has at least half of all absolute paths. Returns `None` when no absolute and relative path belong
    /// together.
    pub(super) fn working_folder(&self) -> Option<&str> {
        let is_absolute = same_file::is_absolute;
        let paths = || self.files.values().filter(|file| !file.is_temporary()).map(|file| file.path.as_str());
        let relative: HashSet<&str> = paths()
            .filter(|path| !is_absolute(path) && !path.starts_with('~') && !path.starts_with(".."))
            .collect();
        let absolute: Vec<&str> = paths().filter(|path| is_absolute(path)).collect();
        let mut support: HashMap<&str, (usize, usize)> = HashMap::new();
        for path in &absolute {
            let joined_len = self.joined_paths.folder_lens.get(*path).copied();
            for (slash, _) in path.match_indices('/').filter(|(slash, _)| *slash > 0) {
                let (root, inside) = path.split_at(slash + 1);
                if relative.contains(inside) || joined_len == Some(root.len()) {
                    let (with_folder, bare) = support.entry(root).or_default();
                    *(if inside.contains('/') { with_folder } else { bare }) += 1;
                }
            }
        }
        let is_common =
            |root: &str| 2 * absolute.iter().filter(|path| path.starts_with(root)).count() >= absolute.len();
        let candidates =
            support.into_iter().filter(|(root, (with_folder, _))| *with_folder > 0 || is_common(root));
        candidates
            .max_by(|(a, a_support), (b, b_support)| a_support.cmp(b_support).then_with(|| b.cmp(a)))
            .map(|(root, _)| root)
    }
}
