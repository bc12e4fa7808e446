//! Why a request does not lead to a run that works: a client's run ends with a fault, a person at the terminal is told an
//! error.

use crate::{Class, Error, HandoffError, Result, RunError};
use protocol::{FailureKind, RunFailure};

/// Why a request did not lead to a run that works.
pub(in crate::requests) enum Refused {
    /// A fault of the request.
    Fault(RunFailure),
    /// Anything else.
    Error(Error),
}

/// What an admission comes to, step by step.
pub(in crate::requests) type Tried<T> = std::result::Result<T, Refused>;

impl<E: Into<Error>> From<E> for Refused {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

impl From<RunFailure> for Refused {
    fn from(fault: RunFailure) -> Self {
        Self::Fault(fault)
    }
}

impl Refused {
    /// Returns the fault with which the run of a client ends.
    ///
    /// # Errors
    /// When it is none of the request's, and nothing is written.
    pub(in crate::requests) fn into_fault(self) -> Result<RunFailure> {
        let error = match self {
            Self::Fault(fault) => return Ok(fault),
            Self::Error(error) => error,
        };
        let (kind, text) = match &error {
            Error::Run(RunError::WorkspaceGone { .. }) => (FailureKind::Workspace, error.to_string()),
            Error::Run(RunError::WorkspaceNotUtf8(_)) => {
                (FailureKind::Workspace, format!("failed to {error}"))
            }
            Error::Run(RunError::NotMoved { .. }) => {
                (FailureKind::UnknownInterrupt, format!("failed to {error}"))
            }
            Error::Run(RunError::NoModel(_)) => (FailureKind::Request, error.failure_text()),
            Error::Run(RunError::Runtime(runtime::Error::Rejected { interrupt_id, rejection })) => {
                let text = format!("failed to take the answer to interrupt {interrupt_id}: {rejection}");
                (FailureKind::InvalidDecision, text)
            }
            Error::Journal(journal::Error::AlreadyDecided { interrupt_id }) => {
                let text = format!("not_pending: interrupt {interrupt_id} was answered by somebody else");
                (FailureKind::UnknownInterrupt, text)
            }
            Error::Handoff(
                HandoffError::Expired { .. } | HandoffError::Decided { .. } | HandoffError::Redrafting(_),
            ) => (FailureKind::UnknownInterrupt, format!("not_pending: failed to {error}")),
            Error::Run(RunError::Runtime(runtime::Error::Channel(_))) => {
                let unreadable = RunFailure::new(FailureKind::Internal, format!("failed to {error}"));
                return Ok(RunFailure { hint: error.hint(), ..unreadable });
            }
            error if matches!(error.class(), Class::Config | Class::Model) => {
                (FailureKind::Request, format!("failed to {error}"))
            }
            _ => return Err(error),
        };
        Ok(RunFailure { hint: error.hint(), ..RunFailure::new(kind, text) })
    }

    /// Returns the error that a person at the terminal is told.
    pub(in crate::requests) fn into_error(self) -> Error {
        match self {
            Self::Fault(fault) => RunError::Refused(fault).into(),
            Self::Error(error) => error,
        }
    }
}
