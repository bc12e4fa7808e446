//! `cargo xtask quick`: checks the crates that changed since the branch left `main`, and the crates that use them. Files
//! that are not committed count too. Tests that take long are left out; `cargo xtask test` runs them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::steps::{CiAction, CiStep, RUN_TESTS};
use super::{print_times, run_in_order};
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
    let crates = affected_crates(&metadata.packages, root, &files);
    match crates.is_empty() {
        true => println!("quick: no crate changed"),
        false => println!("quick: {}", crates.iter().cloned().collect::<Vec<_>>().join(", ")),
    }
    let times = run_in_order(root, &quick_steps(&files, &crates), &AtomicBool::new(false))?;
    print_times(started.elapsed(), &times);
    Ok(())
}

/// Returns the steps for these files and crates.
fn quick_steps(files: &BTreeSet<String>, crates: &BTreeSet<String>) -> Vec<CiStep> {
    let run = |name, command| CiStep { name, action: CiAction::Run(command) };
    let mut steps = vec![
        run("format", CommandSpec::from_line("cargo fmt --all --check")),
        CiStep { name: "tidy", action: CiAction::Tidy },
    ];
    if files.iter().any(|file| file.starts_with("web/")) {
        steps.push(CiStep { name: "page", action: CiAction::Page });
    }
    if !crates.is_empty() {
        // The commands name the whole workspace, because cargo would rebuild dependencies with other features for a
        // part of it. What did not change is not compiled again.
        let clippy = "cargo clippy --locked --workspace --all-targets -- -D warnings";
        steps.push(run("clippy", CommandSpec::from_line(clippy)));
        let tests = CommandSpec::from_line(RUN_TESTS).arg("--profile=quick").arg("-E");
        let filter = crates.iter().map(|name| format!("package(={name})")).collect::<Vec<_>>().join(" + ");
        steps.push(run("tests", tests.arg(filter)));
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

/// Returns the names of the crates that contain one of the files, and of those that depend on them, also through others and
/// in tests.
fn affected_crates(packages: &[CargoPackage], root: &Path, files: &BTreeSet<String>) -> BTreeSet<String> {
    let own: Vec<&CargoPackage> = packages.iter().filter(|package| !package.is_foreign).collect();
    let is_shared = files.iter().any(|file| SHARED_FILES.contains(&file.as_str()));
    let is_changed = |package: &CargoPackage| {
        is_shared || files.iter().any(|file| root.join(file).starts_with(&package.folder))
    };
    let mut affected: BTreeSet<String> =
        own.iter().filter(|package| is_changed(package)).map(|package| package.name.clone()).collect();
    loop {
        let users = own.iter().filter(|package| package.uses.iter().any(|used| affected.contains(used)));
        let users: BTreeSet<String> = users.map(|package| package.name.clone()).collect();
        if users.is_subset(&affected) {
            return affected;
        }
        affected.extend(users);
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

    fn affected(files: &[&str]) -> Vec<String> {
        let packages = [
            package("base", &[]),
            package("journal", &["base"]),
            package("journal2", &["base"]),
            package("program", &["journal"]),
        ];
        let files = files.iter().map(|file| (*file).to_owned()).collect();
        affected_crates(&packages, Path::new("/srv"), &files).into_iter().collect()
    }

    #[test]
    fn a_change_concerns_its_crate_and_those_that_use_it() {
        assert_eq!(affected(&["crates/program/src/main.rs"]), ["program"]);
        assert_eq!(affected(&["crates/journal/tests/it/main.rs"]), ["journal", "program"]);
        assert_eq!(affected(&["crates/base/Cargo.toml"]), ["base", "journal", "journal2", "program"]);
        assert_eq!(affected(&["Cargo.lock"]), ["base", "journal", "journal2", "program"]);
        assert_eq!(affected(&["README.md", "web/src/main.ts"]), [""; 0]);
    }

    #[test]
    fn only_what_changed_is_checked() {
        let names = |files: &[&str]| {
            let files: BTreeSet<String> = files.iter().map(|file| (*file).to_owned()).collect();
            let crates =
                affected(&files.iter().map(String::as_str).collect::<Vec<_>>()).into_iter().collect();
            quick_steps(&files, &crates).iter().map(|step| step.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&["README.md"]), ["format", "tidy"]);
        assert_eq!(names(&["web/src/main.ts"]), ["format", "tidy", "page"]);
        assert_eq!(names(&["crates/base/src/lib.rs"]), ["format", "tidy", "clippy", "tests"]);
    }
}
