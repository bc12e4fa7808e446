//! The embedding model of a process: it makes embeddings of questions while a search waits, and of messages for the worker.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use journal::{Embedding, EmbeddingFailure, QuestionEmbedder};
use model::embeddings::{EmbeddingAnswer, EmbeddingClient, EmbeddingError, EmbeddingSettings};
use parking_lot::Mutex;
use secrecy::SecretString;
use secrets::redact;

use super::settings::EmbeddingConfig;

/// Maximum time that a search waits for the embedding of its question.
const QUESTION_TIME_MAX: Duration = Duration::from_millis(1_500);
/// Time after a failure in which no question is sent, so that searches do not wait for a model that does not answer.
const FAILURE_PAUSE: Duration = Duration::from_secs(30);
/// Number of questions whose embeddings are kept: a recall searches for the same question several times.
const CACHED_QUESTIONS_MAX: usize = 32;
/// Maximum bytes of a question that are sent.
const QUESTION_BYTES_MAX: usize = 2_000;

/// An embedding model.
pub struct EmbeddingModel {
    /// The client.
    client: EmbeddingClient,
    /// The settings.
    pub(super) config: EmbeddingConfig,
    /// The identity of the model, with the prefixes that change its vectors.
    identity: String,
    /// The embeddings of recent questions, newest last.
    recent: Mutex<VecDeque<(String, Embedding)>>,
    /// The newest failure, and its time.
    failure: Mutex<Option<(Instant, EmbeddingFailure)>>,
}

impl EmbeddingModel {
    /// Returns the model of a configuration. Nothing is sent before the first text.
    ///
    /// # Errors
    /// [`EmbeddingError::Setup`] when the URL or the key is invalid.
    pub fn new(config: EmbeddingConfig, api_key: Option<SecretString>) -> Result<Self, EmbeddingError> {
        let client = EmbeddingClient::new(EmbeddingSettings {
            base_url: config.url.clone(),
            model: config.model.clone(),
            api_key,
            dimensions: config.dimensions,
        })?;
        let mut identity = client.identity();
        for (name, prefix) in [("message", &config.message_prefix), ("question", &config.question_prefix)] {
            if !prefix.is_empty() {
                identity.push_str(&format!(" {name}={prefix:?}"));
            }
        }
        Ok(Self { client, config, identity, recent: Mutex::default(), failure: Mutex::default() })
    }

    /// Returns the name of the model at its endpoint, for people.
    pub fn display_name(&self) -> String {
        format!("{} at {}", self.config.model, self.client.endpoint())
    }

    /// Asks the model for the embedding of a text without secrets.
    ///
    /// # Errors
    /// When the model gives no embedding.
    pub async fn embed_text(&self, text: &str) -> Result<Embedding, EmbeddingError> {
        let texts = [format!("{}{text}", self.config.question_prefix)];
        let answer = self.embed(&texts, QUESTION_TIME_MAX).await?;
        let vector = answer.vectors.first().and_then(|vector| Embedding::from_vector(vector));
        vector.ok_or_else(|| self.no_direction_error())
    }

    /// Asks the model for the vectors of texts. Secrets in the message of a refusal are redacted, because it may repeat a request.
    ///
    /// # Errors
    /// When the model gives no vectors.
    pub(super) async fn embed(
        &self,
        texts: &[String],
        time_max: Duration,
    ) -> Result<EmbeddingAnswer, EmbeddingError> {
        self.client.embed(texts, time_max).await.map_err(|error| match error {
            EmbeddingError::Refused { model, endpoint, status, message, retry_after } => {
                let message = redact(&message).into_owned();
                EmbeddingError::Refused { model, endpoint, status, message, retry_after }
            }
            error => error,
        })
    }

    /// Returns the error of a model whose vectors have another length than the stored ones.
    pub(super) fn other_dimensions_error(&self) -> EmbeddingError {
        EmbeddingError::Malformed {
            endpoint: self.client.endpoint(),
            reason: journal::OTHER_DIMENSIONS.to_owned(),
        }
    }

    /// Returns the error of an answer whose vectors have no direction.
    pub(super) fn no_direction_error(&self) -> EmbeddingError {
        EmbeddingError::Malformed {
            endpoint: self.client.endpoint(),
            reason: "the vector is zero or not finite".to_owned(),
        }
    }

    /// Returns the failure of an earlier question if it is so recent that no question is sent.
    fn recent_failure(&self) -> Option<EmbeddingFailure> {
        let failure = self.failure.lock();
        failure.as_ref().filter(|(at, _)| at.elapsed() < FAILURE_PAUSE).map(|(_, failure)| failure.clone())
    }

    /// Returns the embedding of a recent question.
    fn recent_embedding(&self, question: &str) -> Option<Embedding> {
        let recent = self.recent.lock();
        recent.iter().find(|(known, _)| known == question).map(|(_, embedding)| embedding.clone())
    }
}

#[async_trait]
impl QuestionEmbedder for EmbeddingModel {
    fn model(&self) -> &str {
        &self.identity
    }

    async fn embed_question(&self, question: &str) -> Result<Embedding, EmbeddingFailure> {
        let safe = redact(&question[..question.floor_char_boundary(QUESTION_BYTES_MAX)]);
        if let Some(embedding) = self.recent_embedding(&safe) {
            return Ok(embedding);
        }
        if let Some(failure) = self.recent_failure() {
            return Err(failure);
        }
        match self.embed_text(&safe).await {
            Ok(embedding) => {
                let mut recent = self.recent.lock();
                recent.push_back((safe.into_owned(), embedding.clone()));
                if recent.len() > CACHED_QUESTIONS_MAX {
                    recent.pop_front();
                }
                Ok(embedding)
            }
            Err(error) => {
                let failure = EmbeddingFailure { reason: format!("failed to {error}") };
                tracing::warn!(%error, "a search compares words only");
                *self.failure.lock() = Some((Instant::now(), failure.clone()));
                Err(failure)
            }
        }
    }
}
