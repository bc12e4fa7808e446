//! The arguments of `segue doctor`.

use std::path::PathBuf;

use clap::Args;

/// Check the home folder, the database, the models and the handoffs
///
/// With `--secrets`, doctor shows what is redacted in a text, and by which rule. The exit code is then 0 without secrets
/// and 4 with secrets; a file that cannot be read gives 2. The text is held in memory, because a secret can span lines, so
/// it can be at most 1 GiB.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Show the secrets of a text file with their lines, kinds and rules; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) secrets: Option<PathBuf>,
}
