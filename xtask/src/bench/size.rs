//! `cargo xtask bench size`: the size of the built program in both profiles, and the number of crates in the
//! lock file. The command fails if a figure is above its limit.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use toml_edit::Document;

use crate::cargo_metadata::CargoMetadata;
use crate::command::CommandSpec;

/// Bytes of a megabyte, as file sizes are usually given.
const MEGABYTE: u64 = 1_000_000;
/// The largest program of the profile `release`, in megabytes.
const RELEASE_MB_MAX: u64 = 35;
/// The largest program of the profile `dist`, in megabytes.
const DIST_MB_MAX: u64 = 22;

/// A measured figure with its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Figure {
    name: String,
    value: u64,
    /// `None` if the figure is only reported.
    max: Option<u64>,
}

impl Figure {
    fn is_above_limit(&self) -> bool {
        self.max.is_some_and(|max| self.value > max)
    }

    fn text(&self) -> String {
        match self.max {
            Some(max) => format!("{:>12}  {} (limit {max})", self.value, self.name),
            None => format!("{:>12}  {}", self.value, self.name),
        }
    }
}

/// Builds the program in the profiles `release` and `dist` and prints the figures.
///
/// # Errors
/// If a build fails, a file cannot be read, or a figure is above its limit.
pub fn measure_size(root: &Path) -> anyhow::Result<()> {
    let target = CargoMetadata::load(root)?.target_folder;
    let mut figures = vec![Figure {
        name: "crates in Cargo.lock".to_owned(),
        value: count_locked_crates(&fs::read_to_string(root.join("Cargo.lock")).context("read Cargo.lock")?)?,
        max: None,
    }];
    for (profile, max_mb) in [("release", RELEASE_MB_MAX), ("dist", DIST_MB_MAX)] {
        CommandSpec::from_line("cargo build --locked -p segue --profile").arg(profile).run(root)?;
        let program = target.join(profile).join("segue");
        let bytes = fs::metadata(&program).with_context(|| format!("read {}", program.display()))?.len();
        figures.push(Figure {
            name: format!("bytes of the program, profile {profile}"),
            value: bytes,
            max: Some(max_mb * MEGABYTE),
        });
    }
    for figure in &figures {
        println!("{}", figure.text());
    }
    match figures.iter().filter(|figure| figure.is_above_limit()).count() {
        0 => Ok(()),
        1 => bail!("1 figure is above its limit"),
        count => bail!("{count} figures are above their limits"),
    }
}

/// Returns the number of packages in the text of a lock file, each version of a crate counted.
fn count_locked_crates(lock: &str) -> anyhow::Result<u64> {
    let lock = Document::parse(lock).context("parse Cargo.lock")?;
    let packages = lock.get("package").and_then(|packages| packages.as_array_of_tables());
    Ok(packages.map_or(0, |packages| packages.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_package_of_the_lock_file_counts() {
        let lock = "version = 4\n[[package]]\nname = \"a\"\n[[package]]\nname = \"a\"\n";
        assert_eq!(count_locked_crates(lock).unwrap(), 2);
        assert_eq!(count_locked_crates("version = 4\n").unwrap(), 0);
    }

    #[test]
    fn a_figure_above_its_limit_is_detected() {
        let figure = |value, max| Figure { name: "bytes".to_owned(), value, max };
        assert!(figure(36, Some(35)).is_above_limit());
        assert!(!figure(35, Some(35)).is_above_limit());
        assert!(!figure(36, None).is_above_limit());
        assert_eq!(figure(36, Some(35)).text(), "          36  bytes (limit 35)");
    }
}
