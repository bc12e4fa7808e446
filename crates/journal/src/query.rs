//! Queries: filters, pages, and their results that are not rows. It names no database.

pub(crate) mod embeddings;
pub(crate) mod items;
pub(crate) mod memory;
pub(crate) mod outbox;
pub(crate) mod verification;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use protocol::{
    AssistantId, Category, CheckpointId, EventType, HandoffId, HandoffStatus, MediumTermSummary, OwnerScope,
    RunStatus, Seq, SummaryId, ThreadId, ThreadState, ThreadStatus,
};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::DamageHandling;

use self::embeddings::MeaningComparison;

/// Matches any label in a query for namespaces.
pub(crate) const ANY_LABEL: &str = "*";

/// The visibility of events that a [`crate::Write::Rewind`] has superseded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SupersededVisibility {
    /// They are left out, and do not count toward the limit.
    #[default]
    Hidden,
    /// They are returned like other events.
    Shown,
}

/// A query for unowned runs: running runs whose lease expired, and queued runs whose process is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnclaimedRunsQuery {
    /// The current time. Leases that ended before it are expired.
    pub now: Timestamp,
    /// Processes that are known to be dead, even if their leases have not expired.
    pub dead_owners: Vec<String>,
    /// Maximum number of running runs, and maximum number of queued runs, to return.
    pub limit: usize,
}

/// A query for a page of the events of one thread.
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
    /// The visibility of superseded events.
    pub superseded: SupersededVisibility,
    /// The handling of damaged events.
    pub damage: DamageHandling,
    /// Maximum number of events, from 1 to [`crate::PAGE_ROWS_MAX`].
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
            superseded: SupersededVisibility::Hidden,
            damage: DamageHandling::Refuse,
            limit,
        }
    }
}

/// The sort key of a list of threads. Threads with equal keys are sorted by their ids.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ThreadSortKey {
    /// The time of the last activity.
    #[default]
    Updated,
    /// The time of creation.
    Created,
    /// The name of the status.
    Status,
    /// The id.
    Id,
}

/// A sort direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SortDirection {
    /// Latest first, or reverse alphabetical order.
    #[default]
    Descending,
    /// Earliest first, or alphabetical order.
    Ascending,
}

/// The order of a list of threads. By default, the most recently active thread comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadSort {
    /// The sort key.
    pub by: ThreadSortKey,
    /// The direction.
    pub direction: SortDirection,
}

impl ThreadSort {
    /// The most recently created thread first.
    pub const NEWEST: Self = Self { by: ThreadSortKey::Created, direction: SortDirection::Descending };
}

/// The visibility of threads of sub-agents and their descendants in a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SubagentVisibility {
    /// They are left out.
    #[default]
    Hidden,
    /// They are listed like other threads.
    Shown,
}

/// A filter for threads. A thread must match every field that is set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadFilter {
    /// The owner scope. It is required: a store refuses `None` with [`crate::Error::InvalidRequest`], except a
    /// [`crate::ScopedStore`], which uses its own scope.
    pub scope: Option<OwnerScope>,
    /// Only threads of this assistant.
    pub assistant_id: Option<AssistantId>,
    /// Only children of this thread.
    pub parent_id: Option<ThreadId>,
    /// The visibility of threads of sub-agents.
    pub subagents: SubagentVisibility,
    /// Only threads with these ids; empty means all.
    pub ids: Vec<ThreadId>,
    /// Only threads with one of these statuses; empty means all.
    pub statuses: Vec<ThreadStatus>,
    /// Only threads in this state.
    pub state: Option<ThreadState>,
    /// Only threads whose metadata contains all of these fields with equal values. Nested objects may have additional
    /// fields.
    pub metadata: Map<String, Value>,
    /// Only threads whose metadata has no value under this key.
    pub without_metadata_key: Option<&'static str>,
    /// Only threads whose name or first prompt contains this text, ignoring case.
    pub text: Option<String>,
    /// The order of the list.
    pub order: ThreadSort,
    /// Number of threads to skip.
    pub offset: usize,
    /// Maximum number of threads, from 1 to [`crate::PAGE_ROWS_MAX`].
    pub limit: usize,
}

impl ThreadFilter {
    /// Returns a filter for the first `limit` threads of a scope, most recently active first.
    pub fn for_scope(scope: OwnerScope, limit: usize) -> Self {
        Self { scope: Some(scope), limit, ..Self::default() }
    }
}

/// A filter for runs. A run must match every field that is set. Runs are returned newest first, in the order of their
/// ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Only runs on threads of this scope. A [`crate::ScopedStore`] sets its own. `None` means any.
    pub scope: Option<OwnerScope>,
    /// Only runs of this thread.
    pub thread_id: Option<ThreadId>,
    /// Only runs with one of these statuses; empty means all.
    pub statuses: Vec<RunStatus>,
    /// Number of runs to skip.
    pub offset: usize,
    /// Maximum number of runs, from 1 to [`crate::PAGE_ROWS_MAX`].
    pub limit: usize,
}

/// A reference to a checkpoint of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointRef {
    /// The checkpoint with this id.
    Id(CheckpointId),
    /// The newest checkpoint at or before this seq.
    Seq(Seq),
}

/// A filter for handoffs. A handoff must match every field that is set. Handoffs are returned newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HandoffFilter {
    /// Only handoffs of this scope. A [`crate::ScopedStore`] sets its own. `None` means any.
    pub scope: Option<OwnerScope>,
    /// Only handoffs from this parent thread.
    pub parent_thread_id: Option<ThreadId>,
    /// Only the handoff that created, or would create, this child thread.
    pub child_thread_id: Option<ThreadId>,
    /// Only handoffs of this assistant.
    pub assistant_id: Option<AssistantId>,
    /// Only handoffs with one of these statuses; empty means all.
    pub statuses: Vec<HandoffStatus>,
    /// Maximum number of handoffs; `None` means all.
    pub limit: Option<usize>,
}

/// The kinds of documents that a search can find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IndexHitKind {
    /// A message of a thread.
    Message,
    /// A summary of medium-term memory.
    Summary,
    /// A handoff, represented by its accepted proposal, or else by its latest one.
    Handoff,
    /// A stored item.
    Item,
}

/// How many of its words a search requires.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WordMatchMode {
    /// Any of the words. Documents with more of them score higher.
    #[default]
    Any,
    /// All of the words.
    All,
}

/// The unit that a search counts and ranks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SearchUnit {
    /// A single message.
    #[default]
    Message,
    /// A message with the messages directly before and after it. Passages do not overlap, and a passage ranks by its
    /// three messages together.
    Passage,
}

/// A search over all documents. A document must match every field that is set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchQuery {
    /// Only documents of this scope. A [`crate::ScopedStore`] sets its own. `None` means any.
    pub scope: Option<OwnerScope>,
    /// The words, at most [`crate::QUERY_WORDS_MAX`]. A word with several terms, such as a path, matches where the
    /// terms are consecutive.
    pub words: Vec<String>,
    /// How many of the words are required.
    pub match_mode: WordMatchMode,
    /// The kinds to search; empty means all kinds except items.
    pub kinds: Vec<IndexHitKind>,
    /// Only documents of this thread: its messages including copied ones, summaries of its messages, and handoffs
    /// from it or to it. Items belong to no thread.
    pub thread_id: Option<ThreadId>,
    /// Only documents of this assistant. An item belongs to an assistant if its namespace begins with
    /// [`crate::AGENT_NAMESPACE_LABEL`] and the assistant's id; other items belong to no assistant.
    pub assistant_id: Option<AssistantId>,
    /// Only documents of these projects. An assistant's item belongs to the project that its
    /// [`crate::assistant_label`] names, and is personal without one. Items of clients are in every scope.
    pub project: ProjectScope,
    /// Only documents stored at or after this time.
    pub since: Option<Timestamp>,
    /// Messages from one of these dates get a higher score.
    pub dates: Vec<PartialDate>,
    /// The question as a person wrote it, which tells more than its words: a message that contains it word for word is
    /// the first hit, and it may ask for a time, a number, a name or a role. Empty if only the words are known.
    pub question: String,
    /// The unit of a hit. Summaries, handoffs and items are not affected.
    pub unit: SearchUnit,
    /// Maximum number of hits, from 1 to [`crate::PAGE_ROWS_MAX`].
    pub limit: usize,
}

/// A date with optional parts, as people write it, in UTC. A date without a year and a month matches nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PartialDate {
    /// The year.
    pub year: Option<i16>,
    /// The month, from 1.
    pub month: Option<i8>,
    /// The day of the month, from 1.
    pub day: Option<i8>,
}

impl PartialDate {
    /// Returns how well a time matches: 0 if the year or month differs, 1 if they match, 2 if the day matches too.
    pub fn match_score(&self, time: Timestamp) -> u8 {
        let date = time.to_zoned(TimeZone::UTC).date();
        let has_year_or_month = self.year.is_some() || self.month.is_some();
        let is_same_month = self.year.is_none_or(|year| year == date.year())
            && self.month.is_none_or(|month| month == date.month());
        match has_year_or_month && is_same_month {
            true => 1 + u8::from(self.day == Some(date.day())),
            false => 0,
        }
    }
}

/// The messages in the scope of a search that the index does not contain yet, so that the search could not find them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct IndexBacklog {
    /// Number of messages, estimated for threads of which a part is indexed.
    pub messages: u64,
    /// Number of threads with such messages.
    pub threads: u64,
}

impl IndexBacklog {
    /// Returns whether everything in the scope was searched.
    pub const fn is_empty(self) -> bool {
        self.messages == 0
    }
}

/// The answer of the search index.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexAnswer<T> {
    /// The hits, best first.
    pub hits: Vec<T>,
    /// The messages that were not searched.
    pub backlog: IndexBacklog,
    /// The way in which meaning was compared.
    pub meaning: MeaningComparison,
}

/// The location of a search hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HitLocation {
    /// A message.
    Message {
        /// The thread.
        thread_id: ThreadId,
        /// The seq of its event.
        seq: Seq,
        /// `human`, `ai` or `tool`.
        role: String,
    },
    /// A summary of medium-term memory.
    Summary {
        /// The summary.
        summary_id: SummaryId,
        /// The thread of its first message; `None` if the thread was deleted.
        thread_id: Option<ThreadId>,
        /// The lowest index of its messages.
        first_turn: u64,
        /// The highest index of its messages.
        last_turn: u64,
    },
    /// A handoff.
    Handoff {
        /// The handoff.
        handoff_id: HandoffId,
        /// The parent thread.
        parent_thread_id: ThreadId,
        /// The child thread that the handoff created, or would create.
        child_thread_id: ThreadId,
    },
    /// A stored item.
    Item {
        /// The namespace.
        namespace: Vec<String>,
        /// The key within the namespace.
        key: String,
    },
}

/// A search hit.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexHit {
    /// The location of the document.
    pub location: HitLocation,
    /// The score, greater than 0: proportional to the estimated probability that the document is the one that is looked
    /// for. It is comparable only within the results of one search.
    pub score: f64,
    /// The words that the document contains: bit `n` stands for `words[n]` of the query.
    pub matched_words: u32,
    /// The standard score of the similarity to the question: how many standard deviations the document is more similar than
    /// the average one. It is 0 if its meaning was not compared.
    pub standard_score: f64,
    /// A snippet of the text, with matched words between `\u{2}` and `\u{3}`.
    pub snippet: String,
    /// The whole text of a summary or a handoff. Empty for a message or an item, which can be read by its location.
    pub text: String,
    /// The time at which the message was created or the document was stored.
    pub created_at: Timestamp,
}

/// A query that ranks the messages of given threads by the words that they contain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RankQuery {
    /// The threads to search. A thread that does not exist has no messages.
    pub threads: Vec<ThreadPrefix>,
    /// The words, at most [`crate::QUERY_WORDS_MAX`]. A message must contain at least one. A word with several terms,
    /// such as a path, matches where the terms are consecutive.
    pub words: Vec<String>,
    /// Messages from one of these dates get a higher score.
    pub dates: Vec<PartialDate>,
    /// The question as a person wrote it; see [`SearchQuery::question`].
    pub question: String,
    /// Maximum number of messages, from 1 to [`crate::PAGE_ROWS_MAX`].
    pub limit: usize,
}

/// A thread, or the beginning of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadPrefix {
    /// The thread.
    pub thread_id: ThreadId,
    /// The exclusive end: only messages before this seq are included. `None` means all.
    pub before: Option<Seq>,
}

/// A ranked message.
#[derive(Debug, Clone, PartialEq)]
pub struct RankedMessage {
    /// The thread.
    pub thread_id: ThreadId,
    /// The seq of its event.
    pub seq: Seq,
    /// The score, greater than 0: proportional to the estimated probability that the message is the one that is looked
    /// for. It is comparable only within the results of one query.
    pub score: f64,
    /// The words that the message contains: bit `n` stands for `words[n]` of the query.
    pub matched_words: u32,
    /// The standard score of the similarity to the question: how many standard deviations the message is more similar than
    /// the average one. It is 0 if meaning was not compared.
    pub standard_score: f64,
}

impl RankedMessage {
    /// Returns whether the message contains the query's word with this index.
    pub const fn matches_word(&self, word: usize) -> bool {
        word < crate::QUERY_WORDS_MAX && self.matched_words & (1 << word) != 0
    }
}

/// A query for a page of an agent's logged messages (rows of `turn_log`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnQuery {
    /// The agent.
    pub agent_id: AssistantId,
    /// Only messages of this thread.
    pub thread_id: Option<ThreadId>,
    /// The lowest message index.
    pub first: u64,
    /// The highest message index.
    pub last: u64,
    /// Only messages after this seq. Applies only together with `thread_id`.
    pub after_seq: Option<Seq>,
    /// Only messages before this seq. Applies only together with `thread_id`.
    pub before_seq: Option<Seq>,
    /// Only archived messages, or only active ones; `None` means both.
    pub archived: Option<bool>,
    /// Maximum number of messages, from 1 to [`crate::PAGE_ROWS_MAX`].
    pub limit: usize,
}

impl TurnQuery {
    /// Returns a query for the first page of all messages of an agent.
    pub const fn for_agent(agent_id: AssistantId) -> Self {
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

/// A query for a page of an agent's summaries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryQuery {
    /// The agent.
    pub agent_id: AssistantId,
    /// Only summaries of this scope.
    pub project: ProjectScope,
    /// Leaves out summaries that cover messages of this thread.
    pub except_thread: Option<ThreadId>,
    /// Number of summaries to skip.
    pub offset: usize,
    /// Maximum number of summaries.
    pub limit: usize,
}

impl SummaryQuery {
    /// Returns the thread whose project the query covers and whose own summaries it leaves out, if they are the same thread.
    pub(crate) fn adjacent_thread(&self) -> Option<ThreadId> {
        let is_its_project = |thread_id: &ThreadId| self.project == ProjectScope::OfThread(*thread_id);
        self.except_thread.filter(is_its_project)
    }
}

/// A stored summary, with facts about its messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSummary {
    /// The summary.
    pub summary: MediumTermSummary,
    /// The thread of its first message.
    pub thread_id: Option<ThreadId>,
    /// Number of messages that it covers.
    pub turns: u64,
    /// The project of its messages.
    pub project: SummaryProject,
}

/// The projects whose memory a query covers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ProjectScope {
    /// All projects, and what belongs to none.
    #[default]
    Any,
    /// The project with this path.
    Project(String),
    /// Only what belongs to no project.
    Personal,
    /// The project of this thread; what belongs to no project, if the thread has none.
    OfThread(ThreadId),
}

impl ProjectScope {
    /// Returns the scope of a project, or of what belongs to none.
    pub fn of(project: Option<&str>) -> Self {
        project.map_or(Self::Personal, |path| Self::Project(path.to_owned()))
    }
}

/// The project of a summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SummaryProject {
    /// All of its messages are of the project with this path.
    Project(String),
    /// Its messages are of no project.
    Personal,
    /// Its messages are of several projects, or of a thread that was deleted before projects were recorded. Only
    /// [`ProjectScope::Any`] covers it.
    Several,
}

/// The number of rows in each memory tier of an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryCounts {
    /// Logged messages that are not archived.
    pub active_turns: u64,
    /// Logged messages that a summary covers.
    pub summarised_turns: u64,
    /// Logged messages that a rewind superseded.
    pub rewound_turns: u64,
    /// Summaries.
    pub summaries: u64,
    /// Stored items of the agent's owner.
    pub items: u64,
    /// Facts that await review.
    pub proposed_facts: u64,
}

/// The result of a health check, as `segue doctor` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreHealth {
    /// The path or address of the database, for display.
    pub location: String,
    /// The version of the schema.
    pub schema_version: u32,
    /// Number of threads.
    pub threads: u64,
    /// Number of events.
    pub events: u64,
    /// Number of events without a checksum, as far as a check at depth [`HealthCheckDepth::Integrity`] counted them. An earlier version stored them.
    pub unchecked_events: u64,
    /// Size of the database in bytes.
    pub bytes: u64,
    /// Problems that an integrity check found; empty if there are none.
    pub problems: Vec<String>,
}

/// How much of the database a health check reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthCheckDepth {
    /// Counts only.
    Counts,
    /// The whole database, but without comparing the events with their checksums. For a caller that does so batch by batch
    /// ([`crate::Store::verify_events`]).
    Tables,
    /// The whole database.
    Integrity,
}
