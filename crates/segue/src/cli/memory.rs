//! The arguments of the commands about what outlives a context: `segue search`, `segue memory`, `segue remember` and
//! `segue store`. What they mean is in the files under `commands`.

pub(crate) mod store;
mod when;

use clap::{Args, Subcommand, ValueEnum};
use protocol::AssistantId;

pub(crate) use when::When;

/// The most hits that can be asked for at once.
const HITS_MAX: i64 = 100;

/// Find what was said, in all threads
///
/// Looks through messages, also those that left the context long ago, through the summaries that stand for old turns, and
/// through handoffs. A plain question is a good query: not every word of it must be found. The best comes first, and of two
/// statements about the same the newer one.
#[derive(Debug, Args)]
pub(crate) struct Search {
    /// A question, or words
    #[arg(required = true)]
    pub(crate) words: Vec<String>,
    /// Only in this thread: the beginning of its id, or `last`
    #[arg(short, long, value_name = "THREAD")]
    pub(crate) thread: Option<String>,
    /// Only what this assistant has said or was told [default: every assistant]
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<AssistantId>,
    /// Only since then: 2026-03-01, 2026-03-01T09:30, 09:30 (today), or that long ago: 30m, 12h, 7d, 2w. Times are UTC
    #[arg(long, value_name = "WHEN", value_parser = When::read)]
    pub(crate) since: Option<When>,
    /// Only this: message, summary, handoff or item; may be given again [default: all but item]
    #[arg(long, value_enum, value_name = "KIND", value_delimiter = ',', hide_possible_values = true)]
    pub(crate) kind: Vec<Kind>,
    /// The most hits to show
    #[arg(long, value_name = "N", default_value_t = Self::LIMIT, value_parser = clap::value_parser!(u32).range(1..=HITS_MAX))]
    pub(crate) limit: u32,
}

impl Search {
    /// The most hits that are shown unless another number is asked for.
    pub(crate) const LIMIT: u32 = 10;
}

/// What can be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// A message.
    Message,
    /// A summary that stands for old turns.
    Summary,
    /// The summary of a handoff.
    Handoff,
    /// Something kept by `segue store`.
    Item,
}

/// Show, change and look through what outlives a conversation
///
/// There are three tiers: what is in a thread's context, the summaries that stand for turns that left it, and agent.md with
/// the store. Old turns become summaries by themselves, as `[memory]` in config.toml says; nothing that was said is lost.
#[derive(Debug, Subcommand)]
pub(crate) enum Memory {
    /// Show agent.md, which every conversation begins with, and the newest summaries of old turns
    Show {
        /// The most summaries to show
        #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=HITS_MAX))]
        limit: u32,
    },
    /// Change agent.md in $VISUAL or $EDITOR; the block in it that Segue keeps stays as it is
    Edit,
    /// Look through agent.md, the summaries of old turns and what the assistant keeps in the store; `segue search` looks
    /// through what was said
    Search {
        /// A question, or words
        #[arg(required = true)]
        words: Vec<String>,
        /// The most to show of each
        #[arg(long, value_name = "N", default_value_t = Search::LIMIT, value_parser = clap::value_parser!(u32).range(1..=HITS_MAX))]
        limit: u32,
    },
    /// Print where agent.md is
    Path,
    /// Show how much there is in each tier, and what waits to become a summary
    Stats,
    /// List the turns of a thread, and what became of each: active, in a summary, or taken back
    Trace {
        /// The beginning of the thread's id, or `last`
        thread: String,
        /// The most turns to list
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
        /// Only turns after the one of this number
        #[arg(long, value_name = "TURN")]
        after: Option<u64>,
    },
    /// Show the summaries of old turns, newest first
    Summaries {
        /// The most summaries to show
        #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
    },
    /// Make the summaries that are due, now; the chat and `segue run` do so by themselves
    Settle,
}

/// Keep a sentence in agent.md, which every conversation begins with
///
/// What looks like a key, a token or a password is withheld.
#[derive(Debug, Args)]
pub(crate) struct Remember {
    /// The sentence (`-` reads standard input)
    #[arg(required = true)]
    pub(crate) text: Vec<String>,
}
