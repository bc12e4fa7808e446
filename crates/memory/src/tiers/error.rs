//! The errors of summarizing messages, each with a hint for the user. Errors are not handled here.
//!
//! The messages read on after "failed to".

use model::UnusableAnswer;
use protocol::ThreadId;

/// An error of summarizing messages. Nothing is stored then, and the messages stay in their contexts.
#[derive(Debug, thiserror::Error)]
pub enum SummarizationError {
    /// The model's answer is not a usable summary.
    #[error("read the summary of {model}: {why}")]
    NoSummary {
        /// `provider/name`.
        model: String,
        /// The reason why its answer was unusable.
        why: NoSummaryReason,
    },
    /// The model could not be called, or the provider returned an error.
    #[error(transparent)]
    Model(#[from] model::Error),
    /// The messages need more model calls than one summary may use.
    #[error("summarize {turns} messages with {model}: they need more than {calls_max} calls")]
    TooManyTurns {
        /// `provider/name`.
        model: String,
        /// Number of messages.
        turns: u64,
        /// Maximum number of calls.
        calls_max: u64,
    },
    /// A thread of the messages has an active run.
    #[error("summarize messages of thread {thread_id}: a run is active")]
    Busy {
        /// The thread.
        thread_id: ThreadId,
    },
    /// A thread of the messages has a pending decision. The user needs the messages that it is about.
    #[error("summarize messages of thread {thread_id}: a decision is pending")]
    AwaitingDecision {
        /// The thread.
        thread_id: ThreadId,
    },
    /// Other processes changed the messages or their threads during every attempt.
    #[error("summarize messages: other processes changed them during {attempts} attempts")]
    Contended {
        /// Number of attempts.
        attempts: u32,
    },
    /// The caller cancelled the work.
    #[error("summarize messages: it was cancelled")]
    Stopped,
    /// The prompt's template could not be rendered.
    #[error("write the prompt of a summary")]
    Prompt(#[from] minijinja::Error),
    /// An event could not be serialised.
    #[error("write the record of a summary")]
    Json(#[from] serde_json::Error),
    /// The journal failed.
    #[error("summarize messages")]
    Journal(#[source] journal::Error),
}

/// The reason why a model's answer is not a usable summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoSummaryReason {
    /// The answer has no complete text.
    #[error(transparent)]
    NoAnswer(#[from] UnusableAnswer),
    /// The answer is the text of an error or a refusal.
    #[error("it is an error or a refusal and no summary")]
    IsError,
    /// The answer has too few content words.
    #[error("it says nothing")]
    SaysNothing,
    /// The answer is far too long, or too long and without a sentence at whose end it can be cut.
    #[error("it is too long: {tokens} tokens where {tokens_max} are allowed")]
    TooLong {
        /// Its estimated tokens.
        tokens: u64,
        /// The configured length of a summary in tokens.
        tokens_max: u64,
    },
}

impl SummarizationError {
    /// Returns what the user can do about the error, as a clause without a period.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::NoSummary { .. } => "set `memory.model` in config.toml to another model, or try again",
            Self::Model(error) => runtime::model_hint(error),
            Self::TooManyTurns { .. } => "summarize fewer messages at a time",
            Self::Busy { .. } => "wait until the run has ended",
            Self::AwaitingDecision { .. } => "answer the pending decision of the thread, then try again",
            Self::Contended { .. } | Self::Stopped | Self::Journal(_) => "try again",
            Self::Prompt(_) | Self::Json(_) => "this is a defect of Segue; the messages are unchanged",
        }
    }

    /// Returns whether the model is the cause, so that another model or an offline summary may succeed.
    pub(super) const fn is_model_failure(&self) -> bool {
        matches!(self, Self::NoSummary { .. } | Self::Model(_) | Self::TooManyTurns { .. })
    }
}

/// An active run is reported as [`SummarizationError::Busy`] whether it is detected before or during the commit.
impl From<journal::Error> for SummarizationError {
    fn from(error: journal::Error) -> Self {
        match error {
            journal::Error::Busy { thread_id, .. } => Self::Busy { thread_id },
            error => Self::Journal(error),
        }
    }
}
