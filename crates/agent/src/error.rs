//! Errors of the agent: one enum over the errors of its services, and the class of a failure. The variants of
//! each service, with their classes and hints, are defined beside that service.

pub(crate) mod store;

use std::borrow::Cow;

use protocol::RunRef;

use crate::{AdminError, HandoffError, HomeError, MemoryError, RunError, ThreadError};

/// The class of a failure. Front ends convert it into exit codes and HTTP statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// The request names a missing object or is not possible.
    User,
    /// Another client acted first, or a run of the thread is active.
    Conflict,
    /// A person stopped the operation.
    Stopped,
    /// A setting is wrong.
    Config,
    /// No model could be used, or a model call failed.
    Model,
    /// Stored data could not be read or written.
    Store,
    /// A defect of Segue.
    Internal,
}

/// The class of a failure, and optionally a hint: one sentence that says what a person can do.
pub(crate) type ErrorAdvice = (ErrorClass, Option<Cow<'static, str>>);

impl ErrorClass {
    /// Combines the class with a hint.
    pub(crate) fn with_hint(self, hint: impl Into<Cow<'static, str>>) -> ErrorAdvice {
        (self, Some(hint.into()))
    }
}

/// A failed call of the agent. A failure of the journal is always [`Error::Journal`], whichever service
/// encountered it.
///
/// The text of an error completes the words "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A call about a thread failed.
    #[error(transparent)]
    Thread(#[from] ThreadError),
    /// A run could not be found, admitted or executed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A call about a handoff failed.
    #[error(transparent)]
    Handoff(#[from] HandoffError),
    /// A call about memory failed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// An administrative call failed.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// The home folder, the configuration or the database could not be opened.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// Reading from or writing to the journal failed.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// A value could not be serialized as JSON.
    #[error("write JSON")]
    Json(#[from] serde_json::Error),
    /// A blocking task panicked, or the runtime shut down before the task finished.
    #[error("finish a task")]
    Task(#[from] tokio::task::JoinError),
}

impl Error {
    /// Returns the class of the failure.
    pub fn class(&self) -> ErrorClass {
        self.advice().0
    }

    /// Returns a hint, one sentence that says what a person can do; `None` if no action helps.
    pub fn hint(&self) -> Option<String> {
        self.advice().1.map(Cow::into_owned)
    }

    /// Returns the text that is stored with a run that failed with this error. For a missing model it is
    /// shorter than the error itself, because the run already names its thread.
    pub(crate) fn failure_text(&self) -> String {
        if matches!(self, Self::Run(RunError::NoModel(_))) {
            return "no model is configured".to_owned();
        }
        self.to_string()
    }

    /// Returns the class and the hint that the service gives for the error.
    fn advice(&self) -> ErrorAdvice {
        match self {
            Self::Thread(error) => error.advice(),
            Self::Run(error) => error.advice(),
            Self::Handoff(error) => error.advice(),
            Self::Memory(error) => error.advice(),
            Self::Admin(error) => error.advice(),
            Self::Home(error) => error.advice(),
            Self::Journal(error) => store::advice(error),
            Self::Json(_) | Self::Task(_) => (ErrorClass::Internal, None),
        }
    }

    /// Returns whether another run of the thread, or another process, committed first.
    pub const fn has_lost_race(&self) -> bool {
        matches!(
            self,
            Self::Run(RunError::Runtime(runtime::Error::HeadConflict) | RunError::Active(_))
                | Self::Journal(journal::Error::Busy { .. } | journal::Error::Fenced { .. })
        )
    }

    /// Returns whether another run of the thread is active. Nothing was done, and the same call may succeed
    /// when that run has ended.
    pub const fn is_busy(&self) -> bool {
        matches!(
            self,
            Self::Memory(MemoryError::Summarization(memory::SummarizationError::Busy { .. }))
                | Self::Journal(journal::Error::Busy { .. })
        )
    }

    /// Returns the active run because of which the journal refused a call; `None` for other failures. Nothing was
    /// stored by the write that was refused.
    pub const fn blocking_run(&self) -> Option<RunRef> {
        if let Self::Journal(journal::Error::Busy { thread_id, run_id }) = self {
            return Some(RunRef { thread_id: *thread_id, run_id: *run_id });
        }
        None
    }

    /// Returns whether the disk with the database, the home folder or `agent.md` is full. Reading works, and nothing of the
    /// write that failed was stored.
    pub const fn is_disk_full(&self) -> bool {
        matches!(
            self,
            Self::Journal(journal::Error::DiskFull { .. })
                | Self::Home(HomeError::Full { .. })
                | Self::Memory(MemoryError::AgentFile(memory::Error::DiskFull { .. }))
        )
    }

    /// Returns whether the database could not be used at this moment, for a cause that often passes: a lock, a server that
    /// cannot be reached, or too many open files.
    pub const fn is_database_unavailable(&self) -> bool {
        matches!(
            self,
            Self::Journal(
                journal::Error::Locked { .. }
                    | journal::Error::Unreachable { .. }
                    | journal::Error::TooManyOpenFiles { .. }
            )
        )
    }

    /// Returns whether the ancestors of a thread cannot be searched, because one was deleted or it is unknown which part of
    /// it belongs to the conversation. The thread alone can be searched.
    pub const fn has_broken_lineage(&self) -> bool {
        use memory::RecallError::{BranchUnknown, Cycle, ParentMissing};
        matches!(
            self,
            Self::Memory(MemoryError::Recall(ParentMissing { .. } | BranchUnknown { .. } | Cycle { .. }))
        )
    }

    /// Returns whether the file of the database was deleted, replaced or truncated while it was open.
    pub const fn is_database_lost(&self) -> bool {
        matches!(
            self,
            Self::Journal(journal::Error::FileReplaced { .. } | journal::Error::FileTruncated { .. })
        )
    }

    /// Returns whether a stored event is damaged. Its content is not served.
    pub const fn is_event_damaged(&self) -> bool {
        matches!(self, Self::Journal(journal::Error::DamagedEvent { .. }))
    }

    /// Returns whether a run stopped between two steps because this process is shutting down.
    pub const fn is_halted(&self) -> bool {
        matches!(self, Self::Run(RunError::Runtime(runtime::Error::ShuttingDown)))
    }

    /// Returns whether this process could not renew its lease of a run in time. The run itself is not at
    /// fault.
    pub const fn is_lease_expired(&self) -> bool {
        matches!(self, Self::Run(RunError::Runtime(runtime::Error::LeaseExpired { .. })))
    }

    /// Returns whether the named object does not exist or belongs to another owner. Callers cannot
    /// distinguish the two cases.
    pub const fn is_not_found(&self) -> bool {
        matches!(
            self,
            Self::Thread(
                ThreadError::Unknown(_)
                    | ThreadError::UnknownEvent { .. }
                    | ThreadError::UnknownCheckpoint { .. }
            ) | Self::Run(RunError::Unknown(_))
                | Self::Handoff(HandoffError::Unknown(_))
                | Self::Memory(
                    MemoryError::Pin(memory::PinError::Unknown { .. })
                        | MemoryError::Fact(memory::FactError::Unknown(_))
                        | MemoryError::History(memory::HistoryError::UnknownRevision { .. })
                )
                | Self::Journal(journal::Error::NotFound { .. } | journal::Error::UnknownRun { .. })
        )
    }
}

/// Implements `From` for the error of another crate, as a variant of the service to which it belongs. With
/// `unless`, a journal failure inside the error becomes [`Error::Journal`] instead.
macro_rules! impl_from_errors {
    ($($source:ty => $service:ident($error:path) $(, unless $journal:path)?;)*) => {$(
        impl From<$source> for Error {
            fn from(error: $source) -> Self {
                match error {
                    $($journal(error) => Self::Journal(error),)?
                    error => Self::$service($error(error)),
                }
            }
        }
    )*};
}

impl_from_errors! {
    transcripts::Error => Thread(ThreadError::Transcript);
    protocol::EventBodyError => Thread(ThreadError::Event);
    runtime::Error => Run(RunError::Runtime), unless runtime::Error::Journal;
    model::Error => Run(RunError::Model);
    handoff::mirror::Error => Handoff(HandoffError::Mirror), unless handoff::mirror::Error::Journal;
    memory::Error => Memory(MemoryError::AgentFile);
    memory::RecallError => Memory(MemoryError::Recall), unless memory::RecallError::Journal;
    memory::SummarizationError => Memory(MemoryError::Summarization), unless memory::SummarizationError::Journal;
    memory::ItemError => Memory(MemoryError::Item), unless memory::ItemError::Journal;
    memory::EmbeddingWorkError => Memory(MemoryError::Embedding), unless memory::EmbeddingWorkError::Journal;
    memory::PinError => Memory(MemoryError::Pin), unless memory::PinError::Journal;
    tools::permission::Error => Admin(AdminError::Permission);
    mcp::Error => Admin(AdminError::Mcp);
    telemetry::Error => Admin(AdminError::Tracing);
}

/// A failure of the file or the journal is the same variant as for other calls.
impl From<memory::HistoryError> for Error {
    fn from(error: memory::HistoryError) -> Self {
        match error {
            memory::HistoryError::File(error) => error.into(),
            memory::HistoryError::Journal(error) => error.into(),
            memory::HistoryError::Task(error) => error.into(),
            error @ memory::HistoryError::UnknownRevision { .. } => Self::Memory(MemoryError::History(error)),
        }
    }
}

/// A failure of the file or the journal is the same variant as for other calls.
impl From<memory::FactError> for Error {
    fn from(error: memory::FactError) -> Self {
        match error {
            memory::FactError::History(error) => error.into(),
            memory::FactError::Journal(error) => error.into(),
            error @ (memory::FactError::Unknown(_)
            | memory::FactError::Ambiguous { .. }
            | memory::FactError::AlreadyDecided { .. }
            | memory::FactError::Contended { .. }) => Self::Memory(MemoryError::Fact(error)),
        }
    }
}

/// Returns the given id as an error names it after the kind of thing that was searched.
pub(crate) fn given_id(text: &str) -> String {
    if text.trim().is_empty() { ": the id is empty".to_owned() } else { format!(" `{text}`") }
}

/// Returns the hint for an id prefix that matches several ids. It lists the first five of them.
pub(crate) fn ambiguous_id_hint(matches: &[impl ToString]) -> String {
    let ids: Vec<String> = matches.iter().take(5).map(ToString::to_string).collect();
    format!("give more of the id: {}", ids.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_failure_is_the_same_variant_for_every_service() {
        let run_id = protocol::RunId::generate();
        let unknown = || journal::Error::UnknownRun { thread_id: protocol::ThreadId::generate(), run_id };
        let errors: [Error; 7] = [
            unknown().into(),
            runtime::Error::Journal(unknown()).into(),
            handoff::mirror::Error::Journal(unknown()).into(),
            memory::RecallError::Journal(unknown()).into(),
            memory::SummarizationError::Journal(unknown()).into(),
            memory::ItemError::Journal(unknown()).into(),
            memory::PinError::Journal(unknown()).into(),
        ];
        for error in errors {
            assert!(matches!(error, Error::Journal(_)), "{error:?}");
            assert!(error.is_not_found(), "{error:?}");
        }
    }

    #[test]
    fn a_full_disk_is_recognized_whichever_file_was_written() {
        let path = || std::path::PathBuf::from("p");
        let full = || memory::Error::DiskFull { path: path() };
        let errors: [Error; 5] = [
            journal::Error::DiskFull { path: path() }.into(),
            HomeError::Full { path: path() }.into(),
            full().into(),
            memory::HistoryError::File(full()).into(),
            memory::FactError::History(full().into()).into(),
        ];
        for error in errors {
            assert!(error.is_disk_full(), "{error:?}");
        }
        assert!(!Error::from(memory::Error::BlankNote).is_disk_full());
    }

    #[test]
    fn a1_the_hint_about_a_replaced_database_tells_that_both_its_files_are_needed() {
        let error = Error::from(journal::Error::FileReplaced { path: "p".into() });
        let hint = error.hint().unwrap();
        assert!(
            hint.contains("the database and its -wal file together") && hint.contains("may be only in them")
        );
    }

    #[test]
    fn only_a_busy_thread_names_the_run_that_blocks_a_call() {
        let run = RunRef { thread_id: protocol::ThreadId::generate(), run_id: protocol::RunId::generate() };
        let RunRef { thread_id, run_id } = run;
        assert_eq!(Error::from(journal::Error::Busy { thread_id, run_id }).blocking_run(), Some(run));
        assert_eq!(Error::from(journal::Error::UnknownRun { thread_id, run_id }).blocking_run(), None);
    }
}
