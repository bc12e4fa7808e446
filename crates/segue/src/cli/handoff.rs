//! The arguments of `segue handoff`, its subcommands `stats` and `export`, and `segue recall`. The files under `commands`
//! perform them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use protocol::Seq;

use crate::cli::{ModelArgs, parse_limit, parse_positive};

use super::memory::{HITS_MAX, PastTime};

/// The decisions that a decision file can hold, at most 80 columns wide, because clap would break longer lines. The page
/// `docs/src/decisions.md` describes them in full.
pub(crate) const DECISIONS_HELP: &str = r#"Decisions for --decision-file, one of them in {"decisions": [D]}:
  accept   {"type": "approve"}; with "summary_sha256" only that text
  edit     {"type": "approve", "args": {"package_md": "...", "title": "..."}}
  calls    in "args" of either: "pending_approvals": "transfer", "cancel",
           "leave" or "copy" decides about calls that wait for approval
  refine   {"type": "edit", "edited_action":
           {"name": "handoff_summary", "args": {"feedback": "..."}}}
  save     an edit with "package_md" and "save_draft": true in "args";
           with "feedback" instead, the model drafts again from your text
  add      the same with "args": {"add": {"left_out": [0], "topics": [0]}};
           "rules": [0] in the inner braces puts a lost rule back, and
           "facts": [0] the entries that a list of facts leaves out
  revert   the same with "args": {"revert_to": 0}
  redraft  the same with "args": {"redraft": {}}, and in the inner braces
           "model": "provider/name" or "model": "extractive" (offline summary);
           "redraft": true also covers the messages since the draft, and
           keeps your changes
  decline  {"type": "reject", "message": "..."}
  preview  {"type": "preview"}
After refine, save, add, revert and redraft, another proposal is pending:
exit code 3."#;

/// The subcommands of `segue handoff`. Any other word in their position names a thread or a file.
const SUBCOMMANDS: [&str; 3] = ["stats", "update", "export"];

/// Continue a thread in a fresh one, with a summary that you review
///
/// A handoff is a bridge of context, not a fork: the new thread starts empty, and is sent only the summary that you accept.
#[derive(Debug, Args)]
#[command(
    after_long_help = DECISIONS_HELP,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    override_usage = "segue handoff [OPTIONS] THREAD|FILE [GOAL]...\n       segue handoff update|stats|export ..."
)]
pub(crate) struct HandoffArgs {
    #[command(subcommand)]
    pub(crate) command: Option<HandoffCommand>,
    /// A thread's id or `last`, or a session file (`-` is stdin)
    #[arg(value_name = "THREAD|FILE", required_unless_present_any = ["latest", "list", "show", "decide"])]
    pub(crate) source: Option<String>,
    /// Purpose of the new thread
    #[arg(value_name = "GOAL")]
    pub(crate) goal: Vec<String>,
    /// Hand off the newest session of another agent
    #[arg(long)]
    pub(crate) latest: bool,
    /// List the pending handoffs of all threads
    #[arg(
        long,
        group = "pending_action",
        help_heading = "Pending handoffs",
        conflicts_with_all = ["source", "latest", "messages", "answer"]
    )]
    pub(crate) list: bool,
    /// Show a handoff and its drafts, by its id or interrupt
    #[arg(
        long,
        hide_short_help = true,
        group = "pending_action",
        value_name = "ID",
        help_heading = "Pending handoffs",
        conflicts_with_all = ["source", "latest", "messages", "answer"]
    )]
    pub(crate) show: Option<String>,
    /// With --show: the draft's number [default: the newest]
    #[arg(
        long,
        hide_short_help = true,
        value_name = "N",
        requires = "show",
        help_heading = "Pending handoffs",
        conflicts_with_all = ["source", "latest", "list", "decide"]
    )]
    pub(crate) draft: Option<u32>,
    /// Answer a pending handoff, by its id or interrupt
    #[arg(
        long,
        group = "pending_action",
        value_name = "ID",
        help_heading = "Pending handoffs",
        conflicts_with_all = ["goal", "latest", "messages"]
    )]
    pub(crate) decide: Option<String>,
    /// Only show the summary; nothing is stored
    #[arg(long, group = "answer", help_heading = "Answers")]
    pub(crate) preview: bool,
    /// Accept the summary without asking
    #[arg(long, alias = "approve", group = "answer", help_heading = "Answers")]
    pub(crate) apply: bool,
    /// With --decide: draft again with the newer messages
    #[arg(long, requires = "decide", group = "answer", help_heading = "Answers", hide_short_help = true)]
    pub(crate) redraft: bool,
    /// Answer with the decision in a JSON file (see below)
    #[arg(long, value_name = "FILE", group = "answer", help_heading = "Answers", hide_short_help = true)]
    pub(crate) decision_file: Option<PathBuf>,
    /// Check what the summary alone answers
    #[arg(long, hide_short_help = true, conflicts_with_all = ["list", "show"])]
    pub(crate) probe: bool,
    /// Add the summary to the child of another handoff
    #[arg(
        long,
        value_name = "THREAD",
        hide_short_help = true,
        conflicts_with_all = ["list", "show", "decide"]
    )]
    pub(crate) into: Option<String>,
    /// Cover only the newest N messages
    #[arg(long, value_name = "N", value_parser = parse_positive::<u64>, hide_short_help = true)]
    pub(crate) messages: Option<u64>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// The subcommands of `segue handoff`.
#[derive(Debug, Subcommand)]
pub(crate) enum HandoffCommand {
    Update(HandoffUpdateArgs),
    Stats(HandoffStatsArgs),
    #[command(subcommand)]
    Export(HandoffExportCommand),
}

/// Update the summary of a child thread where later work contradicts it
///
/// Shows each line of the summary that is not true any more: a task that is done, a file that was deleted, an error that was
/// resolved, a newer request in the parent. You decide about each line. The summary as it was accepted stays stored.
#[derive(Debug, Args)]
pub(crate) struct HandoffUpdateArgs {
    /// The child thread: the beginning of its id, or `last`
    pub(crate) thread: String,
    /// Make all proposed changes without asking
    #[arg(long)]
    pub(crate) apply: bool,
}

/// Count handoffs by outcome, with tokens, coverage and time to decision
#[derive(Debug, Args)]
pub(crate) struct HandoffStatsArgs {
    /// Only handoffs requested since: 2026-03-01, 2026-03-01T09:30, 09:30 (today), or 12h, 30d, 2w ago. Times are UTC
    #[arg(long, value_name = "WHEN", value_parser = PastTime::parse)]
    pub(crate) since: Option<PastTime>,
}

/// Show or flush the export of accepted handoffs to a PostgreSQL table
///
/// The sink is set by `[mirror] url` in config.toml or by SEGUE_MIRROR_URL. No handoff waits for it or fails because of it:
/// rows that cannot be sent stay pending, and are sent at the next handoff, at the next start, or by `segue handoff export
/// flush`.
#[derive(Debug, Subcommand)]
pub(crate) enum HandoffExportCommand {
    /// Show whether accepted handoffs reach the sink, and the pending rows
    Status,
    /// Send the pending rows
    Flush,
}

/// Search the messages of a thread and of the threads it came from
///
/// The search covers the original messages, including compacted ones. The newest message comes first. The agent has the same search as a tool.
#[derive(Debug, Args)]
#[command(override_usage = "segue recall [OPTIONS] <THREAD> [WORDS]...")]
pub(crate) struct RecallCommandArgs {
    /// The beginning of the thread's id, or `last`
    // The command itself reports what is missing, because the parser's report does not say what to write.
    #[arg(required = false)]
    pub(crate) thread: Option<String>,
    /// Words to search for; a message matches if it contains any of them
    pub(crate) words: Vec<String>,
    /// Read a range of events instead, from this one on
    #[arg(long, value_name = "SEQ")]
    pub(crate) from: Option<Seq>,
    /// The last event of the range [default: the first]
    #[arg(long, value_name = "SEQ")]
    pub(crate) to: Option<Seq>,
    /// The most matches that are shown [default: 12]
    #[arg(long, value_name = "N", value_parser = parse_limit::<1, HITS_MAX>)]
    pub(crate) limit: Option<u32>,
}

/// Moves `stats` or `export` to the position directly after `handoff` if only global options stand between them.
///
/// Clap accepts no subcommand after an option of the same command (`args_conflicts_with_subcommands`), and it counts global
/// options as such: without this, `segue handoff --json stats` would look for a thread named "stats". The setting itself is
/// needed because a goal may contain these words: `segue handoff last export the report`.
pub(super) fn move_subcommand_before_options(
    mut args: Vec<OsString>,
    command: &clap::Command,
) -> Vec<OsString> {
    let handoff = skip_global_options(&args, 1, command);
    if args.get(handoff).is_none_or(|arg| arg != "handoff" && arg != "handoffs") {
        return args;
    }
    let subcommand = skip_global_options(&args, handoff + 1, command);
    if args.get(subcommand).is_some_and(|arg| SUBCOMMANDS.iter().any(|name| arg == name)) {
        args[handoff + 1..=subcommand].rotate_right(1);
    }
    args
}

/// Returns the index of the first argument from `start` on that is neither a global option nor the value of one.
fn skip_global_options(args: &[OsString], start: usize, command: &clap::Command) -> usize {
    let mut index = start;
    while let Some(long) = args.get(index).and_then(|arg| arg.to_str()?.strip_prefix("--")) {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        let mut options = command.get_arguments().filter(|option| option.is_global_set());
        let Some(option) = options.find(|option| option.get_long() == Some(name)) else { break };
        let takes_next = value.is_none() && option.get_action().takes_values();
        index += if takes_next { 2 } else { 1 };
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{CliArgs, CliCommand};

    fn parse(line: &str) -> Result<CliCommand, String> {
        let args = std::iter::once("segue").chain(line.split_whitespace()).map(OsString::from).collect();
        let cli = CliArgs::parse_from_args(args).map_err(|error| error.to_string())?;
        cli.command.ok_or_else(|| "no command".to_owned())
    }

    /// Describes how a line is understood: the subcommand, or the source and the goal.
    fn describe(line: &str) -> String {
        let export = |command: &HandoffExportCommand| match command {
            HandoffExportCommand::Status => "export status".to_owned(),
            HandoffExportCommand::Flush => "export flush".to_owned(),
        };
        match parse(line).unwrap_or_else(|error| panic!("{line}: {error}")) {
            CliCommand::Handoff(HandoffArgs { command: Some(HandoffCommand::Update(args)), .. }) => {
                format!("update {}{}", args.thread, if args.apply { " apply" } else { "" })
            }
            CliCommand::Handoff(HandoffArgs { command: Some(HandoffCommand::Stats(args)), .. }) => {
                format!("stats{}", if args.since.is_some() { " since" } else { "" })
            }
            CliCommand::Handoff(HandoffArgs { command: Some(HandoffCommand::Export(command)), .. })
            | CliCommand::Mirror(command) => export(&command),
            CliCommand::Handoff(args) => {
                format!("{:?} {:?}", args.source.unwrap_or_default(), args.goal.join(" "))
            }
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn a_handoff_has_subcommands_and_its_goal_may_contain_their_names() {
        for (line, expected) in [
            ("handoff stats", "stats"),
            ("handoff stats --since 30d --json", "stats since"),
            ("handoff --json stats --since 30d", "stats since"),
            ("--home x handoff --home y --assistant=b stats", "stats"),
            ("handoff --json update last --apply", "update last apply"),
            ("handoff last update the docs", r#""last" "update the docs""#),
            ("handoff export status", "export status"),
            ("handoff --plain export flush", "export flush"),
            ("handoff last", r#""last" """#),
            ("handoff last stats", r#""last" "stats""#),
            ("handoff last export the report", r#""last" "export the report""#),
            ("handoff last write the stats export", r#""last" "write the stats export""#),
            ("handoff --json last stats status", r#""last" "stats status""#),
            ("handoff ./stats", r#""./stats" """#),
            ("handoff -- stats", r#""stats" """#),
            ("handoff --latest export stats", r#""export" "stats""#),
            ("handoff --home stats last", r#""last" """#),
        ] {
            assert_eq!(describe(line), expected, "{line}");
        }
    }

    #[test]
    fn the_former_names_of_commands_are_hidden_and_work_the_same() {
        for (former, line) in [
            ("handoffs stats", "handoff stats"),
            ("handoffs --json stats --since 1h", "handoff stats --json --since 1h"),
            ("mirror status", "handoff export status"),
            ("mirror flush", "handoff export flush"),
        ] {
            assert_eq!(describe(former), describe(line), "{former}");
        }
        assert_eq!(
            format!("{:?}", parse("memory settle").unwrap()),
            format!("{:?}", parse("memory summarize").unwrap())
        );
        let help = parse("--help").unwrap_err() + &parse("memory --help").unwrap_err();
        for former in ["\n  handoffs ", "\n  mirror ", "\n  settle "] {
            assert!(!help.contains(former), "{former}: {help}");
        }
    }
}
