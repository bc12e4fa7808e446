//! The rule for the number of source files in a folder.

use std::collections::BTreeMap;

use super::{Finding, TextFile};

/// Maximum number of Rust files in a folder, without its subfolders.
const FOLDER_FILES_MAX: usize = 12;

/// Checks every folder that holds Rust files.
pub fn check(files: &[TextFile]) -> Vec<Finding> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        if let Some((folder, _)) = file.path.rsplit_once('/') {
            *counts.entry(folder).or_default() += 1;
        }
    }
    let crowded = counts.into_iter().filter(|(_, count)| *count > FOLDER_FILES_MAX);
    crowded
        .map(|(folder, count)| Finding {
            path: folder.to_owned(),
            line: 1,
            what: format!("{count} source files, the limit is {FOLDER_FILES_MAX}"),
            remedy: "move related files to a submodule",
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_at_most_12_source_files() {
        let folder = |count: usize| -> Vec<TextFile> {
            let mut paths: Vec<String> = (0..count).map(|n| format!("crates/a/src/{n}.rs")).collect();
            paths.extend(["crates/a/src/b/c.rs".to_owned(), "crates/a/src/d.md".to_owned()]);
            paths.into_iter().map(|path| TextFile { path, text: String::new() }).collect()
        };
        assert_eq!(check(&folder(12)), []);
        assert_eq!(
            check(&folder(13)).iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["crates/a/src:1: 13 source files, the limit is 12; move related files to a submodule"]
        );
    }
}
