//! `segue handoff --preview`: shows the draft that a handoff would store. Nothing is stored: a session file is read into
//! memory, and the draft has no row and no event.

use std::path::Path;

use agent::{HandoffRequestOptions, ImportReport};
use protocol::Thread;
use terminal::{TypeAheadBuffer, sanitize_path, shorten};

use super::answer::HandoffAnswerResult;
use super::report::{HandoffConclusion, report_conclusion};
use super::{
    HandoffSource, add_thread_hint, most_recent_thread, report_stopped_draft, request_options, show_pending,
    source_and_goal,
};
use crate::cli::OutputFormat;
use crate::cli::handoff::HandoffArgs;
use crate::commands::review::{self, FoldedLists};
use crate::commands::{CommandContext, import, threads};
use crate::exit::{CliFailure, CommandResult};

/// A conversation to preview a handoff of.
struct PreviewSource {
    /// The context whose agent has the thread: the command's own, or one over a journal in memory.
    context: CommandContext,
    /// The thread.
    thread: Thread,
    /// The report about the session file, if the conversation is one.
    import: Option<ImportReport>,
}

impl PreviewSource {
    /// Returns whether the thread exists only in memory.
    fn is_in_memory(&self) -> bool {
        let mut threads = self.import.iter().flat_map(|report| &report.threads);
        threads.any(|imported| imported.thread_id == self.thread.thread_id && imported.is_new)
    }
}

/// Shows the handoff that the arguments request, without storing anything. A pending handoff is shown as it is.
///
/// # Errors
/// Fails if the source cannot be read or has nothing to hand off, or if the draft fails.
pub(super) async fn run(context: &CommandContext, args: &HandoffArgs) -> CommandResult {
    let (source, goal) = source_and_goal(context, args)?;
    let source = match source {
        HandoffSource::Thread(id) => PreviewSource {
            context: context.clone(),
            thread: context.agent.threads().find(&id).await?,
            import: None,
        },
        HandoffSource::Session(path) => read_session(context, &path).await?,
    };
    threads::warn_of_incomplete_import(context, &source.thread);
    let request = HandoffRequestOptions { preview_only: true, ..request_options(context, args, goal).await? };
    let mut typed = TypeAheadBuffer::default();
    let drafted =
        review::preview_handoff(&source.context, source.thread.thread_id, request, &mut typed).await;
    review::show_unsent_input(context, &mut typed)?;
    let Some(pending) = drafted? else { return report_stopped_draft(context) };
    // A pending handoff is in the journal of the command's own agent.
    let (context, result) = match pending.is_new {
        true => (&source.context, HandoffAnswerResult::Previewed),
        false => (context, HandoffAnswerResult::Viewed),
    };
    match context.format {
        OutputFormat::Text if source.is_in_memory() => {
            let heading = format!("Handoff of {}", threads::thread_title(&source.thread));
            let screen = &context.screen;
            screen.print_line(screen.style.dim(shorten(&heading, screen.columns)))?;
            review::show_proposal(context, &pending, FoldedLists::JsonOption).await?;
        }
        OutputFormat::Text => {
            show_pending(context, &source.thread, &pending, FoldedLists::JsonOption).await?
        }
        OutputFormat::Json => {}
    }
    let (last_seq_before, import) = (source.thread.last_seq, source.import.as_ref());
    let continuity = match args.probe {
        true => review::requested_report(context, &pending).await?,
        false => None,
    };
    let conclusion = HandoffConclusion { pending: &pending, result, last_seq_before, import, continuity };
    report_conclusion(context, conclusion).await
}

/// Reads a session file into memory; of several conversations, the most recently active is previewed.
///
/// # Errors
/// Fails if the file cannot be read, is too large, or contains no conversation.
async fn read_session(context: &CommandContext, path: &Path) -> Result<PreviewSource, CliFailure> {
    let sessions = import::read_sessions(context, &[path.to_owned()])
        .await
        .map_err(|failure| add_thread_hint(failure, path))?;
    let mut threads = Vec::new();
    for imported in &sessions.report.threads {
        let agent = sessions.agent_of(imported.thread_id).await?;
        threads.push(agent.threads().find(&imported.thread_id.to_string()).await?);
    }
    let thread = most_recent_thread(threads, path)?;
    let agent = sessions.agent_of(thread.thread_id).await?;
    let report = sessions.report;
    if context.format == OutputFormat::Text {
        import::print_problems(context, &report);
        if report.threads.len() > 1 {
            let count = report.threads.len();
            context.screen.print_to_stderr(format!(
                "{} contains {count} conversations; the newest is previewed.",
                sanitize_path(path)
            ));
        }
    }
    let context = CommandContext { agent, ..context.clone() };
    Ok(PreviewSource { context, thread, import: Some(report) })
}
