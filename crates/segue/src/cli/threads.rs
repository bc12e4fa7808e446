//! The arguments of `segue threads`. `commands::threads` performs them.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use protocol::Seq;

use crate::cli::parse_positive;

/// List, show and change threads
#[derive(Debug, Subcommand)]
pub(crate) enum ThreadsCommand {
    /// List threads, the most recently active first
    List {
        /// Most threads to list
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = parse_positive::<u32>)]
        limit: u32,
    },
    /// Show one thread
    Show {
        /// The beginning of its id, or `last`
        thread: String,
    },
    /// Show threads as a tree, each below the thread it came from
    Tree {
        /// Only the tree of this thread
        thread: Option<String>,
    },
    /// Rename a thread
    Rename {
        /// The beginning of its id, or `last`
        thread: String,
        /// The new name
        #[arg(required = true)]
        name: Vec<String>,
    },
    /// Copy a thread's transcript into a new thread
    Fork {
        /// The beginning of its id, or `last`
        thread: String,
        /// Copy only up to this event
        #[arg(long, value_name = "SEQ")]
        until: Option<Seq>,
    },
    /// Rewind a thread: hide everything after an event
    Rewind {
        /// The beginning of its id, or `last`
        thread: String,
        /// The last event to keep
        #[arg(value_name = "SEQ")]
        keep: Seq,
    },
    /// Stop the active run of a thread, in whichever process it is
    Stop {
        /// The beginning of its id, or `last`
        thread: String,
    },
    /// Delete a thread and all its data
    Delete {
        /// The beginning of its id, or `last`
        thread: String,
        /// Do not ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
    /// Write a thread's transcript to a file or standard output
    Export {
        /// The beginning of its id, or `last`
        thread: String,
        /// Format of the transcript: md or json [default: json for a file that ends with .json, otherwise md]
        #[arg(long, value_enum, hide_possible_values = true)]
        format: Option<ExportFormat>,
        /// File to write [default: standard output]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// The format of an exported transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Markdown.
    Md,
    /// JSON.
    Json,
}
