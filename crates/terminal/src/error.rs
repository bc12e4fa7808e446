//! Errors of a terminal that the caller handles differently. How they are told to a person is up to the caller.

use std::io;
use std::process::ExitStatus;

/// The result of an operation on a terminal.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation on a terminal failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The terminal, or a file that is edited in it, cannot be used.
    #[error("use the terminal or a file: {0}")]
    Io(#[from] io::Error),
    /// No editor is set, and none is installed.
    #[error("find an editor")]
    NoEditor,
    /// The editor cannot be started.
    #[error("start `{editor}`: {reason}")]
    EditorNotStarted {
        /// The editor, as it was set.
        editor: String,
        /// Why it did not start.
        reason: String,
    },
    /// The editor ended with a failure, so that its text is not used.
    #[error("edit the text: `{editor}` ended with {status}")]
    EditorFailed {
        /// The editor, as it was set.
        editor: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// A person stopped the work, and did not wait for its end.
    #[error("wait for the work to stop: it was stopped")]
    Aborted,
}
