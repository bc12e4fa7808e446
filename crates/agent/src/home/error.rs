//! Errors of opening the home folder, its configuration and the database.

use std::path::{Path, PathBuf};

use crate::Class;
use crate::error::Advice;

/// Why the home folder, the configuration or the database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// The home folder cannot be used.
    #[error("use the home folder {}: {reason}", path.display())]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A setting cannot be read.
    #[error("read {}: {reason}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the line.
        reason: String,
    },
    /// The address of a database cannot be understood; it may hold a password, and is not repeated.
    #[error("read the database's URL: {0}")]
    DatabaseUrl(String),
    /// The journal is a file that processes of several machines may have open, which cannot see each other's locks.
    #[error("share {} with other machines: {reason}", path.display())]
    Shared {
        /// The file.
        path: PathBuf,
        /// How that is known.
        reason: String,
    },
}

impl HomeError {
    pub(crate) fn unusable(path: &Path, reason: impl ToString) -> Self {
        Self::Unusable { path: path.to_owned(), reason: reason.to_string() }
    }

    pub(crate) fn advice(&self) -> Advice {
        match self {
            Self::Unusable { .. } => Class::Store.with("set SEGUE_HOME to a folder you can write to"),
            Self::Config { .. } => {
                Class::Config.with("mend the file, or move it away to go on with the defaults")
            }
            Self::DatabaseUrl(_) => Class::Config.with(
                "write postgres://USER:PASSWORD@HOST:PORT/DATABASE or sqlite:PATH into SEGUE_DATABASE_URL, `--database-url` \
                 or `[database] url`",
            ),
            Self::Shared { .. } => Class::Config.with(
                "servers on several machines share a PostgreSQL database, which `--database-url` or SEGUE_DATABASE_URL names; \
                 with SQLite one machine serves, from a folder on a disk of its own",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_home_say_what_failed_and_what_can_be_done() {
        let check = |error: HomeError, text: &str, class: Class, hint: &str| {
            assert_eq!(error.to_string(), text);
            let (found, advice) = error.advice();
            assert_eq!(
                (found, advice.as_deref().unwrap_or_default().contains(hint)),
                (class, true),
                "{error}"
            );
        };
        let (path, reason) = (|| PathBuf::from("p"), || "why".to_owned());
        let home = HomeError::Unusable { path: path(), reason: reason() };
        check(home, "use the home folder p: why", Class::Store, "SEGUE_HOME");
        let config = HomeError::Config { path: path(), reason: reason() };
        check(config, "read p: why", Class::Config, "mend the file");
        let url = HomeError::DatabaseUrl(reason());
        check(url, "read the database's URL: why", Class::Config, "sqlite:PATH");
        let shared = HomeError::Shared { path: path(), reason: reason() };
        check(shared, "share p with other machines: why", Class::Config, "PostgreSQL");
    }
}
