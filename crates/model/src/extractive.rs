//! What can be said about a text without a model: its sentences and which of them matter most. It writes no summary
//! and knows nothing of messages; the rooms that summarise decide what to do with the sentences.

mod rank;
mod sentences;
mod words;

pub use rank::rank;
pub use sentences::sentences;
