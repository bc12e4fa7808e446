//! Rules for file names, and for paths in the text of files: no file may contain an absolute path of a developer's
//! machine.

use super::names::VAGUE_NAMES;
use super::{Finding, TextFile};

/// Top-level folders of a file system that contain the files of a single user.
const MACHINE_ROOTS: [&str; 3] = ["home", "root", "work"];

/// Folders below them that are the same on every machine: the prefix of Homebrew on Linux.
const FIXED_FOLDERS: [&str; 1] = ["linuxbrew"];

/// Checks the name of a file and the paths in its text.
pub fn check(file: &TextFile) -> Vec<Finding> {
    let mut findings = check_file_name(file);
    for (index, line) in file.text.lines().enumerate() {
        if let Some(path) = find_machine_path(line) {
            findings.push(Finding {
                path: file.path.clone(),
                line: index + 1,
                what: format!("`{path}` is a path of one machine"),
                remedy: "write a path relative to the workspace, or one under `/srv` in an example",
            });
        }
    }
    findings
}

/// Checks the path of a file for `mod.rs` and vague names.
fn check_file_name(file: &TextFile) -> Vec<Finding> {
    let finding = |what: String, remedy| Finding { path: file.path.clone(), line: 1, what, remedy };
    let mut findings = Vec::new();
    if file.path.ends_with("/mod.rs") {
        let what = "a file named `mod.rs`".to_owned();
        findings.push(finding(what, "name it `foo.rs`, next to the folder `foo`"));
    }
    let stem = |part: &str| part.split('.').next().unwrap_or_default().to_lowercase();
    let vague = file.path.split('/').map(stem).find(|part| VAGUE_NAMES.contains(&part.as_str()));
    if let Some(part) = vague {
        findings.push(finding(format!("`{part}` in its path"), "name it after its content"));
    }
    findings
}

/// Returns the first path below one of [`MACHINE_ROOTS`] in a line, cut after its second segment.
fn find_machine_path(line: &str) -> Option<String> {
    for root in MACHINE_ROOTS {
        let needle = format!("/{root}/");
        for (index, _) in line.match_indices(&needle) {
            let before = line[..index].chars().next_back();
            // `crates/work/x`, `~/work/x`, `$DIR/work/x` and `//host/work/x` are not absolute paths.
            let is_absolute = before.is_none_or(|c| !(c.is_alphanumeric() || "_-.~/}\\*".contains(c)));
            let name: String = line[index + needle.len()..]
                .chars()
                .take_while(|c| c.is_alphanumeric() || "_-.".contains(*c))
                .collect();
            if is_absolute && !name.is_empty() && !FIXED_FOLDERS.contains(&name.as_str()) {
                return Some(format!("{needle}{name}"));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_file(path: &str, text: &str, expected: &[&str]) {
        let file = TextFile { path: path.to_owned(), text: text.to_owned() };
        let actual: Vec<String> = check(&file).iter().map(ToString::to_string).collect();
        assert_eq!(actual, expected, "{path}: {text}");
    }

    #[test]
    fn files_are_named_after_their_content() {
        let remedy = "name it after its content";
        check_file("crates/a/src/a.rs", "", &[]);
        check_file(
            "crates/core/src/a.rs",
            "",
            &[&format!("crates/core/src/a.rs:1: `core` in its path; {remedy}")],
        );
        check_file(
            "crates/a/src/util.rs",
            "",
            &[&format!("crates/a/src/util.rs:1: `util` in its path; {remedy}")],
        );
        check_file(
            "crates/a/src/b/mod.rs",
            "",
            &["crates/a/src/b/mod.rs:1: a file named `mod.rs`; name it `foo.rs`, next to the folder `foo`"],
        );
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        let root = MACHINE_ROOTS[0];
        let remedy = "write a path relative to the workspace, or one under `/srv` in an example";
        let finding = format!("a.md:2: `/{root}/ada` is a path of one machine; {remedy}");
        check_file("a.md", &format!("x\nsee /{root}/ada/segue\n"), &[&finding]);
        check_file("a.md", &format!("x\n\"/{root}/ada\"\n"), &[&finding]);
        for harmless in ["crates/X/a", "~/X/a", "$HOME/X/a", "https://a.org/X/b", "`/X/`", "../X/a"] {
            check_file("a.md", &harmless.replace('X', root), &[]);
        }
    }
}
