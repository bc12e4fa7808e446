//! The arguments of `segue history`, `segue feedback` and `segue trace`: the commands about what happened in a thread or a
//! run. The files under `commands` perform them.

use clap::{Args, ValueEnum};
use protocol::{Rating, Seq};

use crate::cli::parse_limit;

/// Print the messages of a thread, including compacted ones
///
/// A marker shows where messages were compacted; the messages stay in their place. Between the messages stand handoffs, decisions
/// about calls, new names, rewinds and failed runs. The id of each run stands behind its last answer, for `segue feedback` and
/// `segue trace`.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// The beginning of its id, or `last`
    pub(crate) thread: String,
    /// Most entries to show [default: 50; 9 with --around]
    #[arg(long, value_name = "N", value_parser = parse_limit::<1, 500>)]
    pub(crate) limit: Option<u32>,
    /// Only entries before this event
    #[arg(long, value_name = "SEQ")]
    pub(crate) before: Option<Seq>,
    /// Only entries after this event
    #[arg(long, value_name = "SEQ")]
    pub(crate) after: Option<Seq>,
    /// The entries around this event
    #[arg(long, value_name = "SEQ", conflicts_with_all = ["before", "after", "markers"])]
    pub(crate) around: Option<Seq>,
    /// Only the markers
    #[arg(long)]
    pub(crate) markers: bool,
    /// Show the summary of each marker, and for each message the marker that covers it
    #[arg(long)]
    pub(crate) expand: bool,
    /// Include what a rewind hid
    #[arg(long)]
    pub(crate) all: bool,
}

impl HistoryArgs {
    /// The most entries that are shown without `--limit`.
    pub(crate) const LIMIT_DEFAULT: usize = 50;
    /// The most entries that are shown without `--limit` around an event: few enough that the event is on the screen.
    pub(crate) const LIMIT_AROUND_DEFAULT: usize = 9;
}

/// Rate a run
///
/// You have one rating for each run; a new one replaces it.
#[derive(Debug, Args)]
pub(crate) struct FeedbackArgs {
    /// The beginning of the run's id, as `segue history` shows it, or `last`
    pub(crate) run: String,
    /// up, down, or none to remove the rating
    #[arg(value_enum, hide_possible_values = true)]
    pub(crate) thumb: FeedbackThumb,
    /// A comment on the run
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,
}

/// A person's rating of a run, as it is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FeedbackThumb {
    /// The run was good.
    Up,
    /// The run was bad.
    Down,
    /// No rating; removes an earlier one.
    None,
}

impl FeedbackThumb {
    /// Returns the rating to store, or `None` to remove it.
    pub(crate) const fn rating(self) -> Option<Rating> {
        match self {
            Self::Up => Some(Rating::Up),
            Self::Down => Some(Rating::Down),
            Self::None => None,
        }
    }
}

/// Show the steps, times and costs of a run, thread or handoff
///
/// The trace is computed from the journal, so it is complete: it includes what was compacted or rewound later.
#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// The beginning of the id of a run, a thread or a handoff; `last` is the newest run
    #[arg(value_name = "RUN|THREAD|HANDOFF")]
    pub(crate) subject: String,
    /// Keep printing spans as they end
    #[arg(long)]
    pub(crate) follow: bool,
    /// Print the events of a run as they are stored, one on each line
    #[arg(long, conflicts_with = "follow")]
    pub(crate) events: bool,
}
