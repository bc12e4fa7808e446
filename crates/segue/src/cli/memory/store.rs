//! The arguments of `segue store`: JSON objects that agents and people keep under a key. The file
//! `commands/memory/store.rs` performs them.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::{parse_limit, parse_positive};

/// Store JSON objects under a key and find them again
///
/// A namespace consists of labels from the widest to the narrowest, joined by dots: `users.ada`. Agents store theirs below
/// `agents.ID`.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Store a JSON object, replacing the current object of the key
    #[command(
        override_usage = "segue store put NAMESPACE KEY [JSON]\n       segue store put NAMESPACE KEY --file FILE"
    )]
    Put {
        #[command(flatten)]
        name: StoreItemArgs,
        #[command(flatten)]
        value: StoreValueArgs,
    },
    /// Print the object of a key
    Get {
        #[command(flatten)]
        name: StoreItemArgs,
    },
    /// Delete the object of a key
    Delete {
        #[command(flatten)]
        name: StoreItemArgs,
    },
    /// List items: the newest first, or with words the best matches first
    Search {
        /// Words in the key or the value; an item matches if it contains any of them
        words: Vec<String>,
        /// Only in this namespace and those below it
        #[arg(long = "in", value_name = "NAMESPACE")]
        namespace: Option<String>,
        /// Only items whose field matches: FIELD=VALUE, also with !=, >, >=, < or <=; may be repeated
        #[arg(long = "where", value_name = "CONDITION")]
        conditions: Vec<String>,
        #[command(flatten)]
        page: StorePageArgs,
    },
    /// List the namespaces in use
    Namespaces {
        /// Only namespaces with this beginning; `*` stands for any one label
        #[arg(long, value_name = "NAMESPACE")]
        prefix: Option<String>,
        /// Only namespaces with this end; `*` stands for any one label
        #[arg(long, value_name = "NAMESPACE")]
        suffix: Option<String>,
        /// Shorten namespaces to this number of labels
        #[arg(long, value_name = "N", value_parser = parse_positive::<u32>)]
        depth: Option<u32>,
        #[command(flatten)]
        page: StorePageArgs,
    },
}

/// The namespace and the key of an item.
#[derive(Debug, Args)]
pub(crate) struct StoreItemArgs {
    /// Labels joined by dots, such as users.ada
    pub(crate) namespace: String,
    /// The key in the namespace
    pub(crate) key: String,
}

/// The source of a value: an argument, standard input or a file.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct StoreValueArgs {
    /// A JSON object (`-` reads standard input)
    #[arg(value_name = "JSON")]
    pub(crate) text: Option<String>,
    /// A file with the JSON object
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// The part of a list to print.
#[derive(Debug, Args)]
pub(crate) struct StorePageArgs {
    /// Most entries to list
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = parse_limit::<1, 500>)]
    pub(crate) limit: u32,
    /// Number of entries to skip
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) offset: u32,
}
