//! Errors of agent.md, with hints for the user, who has to fix them. Errors are not handled here.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::managed_block::MalformedMarkers;

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An agent.md could not be read or written. The file is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This user may not read or write the file or its folder, or the file is read-only.
    #[error("access {}: permission denied", .path.display())]
    NotPermitted {
        /// The file.
        path: PathBuf,
    },
    /// The path names something other than a regular file.
    #[error("use {}: it is not a regular file", .path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file is larger than [`crate::AGENT_MD_BYTES_MAX`].
    #[error("change {}: the file has {bytes} bytes, and {bytes_max} is the limit", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The size in bytes.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// The file is UTF-16: a model would read garbage, and a block written into the file would be garbage.
    #[error("use {}: the file is UTF-16, save it as UTF-8", .path.display())]
    Utf16 {
        /// The file.
        path: PathBuf,
    },
    /// The markers do not form a single block even after a repair.
    #[error("write the summary block in {}: {source}", .path.display())]
    MalformedMarkers {
        /// The file.
        path: PathBuf,
        /// The problems, with line numbers.
        source: MalformedMarkers,
    },
    /// The text to remember has no letter and no digit.
    #[error("remember it: the text has no letter and no digit")]
    BlankNote,
    /// The text is too long for a note.
    #[error("remember it: the text has {chars} characters, and {chars_max} is the limit")]
    NoteTooLong {
        /// Length of the text in grapheme clusters.
        chars: usize,
        /// The limit in grapheme clusters.
        chars_max: usize,
    },
    /// The file would exceed the size that every request can carry.
    #[error("remember it in {}: the file would have {bytes} bytes, and {bytes_max} is the limit", .path.display())]
    NoteDoesNotFit {
        /// The file.
        path: PathBuf,
        /// The size in bytes after the change.
        bytes: u64,
        /// The limit in bytes.
        bytes_max: u64,
    },
    /// The text would change how the file is parsed, for example by opening a code fence around the block.
    #[error("remember it in {}: {reason}", .path.display())]
    NoteRefused {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The disk or the quota is full.
    #[error("write {}: the disk or quota is full", .path.display())]
    DiskFull {
        /// The file.
        path: PathBuf,
    },
    /// Another process held the lock for too long.
    #[error("lock {}: another process has held it for {} s", .path.display(), .waited.as_secs())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// The time this process waited.
        waited: Duration,
    },
    /// Another program kept changing the file between reading and replacing it.
    #[error("write {}: another program changed the file {attempts} times meanwhile", .path.display())]
    Contended {
        /// The file.
        path: PathBuf,
        /// Number of attempts to merge the change.
        attempts: u32,
    },
    /// Any other error of the operating system.
    #[error("{action} {}: {source}", .path.display())]
    Io {
        /// The operation, such as `read`.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

impl Error {
    /// Returns, as a clause without a period, how the user can fix the error.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::NotPermitted { .. } => "make the file and its folder readable and writable for you",
            Self::NotAFile { .. } => "move away what is there; Segue creates the file when it needs it",
            Self::BlankNote => "say what to remember",
            Self::NoteTooLong { .. } => "keep it in a file of its own, and remember where that is",
            Self::NoteDoesNotFit { .. } => "shorten the file first: all of it is part of every request",
            Self::NoteRefused { .. } => "write it into the file with an editor",
            Self::TooLarge { .. } => "move notes that are not needed in every turn into other files",
            Self::Utf16 { .. } => "save the file as UTF-8",
            Self::MalformedMarkers { .. } => {
                "leave one <current_thread_summary> block, or none, and try again"
            }
            Self::DiskFull { .. } => "free some space and try again; the file is as it was",
            Self::Locked { .. } | Self::Contended { .. } => {
                "close the program that holds the file and try again"
            }
            Self::Io { .. } => "check the folder and try again; the file is as it was",
        }
    }

    /// Returns whether the same call may succeed later without any change by the user.
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Locked { .. } | Self::Contended { .. })
    }

    /// Returns a function that converts an I/O error of `action` on `path` into an [`Error`].
    pub(crate) fn from_io<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| {
            let path = path.to_path_buf();
            match source.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    Self::NotPermitted { path }
                }
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { path },
                io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory => Self::NotAFile { path },
                _ => Self::Io { action, path, source },
            }
        }
    }
}
