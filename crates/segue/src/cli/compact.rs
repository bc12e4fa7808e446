//! The arguments of the commands about what the model is sent of a thread: `segue context`, `segue compact` and
//! `segue uncompact`. What they mean is in the files under `commands`.

use clap::Args;

use crate::cli::{Model, one_or_more};

/// Show what fills the model's window in a thread, and when it will be condensed
#[derive(Debug, Args)]
pub(crate) struct Window {
    /// The beginning of the thread's id, or `last`
    pub(crate) thread: String,
    #[command(flatten)]
    pub(crate) model: Model,
}

/// Condense the older part of a thread for the model
///
/// From then on the model is sent a summary in place of the older messages. The messages themselves stay: `segue history`
/// shows all of them, and a marker where some were condensed; `segue uncompact` takes it back. Works offline with an
/// extract; with a model configured, the model writes the summary. Long threads are condensed without being asked, as
/// `[compaction]` in config.toml says.
#[derive(Debug, Args)]
pub(crate) struct Compact {
    /// The beginning of the thread's id, or `last`
    pub(crate) thread: String,
    /// What the summary must keep above all
    #[arg(long, value_name = "TEXT")]
    pub(crate) focus: Option<String>,
    /// Leave the newest N messages as they are [default: as config.toml says]
    #[arg(long, value_name = "N", value_parser = one_or_more::<u64>)]
    pub(crate) keep: Option<u64>,
    /// Show what it would be, and change nothing
    #[arg(long)]
    pub(crate) preview: bool,
    #[command(flatten)]
    pub(crate) model: Model,
}

/// Take the newest compaction of a thread back
///
/// The model is sent the original messages again. With an earlier compaction before it, that one is in effect again.
#[derive(Debug, Args)]
pub(crate) struct Uncompact {
    /// The beginning of the thread's id, or `last`
    pub(crate) thread: String,
}
