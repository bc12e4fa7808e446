//! The arguments of `segue mirror` and `segue handoffs`. What they mean is in the files under `commands`.

use clap::{Args, Subcommand};

use super::memory::When;

/// Look at the copy of accepted handoffs in PostgreSQL, and send what waits for it
///
/// `[mirror] url` in config.toml or SEGUE_MIRROR_URL says where it is. Nothing waits for the mirror and nothing fails with it: what
/// cannot be sent waits, and is sent at the next handoff, at the next start, or by `segue mirror flush`.
#[derive(Debug, Subcommand)]
pub(crate) enum Mirror {
    /// Show whether accepted handoffs reach the mirror, and what waits
    Status,
    /// Send what waits, now
    Flush,
}

/// Look at all handoffs together; `segue handoff` is about one
#[derive(Debug, Subcommand)]
pub(crate) enum Handoffs {
    Stats(Stats),
}

/// Count handoffs by what became of them, with their drafts, tokens, coverage, unverified items and time to decision
#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// Only those asked for since then: 2026-03-01, 2026-03-01T09:30, 09:30 (today), or that long ago: 12h, 30d, 2w. Times are UTC
    #[arg(long, value_name = "WHEN", value_parser = When::read)]
    pub(crate) since: Option<When>,
}
