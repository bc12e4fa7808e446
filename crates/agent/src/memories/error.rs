//! Errors of memory: agent.md, recall, summaries of old turns, stored items.

use memory::{ItemError, RecallError, SummarizationError};

use crate::Class;
use crate::error::{Advice, store};

/// Why a call about memory failed.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// agent.md could not be read or written.
    #[error(transparent)]
    AgentMd(memory::Error),
    /// Nothing could be recalled.
    #[error(transparent)]
    Recall(RecallError),
    /// Turns could not become a summary, or be read again.
    #[error(transparent)]
    Tiers(SummarizationError),
    /// Something could not be kept under a name, or found there.
    #[error(transparent)]
    Item(ItemError),
}

impl MemoryError {
    pub(crate) fn advice(&self) -> Advice {
        match self {
            Self::AgentMd(error) => Class::Store.with(error.hint()),
            Self::Recall(RecallError::Journal(error))
            | Self::Item(ItemError::Journal(error))
            | Self::Tiers(SummarizationError::Journal(error)) => store::advice(error),
            Self::Recall(error) => Class::User.with(error.hint()),
            Self::Item(error) => Class::User.with(error.hint()),
            Self::Tiers(error) => match error {
                SummarizationError::NoSummary { .. } | SummarizationError::Model(_) => Class::Model,
                SummarizationError::TooManyTurns { .. } => Class::User,
                SummarizationError::Busy { .. }
                | SummarizationError::Waiting { .. }
                | SummarizationError::Contended { .. }
                | SummarizationError::Stopped => Class::Conflict,
                SummarizationError::Journal(_) => Class::Store,
                SummarizationError::Prompt(_) | SummarizationError::Json(_) => Class::Internal,
            }
            .with(error.hint()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_memory_have_the_class_of_what_can_be_done() {
        let check = |error: MemoryError, class: Class| assert_eq!(error.advice().0, class, "{error}");
        check(MemoryError::AgentMd(memory::Error::Blank), Class::Store);
        check(MemoryError::Recall(RecallError::NoWords), Class::User);
        check(MemoryError::Item(ItemError::SecretName), Class::User);
        check(MemoryError::Tiers(SummarizationError::Stopped), Class::Conflict);
        check(MemoryError::Tiers(SummarizationError::Contended { attempts: 3 }), Class::Conflict);
        let busy = journal::Error::Locked { path: "p".into() };
        check(MemoryError::Item(ItemError::Journal(busy)), Class::Store);
    }
}
