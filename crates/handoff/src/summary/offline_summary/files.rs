//! Formatting a list of paths in few characters: the common folder once, then the file names.

use std::collections::BTreeMap;

/// Returns `label` and as many of the paths, in order, as fit in `chars_max` characters, with the number of those
/// left out. Returns an empty text when not even one path fits.
///
/// If the paths do not all fit with their folders, only the file names are given.
pub(super) fn format_paths(label: &str, paths: &[&str], chars_max: usize) -> String {
    let root = Some(common_folder(paths)).filter(|root| root.len() > 1).unwrap_or_default();
    let folder = if root.is_empty() { String::new() } else { format!(" in {}", root.trim_end_matches('/')) };
    let full: Vec<&str> = paths.iter().map(|path| path.strip_prefix(root).unwrap_or(path)).collect();
    let with_folders = join_names(&format!("{label}{folder}: "), &full, chars_max);
    if with_folders.1 == paths.len() {
        return with_folders.0;
    }
    let short: Vec<&str> = paths.iter().map(|path| short_name(path)).collect();
    let names_only = join_names(&format!("{label}: "), &short, chars_max);
    if names_only.1 == 0 { String::new() } else { names_only.0 }
}

/// The files that are shown as one group instead of one by one.
#[derive(Debug, Clone, Copy)]
pub(super) enum FileGrouping {
    /// The files directly in a folder, if they are at least `files_min`.
    Folder {
        /// The minimum number of files.
        files_min: usize,
    },
    /// The files below a folder at any depth, if they are at least `files_min`.
    Nested {
        /// The minimum number of files.
        files_min: usize,
    },
}

/// Separates the paths into those that are shown one by one, in order, and a text for each group, such as
/// `30 files in src/old`. The deepest folders are grouped first.
pub(super) fn fold_groups<'a>(paths: &[&'a str], grouping: FileGrouping) -> (Vec<&'a str>, Vec<String>) {
    let (files_min, is_nested) = match grouping {
        FileGrouping::Folder { files_min } => (files_min, false),
        FileGrouping::Nested { files_min } => (files_min, true),
    };
    let mut single = paths.to_vec();
    let mut groups = BTreeMap::new();
    loop {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for path in &single {
            let folders = path.rmatch_indices('/').map(|(slash, _)| &path[..slash]);
            let folders = folders.filter(|folder| !folder.is_empty());
            for folder in folders.take(if is_nested { usize::MAX } else { 1 }) {
                *counts.entry(folder).or_default() += 1;
            }
        }
        counts.retain(|_, count| *count >= files_min);
        let Some((folder, count)) = counts.into_iter().max_by_key(|(folder, _)| folder.matches('/').count())
        else {
            break;
        };
        single.retain(|path| {
            let inner = path.strip_prefix(folder).and_then(|inner| inner.strip_prefix('/'));
            inner.is_none_or(|inner| !is_nested && inner.contains('/'))
        });
        groups.insert(folder, count);
    }
    let groups = groups.into_iter().map(|(folder, count)| match count {
        ..100 => format!("{count} files in {folder}"),
        // A number of three digits counts as a name that grounding would have to find in the thread.
        _ => format!("more than 99 files in {folder}"),
    });
    (single, groups.collect())
}

/// Returns the label with the names that fit, and the number of names shown. Repeated names are shown once.
fn join_names(label: &str, names: &[&str], chars_max: usize) -> (String, usize) {
    let mut line = label.to_owned();
    let mut length = label.chars().count();
    let mut shown: Vec<&str> = Vec::with_capacity(names.len());
    for name in names {
        if shown.contains(name) {
            continue;
        }
        let more = name.chars().count() + 2;
        let reserve = if shown.len() + 1 < names.len() { " (+99 more)".len() } else { 0 };
        if length + more + reserve > chars_max {
            break;
        }
        if !shown.is_empty() {
            line.push_str(", ");
        }
        line.push_str(name);
        length += more;
        shown.push(name);
    }
    let distinct = names.iter().collect::<std::collections::HashSet<_>>().len();
    let missing = distinct - shown.len();
    match missing {
        0 => {}
        // A number of three digits counts as a name that grounding would have to find in the thread.
        1..=99 => line.push_str(&format!(" (+{missing} more)")),
        _ => line.push_str(" (and more)"),
    }
    (line, if missing == 0 { names.len() } else { shown.len() })
}

/// Returns the longest common folder of all paths, with its final slash; empty when they have none.
fn common_folder<'a>(paths: &[&'a str]) -> &'a str {
    let Some(first) = paths.first() else { return "" };
    let mut end = first.rfind('/').map_or(0, |slash| slash + 1);
    for path in paths {
        while !path.as_bytes().starts_with(&first.as_bytes()[..end]) {
            end = first[..end.saturating_sub(1)].rfind('/').map_or(0, |slash| slash + 1);
        }
    }
    &first[..end]
}

/// Returns the name of a file, with its folder when many folders have a file of the name.
pub(super) fn short_name(path: &str) -> &str {
    let mut slashes = path.rmatch_indices('/').map(|(slash, _)| slash);
    let (last, folder) = (slashes.next(), slashes.next());
    let name = last.map_or(path, |slash| &path[slash + 1..]);
    if facts::is_common_file_name(name) { folder.map_or(path, |slash| &path[slash + 1..]) } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_files_in_one_folder_are_one_group() {
        let names: Vec<String> = (0..5).map(|index| format!("old/gen/{index}.rs")).collect();
        let mut paths: Vec<&str> = names.iter().map(String::as_str).collect();
        paths.insert(2, "src/main.rs");
        let folded = |paths, grouping| fold_groups(paths, grouping);
        let in_one = (vec!["src/main.rs"], vec!["5 files in old/gen".to_owned()]);
        assert_eq!(folded(&paths, FileGrouping::Folder { files_min: 4 }), in_one);
        assert_eq!(folded(&paths, FileGrouping::Nested { files_min: 4 }), in_one);
        assert_eq!(folded(&paths, FileGrouping::Folder { files_min: 6 }), (paths.clone(), Vec::new()));
        let nested = ["old/a/1.rs", "old/b/2.rs", "old/c/d/3.rs", "old/4.rs", "src/main.rs"];
        let below = (vec!["src/main.rs"], vec!["4 files in old".to_owned()]);
        assert_eq!(folded(&nested, FileGrouping::Nested { files_min: 4 }), below);
        assert_eq!(folded(&nested, FileGrouping::Folder { files_min: 4 }), (nested.to_vec(), Vec::new()));
    }

    #[test]
    fn a_list_of_paths_fits_its_limit() {
        for (paths, max, expected) in [
            (&["/a/b/c.rs", "/a/b/d/e.rs"][..], 80, "Changed in /a/b: c.rs, d/e.rs"),
            (&["/a/b/c.rs", "/x/y.rs"][..], 80, "Changed: /a/b/c.rs, /x/y.rs"),
            (
                &["/aaaaaaaa/b/one.rs", "/aaaaaaaa/c/mod.rs"][..],
                44,
                "Changed in /aaaaaaaa: b/one.rs, c/mod.rs",
            ),
            (
                &["/very/long/folder/name/one.rs", "/other/folder/c/mod.rs"][..],
                32,
                "Changed: one.rs, c/mod.rs",
            ),
            (
                &["src/one.rs", "src/two.rs", "src/three.rs", "src/four.rs"][..],
                36,
                "Changed: one.rs, two.rs (+2 more)",
            ),
            (&["src/one.rs"][..], 5, ""),
            (&[][..], 80, "Changed: "),
        ] {
            assert_eq!(format_paths("Changed", paths, max), expected, "{paths:?}");
        }
    }
}
