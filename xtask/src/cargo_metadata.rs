//! Cargo's metadata of the workspace: packages with their licences and dependencies, and the target folder. Rules about
//! them are elsewhere.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

use crate::command::CommandSpec;

/// A package of the workspace or one of its dependencies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CargoPackage {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its licence as an SPDX expression; `None` if the manifest declares none.
    pub license: Option<String>,
    /// True if the package comes from outside the workspace.
    pub is_foreign: bool,
    /// The folder of its manifest.
    pub folder: PathBuf,
    /// The names of the packages that it depends on, also in builds and tests.
    pub uses: Vec<String>,
}

/// The output of `cargo metadata`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CargoMetadata {
    /// Every package of the lock file, for all platforms.
    pub packages: Vec<CargoPackage>,
    /// The folder of cargo's build output.
    pub target_folder: PathBuf,
}

impl CargoMetadata {
    /// Runs `cargo metadata --locked` in `root`. The lock file is not changed.
    ///
    /// # Errors
    /// If cargo fails, for example because the lock file is out of date, or its output has another shape.
    pub fn load(root: &Path) -> anyhow::Result<Self> {
        let text = CommandSpec::from_line("cargo metadata --format-version 1 --locked").output(root)?;
        let value: Value = serde_json::from_str(&text).context("read cargo's metadata")?;
        Self::from_json(&value).context("read cargo's metadata: a field is missing")
    }

    /// Returns the metadata in cargo's JSON output, or `None` if a field is missing.
    fn from_json(value: &Value) -> Option<Self> {
        let packages = value["packages"].as_array()?.iter().map(parse_package).collect::<Option<_>>()?;
        Some(Self { packages, target_folder: value["target_directory"].as_str()?.into() })
    }
}

/// Returns one package of cargo's JSON output. Packages of the workspace have no `source`.
fn parse_package(value: &Value) -> Option<CargoPackage> {
    let dependencies = value["dependencies"].as_array()?;
    let uses = dependencies.iter().map(|used| used["name"].as_str().map(str::to_owned));
    Some(CargoPackage {
        name: value["name"].as_str()?.to_owned(),
        version: value["version"].as_str()?.to_owned(),
        license: value["license"].as_str().map(str::to_owned),
        is_foreign: !value["source"].is_null(),
        folder: Path::new(value["manifest_path"].as_str()?).parent()?.to_owned(),
        uses: uses.collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_read_with_their_origin_and_dependencies() {
        let value = serde_json::json!({
            "target_directory": "t",
            "packages": [
                {
                    "name": "journal", "version": "0.1.0", "license": "MIT", "source": null,
                    "manifest_path": "/w/crates/journal/Cargo.toml", "dependencies": [{"name": "syn"}],
                },
                {
                    "name": "syn", "version": "3.0.0", "license": null, "source": "registry",
                    "manifest_path": "/r/syn/Cargo.toml", "dependencies": [],
                },
            ],
        });
        let metadata = CargoMetadata::from_json(&value).unwrap();
        assert_eq!(metadata.target_folder, PathBuf::from("t"));
        let journal = &metadata.packages[0];
        assert_eq!((journal.name.as_str(), journal.version.as_str()), ("journal", "0.1.0"));
        assert_eq!(
            (journal.folder.as_path(), journal.uses.as_slice()),
            (Path::new("/w/crates/journal"), &["syn".to_owned()][..])
        );
        assert!(!journal.is_foreign);
        assert!(metadata.packages[1].is_foreign && metadata.packages[1].license.is_none());
    }
}
