//! Embeds the messages that have no embedding of the configured model, newest threads first, until all have one or the budget of
//! the day is used.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use journal::{
    DailyTokens, Embedding, MessageEmbeddings, QuestionEmbedder, Store, Transaction, UnembeddedMessages,
    Write,
};
use model::embeddings::{EmbeddingAnswer, EmbeddingError};
use model::tokens::estimate_tokens;
use protocol::{OwnerScope, Seq, ThreadId};
use runtime::{Frame, FrameSender, RunScope};

use super::embedding_model::EmbeddingModel;
use super::parts::split_message;

/// Number of messages that are read at a time.
const BATCH_MESSAGES: usize = 64;
/// Maximum number of parts in one request.
const REQUEST_PARTS_MAX: usize = 32;
/// Maximum time of one request. A model on a slow processor reads 32 parts in about a minute.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(180);
/// Statuses with which endpoints refuse a text, for example because it is too long for the model.
const TEXT_REFUSALS: [u16; 3] = [400, 413, 422];
/// Statuses with which endpoints ask to wait.
const RETRIED_STATUSES: [u16; 4] = [429, 502, 503, 504];
/// Maximum number of times that a request is sent again.
const RETRIES_MAX: u32 = 4;
/// Pause before a request is sent again the first time, if the endpoint names none. It doubles each time.
const RETRY_PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest pause, also if the endpoint asks for a longer one.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(60);
/// Minimum bytes of a refused text that is shortened and sent again.
const SHORTENED_BYTES_MIN: usize = 400;
/// A text that any model can read.
const PROBE: &str = "text";

/// Embeds messages.
pub struct EmbeddingWorker {
    /// The whole journal, not restricted to one owner.
    pub store: Arc<dyn Store>,
    /// The model.
    pub embedder: Arc<EmbeddingModel>,
}

/// The result of embedding messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbeddingOutcome {
    /// All messages have embeddings.
    Complete {
        /// Number of messages that this call embedded.
        messages: u64,
    },
    /// The model may not read more on this day.
    BudgetUsed {
        /// Number of messages that this call embedded.
        messages: u64,
        /// Number of tokens that the model read on this day.
        tokens: u64,
        /// Number of tokens that it may read in a day.
        tokens_max: u64,
    },
    /// The caller has cancelled the call.
    Stopped {
        /// Number of messages that this call embedded.
        messages: u64,
    },
}

/// A failure to embed messages. What was embedded before is stored.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddingWorkError {
    /// The model failed.
    #[error(transparent)]
    Model(#[from] EmbeddingError),
    /// The journal failed.
    #[error("read or store embeddings")]
    Journal(#[from] journal::Error),
}

/// The result of embedding a batch.
struct EmbeddedBatch {
    /// Number of messages with an embedding.
    messages: u64,
    /// Number of parts of messages that have none, because the model refused them.
    refused_parts: u64,
}

/// The messages of a thread that are to be embedded.
struct ThreadParts {
    /// The thread.
    thread_id: ThreadId,
    /// The parts of each message, without secrets and with the prefix of the model.
    messages: Vec<(Seq, Vec<String>)>,
    /// The seq up to which `messages` is complete.
    through_seq: Seq,
}

/// The vectors of some parts.
struct EmbeddedParts {
    /// The vector of each part; `None` for a part that the model refuses.
    vectors: Vec<Option<Embedding>>,
    /// Number of tokens that the model read.
    tokens: u64,
    /// The reason why the parts after these have no vectors.
    failure: Option<EmbeddingError>,
}

impl EmbeddingWorker {
    /// Embeds messages until all have embeddings, the budget of the day is used, or the caller cancels. Each batch is stored before
    /// the next is read, so that a process that ends loses little.
    ///
    /// # Errors
    /// When the model or the journal fails.
    pub fn embed_messages<'a>(
        &'a self,
        scope: RunScope<'a>,
    ) -> BoxFuture<'a, Result<EmbeddingOutcome, EmbeddingWorkError>> {
        journal::box_future(async move {
            let mut messages = 0;
            let mut total = None;
            let mut refused_parts = 0;
            loop {
                if scope.cancel.is_cancelled() {
                    return Ok(EmbeddingOutcome::Stopped { messages });
                }
                let batch = self.store.unembedded_messages(self.embedder.model(), BATCH_MESSAGES).await?;
                if batch.threads.is_empty() {
                    report_refused(refused_parts, scope.frames);
                    return Ok(EmbeddingOutcome::Complete { messages });
                }
                let tokens = tokens_of_day(batch.daily_tokens, Timestamp::now());
                let tokens_max = self.embedder.config.daily_tokens;
                let Some(parts) = self.split_batch(batch.threads, tokens_max.saturating_sub(tokens)) else {
                    return Ok(EmbeddingOutcome::BudgetUsed { messages, tokens, tokens_max });
                };
                let total = match total {
                    Some(total) => total,
                    None => {
                        // Texts are paid for, so a model whose vectors cannot be stored must not read them.
                        self.check_dimensions(batch.dimensions).await?;
                        *total.insert(self.missing().await?)
                    }
                };
                let embedded = tokio::select! {
                    embedded = self.embed_batch(parts) => embedded?,
                    () = scope.cancel.cancelled() => return Ok(EmbeddingOutcome::Stopped { messages }),
                };
                messages += embedded.messages;
                refused_parts += embedded.refused_parts;
                let what = "embed".to_owned();
                scope.frames.send(Frame::Progress { what, done: messages, total: Some(total.max(messages)) });
            }
        })
    }

    /// Checks that the model gives vectors of the length of the stored ones, if there are any. It reads one word for that.
    ///
    /// # Errors
    /// When the length differs, and when the model gives no vector.
    async fn check_dimensions(&self, stored: Option<u64>) -> Result<(), EmbeddingError> {
        let Some(stored) = stored else { return Ok(()) };
        let answer = self.embedder.embed(&[PROBE.to_owned()], REQUEST_TIME_MAX).await?;
        let is_same = answer.vectors.first().is_some_and(|vector| vector.len() as u64 == stored);
        if is_same { Ok(()) } else { Err(self.embedder.other_dimensions_error()) }
    }

    /// Returns the estimated number of messages without embeddings.
    async fn missing(&self) -> journal::Result<u64> {
        let counts = self.store.embedding_counts(self.embedder.model(), &OwnerScope::Everyone).await?;
        Ok(counts.missing)
    }

    /// Divides the first messages of a batch into parts: those that have no more than `tokens_left` tokens together, as far as that
    /// can be estimated. `None` if not even the first message fits.
    fn split_batch(&self, threads: Vec<UnembeddedMessages>, tokens_left: u64) -> Option<Vec<ThreadParts>> {
        let prefix = &self.embedder.config.message_prefix;
        let mut tokens = 0;
        let mut batch: Vec<ThreadParts> = Vec::new();
        for UnembeddedMessages { thread_id, texts, through_seq } in threads {
            let count = texts.len();
            let mut messages: Vec<(Seq, Vec<String>)> = Vec::with_capacity(count);
            for (seq, text) in texts {
                let parts: Vec<String> =
                    split_message(&text).into_iter().map(|part| format!("{prefix}{part}")).collect();
                tokens += parts.iter().map(|part| estimate_tokens(part)).sum::<u64>();
                if tokens > tokens_left {
                    break;
                }
                messages.push((seq, parts));
            }
            if messages.len() == count {
                batch.push(ThreadParts { thread_id, messages, through_seq });
                continue;
            }
            if let Some((last_seq, _)) = messages.last() {
                let through_seq = *last_seq;
                batch.push(ThreadParts { thread_id, messages, through_seq });
            }
            break;
        }
        (!batch.is_empty()).then_some(batch)
    }

    /// Embeds a batch and stores it. If the model fails, the messages before are stored, because they are paid for.
    async fn embed_batch(&self, batch: Vec<ThreadParts>) -> Result<EmbeddedBatch, EmbeddingWorkError> {
        let texts: Vec<String> = batch
            .iter()
            .flat_map(|thread| thread.messages.iter().flat_map(|(_, parts)| parts.iter().cloned()))
            .collect();
        let EmbeddedParts { vectors, mut tokens, failure } = self.embed_all_parts(&texts).await;
        let refused_parts = vectors.iter().filter(|vector| vector.is_none()).count() as u64;
        let mut vectors = vectors.into_iter();
        let mut messages = 0;
        for thread in batch {
            let Some(embeddings) = self.take_embeddings(&thread, &mut vectors) else { break };
            messages += embeddings.messages.len() as u64;
            let is_cut = embeddings.through_seq < thread.through_seq;
            // The tokens of the batch are counted with the first thread that exists.
            let write = Write::PutEmbeddings(MessageEmbeddings { tokens, ..embeddings });
            match self.store.commit(Transaction { fence: None, writes: vec![write] }).await {
                Ok(_) => tokens = 0,
                // The thread was deleted meanwhile.
                Err(journal::Error::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            if is_cut {
                break;
            }
        }
        match failure {
            Some(failure) => Err(failure.into()),
            None => Ok(EmbeddedBatch { messages, refused_parts }),
        }
    }

    /// Takes the vectors of a thread's messages, up to the first message whose vectors are missing. Returns `None` if the first message
    /// of the thread is that one.
    fn take_embeddings(
        &self,
        thread: &ThreadParts,
        vectors: &mut std::vec::IntoIter<Option<Embedding>>,
    ) -> Option<MessageEmbeddings> {
        let mut messages = Vec::new();
        let mut through_seq = None;
        for (seq, parts) in &thread.messages {
            if vectors.len() < parts.len() {
                break;
            }
            let embeddings: Vec<Embedding> = vectors.by_ref().take(parts.len()).flatten().collect();
            if !embeddings.is_empty() {
                messages.push((*seq, embeddings));
            }
            through_seq = Some(*seq);
        }
        let is_complete = through_seq == thread.messages.last().map(|(seq, _)| *seq);
        Some(MessageEmbeddings {
            thread_id: thread.thread_id,
            model: self.embedder.model().to_owned(),
            messages,
            through_seq: if is_complete { thread.through_seq } else { through_seq? },
            tokens: 0,
            at: Timestamp::now(),
        })
    }

    /// Asks the model for the vectors of all parts, request by request, until one fails.
    async fn embed_all_parts(&self, texts: &[String]) -> EmbeddedParts {
        let mut embedded = EmbeddedParts { vectors: Vec::new(), tokens: 0, failure: None };
        for request in texts.chunks(REQUEST_PARTS_MAX) {
            match self.embed_parts(request).await {
                Ok((vectors, tokens)) => {
                    embedded.vectors.extend(vectors);
                    embedded.tokens += tokens;
                }
                Err(failure) => {
                    embedded.failure = Some(failure);
                    break;
                }
            }
        }
        embedded
    }

    /// Asks the model for the embeddings of parts, and returns them with the number of tokens. A request that the endpoint refuses is
    /// divided until the refused part is known. Of that, only the beginning is sent, and `None` stands for it if that is refused too.
    ///
    /// # Errors
    /// When the endpoint refuses any text, or fails in another way.
    async fn embed_parts(&self, parts: &[String]) -> Result<(Vec<Option<Embedding>>, u64), EmbeddingError> {
        let mut texts = parts.to_vec();
        let mut vectors = vec![None; parts.len()];
        let mut tokens = 0;
        let all = 0..parts.len();
        let mut pending = vec![all];
        while let Some(range) = pending.pop() {
            match self.request(&texts[range.clone()]).await {
                Ok(answer) => {
                    tokens += answer.tokens;
                    let embeddings: Vec<Option<Embedding>> =
                        answer.vectors.iter().map(|vector| Embedding::from_vector(vector)).collect();
                    if embeddings.iter().all(Option::is_none) {
                        return Err(self.embedder.no_direction_error());
                    }
                    for (index, embedding) in range.zip(embeddings) {
                        vectors[index] = embedding;
                    }
                }
                Err(EmbeddingError::Refused { status, .. })
                    if TEXT_REFUSALS.contains(&status) && range.len() > 1 =>
                {
                    let middle = range.start + range.len() / 2;
                    pending.extend([middle..range.end, range.start..middle]);
                }
                Err(error @ EmbeddingError::Refused { status, .. }) if TEXT_REFUSALS.contains(&status) => {
                    let text = &mut texts[range.start];
                    if text.len() > SHORTENED_BYTES_MIN {
                        text.truncate(text.floor_char_boundary(text.len() / 2));
                        pending.push(range);
                    } else {
                        // An endpoint that refuses any text has another problem than this text.
                        self.embedder.embed(&[PROBE.to_owned()], REQUEST_TIME_MAX).await?;
                        tracing::info!(%error, "a part of a message gets no embedding");
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok((vectors, tokens))
    }

    /// Sends one request. If the endpoint asks to wait, or fails for the moment, it is sent again a few times.
    async fn request(&self, texts: &[String]) -> Result<EmbeddingAnswer, EmbeddingError> {
        let mut pause = RETRY_PAUSE_MIN;
        for _ in 0..RETRIES_MAX {
            match self.embedder.embed(texts, REQUEST_TIME_MAX).await {
                Err(EmbeddingError::Refused { status, retry_after, .. })
                    if RETRIED_STATUSES.contains(&status) =>
                {
                    tokio::time::sleep(retry_after.unwrap_or(pause).min(RETRY_PAUSE_MAX)).await;
                    pause *= 2;
                }
                result => return result,
            }
        }
        self.embedder.embed(texts, REQUEST_TIME_MAX).await
    }
}

/// Reports the parts of messages that have no embedding, because the model refused them.
fn report_refused(parts: u64, frames: &FrameSender) {
    if parts > 0 {
        let parts = if parts == 1 {
            "1 part of a message has".to_owned()
        } else {
            format!("{parts} parts of messages have")
        };
        let text = format!("{parts} no embedding, because the model refused the text; only words find them");
        frames.send(Frame::Notice { text });
    }
}

/// Returns the tokens that the model read on the day of `now`.
fn tokens_of_day(newest: Option<DailyTokens>, now: Timestamp) -> u64 {
    let today = now.to_zoned(TimeZone::UTC).date();
    newest.filter(|newest| newest.day == today).map_or(0, |newest| newest.tokens)
}

#[cfg(test)]
mod tests;
