//! Recall: finds original messages of a thread and its ancestors by words or by seq range. On request it also
//! covers all threads, summaries and handoffs of the same assistant.
//!
//! A recall only reads. Every text in its result is redacted, fits a token budget, and is untrusted data: a message
//! can contain anything that a user, a model or a tool wrote. The order of the results is explained in [`ranking`].
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

use futures::future::BoxFuture;
use jiff::Timestamp;
use journal::{IndexBacklog, MeaningComparison, Store, ThreadPrefix};
use protocol::{Seq, ThreadId};
use schemars::JsonSchema;
use serde::Deserialize;

use lineage::Ancestor;

pub use error::RecallError;
pub use tool::{RECALL, RecallTool};

/// Maximum estimated tokens of one answer of the tool.
pub const RECALL_TOKENS_MAX: u64 = 1_500;

/// A recall request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecallQuery {
    /// The messages to find.
    pub filter: MessageFilter,
    /// Prefix of the id of the one thread of the lineage to read. The source of a fork stands for the fork, which has
    /// the same seqs. For a range, and in the scope of the project, it may be any thread of the same
    /// assistant in the same project; in the scope of everything, any thread of the assistant.
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
    /// For words: maximum number of matches in the answer, without the messages adjacent to them.
    pub matches_max: usize,
}

impl RecallQuery {
    /// Returns a query over the whole lineage with the tool's limit of [`RECALL_TOKENS_MAX`] tokens. It treats no
    /// message as visible to the requester.
    pub const fn new(filter: MessageFilter) -> Self {
        Self {
            filter,
            thread: None,
            visible_from: None,
            visible_request: None,
            from_char: 0,
            scope: RecallScope::Conversation,
            tokens_max: RECALL_TOKENS_MAX,
            matches_max: collect::SHOWN_MAX,
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
    /// In all threads of the assistant that are in the project of the thread that asks, or in no project as it.
    Project,
    /// In everything of the assistant whose thread asks.
    Everything,
}

/// The selection of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageFilter {
    /// The messages that match these words best. A question in plain language works well, because stop words are
    /// ignored.
    Words(String),
    /// The messages from the first seq to the last, both included, in order.
    Range(Seq, Seq),
}

/// The result of a recall.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecallResult {
    /// The scope that was searched.
    pub scope: RecallScope,
    /// The threads that were searched, nearest first. In a wider scope than the conversation: only those with a match.
    pub threads: Vec<ThreadId>,
    /// Passages of summaries and handoffs, best first. Empty in the scope of a conversation.
    pub notes: Vec<RecallNote>,
    /// Pieces of conversation, each of one to three consecutive messages. For words, the best match comes first, and
    /// the newest comes first among matches about the same thing. A range has one piece at most, with all its messages.
    pub excerpts: Vec<Vec<RecalledMessage>>,
    /// The matches or messages that the excerpts do not contain.
    pub remaining: Remaining,
    /// Number of matches, or of messages of the range, that were left out because their stored form is damaged.
    pub damaged: u64,
    /// For words: the messages of the searched threads that are not indexed yet, so that they were not searched.
    pub backlog: IndexBacklog,
    /// For words: the way in which meaning was compared.
    pub meaning: MeaningComparison,
    /// For a range whose first message did not fit whole: the seq of the message, and the number of its characters that
    /// have been returned so far. Pass that number as [`RecallQuery::from_char`] to read on.
    pub resume_at: Option<(Seq, u64)>,
    /// For a range that extends beyond the conversation's part of the thread: the seq at which the conversation left
    /// the thread. Messages from that seq on do not belong to the conversation and are not returned.
    pub departed_at: Option<Seq>,
}

/// A recalled message with its secrets redacted, possibly shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecalledMessage {
    /// The thread that contains the message.
    pub thread_id: ThreadId,
    /// The message's seq in the thread.
    pub seq: Seq,
    /// The author of the message.
    pub speaker: Speaker,
    /// Time at which the message was journaled.
    pub at: Timestamp,
    /// True for a match and for a message of a range; false for a message adjacent to a match.
    pub is_match: bool,
    /// The text, with `…` where it was cut. It is untrusted: escape it for prompts and terminals.
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
        /// The thread of its first message; `None` if that thread was deleted.
        thread_id: Option<ThreadId>,
        /// The lowest index (`turn_index`) of its messages.
        first_turn: u64,
        /// The highest index of its messages.
        last_turn: u64,
    },
    /// A handoff.
    Handoff {
        /// The thread that was handed off.
        parent_thread_id: ThreadId,
        /// The thread that the handoff seeded. If the handoff was not accepted, this thread does not exist.
        child_thread_id: ThreadId,
    },
}

/// The author of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Speaker {
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool, by its name where it is known.
    Tool(Option<String>),
    /// No participant of the conversation: the program that recorded an imported session injected the text.
    Harness,
}

/// The messages that the excerpts do not contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remaining {
    /// A lower bound for the number of other messages that match well.
    Messages(u64),
    /// The state of a range that was read.
    Range {
        /// The seq of the first message that did not fit; `None` when the whole range was read.
        next_seq: Option<Seq>,
    },
}

/// Returns the requested messages of `thread_id` and its ancestors; in the scope of everything, those of its assistant.
///
/// An ancestor that was handed off contributes only messages before the handoff was accepted. Messages copied by a fork
/// are found in the fork. A range in a named thread outside the lineage is read without such a limit. Superseded
/// messages, answers of earlier recalls, and data of other assistants are never found. A sub-agent's thread finds only
/// its own messages, because its task is all it was given. Damaged messages are counted and left out.
///
/// Memory and work are bounded: a query ranks at most 100 messages and reads at most 12 of them with their neighbours.
///
/// # Errors
/// When the query has no word or an empty range, when a sub-agent's thread asks for everything, when the named thread
/// is not in the lineage, when the lineage is not a plain chain of existing threads or its branch point is unknown, and
/// when the journal fails.
pub fn recall<'a>(
    store: &'a dyn Store,
    thread_id: ThreadId,
    query: &'a RecallQuery,
) -> BoxFuture<'a, Result<RecallResult, RecallError>> {
    journal::box_future(async move {
        match (&query.filter, query.scope) {
            (MessageFilter::Words(text), RecallScope::Project | RecallScope::Everything) => {
                assistant_scope::recall_from_assistant(store, thread_id, query, text).await
            }
            (MessageFilter::Words(text), RecallScope::Conversation) => {
                recall_by_words(store, thread_id, query, text).await
            }
            // A range is read in one thread. The scope only decides which threads may be named.
            (MessageFilter::Range(from, to), _) => {
                let part = resolve_range_thread(store, thread_id, query).await?;
                collect::RecallCollector::new(store, vec![part], query.tokens_max)
                    .collect_range(*from, query.from_char, *to)
                    .await
            }
        }
    })
}

/// Searches the lineage, or the one thread of it that the query names, for words.
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
    // The requester already has the visible messages; as matches they would only take the place of others.
    if let Some(own) = parts.first_mut().filter(|part| part.thread_id == thread_id) {
        own.before = query.visible_from;
    }
    let visible = query.visible_request.map(|seq| collect::MessageLocation { thread_id, seq });
    let mut collector = collect::RecallCollector::new(store, parts, query.tokens_max);
    collector.matches_max = query.matches_max;
    collector.collect_by_words(text, visible).await
}

/// Returns the thread that a range refers to, limited to the part that may be read.
///
/// A named thread is looked up in the lineage first, and then among the threads of the assistant in the same project, or
/// among all of its threads in the scope of everything. It is read to its end then, because the conversation never left
/// it.
async fn resolve_range_thread(
    store: &dyn Store,
    thread_id: ThreadId,
    query: &RecallQuery,
) -> Result<ThreadPrefix, RecallError> {
    let thread = query.thread.as_deref();
    let lineage = resolve_lineage(store, thread_id, thread).await?;
    let Some(prefix) = thread else {
        return default_range_thread(store, &lineage).await?.thread_part(store).await;
    };
    match lineage::find_named(&lineage, prefix) {
        Ok(named) => named.thread_part(store).await,
        Err(foreign @ RecallError::ForeignThread { .. }) => {
            match assistant_scope::find_range_thread(store, thread_id, prefix, query.scope).await {
                Ok(thread_id) => Ok(ThreadPrefix { thread_id, before: None }),
                // The first error lists the lineage, whose threads can always be named. A sub-agent may name no others.
                Err(RecallError::ForeignThread { .. } | RecallError::SubagentScope) => Err(foreign),
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

/// Returns the lineage of `thread_id`, nearest thread first. If `thread` is the full id of the thread itself, the
/// lineage is that thread alone.
async fn resolve_lineage(
    store: &dyn Store,
    thread_id: ThreadId,
    thread: Option<&str>,
) -> Result<Vec<Ancestor>, RecallError> {
    // Ancestors are not loaded then, so that a thread with a broken lineage can still recall its own messages.
    let is_own = thread.is_some_and(|named| named.parse() == Ok(thread_id));
    match is_own {
        true => lineage::single_thread_lineage(store, thread_id).await,
        false => lineage::load_lineage(store, thread_id).await,
    }
}

/// Returns the thread that a range refers to when the query names none: the thread whose seqs the visible summary
/// cites.
///
/// A thread that was seeded by a handoff shows the summary of its parent until its own messages are compacted.
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
