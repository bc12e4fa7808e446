//! Errors of handoffs: finding, requesting and deciding them, and the PostgreSQL copy of accepted ones.

use handoff::mirror;
use protocol::{HandoffId, HandoffStatus, InterruptId, ThreadId};

use crate::Class;
use crate::error::{Advice, more_of, store};

/// Why a call about a handoff failed.
#[derive(Debug, thiserror::Error)]
pub enum HandoffError {
    /// There is no handoff with that id.
    #[error("find handoff `{0}`")]
    Unknown(String),
    /// Several handoffs' ids begin with that.
    #[error("choose among {} handoffs that begin with `{prefix}`", matches.len())]
    Ambiguous {
        /// What was given.
        prefix: String,
        /// The first of them.
        matches: Vec<HandoffId>,
    },
    /// The interrupt asks about something other than a handoff.
    #[error("decide interrupt {0} as a handoff: it asks about something else")]
    NotAHandoff(InterruptId),
    /// The handoff is of another thread than the one that was named with it.
    #[error("decide handoff {handoff_id} in thread {thread_id}: it is of another thread")]
    Foreign {
        /// The handoff.
        handoff_id: HandoffId,
        /// The thread that was named.
        thread_id: ThreadId,
        /// The thread it is of.
        parent_thread_id: ThreadId,
    },
    /// Nothing was said in the thread.
    #[error("hand off thread {0}: nothing was said in it")]
    EmptyThread(ThreadId),
    /// The handoff was given up because nobody decided about it.
    #[error("decide handoff {handoff_id}: it was given up: {reason}")]
    Expired {
        /// The handoff.
        handoff_id: HandoffId,
        /// Why.
        reason: String,
    },
    /// The handoff is being drafted again for another client.
    #[error("decide handoff {0}: another draft of it is being made")]
    Redrafting(HandoffId),
    /// The handoff was decided before, here or elsewhere.
    #[error("decide handoff {handoff_id}: it is {} already", status.outcome())]
    Decided {
        /// The handoff.
        handoff_id: HandoffId,
        /// Its outcome.
        status: HandoffStatus,
    },
    /// A person stopped the draft.
    #[error("draft a handoff of thread {0}: it was stopped")]
    Stopped(ThreadId),
    /// The run that carries a handoff ended without a proposal.
    #[error("draft a handoff of thread {thread_id}: {reason}")]
    NotDrafted {
        /// The thread.
        thread_id: ThreadId,
        /// Why.
        reason: String,
    },
    /// The mirror could not be read or written.
    #[error(transparent)]
    Mirror(mirror::Error),
}

impl HandoffError {
    pub(crate) fn advice(&self) -> Advice {
        match self {
            Self::Unknown(_) => Class::User.with("`segue handoff --list` shows those that wait"),
            Self::Ambiguous { matches, .. } => Class::User.with(more_of(matches)),
            Self::NotAHandoff(interrupt_id) => {
                Class::User.with(format!("`segue decide {interrupt_id}` answers what it asks"))
            }
            Self::Foreign { parent_thread_id, .. } => Class::User.with(format!(
                "it is of thread {parent_thread_id}; `segue handoff --list` shows which waits where"
            )),
            Self::EmptyThread(_) => {
                Class::User.with("there is nothing to carry over: begin a new thread with `segue chat`")
            }
            Self::Redrafting(handoff_id) => Class::Conflict
                .with(format!("look at it again in a moment: `segue handoff --decide {handoff_id}`")),
            Self::Expired { .. } => Class::Conflict.with(
                "ask for it again: `segue handoff THREAD`; `handoff.expires_after_days` in config.toml says how long one waits",
            ),
            Self::Decided { handoff_id, .. } => Class::Conflict.with(format!(
                "the first decision holds; `segue handoff --show {handoff_id}` shows what came of it"
            )),
            Self::Stopped(_) => Class::Stopped.with("no draft was kept of it; ask for it again"),
            Self::NotDrafted { .. } => {
                Class::Internal.with("run the same command again: it goes on where this one stopped")
            }
            Self::Mirror(mirror::Error::Journal(error)) => store::advice(error),
            Self::Mirror(error) if error.is_setting() => Class::Config.with(error.hint()),
            Self::Mirror(error) => Class::Store.with(error.hint()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_handoffs_say_what_failed_and_what_can_be_done() {
        let handoff_id = HandoffId::generate();
        let check = |error: HandoffError, text: &str, class: Class, hint: &str| {
            assert_eq!(error.to_string(), text.replace("ID", &handoff_id.to_string()));
            let (found, advice) = error.advice();
            assert_eq!(
                (found, advice.as_deref().unwrap_or_default().contains(hint)),
                (class, true),
                "{error}"
            );
        };
        check(HandoffError::Unknown("x".to_owned()), "find handoff `x`", Class::User, "segue handoff --list");
        let again = "decide handoff ID: another draft of it is being made";
        check(HandoffError::Redrafting(handoff_id), again, Class::Conflict, &handoff_id.to_string());
        let decided = HandoffError::Decided { handoff_id, status: HandoffStatus::Declined };
        check(
            decided,
            "decide handoff ID: it is declined already",
            Class::Conflict,
            "the first decision holds",
        );
        let expired = HandoffError::Expired { handoff_id, reason: "nobody decided".to_owned() };
        let text = "decide handoff ID: it was given up: nobody decided";
        check(expired, text, Class::Conflict, "expires_after_days");
        let text = "reach the database: no answer within";
        let silent = HandoffError::Mirror(mirror::Error::Silent);
        assert!(silent.to_string().starts_with(text));
        assert_eq!(silent.advice().0, Class::Store);
    }
}
