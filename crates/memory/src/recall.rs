//! Recall: what was said in a thread and in those it came from, found again by words or by place in the original
//! messages; and, when that is asked for, what the same assistant has in all its threads, its summaries and its handoffs.
//! Deliberately absent: anything of another assistant, and, as part of a conversation, what was said in an earlier thread
//! after the conversation had left it.

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

/// Tokens of one answer of the tool.
pub const RECALL_TOKENS_MAX: u64 = 1_500;

/// What is to be recalled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecallQuery {
    /// Which messages.
    pub filter: MessageFilter,
    /// The beginning of the id of the one thread of the lineage to look at; the thread a fork was copied from means the
    /// fork, which has the same places. For a range, and in the scope of everything, it may be any thread of the same
    /// assistant. `None` means all for words, and for a range
    /// the thread whose places the summary in sight names: the thread itself once it was condensed, the parent of a
    /// thread that a handoff seeded until then, and otherwise the thread itself.
    pub thread: Option<String>,
    /// For words: what the asking thread holds from this seq on is left out, because whoever asks has it in sight.
    pub visible_from: Option<Seq>,
    /// For words: a message of the asking thread before that, which whoever asks has in sight too.
    pub visible_request: Option<Seq>,
    /// For a range: how many characters of its first message are passed over, because they were read before.
    pub from_char: u64,
    /// For words: where they are looked for.
    pub scope: RecallScope,
    /// The most tokens of [`Recall::to_text`], by estimate. Less than the frame around an answer takes finds no place
    /// for any message.
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

/// Which messages are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageFilter {
    /// Those that say most about these words; a question in plain words is good.
    Words(String),
    /// Those from the first seq to the last, both included.
    Range(Seq, Seq),
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecallResult {
    /// What was looked through.
    pub scope: RecallScope,
    /// The threads that were looked through, nearest first; in the scope of everything those where anything was found.
    pub threads: Vec<ThreadId>,
    /// What summaries and handoffs say, best first; only in the scope of everything.
    pub notes: Vec<RecallNote>,
    /// Pieces of conversation, each one message or a few that follow each other. For words the best match comes first,
    /// and of several about the same thing the newest; for a range there is one piece.
    pub excerpts: Vec<Vec<RecalledMessage>>,
    /// What there is beyond the excerpts.
    pub remaining: Remaining,
    /// For a range whose first message did not fit: the message, and how many of its characters have been read.
    pub resume_at: Option<(Seq, u64)>,
    /// For a range that reaches so far: the seq at which the conversation left the thread. What was said there from
    /// then on is no part of the conversation and is not found.
    pub departed_at: Option<Seq>,
}

/// What a message says, without secrets and perhaps shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecalledMessage {
    /// The thread.
    pub thread_id: ThreadId,
    /// The message's place in it.
    pub seq: Seq,
    /// Who said it.
    pub speaker: Speaker,
    /// When.
    pub at: Timestamp,
    /// Whether it was wanted itself; false for what stands next to a match.
    pub is_match: bool,
    /// The text. It is foreign: not inert, and not for a terminal as it is.
    pub text: String,
}

/// What a summary or a handoff says, without secrets and perhaps shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecallNote {
    /// Which.
    pub source: NoteSource,
    /// When it was stored.
    pub at: Timestamp,
    /// The passage. It is foreign: not inert, and not for a terminal as it is.
    pub text: String,
}

/// Where a note is from.
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

/// Who said something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Speaker {
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A tool, by its name where it is known.
    Tool(Option<String>),
    /// Nobody: the program a session was imported from put it in.
    Harness,
}

/// What there is beyond the excerpts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remaining {
    /// At least so many more messages that match well.
    Messages(u64),
    /// The range goes on at this seq, or was read to its end.
    Range {
        /// The first message that was not read.
        next_seq: Option<Seq>,
    },
}

/// Returns what `thread_id` and the threads it came from hold of what is wanted; in the scope of everything, what its
/// assistant has.
///
/// Of a thread that was handed off only what was said until the handoff was accepted is found, and a fork finds what it
/// copied in itself; a range of a thread that is named is read whole where the thread is none of the lineage. Superseded
/// messages and the answers of earlier recalls are never found, nor is anything of another assistant's. A sub-agent's
/// thread finds what it holds itself, and nothing else: all it was given is its task.
///
/// # Errors
/// When there is no word or an empty range, when a sub-agent's thread asks for everything, when the thread named is not of the lineage, when the lineage is not a plain
/// chain of threads that exist or does not tell where it left one, and when the journal fails.
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
