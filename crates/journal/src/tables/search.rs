//! The search index: the layout of its rows, how it is updated, and how it is searched. Appending events does not
//! update the index; a search or an idle process does.

mod candidates;
pub(crate) mod document_index;
mod document_scope;
mod documents;
pub(crate) mod index;
mod index_update;
mod query;
mod rank;
mod ranker;
mod search_scope;
mod snippets;
mod tokenizer;

pub(crate) use index::{PurgeState, needs_purge, purge_step, purge_steps_max};
pub(crate) use index_update::embeddings;
pub(crate) use index_update::{
    IndexBatchResult, IndexPass, IndexScope, ScopeIndexState, index_batch, index_scope_batch, is_behind,
    is_scope_behind, missing_embeddings, scope_backlog,
};
pub(crate) use query::search;
pub(crate) use rank::rank_messages;

use self::index::SearchExpression;
use crate::engines::sql::SqlConnection;
use crate::{Error, QUERY_WORDS_MAX, Result};

/// Maximum number of bytes of a text that are indexed. The rest of a very long text, such as a tool result, cannot be
/// found.
const SEARCHED_BYTES_MAX: usize = 64 << 10;

/// Minimum number of words of a question that is compared by its meaning.
pub(crate) const MEANING_WORDS_MIN: usize = 2;

/// Returns the id of a message's row in the index: the thread key in the upper 32 bits, the seq in the lower. The
/// messages of a thread therefore form a range of ids.
const fn message_row(thread_key: i64, seq: i64) -> i64 {
    thread_key << 32 | seq
}

/// Returns the thread key of an index row.
const fn row_thread_key(row: i64) -> i64 {
    row >> 32
}

/// Returns the seq of an index row.
const fn row_seq(row: i64) -> i64 {
    row & 0xFFFF_FFFF
}

/// Returns the search expression of each word, at the index of the word. `None` for a word that cannot be searched.
fn compile_words(db: &SqlConnection, words: &[String]) -> Vec<Option<SearchExpression>> {
    words.iter().map(|word| SearchExpression::for_word(db.dialect(), word)).collect()
}

/// Fails with [`Error::InvalidRequest`] if a query has more than [`QUERY_WORDS_MAX`] words.
pub(super) fn check_word_count(count: usize) -> Result<()> {
    if count > QUERY_WORDS_MAX {
        let reason = format!("a query has {QUERY_WORDS_MAX} words at most, not {count}");
        return Err(Error::InvalidRequest { what: "search results", reason });
    }
    Ok(())
}

/// Returns the part of a text that is indexed.
fn searchable_prefix(text: &str) -> &str {
    &text[..text.floor_char_boundary(SEARCHED_BYTES_MAX)]
}
