//! Errors of threads: finding, reading, changing, compacting and importing them.

use std::path::PathBuf;

use protocol::{CheckpointId, Seq, ThreadId};

use crate::Class;
use crate::error::{Advice, more_of};
use crate::requests::METADATA_BYTES_MAX;

/// Why a call about a thread failed.
#[derive(Debug, thiserror::Error)]
pub enum ThreadError {
    /// No thread's id begins with that.
    #[error("find a thread `{0}`")]
    Unknown(String),
    /// Several threads' ids begin with that.
    #[error("choose among {} threads that begin with `{prefix}`", matches.len())]
    Ambiguous {
        /// What was given.
        prefix: String,
        /// The first of them.
        matches: Vec<ThreadId>,
    },
    /// A thread with that id is there already.
    #[error("create thread {0}: there is one already")]
    Exists(ThreadId),
    /// The thread has no event with that seq.
    #[error("find event {seq} in thread {thread_id}: its last one is {last_seq}")]
    UnknownEvent {
        /// The thread.
        thread_id: ThreadId,
        /// What was given.
        seq: Seq,
        /// The newest event there is.
        last_seq: Seq,
    },
    /// The thread has no such point in its past.
    #[error("find checkpoint `{given}` in thread {thread_id}")]
    UnknownCheckpoint {
        /// The thread.
        thread_id: ThreadId,
        /// What was given.
        given: CheckpointId,
    },
    /// The state of a thread cannot be changed like that.
    #[error("change the state of thread {thread_id}: {reason}")]
    StateChange {
        /// The thread.
        thread_id: ThreadId,
        /// What is wrong with the change.
        reason: String,
    },
    /// Notes about a thread hold what looks like a key, a token or a password.
    #[error("keep `{0}` among the notes about the thread: it holds what looks like a secret")]
    SecretInMetadata(String),
    /// Notes about a thread are too large.
    #[error("keep notes about the thread: they have {0} bytes, the most is {METADATA_BYTES_MAX}")]
    MetadataTooLarge(usize),
    /// What a thread's next request would hold cannot be told.
    #[error("work out the context of thread {thread_id}: {reason}")]
    Preview {
        /// The thread.
        thread_id: ThreadId,
        /// Why.
        reason: String,
    },
    /// There is nothing to compact.
    #[error("compact thread {thread_id}: there is nothing to compact: {reason}")]
    NothingToCompact {
        /// The thread.
        thread_id: ThreadId,
        /// Why.
        reason: String,
    },
    /// A person stopped the compaction, and the thread is as it was.
    #[error("compact thread {0}: it was stopped")]
    CompactionStopped(ThreadId),
    /// The thread was not compacted, and is as it was.
    #[error("compact thread {thread_id}: {reason}")]
    NotCompacted {
        /// The thread.
        thread_id: ThreadId,
        /// Why.
        reason: String,
    },
    /// Nothing is compacted in the thread.
    #[error("take a compaction of thread {0} back: nothing is compacted in it")]
    NothingToUndo(ThreadId),
    /// A file or folder cannot be read.
    #[error("read {}: {reason}", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A session file could not be read.
    #[error(transparent)]
    Transcript(transcripts::Error),
    /// A stored event cannot be read.
    #[error(transparent)]
    Event(protocol::UnreadableBody),
}

impl ThreadError {
    pub(crate) fn advice(&self) -> Advice {
        match self {
            Self::Unknown(_) => {
                Class::User.with("`segue threads list` shows the threads; the beginning of an id is enough")
            }
            Self::Ambiguous { matches, .. } => Class::User.with(more_of(matches)),
            Self::Exists(_) => Class::Conflict.with("choose another id, or let the server choose one"),
            Self::UnknownEvent { .. } => {
                Class::User.with("`segue history THREAD` shows the events with their numbers")
            }
            Self::UnknownCheckpoint { .. } => Class::User.with("the thread's history lists its checkpoints"),
            Self::StateChange { .. } => {
                Class::User.with("nothing was changed; mend the change and send it again")
            }
            Self::SecretInMetadata(_) => {
                Class::User.with("leave it out: notes are shown wherever threads are listed")
            }
            Self::MetadataTooLarge(_) => Class::User.with("keep large values as items of the store"),
            Self::Preview { .. } => Class::Internal.with("`segue doctor` checks what a request is made of"),
            Self::NothingToCompact { .. } => {
                Class::User.with("`segue context THREAD` shows what fills its context")
            }
            Self::CompactionStopped(_) => Class::Stopped.with("nothing was changed; ask for it again"),
            Self::NotCompacted { .. } => {
                Class::Model.with("nothing was changed; `segue handoff THREAD` goes on in a short thread")
            }
            Self::NothingToUndo(_) => Class::User
                .with("`segue history THREAD --markers` shows what was compacted, and what was taken back"),
            Self::Input { .. } => Class::User.with("check the path and its permissions"),
            // What is wrong with a session file says what to do in the same line.
            Self::Transcript(_) => (Class::User, None),
            Self::Event(_) => (Class::Store, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_threads_say_what_failed_and_what_can_be_done() {
        let thread_id = ThreadId::generate();
        let check = |error: ThreadError, text: &str, class: Class, hint: &str| {
            assert_eq!(error.to_string(), text.replace("ID", &thread_id.to_string()));
            let (found, advice) = error.advice();
            assert_eq!(
                (found, advice.as_deref().unwrap_or_default().contains(hint)),
                (class, true),
                "{error}"
            );
        };
        let reason = || "why".to_owned();
        check(ThreadError::Unknown("x".to_owned()), "find a thread `x`", Class::User, "segue threads list");
        check(
            ThreadError::Exists(thread_id),
            "create thread ID: there is one already",
            Class::Conflict,
            "another id",
        );
        let ambiguous = ThreadError::Ambiguous { prefix: "x".to_owned(), matches: vec![thread_id] };
        check(ambiguous, "choose among 1 threads that begin with `x`", Class::User, &thread_id.to_string());
        let unknown = ThreadError::UnknownEvent { thread_id, seq: 9, last_seq: 2 };
        check(unknown, "find event 9 in thread ID: its last one is 2", Class::User, "segue history");
        let nothing = ThreadError::NothingToCompact { thread_id, reason: reason() };
        check(nothing, "compact thread ID: there is nothing to compact: why", Class::User, "segue context");
        let not = ThreadError::NotCompacted { thread_id, reason: reason() };
        check(not, "compact thread ID: why", Class::Model, "nothing was changed");
        let large = ThreadError::MetadataTooLarge(70_000);
        let text = "keep notes about the thread: they have 70000 bytes, the most is 65536";
        check(large, text, Class::User, "items of the store");
    }
}
