//! Embeddings of messages for searches by meaning: the configured model, and the work that embeds messages in the background.

use std::fs::{File, TryLockError};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use journal::{EmbeddingCounts, QuestionEmbedder, Store};
use memory::{EmbeddingModel, EmbeddingOutcome, EmbeddingWorker};
use runtime::{FrameSender, RunScope};
use secrecy::SecretString;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::MemoryService;
use crate::agent::EnvironmentAccess;
use crate::home::config::ConfigFile;
use crate::{MemoryError, Result};

/// Pause between two looks for new messages.
const IDLE_PAUSE: Duration = Duration::from_secs(10);
/// Pause after the budget of the day is used.
const BUDGET_PAUSE: Duration = Duration::from_secs(600);
/// The longest pause after failures. The first one is twice [`IDLE_PAUSE`], and each further one is twice as long as the one before.
const FAILURE_PAUSE_MAX: Duration = Duration::from_secs(900);

/// The name of the lock file in the home folder.
const LOCK_FILE: &str = "embedding.lock";

/// The lock that one embedding process of a home folder holds. Dropping it releases the lock.
struct EmbeddingLock {
    _file: Option<File>,
}

/// The embedding model, and how many messages it has embedded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EmbeddingStatus {
    /// The name of the model and its endpoint.
    pub model: String,
    /// The numbers of messages with and without embeddings.
    #[serde(flatten)]
    pub counts: EmbeddingCounts,
}

/// Opens the configured embedding model, and gives it to the journal for searches. Returns `None` if none is configured.
///
/// # Errors
/// Fails if a setting of the model is invalid.
pub(crate) fn open_embedder(
    config: &ConfigFile,
    environment: EnvironmentAccess,
    journal: &dyn Store,
) -> Result<Option<Arc<EmbeddingModel>>> {
    let Some(settings) = config.search.embeddings.clone() else { return Ok(None) };
    let key = settings.key_variable.as_deref().and_then(|name| environment.variable(name));
    let embedder = EmbeddingModel::new(settings, key.map(SecretString::from))
        .map_err(|error| MemoryError::Embedding(error.into()))?;
    let embedder = Arc::new(embedder);
    journal.set_embedder(Arc::clone(&embedder) as Arc<dyn QuestionEmbedder>);
    Ok(Some(embedder))
}

impl<'a> MemoryService<'a> {
    /// Embeds all messages that have no embedding of the configured model, of all owners, and reports the progress.
    ///
    /// # Errors
    /// Fails if no model is configured, if another process embeds at present, or if the model or the journal fails. What was
    /// embedded before is stored.
    pub fn embed_messages(
        self,
        frames: &'a FrameSender,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<EmbeddingOutcome>> {
        journal::box_future(async move {
            let worker = self.embedding_worker().ok_or(MemoryError::NoEmbeddingModel)?;
            let _lock = self.lock_embedding().ok_or(MemoryError::EmbeddingInProgress)?;
            Ok(worker.embed_messages(RunScope { frames, cancel }).await?)
        })
    }

    /// Embeds new messages in the background until the caller cancels. Returns at once if no model is configured.
    ///
    /// Of several servers that share a journal, one embeds, so that no message is paid for twice. Failures are logged and tried
    /// again.
    pub async fn keep_embedding(self, cancel: CancellationToken) {
        let Some(worker) = self.embedding_worker() else { return };
        let frames = FrameSender::default();
        let mut pause = IDLE_PAUSE;
        loop {
            if self.embeds_here().await
                && let Some(_lock) = self.lock_embedding()
            {
                match worker.embed_messages(RunScope { frames: &frames, cancel: &cancel }).await {
                    Ok(EmbeddingOutcome::Complete { .. }) => pause = IDLE_PAUSE,
                    Ok(EmbeddingOutcome::Stopped { .. }) => return,
                    Ok(EmbeddingOutcome::BudgetUsed { tokens, .. }) => {
                        tracing::info!(tokens, "the embedding model has read the tokens of this day");
                        pause = BUDGET_PAUSE;
                    }
                    Err(error) => {
                        tracing::warn!(
                            error = &error as &dyn std::error::Error,
                            "failed to embed messages; it is tried again"
                        );
                        pause = (pause * 2).min(FAILURE_PAUSE_MAX);
                    }
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = cancel.cancelled() => return,
            }
        }
    }

    /// Returns the embedding model and its progress in the messages of this owner. `None` if no model is configured.
    ///
    /// # Errors
    /// Fails if the journal fails.
    pub fn embedding_status(self) -> BoxFuture<'a, Result<Option<EmbeddingStatus>>> {
        journal::box_future(async move {
            let Some(embedder) = &self.agent.embedder else { return Ok(None) };
            let counts = self.agent.store.embedding_counts(embedder.model(), &self.agent.scope).await?;
            Ok(Some(EmbeddingStatus { model: embedder.display_name(), counts }))
        })
    }

    /// Returns the worker; `None` if no model is configured.
    fn embedding_worker(self) -> Option<EmbeddingWorker> {
        let embedder = self.agent.embedder.clone()?;
        Some(EmbeddingWorker { store: Arc::clone(&self.agent.journal), embedder })
    }

    /// Returns the lock of the home folder that one embedding process holds, so that no message is paid for twice. `None` if another
    /// process holds it. If the lock file cannot be used, embedding goes on without it.
    fn lock_embedding(self) -> Option<EmbeddingLock> {
        let path = self.agent.settings.home.root().join(LOCK_FILE);
        let Ok(file) = File::options().create(true).truncate(false).write(true).open(path) else {
            return Some(EmbeddingLock { _file: None });
        };
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => None,
            Ok(()) | Err(TryLockError::Error(_)) => Some(EmbeddingLock { _file: Some(file) }),
        }
    }

    /// Returns whether this process is the one that embeds: the first of the live servers, or any process without a live server. A
    /// failure of the journal counts as no.
    async fn embeds_here(self) -> bool {
        let leases = &self.agent.leases;
        match leases.live_processes().await {
            Ok(live) => live.iter().min().is_none_or(|first| leases.is_this_process(first)),
            Err(error) => {
                tracing::debug!(%error, "failed to list the servers that share the journal");
                false
            }
        }
    }
}
