//! The command-line arguments: commands, options and their help texts. The files under `commands` perform the commands.

pub(crate) mod compact;
pub(crate) mod database;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod handoff;
pub(crate) mod help;
pub(crate) mod history;
pub(crate) mod memory;
pub(crate) mod serve;
pub(crate) mod threads;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use protocol::AssistantId;
use terminal::{DrawMode, Screen, Style};

use crate::exit::EXIT_CODES;
use compact::{CompactArgs, ContextArgs, UncompactArgs};
use database::{DbCommand, PruneArgs};
use demo::DemoArgs;
use doctor::DoctorArgs;
use handoff::{HandoffArgs, HandoffExportCommand, RecallCommandArgs};
use help::HelpLength;
use history::{FeedbackArgs, HistoryArgs, TraceArgs};
use memory::store::StoreCommand;
use memory::{MemoryCommand, PinArgs, RememberArgs, SearchArgs, UnpinArgs};
use serve::{ApiKeysCommand, PingArgs, ServeArgs};
use threads::ThreadsCommand;

/// The decisions about tool calls in a decision file, at most 80 columns wide, because clap would break longer lines. The page
/// `docs/src/run-json.md` describes them in full.
pub(crate) const TOOL_DECISIONS_HELP: &str = r#"Decision file: {"decisions": [D, ...]}, one D for each call, in their order:
  approve  {"type": "approve"}
  edit     {"type": "edit", "edited_action": {"name": "execute", "args": {...}}}
  reject   {"type": "reject", "message": "..."}
  respond  {"type": "respond", "message": "..."}; the agent gets it as a result
  defer    {"type": "defer"}; the call stays pending while others are decided
Example for two calls:
  {"decisions": [{"type": "approve"}, {"type": "reject", "message": "not now"}]}"#;

/// A durable runtime for LLM agents, with reviewed handoffs of long threads
///
/// Without a command, segue starts the chat.
#[derive(Debug, Parser)]
#[command(name = "segue", version, after_help = EXIT_CODES, disable_help_subcommand = true)]
pub(crate) struct CliArgs {
    #[command(subcommand)]
    pub(crate) command: Option<CliCommand>,
    /// Options of the chat that starts when no command is given.
    #[command(flatten)]
    pub(crate) chat: ChatArgs,
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
}

impl CliArgs {
    /// Parses the arguments of this process.
    ///
    /// # Errors
    /// Fails if the arguments are invalid, or if they ask for the help or the version: clap reports both as an error.
    pub(crate) fn parse_args() -> Result<Self, clap::Error> {
        Self::parse_from_args(std::env::args_os().collect())
    }

    /// Parses the given arguments, the first of which is the name of the program.
    fn parse_from_args(args: Vec<OsString>) -> Result<Self, clap::Error> {
        if let Some(version) = requested_version(&args) {
            return Err(version);
        }
        let command = Self::command();
        let args = help::replace_help_command(args);
        let args = handoff::move_subcommand_before_options(args, &command);
        // The help pages take longer than the parsing, and only a help page or an error shows them.
        let matches = command.try_get_matches_from(&args).or_else(|_| {
            help::with_help_pages(Self::command(), HelpLength::requested_by(&args))
                .try_get_matches_from(args)
                .map_err(|error| help::suggest_visible_names(error, &Self::command()))
        })?;
        let cli = Self::from_arg_matches(&matches)?;
        match &cli.command {
            // The options of the implicit chat are not global: `segue -t ID run` would ignore the thread.
            Some(_) if cli.chat.is_set() => Err(Self::command().error(
                clap::error::ErrorKind::ArgumentConflict,
                "options before a command belong to the chat; write them after the command",
            )),
            Some(_) | None => Ok(cli),
        }
    }
}

/// Returns clap's report of the version if the arguments request nothing else. It needs none of the commands, whose
/// construction would take as long as the rest of the program.
fn requested_version(args: &[OsString]) -> Option<clap::Error> {
    let [_, argument] = args else { return None };
    let command = clap::Command::new("segue").version(env!("CARGO_PKG_VERSION"));
    let is_version = argument == "--version" || argument == "-V";
    is_version.then(|| command.try_get_matches_from(args).err()).flatten()
}

/// Options of every command.
#[derive(Debug, Args)]
pub(crate) struct GlobalArgs {
    /// Folder for everything segue stores [default: $SEGUE_HOME, else the platform's data folder]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub(crate) home: Option<OsString>,
    /// Database with the threads, which several processes can share: postgres://… or sqlite:PATH [default: $SEGUE_DATABASE_URL, else
    /// `[database] url` in config.toml, else segue.db in the home folder]
    #[arg(long, global = true, value_name = "URL", help_heading = "Global options")]
    pub(crate) database_url: Option<String>,
    /// Assistant to use; each has its own agent.md
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
    /// Never redraw a line, use no colour, and ask questions line by line, as a screen reader needs it [env: SEGUE_PLAIN]
    #[arg(long, global = true, help_heading = "Global options")]
    plain: bool,
    #[command(flatten)]
    pub(crate) logs: LogArgs,
    /// Print JSON for programs instead of text
    #[arg(long, global = true, help_heading = "Global options")]
    json: bool,
}

/// Options of the log.
#[derive(Debug, Default, Args)]
pub(crate) struct LogArgs {
    /// Level of the log: error, warn, info, debug or trace, or a filter such as `warn,handoff=debug` [env: SEGUE_LOG]
    #[arg(id = "log-level", long, global = true, value_name = "LEVEL", help_heading = "Global options")]
    pub(crate) level: Option<String>,
    /// Log to this file instead of stderr; each day has its own file, and seven are kept [env: SEGUE_LOG_FILE]
    #[arg(id = "log-file", long, global = true, value_name = "PATH", help_heading = "Global options")]
    pub(crate) file: Option<PathBuf>,
    /// Format of each entry of the log: text or json [default: text] [env: SEGUE_LOG_FORMAT]
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

/// The format of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// One line of text for each entry.
    #[default]
    Text,
    /// One JSON object for each entry, on a line of its own.
    Json,
}

impl GlobalArgs {
    /// Returns the format of the output.
    pub(crate) const fn format(&self) -> OutputFormat {
        if self.json { OutputFormat::Json } else { OutputFormat::Text }
    }

    /// Returns a screen with the colour and the draw mode that the options select.
    pub(crate) fn screen(&self) -> Screen {
        Screen::new(self.color.style(), self.draw_mode())
    }

    /// Returns whether rows that are already on the screen may be redrawn.
    fn draw_mode(&self) -> DrawMode {
        let is_set = std::env::var_os("SEGUE_PLAIN").is_some_and(|value| !value.is_empty());
        if self.plain || is_set { DrawMode::Plain } else { DrawMode::Live }
    }
}

/// The format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    /// Text for people.
    Text,
    /// JSON for programs.
    Json,
}

/// The policy for coloured output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    /// Only on a terminal that supports it.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl ColorChoice {
    /// Returns the selected style, or `None` if it depends on the terminal.
    const fn style(self) -> Option<Style> {
        match self {
            Self::Auto => None,
            Self::Always => Some(Style::Color),
            Self::Never => Some(Style::Plain),
        }
    }
}

/// The commands. The description of each is on its arguments; `help` puts the commands into groups.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    Demo(DemoArgs),
    // `segue handoffs stats` is the former name of `segue handoff stats`.
    #[command(alias = "handoffs")]
    Handoff(HandoffArgs),
    /// The former name of `segue handoff export`.
    #[command(subcommand, hide = true)]
    Mirror(HandoffExportCommand),
    Import(ImportArgs),
    Chat(ChatArgs),
    Run(RunArgs),
    Decide(DecideArgs),
    #[command(subcommand)]
    Threads(ThreadsCommand),
    History(HistoryArgs),
    Search(SearchArgs),
    Recall(RecallCommandArgs),
    #[command(subcommand)]
    Memory(MemoryCommand),
    Remember(RememberArgs),
    Pin(PinArgs),
    Unpin(UnpinArgs),
    #[command(subcommand)]
    Store(StoreCommand),
    Context(ContextArgs),
    Compact(CompactArgs),
    Uncompact(UncompactArgs),
    Feedback(FeedbackArgs),
    Trace(TraceArgs),
    Serve(ServeArgs),
    Ping(PingArgs),
    #[command(subcommand)]
    Keys(ApiKeysCommand),
    #[command(subcommand)]
    Db(DbCommand),
    Prune(PruneArgs),
    /// List the models, and why some cannot be used
    Models,
    #[command(subcommand)]
    Mcp(McpCommand),
    #[command(subcommand)]
    Config(ConfigCommand),
    Doctor(DoctorArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Import sessions of other agents as threads
///
/// The format is detected. If a session was imported before, only its new messages are added.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Session files, folders with session files, or `-` for standard input
    #[arg(value_name = "PATH", required_unless_present = "discover")]
    pub(crate) paths: Vec<PathBuf>,
    /// List the sessions of other agents on this machine and import nothing
    #[arg(long, conflicts_with = "paths")]
    pub(crate) discover: bool,
}

/// Talk with the agent in a thread
#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// Continue this thread: its id, or `last`
    #[arg(short, long, value_name = "THREAD", group = "thread_choice")]
    pub(crate) thread: Option<String>,
    /// Continue the newest thread of this folder
    #[arg(short = 'c', long = "continue", group = "thread_choice")]
    pub(crate) continue_newest: bool,
    /// Continue a thread; without an id, choose one
    #[arg(short, long, value_name = "ID", num_args = 0..=1, group = "thread_choice")]
    pub(crate) resume: Option<Option<String>>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

impl ChatArgs {
    /// Returns whether at least one option is present.
    fn is_set(&self) -> bool {
        self.thread.is_some() || self.continue_newest || self.resume.is_some() || self.model.name.is_some()
    }
}

/// Send one prompt and print the answer, without a terminal
///
/// The answer goes to standard output, everything else to standard error. With `--json`, the events of the run go to
/// standard output instead, one JSON object on each line; the last one is the result.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Continue this thread: its id, or `last`
    #[arg(short, long, value_name = "THREAD", group = "thread_choice")]
    pub(crate) thread: Option<String>,
    /// Continue the newest thread of this folder
    #[arg(short = 'c', long = "continue", group = "thread_choice")]
    pub(crate) continue_newest: bool,
    /// Start a new thread, which is the default
    #[arg(long, group = "thread_choice", hide = true)]
    pub(crate) new: bool,
    /// The prompt (`-` reads standard input); other piped input is added to it
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) prompt: Option<String>,
    #[command(flatten)]
    pub(crate) limits: RunLimitArgs,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// The limits of a run, and the decision about tool calls that need approval.
#[derive(Debug, Args)]
pub(crate) struct RunLimitArgs {
    /// Most model calls of the run
    #[arg(long, value_name = "N", value_parser = parse_positive::<u64>)]
    pub(crate) max_turns: Option<u64>,
    /// Longest time of the run: seconds, or a number with s, m or h
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
    /// Tool calls that need approval: ask (stop and wait for `segue decide`), sandboxed (like ask, but make commands in the
    /// sandbox), deny or allow
    #[arg(long, value_enum, value_name = "POLICY", default_value_t, hide_possible_values = true)]
    pub(crate) approve: ApprovalChoice,
}

/// The decision about tool calls that need a person's approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ApprovalChoice {
    /// The run stops and waits for `segue decide`.
    #[default]
    Ask,
    /// Commands in the sandbox run, and the run stops for other calls.
    Sandboxed,
    /// The calls are rejected, and the agent gets the rejection as their result.
    Deny,
    /// The calls are made.
    Allow,
}

/// Answer the questions at which a run stopped, and resume it
///
/// Without an answer among the options, each tool call is shown and you are asked about it.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = TOOL_DECISIONS_HELP)]
pub(crate) struct DecideArgs {
    /// An interrupt's id, or a thread (the beginning of its id, or `last`) for all pending questions in it
    #[arg(value_name = "INTERRUPT|THREAD")]
    pub(crate) target: String,
    /// Approve all calls
    #[arg(long, group = "answer")]
    pub(crate) approve: bool,
    /// Reject all calls, with an optional message for the agent
    #[arg(long, group = "answer", value_name = "MESSAGE", num_args = 0..=1, default_missing_value = "")]
    pub(crate) reject: Option<String>,
    /// Answer with the decisions in a JSON file (`-` is standard input)
    #[arg(long, value_name = "FILE", group = "answer")]
    pub(crate) decision_file: Option<PathBuf>,
    /// Move the thread to this folder and ask again; the calls will be made in this folder
    #[arg(long, group = "answer")]
    pub(crate) here: bool,
    /// Most model calls of the run
    #[arg(long, value_name = "N", value_parser = parse_positive::<u64>)]
    pub(crate) max_turns: Option<u64>,
    /// Longest time of the run: seconds, or a number with s, m or h
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// List MCP servers, and allow or refuse those of a project
#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// List the configured servers without starting them
    List,
    /// Start the servers and list their tools
    Test {
        /// Only this server
        name: Option<String>,
    },
    /// Allow a server of the project's .mcp.json to be started
    Allow {
        /// The server's name
        name: String,
    },
    /// Refuse a server of the project's .mcp.json
    Refuse {
        /// The server's name
        name: String,
    },
}

/// Print the completion script of a shell
///
/// For example: `segue completions bash > ~/.local/share/bash-completion/completions/segue`
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Write the manual pages to a folder, or print the main page
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The folder
    #[arg(value_name = "DIR", conflicts_with = "markdown")]
    pub(crate) folder: Option<PathBuf>,
    /// Print all commands as one Markdown page
    #[arg(long)]
    pub(crate) markdown: bool,
}

/// List the keys of config.toml
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// List every key with its values, its default and its meaning; with `--json` as a JSON Schema
    Keys(ConfigKeysArgs),
}

/// The arguments of `segue config keys`.
#[derive(Debug, Args)]
pub(crate) struct ConfigKeysArgs {
    /// Print the keys as a Markdown page
    #[arg(long)]
    pub(crate) markdown: bool,
}

/// The option that selects a model.
#[derive(Debug, Clone, Args)]
pub(crate) struct ModelArgs {
    /// Model to use, such as anthropic/claude-sonnet-4-5
    #[arg(long = "model", value_name = "PROVIDER/NAME")]
    pub(crate) name: Option<String>,
}

/// Parses a whole number that is at least 1.
///
/// # Errors
/// Fails if the text is not a number, or is 0 or too large for `N`; the error says what to write instead.
fn parse_positive<N: TryFrom<u64>>(text: &str) -> Result<N, String> {
    let number = text.parse().ok().filter(|number: &u64| *number > 0);
    number
        .and_then(|number| N::try_from(number).ok())
        .ok_or_else(|| format!("`{text}` is not a valid number; write 1 or more"))
}

/// Parses a whole number from `MIN` to `MAX`.
///
/// # Errors
/// Fails if the text is no such number; the error says what to write instead.
fn parse_limit<const MIN: u32, const MAX: u32>(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number: &u32| (MIN..=MAX).contains(number));
    number.ok_or_else(|| format!("`{text}` is not a valid number; write {MIN} to {MAX}"))
}

/// Parses a duration: a number of seconds, or a number with the unit s, m or h.
///
/// # Errors
/// Fails if the text is not a duration, or is 0 or too large; the error says what to write instead.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let invalid = || format!("`{text}` is not a valid duration; write 90, 90s, 5m or 1h");
    let (number, unit) = text.split_at(text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).len());
    let seconds = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => return Err(invalid()),
    };
    let number: u64 = number.parse().map_err(|_| invalid())?;
    let seconds = number.checked_mul(seconds).filter(|seconds| *seconds > 0).ok_or_else(invalid)?;
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_number_of_seconds_or_a_number_with_its_unit() {
        let check = |text: &str, seconds: Option<u64>| {
            assert_eq!(parse_duration(text).ok(), seconds.map(Duration::from_secs), "{text}");
        };
        check("90", Some(90));
        check("90s", Some(90));
        check("5m", Some(300));
        check("1h", Some(3_600));
        for invalid in ["", "0", "m", "5d", "-1", "1.5", "99999999999999999999"] {
            check(invalid, None);
        }
    }

    #[test]
    fn a_count_is_1_or_more_and_the_error_says_so() {
        assert_eq!((parse_positive::<u64>("1"), parse_positive::<u32>("20")), (Ok(1), Ok(20)));
        for invalid in ["0", "-1", "x", "", "99999999999999999999"] {
            assert!(parse_positive::<u64>(invalid).unwrap_err().ends_with("write 1 or more"), "{invalid}");
        }
        assert!(parse_positive::<u32>("5000000000").is_err());
    }

    #[test]
    fn a_limit_is_within_its_range_and_the_error_says_the_range() {
        assert_eq!((parse_limit::<0, 100>("0"), parse_limit::<1, 500>("500")), (Ok(0), Ok(500)));
        for invalid in ["0", "-1", "x", "", "501", "99999999999"] {
            let error = parse_limit::<1, 500>(invalid).unwrap_err();
            assert_eq!(error, format!("`{invalid}` is not a valid number; write 1 to 500"));
        }
    }

    #[test]
    fn the_version_alone_is_reported_as_with_other_arguments() {
        for line in ["segue -V", "segue --version", "segue --json --version"] {
            let error = CliArgs::parse_from_args(line.split(' ').map(OsString::from).collect()).unwrap_err();
            assert_eq!(error.kind(), clap::error::ErrorKind::DisplayVersion, "{line}");
            assert_eq!(error.to_string(), CliArgs::command().render_version(), "{line}");
        }
    }

    #[test]
    fn the_arguments_are_consistent() {
        CliArgs::command().debug_assert();
    }
}
