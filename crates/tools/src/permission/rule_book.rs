//! The rules of one workspace as they stand: those of the settings, those remembered for the project in a file of its
//! own, and those remembered until the process ends. What they say about a call is decided elsewhere.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use toml_edit::{Array, DocumentMut, value};

use crate::permission::{PermissionRule, PermissionRules, Permissions};

/// Hex digits of the folder's name.
const NAME_DIGITS: usize = 16;

/// The rules of one workspace.
#[derive(Debug)]
pub struct RuleBook {
    rules: Mutex<Arc<PermissionRules>>,
    project_file: Option<PathBuf>,
}

/// For how long a rule is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleScope {
    /// Until this process ends.
    Session,
    /// For good, in this workspace.
    Project,
}

/// Remembered rules that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be used.
    #[error("{action} {}", path.display())]
    File {
        /// The attempted operation on the file.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file holds something else.
    #[error("read the rules in {}: {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The problem and its line.
        reason: String,
    },
    /// There is no file to remember rules in.
    #[error("remember a rule for the project: no file for it is known")]
    NoProject,
}

/// Returns the file that holds the remembered rules of a workspace, below the home folder.
pub fn project_rules_path(home: &Path, workspace: &Path) -> PathBuf {
    let real = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
    let name = protocol::sha256_hex(real.as_os_str().as_encoded_bytes());
    home.join("projects").join(&name[..NAME_DIGITS]).join("permissions.toml")
}

impl RuleBook {
    /// Returns the rules of the settings, with those remembered in `project_file`. The tools `trusted` need no rule.
    ///
    /// # Errors
    /// When the file exists and cannot be read.
    pub fn open(
        settings: &Permissions,
        trusted: Vec<String>,
        project_file: Option<PathBuf>,
    ) -> Result<Self, Error> {
        let mut permissions = settings.clone();
        if let Some(path) = &project_file {
            let remembered = read_rules(path)?.1;
            permissions.allow.extend(remembered.allow);
            permissions.ask.extend(remembered.ask);
            permissions.deny.extend(remembered.deny);
        }
        Ok(Self { rules: Mutex::new(Arc::new(PermissionRules { permissions, trusted })), project_file })
    }

    /// Returns the rules as they stand.
    pub fn rules(&self) -> Arc<PermissionRules> {
        Arc::clone(&self.rules.lock())
    }

    /// Remembers that calls which match are allowed.
    ///
    /// # Errors
    /// When the project's file cannot be written; nothing is remembered then.
    pub fn remember(&self, rule: PermissionRule, scope: RuleScope) -> Result<(), Error> {
        let mut rules = self.rules.lock();
        if scope == RuleScope::Project {
            append_rule(self.project_file.as_ref().ok_or(Error::NoProject)?, &rule)?;
        }
        if !rules.permissions.allow.contains(&rule) {
            Arc::make_mut(&mut rules).permissions.allow.push(rule);
        }
        Ok(())
    }
}

fn read_rules(path: &Path) -> Result<(String, Permissions), Error> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(source) => return Err(Error::File { action: "read", path: path.to_owned(), source }),
    };
    match toml_edit::de::from_str(&text) {
        Ok(permissions) => Ok((text, permissions)),
        Err(error) => Err(invalid_file(path, error.to_string())),
    }
}

/// Adds a rule to the file, and changes nothing else in it.
fn append_rule(path: &Path, rule: &PermissionRule) -> Result<(), Error> {
    let failed = |action| move |source| Error::File { action, path: path.to_owned(), source };
    let _lock = lock_rules(path).map_err(failed("lock"))?;
    let (text, permissions) = read_rules(path)?;
    if permissions.allow.contains(rule) {
        return Ok(());
    }
    let mut document: DocumentMut =
        text.parse().map_err(|error: toml_edit::TomlError| invalid_file(path, error.to_string()))?;
    let list = document.entry("allow").or_insert_with(|| value(Array::new()));
    let Some(list) = list.as_array_mut() else {
        return Err(invalid_file(path, "`allow` is not a list".to_owned()));
    };
    list.push_formatted(toml_edit::Value::from(rule.to_string()).decorated("\n    ", ""));
    list.set_trailing("\n");
    list.set_trailing_comma(true);
    write_rules(path, &document).map_err(failed("write"))
}

/// Waits until no other process changes the file. The lock ends when the file beside it is dropped; that one stays, for
/// removing it would let two processes lock two files.
fn lock_rules(path: &Path) -> io::Result<fs::File> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut options = fs::OpenOptions::new();
    let file =
        options.write(true).create(true).truncate(false).mode(0o600).open(path.with_extension("lock"))?;
    file.lock()?;
    Ok(file)
}

fn write_rules(path: &Path, document: &DocumentMut) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    // Temporary files are readable by their owner only, and stay so.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(document.to_string().as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    fs::File::open(folder)?.sync_all()
}

fn invalid_file(path: &Path, reason: String) -> Error {
    Error::Invalid { path: path.to_owned(), reason: reason.trim().to_owned() }
}

#[cfg(test)]
mod tests;
