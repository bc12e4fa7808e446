//! What can go wrong in the journal; every variant exists because a caller acts on it.

use std::path::PathBuf;

use protocol::{HandoffId, HandoffStatus, IdError, InterruptId, RunId, RunStatus, ThreadId};

/// What differs when a thread's newest checkpoint is another one.
const NEWEST_CHECKPOINT: &str = "checkpoint of thread";

/// A failed read or write.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing is stored under that id.
    #[error("find {what} {id}")]
    NotFound {
        /// The kind of row, such as `thread`.
        what: &'static str,
        /// The id that was asked for.
        id: String,
    },
    /// The run was not admitted on that thread.
    #[error("find run {run_id} in thread {thread_id}")]
    UnknownRun {
        /// The thread.
        thread_id: ThreadId,
        /// The run.
        run_id: RunId,
    },
    /// Another run is active on the thread.
    #[error("start a run on thread {thread_id}: run {run_id} is active")]
    Busy {
        /// The thread.
        thread_id: ThreadId,
        /// The active run.
        run_id: RunId,
    },
    /// The run belongs to another process, or has ended: nothing was written.
    #[error("write for run {run_id}: it is {} and its lease belongs to {owner}", status.as_str())]
    Fenced {
        /// The run.
        run_id: RunId,
        /// Where it stands.
        status: RunStatus,
        /// Who holds its lease; empty when nobody does.
        owner: String,
    },
    /// The interrupt was answered before.
    #[error("answer interrupt {interrupt_id}: it is no longer pending")]
    AlreadyDecided {
        /// The interrupt.
        interrupt_id: InterruptId,
    },
    /// The parent thread has a handoff that waits for a draft or a decision.
    #[error("request a handoff of thread {parent_thread_id}: handoff {handoff_id} is pending")]
    HandoffPending {
        /// The parent.
        parent_thread_id: ThreadId,
        /// The pending handoff.
        handoff_id: HandoffId,
    },
    /// The handoff is not where the caller believed.
    #[error("move handoff {handoff_id}: it is {}", status.as_str())]
    HandoffMoved {
        /// The handoff.
        handoff_id: HandoffId,
        /// Where it stands.
        status: HandoffStatus,
    },
    /// Something else is stored under the same key.
    #[error("store {what} {id}: a different one exists")]
    Differs {
        /// The kind of row.
        what: &'static str,
        /// Its key.
        id: String,
    },
    /// A request that no store can answer, such as a page of zero rows.
    #[error("read {what}: {reason}")]
    Invalid {
        /// What was asked for.
        what: &'static str,
        /// Why it cannot be answered.
        reason: String,
    },
    /// The database was written by a later version of Segue.
    #[error("open {}: its schema is version {found}, this program knows up to {known}", path.display())]
    NewerSchema {
        /// The database.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version this program knows.
        known: u32,
    },
    /// The file is not a database, or is damaged.
    #[error("read {}: {reason}", path.display())]
    Corrupt {
        /// The database.
        path: PathBuf,
        /// What the database engine found.
        reason: String,
    },
    /// Another process held the database for longer than the wait.
    #[error("write {}: another process holds it", path.display())]
    Locked {
        /// The database.
        path: PathBuf,
    },
    /// The file or its folder may not be written or read.
    #[error("write {}: permission denied or read-only", path.display())]
    Denied {
        /// The database.
        path: PathBuf,
    },
    /// No space is left.
    #[error("write {}: the disk is full", path.display())]
    DiskFull {
        /// The database.
        path: PathBuf,
    },
    /// The store is closed.
    #[error("use the journal: it is closed")]
    Closed,
    /// Whether a transaction was committed cannot be found out: read what is stored before anything is done again.
    #[error("find out whether {location} has a transaction: {reason}")]
    Unsettled {
        /// The database.
        location: String,
        /// What happened.
        reason: String,
    },
    /// The database's server cannot be reached; it may be there again soon.
    #[error("reach {location}: {reason}")]
    Unreachable {
        /// The database.
        location: String,
        /// What happened.
        reason: String,
    },
    /// The database's server does not let us in, or its address cannot be understood.
    #[error("open {location}: {reason}")]
    Refused {
        /// The database.
        location: String,
        /// What the server says.
        reason: String,
    },
    /// A database cannot be filled, as it is, with a copy or a backup.
    #[error("write {location}: {reason}")]
    Unfit {
        /// The database.
        location: String,
        /// What is in the way.
        reason: String,
    },
    /// A journal is being copied into the database, or was, and is not whole.
    #[error("use {location}: the copy of {from} into it is not finished")]
    Unfinished {
        /// The database.
        location: String,
        /// What is copied.
        from: String,
    },
    /// Stored JSON could not be read or written.
    #[error("read stored JSON")]
    Json(#[from] serde_json::Error),
    /// A stored id could not be read.
    #[error("read a stored id")]
    Id(#[from] IdError),
    /// A stored value is not what it should be.
    #[error("read a stored value: {0}")]
    Malformed(String),
    /// Anything else the embedded engine reports.
    #[error("use the database")]
    Sqlite(#[from] rusqlite::Error),
    /// Anything else the server, or the way to it, reports.
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    /// The file system failed.
    #[error("use {}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The failure.
        source: std::io::Error,
    },
}

impl Error {
    /// Returns that the newest checkpoint of the thread is another one.
    pub(crate) fn differing_checkpoint(thread_id: ThreadId) -> Self {
        Self::Differs { what: NEWEST_CHECKPOINT, id: thread_id.to_string() }
    }

    /// Returns whether a thread had another newest checkpoint than [`crate::Write::ExpectCheckpoint`] said.
    pub fn is_other_checkpoint(&self) -> bool {
        matches!(self, Self::Differs { what: NEWEST_CHECKPOINT, .. })
    }

    /// Returns that nothing is stored under that id.
    pub(crate) fn not_found(what: &'static str, id: &impl ToString) -> Self {
        Self::NotFound { what, id: id.to_string() }
    }

    /// Returns whether what is stored is not what it should be, which may be so of the row that was read alone.
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::Json(_) | Self::Id(_) | Self::Malformed(_))
    }

    /// Returns whether the same call may succeed later without anyone changing anything.
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Locked { .. } | Self::Unreachable { .. })
    }
}
