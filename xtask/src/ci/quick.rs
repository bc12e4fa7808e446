//! `cargo xtask quick`: checks the crates that changed since the branch left `main`, and the crates that use them. Files
//! that are not committed count too. Of the crates that changed it runs all tests but the longest, of those that use them
//! the unit tests; `cargo xtask test` runs the others.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use super::steps::{CiAction, CiStep, RUN_TESTS};
use super::{print_times, run_side_by_side};
use crate::cargo_metadata::{CargoMetadata, CargoPackage};
use crate::command::CommandSpec;

/// The branches whose common ancestor with the current one is the state before the change. The first that exists is used.
const BASE_BRANCHES: [&str; 2] = ["origin/main", "main"];

/// Files that can change the result for every crate.
const SHARED_FILES: [&str; 5] =
    ["Cargo.toml", "Cargo.lock", "clippy.toml", "rustfmt.toml", ".config/nextest.toml"];

/// Checks format, house rules, lints and tests of what changed, and prints the time of each step.
///
/// # Errors
/// If git or cargo fails, or a check does. The error contains the command that repeats the step.
pub fn run_quick(root: &Path) -> anyhow::Result<()> {
    let started = Instant::now();
    let files = changed_files(root)?;
    let metadata = CargoMetadata::load(root)?;
    let crates = AffectedCrates::find(&metadata.packages, root, &files);
    let list = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
    match (crates.changed.is_empty(), crates.users.is_empty()) {
        (true, _) => println!("quick: no crate changed"),
        (false, true) => println!("quick: {}", list(&crates.changed)),
        (false, false) => {
            println!("quick: {}; unit tests of {}", list(&crates.changed), list(&crates.users));
        }
    }
    let times = run_side_by_side(root, &compiler_steps(&crates), &other_steps(&files))?;
    print_times(started.elapsed(), &times);
    Ok(())
}

/// Returns the steps that compile.
fn compiler_steps(crates: &AffectedCrates) -> Vec<CiStep> {
    if crates.changed.is_empty() {
        return Vec::new();
    }
    let run = |name, command| CiStep { name, action: CiAction::Run(command) };
    // The commands name the whole workspace, because cargo would rebuild dependencies with other features for a part of
    // it. What did not change is not compiled again.
    let clippy = "cargo clippy --locked --workspace --all-targets -- -D warnings";
    let tests = CommandSpec::from_line(RUN_TESTS).arg("--profile=quick").arg("-E").arg(crates.test_filter());
    vec![run("clippy", CommandSpec::from_line(clippy)), run("tests", tests)]
}

/// Returns the steps that need no compiler. The page is checked if one of its files changed.
fn other_steps(files: &BTreeSet<String>) -> Vec<CiStep> {
    let format = CommandSpec::from_line("cargo fmt --all --check");
    let mut steps = vec![
        CiStep { name: "format", action: CiAction::Run(format) },
        CiStep { name: "tidy", action: CiAction::Tidy },
    ];
    if files.iter().any(|file| file.starts_with("web/")) {
        steps.push(CiStep { name: "page", action: CiAction::Page });
    }
    steps
}

/// Returns the paths of the files that differ from the common ancestor with `main`, or are not tracked.
fn changed_files(root: &Path) -> anyhow::Result<BTreeSet<String>> {
    let exists = |branch: &str| {
        CommandSpec::from_line("git rev-parse --quiet --verify").arg(branch).is_successful(root)
    };
    let base = match BASE_BRANCHES.into_iter().find(|branch| exists(branch)) {
        Some(branch) => CommandSpec::from_line("git merge-base HEAD").arg(branch).output(root)?,
        None => "HEAD".to_owned(),
    };
    let changed =
        CommandSpec::from_line("git diff --name-only --no-renames -z").arg(base.trim()).output(root)?;
    let added = CommandSpec::from_line("git ls-files -z --others --exclude-standard").output(root)?;
    let paths = changed.split('\0').chain(added.split('\0'));
    Ok(paths.filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

/// The names of the crates that a change concerns.
#[derive(Debug, Default, PartialEq)]
struct AffectedCrates {
    /// The crates that contain one of the changed files.
    changed: BTreeSet<String>,
    /// The other crates that use one of them, directly, through others, or in tests.
    users: BTreeSet<String>,
}

impl AffectedCrates {
    /// Finds the crates that the changed `files` concern.
    fn find(packages: &[CargoPackage], root: &Path, files: &BTreeSet<String>) -> Self {
        let own: Vec<&CargoPackage> = packages.iter().filter(|package| !package.is_foreign).collect();
        let is_shared = files.iter().any(|file| SHARED_FILES.contains(&file.as_str()));
        let is_changed = |package: &CargoPackage| {
            is_shared || files.iter().any(|file| root.join(file).starts_with(&package.folder))
        };
        let changed: BTreeSet<String> =
            own.iter().filter(|package| is_changed(package)).map(|package| package.name.clone()).collect();
        let mut affected = changed.clone();
        loop {
            let users = own.iter().filter(|package| package.uses.iter().any(|used| affected.contains(used)));
            let users: BTreeSet<String> = users.map(|package| package.name.clone()).collect();
            if users.is_subset(&affected) {
                break;
            }
            affected.extend(users);
        }
        let users = affected.difference(&changed).cloned().collect();
        Self { changed, users }
    }

    /// Returns the nextest filter for the tests to run.
    fn test_filter(&self) -> String {
        let changed = self.changed.iter().map(|name| format!("package(={name})"));
        let users = self.users.iter().map(|name| format!("(package(={name}) & (kind(lib) + kind(bin)))"));
        changed.chain(users).collect::<Vec<_>>().join(" + ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, uses: &[&str]) -> CargoPackage {
        CargoPackage {
            name: name.to_owned(),
            version: "0.1.0".to_owned(),
            license: None,
            is_foreign: false,
            folder: Path::new("/srv/crates").join(name),
            uses: uses.iter().map(|used| (*used).to_owned()).collect(),
        }
    }

    fn affected(files: &[&str]) -> AffectedCrates {
        let packages = [
            package("base", &[]),
            package("journal", &["base"]),
            package("journal2", &["base"]),
            package("program", &["journal"]),
        ];
        let files = files.iter().map(|file| (*file).to_owned()).collect();
        AffectedCrates::find(&packages, Path::new("/srv"), &files)
    }

    /// Checks which crates `files` change, and which others use these.
    fn check(files: &[&str], changed: &[&str], users: &[&str]) {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(affected(files), AffectedCrates { changed: set(changed), users: set(users) });
    }

    #[test]
    fn a_change_concerns_its_crate_and_those_that_use_it() {
        check(&["crates/program/src/main.rs"], &["program"], &[]);
        check(&["crates/journal/tests/it/main.rs"], &["journal"], &["program"]);
        check(&["crates/base/Cargo.toml"], &["base"], &["journal", "journal2", "program"]);
        check(&["Cargo.lock"], &["base", "journal", "journal2", "program"], &[]);
        check(&["README.md", "web/src/main.ts"], &[], &[]);
    }

    #[test]
    fn a_crate_that_uses_a_changed_one_runs_its_unit_tests() {
        assert_eq!(
            affected(&["crates/journal/src/lib.rs"]).test_filter(),
            "package(=journal) + (package(=program) & (kind(lib) + kind(bin)))"
        );
    }

    #[test]
    fn only_what_changed_is_checked() {
        let names = |files: &[&str]| {
            let steps = compiler_steps(&affected(files));
            let files: BTreeSet<String> = files.iter().map(|file| (*file).to_owned()).collect();
            let steps = steps.into_iter().chain(other_steps(&files));
            steps.map(|step| step.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&["README.md"]), ["format", "tidy"]);
        assert_eq!(names(&["web/src/main.ts"]), ["format", "tidy", "page"]);
        assert_eq!(names(&["crates/base/src/lib.rs"]), ["clippy", "tests", "format", "tidy"]);
    }
}
