//! Errors of opening the home folder, its configuration and the database.

use std::io;
use std::path::{Path, PathBuf};

use crate::ErrorClass;
use crate::error::ErrorAdvice;

/// The reason why the home folder, the configuration or the database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// The home folder cannot be created, read or written.
    #[error("use the home folder {}: {reason}", path.display())]
    Unusable {
        /// The path of the folder or of a file in it.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// The home folder belongs to another user, who could change everything in it.
    #[error("use the home folder {}: it belongs to another user (id {owner})", path.display())]
    ForeignOwner {
        /// The path of the folder.
        path: PathBuf,
        /// The number of the owner.
        owner: u32,
    },
    /// Other users may write to the home folder, and so replace the files in it.
    #[error("use the home folder {}: other users may write to it", path.display())]
    WritableByOthers {
        /// The path of the folder.
        path: PathBuf,
    },
    /// The disk of the home folder is full.
    #[error("use the home folder {}: no space is left on its disk", path.display())]
    Full {
        /// The path of the folder or of a file in it.
        path: PathBuf,
    },
    /// The configuration file cannot be read, or a setting is invalid.
    #[error("read {}: {reason}", path.display())]
    Config {
        /// The path of the file.
        path: PathBuf,
        /// The cause, with the line number where it is known.
        reason: String,
    },
    /// A pattern in `[secrets]` of the configuration file cannot be used.
    #[error("read {}{}: {source}", path.display(), line.map(|line| format!(", line {line}")).unwrap_or_default())]
    SecretPattern {
        /// The path of the file.
        path: PathBuf,
        /// The line of the pattern in the file, if it is known.
        line: Option<usize>,
        /// The problem.
        source: secrets::PatternError,
    },
    /// The URL of the database is invalid. The error does not repeat it, because it may contain a password.
    #[error("read the database's URL: {0}")]
    DatabaseUrl(String),
    /// The journal is a file that processes of several machines may have open. Their locks cannot be seen
    /// across machines.
    #[error("share {} with other machines: {reason}", path.display())]
    SharedBetweenMachines {
        /// The path of the database file.
        path: PathBuf,
        /// The observation from which this follows.
        reason: String,
    },
}

impl HomeError {
    /// Builds the error for a path that the system refused.
    pub(crate) fn from_io(path: &Path, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path: path.to_owned() },
            _ => Self::unusable(path, error),
        }
    }

    /// Builds [`HomeError::Unusable`] for a path.
    pub(crate) fn unusable(path: &Path, reason: impl ToString) -> Self {
        Self::Unusable { path: path.to_owned(), reason: reason.to_string() }
    }

    /// Returns the class of the failure and a hint for the person.
    pub(crate) fn advice(&self) -> ErrorAdvice {
        match self {
            Self::Full { .. } => {
                ErrorClass::Store.with_hint("free some space on the disk of that folder and try again")
            }
            Self::ForeignOwner { path, .. } => ErrorClass::Config.with_hint(format!(
                "set SEGUE_HOME to a folder of your own, or run `chown -R \"$(id -u)\" {}` as an administrator",
                path.display()
            )),
            Self::WritableByOthers { path } => {
                ErrorClass::Config.with_hint(format!("run `chmod go-w {}`, and look for changes of others", path.display()))
            }
            Self::Unusable { .. } => ErrorClass::Store.with_hint("set SEGUE_HOME to a folder you can write to"),
            Self::Config { .. } => {
                ErrorClass::Config.with_hint("fix the file, or move it away to use the defaults")
            }
            Self::SecretPattern { .. } => ErrorClass::Config.with_hint(
                "correct `[secrets]` in the file; write expressions in single quotes, and test them with \
                 `segue doctor --secrets FILE`",
            ),
            Self::DatabaseUrl(_) => ErrorClass::Config.with_hint(
                "write postgres://USER:PASSWORD@HOST:PORT/DATABASE or sqlite:PATH into SEGUE_DATABASE_URL, `--database-url` \
                 or `[database] url`",
            ),
            Self::SharedBetweenMachines { .. } => ErrorClass::Config.with_hint(
                "servers on several machines need a PostgreSQL database; name it with `--database-url` or SEGUE_DATABASE_URL. \
                 With SQLite, one machine serves, from a folder on a local disk",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_errors_name_the_failure_and_a_remedy() {
        let check = |error: HomeError, text: &str, class: ErrorClass, hint: &str| {
            assert_eq!(error.to_string(), text);
            let (actual_class, advice) = error.advice();
            assert_eq!(
                (actual_class, advice.as_deref().unwrap_or_default().contains(hint)),
                (class, true),
                "{error}"
            );
        };
        let (path, reason) = (|| PathBuf::from("p"), || "why".to_owned());
        let home = HomeError::Unusable { path: path(), reason: reason() };
        check(home, "use the home folder p: why", ErrorClass::Store, "SEGUE_HOME");
        let foreign = HomeError::ForeignOwner { path: path(), owner: 7 };
        let text = "use the home folder p: it belongs to another user (id 7)";
        check(foreign, text, ErrorClass::Config, "chown");
        let writable = HomeError::WritableByOthers { path: path() };
        check(
            writable,
            "use the home folder p: other users may write to it",
            ErrorClass::Config,
            "chmod go-w p",
        );
        let full = HomeError::from_io(&path(), &io::ErrorKind::StorageFull.into());
        check(
            full,
            "use the home folder p: no space is left on its disk",
            ErrorClass::Store,
            "free some space",
        );
        let config = HomeError::Config { path: path(), reason: reason() };
        check(config, "read p: why", ErrorClass::Config, "fix the file");
        let source = secrets::PatternError::Empty("x".to_owned());
        let pattern = HomeError::SecretPattern { path: path(), line: Some(3), source };
        let text = "read p, line 3: use the pattern `x`: it matches the empty text";
        check(pattern, text, ErrorClass::Config, "doctor --secrets");
        let url = HomeError::DatabaseUrl(reason());
        check(url, "read the database's URL: why", ErrorClass::Config, "sqlite:PATH");
        let shared = HomeError::SharedBetweenMachines { path: path(), reason: reason() };
        check(shared, "share p with other machines: why", ErrorClass::Config, "PostgreSQL");
    }
}
