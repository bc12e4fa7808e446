//! Embeds the messages that have no embedding of the configured model, newest threads first, until all have one or the budget of
//! the day is used.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use journal::{
    Embedding, EmbeddingSpend, MessageEmbeddings, QuestionEmbedder, Store, Transaction, UnembeddedMessages,
    Write,
};
use model::embeddings::{EmbeddingAnswer, EmbeddingError};
use model::tokens::estimate_tokens;
use protocol::{OwnerScope, Seq};
use runtime::{Frame, FrameSender, RunScope};

use super::parts::split_message;
use super::question::MessageEmbedder;

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
    pub embedder: Arc<MessageEmbedder>,
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
    #[error("store embeddings")]
    Journal(#[from] journal::Error),
}

/// The result of embedding a batch.
struct EmbeddedBatch {
    /// Number of messages with an embedding.
    messages: u64,
    /// Number of parts of messages that have none, because the model refused them.
    refused_parts: u64,
}

/// A part of a message that is to be embedded.
struct MessagePart {
    /// The index of the thread in the batch.
    thread: usize,
    /// The seq of the message.
    seq: Seq,
    /// The text, without secrets.
    text: String,
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
                let tokens = tokens_of_day(batch.spend, Timestamp::now());
                let tokens_max = self.embedder.config.daily_tokens;
                let tokens_left = tokens_max.saturating_sub(tokens);
                let Some(batch) = limit_batch(batch.threads, tokens_left) else {
                    return Ok(EmbeddingOutcome::BudgetUsed { messages, tokens, tokens_max });
                };
                let total = match total {
                    Some(total) => total,
                    None => *total.insert(self.missing().await?),
                };
                let embedded = tokio::select! {
                    embedded = self.embed_batch(batch) => embedded?,
                    () = scope.cancel.cancelled() => return Ok(EmbeddingOutcome::Stopped { messages }),
                };
                messages += embedded.messages;
                refused_parts += embedded.refused_parts;
                let what = "embed".to_owned();
                scope.frames.send(Frame::Progress { what, done: messages, total: Some(total.max(messages)) });
            }
        })
    }

    /// Returns the estimated number of messages without embeddings.
    async fn missing(&self) -> journal::Result<u64> {
        let counts = self.store.embedding_counts(self.embedder.model(), &OwnerScope::Everyone).await?;
        Ok(counts.missing)
    }

    /// Embeds a batch and stores it.
    async fn embed_batch(&self, batch: Vec<UnembeddedMessages>) -> Result<EmbeddedBatch, EmbeddingWorkError> {
        let mut parts = Vec::new();
        for (thread, UnembeddedMessages { texts, .. }) in batch.iter().enumerate() {
            for (seq, text) in texts {
                parts.extend(split_message(text).into_iter().map(|text| MessagePart {
                    thread,
                    seq: *seq,
                    text: format!("{}{text}", self.embedder.config.message_prefix),
                }));
            }
        }
        let mut embedded: Vec<Vec<(Seq, Vec<Embedding>)>> = batch.iter().map(|_| Vec::new()).collect();
        let (mut tokens, mut refused_parts) = (0, 0);
        for request in parts.chunks(REQUEST_PARTS_MAX) {
            let (vectors, read) = self.embed_parts(request).await?;
            tokens += read;
            for (part, vector) in request.iter().zip(vectors) {
                let Some(vector) = vector else {
                    refused_parts += 1;
                    continue;
                };
                match embedded[part.thread].last_mut() {
                    Some((seq, vectors)) if *seq == part.seq => vectors.push(vector),
                    Some(_) | None => embedded[part.thread].push((part.seq, vec![vector])),
                }
            }
        }
        let mut count = 0;
        for (thread, messages) in batch.into_iter().zip(embedded) {
            count += messages.len() as u64;
            let embeddings = MessageEmbeddings {
                thread_id: thread.thread_id,
                model: self.embedder.model().to_owned(),
                messages,
                through_seq: thread.through_seq,
                // The first thread counts the tokens of the batch.
                tokens: std::mem::take(&mut tokens),
                at: Timestamp::now(),
            };
            match self
                .store
                .commit(Transaction { fence: None, writes: vec![Write::PutEmbeddings(embeddings)] })
                .await
            {
                // The thread was deleted meanwhile.
                Ok(_) | Err(journal::Error::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(EmbeddedBatch { messages: count, refused_parts })
    }

    /// Asks the model for the embeddings of parts, and returns them with the number of tokens. A request that the endpoint refuses is
    /// divided until the refused part is known. Of that, only the beginning is sent, and `None` stands for it if that is refused too.
    ///
    /// # Errors
    /// When the endpoint refuses any text, or fails in another way.
    async fn embed_parts(
        &self,
        parts: &[MessagePart],
    ) -> Result<(Vec<Option<Embedding>>, u64), EmbeddingError> {
        let mut texts: Vec<String> = parts.iter().map(|part| part.text.clone()).collect();
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

/// Returns the first messages of a batch that have no more than `tokens_left` tokens together, as far as that can be estimated. `None`
/// if not even the first message fits.
fn limit_batch(threads: Vec<UnembeddedMessages>, tokens_left: u64) -> Option<Vec<UnembeddedMessages>> {
    let mut tokens = 0;
    let mut limited: Vec<UnembeddedMessages> = Vec::new();
    for mut thread in threads {
        let fitting = thread.texts.iter().take_while(|(_, text)| {
            tokens += split_message(text).iter().map(|part| estimate_tokens(part)).sum::<u64>();
            tokens <= tokens_left
        });
        let count = fitting.count();
        if count == thread.texts.len() {
            limited.push(thread);
            continue;
        }
        thread.texts.truncate(count);
        if let Some((seq, _)) = thread.texts.last() {
            thread.through_seq = *seq;
            limited.push(thread);
        }
        break;
    }
    (!limited.is_empty()).then_some(limited)
}

/// Returns the tokens that the model read on the day of `now`.
fn tokens_of_day(spend: Option<EmbeddingSpend>, now: Timestamp) -> u64 {
    let today = now.to_zoned(TimeZone::UTC).date();
    spend.filter(|spend| spend.day == today).map_or(0, |spend| spend.tokens)
}

#[cfg(test)]
mod tests;
