//! The arguments of `segue store`: what agents and people keep under a name. What they mean is in the files under
//! `commands`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::one_or_more;

/// Keep JSON objects under a name, and find them again
///
/// A namespace is labels from the widest to the narrowest, joined by dots: `users.ada`. An agent keeps its own below
/// `agents.ID`.
#[derive(Debug, Subcommand)]
pub(crate) enum Store {
    /// Keep a JSON object; what was kept under the name is replaced
    #[command(
        override_usage = "segue store put NAMESPACE KEY [JSON]\n       segue store put NAMESPACE KEY --file FILE"
    )]
    Put {
        #[command(flatten)]
        name: Name,
        #[command(flatten)]
        value: Value,
    },
    /// Print what is kept under a name
    Get {
        #[command(flatten)]
        name: Name,
    },
    /// Remove what is kept under a name
    Delete {
        #[command(flatten)]
        name: Name,
    },
    /// List what is kept, what was put last first; with words the best matches first
    Search {
        /// Words in the key or the value; any of them is enough
        words: Vec<String>,
        /// Only in this namespace and those below it
        #[arg(long = "in", value_name = "NAMESPACE")]
        namespace: Option<String>,
        /// Only where a field is so: FIELD=VALUE, also with !=, >, >=, < or <=; may be given again
        #[arg(long = "where", value_name = "CONDITION")]
        conditions: Vec<String>,
        #[command(flatten)]
        page: Page,
    },
    /// List the namespaces in use
    Namespaces {
        /// Only those that begin so; `*` stands for any one label
        #[arg(long, value_name = "NAMESPACE")]
        prefix: Option<String>,
        /// Only those that end so; `*` stands for any one label
        #[arg(long, value_name = "NAMESPACE")]
        suffix: Option<String>,
        /// Cut longer ones to so many labels
        #[arg(long, value_name = "N", value_parser = one_or_more::<u32>)]
        depth: Option<u32>,
        #[command(flatten)]
        page: Page,
    },
}

/// What names an item.
#[derive(Debug, Args)]
pub(crate) struct Name {
    /// Labels joined by dots, such as users.ada
    pub(crate) namespace: String,
    /// The name there
    pub(crate) key: String,
}

/// Where a value comes from.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Value {
    /// A JSON object (`-` reads standard input)
    #[arg(value_name = "JSON")]
    pub(crate) text: Option<String>,
    /// A file that holds it
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// A part of a list.
#[derive(Debug, Args)]
pub(crate) struct Page {
    /// The most to list
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(crate) limit: u32,
    /// How many to skip
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) offset: u32,
}
