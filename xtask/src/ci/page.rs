//! `cargo xtask page`: checks format, types, unit tests and build of the page in `web/`. Tests in a browser are not here; the
//! crate `segue` has them.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use anyhow::{Context, bail};

use crate::command::CommandSpec;

/// The commands, in order. The last one compares the build with the committed one.
const COMMANDS: [&str; 5] = [
    "npm run --silent --prefix web format:check",
    "npm run --silent --prefix web check",
    "npm test --silent --prefix web",
    "npm run --silent --prefix web build -- --outDir ../target/page",
    "diff -r target/page crates/http/page",
];

/// The folders whose files decide the result.
const INPUTS: [&str; 2] = ["web", "crates/http/page"];

/// The file with the fingerprint of the inputs that have passed.
const PASSED_FILE: &str = "target/page.passed";

/// Checks the page, unless it is the same as when it last passed.
///
/// # Errors
/// As for [`check_page`].
pub fn check_if_changed(root: &Path) -> anyhow::Result<()> {
    let passed = fs::read_to_string(root.join(PASSED_FILE)).unwrap_or_default();
    if passed == fingerprint_inputs(root)? {
        println!("page: the same as when it last passed");
        return Ok(());
    }
    check_page(root)
}

/// Checks the page and prints the output of a command that fails.
///
/// # Errors
/// If a command fails. The error names it.
pub fn check_page(root: &Path) -> anyhow::Result<()> {
    for line in COMMANDS {
        let command = CommandSpec::from_line(line);
        let (status, output) = command.output_of_any(root)?;
        if !status.success() {
            print!("{output}");
            bail!("`{command}`: {status}");
        }
    }
    let file = root.join(PASSED_FILE);
    fs::write(&file, fingerprint_inputs(root)?).with_context(|| format!("write {}", file.display()))
}

/// Returns a hash of the paths and the contents of all input files that git tracks or would track.
fn fingerprint_inputs(root: &Path) -> anyhow::Result<String> {
    let list = CommandSpec::from_line("git ls-files -z --cached --others --exclude-standard --");
    let listed = list.args(&INPUTS.map(str::to_owned)).output(root)?;
    let mut hasher = DefaultHasher::new();
    for path in listed.split('\0').filter(|path| !path.is_empty()) {
        path.hash(&mut hasher);
        // git still lists a tracked file that was deleted without a commit.
        fs::read(root.join(path)).ok().hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fingerprint_changes_with_the_content_of_a_file() {
        let root = tempfile::tempdir().unwrap();
        let git = CommandSpec::from_line("git init --quiet");
        git.run(root.path()).unwrap();
        let file = root.path().join("web/page.ts");
        fs::create_dir(root.path().join("web")).unwrap();
        fs::write(&file, "one").unwrap();
        let before = fingerprint_inputs(root.path()).unwrap();
        assert_eq!(fingerprint_inputs(root.path()).unwrap(), before);
        fs::write(&file, "two").unwrap();
        let after = fingerprint_inputs(root.path()).unwrap();
        assert_ne!(after, before);
        fs::remove_file(&file).unwrap();
        assert_ne!(fingerprint_inputs(root.path()).unwrap(), after);
    }
}
