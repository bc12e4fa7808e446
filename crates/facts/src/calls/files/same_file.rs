//! Joins the names of one file: agents use absolute paths, paths in a worktree, paths relative to several folders, and bare
//! file names.

use std::collections::{HashMap, HashSet};

use crate::facts::FileUse;

/// File names, without extension, that many folders have. Without a folder they do not tell which file is meant.
const COMMON_NAMES: &[&str] = &[
    "index",
    "main",
    "mod",
    "types.d",
    "lib",
    "readme",
    "__init__",
    "package",
    "cargo",
    "test",
    "tests",
    "types",
    "utils",
    "config",
    "settings",
    "app",
    "setup",
    "makefile",
    "dockerfile",
    "go",
    "page",
    "skill",
    "conftest",
    "error",
    "client",
    "server",
    "claude",
    "agents",
    "changelog",
    "license",
    "tsconfig",
    "schema",
    "routes",
    "styles",
];

/// Returns the files with one entry for each file. A path relative to some folder and a longer path that ends in it are one
/// file if no other path ends in it. The joined file has the relative path if the longer one is absolute, else the longer one. The two
/// paths of one of the `copies` are two files.
pub(super) fn join_same_files(files: Vec<FileUse>, copies: &HashSet<(String, String)>) -> Vec<FileUse> {
    let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
    for (index, file) in files.iter().enumerate() {
        by_name.entry(file_name(&file.path).to_owned()).or_default().push(index);
    }
    let mut slots: Vec<Option<FileUse>> = files.into_iter().map(Some).collect();
    for same_name in by_name.into_values().filter(|same_name| same_name.len() > 1) {
        let mut order = same_name;
        // The longest first, so that a bare name finds the path to which others were joined.
        order
            .sort_by_key(|index| std::cmp::Reverse(slots[*index].as_ref().map_or(0, |file| file.path.len())));
        for index in &order {
            let Some(path) = slots[*index].as_ref().map(|file| file.path.clone()) else { continue };
            let is_copy = |other: &str| {
                let pair = |a: &str, b: &str| copies.contains(&(a.to_owned(), b.to_owned()));
                !copies.is_empty() && (pair(&path, other) || pair(other, &path))
            };
            let is_candidate = |at: &&usize| slots[**at].as_ref().is_some_and(|file| !is_copy(&file.path));
            let candidates: Vec<usize> = order.iter().filter(is_candidate).copied().collect();
            join_into_longer(&mut slots, *index, &candidates);
        }
    }
    slots.into_iter().flatten().collect()
}

/// Joins the file at `index` with the files among `candidates` whose paths end in its path, if they are one file.
fn join_into_longer(slots: &mut [Option<FileUse>], index: usize, candidates: &[usize]) {
    let Some(short) = slots[index].as_ref().map(|file| file.path.clone()) else { return };
    if is_absolute(&short) {
        return;
    }
    let suffix = short.trim_start_matches("../").trim_start_matches("./");
    let path_at = |at: usize| slots[at].as_ref().map(|file| file.path.as_str());
    let ends_in_it = |path: &str| {
        path.strip_suffix(suffix).is_some_and(|folder| folder.ends_with('/'))
            || path == suffix && path != short
    };
    let longer: Vec<usize> = candidates
        .iter()
        .copied()
        .filter(|at| *at != index && path_at(*at).is_some_and(ends_in_it))
        .collect();
    let are_absolute = longer.iter().all(|at| path_at(*at).is_some_and(is_absolute));
    let depth = suffix.matches('/').count();
    let is_common = is_common_file_name(file_name(suffix));
    // Several absolute paths that end in the same folders are one file in several worktrees.
    let is_one = match (longer.len(), depth) {
        (0, _) => false,
        // A bare name may be a file of any folder.
        (1, 0) => !is_common && !are_absolute,
        (1, 1) => !is_common,
        (1, _) => true,
        (_, depth) => are_absolute && depth > 1,
    };
    if !is_one {
        return;
    }
    let keeps_short = are_absolute && short == suffix && depth > 0;
    let target = if keeps_short { index } else { longer[0] };
    let sources = longer.into_iter().chain([index]).filter(|at| *at != target);
    let joined: Vec<FileUse> = sources.filter_map(|at| slots[at].take()).collect();
    if let Some(file) = slots[target].as_mut() {
        joined.into_iter().for_each(|other| file.join_uses(&other));
    }
}

/// Returns whether a path is absolute.
pub(crate) fn is_absolute(path: &str) -> bool {
    path.starts_with('/') || path.get(1..3) == Some(":/")
}

/// Returns the last component of a path.
fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns whether many folders have a file of this name, so that the name alone does not tell which file is meant.
pub fn is_common_file_name(name: &str) -> bool {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    COMMON_NAMES.iter().any(|common| common.eq_ignore_ascii_case(stem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_has_one_name() {
        for (paths, expected) in [
            (&["/w/a__worktrees/x/src/rows/reader.ts", "src/rows/reader.ts"][..], "src/rows/reader.ts"),
            (
                &["/w/x/src/rows/reader.ts", "/w/y/src/rows/reader.ts", "src/rows/reader.ts"],
                "src/rows/reader.ts",
            ),
            (&["reader.ts", "src/rows/reader.ts"], "src/rows/reader.ts"),
            (&["../rows/reader.ts", "src/rows/reader.ts"], "src/rows/reader.ts"),
            (&["rows/reader.ts", "src/rows/reader.ts", "reader.ts"], "src/rows/reader.ts"),
            (&["/w/x/rows/reader.ts", "rows/reader.ts"], "rows/reader.ts"),
            // These may be different files.
            (&["README.md", "docs/README.md"], "README.md docs/README.md"),
            (&["src/main.rs", "tools/src/main.rs"], "src/main.rs tools/src/main.rs"),
            (&["reader.ts", "a/reader.ts", "b/reader.ts"], "a/reader.ts b/reader.ts reader.ts"),
            (&["reader.ts", "/w/x/reader.ts"], "/w/x/reader.ts reader.ts"),
            (&["/w/x/reader.ts", "/w/y/reader.ts"], "/w/x/reader.ts /w/y/reader.ts"),
        ] {
            let files = paths.iter().map(|path| FileUse { path: (*path).to_owned(), ..FileUse::default() });
            let mut joined: Vec<String> =
                join_same_files(files.collect(), &HashSet::new()).into_iter().map(|file| file.path).collect();
            joined.sort();
            assert_eq!(joined.join(" "), expected, "{paths:?}");
        }
    }
}
