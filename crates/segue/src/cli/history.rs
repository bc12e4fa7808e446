//! The arguments of the commands about what happened in a thread: `segue history`, and of a run: `segue feedback` and
//! `segue trace`. What they mean is in the files under `commands`.

use clap::{Args, ValueEnum};
use protocol::{Rating, Seq};

/// Print what was said in a thread, whatever was condensed since
///
/// Where messages were condensed for the model there is a marker; the messages stay at their place. Behind the last answer
/// of each run stands the run's id, for `segue feedback` and `segue trace`.
#[derive(Debug, Args)]
pub(crate) struct History {
    /// The beginning of its id, or `last`
    pub(crate) thread: String,
    /// The most entries to show [default: 50; 9 with --around]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(crate) limit: Option<u32>,
    /// Only what came before this event
    #[arg(long, value_name = "SEQ")]
    pub(crate) before: Option<Seq>,
    /// Only what came after this event
    #[arg(long, value_name = "SEQ")]
    pub(crate) after: Option<Seq>,
    /// What was said around this event
    #[arg(long, value_name = "SEQ", conflicts_with_all = ["before", "after", "markers"])]
    pub(crate) around: Option<Seq>,
    /// Only the markers
    #[arg(long)]
    pub(crate) markers: bool,
    /// Open each marker to its summary, and say of each message which marker it was condensed in
    #[arg(long)]
    pub(crate) expand: bool,
    /// Also what was taken back by going back to an earlier point
    #[arg(long)]
    pub(crate) all: bool,
}

impl History {
    /// The most entries that are shown unless another number is asked for.
    pub(crate) const LIMIT: usize = 50;
    /// The same around an event, which is to be seen at once.
    pub(crate) const LIMIT_AROUND: usize = 9;
}

/// Say whether a run was good
///
/// A run has one thumb of yours; another one takes its place.
#[derive(Debug, Args)]
pub(crate) struct Feedback {
    /// The beginning of the run's id, as `segue history` shows it, or `last`
    pub(crate) run: String,
    /// up, down, or none to take it away
    #[arg(value_enum, hide_possible_values = true)]
    pub(crate) thumb: Thumb,
    /// What you want to say about it
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,
}

/// What a person thinks of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Thumb {
    /// It was good.
    Up,
    /// It was not.
    Down,
    /// Nothing, or nothing any more.
    None,
}

impl Thumb {
    /// Returns the rating it stands for.
    pub(crate) const fn rating(self) -> Option<Rating> {
        match self {
            Self::Up => Some(Rating::Up),
            Self::Down => Some(Rating::Down),
            Self::None => None,
        }
    }
}

/// Show what happened in a run, in a thread or for a handoff: what it did, how long that took and what it cost
///
/// It is made from the journal, so nothing is left out: what was condensed or taken back since is there too.
#[derive(Debug, Args)]
pub(crate) struct Trace {
    /// The beginning of an id of a run, a thread or a handoff; `last` is the newest run
    #[arg(value_name = "RUN|THREAD|HANDOFF")]
    pub(crate) what: String,
    /// Go on as things happen, each told when it has ended
    #[arg(long)]
    pub(crate) follow: bool,
    /// The events of a run as they are stored, one a line, and nothing made of them
    #[arg(long, conflicts_with = "follow")]
    pub(crate) events: bool,
}
