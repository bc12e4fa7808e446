//! Refused admissions. A refusal becomes the failure of the run for an API client, and an error for a person at the
//! terminal.

use protocol::{CheckpointId, FailureKind, RunFailure};

use crate::{Error, ErrorClass, HandoffError, Result, RunError};

/// The reason why a request was not admitted as a run.
pub(in crate::runs) enum AdmissionRefusal {
    /// The request is invalid.
    Fault(RunFailure),
    /// Any other error.
    Error(Error),
}

/// The result of a step of an admission.
pub(in crate::runs) type AdmissionResult<T> = std::result::Result<T, AdmissionRefusal>;

impl<E: Into<Error>> From<E> for AdmissionRefusal {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

impl From<RunFailure> for AdmissionRefusal {
    fn from(failure: RunFailure) -> Self {
        Self::Fault(failure)
    }
}

impl AdmissionRefusal {
    /// Returns the failure with which the run of an API client ends.
    ///
    /// # Errors
    /// Returns the error if the request did not cause it, such as a failure of the journal. Nothing is written in
    /// that case.
    pub(in crate::runs) fn into_fault(self) -> Result<RunFailure> {
        let error = match self {
            Self::Fault(failure) => return Ok(failure),
            Self::Error(error) => error,
        };
        let (kind, text) = match &error {
            Error::Run(RunError::WorkspaceGone { .. }) => (FailureKind::Workspace, error.to_string()),
            Error::Run(RunError::WorkspaceNotUtf8(_)) => {
                (FailureKind::Workspace, format!("failed to {error}"))
            }
            Error::Run(RunError::NotRehomed { .. }) => {
                (FailureKind::UnknownInterrupt, format!("failed to {error}"))
            }
            Error::Run(RunError::NoModel(_)) => (FailureKind::Request, error.failure_text()),
            Error::Run(RunError::Runtime(runtime::Error::Rejected { interrupt_id, rejection })) => {
                let text = format!("failed to accept the answer to interrupt {interrupt_id}: {rejection}");
                (FailureKind::InvalidDecision, text)
            }
            Error::Journal(journal::Error::AlreadyDecided { interrupt_id }) => {
                let text = format!("not_pending: interrupt {interrupt_id} was answered by another client");
                (FailureKind::UnknownInterrupt, text)
            }
            Error::Handoff(
                HandoffError::Expired { .. }
                | HandoffError::AlreadyDecided { .. }
                | HandoffError::Redrafting(_)
                | HandoffError::Superseded { .. },
            ) => (FailureKind::UnknownInterrupt, format!("not_pending: failed to {error}")),
            Error::Handoff(HandoffError::NotShown { .. }) => {
                (FailureKind::UnknownInterrupt, format!("failed to {error}"))
            }
            Error::Handoff(HandoffError::NotMergeable { .. }) => {
                (FailureKind::InvalidDecision, format!("failed to {error}"))
            }
            Error::Run(RunError::Runtime(runtime::Error::Channel(_))) => {
                let unreadable = RunFailure::new(FailureKind::Internal, format!("failed to {error}"));
                return Ok(RunFailure { hint: error.hint(), ..unreadable });
            }
            error if matches!(error.class(), ErrorClass::Config | ErrorClass::Model) => {
                (FailureKind::Request, format!("failed to {error}"))
            }
            _ => return Err(error),
        };
        Ok(RunFailure { hint: error.hint(), ..RunFailure::new(kind, text) })
    }

    /// Returns the error for a person at the terminal.
    pub(in crate::runs) fn into_error(self) -> Error {
        match self {
            Self::Fault(failure) => RunError::Refused(failure).into(),
            Self::Error(error) => error,
        }
    }
}

/// Returns the failure of an answer to the question of a node that the graph does not have.
pub(super) fn unknown_node_failure(node: &str) -> RunFailure {
    let excerpt: String = node.chars().take(80).collect();
    let message = format!("the question was asked by the node `{excerpt}`, which is unknown here");
    RunFailure {
        hint: Some("send a message; it cancels the question".to_owned()),
        ..RunFailure::new(FailureKind::InvalidDecision, message)
    }
}

/// Returns the failure of a run without messages on an empty thread.
pub(super) fn empty_input_failure() -> RunFailure {
    RunFailure::new(FailureKind::EmptyInput, "the thread is empty, and the input has no message")
}

/// Returns the failure of a request that names a checkpoint which the thread does not have.
pub(super) fn unknown_checkpoint_failure(checkpoint_id: CheckpointId) -> RunFailure {
    RunFailure::new(
        FailureKind::UnknownCheckpoint,
        format!("failed to find checkpoint `{checkpoint_id}` in the thread"),
    )
}
