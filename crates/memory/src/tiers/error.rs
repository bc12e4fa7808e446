//! Why turns did not become a summary, told so that a caller knows what to do. Nothing is handled here.

use model::UnusableAnswer;
use protocol::ThreadId;

/// Why turns did not become a summary. They are as they were: nothing of it is stored.
#[derive(Debug, thiserror::Error)]
pub enum SummarizationError {
    /// The model gave no summary.
    #[error("read the summary of {model}: {why}")]
    NoSummary {
        /// `provider/name`.
        model: String,
        /// The reason why its answer was unusable.
        why: NoSummaryReason,
    },
    /// The model could not be used.
    #[error(transparent)]
    Model(#[from] model::Error),
    /// The turns are more than a model is shown in as many calls as one summary may take.
    #[error("summarise {turns} turns with {model}: they take more than {calls_max} calls")]
    TooManyTurns {
        /// `provider/name`.
        model: String,
        /// How many there are.
        turns: u64,
        /// The calls that are allowed.
        calls_max: u64,
    },
    /// A run is active on a thread of the turns.
    #[error("summarise turns of thread {thread_id}: a run is active")]
    Busy {
        /// The thread.
        thread_id: ThreadId,
    },
    /// A thread of the turns waits for a decision, and what it is about must stay in sight.
    #[error("summarise turns of thread {thread_id}: it waits for a decision")]
    AwaitingDecision {
        /// The thread.
        thread_id: ThreadId,
    },
    /// Others took turns out of the window each time it had been summarised.
    #[error("summarise turns: others changed them {attempts} times meanwhile")]
    Contended {
        /// How often it was tried.
        attempts: u32,
    },
    /// It was stopped.
    #[error("summarise turns: it was stopped")]
    Stopped,
    /// The prompt could not be written.
    #[error("write the prompt of a summary")]
    Prompt(#[from] minijinja::Error),
    /// A record could not be written.
    #[error("write the record of a summary")]
    Json(#[from] serde_json::Error),
    /// The journal failed.
    #[error("summarise turns")]
    Journal(#[source] journal::Error),
}

/// The reason why a model's answer is no summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoSummaryReason {
    /// No whole text.
    #[error(transparent)]
    NoAnswer(#[from] UnusableAnswer),
    /// The words of an error or a refusal.
    #[error("it is an error or a refusal and no summary")]
    IsError,
    /// Words that say nothing.
    #[error("it says nothing")]
    SaysNothing,
    /// More than was asked for, without a place where it can be cut.
    #[error("it is too long: {tokens} tokens where {tokens_max} are allowed")]
    TooLong {
        /// Its tokens.
        tokens: u64,
        /// Those that are allowed.
        tokens_max: u64,
    },
}

impl SummarizationError {
    /// Returns what a person can do about it, as one sentence.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::NoSummary { .. } => "set `memory.model` in config.toml to another model, or try again",
            Self::Model(error) => runtime::model_hint(error),
            Self::TooManyTurns { .. } => "give fewer turns at a time",
            Self::Busy { .. } => "wait until the run has ended",
            Self::AwaitingDecision { .. } => "decide what the thread waits for, then try again",
            Self::Contended { .. } | Self::Stopped | Self::Journal(_) => "try again",
            Self::Prompt(_) | Self::Json(_) => "this is a defect of Segue; the turns are as they were",
        }
    }

    /// Returns whether another model, or none, might have made a summary.
    pub(super) const fn is_model_failure(&self) -> bool {
        matches!(self, Self::NoSummary { .. } | Self::Model(_) | Self::TooManyTurns { .. })
    }
}

impl From<journal::Error> for SummarizationError {
    fn from(error: journal::Error) -> Self {
        match error {
            journal::Error::Busy { thread_id, .. } => Self::Busy { thread_id },
            error => Self::Journal(error),
        }
    }
}
