//! The arguments: commands, options and their help texts. What they mean is in the files under `commands`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use protocol::{AssistantId, Seq};

use crate::exit::EXIT_CODES;

/// Hand a long agent session over to a fresh thread, with a summary you have reviewed
#[derive(Debug, Parser)]
#[command(name = "segue", version, after_help = EXIT_CODES, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) global: Global,
}

/// Options of every command.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Folder that holds everything segue keeps [default: $SEGUE_HOME, else the platform's data folder]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub(crate) home: Option<OsString>,
    /// Which assistant works; it has its own agent.md
    #[arg(long, global = true, value_name = "ID", default_value_t, help_heading = "Global options")]
    pub(crate) assistant: AssistantId,
    /// When to use colour: auto, always or never; NO_COLOR is respected
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "WHEN",
        help_heading = "Global options"
    )]
    #[arg(hide_possible_values = true)]
    pub(crate) color: ColorChoice,
    /// Print JSON for programs instead of text
    #[arg(long, global = true, help_heading = "Global options")]
    json: bool,
}

impl Global {
    /// Returns the form of the output.
    pub(crate) const fn format(&self) -> Format {
        if self.json { Format::Json } else { Format::Text }
    }
}

/// The form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// When to use colour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal that has it.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What the program is asked to do; each command is described where its arguments are.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Handoff(Handoff),
    Import(Import),
    Chat(Chat),
    Run(Run),
    #[command(subcommand)]
    Threads(Threads),
    History(History),
    /// Show which models can be used, and why others cannot
    Models,
    /// Check everything a handoff relies on
    Doctor,
}

/// Carry what matters of a thread into a fresh one, with a summary you review
///
/// A handoff is a bridge, not a fork: the new thread begins blank, and only the summary you accept goes along, into
/// its first turn. The old thread stays as it is. Works offline; with a model configured, the model drafts.
#[derive(Debug, Args)]
pub(crate) struct Handoff {
    /// Thread (the beginning of its id, or `last`), or a session file of another agent (`-` is standard input)
    #[arg(value_name = "THREAD|FILE", required_unless_present = "latest")]
    pub(crate) source: Option<String>,
    /// What the new thread is for
    #[arg(value_name = "GOAL")]
    pub(crate) goal: Vec<String>,
    /// Take the newest session of an agent on this machine
    #[arg(long)]
    pub(crate) latest: bool,
    /// Show the summary and change nothing
    #[arg(long, group = "answer")]
    pub(crate) preview: bool,
    /// Accept the summary without asking
    #[arg(long, group = "answer")]
    pub(crate) apply: bool,
    /// Answer with the decision in a JSON file (`-` is standard input)
    #[arg(long, value_name = "FILE", group = "answer")]
    pub(crate) decision_file: Option<PathBuf>,
    /// Cover only the newest N messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) messages: Option<u64>,
    #[command(flatten)]
    pub(crate) model: Model,
}

/// Read sessions of other agents into threads
///
/// The format is detected. Importing a session again adds only what is new.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// Session files, folders of them, or `-` for standard input
    #[arg(value_name = "PATH", required_unless_present = "discover")]
    pub(crate) paths: Vec<PathBuf>,
    /// List the sessions of agents on this machine, and import nothing
    #[arg(long, conflicts_with = "paths")]
    pub(crate) discover: bool,
}

/// Talk in a thread
#[derive(Debug, Args)]
pub(crate) struct Chat {
    /// Thread to go on in: the beginning of its id, or `last` [default: a new thread]
    #[arg(short, long, value_name = "THREAD")]
    pub(crate) thread: Option<String>,
    #[command(flatten)]
    pub(crate) model: Model,
}

/// Send one message and print the answer
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Thread to go on in: the beginning of its id, or `last`
    #[arg(short, long, value_name = "THREAD", required_unless_present = "new")]
    pub(crate) thread: Option<String>,
    /// Begin a new thread
    #[arg(long, conflicts_with = "thread")]
    pub(crate) new: bool,
    /// The message (`-` reads standard input)
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) prompt: String,
    #[command(flatten)]
    pub(crate) model: Model,
}

/// Which model to use.
#[derive(Debug, Args)]
pub(crate) struct Model {
    /// Model to use, such as anthropic/claude-sonnet-4-5
    #[arg(long = "model", value_name = "PROVIDER/NAME")]
    pub(crate) name: Option<String>,
}

/// List, show and change threads
#[derive(Debug, Subcommand)]
pub(crate) enum Threads {
    /// List threads, most recently active first
    List {
        /// The most threads to list
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
    /// Show one thread
    Show {
        /// The beginning of its id, or `last`
        thread: String,
    },
    /// Show threads under those they came from
    Tree {
        /// Only the tree this thread belongs to
        thread: Option<String>,
    },
    /// Find passages that hold every word
    Search {
        /// The words
        #[arg(required = true)]
        words: Vec<String>,
        /// The most passages to show
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
    },
    /// Give a thread another name
    Rename {
        /// The beginning of its id, or `last`
        thread: String,
        /// The name
        #[arg(required = true)]
        name: Vec<String>,
    },
    /// Copy a thread's transcript into a new thread
    Fork {
        /// The beginning of its id, or `last`
        thread: String,
        /// Copy up to this event
        #[arg(long, value_name = "SEQ")]
        until: Option<Seq>,
    },
    /// Delete a thread and everything that belongs to it
    Delete {
        /// The beginning of its id, or `last`
        thread: String,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
    /// Write a thread's transcript to a file or standard output
    Export {
        /// The beginning of its id, or `last`
        thread: String,
        /// The form of the transcript: md or json
        #[arg(long, value_enum, default_value_t, hide_possible_values = true)]
        format: ExportFormat,
        /// The file to write [default: standard output]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// The form of an exported transcript.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Markdown.
    #[default]
    Md,
    /// JSON.
    Json,
}

/// Print what was said in a thread
#[derive(Debug, Args)]
pub(crate) struct History {
    /// The beginning of its id, or `last`
    pub(crate) thread: String,
    /// The most events to read
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(crate) limit: u32,
    /// Only what came before this event
    #[arg(long, value_name = "SEQ")]
    pub(crate) before: Option<Seq>,
    /// Only what came after this event
    #[arg(long, value_name = "SEQ")]
    pub(crate) after: Option<Seq>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        super::Cli::command().debug_assert();
    }
}
