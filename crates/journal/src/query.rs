//! What can be asked of a store, and what it answers beside rows: filters, pages, finds, health. It names no database.

pub(crate) mod items;
pub(crate) mod outbox;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use protocol::{
    AssistantId, Category, CheckpointId, EventType, HandoffId, HandoffStatus, MediumTermSummary, RunStatus,
    Scope, Seq, SummaryId, ThreadId, ThreadState, ThreadStatus,
};
use serde_json::{Map, Value};

/// Stands for any label where namespaces are listed.
pub(crate) const ANY_LABEL: &str = "*";

/// Whether a read returns events that a [`crate::Write::Rewind`] superseded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Superseded {
    /// They are left out, and take no place in a page.
    #[default]
    Hidden,
    /// They are returned like any other.
    Shown,
}

/// Runs that nobody works on: cut off with their process, or waiting for one that is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unclaimed {
    /// The present: leases that ended before it count no more.
    pub now: Timestamp,
    /// Processes that are known to be gone whatever their leases say.
    pub gone: Vec<String>,
    /// The most runs that worked, and the most that waited, to return.
    pub limit: usize,
}

/// A page of events of one thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventQuery {
    /// Only events after this seq.
    pub after: Option<Seq>,
    /// Only events before this seq.
    pub before: Option<Seq>,
    /// Only these categories; empty means all.
    pub categories: Vec<Category>,
    /// Only these types; empty means all.
    pub types: Vec<EventType>,
    /// Whether superseded events are among them.
    pub superseded: Superseded,
    /// The most events to return, 1 to [`crate::PAGE_ROWS_MAX`].
    pub limit: usize,
}

impl EventQuery {
    /// Returns a query for the first `limit` events after `seq`, of every type.
    pub const fn after(seq: Seq, limit: usize) -> Self {
        Self {
            after: Some(seq),
            before: None,
            categories: Vec::new(),
            types: Vec::new(),
            superseded: Superseded::Hidden,
            limit,
        }
    }
}

/// What a list of threads is sorted by. Of equal ones the order is that of their ids.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SortBy {
    /// When something last happened.
    #[default]
    Updated,
    /// When they were created.
    Created,
    /// The name of their status.
    Status,
    /// Their ids.
    Id,
}

/// Which end of an order comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Direction {
    /// The latest, or the last in the alphabet.
    #[default]
    Descending,
    /// The earliest, or the first in the alphabet.
    Ascending,
}

/// The order of a thread list; the most recently active thread comes first unless another one is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sort {
    /// By what.
    pub by: SortBy,
    /// Which end comes first.
    pub direction: Direction,
}

impl Sort {
    /// The thread that was created last comes first.
    pub const NEWEST: Self = Self { by: SortBy::Created, direction: Direction::Descending };
}

/// Whether a list has the threads of sub-agents, and those that came from them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Subagents {
    /// They are left out.
    #[default]
    Hidden,
    /// They are listed like any other.
    Shown,
}

/// Which threads to list; every set field must match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadFilter {
    /// Whose. There is no default: a store refuses `None` as [`crate::Error::Invalid`], unless it is a
    /// [`crate::Scoped`] one, which knows whose it is.
    pub scope: Option<Scope>,
    /// Only threads of this assistant.
    pub assistant_id: Option<AssistantId>,
    /// Only children of this thread.
    pub parent_id: Option<ThreadId>,
    /// Whether threads of sub-agents are among them.
    pub subagents: Subagents,
    /// Only these; empty means all.
    pub ids: Vec<ThreadId>,
    /// Only those at one of these; empty means all.
    pub statuses: Vec<ThreadStatus>,
    /// Only those in this state.
    pub state: Option<ThreadState>,
    /// Only those whose metadata contain this: every key with an equal value, where an object contains each object that
    /// has no other fields.
    pub metadata: Map<String, Value>,
    /// Only those whose metadata have nothing of that name.
    pub lacking: Option<&'static str>,
    /// Only those whose name or first prompt contains this, in capitals or not.
    pub text: Option<String>,
    /// The order.
    pub order: Sort,
    /// How many to skip.
    pub offset: usize,
    /// The most threads to return, 1 to [`crate::PAGE_ROWS_MAX`].
    pub limit: usize,
}

impl ThreadFilter {
    /// Returns a filter for the first `limit` threads of a scope, most recently active first.
    pub fn of(scope: Scope, limit: usize) -> Self {
        Self { scope: Some(scope), limit, ..Self::default() }
    }
}

/// Which runs to list; every set field must match. Newest first: their ids are in the order of time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Only those on threads of this scope; a [`crate::Scoped`] store sets its own. `None` means everybody's.
    pub scope: Option<Scope>,
    /// Only runs of this thread.
    pub thread_id: Option<ThreadId>,
    /// Only runs at one of these; empty means all.
    pub statuses: Vec<RunStatus>,
    /// How many to skip.
    pub offset: usize,
    /// The most runs to return, 1 to [`crate::PAGE_ROWS_MAX`].
    pub limit: usize,
}

/// A point in a thread's past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointRef {
    /// The point after the step that wrote this checkpoint.
    Id(CheckpointId),
    /// The newest point at or before this seq.
    Seq(Seq),
}

/// Which handoffs to list; every set field must match. Newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HandoffFilter {
    /// Only what belongs to this scope; a [`crate::Scoped`] store sets its own. `None` means everybody's.
    pub scope: Option<Scope>,
    /// Only handoffs of this parent.
    pub parent_thread_id: Option<ThreadId>,
    /// Only the handoff that seeded (or would seed) this thread.
    pub child_thread_id: Option<ThreadId>,
    /// Only handoffs of this assistant.
    pub assistant_id: Option<AssistantId>,
    /// Only handoffs at one of these; empty means all.
    pub statuses: Vec<HandoffStatus>,
    /// The most handoffs to return; `None` means all.
    pub limit: Option<usize>,
}

/// What a search can find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FoundKind {
    /// A message of a thread.
    Message,
    /// A summary of medium-term memory.
    Summary,
    /// A handoff, by the proposal that counts: the accepted one, or else the latest.
    Handoff,
    /// An item of the store.
    Item,
}

/// How many of its words a search insists on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Require {
    /// Any of them is enough; more are better.
    #[default]
    Any,
    /// All of them.
    Every,
}

/// A question about everything that is stored; every set field must match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchQuery {
    /// Only what belongs to this scope; a [`crate::Scoped`] store sets its own. `None` means everybody's.
    pub scope: Option<Scope>,
    /// The words, at most [`crate::QUERY_WORDS_MAX`]. One that consists of several, as a path does, is found where they
    /// follow each other.
    pub words: Vec<String>,
    /// How many of them must be there.
    pub require: Require,
    /// What is looked for; empty means everything but items.
    pub kinds: Vec<FoundKind>,
    /// Only what belongs to this thread: its messages, what it copied included, the summaries that stand for turns of it,
    /// the handoffs from it and to it. Items belong to none.
    pub thread_id: Option<ThreadId>,
    /// Only what belongs to this assistant. Of items, that is what is kept under [`crate::AGENT_ITEMS`] and its id; what
    /// is kept elsewhere belongs to nobody.
    pub assistant_id: Option<AssistantId>,
    /// Only what was stored at this time or later.
    pub since: Option<Timestamp>,
    /// What was said at any of these dates is better than it is by its words.
    pub dates: Vec<NamedDate>,
    /// The most places to return, 1 to [`crate::PAGE_ROWS_MAX`].
    pub limit: usize,
}

/// A date as people name it, in UTC: the parts that were named. One without any part is no date.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NamedDate {
    /// The year.
    pub year: Option<i16>,
    /// The month, from 1.
    pub month: Option<i8>,
    /// The day of the month, from 1.
    pub day: Option<i8>,
}

impl NamedDate {
    /// Returns how well a time fits: 0 when it is not of that month and year, 1 when it is, 2 when it is of that day too.
    pub fn fit(&self, at: Timestamp) -> u8 {
        let date = at.to_zoned(TimeZone::UTC).date();
        let is_named = self.year.is_some() || self.month.is_some();
        let is_then = self.year.is_none_or(|year| year == date.year())
            && self.month.is_none_or(|month| month == date.month());
        match is_named && is_then {
            true => 1 + u8::from(self.day == Some(date.day())),
            false => 0,
        }
    }
}

/// Where something was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In a message.
    Message {
        /// The thread.
        thread_id: ThreadId,
        /// The event.
        seq: Seq,
        /// `human`, `ai` or `tool`.
        role: String,
    },
    /// In a summary of medium-term memory.
    Summary {
        /// The summary.
        summary_id: SummaryId,
        /// The thread of its first turn; `None` when that was deleted.
        thread_id: Option<ThreadId>,
        /// The lowest index of its turns.
        first_turn: u64,
        /// The highest index of its turns.
        last_turn: u64,
    },
    /// In a handoff.
    Handoff {
        /// The handoff.
        handoff_id: HandoffId,
        /// The thread it came from.
        parent_thread_id: ThreadId,
        /// The thread it seeded, or would have.
        child_thread_id: ThreadId,
    },
    /// In an item of the store.
    Item {
        /// Where it is.
        namespace: Vec<String>,
        /// Its name there.
        key: String,
    },
}

/// Something found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// Where.
    pub place: Place,
    /// How well it matches, above 0. It compares places of one answer and means nothing beside another.
    pub score: f64,
    /// The words it holds: bit `n` stands for `words[n]` of the query.
    pub held: u32,
    /// The passage, with the words found between `\u{2}` and `\u{3}`.
    pub snippet: String,
    /// The whole text of a summary or a handoff; empty for a message or an item, which is read by its place.
    pub text: String,
    /// When it was said, or stored.
    pub created_at: Timestamp,
}

/// A question about which messages of some threads hold which of some words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RankQuery {
    /// What is looked through; a thread that does not exist has no messages.
    pub threads: Vec<ThreadPart>,
    /// The words, at most [`crate::QUERY_WORDS_MAX`]; any of them is enough. One that consists of several, as a path
    /// does, is found where they follow each other.
    pub words: Vec<String>,
    /// The most messages to return, 1 to [`crate::PAGE_ROWS_MAX`].
    pub limit: usize,
}

/// A thread, or the beginning of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadPart {
    /// The thread.
    pub thread_id: ThreadId,
    /// Where the part ends: only messages before this seq belong to it. `None` means all.
    pub before: Option<Seq>,
}

/// A message that holds words that were asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranked {
    /// The thread.
    pub thread_id: ThreadId,
    /// The event.
    pub seq: Seq,
    /// How much the words found in it say, above 0: the rarer they are and the shorter it is, the more; words that it
    /// lacks count in part where they were said right before or after. It compares messages of one answer and means
    /// nothing beside another.
    pub score: f64,
    /// The words it holds: bit `n` stands for `words[n]` of the query.
    pub held: u32,
}

impl Ranked {
    /// Returns whether the message holds the word of that number in the query.
    pub const fn holds(&self, word: usize) -> bool {
        word < crate::QUERY_WORDS_MAX && self.held & (1 << word) != 0
    }
}

/// Which turns of an agent to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnQuery {
    /// Whose.
    pub agent_id: AssistantId,
    /// Only those of this thread.
    pub thread_id: Option<ThreadId>,
    /// The lowest index.
    pub first: u64,
    /// The highest index.
    pub last: u64,
    /// Only those after this event of the thread that is named.
    pub after_seq: Option<Seq>,
    /// Only those before this event of the thread that is named.
    pub before_seq: Option<Seq>,
    /// Only those that are archived, or that are not; `None` means both.
    pub archived: Option<bool>,
    /// The most turns to return, 1 to [`crate::PAGE_ROWS_MAX`].
    pub limit: usize,
}

impl TurnQuery {
    /// Returns a query of the first page of all turns of an agent.
    pub const fn of(agent_id: AssistantId) -> Self {
        Self {
            agent_id,
            thread_id: None,
            first: 0,
            last: i64::MAX.unsigned_abs(),
            after_seq: None,
            before_seq: None,
            archived: None,
            limit: crate::PAGE_ROWS_MAX,
        }
    }
}

/// Which summaries of an agent to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryQuery {
    /// Whose.
    pub agent_id: AssistantId,
    /// None that stand for turns of this thread.
    pub except_thread: Option<ThreadId>,
    /// How many to skip.
    pub offset: usize,
    /// The most summaries to return.
    pub limit: usize,
}

/// A summary, and where its turns are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSummary {
    /// The summary.
    pub summary: MediumTermSummary,
    /// The thread of its first turn.
    pub thread_id: Option<ThreadId>,
    /// How many turns it stands for.
    pub turns: u64,
}

/// How much there is in each tier of an agent's memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryCounts {
    /// Turns that no summary stands for.
    pub active_turns: u64,
    /// Turns that a summary stands for.
    pub summarised_turns: u64,
    /// Turns that a rewind took back.
    pub withdrawn_turns: u64,
    /// Summaries.
    pub summaries: u64,
    /// Items in the store, whoever put them.
    pub items: u64,
}

/// What `segue doctor` asks a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Where the data is, for people.
    pub location: String,
    /// The version of the schema.
    pub schema_version: u32,
    /// Threads stored.
    pub threads: u64,
    /// Events stored.
    pub events: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// What an integrity check found wrong; empty when all is well.
    pub problems: Vec<String>,
}

/// How much a health check reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthDepth {
    /// Counts only.
    Counts,
    /// Every page of the database.
    Integrity,
}
