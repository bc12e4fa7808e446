//! The arguments of `segue demo`. `commands::handoff::demo` performs it.

use std::path::PathBuf;

use clap::Args;

/// Try a handoff on a sample session, without a model or key
///
/// Imports a session of 243 messages that the program contains, drafts its handoff, asks for your decision, and shows the new
/// thread. The demo uses no network, and ignores your settings and your home folder: it works in a temporary folder, which it
/// removes at the end. The exit code is 0 whatever you decide.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Accept the draft without asking
    #[arg(short, long, conflicts_with = "open")]
    pub(crate) yes: bool,
    /// Review the draft in the browser; Ctrl-C ends the demo
    #[arg(long)]
    pub(crate) open: bool,
    /// Keep the demo's threads in this new or empty folder
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
}
