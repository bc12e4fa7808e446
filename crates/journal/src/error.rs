//! Errors of the journal. Each variant exists because a caller reacts to it.

use std::path::PathBuf;

use protocol::{HandoffId, HandoffStatus, IdError, InterruptId, RunId, RunStatus, Seq, ThreadId};

/// The `what` of a conflict about the newest checkpoint of a thread.
const NEWEST_CHECKPOINT: &str = "checkpoint of thread";

/// The `what` of a conflict about a thread that has messages.
const THREAD_WITHOUT_MESSAGE: &str = "message in thread";

/// An error of a read or write.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No row has this id.
    #[error("find {what} {id}")]
    NotFound {
        /// The kind of row, such as `thread`.
        what: &'static str,
        /// The id that was requested.
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
    /// The caller does not hold the lease of the run, or the run has ended. Nothing was written.
    #[error("write for run {run_id}: it is {} and its lease belongs to {owner}", status.as_str())]
    Fenced {
        /// The run.
        run_id: RunId,
        /// The status of the run.
        status: RunStatus,
        /// The process that holds the lease; empty if no process does.
        owner: String,
    },
    /// The interrupt has been answered or withdrawn already.
    #[error("answer interrupt {interrupt_id}: the question is no longer pending")]
    AlreadyDecided {
        /// The interrupt.
        interrupt_id: InterruptId,
    },
    /// The parent thread has a handoff that is being drafted or awaits a decision.
    #[error("request a handoff of thread {parent_thread_id}: handoff {handoff_id} is pending")]
    HandoffPending {
        /// The parent thread.
        parent_thread_id: ThreadId,
        /// The pending handoff.
        handoff_id: HandoffId,
    },
    /// The handoff does not have the expected status.
    #[error("change the status of handoff {handoff_id}: it is {}", status.as_str())]
    HandoffStatusChanged {
        /// The handoff.
        handoff_id: HandoffId,
        /// The current status.
        status: HandoffStatus,
    },
    /// The stored row differs from the expected one, or another row has the same key.
    #[error("store {what} {id}: a different one exists")]
    Conflict {
        /// The kind of row.
        what: &'static str,
        /// Its key.
        id: String,
    },
    /// An invalid request, such as a page of zero rows or an event that cannot be stored.
    #[error("read {what}: {reason}")]
    InvalidRequest {
        /// The requested rows, or the row to be stored.
        what: &'static str,
        /// The reason why the request is invalid.
        reason: String,
    },
    /// A later version of Segue created the database.
    #[error("open {}: a newer version of Segue wrote it (its schema is version {found}, this program knows up to {known})", path.display())]
    NewerSchema {
        /// The path or address of the database.
        path: PathBuf,
        /// Its schema version.
        found: u32,
        /// The newest schema version that this program knows.
        known: u32,
    },
    /// The file is not a database of Segue, or it is damaged.
    #[error("read {}: {reason}", path.display())]
    Corrupt {
        /// The path or address of the database.
        path: PathBuf,
        /// The problem that was found.
        reason: String,
    },
    /// The stored form of an event has changed since it was stored, or cannot be read. Its text is not served.
    #[error("read event {seq} of thread {thread_id}: its stored form is damaged")]
    DamagedEvent {
        /// The thread.
        thread_id: ThreadId,
        /// The seq of the event.
        seq: Seq,
    },
    /// The write-ahead log has fewer frames than it had: transactions that were acknowledged cannot be read. Nothing was
    /// changed.
    #[error(
        "read {}: its write-ahead log (-wal) is damaged: {frames} of {expected} frames can be read, so acknowledged transactions are lost",
        path.display()
    )]
    LostTransactions {
        /// The path of the database.
        path: PathBuf,
        /// Number of frames that can be read.
        frames: u32,
        /// Number of frames that the log had.
        expected: u32,
    },
    /// Another process held a lock on the database, or on a row, for longer than the wait.
    #[error("write {}: another process has locked it", path.display())]
    Locked {
        /// The path or address of the database.
        path: PathBuf,
    },
    /// The database cannot be read or written for lack of permission, or it is read-only.
    #[error("write {}: permission denied or read-only", path.display())]
    PermissionDenied {
        /// The path or address of the database.
        path: PathBuf,
    },
    /// The file of the database, or its write-ahead log, was deleted or replaced while it was open. What this process writes
    /// would be lost, so nothing that it wrote since is acknowledged.
    #[error("write {}: the file was deleted or replaced while segue was using it", path.display())]
    FileReplaced {
        /// The path of the database.
        path: PathBuf,
    },
    /// Another program has truncated the file of the database while it was open. Pages are missing, so nothing is acknowledged
    /// or written after that.
    #[error("write {}: the file was truncated to {length} bytes while segue was using it", path.display())]
    FileTruncated {
        /// The path of the database.
        path: PathBuf,
        /// The length of the file in bytes.
        length: u64,
    },
    /// This process has as many files open as the system allows. Often temporary: closed connections free some.
    #[error("open {}: too many files are open", path.display())]
    TooManyOpenFiles {
        /// The path of the database.
        path: PathBuf,
    },
    /// The disk is full.
    #[error("write {}: the disk is full", path.display())]
    DiskFull {
        /// The path or address of the database.
        path: PathBuf,
    },
    /// The store is closed.
    #[error("use the journal: it is closed")]
    Closed,
    /// The outcome of a transaction cannot be determined. Read the stored rows before anything is repeated.
    #[error("determine whether a transaction was committed to {location}: {reason}")]
    CommitUnknown {
        /// The address of the database.
        location: String,
        /// The reason why the outcome is unknown.
        reason: String,
    },
    /// The database server cannot be reached. Often temporary.
    #[error("reach {location}: {reason}")]
    Unreachable {
        /// The address of the database.
        location: String,
        /// The failure.
        reason: String,
    },
    /// The database server refused the connection, or its URL is invalid.
    #[error("open {location}: {reason}")]
    ConnectionRejected {
        /// The address of the database.
        location: String,
        /// The reason for the refusal.
        reason: String,
    },
    /// The database cannot be used as the target of a copy or a backup.
    #[error("write {location}: {reason}")]
    UnsuitableTarget {
        /// The path or address of the database.
        location: String,
        /// The reason why it is unsuitable.
        reason: String,
    },
    /// A copy of a journal into this database is in progress or was interrupted, so the data is incomplete.
    #[error("use {location}: the copy of {from} into it is not finished")]
    UnfinishedCopy {
        /// The path or address of the database.
        location: String,
        /// The path or address of the journal that is copied.
        from: String,
    },
    /// Stored JSON cannot be parsed, or a value cannot be serialized.
    #[error("read stored JSON")]
    Json(#[from] serde_json::Error),
    /// A stored id cannot be parsed.
    #[error("read a stored id")]
    Id(#[from] IdError),
    /// A stored value does not have the expected form.
    #[error("read a stored value: {0}")]
    Malformed(String),
    /// Any other error of SQLite.
    #[error("use the database")]
    Sqlite(#[from] rusqlite::Error),
    /// Any other error of PostgreSQL or its client.
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    /// A file system error.
    #[error("use {}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
}

impl Error {
    /// Returns the error for a thread whose newest checkpoint is not the expected one.
    pub(crate) fn checkpoint_conflict(thread_id: ThreadId) -> Self {
        Self::Conflict { what: NEWEST_CHECKPOINT, id: thread_id.to_string() }
    }

    /// Returns whether [`crate::Write::ExpectCheckpoint`] failed because the thread has another newest checkpoint.
    pub fn is_checkpoint_conflict(&self) -> bool {
        matches!(self, Self::Conflict { what: NEWEST_CHECKPOINT, .. })
    }

    /// Returns the error for a thread that has messages although none was expected.
    pub(crate) fn message_conflict(thread_id: ThreadId) -> Self {
        Self::Conflict { what: THREAD_WITHOUT_MESSAGE, id: thread_id.to_string() }
    }

    /// Returns whether [`crate::Write::ExpectNoMessage`] failed because the thread has messages.
    pub fn is_message_conflict(&self) -> bool {
        matches!(self, Self::Conflict { what: THREAD_WITHOUT_MESSAGE, .. })
    }

    /// Returns the error for a missing row.
    pub(crate) fn not_found(what: &'static str, id: &impl ToString) -> Self {
        Self::NotFound { what, id: id.to_string() }
    }

    /// Returns whether stored data is damaged. The damage may concern only the row that was read.
    pub const fn is_corruption(&self) -> bool {
        matches!(
            self,
            Self::Corrupt { .. }
                | Self::DamagedEvent { .. }
                | Self::LostTransactions { .. }
                | Self::Json(_)
                | Self::Id(_)
                | Self::Malformed(_)
        )
    }

    /// Returns whether the same call may succeed later without any other change.
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Locked { .. } | Self::Unreachable { .. })
    }
}
