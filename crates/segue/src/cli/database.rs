//! The arguments of `segue db` and `segue prune`. The files under `commands` perform them.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::memory::PastTime;

/// Migrate, copy, back up or salvage a database
///
/// Without a URL, the command works on the database that all other commands use. Put a URL that contains a password into
/// SEGUE_DATABASE_URL or config.toml: every user of the machine can read the arguments of a process.
#[derive(Debug, Subcommand)]
pub(crate) enum DbCommand {
    /// Update the schema, as every other command does when it opens the database
    Migrate,
    /// Copy everything into an empty database, of the same kind or the other
    ///
    /// Nothing may write to the source meanwhile. If something does, the command reports it, and running it again copies the
    /// rest. An interrupted copy continues where it stopped. At the end, every row is compared.
    Copy(DbCopyArgs),
    /// Back up everything into a file that opens like any database: `--database-url sqlite:FILE`
    Backup {
        /// The file, which must not exist yet [default: a new file in `backups` in the home folder]
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
    /// Save everything that is intact in a damaged SQLite file into a new file
    ///
    /// The damaged file is not changed; stop every segue that uses it first. Events that do not match their checksums, and rows
    /// that cannot be read, are left out, and the command lists them. Use the new file with `--database-url sqlite:NEW`, or
    /// put it in the place of the damaged one, without the old -wal, -shm and -mark files.
    Salvage(DbSalvageArgs),
}

/// The damaged file and the new one.
#[derive(Debug, Args)]
pub(crate) struct DbSalvageArgs {
    /// Damaged SQLite file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// New file, which must not exist yet
    #[arg(long, value_name = "NEW")]
    pub(crate) to: PathBuf,
}

/// The source and the target of a copy.
#[derive(Debug, Args)]
pub(crate) struct DbCopyArgs {
    /// Database to copy: sqlite:PATH or postgres://… [default: the one in use]
    #[arg(long, value_name = "URL", required_unless_present = "to")]
    pub(crate) from: Option<String>,
    /// Database to copy into: sqlite:PATH or postgres://… [default: the one in use]
    #[arg(long, value_name = "URL")]
    pub(crate) to: Option<String>,
}

/// Delete threads that were inactive for a long time
///
/// A thread stays if it has an active run, a queued run or a pending question, or if a thread that came from it stays.
/// Threads of sub-agents are deleted with the thread they work for. An imported thread has the dates of its session, so that
/// an old session counts as old on the day of its import.
#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    /// Delete threads inactive for this long: 90d, 12w, or since a date such as 2026-03-01
    #[arg(long, value_name = "WHEN", value_parser = PastTime::parse)]
    pub(crate) older_than: PastTime,
    /// Show the threads that would be deleted without deleting them
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Keep threads that have a name
    #[arg(long)]
    pub(crate) keep_named: bool,
    /// Delete threads of every user of the server, not only your own
    #[arg(long)]
    pub(crate) everyone: bool,
    /// Return the freed space to the file system; only for a database in a file
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) vacuum: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
}
