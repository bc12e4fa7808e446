//! Embeddings: vectors that represent the meaning of texts, and the interface to the model that makes them.

use async_trait::async_trait;
use jiff::Timestamp;
use jiff::civil::Date;
use protocol::{Seq, ThreadId};
use serde::Serialize;

/// Maximum number of parts of a message that have an embedding each.
pub const EMBEDDED_PARTS_MAX: usize = 8;

/// The reason why vectors of an endpoint that has changed its model are neither compared nor stored.
pub const OTHER_DIMENSIONS: &str = "its vectors have another length than the stored ones; name the model differently in \
    `search.embeddings`, for example with `dimensions` or a prefix, to embed all messages again";

/// Maximum number of dimensions of an embedding.
const DIMENSIONS_MAX: usize = 8_192;

/// A vector that represents the meaning of a text. Its length does not matter, only its direction. Each dimension is stored in one
/// byte, which keeps the order of similarities almost unchanged and takes a quarter of the room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Embedding(Vec<i8>);

impl Embedding {
    /// Returns the embedding with the direction of a vector. `None` if the vector is empty, zero, too long or not finite.
    pub fn from_vector(vector: &[f32]) -> Option<Self> {
        let largest = vector.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
        let is_usable =
            vector.iter().all(|value| value.is_finite()) && largest > 0.0 && vector.len() <= DIMENSIONS_MAX;
        is_usable.then(|| {
            let scale = f32::from(i8::MAX) / largest;
            Self(vector.iter().map(|value| (value * scale).round() as i8).collect())
        })
    }

    /// Returns the number of dimensions.
    pub(crate) const fn dimensions(&self) -> u64 {
        self.0.len() as u64
    }

    /// Returns the stored form: one byte for each dimension.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().map(|value| value.cast_unsigned()).collect()
    }

    /// Returns the cosine of the angle to an embedding in its stored form, from -1 to 1. `None` if its number of dimensions differs.
    pub(crate) fn similarity(&self, stored: &[u8]) -> Option<f64> {
        if self.0.len() != stored.len() {
            return None;
        }
        let (mut product, mut own_square, mut stored_square) = (0_i32, 0_i32, 0_i32);
        for (own, other) in self.0.iter().zip(stored) {
            let (own, other) = (i32::from(*own), i32::from(other.cast_signed()));
            product += own * other;
            own_square += own * own;
            stored_square += other * other;
        }
        let lengths = (f64::from(own_square) * f64::from(stored_square)).sqrt();
        (lengths > 0.0).then(|| f64::from(product) / lengths)
    }
}

/// A model that makes embeddings of questions for searches. [`crate::Store::set_embedder`] gives it to a store.
#[async_trait]
pub trait QuestionEmbedder: Send + Sync {
    /// Returns the identity of the model. Only embeddings of the same model are compared.
    fn model(&self) -> &str;

    /// Returns the embedding of a question. It must return within a time that a search may take.
    ///
    /// # Errors
    /// When the model gives no embedding. The search then compares words only.
    async fn embed_question(&self, question: &str) -> Result<Embedding, EmbeddingFailure>;
}

/// The reason why a model gave no embedding.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct EmbeddingFailure {
    /// The reason in one line, for people.
    pub reason: String,
}

/// The meaning of a question, as a model represents it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QuestionMeaning {
    /// The identity of the model.
    pub(crate) model: String,
    /// The embedding of the question.
    pub(crate) embedding: Embedding,
}

/// The way in which a search compared meaning.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum MeaningComparison {
    /// Not at all, because no model is configured, or the query is a phrase or a single word.
    #[default]
    Off,
    /// With the embeddings of a model.
    Compared {
        /// An upper bound of the number of messages in the scope that have no embedding yet, so that only their words were
        /// compared.
        missing: u64,
    },
    /// Not at all, because the model gave no embedding of the question, or one that cannot be compared with the stored ones.
    Unavailable {
        /// The reason in one line, for people.
        reason: String,
    },
}

/// The messages of a thread that have no embedding of a model yet, or the first of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnembeddedMessages {
    /// The thread.
    pub thread_id: ThreadId,
    /// The texts that people and models wrote. Results of tools and texts of one or two words are left out.
    pub texts: Vec<(Seq, String)>,
    /// The seq up to which `texts` is complete.
    pub through_seq: Seq,
}

/// Messages without embeddings of a model, and what the model has read already.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnembeddedBatch {
    /// The messages by thread, those of the most recently changed thread first. It is empty if no message lacks an embedding.
    pub threads: Vec<UnembeddedMessages>,
    /// The tokens of the newest day on which a model read messages.
    pub daily_tokens: Option<DailyTokens>,
    /// Number of dimensions of the stored embeddings of the model; `None` if it has none.
    pub dimensions: Option<u64>,
}

/// The tokens that all models together read on a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DailyTokens {
    /// The day in UTC.
    pub day: Date,
    /// Number of tokens.
    pub tokens: u64,
}

/// The embeddings of messages of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageEmbeddings {
    /// The thread. It must exist.
    pub thread_id: ThreadId,
    /// The identity of the model.
    pub model: String,
    /// The embeddings of each message, one for each of its parts, of which there are at most [`EMBEDDED_PARTS_MAX`].
    pub messages: Vec<(Seq, Vec<Embedding>)>,
    /// The seq up to which the messages of the thread need no further embeddings.
    pub through_seq: Seq,
    /// Number of tokens that the model read for them.
    pub tokens: u64,
    /// The time at which the model read them.
    pub at: Timestamp,
}

/// The number of messages with and without embeddings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct EmbeddingCounts {
    /// Number of embeddings of the model. A long message has several.
    pub embeddings: u64,
    /// Number of messages of people and models without embeddings. Very short ones, which get none, count too.
    pub missing: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similarity_is_the_cosine_of_the_angle_whatever_the_lengths() {
        let check = |one: &[f32], other: &[f32], expected: f64| {
            let [one, other] = [one, other].map(|vector| Embedding::from_vector(vector).unwrap());
            let similarity = one.similarity(&other.to_bytes()).unwrap();
            assert!((similarity - expected).abs() < 0.01, "{similarity}");
        };
        check(&[1.0, 0.0], &[30.0, 0.0], 1.0);
        check(&[1.0, 0.0], &[0.0, -2.0], 0.0);
        check(&[0.5, 0.5], &[-7.0, -7.0], -1.0);
        check(&[3.0, 4.0], &[4.0, 3.0], 0.96);
    }

    #[test]
    fn a_vector_without_a_direction_is_no_embedding() {
        for vector in [&[][..], &[0.0, 0.0], &[f32::NAN, 1.0], &[f32::INFINITY], &[1.0; DIMENSIONS_MAX + 1]] {
            assert_eq!(Embedding::from_vector(vector), None);
        }
        let embedding = Embedding::from_vector(&[1.0, 0.0]).unwrap();
        assert_eq!(embedding.similarity(&[1]), None);
        assert_eq!(embedding.similarity(&[0, 0]), None);
    }
}
