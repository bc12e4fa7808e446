//! What can go wrong with agent.md, told so that a person knows what to do. Nothing is handled here.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::managed_block::MalformedMarkers;

/// The result of this room.
pub type Result<T> = std::result::Result<T, Error>;

/// Why agent.md could not be read or written. The file is as it was.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file or its folder may not be read or written by this user, or is read-only.
    #[error("access {}: permission denied", .path.display())]
    NotPermitted {
        /// The file.
        path: PathBuf,
    },
    /// Something that is not a regular file has its name.
    #[error("use {}: it is not a regular file", .path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file is larger than [`crate::AGENT_MD_BYTES_MAX`].
    #[error("change {}: the file is larger than {bytes_max} bytes, move part of it elsewhere", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        bytes_max: u64,
    },
    /// The file is UTF-16: a model would read garbage, and a block written into it would be garbage.
    #[error("use {}: the file is UTF-16, save it as UTF-8", .path.display())]
    Utf16 {
        /// The file.
        path: PathBuf,
    },
    /// The markers are not one block even after a repair.
    #[error("write the summary block in {}: {source}", .path.display())]
    MalformedMarkers {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line numbers.
        source: MalformedMarkers,
    },
    /// There is nothing to remember in the text.
    #[error("remember it: the text is blank")]
    BlankNote,
    /// The text is no note any more.
    #[error("remember it: the text has {chars} characters, and {chars_max} is the limit")]
    NoteTooLong {
        /// How long it is.
        chars: usize,
        /// The limit.
        chars_max: usize,
    },
    /// The file would be larger than what every request can carry.
    #[error("remember it in {}: the file would have {bytes} bytes, and {bytes_max} is the limit", .path.display())]
    NoteDoesNotFit {
        /// The file.
        path: PathBuf,
        /// How large it would be.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// The text would change what the file means, such as by opening a code fence around the block.
    #[error("remember it in {}: {reason}", .path.display())]
    NoteRefused {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// There is no room to write.
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
        /// How long this one waited.
        waited: Duration,
    },
    /// Another program kept changing the file between reading and replacing it.
    #[error("write {}: another program changed the file {attempts} times meanwhile", .path.display())]
    Contended {
        /// The file.
        path: PathBuf,
        /// How often the change was merged again.
        attempts: u32,
    },
    /// Anything else the operating system answered.
    #[error("{action} {}: {source}", .path.display())]
    Io {
        /// What was tried, such as `read`.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The answer.
        source: io::Error,
    },
}

impl Error {
    /// Returns what a person can do about it, as one sentence.
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

    /// Returns whether the same call may succeed without anyone changing anything.
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Locked { .. } | Self::Contended { .. })
    }

    /// Returns a function that turns the system's answer to `action` on `path` into an error.
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
