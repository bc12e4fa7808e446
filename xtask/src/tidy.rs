//! `cargo xtask tidy`: the house rules that a program can check, over every file that belongs to the project.
//!
//! Each rule is a plain function from files to findings, in a file below `tidy/`. Nothing is repaired here, and what
//! rustfmt, clippy and rustdoc already check is not checked again.

mod code_size;
mod crate_dependencies;
mod folder_size;
mod invariants;
mod language;
mod licences;
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

/// A broken rule: where, what, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, relative to the workspace.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// The problem.
    pub what: String,
    /// The remedy.
    pub remedy: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.path, self.line, self.what, self.remedy)
    }
}

/// A file of the project that holds text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFile {
    /// Its path relative to the workspace, with `/`.
    pub path: String,
    /// The content.
    pub text: String,
}

/// Checks every rule and prints what is broken, then the measures that have no limit.
///
/// # Errors
/// When a rule is broken, or the files cannot be read.
pub fn run_checks(root: &Path) -> anyhow::Result<()> {
    let files = project_files(root)?;
    let (sources, mut findings) = parse_all(&files);
    let own = matches::ProjectNames::collect(&sources);
    for source in &sources {
        findings.extend(matches::check(source, &own));
        findings.extend(code_size::check(source));
        findings.extend(wording::check(source));
        findings.extend(names::check(source));
        findings.extend(language::check(source));
        findings.extend(invariants::check(source));
    }
    findings.extend(language::check_shared_names(&sources));
    for file in &files {
        findings.extend(paths::check(file));
    }
    findings.extend(folder_size::check(&files));
    findings.extend(crate_dependencies::check_crates(&files)?);
    findings.extend(licences::check(&CargoMetadata::load(root)?.packages));
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

/// Returns the text files that git tracks or would track; files of other kinds are left out.
fn project_files(root: &Path) -> anyhow::Result<Vec<TextFile>> {
    let listed =
        CommandSpec::from_line("git ls-files -z --cached --others --exclude-standard").output(root)?;
    let mut files = Vec::new();
    for path in listed.split('\0').filter(|path| !path.is_empty()) {
        // A tracked file that was just deleted or renamed is no longer there.
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

/// Returns the Rust files that can be read as Rust, and a finding for each that cannot.
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

/// Helpers for tests of the rules: inline sources in, one line per finding out.
#[cfg(test)]
mod testing {
    use super::*;

    /// Returns the findings of `rule` on a source of that path.
    pub fn findings(rule: fn(&SourceFile) -> Vec<Finding>, path: &str, text: &str) -> Vec<String> {
        let source = SourceFile::parse(path, text).unwrap();
        rule(&source).iter().map(ToString::to_string).collect()
    }
}
