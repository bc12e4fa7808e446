//! Why nothing could be recalled, told so that a model or a person knows what to do. Nothing is handled here.

use journal::PAGE_ROWS_MAX;
use protocol::{Seq, ThreadId};

/// Why nothing could be recalled.
#[derive(Debug, thiserror::Error)]
pub enum RecallError {
    /// The request contains no letter or digit.
    #[error("recall: there is no word to look for")]
    NoWords,
    /// So many hits are none or too many.
    #[error("search: {limit} is no number of hits")]
    BadLimit {
        /// The number asked for.
        limit: usize,
    },
    /// A sub-agent asks for what is not its own.
    #[error("recall from everything: a sub-agent sees its own conversation alone")]
    SubagentScope,
    /// The range ends before it begins.
    #[error("recall: {from} to {to} is no range")]
    EmptyRange {
        /// The first seq asked for.
        from: Seq,
        /// The last seq asked for.
        to: Seq,
    },
    /// The thread that asks does not exist.
    #[error("recall: thread {thread_id} does not exist")]
    UnknownThread {
        /// The thread.
        thread_id: ThreadId,
    },
    /// The thread named is none that this one came from.
    #[error("recall from thread {prefix}: this conversation did not come from it")]
    ForeignThread {
        /// The beginning of an id that was given.
        prefix: String,
        /// The threads that can be named, nearest first.
        lineage: Vec<ThreadId>,
    },
    /// Several threads of the lineage begin like that.
    #[error("recall from thread {prefix}: several threads of this conversation begin like that")]
    AmbiguousThread {
        /// The beginning of an id that was given.
        prefix: String,
    },
    /// The threads came from each other in a circle.
    #[error("recall: thread {thread_id} is recorded as having come from itself")]
    Cycle {
        /// The thread that was met twice.
        thread_id: ThreadId,
    },
    /// The thread that another one came from is not there any longer.
    #[error("recall: thread {parent_id}, which thread {thread_id} came from, no longer exists")]
    ParentMissing {
        /// The thread that is there.
        thread_id: ThreadId,
        /// The one that is not.
        parent_id: ThreadId,
    },
    /// Nothing tells how far the thread that another one came from belongs to it.
    #[error("recall: where thread {thread_id} left thread {parent_id}, which it came from, is not recorded")]
    BranchUnknown {
        /// The thread that came from the other.
        thread_id: ThreadId,
        /// The other.
        parent_id: ThreadId,
    },
    /// The journal failed.
    #[error("recall")]
    Journal(#[from] journal::Error),
}

impl RecallError {
    /// Returns what to do about it, as one sentence.
    pub fn hint(&self) -> String {
        match self {
            Self::NoWords => "name what you look for, such as a file, a command or a subject".to_owned(),
            Self::BadLimit { .. } => format!("ask for 1 to {PAGE_ROWS_MAX}"),
            Self::SubagentScope => {
                "leave out `scope`, and work with what the task tells; say what is missing in it".to_owned()
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
            Self::Journal(_) => "try again".to_owned(),
        }
    }
}
