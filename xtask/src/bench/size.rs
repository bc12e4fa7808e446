//! `cargo xtask bench size`: the size of the `segue` binary in the profiles `release` and `dist`, and the number of
//! crates in the lock file. The command fails if a measurement is above its limit.

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

/// A measured value with its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Measurement {
    name: String,
    value: u64,
    /// `None` if the measurement is only reported.
    max: Option<u64>,
}

impl Measurement {
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

/// Builds the program in the profiles `release` and `dist` and prints the measurements.
///
/// # Errors
/// If a build fails, a file cannot be read, or a measurement is above its limit.
pub fn measure_size(root: &Path) -> anyhow::Result<()> {
    let target = CargoMetadata::load(root)?.target_folder;
    let mut measurements = vec![Measurement {
        name: "crates in Cargo.lock".to_owned(),
        value: count_locked_crates(&fs::read_to_string(root.join("Cargo.lock")).context("read Cargo.lock")?)?,
        max: None,
    }];
    for (profile, max_mb) in [("release", RELEASE_MB_MAX), ("dist", DIST_MB_MAX)] {
        CommandSpec::from_line("cargo build --locked -p segue --profile").arg(profile).run(root)?;
        let program = target.join(profile).join("segue");
        let bytes = fs::metadata(&program).with_context(|| format!("read {}", program.display()))?.len();
        measurements.push(Measurement {
            name: format!("bytes of the program, profile {profile}"),
            value: bytes,
            max: Some(max_mb * MEGABYTE),
        });
    }
    for measurement in &measurements {
        println!("{}", measurement.text());
    }
    match measurements.iter().filter(|measurement| measurement.is_above_limit()).count() {
        0 => Ok(()),
        1 => bail!("1 measurement is above its limit"),
        count => bail!("{count} measurements are above their limits"),
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
    fn a_measurement_above_its_limit_is_detected() {
        let measurement = |value, max| Measurement { name: "bytes".to_owned(), value, max };
        assert!(measurement(36, Some(35)).is_above_limit());
        assert!(!measurement(35, Some(35)).is_above_limit());
        assert!(!measurement(36, None).is_above_limit());
        assert_eq!(measurement(36, Some(35)).text(), "          36  bytes (limit 35)");
    }
}
