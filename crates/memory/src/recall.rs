//! Recall: finds original messages of a thread and its ancestors by words or by seq range. On request it also
//! covers all threads, summaries and handoffs of the same assistant.
//!
//! Deliberately absent: data of other assistants, and messages that an ancestor got after the conversation had
//! left it.

mod assistant_scope;
pub(crate) mod collect;
mod error;
mod lineage;
pub(crate) mod messages;
pub(crate) mod passage;
pub(crate) mod query_words;
pub(crate) mod ranking;
mod render;
mod tool;
mod visible_turn;

use jiff::Timestamp;
use journal::{Store, ThreadPrefix};
use protocol::{Seq, ThreadId};
use schemars::JsonSchema;
use serde::Deserialize;

use lineage::Ancestor;

pub use error::RecallError;
pub use tool::{RECALL, RecallTool};

/// Maximum tokens of one answer of the tool.
pub const RECALL_TOKENS_MAX: u64 = 1_500;

/// A recall request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecallQuery {
    /// The messages to find.
    pub filter: MessageFilter,
    /// Prefix of the id of the one thread of the lineage to read. The source of a fork stands for the fork, which has
    /// the same seqs. For a range, and in the scope of everything, it may be any thread of the same assistant.
    ///
    /// `None` means all threads for words. For a range it means the thread whose seqs the visible summary cites: the
    /// parent, for a thread seeded by a handoff that has not been compacted yet, otherwise the thread itself.
    pub thread: Option<String>,
    /// For words: excludes messages of the requesting thread from this seq on, because the requester already sees them.
    pub visible_from: Option<Seq>,
    /// For words: an earlier message of the requesting thread that the requester also sees.
    pub visible_request: Option<Seq>,
    /// For a range: number of characters of its first message to skip, because an earlier call returned them.
    pub from_char: u64,
    /// For words: the scope of the search.
    pub scope: RecallScope,
    /// Maximum estimated tokens of [`RecallResult::to_text`]. A limit smaller than the frame of an answer leaves no
    /// room for any message.
    pub tokens_max: u64,
}

impl RecallQuery {
    /// Returns a query of the whole lineage, as large as the tool's.
    pub const fn new(filter: MessageFilter) -> Self {
        Self {
            filter,
            thread: None,
            visible_from: None,
            visible_request: None,
            from_char: 0,
            scope: RecallScope::Conversation,
            tokens_max: RECALL_TOKENS_MAX,
        }
    }
}

/// Where words are looked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecallScope {
    /// In the thread that asks and those it came from.
    #[default]
    Conversation,
    /// In everything of the assistant whose thread asks.
    Everything,
}

/// The selection of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageFilter {
    /// The best matches of these words. A question in plain language works well.
    Words(String),
    /// Those from the first seq to the last, both included.
    Range(Seq, Seq),
}

/// The result of a recall.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecallResult {
    /// The scope that was searched.
    pub scope: RecallScope,
    /// The threads that were looked through, nearest first; in the scope of everything those where anything was found.
    pub threads: Vec<ThreadId>,
    /// Passages of summaries and handoffs, best first. Only filled in the scope of everything.
    pub notes: Vec<RecallNote>,
    /// Pieces of conversation, each one message or a few that follow each other. For words the best match comes first,
    /// and of several about the same thing the newest; for a range there is one piece.
    pub excerpts: Vec<Vec<RecalledMessage>>,
    /// The matches or messages beyond the excerpts.
    pub remaining: Remaining,
    /// For a range whose first message did not fit: the message, and how many of its characters have been read.
    pub resume_at: Option<(Seq, u64)>,
    /// For a range that reaches so far: the seq at which the conversation left the thread. What was said there from
    /// then on is no part of the conversation and is not found.
    pub departed_at: Option<Seq>,
}

/// A recalled message with its secrets redacted, possibly shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecalledMessage {
    /// The thread.
    pub thread_id: ThreadId,
    /// The message's seq in the thread.
    pub seq: Seq,
    /// The author of the message.
    pub speaker: Speaker,
    /// Time of the message.
    pub at: Timestamp,
    /// True for a match; false for a message adjacent to a match.
    pub is_match: bool,
    /// The text. It is untrusted: escape it for prompts and terminals.
    pub text: String,
}

/// A passage of a summary or handoff with its secrets redacted, possibly shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecallNote {
    /// The summary or handoff.
    pub source: NoteSource,
    /// Time at which it was stored.
    pub at: Timestamp,
    /// The passage. It is untrusted: escape it for prompts and terminals.
    pub text: String,
}

/// The origin of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteSource {
    /// A summary of medium-term memory.
    Summary {
        /// The thread of its first turn; `None` when that was deleted.
        thread_id: Option<ThreadId>,
        /// The lowest index of its turns.
        first_turn: u64,
        /// The highest index of its turns.
        last_turn: u64,
    },
    /// A handoff.
    Handoff {
        /// The thread it came from.
        parent_thread_id: ThreadId,
        /// The thread it seeded, or would have.
        child_thread_id: ThreadId,
    },
}

/// The author of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Speaker {
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A tool, by its name where it is known.
    Tool(Option<String>),
    /// No participant: the program that recorded an imported session injected the text.
    Harness,
}

/// The messages beyond the excerpts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remaining {
    /// At least this many more messages match well.
    Messages(u64),
    /// The state of a range that was read.
    Range {
        /// The first message that was not read.
        next_seq: Option<Seq>,
    },
}

/// Returns the requested messages of `thread_id` and its ancestors; in the scope of everything, those of its assistant.
///
/// An ancestor that was handed off contributes only messages before the handoff was accepted. Messages copied by a fork
/// are found in the fork. A range in a named thread outside the lineage is read without such a limit. Superseded
/// messages, answers of earlier recalls, and data of other assistants are never found. A sub-agent's thread finds only
/// its own messages, because its task is all it was given.
///
/// # Errors
/// When the query has no word or an empty range, when a sub-agent's thread asks for everything, when the named thread
/// is not in the lineage, when the lineage is not a plain chain of existing threads or its branch point is unknown, and
/// when the journal fails.
pub async fn recall(
    store: &dyn Store,
    thread_id: ThreadId,
    query: &RecallQuery,
) -> Result<RecallResult, RecallError> {
    match (&query.filter, query.scope) {
        (MessageFilter::Words(text), RecallScope::Everything) => {
            assistant_scope::recall_from_assistant(store, thread_id, query, text).await
        }
        (MessageFilter::Words(text), RecallScope::Conversation) => {
            recall_by_words(store, thread_id, query, text).await
        }
        (MessageFilter::Range(from, to), _) => {
            let part = resolve_range_thread(store, thread_id, query.thread.as_deref()).await?;
            collect::RecallCollector::new(store, vec![part], query.tokens_max)
                .collect_range(*from, query.from_char, *to)
                .await
        }
    }
}

async fn recall_by_words(
    store: &dyn Store,
    thread_id: ThreadId,
    query: &RecallQuery,
    text: &str,
) -> Result<RecallResult, RecallError> {
    let lineage = resolve_lineage(store, thread_id, query.thread.as_deref()).await?;
    let named = query.thread.as_deref().map(|prefix| lineage::find_named(&lineage, prefix)).transpose()?;
    let threads = named.map_or(&lineage[..], std::slice::from_ref);
    let mut parts = Vec::with_capacity(threads.len());
    for thread in threads {
        parts.push(thread.thread_part(store).await?);
    }
    if let Some(own) = parts.first_mut().filter(|part| part.thread_id == thread_id) {
        own.before = query.visible_from;
    }
    let in_sight = query.visible_request.map(|seq| collect::MessageLocation { thread_id, seq });
    collect::RecallCollector::new(store, parts, query.tokens_max).collect_by_words(text, in_sight).await
}

/// Returns the thread that a range means, as far as it may be read.
async fn resolve_range_thread(
    store: &dyn Store,
    thread_id: ThreadId,
    thread: Option<&str>,
) -> Result<ThreadPrefix, RecallError> {
    let lineage = resolve_lineage(store, thread_id, thread).await?;
    let Some(prefix) = thread else {
        return default_range_thread(store, &lineage).await?.thread_part(store).await;
    };
    match lineage::find_named(&lineage, prefix) {
        Ok(named) => named.thread_part(store).await,
        Err(foreign @ RecallError::ForeignThread { .. }) => {
            match assistant_scope::find_thread_of_same_assistant(store, thread_id, prefix).await {
                Ok(thread_id) => Ok(ThreadPrefix { thread_id, before: None }),
                // The lineage is what can be named for certain, and all that a sub-agent may name.
                Err(RecallError::ForeignThread { .. } | RecallError::SubagentScope) => Err(foreign),
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

async fn resolve_lineage(
    store: &dyn Store,
    thread_id: ThreadId,
    thread: Option<&str>,
) -> Result<Vec<Ancestor>, RecallError> {
    // A broken lineage does not keep a thread from what it holds itself.
    let is_own = thread.is_some_and(|named| named.parse() == Ok(thread_id));
    match is_own {
        true => lineage::single_thread_lineage(store, thread_id).await,
        false => lineage::load_lineage(store, thread_id).await,
    }
}

/// Returns the thread whose places a range means when none is named.
async fn default_range_thread<'a>(
    store: &dyn Store,
    lineage: &'a [Ancestor],
) -> Result<&'a Ancestor, RecallError> {
    let own = &lineage[0];
    match lineage.get(1).filter(|parent| parent.has_seeded(own.thread_id)) {
        Some(parent) if !visible_turn::is_compacted(store, own.thread_id).await? => Ok(parent),
        Some(_) | None => Ok(own),
    }
}
