//! The arguments of `segue handoff` and `segue recall`, which bridge threads. What they mean is in the files under `commands`.

use std::path::PathBuf;

use clap::Args;
use protocol::Seq;

use crate::cli::{Model, one_or_more};

/// The decisions a file can hold; the page with all of them is `docs/src/decisions.md`.
pub(crate) const DECISIONS: &str = r#"Decisions for --decision-file, one of them in {"decisions": [D]}:
  accept   {"type": "approve"}, with "summary_sha256" only what you saw
  edit     {"type": "approve", "args": {"summary_md": "...", "title": "..."}}
  refine   {"type": "edit", "edited_action": {"name": "handoff_summary", "args": {"feedback": "..."}}}
  revert   the same with "args": {"revert_to": 0}
  redraft  the same with "args": {"redraft": {"model": "provider/name"}}, or {}, or {"model": "extractive"}
  decline  {"type": "reject", "message": "..."}
  preview  {"type": "preview"}
After refine, revert and redraft there is another proposal to decide about, and the exit code is 3."#;

/// Carry what matters of a thread into a fresh one, with a summary you review
///
/// A handoff is a bridge of context, not a fork: the new thread begins blank, and only what you see and accept goes along,
/// into its first turn. The old thread stays as it is. Before you accept, you can have the summary refined with feedback,
/// change it yourself or go back to an earlier draft. Works offline; with a model configured, the model drafts.
///
/// A handoff that is not decided waits, through restarts and for any client: `--list` shows those that wait, `--show` one of
/// them, and `--decide` answers it.
#[derive(Debug, Args)]
#[command(after_long_help = DECISIONS)]
pub(crate) struct Handoff {
    /// Thread (the beginning of its id, or `last`), or a session file of another agent (`-` is standard input)
    #[arg(value_name = "THREAD|FILE", required_unless_present_any = ["latest", "list", "show", "decide"])]
    pub(crate) source: Option<String>,
    /// What the new thread is for
    #[arg(value_name = "GOAL")]
    pub(crate) goal: Vec<String>,
    /// Take the newest session of an agent on this machine
    #[arg(long)]
    pub(crate) latest: bool,
    /// List the handoffs that wait, of all threads
    #[arg(long, group = "looks", conflicts_with_all = ["source", "latest", "messages", "answer"])]
    pub(crate) list: bool,
    /// Show one with everything that was proposed: its id, the beginning of it, or an interrupt's id
    #[arg(long, group = "looks", value_name = "ID", conflicts_with_all = ["source", "latest", "messages", "answer"])]
    pub(crate) show: Option<String>,
    /// With --show: that draft, counted from 1 [default: the newest]
    #[arg(long, value_name = "N", requires = "show", conflicts_with_all = ["source", "latest", "list", "decide"])]
    pub(crate) draft: Option<u32>,
    /// Answer one that waits; a THREAD beside it must be the one that is handed off
    #[arg(long, group = "looks", value_name = "ID", conflicts_with_all = ["goal", "latest", "messages"])]
    pub(crate) decide: Option<String>,
    /// Show the summary and change nothing; a handoff drafted for it is over then
    #[arg(long, group = "answer")]
    pub(crate) preview: bool,
    /// Accept the summary without asking
    #[arg(long, alias = "approve", group = "answer")]
    pub(crate) apply: bool,
    /// Answer with the decision in a JSON file (`-` is standard input): accept, edit, refine, revert, redraft, decline
    #[arg(long, value_name = "FILE", group = "answer")]
    pub(crate) decision_file: Option<PathBuf>,
    /// Cover only the newest N messages
    #[arg(long, value_name = "N", value_parser = one_or_more::<u64>)]
    pub(crate) messages: Option<u64>,
    #[command(flatten)]
    pub(crate) model: Model,
}

/// Find what was said in a thread and in those it was handed from
///
/// Looks through the original messages, whatever was condensed since, the newest statement first. The agent has the same as
/// a tool.
#[derive(Debug, Args)]
pub(crate) struct Recall {
    /// The beginning of the thread's id, or `last`
    pub(crate) thread: String,
    /// What to look for; any of the words is enough
    #[arg(required_unless_present = "from")]
    pub(crate) words: Vec<String>,
    /// The first event of a range to read instead
    #[arg(long, value_name = "SEQ", conflicts_with = "words")]
    pub(crate) from: Option<Seq>,
    /// The last event of the range [default: the first]
    #[arg(long, value_name = "SEQ", requires = "from")]
    pub(crate) to: Option<Seq>,
}
