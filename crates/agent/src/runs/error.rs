//! Errors of operations on runs: finding, admitting, driving, rolling back and rating a run.

use std::borrow::Cow;
use std::path::PathBuf;

use protocol::{FailureKind, RunFailure, RunFeedback, RunId, ThreadId};

use crate::ErrorClass;
use crate::error::{ErrorAdvice, ambiguous_id_hint, store};

/// The reason why an operation on a run failed. A run that itself fails is not such an error: the failure is
/// stored as the run's outcome.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No run's id begins with the given text.
    #[error("find a run `{0}`")]
    Unknown(String),
    /// No id of a run, thread or handoff begins with the given text, so there is no trace to show.
    #[error("find a run, a thread or a handoff `{0}`")]
    UnknownTrace(String),
    /// Several ids begin with the given prefix.
    #[error("choose among {} ids that begin with `{prefix}`", matches.len())]
    Ambiguous {
        /// The given prefix.
        prefix: String,
        /// The matching ids. If they belong to different kinds, each is preceded by its kind.
        matches: Vec<String>,
    },
    /// The operation needs a model and none is configured.
    #[error("answer in thread {0}: no model is configured")]
    NoModel(ThreadId),
    /// Tool calls are executed in the folder in which they were proposed, and that folder does not exist on this
    /// machine.
    #[error("continue thread {thread_id}: its folder {} does not exist here", workspace.display())]
    WorkspaceGone {
        /// The thread.
        thread_id: ThreadId,
        /// The missing folder.
        workspace: PathBuf,
    },
    /// The path of the folder is not UTF-8. It cannot be stored with the run, so a later process could not
    /// resume the run in it.
    #[error("use the folder {}: the path is not UTF-8", .0.display())]
    WorkspaceNotUtf8(PathBuf),
    /// The thread was not moved to another folder.
    #[error("move thread {thread_id} to another folder: {reason}")]
    NotRehomed {
        /// The thread.
        thread_id: ThreadId,
        /// The reason.
        reason: String,
    },
    /// The admission of a run was refused.
    #[error("start a run: {}", .0.message)]
    Refused(RunFailure),
    /// An answer to pending interrupts came too late, names an interrupt that is not pending, or is invalid. Nothing
    /// was written.
    #[error("answer the question: {}", .0.message)]
    AnswerRefused(RunFailure),
    /// The run is running. Only queued and ended runs can be rolled back or deleted.
    #[error("roll back run {0}: it is running")]
    Active(RunId),
    /// Another run started later in the thread and would be rolled back with it.
    #[error("roll back run {run_id}: run {later_run_id} started after it")]
    HasLaterRun {
        /// The run.
        run_id: RunId,
        /// The later run.
        later_run_id: RunId,
    },
    /// A field of a run request contains text that looks like a key, a token or a password.
    #[error("store `{0}` of the request: it contains what looks like a secret")]
    SecretInRequest(String),
    /// A comment on a run is longer than [`RunFeedback::COMMENT_GRAPHEMES_MAX`].
    #[error("store the comment: it is longer than {} characters", RunFeedback::COMMENT_GRAPHEMES_MAX)]
    CommentTooLong,
    /// A run could not be admitted or driven.
    #[error(transparent)]
    Runtime(runtime::Error),
    /// A model could not be set up.
    #[error(transparent)]
    Model(model::Error),
}

impl RunError {
    /// Returns the class of the failure and a hint for the person.
    pub(crate) fn advice(&self) -> ErrorAdvice {
        match self {
            Self::Unknown(_) => {
                ErrorClass::User.with_hint("`segue history THREAD` shows the runs; the beginning of an id is enough")
            }
            Self::UnknownTrace(_) => ErrorClass::User.with_hint(
                "`segue threads list`, `segue history THREAD` and `segue handoff --list` show ids; a beginning is enough",
            ),
            Self::Ambiguous { matches, .. } => ErrorClass::User.with_hint(ambiguous_id_hint(matches)),
            Self::NoModel(_) => ErrorClass::Config.with_hint(
                "set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or pass `--model PROVIDER/NAME`; `segue models` \
                 shows what is missing",
            ),
            Self::WorkspaceGone { thread_id, .. } => ErrorClass::User.with_hint(format!(
                "`segue decide {thread_id} --here` proposes the calls again in this folder; `--reject` and new messages work anywhere"
            )),
            Self::WorkspaceNotUtf8(_) => {
                ErrorClass::User.with_hint("rename the folder with UTF-8 characters, or change to another one")
            }
            Self::NotRehomed { .. } => {
                ErrorClass::User.with_hint("nothing was changed; `segue threads show THREAD` shows the pending calls and their folder")
            }
            Self::Refused(failure) => (ErrorClass::User, failure.hint.clone().map(Cow::Owned)),
            Self::AnswerRefused(failure) => {
                let is_late = failure.kind == FailureKind::UnknownInterrupt;
                let class = if is_late { ErrorClass::Conflict } else { ErrorClass::User };
                (class, failure.hint.clone().map(Cow::Owned))
            }
            Self::Active(_) => ErrorClass::Conflict.with_hint("stop it first"),
            Self::HasLaterRun { .. } => ErrorClass::Conflict.with_hint("start at a checkpoint before it instead"),
            Self::SecretInRequest(_) => {
                ErrorClass::User.with_hint("leave it out: the request of a run is shown wherever runs are listed")
            }
            Self::CommentTooLong => ErrorClass::User.with_hint("shorten the comment"),
            Self::Runtime(error) => match error {
                runtime::Error::Journal(error) => store::advice(error),
                runtime::Error::Rejected { rejection: runtime::DecisionRejection::NotPending(_), .. } => ErrorClass::Conflict
                    .with_hint("nothing was changed; `segue history THREAD` shows what was decided"),
                runtime::Error::Rejected { .. } => ErrorClass::User
                    .with_hint("nothing was changed and the question is still pending; correct the decision and send it again"),
                runtime::Error::HeadConflict => (ErrorClass::Conflict, None),
                runtime::Error::LeaseExpired { .. } => (ErrorClass::Store, None),
                runtime::Error::Channel(_) => {
                    ErrorClass::Internal.with_hint("send a message: it cancels the pending step and starts a new turn")
                }
                runtime::Error::ShuttingDown | runtime::Error::Json(_) => (ErrorClass::Internal, None),
            },
            Self::Model(error) => match error {
                model::Error::Setup { .. } | model::Error::Unauthorized { .. } => ErrorClass::Config,
                model::Error::Unreachable { .. }
                | model::Error::IdleTimeout { .. }
                | model::Error::RateLimited { .. }
                | model::Error::ContextOverflow { .. }
                | model::Error::Refused { .. }
                | model::Error::Failed { .. }
                | model::Error::IllegalConversation { .. }
                | model::Error::MalformedAnswer { .. } => ErrorClass::Model,
            }
            .with_hint(runtime::model_hint(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_errors_name_the_failure_and_a_remedy() {
        let check = |error: RunError, text: &str, class: ErrorClass, hint: &str| {
            assert_eq!(error.to_string(), text);
            let (actual_class, advice) = error.advice();
            assert_eq!(
                (actual_class, advice.as_deref().unwrap_or_default().contains(hint)),
                (class, true),
                "{error}"
            );
        };
        check(RunError::Unknown("x".to_owned()), "find a run `x`", ErrorClass::User, "segue history");
        let text = "find a run, a thread or a handoff `x`";
        check(RunError::UnknownTrace("x".to_owned()), text, ErrorClass::User, "segue threads list");
        let ambiguous = RunError::Ambiguous { prefix: "x".to_owned(), matches: vec!["run x1".to_owned()] };
        let rejection = runtime::DecisionRejection::NotPending(protocol::InterruptStatus::Resolved);
        let resolved = runtime::Error::Rejected {
            interrupt_id: protocol::InterruptId::derive(protocol::RunId::generate(), 0, "tools"),
            rejection,
        };
        let text = "accept the decision: the question is no longer pending (resolved)";
        check(RunError::Runtime(resolved), text, ErrorClass::Conflict, "segue history");
        let interrupt_id = protocol::InterruptId::derive(protocol::RunId::generate(), 0, "tools");
        let already_decided = runtime::Error::Journal(journal::Error::AlreadyDecided { interrupt_id });
        let text = format!("answer interrupt {interrupt_id}: the question is no longer pending");
        check(
            RunError::Runtime(already_decided),
            &text,
            ErrorClass::Conflict,
            "another decision was recorded first",
        );
        check(
            ambiguous,
            "choose among 1 ids that begin with `x`",
            ErrorClass::User,
            "give more of the id: run x1",
        );
        let text = "store the comment: it is longer than 2000 characters";
        check(RunError::CommentTooLong, text, ErrorClass::User, "shorten");
        let head_conflict = "start the run: another run of the thread started and ended in the meantime";
        check(RunError::Runtime(runtime::Error::HeadConflict), head_conflict, ErrorClass::Conflict, "");
        let setup = model::Error::Setup { what: "x".to_owned(), reason: "y".to_owned() };
        check(RunError::Model(setup), "set up x: y", ErrorClass::Config, "");
        let failure = RunFailure::new(protocol::FailureKind::EmptyInput, "the input is empty");
        let late = RunFailure {
            hint: Some("the first decision holds".to_owned()),
            ..RunFailure::new(FailureKind::UnknownInterrupt, "it was answered: reject")
        };
        let text = "answer the question: it was answered: reject";
        check(RunError::AnswerRefused(late), text, ErrorClass::Conflict, "the first decision holds");
        let invalid = RunFailure::new(FailureKind::InvalidDecision, "no such type");
        let text = "answer the question: no such type";
        check(RunError::AnswerRefused(invalid), text, ErrorClass::User, "");
        check(RunError::Refused(failure), "start a run: the input is empty", ErrorClass::User, "");
    }
}
