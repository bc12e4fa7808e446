//! The errors of operations on a terminal. A message reads after "failed to"; the caller reports it.

use std::io;
use std::process::ExitStatus;

/// The result of an operation on a terminal.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why an operation on a terminal failed.
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
        /// The configured editor command.
        editor: String,
        /// The operating system's error, or the exit status of the shell.
        reason: String,
    },
    /// The editor ended with a failure, so the edited text is not used.
    #[error("edit the text: `{editor}` ended with {status}")]
    EditorFailed {
        /// The configured editor command.
        editor: String,
        /// The exit status of the editor.
        status: ExitStatus,
    },
    /// The user asked the work to stop, and then did not wait until it had stopped.
    #[error("wait for the work to stop: it was stopped")]
    Aborted,
}
