//! Errors of handoffs: finding, requesting and deciding them, and the export of accepted ones to PostgreSQL.

use handoff::mirror;
use protocol::{HandoffId, HandoffStatus, InterruptId, ThreadId};

use crate::ErrorClass;
use crate::error::{ErrorAdvice, ambiguous_id_hint, given_id, store};

/// The reason why a handoff call failed.
#[derive(Debug, thiserror::Error)]
pub enum HandoffError {
    /// No handoff has that id.
    #[error("find handoff{}", given_id(.0))]
    Unknown(String),
    /// The ids of several handoffs begin with the given prefix.
    #[error("choose among {} handoffs that begin with `{prefix}`", matches.len())]
    Ambiguous {
        /// The given prefix.
        prefix: String,
        /// The matching handoffs, or the first of them.
        matches: Vec<HandoffId>,
    },
    /// The interrupt is not the question of a handoff.
    #[error("decide interrupt {0} as a handoff: it asks about something else")]
    NotAHandoff(InterruptId),
    /// The handoff belongs to a thread other than the one that was named with it.
    #[error("decide handoff {handoff_id} in thread {thread_id}: it belongs to another thread")]
    OtherThread {
        /// The handoff.
        handoff_id: HandoffId,
        /// The named thread.
        thread_id: ThreadId,
        /// The thread to which the handoff belongs.
        parent_thread_id: ThreadId,
    },
    /// The goal is too long.
    #[error("hand off with this goal: {0}")]
    GoalTooLong(#[from] handoff::GoalTooLong),
    /// The thread has no messages to hand off.
    #[error("hand off thread {0}: it has no messages")]
    EmptyThread(ThreadId),
    /// The handoff expired because it was not decided in time.
    #[error("decide handoff {handoff_id}: it expired: {reason}")]
    Expired {
        /// The handoff.
        handoff_id: HandoffId,
        /// The recorded reason.
        reason: String,
    },
    /// The proposal could not be probed.
    #[error("probe the handoff of thread {thread_id}: {reason}")]
    NotProbed {
        /// The thread.
        thread_id: ThreadId,
        /// The reason, in one line.
        reason: String,
    },
    /// The package of a child could not be compared with later work.
    #[error("compare the package of thread {thread_id} with later work: {reason}")]
    NotCompared {
        /// The child thread.
        thread_id: ThreadId,
        /// The reason, in one line.
        reason: String,
    },
    /// The handoff has no package that a child is sent.
    #[error("update the package of handoff {0}: the handoff was not accepted")]
    NotAccepted(HandoffId),
    /// The changed text is no valid package.
    #[error("update the package of handoff {handoff_id}: {reason}")]
    InvalidPackage {
        /// The handoff.
        handoff_id: HandoffId,
        /// The reason.
        reason: String,
    },
    /// The person's text for a pending handoff is invalid.
    #[error("read the text for handoff {handoff_id}: {reason}")]
    InvalidEdit {
        /// The handoff.
        handoff_id: HandoffId,
        /// The reason.
        reason: String,
    },
    /// The package is not the one that the person saw, or does not contain the line.
    #[error("update the package of handoff {0}: it has changed, or does not contain this line")]
    PackageChanged(HandoffId),
    /// The thread that was named as the child cannot get a further package.
    #[error("hand off into thread {thread_id}: {reason}")]
    NotMergeable {
        /// The named child.
        thread_id: ThreadId,
        /// The reason, as a clause.
        reason: &'static str,
    },
    /// Another client requested a refined draft of the handoff, which is being written.
    #[error("decide handoff {0}: it is being drafted again")]
    Redrafting(HandoffId),
    /// The decision is about an earlier proposal, which another one has replaced.
    #[error(
        "decide handoff {handoff_id}: the decision is about draft {}, and draft {} has replaced it (summary_sha256)",
        decided + 1,
        current + 1
    )]
    Superseded {
        /// The handoff.
        handoff_id: HandoffId,
        /// The iteration of the proposal that the decision names.
        decided: u32,
        /// The iteration of the current proposal.
        current: u32,
    },
    /// The acceptance names no proposal, and another client than its sender requested the current one.
    #[error(
        "accept handoff {handoff_id}: the decision names no draft, and another client requested draft {}, which is \
         current: {title:?} (summary_sha256 {summary_sha256})",
        iteration + 1
    )]
    NotShown {
        /// The handoff.
        handoff_id: HandoffId,
        /// The iteration of the current proposal.
        iteration: u32,
        /// The title of the current proposal.
        title: String,
        /// The hash of the current proposal.
        summary_sha256: String,
    },
    /// The handoff has already been decided, by this client or another.
    #[error("decide handoff {handoff_id}: it is {} already", status.outcome())]
    AlreadyDecided {
        /// The handoff.
        handoff_id: HandoffId,
        /// The outcome.
        status: HandoffStatus,
    },
    /// A person stopped the drafting run.
    #[error("draft a handoff of thread {0}: it was stopped")]
    Stopped(ThreadId),
    /// The drafting run ended without a proposal.
    #[error("draft a handoff of thread {thread_id}: {reason}")]
    NotDrafted {
        /// The thread.
        thread_id: ThreadId,
        /// The cause.
        reason: String,
    },
    /// The export table could not be read or written.
    #[error(transparent)]
    Mirror(mirror::Error),
}

impl HandoffError {
    /// Returns the class of the failure and a hint for the person.
    pub(crate) fn advice(&self) -> ErrorAdvice {
        match self {
            Self::Unknown(_) => ErrorClass::User.with_hint("`segue handoff --list` shows the pending ones"),
            Self::Ambiguous { matches, .. } => ErrorClass::User.with_hint(ambiguous_id_hint(matches)),
            Self::NotAHandoff(interrupt_id) => {
                ErrorClass::User.with_hint(format!("`segue decide {interrupt_id}` answers it"))
            }
            Self::OtherThread { parent_thread_id, .. } => ErrorClass::User.with_hint(format!(
                "it belongs to thread {parent_thread_id}; `segue handoff --list` shows the thread of each handoff"
            )),
            Self::GoalTooLong(_) => ErrorClass::User.with_hint(
                "say the goal in a sentence or two; a text can be pasted into the new thread as its first message",
            ),
            Self::EmptyThread(_) => {
                ErrorClass::User.with_hint("there is nothing to carry over: start a new thread with `segue chat`")
            }
            Self::NotAccepted(_) => {
                ErrorClass::User.with_hint("`segue handoff --list` shows the pending handoffs")
            }
            Self::InvalidPackage { .. } => {
                ErrorClass::User.with_hint("nothing was changed; keep the title, the items and their headings")
            }
            Self::InvalidEdit { .. } => ErrorClass::User.with_hint("nothing was changed; correct the text"),
            Self::PackageChanged(_) => ErrorClass::Conflict
                .with_hint("nothing was changed; read the package again: `segue handoff update THREAD`"),
            Self::NotCompared { .. } => {
                ErrorClass::Internal.with_hint("the package is unchanged; run the same command again")
            }
            Self::NotMergeable { .. } => ErrorClass::User.with_hint(
                "name a thread that an accepted handoff created and that has no messages; to end a pending handoff into it, decline it",
            ),
            Self::Redrafting(handoff_id) => ErrorClass::Conflict
                .with_hint(format!("read the new draft in a moment: `segue handoff --decide {handoff_id}`")),
            Self::Superseded { handoff_id, .. } => ErrorClass::Conflict
                .with_hint(format!("review the current draft: `segue handoff --show {handoff_id}`")),
            Self::NotShown { handoff_id, .. } => ErrorClass::Conflict.with_hint(format!(
                "nothing was changed; review the current draft, and accept it with its summary_sha256: `segue handoff --show {handoff_id}`"
            )),
            // The time limit has nothing to do with a rewind.
            Self::Expired { reason, .. } if reason != handoff::UNDECIDED_NOTE => {
                ErrorClass::Conflict.with_hint("request it again: `segue handoff THREAD`")
            }
            Self::Expired { .. } => ErrorClass::Conflict.with_hint(
                "request it again: `segue handoff THREAD`; `handoff.expires_after_days` in config.toml sets the time limit",
            ),
            Self::AlreadyDecided { handoff_id, .. } => ErrorClass::Conflict.with_hint(format!(
                "the first decision holds; `segue handoff --show {handoff_id}` shows its outcome"
            )),
            Self::Stopped(_) => ErrorClass::Stopped.with_hint("no draft was kept; request the handoff again"),
            Self::NotDrafted { .. } => {
                ErrorClass::Internal.with_hint("run the same command again: it resumes where this one stopped")
            }
            Self::NotProbed { .. } => {
                ErrorClass::Internal.with_hint("the proposal is unchanged; probe it again, or decide without it")
            }
            Self::Mirror(mirror::Error::Journal(error)) => store::advice(error),
            Self::Mirror(error) if error.is_setting() => ErrorClass::Config.with_hint(error.hint()),
            Self::Mirror(error) => ErrorClass::Store.with_hint(error.hint()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handoff_errors_name_the_failure_and_a_remedy() {
        let handoff_id = HandoffId::generate();
        let check = |error: HandoffError, text: &str, class: ErrorClass, hint: &str| {
            assert_eq!(error.to_string(), text.replace("ID", &handoff_id.to_string()));
            let (actual_class, advice) = error.advice();
            assert_eq!(
                (actual_class, advice.as_deref().unwrap_or_default().contains(hint)),
                (class, true),
                "{error}"
            );
        };
        check(
            HandoffError::Unknown("x".to_owned()),
            "find handoff `x`",
            ErrorClass::User,
            "segue handoff --list",
        );
        let again = "decide handoff ID: it is being drafted again";
        check(HandoffError::Redrafting(handoff_id), again, ErrorClass::Conflict, &handoff_id.to_string());
        let superseded = HandoffError::Superseded { handoff_id, decided: 0, current: 2 };
        let text =
            "decide handoff ID: the decision is about draft 1, and draft 3 has replaced it (summary_sha256)";
        check(superseded, text, ErrorClass::Conflict, "segue handoff --show");
        let decided = HandoffError::AlreadyDecided { handoff_id, status: HandoffStatus::Declined };
        check(
            decided,
            "decide handoff ID: it is declined already",
            ErrorClass::Conflict,
            "the first decision holds",
        );
        let expired = HandoffError::Expired { handoff_id, reason: "nobody decided".to_owned() };
        let text = "decide handoff ID: it expired: nobody decided";
        check(expired, text, ErrorClass::Conflict, "expires_after_days");
        let reason = "the thread was rewound to a point before it".to_owned();
        let rewound = HandoffError::Expired { handoff_id, reason };
        assert!(!rewound.advice().1.unwrap_or_default().contains("expires_after_days"));
        let text = "reach the database: no answer within";
        let silent = HandoffError::Mirror(mirror::Error::Timeout);
        assert!(silent.to_string().starts_with(text));
        assert_eq!(silent.advice().0, ErrorClass::Store);
    }
}
