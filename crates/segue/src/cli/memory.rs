//! The arguments of `segue search`, `segue memory`, `segue remember`, `segue pin`, `segue unpin` and `segue store`: the commands
//! about information that is kept when messages leave a context. The files under `commands` perform them.

mod past_time;
pub(crate) mod store;

use clap::{Args, Subcommand, ValueEnum};
use protocol::AssistantId;

use crate::cli::parse_limit;

pub(crate) use past_time::PastTime;

/// The largest number of hits that a search can be asked for.
pub(crate) const HITS_MAX: u32 = 100;

/// Search the messages, summaries and handoffs of the project
///
/// A project is a repository or folder. The search covers messages that left the context long ago, summaries and handoffs.
/// Write a plain question: not every word of it must match. The best hit comes first; of two statements about the same thing, the newer
/// one does.
#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// A question, or words
    #[arg(required = true)]
    pub(crate) words: Vec<String>,
    /// Only in this thread: the beginning of its id, or `last`
    #[arg(short, long, value_name = "THREAD")]
    pub(crate) thread: Option<String>,
    /// Only in threads of this assistant [default: every assistant]
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<AssistantId>,
    /// Only since: 2026-03-01, 2026-03-01T09:30, 09:30 (today), or 30m, 12h, 7d, 2w ago. Times are UTC
    #[arg(long, value_name = "WHEN", value_parser = PastTime::parse)]
    pub(crate) since: Option<PastTime>,
    /// Only this kind: message, summary, handoff or item; may be repeated [default: all but item]
    #[arg(long, value_enum, value_name = "KIND", value_delimiter = ',', hide_possible_values = true)]
    pub(crate) kind: Vec<SearchKind>,
    #[command(flatten)]
    pub(crate) projects: ProjectArgs,
    /// Most hits to show
    #[arg(long, value_name = "N", default_value_t = Self::LIMIT_DEFAULT, value_parser = parse_limit::<1, HITS_MAX>)]
    pub(crate) limit: u32,
    /// Show places of three messages, each place once
    #[arg(long)]
    pub(crate) passages: bool,
}

/// The projects that a command covers.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct ProjectArgs {
    /// Cover all projects, not only that of the current folder
    #[arg(long)]
    pub(crate) everywhere: bool,
}

impl SearchArgs {
    /// The most hits that are shown without `--limit`.
    pub(crate) const LIMIT_DEFAULT: u32 = 10;
}

/// A kind of search hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SearchKind {
    /// A message.
    Message,
    /// A summary of old messages.
    Summary,
    /// The summary of a handoff.
    Handoff,
    /// An item of the store (`segue store`).
    Item,
}

/// Show, edit and search the memory that outlives a conversation
///
/// Memory has three tiers: the context of a thread, summaries of messages that left it, and agent.md with the store. Old
/// messages are summarized automatically, as `[memory]` in config.toml says; the messages themselves are never deleted.
#[derive(Debug, Subcommand)]
pub(crate) enum MemoryCommand {
    /// Show agent.md and the newest summaries
    Show {
        #[command(flatten)]
        projects: ProjectArgs,
        /// Most summaries to show
        #[arg(long, value_name = "N", default_value_t = 3, value_parser = parse_limit::<0, HITS_MAX>)]
        limit: u32,
    },
    /// Edit agent.md in $VISUAL or $EDITOR
    ///
    /// The text between <current_thread_summary> and </current_thread_summary> is managed by Segue and cannot be changed.
    Edit,
    /// Search agent.md, the summaries and the store
    ///
    /// `segue search` searches messages instead.
    Search {
        /// A question, or words
        #[arg(required = true)]
        words: Vec<String>,
        #[command(flatten)]
        projects: ProjectArgs,
        /// Most hits of each kind
        #[arg(long, value_name = "N", default_value_t = SearchArgs::LIMIT_DEFAULT, value_parser = parse_limit::<1, HITS_MAX>)]
        limit: u32,
    },
    /// Print the path of agent.md
    Path,
    /// Show the size of each tier, and the threads due for summarizing
    Stats,
    /// List the messages of a thread: active, summarized or rewound
    Trace {
        /// The beginning of the thread's id, or `last`
        thread: String,
        /// Most messages to list
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = parse_limit::<1, 500>)]
        limit: u32,
        /// Only messages after this number
        #[arg(long, value_name = "NUMBER")]
        after: Option<u64>,
    },
    /// Show the summaries of old messages, newest first
    Summaries {
        #[command(flatten)]
        projects: ProjectArgs,
        /// Most summaries to show
        #[arg(long, value_name = "N", default_value_t = 10, value_parser = parse_limit::<1, 500>)]
        limit: u32,
    },
    /// Summarize the old messages that are due
    ///
    /// The chat and `segue run` do this automatically.
    #[command(alias = "settle")]
    Summarize,
    /// Embed all messages, so that searches compare their meaning
    ///
    /// The chat and the server do this in the background. The model is that of `[search.embeddings]` in config.toml.
    Embed,
    /// Review the facts that a model proposes for agent.md
    ///
    /// The model that summarizes old messages may propose facts: preferences, decisions, names. Each has a quote from the
    /// conversation. Accepted facts are added to agent.md. Without a terminal, the facts are listed.
    Review(FactReviewArgs),
    /// List the earlier states of agent.md, or show one
    ///
    /// Each change of the notes is recorded, also one by another program. The text between <current_thread_summary> and
    /// </current_thread_summary> is not part of it.
    History {
        /// The number of the revision to show
        revision: Option<u64>,
        /// Show the changes since the revision before it
        #[arg(long, requires = "revision")]
        diff: bool,
        /// Most revisions to list
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = parse_limit::<1, 500>)]
        limit: u32,
    },
    /// Restore an earlier state of agent.md
    ///
    /// The text between <current_thread_summary> and </current_thread_summary> stays as it is.
    Restore {
        /// The number of the revision, as `segue memory history` lists it
        revision: u64,
    },
}

/// The arguments of `segue memory review`.
#[derive(Debug, Default, Args)]
pub(crate) struct FactReviewArgs {
    #[command(flatten)]
    pub(crate) projects: ProjectArgs,
    /// List the facts and decide nothing
    #[arg(long, conflicts_with_all = ["accept", "decline", "edit"])]
    pub(crate) list: bool,
    /// List all facts, also those that were decided on
    #[arg(long, conflicts_with_all = ["accept", "decline", "edit"])]
    pub(crate) all: bool,
    /// Accept these facts: the beginnings of their ids
    #[arg(long, value_name = "ID", num_args = 1..)]
    pub(crate) accept: Vec<String>,
    /// Decline these facts: the beginnings of their ids
    #[arg(long, value_name = "ID", num_args = 1..)]
    pub(crate) decline: Vec<String>,
    /// Accept this fact with the text of `--text`
    #[arg(long, value_name = "ID", requires = "text")]
    pub(crate) edit: Option<String>,
    /// The text of the note
    #[arg(long, requires = "edit", allow_hyphen_values = true)]
    pub(crate) text: Option<String>,
}

/// Add a sentence to agent.md, for this project or for all
///
/// Text that looks like a key, a token or a password is redacted.
#[derive(Debug, Args)]
pub(crate) struct RememberArgs {
    /// The sentence (`-` reads standard input)
    #[arg(required = true)]
    pub(crate) text: Vec<String>,
    /// Add it for all projects, not only for that of the current folder
    #[arg(long)]
    pub(crate) everywhere: bool,
}

/// Pin a text or a message in a thread, or list its pins
///
/// Every model request of the thread contains its pins word for word, over compactions and handoffs. `segue context` shows
/// their size. Text that looks like a key, a token or a password is redacted.
#[derive(Debug, Args)]
pub(crate) struct PinArgs {
    /// The beginning of the thread's id, or `last`
    pub(crate) thread: String,
    /// The text, `#N` for the message with that number, or `-` for standard input; without it, the pins are listed
    pub(crate) text: Vec<String>,
    /// Pin the message with this number, word for word; `segue history` shows the numbers
    #[arg(long, value_name = "NUMBER", conflicts_with = "text")]
    pub(crate) message: Option<u64>,
}

/// Remove a pin from a thread
#[derive(Debug, Args)]
pub(crate) struct UnpinArgs {
    /// The beginning of the thread's id, or `last`
    pub(crate) thread: String,
    /// The number of the pin, as `segue pin THREAD` lists it
    #[arg(value_name = "NUMBER")]
    pub(crate) number: u64,
}
