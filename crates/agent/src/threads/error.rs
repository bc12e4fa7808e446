//! Errors of threads: finding, reading, changing, compacting and importing them.

use std::path::PathBuf;

use protocol::{CheckpointId, Seq, ThreadId};

use crate::ErrorClass;
use crate::error::{ErrorAdvice, ambiguous_id_hint, given_id};
use crate::runs::METADATA_BYTES_MAX;

/// The reason why a call about a thread failed.
#[derive(Debug, thiserror::Error)]
pub enum ThreadError {
    /// No thread's id begins with the given text.
    #[error("find a thread{}", given_id(.0))]
    Unknown(String),
    /// The ids of several threads begin with the given prefix.
    #[error("choose among {} threads that begin with `{prefix}`", matches.len())]
    Ambiguous {
        /// The given prefix.
        prefix: String,
        /// The matching threads, or the first of them.
        matches: Vec<ThreadId>,
    },
    /// A thread with that id already exists.
    #[error("create thread {0}: it already exists")]
    Exists(ThreadId),
    /// The thread has no event with that seq.
    #[error("find event {seq} in thread {thread_id}: the last event is {last_seq}")]
    UnknownEvent {
        /// The thread.
        thread_id: ThreadId,
        /// The given seq.
        seq: Seq,
        /// The seq of the newest event.
        last_seq: Seq,
    },
    /// The thread has no such checkpoint.
    #[error("find checkpoint `{given}` in thread {thread_id}")]
    UnknownCheckpoint {
        /// The thread.
        thread_id: ThreadId,
        /// The given id.
        given: CheckpointId,
    },
    /// The requested change of the thread's state is invalid.
    #[error("change the state of thread {thread_id}: {reason}")]
    InvalidStateChange {
        /// The thread.
        thread_id: ThreadId,
        /// The problem with the change.
        reason: String,
    },
    /// The metadata of a thread contains what looks like a key, a token or a password.
    #[error("store `{0}` in the metadata of the thread: it contains what looks like a secret")]
    SecretInMetadata(String),
    /// The metadata of a thread is larger than `METADATA_BYTES_MAX`.
    #[error("store the metadata of the thread: it has {0} bytes, the limit is {METADATA_BYTES_MAX}")]
    MetadataTooLarge(usize),
    /// The thread's next request could not be previewed.
    #[error("preview the context of thread {thread_id}: {reason}")]
    PreviewFailed {
        /// The thread.
        thread_id: ThreadId,
        /// The cause.
        reason: String,
    },
    /// The thread has no messages that could be compacted.
    #[error("compact thread {thread_id}: there is nothing to compact: {reason}")]
    NothingToCompact {
        /// The thread.
        thread_id: ThreadId,
        /// The cause.
        reason: String,
    },
    /// A person stopped the compaction. The thread is unchanged.
    #[error("compact thread {0}: it was stopped")]
    CompactionStopped(ThreadId),
    /// The compaction failed or was vetoed. The thread is unchanged.
    #[error("compact thread {thread_id}: {reason}")]
    NotCompacted {
        /// The thread.
        thread_id: ThreadId,
        /// The cause.
        reason: String,
    },
    /// The thread has no compaction to undo.
    #[error("undo a compaction of thread {0}: nothing is compacted in it")]
    NothingToUndo(ThreadId),
    /// A file or folder cannot be read.
    #[error("read {}: {reason}", path.display())]
    UnreadableInput {
        /// The path.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// Sessions are too large to be read into memory for a preview.
    #[error("preview {}: a preview reads at most {} MiB", path.display(), bytes_max / 1024 / 1024)]
    TooLargeToPreview {
        /// The path of the session with which the limit was exceeded.
        path: PathBuf,
        /// The limit in bytes.
        bytes_max: u64,
    },
    /// A session file could not be read.
    #[error(transparent)]
    Transcript(transcripts::Error),
    /// A stored event could not be parsed.
    #[error(transparent)]
    Event(protocol::EventBodyError),
}

impl ThreadError {
    /// Returns the class of the failure and a hint for the person.
    pub(crate) fn advice(&self) -> ErrorAdvice {
        match self {
            Self::Unknown(_) => ErrorClass::User
                .with_hint("`segue threads list` shows the threads; the beginning of an id is enough"),
            Self::Ambiguous { matches, .. } => ErrorClass::User.with_hint(ambiguous_id_hint(matches)),
            Self::Exists(_) => {
                ErrorClass::Conflict.with_hint("choose another id, or let the server choose one")
            }
            Self::UnknownEvent { .. } => {
                ErrorClass::User.with_hint("`segue history THREAD` shows the events with their numbers")
            }
            Self::UnknownCheckpoint { .. } => {
                ErrorClass::User.with_hint("the thread's history lists its checkpoints")
            }
            Self::InvalidStateChange { .. } => {
                ErrorClass::User.with_hint("nothing was changed; correct the change and send it again")
            }
            Self::SecretInMetadata(_) => {
                ErrorClass::User.with_hint("leave it out: metadata is shown wherever threads are listed")
            }
            Self::MetadataTooLarge(_) => {
                ErrorClass::User.with_hint("store large values as items of the store")
            }
            Self::PreviewFailed { .. } => {
                ErrorClass::Internal.with_hint("`segue doctor` checks the parts of a request")
            }
            Self::NothingToCompact { .. } => {
                ErrorClass::User.with_hint("`segue context THREAD` shows what fills its context")
            }
            Self::CompactionStopped(_) => {
                ErrorClass::Stopped.with_hint("nothing was changed; request it again")
            }
            Self::NotCompacted { .. } => ErrorClass::Model
                .with_hint("nothing was changed; `segue handoff THREAD` continues in a short thread"),
            Self::NothingToUndo(_) => ErrorClass::User.with_hint(
                "`segue history THREAD --markers` shows which messages were compacted, and which compactions were undone",
            ),
            Self::UnreadableInput { .. } => ErrorClass::User.with_hint("check the path and its permissions"),
            Self::TooLargeToPreview { .. } => ErrorClass::User
                .with_hint("nothing was stored; `segue import FILE` stores the session, and its thread can be previewed"),
            // The error of a session file contains its remedy.
            Self::Transcript(_) => (ErrorClass::User, None),
            Self::Event(_) => (ErrorClass::Store, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_errors_name_the_failure_and_a_remedy() {
        let thread_id = ThreadId::generate();
        let check = |error: ThreadError, text: &str, class: ErrorClass, hint: &str| {
            assert_eq!(error.to_string(), text.replace("ID", &thread_id.to_string()));
            let (actual_class, advice) = error.advice();
            assert_eq!(
                (actual_class, advice.as_deref().unwrap_or_default().contains(hint)),
                (class, true),
                "{error}"
            );
        };
        let reason = || "why".to_owned();
        check(
            ThreadError::Unknown("x".to_owned()),
            "find a thread `x`",
            ErrorClass::User,
            "segue threads list",
        );
        check(
            ThreadError::Exists(thread_id),
            "create thread ID: it already exists",
            ErrorClass::Conflict,
            "another id",
        );
        let ambiguous = ThreadError::Ambiguous { prefix: "x".to_owned(), matches: vec![thread_id] };
        check(
            ambiguous,
            "choose among 1 threads that begin with `x`",
            ErrorClass::User,
            &thread_id.to_string(),
        );
        let unknown = ThreadError::UnknownEvent { thread_id, seq: 9, last_seq: 2 };
        check(unknown, "find event 9 in thread ID: the last event is 2", ErrorClass::User, "segue history");
        let nothing = ThreadError::NothingToCompact { thread_id, reason: reason() };
        check(
            nothing,
            "compact thread ID: there is nothing to compact: why",
            ErrorClass::User,
            "segue context",
        );
        let not = ThreadError::NotCompacted { thread_id, reason: reason() };
        check(not, "compact thread ID: why", ErrorClass::Model, "nothing was changed");
        let path = std::path::PathBuf::from("a.jsonl");
        check(
            ThreadError::TooLargeToPreview { path, bytes_max: 256 << 20 },
            "preview a.jsonl: a preview reads at most 256 MiB",
            ErrorClass::User,
            "segue import",
        );
        let large = ThreadError::MetadataTooLarge(70_000);
        let text = "store the metadata of the thread: it has 70000 bytes, the limit is 65536";
        check(large, text, ErrorClass::User, "items of the store");
    }
}
