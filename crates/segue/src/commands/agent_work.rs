//! Runs work of the agent in the foreground, such as a draft or a compaction. The progress is shown and typed keys are
//! buffered if the user is at a terminal; only notices are printed for a program. Ctrl-C stops the work. The caller
//! shows the result.

use agent::{Agent, CancellationToken, Frame, FrameSender};
use terminal::{
    Audience, BracketedPasteGuard, NoEchoGuard, ProgressDisplay, ProgressUnit, Screen, TurnTotals, TurnView,
    TypeAheadBuffer, WatchControl, WatchEvent, sanitize_line, watch,
};

use crate::cli::OutputFormat;
use crate::commands::CommandContext;
use crate::exit::CliFailure;

/// The frames of the work that are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkVisibility {
    /// All frames, for work after which the agent may continue its turn.
    Everything,
    /// Only the current phase and notices.
    Progress,
}

/// The way in which the work is displayed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkDisplay {
    /// The label of the progress until the work reports its first phase.
    pub(crate) label: &'static str,
    /// The frames that are shown.
    pub(crate) visibility: WorkVisibility,
}

/// The result of the work.
pub(crate) struct WorkResult<T> {
    /// The value that the work returned.
    pub(crate) output: T,
    /// True if the work was asked to stop. It may still have completed.
    pub(crate) is_stopped: bool,
}

/// Returns whether the output is text for a user at a terminal.
pub(crate) fn is_interactive(context: &CommandContext) -> bool {
    context.format == OutputFormat::Text && context.screen.audience == Audience::Person
}

/// Performs work and shows it to the user. `totals` is replaced by the totals of the work; its `pending_calls` are the
/// tool calls without a result, before and after the work.
///
/// # Errors
/// Fails if the terminal cannot be read or written, or if the user does not wait for the work to stop.
pub(crate) async fn run_with_display<T>(
    context: &CommandContext,
    display: WorkDisplay,
    typed: &mut TypeAheadBuffer,
    totals: &mut TurnTotals,
    work: impl AsyncFnOnce(&Agent, &FrameSender, &CancellationToken) -> T,
) -> Result<WorkResult<T>, CliFailure> {
    let _no_echo = NoEchoGuard::enable(&context.screen)?;
    let _bracketed_paste = BracketedPasteGuard::enable(&context.screen)?;
    let mut view = TurnView::new(&context.screen, typed);
    view.set_initial_phase(display.label);
    view.expect_calls(std::mem::take(&mut totals.pending_calls));
    let result = watch(
        async |frames, cancel| WorkResult {
            output: work(&context.agent, &frames, &cancel).await,
            is_stopped: cancel.is_cancelled(),
        },
        |event| match event {
            // The panel of the review repeats the failure of a draft, and stays on the screen.
            WatchEvent::Frame(_, Frame::AttemptFailed { .. }) => Ok(WatchControl::Continue),
            WatchEvent::Frame(_, Frame::Notice { .. } | Frame::Progress { .. })
            | WatchEvent::Tick
            | WatchEvent::Stopping => view.handle_watch_event(event),
            WatchEvent::Frame(..) | WatchEvent::Gap(_)
                if display.visibility == WorkVisibility::Everything =>
            {
                view.handle_watch_event(event)
            }
            WatchEvent::Frame(..) | WatchEvent::Gap(_) => Ok(WatchControl::Continue),
        },
    )
    .await;
    *totals = view.finish()?;
    Ok(result?)
}

/// Returns a progress display. It is hidden if the output format is JSON.
pub(crate) fn progress_display(screen: &Screen, format: OutputFormat, unit: ProgressUnit) -> ProgressDisplay {
    match format {
        OutputFormat::Text => ProgressDisplay::new(screen, unit),
        OutputFormat::Json => ProgressDisplay::hidden(unit),
    }
}

/// Performs long work with a progress bar. Ctrl-C stops it.
///
/// # Errors
/// Fails if the user does not wait for the work to stop.
pub(crate) async fn run_with_bar<T, W: Future<Output = T>>(
    bar: ProgressDisplay,
    work: impl FnOnce(FrameSender, CancellationToken) -> W,
) -> Result<T, CliFailure> {
    let show_progress = |event: WatchEvent<'_>| {
        if let WatchEvent::Frame(_, frame) = event {
            bar.update(frame);
        }
        Ok(WatchControl::Continue)
    };
    Ok(watch(work, show_progress).await?)
}

/// Performs work with a progress bar, and prints its notices.
///
/// # Errors
/// Fails if the user does not wait for the work to stop.
pub(crate) async fn run_with_notices<T>(
    context: &CommandContext,
    work: impl AsyncFnOnce(&Agent, &FrameSender, &CancellationToken) -> T,
) -> Result<WorkResult<T>, CliFailure> {
    let bar = progress_display(&context.screen, context.format, ProgressUnit::Steps);
    Ok(watch(
        async |frames, cancel| WorkResult {
            output: work(&context.agent, &frames, &cancel).await,
            is_stopped: cancel.is_cancelled(),
        },
        |event| {
            match event {
                // No report contains a notice, such as the cost of a draft that is about to start.
                WatchEvent::Frame(_, Frame::Notice { text }) if context.format == OutputFormat::Json => {
                    context.screen.print_to_stderr(sanitize_line(text));
                }
                WatchEvent::Frame(_, Frame::Notice { text } | Frame::AttemptFailed { text }) => {
                    bar.suspend(|| context.print_notice(text))
                }
                WatchEvent::Frame(_, frame) => bar.update(frame),
                WatchEvent::Gap(_) | WatchEvent::Tick | WatchEvent::Stopping => {}
            }
            Ok(WatchControl::Continue)
        },
    )
    .await?)
}
