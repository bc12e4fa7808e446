//! Where files are, and places that a file must not name: paths of the machine somebody happened to work on.

use super::names::VAGUE_NAMES;
use super::{Finding, TextFile};

/// Folders at the root of a file system under which somebody's own files are.
const MACHINE_ROOTS: [&str; 3] = ["home", "root", "work"];

/// Checks one file.
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

fn check_file_name(file: &TextFile) -> Vec<Finding> {
    let found = |what: String, remedy| Finding { path: file.path.clone(), line: 1, what, remedy };
    let mut findings = Vec::new();
    if file.path.ends_with("/mod.rs") {
        let what = "a file named `mod.rs`".to_owned();
        findings.push(found(what, "call it `foo.rs` beside the folder `foo`"));
    }
    let stem = |part: &str| part.split('.').next().unwrap_or_default().to_lowercase();
    let empty = file.path.split('/').map(stem).find(|part| VAGUE_NAMES.contains(&part.as_str()));
    if let Some(part) = empty {
        findings.push(found(format!("`{part}` in its path"), "name it after what is inside"));
    }
    findings
}

/// Returns the first path of a machine in the line, cut at its second folder.
fn find_machine_path(line: &str) -> Option<String> {
    for root in MACHINE_ROOTS {
        let needle = format!("/{root}/");
        for (at, _) in line.match_indices(&needle) {
            let before = line[..at].chars().next_back();
            // `crates/work/x`, `~/work/x`, `$DIR/work/x` and `//host/work/x` are not at the root.
            let at_root = before.is_none_or(|c| !(c.is_alphanumeric() || "_-.~/}\\*".contains(c)));
            let rest: String = line[at + needle.len()..]
                .chars()
                .take_while(|c| c.is_alphanumeric() || "_-.".contains(*c))
                .collect();
            if at_root && !rest.is_empty() {
                return Some(format!("{needle}{rest}"));
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
        let found: Vec<String> = check(&file).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{path}: {text}");
    }

    #[test]
    fn files_are_named_after_what_is_inside() {
        let remedy = "name it after what is inside";
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
            &["crates/a/src/b/mod.rs:1: a file named `mod.rs`; call it `foo.rs` beside the folder `foo`"],
        );
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        let root = MACHINE_ROOTS[0];
        let remedy = "write a path relative to the workspace, or one under `/srv` in an example";
        let found = format!("a.md:2: `/{root}/ada` is a path of one machine; {remedy}");
        check_file("a.md", &format!("x\nsee /{root}/ada/segue\n"), &[&found]);
        check_file("a.md", &format!("x\n\"/{root}/ada\"\n"), &[&found]);
        for harmless in ["crates/X/a", "~/X/a", "$HOME/X/a", "https://a.org/X/b", "`/X/`", "../X/a"] {
            check_file("a.md", &harmless.replace('X', root), &[]);
        }
    }
}
