//! Errors of runs: finding, admitting, driving, undoing and rating them.

use std::borrow::Cow;
use std::path::PathBuf;

use protocol::{RunFailure, RunFeedback, RunId, ThreadId};

use crate::Class;
use crate::error::{Advice, more_of, store};

/// Why a call about a run failed. A run that fails is no error: its end says so.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No run's id begins with that.
    #[error("find a run `{0}`")]
    Unknown(String),
    /// No id of a run, a thread or a handoff, whose trace could be shown, begins with that.
    #[error("find a run, a thread or a handoff `{0}`")]
    UnknownTrace(String),
    /// Several ids begin with that.
    #[error("choose among {} ids that begin with `{prefix}`", matches.len())]
    Ambiguous {
        /// What was given.
        prefix: String,
        /// The ids; where they are not all of runs, each with what it is of.
        matches: Vec<String>,
    },
    /// No model is configured, and the call needs one.
    #[error("answer in thread {0}: no model is configured")]
    NoModel(ThreadId),
    /// Calls are made in the folder in which they were proposed, and that does not exist here.
    #[error("go on with thread {thread_id}: its folder {} does not exist here", workspace.display())]
    WorkspaceGone {
        /// The thread.
        thread_id: ThreadId,
        /// The folder.
        workspace: PathBuf,
    },
    /// The path of the folder cannot be stored as text, so its calls could not be made in it later.
    #[error("begin a run in {}: the path is not UTF-8", .0.display())]
    WorkspaceNotUtf8(PathBuf),
    /// The thread stays in its folder.
    #[error("move thread {thread_id} to another folder: {why}")]
    NotMoved {
        /// The thread.
        thread_id: ThreadId,
        /// Why.
        why: String,
    },
    /// A run cannot begin as it was asked for.
    #[error("begin a run: {}", .0.message)]
    Refused(RunFailure),
    /// The run is not waiting and has not ended: it cannot be taken back or forgotten.
    #[error("take run {0} back: it is running")]
    Active(RunId),
    /// Another run came after it in the thread, and would be taken back with it.
    #[error("take run {run_id} back: run {behind} came after it")]
    Followed {
        /// The run.
        run_id: RunId,
        /// The other one.
        behind: RunId,
    },
    /// A request for a run holds what looks like a key, a token or a password.
    #[error("keep `{0}` of the request: it holds what looks like a secret")]
    SecretInRequest(String),
    /// A comment on a run is too long.
    #[error("keep the comment: it is longer than {} characters", RunFeedback::COMMENT_GRAPHEMES_MAX)]
    CommentTooLong,
    /// A run could not be admitted or driven.
    #[error(transparent)]
    Runtime(runtime::Error),
    /// A model could not be set up.
    #[error(transparent)]
    Model(model::Error),
}

impl RunError {
    pub(crate) fn advice(&self) -> Advice {
        match self {
            Self::Unknown(_) => {
                Class::User.with("`segue history THREAD` shows the runs; the beginning of an id is enough")
            }
            Self::UnknownTrace(_) => Class::User.with(
                "`segue threads list`, `segue history THREAD` and `segue handoff --list` show ids; a beginning is enough",
            ),
            Self::Ambiguous { matches, .. } => Class::User.with(more_of(matches)),
            Self::NoModel(_) => Class::Config.with(
                "set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or pass `--model PROVIDER/NAME`; `segue models` \
                 shows what is missing",
            ),
            Self::WorkspaceGone { thread_id, .. } => Class::User.with(format!(
                "`segue decide {thread_id} --here` asks again in this folder; `--reject` and new messages work anywhere"
            )),
            Self::WorkspaceNotUtf8(_) => {
                Class::User.with("rename the folder with UTF-8 characters, or change to another one")
            }
            Self::NotMoved { .. } => {
                Class::User.with("nothing was changed; `segue threads show THREAD` shows what waits, and where")
            }
            Self::Refused(fault) => (Class::User, fault.hint.clone().map(Cow::Owned)),
            Self::Active(_) => Class::Conflict.with("stop it first"),
            Self::Followed { .. } => Class::Conflict.with("begin at a checkpoint before it instead"),
            Self::SecretInRequest(_) => {
                Class::User.with("leave it out: what a run was asked with is shown wherever runs are listed")
            }
            Self::CommentTooLong => Class::User.with("say it in fewer words"),
            Self::Runtime(error) => match error {
                runtime::Error::Journal(error) => store::advice(error),
                runtime::Error::Rejected { rejection: runtime::Rejection::NotPending(_), .. } => Class::Conflict
                    .with("nothing was changed; `segue history THREAD` shows what was decided"),
                runtime::Error::Rejected { .. } => Class::User
                    .with("nothing was changed and it still waits; mend the decision and give it again"),
                runtime::Error::Outrun => (Class::Conflict, None),
                runtime::Error::LeaseEnded { .. } => (Class::Store, None),
                runtime::Error::Channel(_) => {
                    Class::Internal.with("send a message: that withdraws what waits and begins anew")
                }
                runtime::Error::Halted | runtime::Error::Json(_) => (Class::Internal, None),
            },
            Self::Model(error) => match error {
                model::Error::Setup { .. } | model::Error::Unauthorized { .. } => Class::Config,
                model::Error::Unreachable { .. }
                | model::Error::Silent { .. }
                | model::Error::Limited { .. }
                | model::Error::Overflow { .. }
                | model::Error::Refused { .. }
                | model::Error::Failed { .. }
                | model::Error::Illegal { .. }
                | model::Error::Broken { .. } => Class::Model,
            }
            .with(runtime::model_hint(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_runs_say_what_failed_and_what_can_be_done() {
        let check = |error: RunError, text: &str, class: Class, hint: &str| {
            assert_eq!(error.to_string(), text);
            let (found, advice) = error.advice();
            assert_eq!(
                (found, advice.as_deref().unwrap_or_default().contains(hint)),
                (class, true),
                "{error}"
            );
        };
        check(RunError::Unknown("x".to_owned()), "find a run `x`", Class::User, "segue history");
        let text = "find a run, a thread or a handoff `x`";
        check(RunError::UnknownTrace("x".to_owned()), text, Class::User, "segue threads list");
        let ambiguous = RunError::Ambiguous { prefix: "x".to_owned(), matches: vec!["run x1".to_owned()] };
        let rejection = runtime::Rejection::NotPending(protocol::InterruptStatus::Resolved);
        let over = runtime::Error::Rejected {
            interrupt_id: protocol::InterruptId::derive(protocol::RunId::generate(), 0, "tools"),
            rejection,
        };
        let text = "take that decision: the question is resolved already";
        check(RunError::Runtime(over), text, Class::Conflict, "segue history");
        check(
            ambiguous,
            "choose among 1 ids that begin with `x`",
            Class::User,
            "give more of the id: run x1",
        );
        let text = "keep the comment: it is longer than 2000 characters";
        check(RunError::CommentTooLong, text, Class::User, "fewer words");
        let outrun = "begin a run: another one came and went meanwhile";
        check(RunError::Runtime(runtime::Error::Outrun), outrun, Class::Conflict, "");
        let setup = model::Error::Setup { what: "x".to_owned(), reason: "y".to_owned() };
        check(RunError::Model(setup), "set up x: y", Class::Config, "");
        let fault = RunFailure::new(protocol::FailureKind::EmptyInput, "nothing was put in");
        check(RunError::Refused(fault), "begin a run: nothing was put in", Class::User, "");
    }
}
