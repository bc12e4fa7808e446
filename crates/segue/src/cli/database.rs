//! The arguments of `segue db` and `segue prune`. What they mean is in the files under `commands`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::memory::When;

/// Bring a database up to date, copy it into another one, back it up
///
/// The database is the one that the other commands use, unless one is named. A URL that holds a password is better in
/// SEGUE_DATABASE_URL or config.toml than among the arguments, which everybody on the machine can read.
#[derive(Debug, Subcommand)]
pub(crate) enum Db {
    /// Bring the schema up to date, as every other command does when it opens the database
    Migrate,
    /// Copy everything into an empty database, of the same kind or the other
    ///
    /// Nothing may write to it meanwhile; what does is noticed, and the same command brings it over. It goes on where an earlier
    /// one stopped. In the end every row is compared.
    Copy(Copy),
    /// Write everything into a file that opens like any other database: `--database-url sqlite:FILE`
    Backup {
        /// The file; there must be none of that name [default: a new one in `backups` in the home folder]
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
}

/// The two databases of a copy.
#[derive(Debug, Args)]
pub(crate) struct Copy {
    /// Database to copy: sqlite:PATH or postgres://… [default: the one in use]
    #[arg(long, value_name = "URL", required_unless_present = "to")]
    pub(crate) from: Option<String>,
    /// Database to copy into: sqlite:PATH or postgres://… [default: the one in use]
    #[arg(long, value_name = "URL")]
    pub(crate) to: Option<String>,
}

/// Delete threads in which nothing happened for long
///
/// Those in which something works or waits stay, and so does a thread from which one came that stays. Threads of sub-agents go
/// with the thread they work for.
#[derive(Debug, Args)]
pub(crate) struct Prune {
    /// For how long nothing happened: 90d, 12w, or a date such as 2026-03-01
    #[arg(long, value_name = "WHEN", value_parser = When::read)]
    pub(crate) older_than: When,
    /// Show what would be deleted, and delete nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Keep threads that have a name
    #[arg(long)]
    pub(crate) keep_named: bool,
    /// Delete threads of every user of the server, not only your own
    #[arg(long)]
    pub(crate) everyone: bool,
    /// Give the space back afterwards: a database in a file becomes smaller
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) vacuum: bool,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}
