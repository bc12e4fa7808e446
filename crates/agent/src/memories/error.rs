//! Errors of memory: `agent.md`, recall, summaries of old messages, stored items, pins.

use memory::{
    EmbeddingWorkError, FactError, HistoryError, ItemError, PinError, RecallError, SummarizationError,
};
use model::embeddings::EmbeddingError;

use crate::ErrorClass;
use crate::error::{ErrorAdvice, store};

/// The reason why a memory call failed.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// `agent.md` could not be read or written.
    #[error(transparent)]
    AgentFile(memory::Error),
    /// A recall failed.
    #[error(transparent)]
    Recall(RecallError),
    /// Old messages could not be summarized or read.
    #[error(transparent)]
    Summarization(SummarizationError),
    /// An item could not be stored or found.
    #[error(transparent)]
    Item(ItemError),
    /// Messages could not be embedded.
    #[error(transparent)]
    Embedding(EmbeddingWorkError),
    /// Another process with the same home folder embeds messages at present.
    #[error("embed messages: another process embeds them at present")]
    EmbeddingInProgress,
    /// No embedding model is configured.
    #[error("embed messages: no embedding model is configured")]
    NoEmbeddingModel,
    /// A text could not be pinned, or a pin could not be removed.
    #[error(transparent)]
    Pin(PinError),
    /// A proposed fact could not be found or decided.
    #[error(transparent)]
    Fact(FactError),
    /// A revision of `agent.md` could not be recorded, found or restored.
    #[error(transparent)]
    History(HistoryError),
}

impl MemoryError {
    /// Returns the class of the failure and a hint for the person.
    pub(crate) fn advice(&self) -> ErrorAdvice {
        match self {
            Self::AgentFile(error) => file_error_class(error).with_hint(error.hint()),
            Self::Recall(RecallError::Journal(error))
            | Self::Item(ItemError::Journal(error))
            | Self::Pin(PinError::Journal(error))
            | Self::Summarization(SummarizationError::Journal(error)) => store::advice(error),
            Self::Embedding(EmbeddingWorkError::Journal(error)) => store::advice(error),
            Self::Embedding(EmbeddingWorkError::Model(error)) => embedding_advice(error),
            Self::EmbeddingInProgress => ErrorClass::Conflict
                .with_hint("wait until it is done; a chat and a server embed in the background"),
            Self::NoEmbeddingModel => ErrorClass::User.with_hint(
                "add a section `[search.embeddings]` with `url` and `model` to config.toml, such as Ollama's `http://127.0.0.1:11434/v1` and `nomic-embed-text`",
            ),
            Self::Recall(error) => ErrorClass::User.with_hint(error.hint()),
            Self::Item(error) => ErrorClass::User.with_hint(error.hint()),
            Self::Fact(error) => match error {
                FactError::Unknown(_) | FactError::Ambiguous { .. } => ErrorClass::User,
                FactError::AlreadyDecided { .. } | FactError::Contended { .. } => ErrorClass::Conflict,
                FactError::History(HistoryError::File(error)) => file_error_class(error),
                FactError::History(_) | FactError::Journal(_) => ErrorClass::Store,
            }
            .with_hint(error.hint()),
            Self::History(error) => match error {
                HistoryError::UnknownRevision { .. } => ErrorClass::User,
                HistoryError::File(error) => file_error_class(error),
                HistoryError::Journal(_) => ErrorClass::Store,
                HistoryError::Task(_) => ErrorClass::Internal,
            }
            .with_hint(error.hint()),
            Self::Pin(error) => match error {
                PinError::Contended => ErrorClass::Conflict,
                PinError::Journal(_) => ErrorClass::Store,
                PinError::Json(_) => ErrorClass::Internal,
                PinError::Blank
                | PinError::TooLong { .. }
                | PinError::TooMany { .. }
                | PinError::NoRoom { .. }
                | PinError::NoMessage { .. }
                | PinError::ToolMessage { .. }
                | PinError::NoText { .. }
                | PinError::Unknown { .. } => ErrorClass::User,
            }
            .with_hint(error.hint()),
            Self::Summarization(error) => match error {
                SummarizationError::NoSummary { .. } | SummarizationError::Model(_) => ErrorClass::Model,
                SummarizationError::TooManyTurns { .. } => ErrorClass::User,
                SummarizationError::Busy { .. }
                | SummarizationError::AwaitingDecision { .. }
                | SummarizationError::Contended { .. }
                | SummarizationError::Stopped => ErrorClass::Conflict,
                SummarizationError::Journal(_) => ErrorClass::Store,
                SummarizationError::Prompt(_) | SummarizationError::Json(_) => ErrorClass::Internal,
            }
            .with_hint(error.hint()),
        }
    }
}

/// Returns the class of a failure to change `agent.md`.
const fn file_error_class(error: &memory::Error) -> ErrorClass {
    match error {
        memory::Error::BlankNote | memory::Error::NoteTooLong { .. } => ErrorClass::User,
        _ => ErrorClass::Store,
    }
}

/// Returns the class of a failure of the embedding model, and a hint.
fn embedding_advice(error: &EmbeddingError) -> ErrorAdvice {
    match error {
        EmbeddingError::Setup { .. } => ErrorClass::User.with_hint("correct `[search.embeddings]` in config.toml"),
        EmbeddingError::Unreachable { .. } | EmbeddingError::Timeout { .. } => {
            ErrorClass::Model.with_hint("start the server of the model, or correct `search.embeddings.url` in config.toml")
        }
        EmbeddingError::Refused { status: 401 | 403, .. } => ErrorClass::Model
            .with_hint("set the variable that `search.embeddings.key_variable` names to a valid key"),
        EmbeddingError::Refused { status: 404, .. } => ErrorClass::Model.with_hint(
            "correct `search.embeddings.model` or `search.embeddings.url` in config.toml; Ollama needs `ollama pull MODEL` first",
        ),
        EmbeddingError::Refused { .. } => ErrorClass::Model.with_hint("read the log of the model's server, and try again"),
        EmbeddingError::Malformed { .. } => ErrorClass::Model.with_hint(
            "`search.embeddings.url` must be an endpoint of OpenAI's format, which ends with `/v1`",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_errors_have_a_class_that_matches_the_remedy() {
        let check = |error: MemoryError, class: ErrorClass| assert_eq!(error.advice().0, class, "{error}");
        check(MemoryError::AgentFile(memory::Error::BlankNote), ErrorClass::User);
        let too_long = || HistoryError::File(memory::Error::NoteTooLong { chars: 9, chars_max: 4 });
        check(MemoryError::History(too_long()), ErrorClass::User);
        check(MemoryError::Fact(FactError::History(too_long())), ErrorClass::User);
        let utf16 = memory::Error::Utf16 { path: "agent.md".into() };
        check(MemoryError::AgentFile(utf16), ErrorClass::Store);
        check(MemoryError::Recall(RecallError::NoWords), ErrorClass::User);
        check(MemoryError::Item(ItemError::SecretName), ErrorClass::User);
        check(MemoryError::Fact(FactError::Unknown("a".to_owned())), ErrorClass::User);
        check(MemoryError::History(HistoryError::UnknownRevision { number: 7 }), ErrorClass::User);
        check(MemoryError::Pin(PinError::Blank), ErrorClass::User);
        check(MemoryError::Pin(PinError::Contended), ErrorClass::Conflict);
        check(MemoryError::Summarization(SummarizationError::Stopped), ErrorClass::Conflict);
        check(
            MemoryError::Summarization(SummarizationError::Contended { attempts: 3 }),
            ErrorClass::Conflict,
        );
        let busy = journal::Error::Locked { path: "p".into() };
        check(MemoryError::Item(ItemError::Journal(busy)), ErrorClass::Store);
    }
}
