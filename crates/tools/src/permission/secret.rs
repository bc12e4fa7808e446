//! Detection of files that usually contain secrets, by their name alone. No file is read.

use std::path::Path;
use std::sync::LazyLock;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Names of files that usually contain secrets, as globs over the file name. Matching ignores case.
pub(crate) const SECRET_NAMES: &[&str] = &[
    "*.env",
    ".env.*",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.keystore",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    ".netrc",
    ".pgpass",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    "credentials.json",
    "service-account*.json",
];
/// Endings of names of example files, which contain no secrets although their name matches a glob.
const EXAMPLE_SUFFIXES: &[&str] = &[".example", ".sample", ".template", ".dist"];

/// The compiled globs of [`SECRET_NAMES`].
static SECRET_GLOBS: LazyLock<GlobSet> = LazyLock::new(|| {
    let mut names = GlobSetBuilder::new();
    for name in SECRET_NAMES {
        let glob = GlobBuilder::new(name).case_insensitive(true).build();
        names.add(glob.expect("the globs are constants that the tests compile"));
    }
    names.build().expect("the globs are constants that the tests compile")
});

/// Returns whether the file name suggests that the file contains secrets. Only the last component of `path` counts.
pub fn looks_secret(path: &Path) -> bool {
    let Some(name) = path.file_name() else { return false };
    let text = name.to_string_lossy().to_ascii_lowercase();
    SECRET_GLOBS.is_match(Path::new(name)) && !EXAMPLE_SUFFIXES.iter().any(|end| text.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k4_names_of_secret_files_are_recognized() {
        for name in
            [".env", "prod.env", "a/.env.local", ".ENV", "x.pem", "deep/id_rsa", ".npmrc", "credentials.json"]
        {
            assert!(looks_secret(Path::new(name)), "{name}");
        }
        for name in ["", "env", ".env.example", "src/key.rs", "id_rsa.pub", "environment.md", ".envrc"] {
            assert!(!looks_secret(Path::new(name)), "{name}");
        }
    }
}
