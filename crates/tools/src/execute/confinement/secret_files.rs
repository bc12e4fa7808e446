//! The search for files of secrets in the workspace, which the sandbox hides from commands. It is bounded, because it
//! runs before each command.

use std::fs;
use std::path::{Path, PathBuf};

use crate::permission::looks_secret;

/// Maximum depth below the workspace at which files are found.
const DEPTH_MAX: usize = 4;
/// Maximum number of files and folders that are looked at.
const ENTRIES_MAX: usize = 5_000;
/// Maximum number of files that are hidden.
const HIDDEN_MAX: usize = 200;
/// Folders of tools, with many files and usually no secrets. The settings of git are protected separately.
const SKIPPED_FOLDERS: &[&str] = &[".git", "node_modules", "target", ".venv", "venv", "vendor"];
/// The settings of npm, which npm needs, and which are hidden only if they contain a login.
const NPM_SETTINGS: &str = ".npmrc";
/// Parts of the names of npm's settings with a login.
const NPM_LOGIN_KEYS: &[&str] = &["_auth", "_password"];

/// Returns the files of secrets in a workspace. Files below [`DEPTH_MAX`], and those after the first [`ENTRIES_MAX`]
/// entries, are not found. Folders nearer to the workspace are searched first.
pub(super) fn find(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut entries = 0;
    let mut folders = vec![root.to_owned()];
    for _ in 0..DEPTH_MAX {
        let mut deeper = Vec::new();
        for folder in folders {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                entries += 1;
                if entries > ENTRIES_MAX || found.len() >= HIDDEN_MAX {
                    return found;
                }
                let Ok(kind) = entry.file_type() else { continue };
                let path = entry.path();
                if kind.is_dir() && !SKIPPED_FOLDERS.iter().any(|name| entry.file_name() == *name) {
                    deeper.push(path);
                } else if kind.is_file() && is_secret(root, &path) {
                    found.push(path);
                }
            }
        }
        folders = deeper;
    }
    found
}

/// Returns whether a file of the workspace usually contains secrets.
fn is_secret(root: &Path, path: &Path) -> bool {
    let relative = path.strip_prefix(root).unwrap_or(path);
    let has_login = || {
        let text = fs::read_to_string(path).unwrap_or_default();
        NPM_LOGIN_KEYS.iter().any(|key| text.contains(key))
    };
    looks_secret(relative) && (path.file_name().is_none_or(|name| name != NPM_SETTINGS) || has_login())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k4_files_of_secrets_are_found_and_needed_settings_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(".env", "A=1");
        write(".env.example", "A=");
        write(".npmrc", "engine-strict=true");
        write("web/.npmrc", "//registry.example/:_authToken=x");
        write("a/b/c/key.pem", "");
        write("a/b/c/d/key.pem", "");
        write("node_modules/x/key.pem", "");
        write("src/secrets.rs", "");
        let mut found: Vec<PathBuf> = find(folder.path());
        found.sort();
        let expected = [".env", "a/b/c/key.pem", "web/.npmrc"].map(|path| folder.path().join(path));
        assert_eq!(found, expected);
    }
}
