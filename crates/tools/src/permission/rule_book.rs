//! The permission rules in force for one workspace: those of the settings, those remembered for the project in
//! `permissions.toml`, and those remembered for this process. Applying them to a call is the task of [`super::decide`].

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use toml_edit::{Array, DocumentMut, value};

use crate::permission::{PermissionRule, PermissionRules, Permissions, SandboxedCommands};

/// Number of hex digits of the workspace's hash in the name of the project's folder.
const NAME_DIGITS: usize = 16;

/// The permission rules of one workspace. Rules can be added at any time, from any thread.
#[derive(Debug)]
pub struct RuleBook {
    /// The rules in force. Readers get a cheap snapshot.
    rules: Mutex<Arc<PermissionRules>>,
    /// The file of rules remembered for the project; `None` if they cannot be remembered beyond this process.
    project_file: Option<PathBuf>,
}

/// The lifetime of a remembered rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleScope {
    /// The rule applies until this process ends.
    Session,
    /// The rule is stored and applies to this workspace in later processes too.
    Project,
}

/// The error of reading or writing remembered rules.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An I/O operation on the file failed.
    #[error("{action} {}", path.display())]
    File {
        /// The attempted operation: `read`, `lock` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// The file is not valid TOML or does not contain rules.
    #[error("read the rules in {}: {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The reason, with the line number if the parser gives one.
        reason: String,
    },
    /// The rule book has no file to store rules in.
    #[error("remember a rule for the project: this workspace has no file for rules")]
    NoProject,
}

/// Returns the path of the file with the remembered rules of a workspace:
/// `<home>/projects/<hash of the workspace's path>/permissions.toml`. `home` is Segue's home folder.
pub fn project_rules_path(home: &Path, workspace: &Path) -> PathBuf {
    let real = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
    let name = protocol::sha256_hex(real.as_os_str().as_encoded_bytes());
    home.join("projects").join(&name[..NAME_DIGITS]).join("permissions.toml")
}

impl RuleBook {
    /// Returns a rule book with the rules of the settings and those remembered in `project_file`. The tools named in
    /// `trusted` are allowed unless a rule says otherwise. A missing file has no rules.
    ///
    /// # Errors
    /// Returns [`Error::File`] or [`Error::Invalid`] if the file exists and cannot be read or parsed.
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
        let rules = PermissionRules { permissions, trusted, ..PermissionRules::default() };
        Ok(Self { rules: Mutex::new(Arc::new(rules)), project_file })
    }

    /// Returns the rule book with another default for commands in the sandbox.
    #[must_use]
    pub fn with_sandboxed_commands(mut self, default: SandboxedCommands) -> Self {
        Arc::make_mut(self.rules.get_mut()).sandboxed_commands = default;
        self
    }

    /// Returns a snapshot of the rules in force.
    pub fn rules(&self) -> Arc<PermissionRules> {
        Arc::clone(&self.rules.lock())
    }

    /// Adds a rule that allows matching calls. With [`RuleScope::Project`], the rule is also stored in the project's
    /// file, with blocking I/O and a lock against other processes.
    ///
    /// # Errors
    /// Returns an error if the project's file is missing from the configuration, or cannot be locked, read or written.
    /// The rule is not added then.
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

/// Reads the file and returns its text and its rules. A missing file is empty.
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

/// Adds a rule to the list `allow` in the file. Comments and the other lists stay as they are.
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

/// Locks the rule file against other processes, and waits for the lock. Dropping the returned file releases the lock.
///
/// The lock is a separate file, because the rule file itself is replaced on every write. The lock file is never
/// removed: removing it would let two processes hold locks on two different files.
fn lock_rules(path: &Path) -> io::Result<fs::File> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut options = fs::OpenOptions::new();
    let file =
        options.write(true).create(true).truncate(false).mode(0o600).open(path.with_extension("lock"))?;
    file.lock()?;
    Ok(file)
}

/// Replaces the rule file atomically and durably: a temporary file is synced and renamed, then the folder is synced.
fn write_rules(path: &Path, document: &DocumentMut) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    // A temporary file has mode 0600, and keeps it after the rename.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(document.to_string().as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    fs::File::open(folder)?.sync_all()
}

/// Returns the error about a file with invalid content.
fn invalid_file(path: &Path, reason: String) -> Error {
    Error::Invalid { path: path.to_owned(), reason: reason.trim().to_owned() }
}

#[cfg(test)]
mod tests;
