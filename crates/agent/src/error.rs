//! Errors of the agent: the sum of the errors of its services, and the class of a failure. What each service can fail with,
//! with its class and its hint, is beside the service.

pub(crate) mod store;

use std::borrow::Cow;

use crate::{AdminError, HandoffError, HomeError, MemoryError, RunError, ThreadError};

/// The kind of a failure; front ends turn it into exit codes and HTTP statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The person asked for something that is not there or not possible.
    User,
    /// Another client was first, or a run is active.
    Conflict,
    /// A person stopped it.
    Stopped,
    /// A setting is wrong.
    Config,
    /// A model could not be used.
    Model,
    /// The data cannot be read or written.
    Store,
    /// Segue is at fault.
    Internal,
}

/// The kind of a failure, and what a person can do about it, as one sentence.
pub(crate) type Advice = (Class, Option<Cow<'static, str>>);

impl Class {
    pub(crate) fn with(self, hint: impl Into<Cow<'static, str>>) -> Advice {
        (self, Some(hint.into()))
    }
}

/// A failed call. A failure of the journal is always [`Error::Journal`], whichever service met it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A call about a thread failed.
    #[error(transparent)]
    Thread(#[from] ThreadError),
    /// A run could not be found, admitted or driven.
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
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// Something could not be written as JSON.
    #[error("write JSON")]
    Json(#[from] serde_json::Error),
    /// A blocking task panicked, or the program is about to end.
    #[error("finish a task")]
    Task(#[from] tokio::task::JoinError),
}

impl Error {
    /// Returns the kind of the failure.
    pub fn class(&self) -> Class {
        self.advice().0
    }

    /// Returns what a person can do about it, as one sentence.
    pub fn hint(&self) -> Option<String> {
        self.advice().1.map(Cow::into_owned)
    }

    /// Returns the text that is stored with a run that failed with this error.
    pub(crate) fn failure_text(&self) -> String {
        if matches!(self, Self::Run(RunError::NoModel(_))) {
            return "no model is configured".to_owned();
        }
        self.to_string()
    }

    fn advice(&self) -> Advice {
        match self {
            Self::Thread(error) => error.advice(),
            Self::Run(error) => error.advice(),
            Self::Handoff(error) => error.advice(),
            Self::Memory(error) => error.advice(),
            Self::Admin(error) => error.advice(),
            Self::Home(error) => error.advice(),
            Self::Journal(error) => store::advice(error),
            Self::Json(_) | Self::Task(_) => (Class::Internal, None),
        }
    }

    /// Returns whether another run of the thread, or another process, was there first.
    pub const fn is_outrun(&self) -> bool {
        matches!(
            self,
            Self::Run(RunError::Runtime(runtime::Error::Outrun) | RunError::Active(_))
                | Self::Journal(journal::Error::Busy { .. } | journal::Error::Fenced { .. })
        )
    }

    /// Returns whether another run of the thread is active: nothing was done, and the same call may succeed when that has
    /// ended.
    pub const fn is_busy(&self) -> bool {
        matches!(
            self,
            Self::Memory(MemoryError::Tiers(memory::SummarizationError::Busy { .. }))
                | Self::Journal(journal::Error::Busy { .. })
        )
    }

    /// Returns whether a run stopped between two steps because this process is about to end.
    pub const fn is_halted(&self) -> bool {
        matches!(self, Self::Run(RunError::Runtime(runtime::Error::Halted)))
    }

    /// Returns whether nobody could say in time that this process works on a run, for no fault of the run.
    pub const fn is_lease_end(&self) -> bool {
        matches!(self, Self::Run(RunError::Runtime(runtime::Error::LeaseEnded { .. })))
    }

    /// Returns whether what was named is not there, or is somebody else's, which looks the same.
    pub const fn is_absent(&self) -> bool {
        matches!(
            self,
            Self::Thread(
                ThreadError::Unknown(_)
                    | ThreadError::UnknownEvent { .. }
                    | ThreadError::UnknownCheckpoint { .. }
            ) | Self::Run(RunError::Unknown(_))
                | Self::Handoff(HandoffError::Unknown(_))
                | Self::Journal(journal::Error::NotFound { .. } | journal::Error::UnknownRun { .. })
        )
    }
}

/// Converts the error of a crate into that of the service to which it belongs; a failure of the journal that it holds is
/// [`Error::Journal`].
macro_rules! convert {
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

convert! {
    transcripts::Error => Thread(ThreadError::Transcript);
    protocol::UnreadableBody => Thread(ThreadError::Event);
    runtime::Error => Run(RunError::Runtime), unless runtime::Error::Journal;
    model::Error => Run(RunError::Model);
    handoff::mirror::Error => Handoff(HandoffError::Mirror), unless handoff::mirror::Error::Journal;
    memory::Error => Memory(MemoryError::AgentMd);
    memory::RecallError => Memory(MemoryError::Recall), unless memory::RecallError::Journal;
    memory::SummarizationError => Memory(MemoryError::Tiers), unless memory::SummarizationError::Journal;
    memory::ItemError => Memory(MemoryError::Item), unless memory::ItemError::Journal;
    tools::permission::Error => Admin(AdminError::Permission);
    mcp::Error => Admin(AdminError::Mcp);
    telemetry::Error => Admin(AdminError::Tracing);
}

/// Returns the hint where several ids begin with what was given.
pub(crate) fn more_of(matches: &[impl ToString]) -> String {
    let ids: Vec<String> = matches.iter().take(5).map(ToString::to_string).collect();
    format!("give more of the id: {}", ids.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_the_journal_is_one_whichever_service_met_it() {
        let run_id = protocol::RunId::generate();
        let unknown = || journal::Error::UnknownRun { thread_id: protocol::ThreadId::generate(), run_id };
        let errors: [Error; 6] = [
            unknown().into(),
            runtime::Error::Journal(unknown()).into(),
            handoff::mirror::Error::Journal(unknown()).into(),
            memory::RecallError::Journal(unknown()).into(),
            memory::SummarizationError::Journal(unknown()).into(),
            memory::ItemError::Journal(unknown()).into(),
        ];
        for error in errors {
            assert!(matches!(error, Error::Journal(_)), "{error:?}");
            assert!(error.is_absent(), "{error:?}");
        }
    }
}
