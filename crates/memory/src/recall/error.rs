//! The errors of recall and search, each with a hint for the model or the user. Errors are not handled here.
//!
//! The messages read on after "failed to".

use journal::PAGE_ROWS_MAX;
use protocol::{Seq, ThreadId};

/// An error of a recall or a search. Both only read, so a failure changes nothing.
#[derive(Debug, thiserror::Error)]
pub enum RecallError {
    /// The request contains no letter or digit.
    #[error("recall: the query has no word to search for")]
    NoWords,
    /// The limit of a search is zero, or larger than [`PAGE_ROWS_MAX`].
    #[error("search: {limit} is not a valid number of hits")]
    BadLimit {
        /// The requested number of hits.
        limit: usize,
    },
    /// A sub-agent's thread requests the scope of everything. A sub-agent knows only its task.
    #[error("recall from everything: a sub-agent can recall only its own conversation")]
    SubagentScope,
    /// The last seq of the range is before its first seq.
    #[error("recall: {from} to {to} is not a range")]
    EmptyRange {
        /// The requested first seq.
        from: Seq,
        /// The requested last seq.
        to: Seq,
    },
    /// The requesting thread does not exist.
    #[error("recall: thread {thread_id} does not exist")]
    UnknownThread {
        /// The requesting thread.
        thread_id: ThreadId,
    },
    /// No thread of the lineage, or of the same assistant in the scope of everything, has this id prefix.
    #[error("recall from thread {prefix}: this conversation did not come from it")]
    ForeignThread {
        /// The requested id or prefix of an id.
        prefix: String,
        /// The threads that can be named, nearest first. Empty in the scope of everything.
        lineage: Vec<ThreadId>,
    },
    /// Several threads have this id prefix.
    #[error("recall from thread {prefix}: several thread ids begin with it")]
    AmbiguousThread {
        /// The requested prefix of an id.
        prefix: String,
    },
    /// The parents of the thread form a cycle.
    #[error("recall: thread {thread_id} is recorded as its own ancestor")]
    Cycle {
        /// The thread that occurs twice in its lineage.
        thread_id: ThreadId,
    },
    /// A thread of the lineage names a parent that does not exist, because it was deleted.
    #[error("recall: thread {parent_id}, which thread {thread_id} came from, no longer exists")]
    ParentMissing {
        /// The existing thread.
        thread_id: ThreadId,
        /// Its missing parent.
        parent_id: ThreadId,
    },
    /// The journal has no accepted handoff from the parent to the child, so it is unknown which part of the parent
    /// belongs to the conversation.
    #[error("recall: the point at which thread {thread_id} left its parent {parent_id} is not recorded")]
    BranchUnknown {
        /// The child.
        thread_id: ThreadId,
        /// The parent.
        parent_id: ThreadId,
    },
    /// The journal failed.
    #[error("recall")]
    Journal(#[from] journal::Error),
}

impl RecallError {
    /// Returns whether a message could not be read because its stored form is damaged. A single one does not make a recall
    /// or a search fail.
    pub(crate) const fn is_message_damaged(&self) -> bool {
        matches!(self, Self::Journal(journal::Error::DamagedEvent { .. }))
    }

    /// Returns what the model or the user can do about the error, as a clause without a period.
    pub fn hint(&self) -> String {
        match self {
            Self::NoWords => "name what you look for, such as a file, a command or a subject".to_owned(),
            Self::BadLimit { .. } => format!("ask for 1 to {PAGE_ROWS_MAX}"),
            Self::SubagentScope => {
                "leave out `scope` and work with the task as given; say what it does not contain".to_owned()
            }
            Self::EmptyRange { .. } => "give the lower number first".to_owned(),
            Self::UnknownThread { .. } => "open the thread again".to_owned(),
            Self::ForeignThread { lineage, .. } => {
                let names: Vec<String> = lineage.iter().map(ThreadId::to_string).collect();
                format!("name one of these threads, or none for all of them: {}", names.join(", "))
            }
            Self::AmbiguousThread { .. } => "give more of the id".to_owned(),
            Self::Cycle { .. } | Self::ParentMissing { .. } | Self::BranchUnknown { .. } => {
                "give the whole id of this thread as `thread`, to look for it there alone".to_owned()
            }
            Self::Journal(error) if error.is_corruption() => {
                "tell the user that the database is damaged; `segue doctor` shows where".to_owned()
            }
            Self::Journal(_) => "try again".to_owned(),
        }
    }
}
