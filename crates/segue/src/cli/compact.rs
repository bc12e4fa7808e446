//! The arguments of the commands about the model's context: `segue context`, `segue compact` and `segue uncompact`. The
//! file `commands/compact.rs` performs them.

use clap::Args;

use crate::cli::{ModelArgs, parse_positive};

/// Show what fills the context window, and when compaction starts
#[derive(Debug, Args)]
pub(crate) struct ContextArgs {
    /// The beginning of the thread's id, or `last`
    pub(crate) thread: String,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// Compact the older messages of a thread into a summary
///
/// The model then gets the summary instead of those messages. The messages themselves stay: `segue history` shows them with
/// a marker where they were compacted, and `segue uncompact` undoes the compaction. It works offline; if a model is
/// configured, the model writes the summary. Long threads are compacted automatically, as `[compaction]` in config.toml
/// says.
#[derive(Debug, Args)]
pub(crate) struct CompactArgs {
    /// The beginning of the thread's id, or `last`
    pub(crate) thread: String,
    /// Topics that the summary must keep
    #[arg(long, value_name = "TEXT")]
    pub(crate) focus: Option<String>,
    /// Do not compact the newest N messages [default: `[compaction]` in config.toml]
    #[arg(long, value_name = "N", value_parser = parse_positive::<u64>)]
    pub(crate) keep: Option<u64>,
    /// Show the result without changing anything
    #[arg(long)]
    pub(crate) preview: bool,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// Undo the newest compaction of a thread
///
/// The model gets the original messages again. If an earlier compaction exists, it is in effect again.
#[derive(Debug, Args)]
pub(crate) struct UncompactArgs {
    /// The beginning of the thread's id, or `last`
    pub(crate) thread: String,
}
