//! Recall: what was said in a thread and in those it came from, found again by words or by place in the original
//! messages. Deliberately absent: summaries, and anything outside the lineage, be it another thread or what was said in
//! an earlier one after the conversation had left it.

mod error;
pub(crate) mod gather;
mod lineage;
pub(crate) mod order;
pub(crate) mod passage;
mod render;
mod sight;
mod tool;
pub(crate) mod words;

use jiff::Timestamp;
use journal::Store;
use protocol::{Seq, ThreadId};

use lineage::Ancestor;

pub use error::RecallError;
pub use tool::{RECALL, RecallTool};

/// Tokens of one answer of the tool.
pub const RECALL_TOKENS_MAX: u64 = 1_500;

/// What is to be recalled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecallQuery {
    /// Which messages.
    pub wanted: Wanted,
    /// The beginning of the id of the one thread of the lineage to look at; the thread a fork was copied from means the
    /// fork, which has the same places. `None` means all for words, and for a range
    /// the thread whose places the summary in sight names: the thread itself once it was condensed, the parent of a
    /// thread that a handoff seeded until then, and otherwise the thread itself.
    pub thread: Option<String>,
    /// For words: what the asking thread holds from this seq on is left out, because whoever asks has it in sight.
    pub before: Option<Seq>,
    /// For words: a message of the asking thread before that, which whoever asks has in sight too.
    pub except: Option<Seq>,
    /// For a range: how many characters of its first message are passed over, because they were read before.
    pub from_char: u64,
    /// The most tokens of [`Recall::to_text`], by estimate. Less than the frame around an answer takes finds no place
    /// for any message.
    pub tokens_max: u64,
}

impl RecallQuery {
    /// Returns a query of the whole lineage, as large as the tool's.
    pub const fn of(wanted: Wanted) -> Self {
        Self { wanted, thread: None, before: None, except: None, from_char: 0, tokens_max: RECALL_TOKENS_MAX }
    }
}

/// Which messages are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// Those that say most about these words; a question in plain words is good.
    Words(String),
    /// Those from the first seq to the last, both included.
    Range(Seq, Seq),
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recall {
    /// The threads that were looked through, nearest first.
    pub threads: Vec<ThreadId>,
    /// Pieces of conversation, each one message or a few that follow each other. For words the best match comes first,
    /// and of several about the same thing the newest; for a range there is one piece.
    pub excerpts: Vec<Vec<Passage>>,
    /// What there is beyond the excerpts.
    pub rest: Rest,
    /// For a range whose first message did not fit: the message, and how many of its characters have been read.
    pub cut: Option<(Seq, u64)>,
    /// For a range that reaches so far: the seq at which the conversation left the thread. What was said there from
    /// then on is no part of the conversation and is not found.
    pub left_at: Option<Seq>,
}

/// What a message says, without secrets and perhaps shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
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
pub enum Rest {
    /// At least so many more messages that match well.
    Messages(u64),
    /// The range goes on at this seq, or was read to its end.
    Range {
        /// The first message that was not read.
        next_seq: Option<Seq>,
    },
}

/// Returns what `thread_id` and the threads it came from hold of what is wanted.
///
/// Of a thread that was handed off only what was said until the handoff was accepted is found, and a fork finds what it
/// copied in itself. Superseded messages and the answers of earlier recalls are never found.
///
/// # Errors
/// When there is no word or an empty range, when the thread named is not of the lineage, when the lineage is not a plain
/// chain of threads that exist or does not tell where it left one, and when the journal fails.
pub async fn recall(
    store: &dyn Store,
    thread_id: ThreadId,
    query: &RecallQuery,
) -> Result<Recall, RecallError> {
    // A broken lineage does not keep a thread from what it holds itself.
    let is_own = query.thread.as_ref().is_some_and(|named| named.parse() == Ok(thread_id));
    let lineage = match is_own {
        true => lineage::alone(store, thread_id).await?,
        false => lineage::lineage(store, thread_id).await?,
    };
    let named = query.thread.as_deref().map(|prefix| lineage::named(&lineage, prefix)).transpose()?;
    let threads = match (named, &query.wanted) {
        (Some(named), _) => std::slice::from_ref(named),
        (None, Wanted::Words(_)) => &lineage,
        (None, Wanted::Range(..)) => std::slice::from_ref(default_of_range(store, &lineage).await?),
    };
    let mut parts = Vec::with_capacity(threads.len());
    for thread in threads {
        parts.push(thread.part(store).await?);
    }
    match &query.wanted {
        Wanted::Words(text) => {
            if let Some(own) = parts.first_mut().filter(|part| part.thread_id == thread_id) {
                own.before = query.before;
            }
            let in_sight = query.except.map(|seq| (thread_id, seq));
            gather::Gathering::new(store, parts, query.tokens_max).by_words(text, in_sight).await
        }
        Wanted::Range(from, to) => {
            let from = (*from, query.from_char);
            gather::Gathering::new(store, parts, query.tokens_max).by_range(from, *to).await
        }
    }
}

/// Returns the thread whose places a range means when none is named.
async fn default_of_range<'a>(
    store: &dyn Store,
    lineage: &'a [Ancestor],
) -> Result<&'a Ancestor, RecallError> {
    let own = &lineage[0];
    match lineage.get(1).filter(|parent| parent.seeded(own.thread_id)) {
        Some(parent) if !sight::is_condensed(store, own.thread_id).await? => Ok(parent),
        Some(_) | None => Ok(own),
    }
}
