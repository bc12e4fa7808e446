//! `segue compact`, `segue uncompact` and `segue context`: compacts the context of a thread, undoes a compaction, and
//! shows the use of the context window. The chat's commands share this code. The crate `compaction` decides which
//! messages are compacted and when.

use agent::{
    Agent, CancellationToken, CompactionParameters, ContextReport, Error, FrameSender, KeepPolicy,
    OFFLINE_SUMMARY_MODEL, RunError, ThreadCompaction, ThreadCompactionUndo, ThreadError,
};
use protocol::{ParentKind, Seq, Thread, ThreadId};
use serde::Serialize;
use serde_json::json;
use terminal::context_window::render_report;
use terminal::marker::{CardFold, CompactionStatus, compaction_card};
use terminal::{Audience, Screen, TurnTotals, TypeAheadBuffer, format_tokens, sanitize_line, wrap};

use crate::cli::OutputFormat;
use crate::cli::compact::CompactArgs;
use crate::commands::agent_work::{
    WorkDisplay, WorkVisibility, is_interactive, run_with_display, run_with_notices,
};
use crate::commands::import::format_count;
use crate::commands::memory::summarize;
use crate::commands::{CommandContext, NO_MODEL_HINT};
use crate::exit::{CliFailure, CommandResult, ExitReason};

/// The label of the progress until the compaction reports its first phase.
const PHASE_LABEL: &str = "compacting the conversation";

/// The notice after the user has stopped a compaction.
pub(crate) const STOPPED_NOTICE: &str = "Stopped: nothing was changed.";

/// The options of a compaction.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CompactOptions {
    /// The topics that the summary must preserve.
    pub(crate) focus: Option<String>,
    /// The number of newest messages that are not compacted; `None` uses the configured number.
    pub(crate) keep: Option<u64>,
    /// Selects between storing the compaction and a preview.
    pub(crate) mode: CompactionMode,
}

/// Selects between storing a compaction and only showing it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum CompactionMode {
    /// The compaction is stored.
    #[default]
    Store,
    /// The compaction is only shown.
    Preview,
}

/// The result of a compaction.
pub(crate) enum CompactOutcome {
    /// A compaction, stored or as a preview.
    Compacted(Box<ThreadCompaction>),
    /// Nothing can be compacted; contains the reason.
    NothingToCompact(String),
}

/// The output of `--json`.
#[derive(Serialize)]
struct CompactionReport<'a> {
    /// The compacted thread.
    thread_id: ThreadId,
    /// `condensed`, `previewed` or `nothing`.
    outcome: &'static str,
    /// The reason why nothing was compacted.
    reason: Option<&'a str>,
    /// The marker, in the form of `segue history --json`.
    marker: Option<&'a agent::HistoryEntry>,
    /// The compaction that was stored, or that would be stored without `--preview`.
    compaction: Option<&'a protocol::Compaction>,
}

/// Performs `segue compact`, then summarizes old messages that are due.
///
/// # Errors
/// Fails if the thread does not exist, or as [`compact_thread`] does.
pub(crate) async fn run(context: &CommandContext, args: CompactArgs) -> CommandResult {
    let thread = context.agent.threads().find(&args.thread).await?;
    let thread_id = thread.thread_id;
    let mode = if args.preview { CompactionMode::Preview } else { CompactionMode::Store };
    let options = CompactOptions { focus: args.focus, keep: args.keep, mode };
    let mut typed = TypeAheadBuffer::default();
    let outcome = compact_thread(context, thread_id, options, &mut typed, &mut TurnTotals::default()).await?;
    let Some(outcome) = outcome else {
        return match is_interactive(context) {
            true => {
                context.screen.print_line(STOPPED_NOTICE)?;
                Ok(ExitReason::Cancelled)
            }
            false => Err(CliFailure::cancelled("compact the thread")
                .with_hint("nothing was changed; run the same command to try again")),
        };
    };
    match context.format {
        OutputFormat::Json => print_result_json(context, thread_id, &outcome)?,
        OutputFormat::Text => print_result(context, &thread, &outcome).await?,
    }
    if mode == CompactionMode::Store {
        summarize::summarize_after_command(context).await;
    }
    Ok(ExitReason::Success)
}

/// Prints the result as text, with a hint after a stored compaction.
async fn print_result(
    context: &CommandContext,
    thread: &Thread,
    outcome: &CompactOutcome,
) -> Result<(), CliFailure> {
    if let CompactOutcome::NothingToCompact(reason) = outcome {
        let text = nothing_to_compact_text(context, thread, reason).await;
        context.screen.print_line(wrap(&text, context.screen.text_columns(), "", "  "))?;
        return Ok(());
    }
    let thread_id = thread.thread_id;
    context.screen.print_lines(result_lines(&context.screen, outcome))?;
    if let CompactOutcome::Compacted(compacted) = outcome
        && compacted.is_stored
        && context.screen.audience == Audience::Person
    {
        let id = context.short_id(thread_id).await;
        let hint = format!(
            "The messages are kept: `segue history {id} --expand` shows them, `segue uncompact {id}` undoes it."
        );
        let hint = wrap(&hint, context.screen.text_columns(), "", "  ");
        context.screen.print_line(context.screen.style.dim(hint))?;
    }
    Ok(())
}

/// Returns why nothing can be compacted in the thread. For the child of a handoff, names its parent: after a handoff, `last`
/// is the empty child, and the long thread is its parent.
async fn nothing_to_compact_text(context: &CommandContext, thread: &Thread, reason: &str) -> String {
    let id = context.short_id(thread.thread_id).await;
    let reason = sanitize_line(reason);
    let (Some(parent), Some(ParentKind::Handoff)) = (thread.parent_id, thread.parent_kind) else {
        return format!("Nothing to compact in {id}: {reason}.");
    };
    let (parent, count) = (context.short_id(parent).await, format_count(thread.message_count, "message"));
    format!(
        "Nothing to compact in {id} (the child of a handoff, {count}): {reason}. Compact its parent with `segue compact {parent}`."
    )
}

/// Compacts a thread, or computes a preview; `None` if the user stopped the work and nothing was changed. Text that is
/// typed meanwhile goes to `typed`, the usage of the model to `totals`.
///
/// # Errors
/// Fails if the compaction fails, another run is active, a decision is pending, or the journal cannot be used.
pub(crate) async fn compact_thread(
    context: &CommandContext,
    thread_id: ThreadId,
    options: CompactOptions,
    typed: &mut TypeAheadBuffer,
    totals: &mut TurnTotals,
) -> Result<Option<CompactOutcome>, CliFailure> {
    let request = CompactionParameters { focus: options.focus, keep: options.keep.map(KeepPolicy::Messages) };
    let work = async |agent: &Agent, frames: &FrameSender, cancel: &CancellationToken| match options.mode {
        CompactionMode::Store => agent.threads().compact(thread_id, &request, frames, cancel).await,
        CompactionMode::Preview => {
            agent.threads().preview_compaction(thread_id, &request, frames, cancel).await
        }
    };
    let result = match is_interactive(context) {
        true => {
            let display = WorkDisplay { label: PHASE_LABEL, visibility: WorkVisibility::Progress };
            run_with_display(context, display, typed, totals, work).await?
        }
        false => run_with_notices(context, work).await?,
    };
    match result.output {
        Ok(compacted) => Ok(Some(CompactOutcome::Compacted(Box::new(compacted)))),
        Err(Error::Thread(ThreadError::NothingToCompact { reason, .. })) => {
            Ok(Some(CompactOutcome::NothingToCompact(reason)))
        }
        // A compaction is stored in one transaction, so a stopped one has changed nothing.
        Err(_) if result.is_stopped => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the result as text: the card of the compaction, or one line.
pub(crate) fn result_lines(screen: &Screen, outcome: &CompactOutcome) -> Vec<String> {
    let wrap_text = |text: &str| wrap(text, screen.text_columns(), "", "  ");
    match outcome {
        CompactOutcome::Compacted(compacted) => {
            let (status, fold) = match &compacted.marker {
                Some(marker) => (CompactionStatus::Active(marker.seq), CardFold::Closed),
                None => (CompactionStatus::Preview, CardFold::Open),
            };
            let time = compacted.marker.as_ref().map(|marker| marker.created_at);
            let mut lines = compaction_card(screen, &compacted.compaction.clone().into(), time, status, fold);
            if compacted.compaction.model == OFFLINE_SUMMARY_MODEL {
                let text = "No model wrote the summary: it is the offline summary.";
                lines.push(screen.style.warn(wrap_text(text)));
            }
            if !compacted.is_stored {
                lines.push(screen.style.dim(wrap_text("Preview: nothing was changed.")));
            }
            lines
        }
        CompactOutcome::NothingToCompact(reason) => {
            vec![wrap_text(&format!("Nothing to compact: {}.", sanitize_line(reason)))]
        }
    }
}

/// Prints the result as one JSON object.
fn print_result_json(
    context: &CommandContext,
    thread_id: ThreadId,
    outcome: &CompactOutcome,
) -> Result<(), CliFailure> {
    let report =
        |name| CompactionReport { thread_id, outcome: name, reason: None, marker: None, compaction: None };
    context.print_json(&match outcome {
        CompactOutcome::Compacted(compacted) => CompactionReport {
            marker: compacted.marker.as_ref(),
            compaction: Some(&compacted.compaction),
            ..report(if compacted.is_stored { "condensed" } else { "previewed" })
        },
        CompactOutcome::NothingToCompact(reason) => {
            CompactionReport { reason: Some(reason), ..report("nothing") }
        }
    })
}

/// Performs `segue uncompact`: undoes the newest compaction of a thread.
///
/// # Errors
/// Fails if the thread does not exist, nothing to undo, or the journal cannot be used.
pub(crate) async fn run_uncompact(context: &CommandContext, thread: &str) -> CommandResult {
    let thread_id = context.agent.threads().find(thread).await?.thread_id;
    let undone = context.agent.threads().undo_compaction(thread_id).await?;
    match context.format {
        OutputFormat::Json => context.print_json(&json!({
            "thread_id": thread_id, "marker_seq": undone.marker_seq, "replaced_count": undone.replaced_count,
            "tokens_before": undone.tokens_before, "tokens_after": undone.tokens_after,
        }))?,
        OutputFormat::Text => {
            context.screen.print_line(wrap(
                &uncompacted_text(&undone),
                context.screen.text_columns(),
                "",
                "  ",
            ))?;
        }
    }
    Ok(ExitReason::Success)
}

/// Returns the sentence about an undone compaction.
pub(crate) fn uncompacted_text(undone: &ThreadCompactionUndo) -> String {
    let verb = if undone.replaced_count == 1 { "is" } else { "are" };
    let warning = match undone.is_too_large {
        true => " This exceeds the model's window, so your next message starts a compaction again.",
        false => "",
    };
    format!(
        "Undone: {} {verb} sent to the model again, {} → {} tokens.{warning}",
        format_count(undone.replaced_count, "message"),
        format_tokens(undone.tokens_before),
        format_tokens(undone.tokens_after)
    )
}

/// Returns the sequence number of the marker of the thread's active compaction; `None` if no compaction is active or
/// the journal cannot be read.
pub(crate) async fn active_compaction(context: &CommandContext, thread_id: ThreadId) -> Option<Seq> {
    let report = context.agent.threads().context_report(thread_id).await.ok()?;
    report.condensed.map(|compaction| compaction.marker_seq)
}

/// Returns the sentence about a change of the active compaction, for example by a rewind; `None` if it did not change.
pub(crate) fn active_compaction_change_text(before: Option<Seq>, after: Option<Seq>) -> Option<String> {
    match after {
        _ if before == after => None,
        Some(marker_seq) => Some(format!(
            "The compaction of marker #{marker_seq} is active again: the model gets its summary instead of the older messages."
        )),
        None => Some("No compaction is active any more: the model gets all messages.".to_owned()),
    }
}

/// Performs `segue context`: shows the use of the context window.
///
/// # Errors
/// Fails if the thread does not exist, or as [`context_report`] does.
pub(crate) async fn run_context(context: &CommandContext, thread: &str) -> CommandResult {
    let thread_id = context.agent.threads().find(thread).await?.thread_id;
    let report = context_report(context, thread_id).await?;
    if context.format == OutputFormat::Json {
        context.print_json(&report)?;
        return Ok(ExitReason::Success);
    }
    context.screen.print_lines(render_report(&context.screen, &report))?;
    Ok(ExitReason::Success)
}

/// Returns the use of the model's context window by the thread.
///
/// # Errors
/// Fails if no model is configured, because its window is unknown then, or if the journal cannot be used.
pub(crate) async fn context_report(
    context: &CommandContext,
    thread_id: ThreadId,
) -> Result<ContextReport, CliFailure> {
    match context.agent.threads().context_report(thread_id).await {
        Err(Error::Run(RunError::NoModel(_))) => {
            Err(CliFailure::new(ExitReason::Config, "compute the use of the window: no model is configured")
                .with_hint(NO_MODEL_HINT))
        }
        report => Ok(report?),
    }
}
