//! The arguments: commands, options and their help texts. What they mean is in the files under `commands`.

pub(crate) mod compact;
pub(crate) mod database;
pub(crate) mod handoff;
pub(crate) mod history;
pub(crate) mod memory;
pub(crate) mod mirror;
pub(crate) mod serve;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use protocol::{AssistantId, Seq};
use terminal::{Drawing, Screen, Style};

use crate::exit::EXIT_CODES;
use compact::{Compact, Uncompact, Window};
use database::{Db, Prune};
use handoff::{Handoff, Recall};
use history::{Feedback, History, Trace};
use memory::store::Store;
use memory::{Memory, Remember, Search};
use mirror::{Handoffs, Mirror};
use serve::{Keys, Serve};

/// A durable agent in the terminal: chat, run one turn, hand a long session over to a fresh thread
///
/// Without a command it starts the chat.
#[derive(Debug, Parser)]
#[command(name = "segue", version, after_help = EXIT_CODES, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) chat: Chat,
    #[command(flatten)]
    pub(crate) global: Global,
}

impl Cli {
    /// Reads the arguments. Options of the chat that is started without a command belong to no other one.
    ///
    /// # Errors
    /// When they cannot be read, or ask for help or the version.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        let cli = Self::try_parse()?;
        match &cli.command {
            Some(_) if cli.chat.is_set() => Err(Self::command().error(
                clap::error::ErrorKind::ArgumentConflict,
                "options before a command belong to the chat; write them after the command",
            )),
            Some(_) | None => Ok(cli),
        }
    }
}

/// Options of every command.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Folder that holds everything segue keeps [default: $SEGUE_HOME, else the platform's data folder]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub(crate) home: Option<OsString>,
    /// Database that holds the threads, for all who use it: postgres://… or sqlite:PATH [default: $SEGUE_DATABASE_URL, else
    /// `[database] url` in config.toml, else segue.db in the home folder]
    #[arg(long, global = true, value_name = "URL", help_heading = "Global options")]
    pub(crate) database_url: Option<String>,
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
    color: ColorChoice,
    /// Draw nothing over, use no colour, and ask questions by the line, as a screen reader needs it [env: SEGUE_PLAIN]
    #[arg(long, global = true, help_heading = "Global options")]
    plain: bool,
    #[command(flatten)]
    pub(crate) logs: Logs,
    /// Print JSON for programs instead of text
    #[arg(long, global = true, help_heading = "Global options")]
    json: bool,
}

/// What is told of the work beside its results.
#[derive(Debug, Default, Args)]
pub(crate) struct Logs {
    /// How much is logged: error, warn, info, debug or trace, or a filter such as `warn,handoff=debug` [env: SEGUE_LOG]
    #[arg(id = "log-level", long, global = true, value_name = "LEVEL", help_heading = "Global options")]
    pub(crate) level: Option<String>,
    /// Log to this file, a new one each day of which seven are kept, instead of stderr [env: SEGUE_LOG_FILE]
    #[arg(id = "log-file", long, global = true, value_name = "PATH", help_heading = "Global options")]
    pub(crate) file: Option<PathBuf>,
    /// One line for people, or one JSON object, for each thing that is logged [default: text] [env: SEGUE_LOG_FORMAT]
    #[arg(
        id = "log-format",
        long,
        global = true,
        value_enum,
        value_name = "FORMAT",
        help_heading = "Global options"
    )]
    #[arg(hide_possible_values = true)]
    pub(crate) format: Option<LogFormat>,
}

/// The form of a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

impl Global {
    /// Returns the form of the output.
    pub(crate) const fn format(&self) -> Format {
        if self.json { Format::Json } else { Format::Text }
    }

    /// Returns the screen that the options describe.
    pub(crate) fn screen(&self) -> Screen {
        Screen::new(self.color.style(), self.drawing())
    }

    /// Returns whether rows that were drawn may be drawn over.
    fn drawing(&self) -> Drawing {
        let is_set = std::env::var_os("SEGUE_PLAIN").is_some_and(|value| !value.is_empty());
        if self.plain || is_set { Drawing::Plain } else { Drawing::Live }
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

impl ColorChoice {
    /// Returns the style that was chosen; `None` where it depends on the terminal.
    const fn style(self) -> Option<Style> {
        match self {
            Self::Auto => None,
            Self::Always => Some(Style::Color),
            Self::Never => Some(Style::Plain),
        }
    }
}

/// What the program is asked to do; each command is described where its arguments are.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Handoff(Handoff),
    #[command(subcommand)]
    Handoffs(Handoffs),
    #[command(subcommand)]
    Mirror(Mirror),
    Import(Import),
    Chat(Chat),
    Run(Run),
    Decide(Decide),
    #[command(subcommand)]
    Threads(Threads),
    History(History),
    Search(Search),
    Recall(Recall),
    #[command(subcommand)]
    Memory(Memory),
    Remember(Remember),
    #[command(subcommand)]
    Store(Store),
    #[command(name = "context")]
    Window(Window),
    Compact(Compact),
    Uncompact(Uncompact),
    Feedback(Feedback),
    Trace(Trace),
    Serve(Serve),
    #[command(subcommand)]
    Keys(Keys),
    #[command(subcommand)]
    Db(Db),
    Prune(Prune),
    /// Show which models can be used, and why others cannot
    Models,
    #[command(subcommand)]
    Mcp(Mcp),
    #[command(subcommand)]
    Config(Config),
    /// Check everything a handoff relies on
    Doctor,
    Completions(Completions),
    Man(Man),
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

/// Talk with the agent in a thread
#[derive(Debug, Args)]
pub(crate) struct Chat {
    /// Thread to go on in: the beginning of its id, or `last` [default: a new thread]
    #[arg(short, long, value_name = "THREAD", group = "opened")]
    pub(crate) thread: Option<String>,
    /// Go on in the newest thread of this folder, or the newest of all
    #[arg(short = 'c', long = "continue", group = "opened")]
    pub(crate) go_on: bool,
    /// Go on in a thread; without its id, choose one
    #[arg(short, long, value_name = "ID", num_args = 0..=1, group = "opened")]
    pub(crate) resume: Option<Option<String>>,
    #[command(flatten)]
    pub(crate) model: Model,
}

impl Chat {
    fn is_set(&self) -> bool {
        self.thread.is_some() || self.go_on || self.resume.is_some() || self.model.name.is_some()
    }
}

/// Do one turn without a terminal: a prompt in, an answer out
///
/// The answer goes to standard output, everything else to standard error. With `--json`, what happens goes to standard
/// output instead, one JSON object a line; the last one is the result.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Thread to go on in: the beginning of its id, or `last` [default: a new thread]
    #[arg(short, long, value_name = "THREAD", group = "opened")]
    pub(crate) thread: Option<String>,
    /// Go on in the newest thread of this folder, or the newest of all
    #[arg(short = 'c', long = "continue", group = "opened")]
    pub(crate) go_on: bool,
    /// Begin a new thread, as is done anyway
    #[arg(long, group = "opened", hide = true)]
    pub(crate) new: bool,
    /// The prompt (`-` reads standard input); what is piped in besides goes along with it
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) prompt: Option<String>,
    #[command(flatten)]
    pub(crate) limits: Limits,
    #[command(flatten)]
    pub(crate) model: Model,
}

/// What a run may use, and who is asked.
#[derive(Debug, Args)]
pub(crate) struct Limits {
    /// How often the model may be asked
    #[arg(long, value_name = "N", value_parser = one_or_more::<u64>)]
    pub(crate) max_turns: Option<u64>,
    /// How long it may take: seconds, or a number with s, m or h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// What becomes of tool calls that would ask a person: ask (stop and wait), deny or allow
    #[arg(long, value_enum, value_name = "POLICY", default_value_t, hide_possible_values = true)]
    pub(crate) approve: Approve,
}

/// What becomes of tool calls that would ask a person.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Approve {
    /// The run stops and waits for `segue decide`.
    #[default]
    Ask,
    /// They are refused, and the agent is told.
    Deny,
    /// They are made.
    Allow,
}

/// Answer what a run stopped to ask, and let it go on
///
/// Without an answer among the options, each call is shown and asked about.
#[derive(Debug, Clone, Args)]
pub(crate) struct Decide {
    /// The interrupt's id, or the thread (the beginning of its id, or `last`): everything that waits in it
    #[arg(value_name = "INTERRUPT|THREAD")]
    pub(crate) what: String,
    /// Approve all calls
    #[arg(long, group = "answer")]
    pub(crate) approve: bool,
    /// Reject all calls, and tell the agent why
    #[arg(long, group = "answer", value_name = "MESSAGE", num_args = 0..=1, default_missing_value = "")]
    pub(crate) reject: Option<String>,
    /// Answer with the decisions in a JSON file (`-` is standard input)
    #[arg(long, value_name = "FILE", group = "answer")]
    pub(crate) decision_file: Option<PathBuf>,
    /// Move the thread to this folder, and ask again about the calls, to be made here
    #[arg(long, group = "answer")]
    pub(crate) here: bool,
    /// How often the model may be asked
    #[arg(long, value_name = "N", value_parser = one_or_more::<u64>)]
    pub(crate) max_turns: Option<u64>,
    /// How long it may take: seconds, or a number with s, m or h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) model: Model,
}

/// Show the MCP servers and their tools, and say which of a project's may be started
#[derive(Debug, Subcommand)]
pub(crate) enum Mcp {
    /// List the servers that are written down, without starting them
    List,
    /// Start the servers and list their tools
    Test {
        /// Only this server
        name: Option<String>,
    },
    /// Agree to a server of the project's .mcp.json
    Allow {
        /// The server
        name: String,
    },
    /// Refuse a server of the project's .mcp.json
    Refuse {
        /// The server
        name: String,
    },
}

/// Print the completion script of a shell
///
/// For example: `segue completions bash > ~/.local/share/bash-completion/completions/segue`
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Write the manual pages into a folder, or print the main one
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The folder
    #[arg(value_name = "DIR", conflicts_with = "markdown")]
    pub(crate) folder: Option<PathBuf>,
    /// Print all commands as one page in Markdown
    #[arg(long)]
    pub(crate) markdown: bool,
}

/// Show what can stand in config.toml
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// List every key, with what it takes, its default and its meaning; as a JSON Schema with `--json`
    Keys(ConfigKeys),
}

/// How the keys are listed.
#[derive(Debug, Args)]
pub(crate) struct ConfigKeys {
    /// As a page in Markdown
    #[arg(long)]
    pub(crate) markdown: bool,
}

/// Which model to use.
#[derive(Debug, Clone, Args)]
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
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = one_or_more::<u32>)]
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
    /// Take a thread back: what came after an event is no longer shown
    Rewind {
        /// The beginning of its id, or `last`
        thread: String,
        /// The last event that stays
        #[arg(value_name = "SEQ")]
        keep: Seq,
    },
    /// Ask the run that is active in a thread to stop, whichever process it is in
    Stop {
        /// The beginning of its id, or `last`
        thread: String,
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

/// Reads a number that is not 0.
fn one_or_more<N: TryFrom<u64>>(text: &str) -> Result<N, String> {
    let number = text.parse().ok().filter(|number: &u64| *number > 0);
    number
        .and_then(|number| N::try_from(number).ok())
        .ok_or_else(|| format!("`{text}` is no such number; write 1 or more"))
}

/// Reads a time: a number of seconds, or a number with its unit.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no time; write 90, 90s, 5m or 1h");
    let (number, unit) = text.split_at(text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).len());
    let seconds = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let seconds = number.checked_mul(seconds).filter(|seconds| *seconds > 0).ok_or_else(wrong)?;
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_seconds_or_a_number_with_its_unit() {
        let check = |text: &str, seconds: Option<u64>| {
            assert_eq!(duration(text).ok(), seconds.map(Duration::from_secs), "{text}");
        };
        check("90", Some(90));
        check("90s", Some(90));
        check("5m", Some(300));
        check("1h", Some(3_600));
        for wrong in ["", "0", "m", "5d", "-1", "1.5", "99999999999999999999"] {
            check(wrong, None);
        }
    }

    #[test]
    fn a_number_of_things_is_1_or_more_and_a_mistake_says_so() {
        assert_eq!((one_or_more::<u64>("1"), one_or_more::<u32>("20")), (Ok(1), Ok(20)));
        for wrong in ["0", "-1", "x", "", "99999999999999999999"] {
            assert!(one_or_more::<u64>(wrong).unwrap_err().ends_with("write 1 or more"), "{wrong}");
        }
        assert!(one_or_more::<u32>("5000000000").is_err());
    }

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }
}
