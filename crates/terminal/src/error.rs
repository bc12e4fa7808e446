//! The errors of operations on a terminal. The caller reports them.

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
        /// The editor as it is configured.
        editor: String,
        /// The reason of the failure.
        reason: String,
    },
    /// The editor ended with a failure, so the edited text is not used.
    #[error("edit the text: `{editor}` ended with {status}")]
    EditorFailed {
        /// The editor as it is configured.
        editor: String,
        /// The exit status of the editor.
        status: ExitStatus,
    },
    /// A person stopped the work, and did not wait for its end.
    #[error("wait for the work to stop: it was stopped")]
    Aborted,
}
