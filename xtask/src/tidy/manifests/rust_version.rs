//! The rule for the oldest supported Rust: every text names the version that the workspace's manifest declares.

use anyhow::Context;
use toml_edit::{Document, Item};

use crate::tidy::{Finding, TextFile};

/// The manifest of the workspace.
const MANIFEST: &str = "Cargo.toml";
/// Texts before a version of Rust: in prose, in names of images, and in commands.
const VERSION_MARKS: [&str; 3] = ["Rust ", "rust:", "toolchain install "];
/// The file that may name other versions, because it is a history.
const CHANGELOG: &str = "CHANGELOG.md";

/// Compares the versions in documents, container files and workflows with the manifest.
///
/// # Errors
/// If the manifest is missing, is not TOML, or declares no version.
pub fn check(files: &[TextFile]) -> anyhow::Result<Vec<Finding>> {
    let manifest = files.iter().find(|file| file.path == MANIFEST).context("find Cargo.toml")?;
    let document: Document<&str> = Document::parse(manifest.text.as_str()).context("parse Cargo.toml")?;
    let package = document.get("workspace").and_then(|workspace| workspace.get("package"));
    let declared = package.and_then(|package| package.get("rust-version")).and_then(Item::as_str);
    let declared = declared.context("find `rust-version` in Cargo.toml")?;
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| is_checked(&file.path)) {
        for (index, line) in file.text.lines().enumerate() {
            let other = named_versions(line).find(|version| version != declared);
            findings.extend(other.map(|version| Finding {
                path: file.path.clone(),
                line: index + 1,
                what: format!("Rust {version}, and `rust-version` is {declared}"),
                remedy: "name the version that Cargo.toml declares",
            }));
        }
    }
    Ok(findings)
}

/// Returns whether a file may name only the declared version: a document, a container file or a workflow.
fn is_checked(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_text = [".md", ".yml", ".yaml"].iter().any(|end| name.ends_with(end)) || name == "Containerfile";
    is_text && name != CHANGELOG
}

/// Returns the versions `MAJOR.MINOR` of Rust that a line names. A version without a minor number is the newest one.
fn named_versions(line: &str) -> impl Iterator<Item = String> {
    VERSION_MARKS
        .iter()
        .flat_map(move |mark| line.match_indices(mark).map(move |(at, mark)| &line[at + mark.len()..]))
        .filter_map(|rest| {
            let text: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
            let mut numbers = text.split('.').filter(|number| !number.is_empty());
            Some(format!("{}.{}", numbers.next()?, numbers.next()?))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(path: &str, text: &str, expected: &[&str]) {
        let file = |path: &str, text: &str| TextFile { path: path.to_owned(), text: text.to_owned() };
        let manifest = file(MANIFEST, "[workspace.package]\nrust-version = \"1.95\"\n");
        let findings = check(&[manifest, file(path, text)]).unwrap();
        let places: Vec<String> =
            findings.iter().map(|found| format!("{}: {}", found.line, found.what)).collect();
        assert_eq!(places, expected, "{path}: {text}");
    }

    #[test]
    fn texts_name_the_declared_version() {
        check_text("a.md", "You need Rust 1.95 or later.", &[]);
        check_text("a.md", "\nYou need Rust 1.90.", &["2: Rust 1.90, and `rust-version` is 1.95"]);
        check_text("Containerfile", "FROM rust:1.94-trixie", &["1: Rust 1.94, and `rust-version` is 1.95"]);
        check_text(".github/workflows/ci.yml", "rustup toolchain install 1.95.0", &[]);
        for other in ["FROM rust:1-trixie", "In Rust code, 1.2 is a number.", "Rust 2024"] {
            check_text("Containerfile", other, &[]);
        }
        check_text("CHANGELOG.md", "Needs Rust 1.97.", &[]);
    }
}
