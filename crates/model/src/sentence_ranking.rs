//! Sentence ranking without a model: splits a text into sentences and scores how central each is. It writes no
//! summary and knows nothing of messages; the crates that summarize choose among the sentences.

mod rank;
mod sentences;
mod stems;

pub use rank::rank_sentences;
pub use sentences::split_sentences;
