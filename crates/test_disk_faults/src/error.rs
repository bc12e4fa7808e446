//! Errors of the simulation itself. The faults that a test plans are reported by SQLite.

use std::path::{Path, PathBuf};

/// An error of the simulated disk.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// SQLite has no file system on this platform, or refuses the simulated one.
    #[error("register the simulated disk: SQLite returned the code {code}")]
    Registration {
        /// The result code of SQLite.
        code: i32,
    },
    /// A file or folder of the disk cannot be read or replaced.
    #[error("use {}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
}

impl Error {
    /// Returns the error for a file or folder.
    pub(crate) fn file(path: &Path, source: std::io::Error) -> Self {
        Self::File { path: path.to_owned(), source }
    }
}
