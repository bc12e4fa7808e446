//! Summarizing old messages: `segue memory summarize`, and the same work at the end of `segue run` and `segue compact`.
//! The threads that are due are in the journal's outbox, so stopping the work loses nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use agent::{CancellationToken, FrameSender, OFFLINE_SUMMARY_MODEL, SummarizedTurns};
use serde_json::json;
use terminal::{NoEchoGuard, TurnTotals, TypeAheadBuffer, sanitize_line, wrap};
use tokio::time::sleep;

use crate::cli::OutputFormat;
use crate::commands::CommandContext;
use crate::commands::agent_work::{
    WorkDisplay, WorkVisibility, is_interactive, run_with_display, run_with_notices,
};
use crate::commands::history::search::CommandSyntax;
use crate::commands::import::format_count;
use crate::commands::memory::facts;
use crate::commands::memory::tiers::redaction_text;
use crate::exit::{CliFailure, CommandResult, ExitReason, error_chain};

/// The label of the progress until the worker reports its first phase.
const PHASE_LABEL: &str = "summarizing old messages";
/// The notice after the user has stopped the work.
const STOPPED_NOTICE: &str = "Stopped: the remaining threads stay in the queue.";
/// The longest time that another command spends on summarizing after its own work.
const AFTER_COMMAND_MAX: Duration = Duration::from_secs(30);

/// Performs `segue memory summarize`.
///
/// # Errors
/// Fails if the model cannot be opened or the journal cannot be used. Threads that cannot be summarized at present stay
/// in the queue, which is not a failure.
pub(crate) async fn run(context: &CommandContext) -> CommandResult {
    let worker = context.agent.memory().tiering_worker()?;
    if let Some(problem) = context.agent.memory().summarizer_problem() {
        context.print_notice(&problem);
    }
    let work = async |_: &agent::Agent, frames: &FrameSender, cancel: &CancellationToken| {
        worker.summarize_queue(frames, cancel).await
    };
    let result = match is_interactive(context) {
        true => {
            let display = WorkDisplay { label: PHASE_LABEL, visibility: WorkVisibility::Progress };
            let (mut typed, mut totals) = (TypeAheadBuffer::default(), TurnTotals::default());
            run_with_display(context, display, &mut typed, &mut totals, work).await?
        }
        false => run_with_notices(context, work).await?,
    };
    let summarized = match result.output {
        // Summaries that were finished before a stop are stored. The interrupted summary is not a failure.
        Err(_) if result.is_stopped => Vec::new(),
        summarized => summarized.map_err(agent::Error::from)?,
    };
    let pending = context.agent.memory().due_thread_count().await?;
    if context.format == OutputFormat::Json {
        context.print_json(&json!({"settled": summarized, "waiting": pending}))?;
    } else {
        print_summarized(context, &summarized).await?;
        let to_review = summarized.iter().map(|entry| entry.facts_to_review).sum();
        if let Some(text) = facts::to_review_text(to_review, CommandSyntax::Shell) {
            context.screen.print_line(text)?;
        }
        let threads = format_count(pending, "thread");
        let verb = if pending == 1 { "is" } else { "are" };
        match (result.is_stopped, summarized.is_empty(), pending) {
            (true, _, _) => context.screen.print_line(STOPPED_NOTICE)?,
            (false, true, 0) => context.screen.print_line("Nothing is due.")?,
            (false, false, 0) => {}
            (false, _, _) => context.print_notice(&format!(
                "{threads} {verb} still due: a run is active there, a decision is pending, or summarizing failed. \
                 `--log-level info` shows the reason. It is tried again later."
            )),
        }
    }
    Ok(if result.is_stopped { ExitReason::Cancelled } else { ExitReason::Success })
}

/// Prints a line for each thread whose messages were summarized.
/// The line names the author of the summary and the number of redacted secrets.
async fn print_summarized(
    context: &CommandContext,
    summarized: &[SummarizedTurns],
) -> Result<(), CliFailure> {
    let screen = &context.screen;
    for entry in summarized {
        let id = context.short_id(entry.thread_id).await;
        let writer = writer_text([entry.model.as_str()].into());
        let secrets = redaction_text(entry.withheld).map(|text| format!(" {text}")).unwrap_or_default();
        let text = format!("{} summarized by {writer}.{secrets}", format_count(entry.turns, "message"));
        screen.print_line(wrap(
            &text,
            screen.text_columns(),
            &format!("{}  ", screen.style.code(id)),
            "  ",
        ))?;
    }
    Ok(())
}

/// Returns a sentence about all messages that were summarized; `None` if no message was summarized.
pub(crate) fn summarized_text(summarized: &[SummarizedTurns], syntax: CommandSyntax) -> Option<String> {
    let messages: u64 = summarized.iter().map(|entry| entry.turns).sum();
    let models: BTreeSet<&str> = summarized.iter().map(|entry| entry.model.as_str()).collect();
    let secrets = redaction_text(summarized.iter().map(|entry| entry.withheld).sum());
    let secrets = secrets.map(|text| format!(" {text}")).unwrap_or_default();
    let writer = writer_text(models);
    let to_review = summarized.iter().map(|entry| entry.facts_to_review).sum();
    let to_review =
        facts::to_review_text(to_review, syntax).map(|text| format!(" {text}")).unwrap_or_default();
    let accepted: u64 = summarized.iter().map(|entry| entry.facts_accepted).sum();
    let accepted = match accepted {
        0 => String::new(),
        accepted => format!(" {} added to agent.md.", format_count(accepted, "fact")),
    };
    let text = format!(
        "{} moved to memory and summarized by {writer}.{secrets}{accepted}{to_review}",
        format_count(messages, "message")
    );
    (messages > 0).then_some(text)
}

/// Returns the authors of summaries: names of models, or the offline summary.
fn writer_text(models: BTreeSet<&str>) -> String {
    let names = models.into_iter().map(|model| match model {
        OFFLINE_SUMMARY_MODEL => "the offline summary".to_owned(),
        model => sanitize_line(model),
    });
    names.collect::<Vec<_>>().join(" and ")
}

/// Summarizes the messages that are due after a command has completed its own work, for at most [`AFTER_COMMAND_MAX`].
///
/// Ctrl-C stops the work. Threads that are not summarized stay in the queue. A failure is printed and does not change
/// the result of the command.
pub(crate) async fn summarize_after_command(context: &CommandContext) {
    match context.agent.memory().due_thread_count().await {
        Ok(due) if due > 0 => {}
        Ok(_) | Err(_) => return,
    }
    // The command itself has already reported a model that cannot be opened.
    let Ok(worker) = context.agent.memory().tiering_worker() else { return };
    // An echoed key would displace the line of the progress. If echo cannot be disabled, only the display suffers.
    let _no_echo = NoEchoGuard::enable(&context.screen);
    let work = async |_: &agent::Agent, frames: &FrameSender, cancel: &CancellationToken| {
        let stop = cancel.child_token();
        let summarize = worker.summarize_queue(frames, &stop);
        tokio::pin!(summarize);
        tokio::select! {
            biased;
            summarized = &mut summarize => summarized,
            () = sleep(AFTER_COMMAND_MAX) => {
                stop.cancel();
                // The worker is awaited after the cancellation because it still records the cost of its model calls.
                summarize.await
            }
        }
    };
    // If the user does not wait for the work to stop, the result is unknown and nothing can be reported.
    let Ok(result) = run_with_notices(context, work).await else { return };
    match result.output {
        Ok(summarized) => {
            let expected = match worker.summarization.summarizer.is_some() {
                true => ExpectedSummaryWriter::Model,
                false => ExpectedSummaryWriter::OfflineSummary,
            };
            if let Some(text) = unexpected_result_text(&summarized, expected) {
                context.print_notice(&text);
            }
        }
        Err(_) if result.is_stopped => {}
        Err(error) => context.print_notice(&format!("failed to {}", error_chain(&error.into()))),
    }
}

/// The configured author of summaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedSummaryWriter {
    /// A model.
    Model,
    /// The offline summary, because no model is configured.
    OfflineSummary,
}

/// Returns a sentence about the result if the user should know of it: the offline summary replaced the configured
/// model, secrets were redacted, or facts were proposed.
fn unexpected_result_text(summarized: &[SummarizedTurns], expected: ExpectedSummaryWriter) -> Option<String> {
    let is_fallback = expected == ExpectedSummaryWriter::Model
        && summarized.iter().any(|entry| entry.model == OFFLINE_SUMMARY_MODEL);
    let is_redacted = summarized.iter().any(|entry| entry.withheld > 0);
    let has_facts = summarized.iter().any(|entry| entry.facts_to_review + entry.facts_accepted > 0);
    (is_fallback || is_redacted || has_facts)
        .then(|| summarized_text(summarized, CommandSyntax::Shell))
        .flatten()
}
