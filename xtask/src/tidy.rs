//! `cargo xtask tidy`: checks all files of the project against the house rules.
//!
//! Each rule is a pure function from files to findings, in a file of the folder `tidy/`. Tidy changes no file. It
//! repeats no check of rustfmt, clippy or rustdoc. `cargo xtask guarantees` writes the lists of tests that a rule compares.

mod code_size;
mod crate_dependencies;
mod folder_size;
mod invariants;
mod language;
mod manifests;
mod matches;
mod measures;
mod names;
mod paths;
mod source;
mod wording;

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

use crate::cargo_metadata::CargoMetadata;
use crate::command::CommandSpec;
use source::SourceFile;

/// A violation of a rule. Findings are sorted by file and line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file or folder, relative to the workspace.
    pub path: String,
    /// The line, counted from 1. Findings about a whole file have line 1.
    pub line: usize,
    /// The problem, as a phrase.
    pub what: String,
    /// The remedy, as an instruction.
    pub remedy: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.path, self.line, self.what, self.remedy)
    }
}

/// A text file of the project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFile {
    /// Its path relative to the workspace, with `/` as the separator.
    pub path: String,
    /// The content.
    pub text: String,
}

/// Checks all rules and prints the findings, then the measures that have no limit.
///
/// # Errors
/// If there are findings, or files cannot be read.
pub fn run_checks(root: &Path) -> anyhow::Result<()> {
    let files = project_files(root)?;
    let (sources, mut findings) = parse_all(&files);
    let names = matches::ProjectNames::collect(&sources);
    for source in &sources {
        findings.extend(matches::check(source, &names));
        findings.extend(code_size::check(source));
        findings.extend(wording::check(source));
        findings.extend(names::check(source));
        findings.extend(language::check(source));
        findings.extend(language::phrases::check_source(source));
        findings.extend(invariants::check(source));
    }
    findings.extend(language::check_shared_names(&sources));
    for file in &files {
        findings.extend(paths::check(file));
        findings.extend(language::phrases::check_file(file));
    }
    findings.extend(folder_size::check(&files));
    findings.extend(invariants::guarantees::check(&files, &sources));
    findings.extend(crate_dependencies::check_crates(&files)?);
    findings.extend(manifests::licences::check(&CargoMetadata::load(root)?.packages));
    findings.extend(manifests::rust_version::check(&files)?);
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    println!("{}", measures::measure_text(&sources));
    match findings.len() {
        0 => Ok(()),
        1 => bail!("1 finding"),
        count => bail!("{count} findings"),
    }
}

/// Writes the current lists of tests into the page that names the tests of each guarantee.
///
/// # Errors
/// If a source has a syntax error, a guarantee has no test, or files cannot be read or written.
pub fn write_guarantees(root: &Path) -> anyhow::Result<()> {
    let files = project_files(root)?;
    let (sources, findings) = parse_all(&files);
    if let Some(finding) = findings.first() {
        bail!("{finding}");
    }
    invariants::guarantees::write_page(root, &files, &sources)
}

/// Returns the text files that git tracks or would track, sorted by path. Files that are not UTF-8 are left out.
fn project_files(root: &Path) -> anyhow::Result<Vec<TextFile>> {
    let listed =
        CommandSpec::from_line("git ls-files -z --cached --others --exclude-standard").output(root)?;
    let mut files = Vec::new();
    for path in listed.split('\0').filter(|path| !path.is_empty()) {
        // git still lists a tracked file that was deleted or renamed without a commit.
        if !root.join(path).is_file() {
            continue;
        }
        let bytes = fs::read(root.join(path)).with_context(|| format!("read {path}"))?;
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(TextFile { path: path.to_owned(), text });
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files.dedup();
    Ok(files)
}

/// Parses all Rust files. Returns the parsed files, and a finding for each file with a syntax error.
fn parse_all(files: &[TextFile]) -> (Vec<SourceFile>, Vec<Finding>) {
    let mut sources = Vec::new();
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        match SourceFile::parse(&file.path, &file.text) {
            Ok(source) => sources.push(source),
            Err(finding) => findings.push(finding),
        }
    }
    (sources, findings)
}

/// A function for the tests of the rules.
#[cfg(test)]
mod testing {
    use super::*;

    /// Returns the findings of `rule` on a source with that path, one line of text for each.
    pub fn findings(rule: fn(&SourceFile) -> Vec<Finding>, path: &str, text: &str) -> Vec<String> {
        let source = SourceFile::parse(path, text).unwrap();
        rule(&source).iter().map(ToString::to_string).collect()
    }
}
